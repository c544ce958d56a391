//! Random requests about jobs: enqueueing, queue settings, leases, ends of leases, and operator actions.

use bursar_core::hold::OnExpiry;
use bursar_core::id::JobId;
use bursar_core::job::{Backoff, End, JobError, JobSpec, LeaseRequest, QueueConfig, Rate, Retention, Retry, Usage};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::request::{Act, Command, Op, Request, Settle};
use bursar_core::time::Span;

use super::random::Random;
use super::workload::Workload;

const QUEUES: [&str; 3] = ["work", "mail", "film"];
const KINDS: [&str; 3] = ["do", "do.more", "draw"];

/// Returns all queues.
pub(super) fn queues() -> Vec<Queue> {
    QUEUES.iter().map(|name| Queue::new(*name).expect("a name")).collect()
}

fn queue(random: &mut Random) -> Queue {
    Queue::new(*random.pick(&QUEUES)).expect("a name")
}

fn kind(random: &mut Random) -> JobKind {
    JobKind::new(*random.pick(&KINDS)).expect("a name")
}

fn up_to(random: &mut Random, millis: u64) -> Span {
    Span::from_millis(random.below(millis + 1))
}

impl Workload {
    /// Returns a job request of a caller that is not a worker.
    pub(super) fn job_request(&mut self, random: &mut Random, tenant: &Tenant) -> Op {
        match random.below(20) {
            0..12 => self.enqueue(random),
            12..18 => self.operator_action(random, tenant),
            18 => Op::PauseQueue { queue: queue(random), paused: random.one_in(3) },
            _ => Op::DefineQueue { queue: queue(random), config: config(random) },
        }
    }

    fn enqueue(&self, random: &mut Random) -> Op {
        let mut command = Command::default();
        if random.one_in(2) {
            let charged = self.charged(random, true);
            command = Command { settle: Settle::Job, on_expiry: OnExpiry::Release, ..charged };
        }
        command.jobs = (0..1 + random.below(3)).map(|_| self.job_spec(random)).collect();
        if command.settle == Settle::Job {
            // One job settles the hold.
            command.jobs.truncate(1);
        }
        Op::Submit(command)
    }

    /// Returns a random job.
    pub(super) fn job_spec(&self, random: &mut Random) -> JobSpec {
        let mut job = JobSpec::new(queue(random), kind(random), Payload::default());
        // Few enough keys that some jobs exist already.
        let key = || IdempotencyKey::new(format!("j{}", self.numbers / 40)).ok();
        job.idempotency_key = if random.one_in(4) { key() } else { None };
        // No flow keys in the first queue, so that the order of its leases is predictable.
        let keyed = job.queue.as_str() != QUEUES[0] && !random.one_in(3);
        job.key = keyed.then(|| FlowKey::new(*random.pick(&["a", "b"])).expect("a name"));
        job.priority = if random.one_in(3) { i16::try_from(random.between(-2, 2)).unwrap_or(0) } else { 0 };
        job.delay = if random.one_in(4) { up_to(random, 3_000) } else { Span::ZERO };
        job.max_attempts = random.one_in(4).then(|| 1 + random.below(3) as u32);
        job.retry = random.one_in(4).then(|| retry(random));
        job.deadline = random.one_in(6).then(|| Span::from_millis(50 + random.below(1_000)));
        job
    }

    fn operator_action(&self, random: &mut Random, tenant: &Tenant) -> Op {
        let act = match random.below(10) {
            0..3 => Act::Cancel,
            3..6 => Act::Retry,
            6 if random.one_in(2) => Act::Erase,
            6 => Act::Discard,
            7 => Act::Move { queue: queue(random) },
            _ => Act::Edit {
                priority: random.one_in(2).then(|| i16::try_from(random.between(-3, 3)).unwrap_or(0)),
                delay: random.one_in(2).then(|| up_to(random, 2_000)),
            },
        };
        let mut jobs: Vec<JobId> = (0..1 + random.below(4)).map(|_| self.some_job(random, tenant)).collect();
        jobs.dedup();
        Op::Act { act, jobs }
    }

