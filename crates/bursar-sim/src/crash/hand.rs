//! A worker in a process that is going to be killed: it leases jobs, ends them in every way, late at times, and keeps a diary.

use std::sync::Arc;
use std::time::Duration;

use bursar::{Answer, Bursar, Context, Error, Failure, Op, Outcome, Payload, Queue, Refusal, Request, Span};
use bursar_core::id::JobId;
use bursar_core::job::{Beat, End, Finish, Job, LeaseAsk, Usage};
use bursar_core::name::{Scope, WorkerName};

use super::act::QUEUE;
use super::diary::{Diary, Line};
use super::dice::Dice;
use super::leases::LeaseId;
use super::worker::TEAMS;

/// What the requests of workers are known by in the journal.
pub(crate) const HAND: &str = "hand-";
/// How an end that went well is called.
pub(crate) const COMPLETED: &str = "completed";
/// Jobs leased at once.
const CAPACITY: u32 = 4;
/// How long a lease lasts: short, so that those of the dead and of those who stall lapse within a run.
const LEASE: Span = Span::from_millis(200);
/// A worker that stalls does so for longer than its lease.
const STALL: Duration = Duration::from_millis(250);
/// The pause when there is nothing to do.
const IDLE: Duration = Duration::from_millis(5);
/// Leases of the dead that one worker reports for.
const LATE: usize = 4;
/// Lapsed leases that are taken back at once.
const TENDED: usize = 200;

pub(crate) struct Hand {
    name: WorkerName,
    dice: Dice,
    queue: Queue,
}

impl Hand {
    pub(crate) fn new(name: &str, dice: Dice) -> Hand {
        let name = WorkerName::new(format!("{HAND}{name}")).expect("a name");
        Hand { name, dice, queue: Queue::new(QUEUE).expect("a name") }
    }

    /// Works until it is killed; first it tells what came of leases of the dead, as if their words had been long on the way.
    pub(crate) async fn work_on(mut self, bursar: Bursar, diary: Arc<Diary>, mut dead: Vec<LeaseId>) {
        for _ in 0..LATE {
            let Some((job, fence)) = self.dice.take(&mut dead) else { break };
            until_taken_back(&bursar, job, fence).await;
            let end = if self.dice.percent(80) { self.spent() } else { self.any() };
            self.end(&bursar, &diary, job, fence, &end).await;
        }
        let mut drops = true;
        loop {
            let jobs = self.lease(&bursar).await;
            if jobs.is_empty() {
                tokio::time::sleep(IDLE).await;
            }
            for job in jobs {
                let (job, fence) = (job.id, job.life.fence);
                diary.write(&Line::Leased { job, fence }).expect("a diary can be kept");
                // Of the first one, and of some later, nothing is heard any more: there is always something to come late.
                if std::mem::take(&mut drops) || self.dice.percent(10) {
                    continue;
                }
                if self.dice.percent(20) {
                    self.beat(&bursar, &diary, job, fence).await;
                }
                if self.dice.percent(10) {
                    tokio::time::sleep(STALL).await;
                }
                let end = self.any();
                self.end(&bursar, &diary, job, fence, &end).await;
            }
        }
    }

    async fn lease(&self, bursar: &Bursar) -> Vec<Job> {
        let ask = LeaseAsk {
            queues: vec![self.queue.clone()],
            kinds: Vec::new(),
            capacity: CAPACITY,
            lease: Some(LEASE),
            worker: self.name.clone(),
        };
        match self.ask(bursar, Op::Lease(ask)).await {
            Ok(Outcome { answer: Answer::Leased(leased), .. }) => leased.jobs,
            _ => Vec::new(),
        }
    }

    /// Says that it is alive.
    async fn beat(&self, bursar: &Bursar, diary: &Diary, job: JobId, fence: u64) {
        let told = self.ask(bursar, Op::Heartbeat { beats: vec![Beat { job, fence }] }).await;
        if let Ok(Outcome { answer: Answer::Beaten(answers), .. }) = told
            && let Some(Err(refusal)) = answers.first()
        {
            lost(diary, refusal);
        }
    }

    /// Some way to end a lease.
    fn any(&mut self) -> End {
        match self.dice.below(20) {
            0 => End::Return,
            1..3 => End::Snooze { delay: Span::from_millis(self.dice.below(50)) },
            3..12 => self.spent(),
            _ => End::Complete { result: Payload::default(), usage: None },
        }
    }

    /// One that tells what was spent.
    fn spent(&mut self) -> End {
        match self.dice.percent(30) {
            true => Failure::new("crash", "it did not work").retry_after(Duration::ZERO).spent(self.usage()).into(),
            false => End::Complete { result: Payload::default(), usage: Some(self.usage()) },
        }
    }

    /// Ends a lease, twice at times.
    async fn end(&mut self, bursar: &Bursar, diary: &Diary, job: JobId, fence: u64, end: &End) {
        let times = if self.dice.percent(20) { 2 } else { 1 };
        for _ in 0..times {
            let item = Finish { job, fence, end: end.clone() };
            let told = self.ask(bursar, Op::Finish { items: vec![item] }).await;
            let Ok(Outcome { answer: Answer::Finished(done), .. }) = told else { return };
            match done.first() {
                Some(Ok(_)) => {
                    let end = word(end).to_owned();
                    diary.write(&Line::Ended { job, fence, end }).expect("a diary can be kept");
                }
                Some(Err(refusal)) => lost(diary, refusal),
                None => {}
            }
        }
    }

    /// What it spent: on the scope of the job's hold, or beside it.
    fn usage(&mut self) -> Vec<Usage> {
        let team = TEAMS[usize::try_from(self.dice.below(TEAMS.len() as u64)).unwrap_or(0)];
        vec![Usage { scope: Some(Scope::new(team).expect("a name")), amount: 1 }]
    }

    async fn ask(&self, bursar: &Bursar, op: Op) -> Result<Outcome, Error> {
        let context = Context { correlation_id: Some(self.name.to_string()), ..Context::default() };
        bursar.request(Request::from(op).in_context(context)).await
    }
}

/// How the journal calls an end.
fn word(end: &End) -> &'static str {
    match end {
        End::Complete { .. } => COMPLETED,
        End::Fail { .. } => "failed",
        End::Snooze { .. } => "snoozed",
        End::Return => "returned",
    }
}

/// Writes down that a lease was lost, and whether it was told that what it spent is charged.
fn lost(diary: &Diary, refusal: &Refusal) {
    if let Refusal::LeaseLost { job, fence, billed, .. } = refusal {
        let line = Line::Lost { job: *job, fence: *fence, billed: *billed };
        diary.write(&line).expect("a diary can be kept");
    }
}

/// Waits until a lease is nobody's any more; whoever looks takes back what has lapsed.
async fn until_taken_back(bursar: &Bursar, job: JobId, fence: u64) {
    loop {
        let _ = bursar.tend(TENDED).await;
        let runs = |found: Option<Job>| found.is_some_and(|job| job.life.lease.is_some() && job.life.fence == fence);
        if matches!(bursar.jobs().find(job).await.map(runs), Ok(false)) {
            return;
        }
        tokio::time::sleep(IDLE).await;
    }
}
