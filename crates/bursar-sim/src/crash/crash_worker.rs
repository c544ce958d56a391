//! A job worker in a process that will be killed. It ends leases in every way, sometimes late, and logs each result.

use std::sync::Arc;
use std::time::Duration;

use bursar::{Answer, Bursar, Context, Error, Failure, Op, Outcome, Payload, Queue, Refusal, Request, Span};
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, HeartbeatItem, Job, LeaseRequest, Usage};
use bursar_core::name::{Scope, WorkerName};

use super::client_log::{ClientLog, LogLine};
use super::client_process::TEAMS;
use super::client_request::QUEUE;
use super::leases::LeaseId;
use super::random::Random;

/// The prefix of the workers' correlation ids in the journal.
pub(crate) const WORKER_PREFIX: &str = "worker-";
/// The log's name for a successful end.
pub(crate) const COMPLETED: &str = "completed";
/// Jobs leased at once.
const CAPACITY: u32 = 4;
/// The lease length: short, so that leases of killed and stalled workers expire within a run.
const LEASE: Span = Span::from_millis(200);
/// How long a stalled worker pauses: longer than its lease.
const STALL: Duration = Duration::from_millis(250);
/// The pause when no job is ready.
const IDLE: Duration = Duration::from_millis(5);
/// Leases of killed workers that one worker reports on.
const LATE_REPORTS: usize = 4;
/// Expired leases rescued per maintenance call.
const RESCUED_MAX: usize = 200;

/// A job worker.
pub(crate) struct CrashWorker {
    name: WorkerName,
    random: Random,
    queue: Queue,
}

impl CrashWorker {
    pub(crate) fn new(name: &str, random: Random) -> CrashWorker {
        let name = WorkerName::new(format!("{WORKER_PREFIX}{name}")).expect("a name");
        CrashWorker { name, random, queue: Queue::new(QUEUE).expect("a name") }
    }

    /// Works until the process is killed. It first reports on leases of killed workers, as if their reports were delayed.
    pub(crate) async fn run(mut self, bursar: Bursar, log: Arc<ClientLog>, mut open_leases: Vec<LeaseId>) {
        for _ in 0..LATE_REPORTS {
            let Some((job, fence)) = self.random.take(&mut open_leases) else { break };
            wait_until_rescued(&bursar, job, fence).await;
            let end = if self.random.percent(80) { self.end_with_usage() } else { self.random_end() };
            self.end(&bursar, &log, job, fence, &end).await;
        }
        let mut abandon_next = true;
        loop {
            let jobs = self.lease(&bursar).await;
            if jobs.is_empty() {
                tokio::time::sleep(IDLE).await;
            }
            for job in jobs {
                let (job, fence) = (job.id, job.life.fence);
                log.write(&LogLine::Leased { job, fence }).expect("the log can be written");
                // The first lease and some later ones are abandoned, so that later rounds have leases to report on.
                if std::mem::take(&mut abandon_next) || self.random.percent(10) {
                    continue;
                }
                if self.random.percent(20) {
                    self.beat(&bursar, &log, job, fence).await;
                }
                if self.random.percent(10) {
                    tokio::time::sleep(STALL).await;
                }
                let end = self.random_end();
                self.end(&bursar, &log, job, fence, &end).await;
            }
        }
    }

    async fn lease(&self, bursar: &Bursar) -> Vec<Job> {
        let request = LeaseRequest {
            queues: vec![self.queue.clone()],
            kinds: Vec::new(),
            capacity: CAPACITY,
            lease: Some(LEASE),
            worker: self.name.clone(),
        };
        match self.send(bursar, Op::Lease(request)).await {
            Ok(Outcome { answer: Answer::Leased(leased), .. }) => leased.jobs,
            _ => Vec::new(),
        }
    }

    /// Sends a heartbeat.
    async fn beat(&self, bursar: &Bursar, log: &ClientLog, job: JobId, fence: u64) {
        let result = self.send(bursar, Op::Heartbeat { beats: vec![HeartbeatItem::new(job, fence)] }).await;
        if let Ok(Outcome { answer: Answer::Renewed(answers), .. }) = result
            && let Some(Err(refusal)) = answers.first()
        {
            log_lost(log, refusal);
        }
    }

    /// Returns a random way to end a lease.
    fn random_end(&mut self) -> End {
        match self.random.below(20) {
            0 => End::Return,
            1..3 => End::Snooze { delay: Span::from_millis(self.random.below(50)) },
            3..12 => self.end_with_usage(),
            _ => End::Complete { result: Payload::default(), usage: None, blobs: Vec::new() },
        }
    }

    /// Returns a way to end a lease that reports usage.
    fn end_with_usage(&mut self) -> End {
        match self.random.percent(30) {
            true => Failure::new("crash", "failed on purpose").retry_after(Duration::ZERO).spent(self.usage()).into(),
            false => End::Complete { result: Payload::default(), usage: Some(self.usage()), blobs: Vec::new() },
        }
    }

    /// Ends a lease, sometimes twice.
    async fn end(&mut self, bursar: &Bursar, log: &ClientLog, job: JobId, fence: u64, end: &End) {
        let times = if self.random.percent(20) { 2 } else { 1 };
        for _ in 0..times {
            let item = Finish { job, fence, end: end.clone() };
            let result = self.send(bursar, Op::Finish { items: vec![item] }).await;
            let Ok(Outcome { answer: Answer::Finished(done), .. }) = result else { return };
            match done.first() {
                Some(Ok(_)) => {
                    let end = end_name(end).to_owned();
                    log.write(&LogLine::Ended { job, fence, end }).expect("the log can be written");
                }
                Some(Err(refusal)) => log_lost(log, refusal),
                None => {}
            }
        }
    }

    /// Returns usage on a random scope, which the job's hold may or may not charge.
    fn usage(&mut self) -> Vec<Usage> {
        let team = TEAMS[usize::try_from(self.random.below(TEAMS.len() as u64)).unwrap_or(0)];
        vec![Usage { scope: Some(Scope::new(team).expect("a name")), amount: 1 }]
    }

    async fn send(&self, bursar: &Bursar, op: Op) -> Result<Outcome, Error> {
        let context = Context { correlation_id: Some(self.name.to_string()), ..Context::default() };
        bursar.request(Request::from(op).in_context(context)).await
    }
}

/// Returns the log's name for an end.
fn end_name(end: &End) -> &'static str {
    match end {
        End::Complete { .. } => COMPLETED,
        End::Fail { .. } => "failed",
        End::Snooze { .. } => "snoozed",
        End::Return => "returned",
    }
}

/// Logs that a lease was lost and whether its spend is charged.
fn log_lost(log: &ClientLog, refusal: &Refusal) {
    if let Refusal::LeaseLost { job, fence, billed, .. } = refusal {
        let line = LogLine::Lost { job: *job, fence: *fence, billed: *billed };
        log.write(&line).expect("the log can be written");
    }
}

/// Waits until a lease has ended; rescues expired leases meanwhile.
async fn wait_until_rescued(bursar: &Bursar, job: JobId, fence: u64) {
    loop {
        let _ = bursar.tend(RESCUED_MAX).await;
        let is_leased =
            |found: Option<Job>| found.is_some_and(|job| job.life.lease.is_some() && job.life.fence == fence);
        if matches!(bursar.jobs().find(job).await.map(is_leased), Ok(false)) {
            return;
        }
        tokio::time::sleep(IDLE).await;
    }
}
