//! What is asked about jobs: enqueueing, queues, leases, ends, and what operators do.

use bursar_core::id::JobId;
use bursar_core::job::{Backoff, End, JobError, JobSpec, LeaseAsk, QueueConfig, Rate, Retention, Retry, Usage};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::request::{Act, Command, Op, Request, Settle};
use bursar_core::time::Span;

use super::chance::Chance;
use super::workload::Workload;

const QUEUES: [&str; 3] = ["work", "mail", "film"];
const KINDS: [&str; 3] = ["do", "do.more", "draw"];

/// All queues there are.
pub(super) fn queues() -> Vec<Queue> {
    QUEUES.iter().map(|name| Queue::new(*name).expect("a name")).collect()
}

fn queue(chance: &mut Chance) -> Queue {
    Queue::new(*chance.pick(&QUEUES)).expect("a name")
}

fn kind(chance: &mut Chance) -> JobKind {
    JobKind::new(*chance.pick(&KINDS)).expect("a name")
}

fn up_to(chance: &mut Chance, millis: u64) -> Span {
    Span::from_millis(chance.below(millis + 1))
}

impl Workload {
    /// Something about jobs, from who does not work on them.
    pub(super) fn errand(&mut self, chance: &mut Chance, tenant: &Tenant) -> Op {
        match chance.below(20) {
            0..12 => self.enqueueing(chance),
            12..18 => self.operation(chance, tenant),
            18 => Op::PauseQueue { queue: queue(chance), paused: chance.one_in(3) },
            _ => Op::DefineQueue { queue: queue(chance), config: config(chance) },
        }
    }

    fn enqueueing(&self, chance: &mut Chance) -> Op {
        let mut command = Command::default();
        if chance.one_in(2) {
            command = self.charged(chance, true);
            command.settle = Settle::Job;
        }
        command.jobs = (0..1 + chance.below(3)).map(|_| self.task(chance)).collect();
        Op::Submit(command)
    }

    /// A job to be done.
    pub(super) fn task(&self, chance: &mut Chance) -> JobSpec {
        let mut job = JobSpec::new(queue(chance), kind(chance), Payload::default());
        // Few enough that jobs are found again.
        let key = || IdempotencyKey::new(format!("j{}", self.numbers / 40)).ok();
        job.idempotency_key = if chance.one_in(4) { key() } else { None };
        // None in the first queue, so that the order of leases can be foreseen there.
        let keyed = job.queue.as_str() != QUEUES[0] && !chance.one_in(3);
        job.key = keyed.then(|| FlowKey::new(*chance.pick(&["a", "b"])).expect("a name"));
        job.priority = if chance.one_in(3) { i16::try_from(chance.between(-2, 2)).unwrap_or(0) } else { 0 };
        job.delay = if chance.one_in(4) { up_to(chance, 3_000) } else { Span::ZERO };
        job.max_attempts = chance.one_in(4).then(|| 1 + chance.below(3) as u32);
        job.retry = chance.one_in(4).then(|| retry(chance));
        job.deadline = chance.one_in(6).then(|| Span::from_millis(50 + chance.below(1_000)));
        job
    }

    fn operation(&self, chance: &mut Chance, tenant: &Tenant) -> Op {
        let act = match chance.below(10) {
            0..3 => Act::Cancel,
            3..6 => Act::Retry,
            6 => Act::Discard,
            7 => Act::Move { queue: queue(chance) },
            _ => Act::Edit {
                priority: chance.one_in(2).then(|| i16::try_from(chance.between(-3, 3)).unwrap_or(0)),
                delay: chance.one_in(2).then(|| up_to(chance, 2_000)),
            },
        };
        let mut jobs: Vec<JobId> = (0..1 + chance.below(4)).map(|_| self.some_job(chance, tenant)).collect();
        jobs.dedup();
        Op::Act { act, jobs }
    }

    /// A job of the tenant's, mostly; else any, or one that is not there.
    fn some_job(&self, chance: &mut Chance, tenant: &Tenant) -> JobId {
        for _ in 0..4 {
            if self.jobs.is_empty() {
                break;
            }
            let (owner, id) = chance.pick(&self.jobs);
            if owner == tenant || chance.one_in(20) {
                return *id;
            }
        }
        JobId(7)
    }

    /// A worker asks for work.
    pub(super) fn lease(&mut self, chance: &mut Chance, worker: &WorkerName) -> Request {
        let tenant = chance.pick(&self.tenants).clone();
        let mut wanted: Vec<Queue> = (0..1 + chance.below(3)).map(|_| queue(chance)).collect();
        wanted.sort();
        wanted.dedup();
        let ask = LeaseAsk {
            queues: wanted,
            kinds: if chance.one_in(3) { vec![kind(chance)] } else { Vec::new() },
            capacity: *chance.pick(&[1, 1, 2, 5]),
            lease: chance.one_in(2).then(|| Span::from_millis(100 + chance.below(900))),
            worker: worker.clone(),
        };
        self.numbered(tenant, Op::Lease(ask))
    }

    /// How a worker ends a lease.
    pub(super) fn ending(&self, chance: &mut Chance) -> End {
        match chance.below(20) {
            0..9 => End::Complete { result: Payload::default(), usage: self.usage(chance) },
            9..15 => End::Fail {
                error: JobError::new("broken", "it did not work"),
                retryable: !chance.one_in(6),
                retry_after: chance.one_in(4).then(|| up_to(chance, 500)),
                usage: self.usage(chance),
            },
            15..17 => End::Snooze { delay: up_to(chance, 1_000) },
            _ => End::Return,
        }
    }

    fn usage(&self, chance: &mut Chance) -> Option<Vec<Usage>> {
        let amount = chance.between(0, 30);
        match chance.below(6) {
            0..2 => None,
            2 => Some(Vec::new()),
            3 => Some(vec![Usage { scope: None, amount }]),
            _ => Some((0..1 + chance.below(2)).map(|_| self.spent(chance)).collect()),
        }
    }

    fn spent(&self, chance: &mut Chance) -> Usage {
        Usage { scope: Some(chance.pick(&self.scopes).clone()), amount: chance.between(0, 30) }
    }
}

fn retry(chance: &mut Chance) -> Retry {
    let backoff = match chance.below(3) {
        0 => Backoff::Fixed { delay: up_to(chance, 300) },
        1 => Backoff::Exponential { first: Span::from_millis(20), most: Span::from_millis(400) },
        _ => Backoff::List { delays: vec![Span::from_millis(10), Span::from_millis(200)] },
    };
    Retry { max_attempts: 1 + chance.below(5) as u32, backoff }
}

fn config(chance: &mut Chance) -> QueueConfig {
    let some = |chance: &mut Chance| chance.one_in(2).then(|| 1 + chance.below(3) as u32);
    let rate = |chance: &mut Chance| chance.one_in(5).then(|| *chance.pick(&RATES));
    let kept = |chance: &mut Chance| (!chance.one_in(6)).then(|| Span::from_millis(200 + chance.below(3_000)));
    QueueConfig {
        paused: chance.one_in(8),
        concurrency: some(chance),
        rate: rate(chance),
        key_concurrency: some(chance),
        key_rate: rate(chance),
        retry: retry(chance),
        lease: Span::from_millis(200 + chance.below(1_500)),
        deadline: chance.one_in(5).then(|| Span::from_millis(100 + chance.below(2_000))),
        retention: Retention { succeeded: kept(chance), cancelled: kept(chance), dead: kept(chance) },
    }
}

const RATES: [Rate; 2] =
    [Rate { amount: 3, per: Span::from_millis(400) }, Rate { amount: 8, per: Span::from_millis(1_000) }];
