//! Short forms of the requests of workers and operators.

use bursar_core::answer::{Answer, Finished, Leased};
use bursar_core::id::JobId;
use bursar_core::job::{
    Backoff, End, Finish, Job, JobError, JobSpec, JobState, LeaseRequest, QueueConfig, Retry, Usage,
};
use bursar_core::name::{FlowKey, JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, Charge, Command, Op, Settle};
use bursar_core::state::QueueKey;

use super::world::{World, scope, secs, submitted};
use crate::figures::Figures;

pub(super) fn queue(name: &str) -> Queue {
    Queue::new(name).expect("a valid name")
}

pub(super) fn queue_key(name: &str) -> QueueKey {
    (Tenant::built_in(), queue(name))
}

pub(super) fn kind(name: &str) -> JobKind {
    JobKind::new(name).expect("a valid name")
}

/// A job that is retried ten seconds after a failure.
pub(super) fn work(queue_name: &str, kind_name: &str) -> JobSpec {
    let mut spec = JobSpec::new(queue(queue_name), kind(kind_name), Payload::default());
    spec.retry = Some(Retry { backoff: Backoff::Fixed { delay: secs(10) }, ..Retry::default() });
    spec
}

pub(super) fn keyed(queue_name: &str, key: &str) -> JobSpec {
    JobSpec { key: Some(FlowKey::new(key).expect("a valid name")), ..work(queue_name, "work") }
}

pub(super) fn enqueue(jobs: Vec<JobSpec>) -> Op {
    Op::Submit(Command { jobs, ..Command::default() })
}

/// A job that owns a hold.
pub(super) fn owning(spec: JobSpec, charges: &[(&str, i64)]) -> Op {
    let charges = charges.iter().map(|(name, amount)| Charge::new(scope(name), *amount)).collect();
    Op::Submit(Command { charges, settle: Settle::Job, jobs: vec![spec], ..Command::default() })
}

pub(super) fn lease_request(queues: &[&str], kinds: &[&str], capacity: u32) -> LeaseRequest {
    LeaseRequest {
        queues: queues.iter().map(|name| queue(name)).collect(),
        kinds: kinds.iter().map(|name| kind(name)).collect(),
        capacity,
        lease: None,
        worker: WorkerName::new("w").expect("a valid name"),
    }
}

pub(super) fn complete(usage: Option<Vec<Usage>>) -> End {
    End::Complete { result: Payload::new("{\"ok\":true}").expect("JSON"), usage, blobs: Vec::new() }
}

pub(super) fn spent(amount: i64) -> Option<Vec<Usage>> {
    Some(vec![Usage { scope: None, amount }])
}

pub(super) fn fail(usage: Option<Vec<Usage>>) -> End {
    End::Fail { error: JobError::new("timeout", "after 30 s"), retryable: true, retry_after: None, usage }
}

pub(super) fn is_lost(answer: &Result<Finished, Refusal>, is_billed: bool) -> bool {
    matches!(answer, Err(Refusal::LeaseLost { billed, .. }) if *billed == is_billed)
}

impl World {
    pub(super) async fn enqueue(&self, jobs: Vec<JobSpec>) -> Vec<JobId> {
        submitted(self.apply(enqueue(jobs)).await).jobs.iter().map(|job| job.id).collect()
    }

    pub(super) async fn enqueue_one(&self, op: Op) -> JobId {
        submitted(self.apply(op).await).jobs[0].id
    }

    pub(super) async fn lease_with(&self, request: LeaseRequest) -> Leased {
        match self.apply(Op::Lease(request)).await.answer {
            Answer::Leased(leased) => leased,
            other => panic!("expected leases: {other:?}"),
        }
    }

    pub(super) async fn lease(&self, queue: &str, capacity: u32) -> Vec<Job> {
        self.lease_with(lease_request(&[queue], &[], capacity)).await.jobs
    }

    pub(super) async fn finish(&self, job: JobId, fence: u64, end: End) -> Result<Finished, Refusal> {
        self.finish_all(vec![Finish { job, fence, end }]).await.remove(0)
    }

    pub(super) async fn finish_all(&self, items: Vec<Finish>) -> Vec<Result<Finished, Refusal>> {
        match self.apply(Op::Finish { items }).await.answer {
            Answer::Finished(each) => each,
            other => panic!("expected finished jobs: {other:?}"),
        }
    }

    pub(super) async fn act(&self, act: Act, jobs: &[JobId]) -> Vec<Result<Finished, Refusal>> {
        match self.apply(Op::Act { act, jobs: jobs.to_vec() }).await.answer {
            Answer::Acted { each, .. } => each,
            other => panic!("expected the answer of an act: {other:?}"),
        }
    }

    pub(super) async fn job(&self, id: JobId) -> Job {
        self.store.job(&Tenant::built_in(), id).await.expect("the store works").expect("the job exists")
    }

    pub(super) async fn job_state(&self, id: JobId) -> JobState {
        self.job(id).await.state_at(self.now())
    }

    pub(super) async fn set_queue(&self, name: &str, config: QueueConfig) {
        self.apply(Op::DefineQueue { queue: queue(name), config }).await;
    }

    /// Leases and completes jobs until none is left. Returns them in the order of their leases.
    pub(super) async fn drain(&self, queue: &str, capacity: u32) -> Vec<JobId> {
        let mut order = Vec::new();
        loop {
            let jobs = self.lease(queue, capacity).await;
            if jobs.is_empty() {
                return order;
            }
            order.extend(jobs.iter().map(|job| job.id));
            let end = |job: &Job| Finish { job: job.id, fence: job.life.fence, end: complete(None) };
            let ended = self.finish_all(jobs.iter().map(end).collect()).await;
            assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        }
    }

    /// Rescues the jobs with expired leases, as maintenance does. Returns how many there were.
    pub(super) async fn rescue(&self) -> usize {
        let lapsed = self.store.due_jobs(1_000).await.expect("works").lapsed;
        let ids: Vec<JobId> = lapsed.into_iter().map(|(_, job)| job).collect();
        if !ids.is_empty() {
            assert!(self.act(Act::Rescue, &ids).await.iter().all(Result::is_ok));
        }
        ids.len()
    }

    /// Returns the figures of a queue: the present ones, and those of each minute from `since_minute` on.
    pub(super) async fn figures(&self, name: &str, since_minute: i64) -> Figures {
        let found = self.store.figures(&[queue_key(name)], since_minute).await.expect("works");
        let [figures] = <[Figures; 1]>::try_from(found).expect("one item for each queue");
        figures
    }

    pub(super) async fn position(&self) -> u64 {
        self.store.health().await.expect("works").position
    }
}