    /// Returns mostly a job of the tenant; otherwise one of another tenant, or an unknown one.
    fn some_job(&self, random: &mut Random, tenant: &Tenant) -> JobId {
        for _ in 0..4 {
            if self.jobs.is_empty() {
                break;
            }
            let (owner, id) = random.pick(&self.jobs);
            if owner == tenant || random.one_in(20) {
                return *id;
            }
        }
        JobId(7)
    }

    /// Returns a lease request of a worker.
    pub(super) fn lease(&mut self, random: &mut Random, worker: &WorkerName) -> Request {
        let tenant = random.pick(&self.tenants).clone();
        let mut wanted: Vec<Queue> = (0..1 + random.below(3)).map(|_| queue(random)).collect();
        wanted.sort();
        wanted.dedup();
        let ask = LeaseRequest {
            queues: wanted,
            kinds: if random.one_in(3) { vec![kind(random)] } else { Vec::new() },
            capacity: *random.pick(&[1, 1, 2, 5]),
            lease: random.one_in(2).then(|| Span::from_millis(100 + random.below(900))),
            worker: worker.clone(),
        };
        self.numbered(tenant, Op::Lease(ask))
    }

    /// Returns a random end of a lease.
    pub(super) fn lease_end(&self, random: &mut Random, tenant: &Tenant) -> End {
        match random.below(20) {
            0..9 => {
                let (usage, blobs) = (self.usage(random), self.job_blobs(random, tenant));
                End::Complete { result: Payload::default(), usage, blobs }
            }
            9..15 => End::Fail {
                error: JobError::new("broken", "failed on purpose"),
                retryable: !random.one_in(6),
                retry_after: random.one_in(4).then(|| up_to(random, 500)),
                usage: self.usage(random),
            },
            15..17 => End::Snooze { delay: up_to(random, 1_000) },
            _ => End::Return,
        }
    }

    fn usage(&self, random: &mut Random) -> Option<Vec<Usage>> {
        let amount = random.between(0, 30);
        match random.below(6) {
            0..2 => None,
            2 => Some(Vec::new()),
            3 => Some(vec![Usage { scope: None, amount }]),
            _ => Some((0..1 + random.below(2)).map(|_| self.usage_item(random)).collect()),
        }
    }

    fn usage_item(&self, random: &mut Random) -> Usage {
        Usage { scope: Some(random.pick(&self.scopes).clone()), amount: random.between(0, 30) }
    }
}

fn retry(random: &mut Random) -> Retry {
    let backoff = match random.below(3) {
        0 => Backoff::Fixed { delay: up_to(random, 300) },
        1 => Backoff::Exponential { first: Span::from_millis(20), most: Span::from_millis(400) },
        _ => Backoff::List { delays: vec![Span::from_millis(10), Span::from_millis(200)] },
    };
    Retry { max_attempts: 1 + random.below(5) as u32, backoff }
}

fn config(random: &mut Random) -> QueueConfig {
    let some = |random: &mut Random| random.one_in(2).then(|| 1 + random.below(3) as u32);
    let rate = |random: &mut Random| random.one_in(5).then(|| *random.pick(&RATES));
    let kept = |random: &mut Random| (!random.one_in(6)).then(|| Span::from_millis(200 + random.below(3_000)));
    QueueConfig {
        paused: random.one_in(8),
        concurrency: some(random),
        rate: rate(random),
        key_concurrency: some(random),
        key_rate: rate(random),
        retry: retry(random),
        lease: Span::from_millis(200 + random.below(1_500)),
        deadline: random.one_in(5).then(|| Span::from_millis(100 + random.below(2_000))),
        retention: Retention { succeeded: kept(random), cancelled: kept(random), dead: kept(random) },
    }
}

const RATES: [Rate; 2] =
    [Rate { amount: 3, per: Span::from_millis(400) }, Rate { amount: 8, per: Span::from_millis(1_000) }];
