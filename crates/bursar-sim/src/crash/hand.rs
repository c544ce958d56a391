//! A worker in a process that is going to be killed: it leases jobs, completes them or hands them back, and keeps a diary.

use std::sync::Arc;
use std::time::Duration;

use bursar::{Answer, Bursar, Context, Error, Op, Outcome, Payload, Queue, Request, Span};
use bursar_core::job::{End, Finish, Job, LeaseAsk};
use bursar_core::name::WorkerName;

use super::act::QUEUE;
use super::diary::{Diary, Line};
use super::dice::Dice;

/// What the requests of workers are known by in the journal.
pub(crate) const HAND: &str = "hand-";
/// Jobs leased at once.
const CAPACITY: u32 = 4;
/// How long a lease lasts: short, so that those of the dead lapse within a run.
const LEASE: Span = Span::from_millis(400);
/// The pause when there is nothing to do.
const IDLE: Duration = Duration::from_millis(5);

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

    /// Works until it is killed.
    pub(crate) async fn work_on(mut self, bursar: Bursar, diary: Arc<Diary>) {
        loop {
            let jobs = self.lease(&bursar).await;
            if jobs.is_empty() {
                tokio::time::sleep(IDLE).await;
            }
            for job in jobs {
                let fence = job.life.fence;
                diary.write(&Line::Leased { job: job.id, fence }).expect("a diary can be kept");
                self.end(&bursar, &diary, &job).await;
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

    /// Completes a job, twice at times; or hands it back, or forgets it.
    async fn end(&mut self, bursar: &Bursar, diary: &Diary, job: &Job) {
        let fence = job.life.fence;
        let end = match self.dice.below(10) {
            0 => return,
            1 => End::Return,
            _ => End::Complete { result: Payload::default(), usage: None },
        };
        let times = if self.dice.percent(20) { 2 } else { 1 };
        for _ in 0..times {
            let item = Finish { job: job.id, fence, end: end.clone() };
            let told = self.ask(bursar, Op::Finish { items: vec![item] }).await;
            let Ok(Outcome { answer: Answer::Finished(done), .. }) = told else { return };
            let completed = matches!(end, End::Complete { .. }) && matches!(done.first(), Some(Ok(_)));
            if completed {
                diary.write(&Line::Completed { job: job.id, fence }).expect("a diary can be kept");
            }
        }
    }

    async fn ask(&self, bursar: &Bursar, op: Op) -> Result<Outcome, Error> {
        let context = Context { correlation_id: Some(self.name.to_string()), ..Context::default() };
        bursar.request(Request::from(op).in_context(context)).await
    }
}
