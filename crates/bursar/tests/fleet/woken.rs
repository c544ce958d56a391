//! One process waits for jobs that another one enqueues.

use std::slice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{Budget, Bursar, HoldId, JobSpec, LeaseRequest, Limit, Op, Payload, Queue, Request, Rules, Window};
use bursar_store::conformance::CommitRequests;
use bursar_store::{LockPolicy, PostgresOptions, PostgresStore, RequestOutcome, Setup, SqliteStore, Store};
use bursar_testkit::RandomIds;
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use crate::network;
use crate::process::{PATIENCE, Process, ask, job, runtime};

/// The jobs that are measured, one after the other.
const ROUNDS: usize = 40;
/// The limit of the median delay: far more than a wake-up takes, and far less than polling once a second.
const SOON: Duration = Duration::from_millis(250);
/// On a slow machine, the limit is this multiple of the time that a job takes within one process.
const TIMES: u32 = 5;

pub(crate) fn a_job_of_another_process_starts_at_once_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    assert_eq!(Pair::new(&url, &url, true).soon(), 0, "SQLite sends no notifications");
}

pub(crate) fn a_job_of_another_process_starts_at_once_on_postgres() {
    let url = bursar_testkit::fresh_database();
    let mut pair = Pair::new(&url, &url, true);
    pair.until_heard(0);
    assert!(pair.soon() > 0);
}

pub(crate) fn a_job_of_another_process_starts_at_once_without_a_listener() {
    let url = bursar_testkit::fresh_database();
    assert_eq!(Pair::new(&url, &url, false).soon(), 0, "the process does not listen");
}

pub(crate) fn a_job_of_another_process_starts_at_once_without_notifications() {
    let url = bursar_testkit::fresh_database();
    assert_eq!(Pair::new(&url, &network::deaf(&url), true).soon(), 0, "no notification arrives");
}

pub(crate) fn a_listener_reconnects_after_a_lost_connection() {
    let url = bursar_testkit::fresh_database();
    let mut pair = Pair::new(&url, &url, true);
    pair.until_heard(0);
    let killed = pair.run(async |_| {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2";
        sqlx::query_scalar::<_, i64>(kill).fetch_one(&mut conn).await.unwrap()
    });
    assert_eq!(killed, 1, "one connection listens");
    let heard = pair.round().1;
    pair.until_heard(heard + 2);
    pair.soon();
}

/// A process frees units and ends before it can resume the jobs that wait for them.
pub(crate) fn parked_jobs_resume_when_another_process_frees_units() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", folder.path().join("bursar.db").display());
    for url in [bursar_testkit::fresh_database(), file] {
        let runtime = runtime();
        let hold = runtime.block_on(async {
            let here = Bursar::open(&url).await.unwrap();
            here.ledger().define("room", Budget::new([Limit::new(10, Window::Lifetime)])).await.unwrap();
            let command = here.command().charge("room", 6).settle_with_job().job(job());
            let id = command.submit().await.unwrap().done.jobs[0].id;
            let leased = here.jobs().lease(ask(1)).await.unwrap().jobs.remove(0);
            assert_eq!(leased.id, id);
            let hold = here.ledger().hold("room", 4, PATIENCE).await.unwrap().detach();
            // The attempt spent all its held units, so nothing is left for another one.
            let failure = bursar::Failure::new("bad", "x").retry_after(Duration::ZERO);
            let failure = failure.spent([bursar::Usage { scope: None, amount: 1 }]);
            here.jobs().fail(id, leased.life.fence, failure).await.unwrap();
            assert_eq!(here.jobs().find(id).await.unwrap().unwrap().life.state, bursar::JobState::AwaitingBudget);
            here.close().await;
            hold
        });
        let waiter = Process::start(&["waiter", &url, "listens"]);
        // Like a process that is killed right after its commit: it notifies no one.
        runtime.block_on(release(&url, hold));
        assert!(waiter.hear().starts_with("started "));
        waiter.end();
    }
}

