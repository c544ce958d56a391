//! Four processes lease the jobs of one database, and many leases expire.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bursar::{Backoff, Budget, Bursar, Event, JobState, JournalEvent, Limit, QueueConfig, Retry, Span, Window};
use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::member::{COST, LATE};
use crate::process::{PATIENCE, Process, job, runtime};

const PROCESSES: usize = 4;
const JOBS: usize = 600;
/// The units held for a job; more than it costs.
const HELD: i64 = 10;

pub(crate) fn a_job_has_one_worker_at_a_time_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    one_at_a_time(&format!("sqlite://{}", folder.path().join("bursar.db").display()));
}

pub(crate) fn a_job_has_one_worker_at_a_time_on_postgres() {
    one_at_a_time(&bursar_testkit::fresh_database());
}

fn one_at_a_time(url: &str) {
    let runtime = runtime();
    let here = runtime.block_on(async {
        let here = Bursar::options(url).patience(PATIENCE).open().await.unwrap();
        let retry = Retry { max_attempts: 1_000, backoff: Backoff::Fixed { delay: Span::from_millis(1) } };
        here.queues().define("q", QueueConfig { retry, ..QueueConfig::default() }).await.unwrap();
        here.ledger().define("room", Budget::new([Limit::new(i64::MAX / 2, Window::Lifetime)])).await.unwrap();
        here
    });
    let fleet: Vec<_> = (0..PROCESSES).map(|_| Process::start(&["worker", url, "listens"])).collect();
    runtime.block_on(async {
        let enqueue = || here.command().charge("room", HELD).settle_with_job().job(job()).submit();
        for _ in 0..JOBS / 100 {
            try_join_all((0..100).map(|_| enqueue())).await.unwrap();
        }
        let until = Instant::now() + PATIENCE * 5;
        while here.queues().figures("q", 1).await.unwrap().count(JobState::Succeeded) < JOBS as i64 {
            assert!(Instant::now() < until, "{:?}", here.queues().figures("q", 1).await.unwrap());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let answers: Vec<String> = fleet.into_iter().flat_map(Process::end).collect();
    runtime.block_on(async {
        let journal = journal(&here).await;
        let books = Books::of(&journal);
        books.compare(&answers);
        let room = here.ledger().budget("room").await.unwrap().unwrap();
        assert_eq!(room.balances[0].held, 0);
        assert_eq!(room.balances[0].posted, books.spent);
        let report = here.verify().await.unwrap();
        assert!(report.is_ok(), "{:#?}", report.violations);
        here.close().await;
    });
}

async fn journal(bursar: &Bursar) -> Vec<JournalEvent> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let (events, next) = bursar.journal().read(after, 1_000).await.unwrap();
        if next == after {
            return all;
        }
        all.extend(events);
        after = next;
    }
}

/// A summary of the journal.
#[derive(Default)]
struct Books {
    /// The fence of the lease that completed each job.
    completed: BTreeMap<String, u64>,
    /// Leases that expired.
    expired: BTreeSet<(String, u64)>,
    /// Leases whose usage was charged after they were lost.
    billed: BTreeSet<(String, u64)>,
    spent: i64,
}

impl Books {
    /// Summarizes the journal and checks it: leases of a job do not overlap, fences increase, only the last lease ends the
    /// job, and each job is completed and settled once.
    fn of(journal: &[JournalEvent]) -> Books {
        let mut books = Books::default();
        let mut running: BTreeMap<String, u64> = BTreeMap::new();
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        let mut holds: BTreeMap<String, u32> = BTreeMap::new();
        for JournalEvent { event, position, .. } in journal {
            match event {
                Event::JobLeased(lease) => {
                    let (job, fence) = (lease.job, &lease.fence);
                    assert_eq!(running.insert(job.to_string(), *fence), None, "two leases of {job} at {position}");
                    let before = last.insert(job.to_string(), *fence);
                    assert!(before.is_none_or(|before| before < *fence), "{job} has fence {fence} after {before:?}");
                    assert!(!books.completed.contains_key(&job.to_string()), "{job} is leased when it has ended");
                }
                Event::JobRescued { job, fence, .. } => {
                    assert_eq!(running.remove(&job.to_string()), Some(*fence), "{job} at {position}");
                    books.expired.insert((job.to_string(), *fence));
                }
                Event::JobSucceeded { job, fence, .. } => {
                    assert_eq!(running.remove(&job.to_string()), Some(*fence), "{job} at {position}");
                    assert_eq!(books.completed.insert(job.to_string(), *fence), None, "{job} succeeds twice");
                }
                Event::JobReturned { job, fence } => {
                    assert_eq!(running.remove(&job.to_string()), Some(*fence), "{job} at {position}");
                }
                Event::HoldPlaced { hold, .. } => assert_eq!(holds.insert(hold.to_string(), 0), None),
                Event::HoldCommitted { hold, charges, .. } => {
                    *holds.get_mut(&hold.to_string()).expect("the hold was placed") += 1;
                    books.spent += charges.iter().map(|charge| charge.actual.unwrap()).sum::<i64>();
                }
                Event::JobBilled { job, fence, charges, lost } => {
                    assert!(*lost && books.expired.contains(&(job.to_string(), *fence)), "{job} at {position}");
                    assert!(books.billed.insert((job.to_string(), *fence)), "{fence} of {job} is billed twice");
                    books.spent += charges.iter().map(|charge| charge.amount).sum::<i64>();
                }
                Event::JobEnqueued { .. } | Event::QueueDefined { .. } | Event::BudgetDefined { .. } => {}
                other => panic!("unexpected event: {other:?}"),
            }
        }
        assert!(running.is_empty() && books.completed.len() == JOBS && holds.len() == JOBS);
        assert!(holds.values().all(|settled| *settled == 1), "each hold is settled once");
        books
    }

    /// Checks that the answers which the processes received agree with the journal.
    fn compare(&self, answers: &[String]) {
        let (mut completed, mut lost) = (0, 0);
        for line in answers {
            let words: Vec<&str> = line.split(' ').collect();
            let (job, fence): (&str, u64) = (words[1], words[2].parse().unwrap());
            match words[0] {
                "completed" => {
                    assert_eq!(self.completed.get(job), Some(&fence), "{line}");
                    completed += 1;
                }
                "lost" => {
                    assert_ne!(self.completed.get(job), Some(&fence), "{line}");
                    assert_eq!(words[3] == "true", self.billed.contains(&(job.to_owned(), fence)), "{line}");
                    lost += 1;
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(completed, JOBS, "each job was completed by one worker");
        assert!(lost > 0 && !self.billed.is_empty(), "leases were lost, and some reported usage");
        assert!(self.spent >= COST * JOBS as i64 + LATE * self.billed.len() as i64);
    }
}