/// Releases a hold with the store alone, without notifications.
async fn release(url: &str, hold: HoldId) {
    let ids = Arc::new(Mutex::new(RandomIds::new(77)));
    let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: false };
    let store: Box<dyn Store> = match url.strip_prefix("sqlite://") {
        Some(path) => Box::new(SqliteStore::open(path, setup).await.unwrap()),
        None => Box::new(PostgresStore::open(url, setup, PostgresOptions::default()).await.unwrap()),
    };
    let release = Arc::new(Request::from(Op::Release { hold }));
    let mut patience = LockPolicy::Skip;
    loop {
        let outcomes = store.commit_requests(slice::from_ref(&release), patience).await.unwrap();
        patience = match &outcomes[..] {
            [RequestOutcome::Answered(Ok(_))] => break,
            // The other process maintains the same scope and holds its lock for a short time.
            [RequestOutcome::Blocked(locks)] => LockPolicy::WaitFor(locks[0].clone(), PATIENCE),
            other => panic!("{other:?}"),
        };
    }
    store.close().await;
}

/// Two processes: this one enqueues, the other one waits.
struct Pair {
    runtime: tokio::runtime::Runtime,
    here: Bursar,
    waiter: Process,
}

impl Pair {
    fn new(here: &str, there: &str, listens: bool) -> Pair {
        let runtime = runtime();
        let here = runtime.block_on(Bursar::open(here)).unwrap();
        let waiter = Process::start(&["waiter", there, if listens { "listens" } else { "looks" }]);
        Pair { runtime, here, waiter }
    }

    fn run<T>(&self, work: impl AsyncFnOnce(&Bursar) -> T) -> T {
        self.runtime.block_on(work(&self.here))
    }

    /// Enqueues a job and waits until it starts. Returns the delay, and the notifications received by the other process.
    fn round(&mut self) -> (Duration, u64) {
        let (id, at) = self.run(async |here| (here.jobs().enqueue(job()).await.unwrap().id, Instant::now()));
        let said = self.waiter.hear();
        let [started, which, hints] = said.split(' ').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((started, which), ("started", id.to_string().as_str()));
        (at.elapsed(), hints.parse().unwrap())
    }

    /// Runs rounds until the other process has received more than `least` notifications.
    fn until_heard(&mut self, least: u64) {
        let until = Instant::now() + PATIENCE;
        while self.round().1 <= least {
            assert!(Instant::now() < until, "no notification arrives");
        }
    }

    /// Measures how long a job takes in this process, without a wake-up: enqueued, leased and completed in another queue.
    fn here(&self) -> Duration {
        self.run(async |here| {
            let (queue, at) = (Queue::new("here").unwrap(), Instant::now());
            let id = here.jobs().enqueue(JobSpec { queue: queue.clone(), ..job() }).await.unwrap().id;
            let leased =
                here.jobs().lease(LeaseRequest { queues: vec![queue], ..ask(1) }).await.unwrap().jobs.remove(0);
            assert_eq!(leased.id, id);
            here.jobs().complete(id, leased.life.fence, Payload::default(), None).await.unwrap();
            at.elapsed()
        })
    }

    /// Asserts that most jobs start soon. Returns the number of notifications that the other process has received.
    fn soon(mut self) -> u64 {
        let rounds: Vec<_> = (0..ROUNDS).map(|_| (self.here(), self.round())).collect();
        let median = |mut times: Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2]
        };
        let (here, rounds): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
        let within = SOON.max(median(here) * TIMES);
        let took = median(rounds.iter().map(|(took, _)| *took).collect());
        assert!(took < within, "jobs started after {took:?}, not within {within:?}: {rounds:?}");
        assert!(self.waiter.end().is_empty());
        self.runtime.block_on(self.here.close());
        rounds.last().unwrap().1
    }
}
