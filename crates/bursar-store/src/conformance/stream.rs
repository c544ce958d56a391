//! A pseudo-random stream of job requests, the same for every engine.

use bursar_core::answer::{Answer, Outcome};
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, HeartbeatItem, JobSpec, JobState, QueueConfig, Rate, Retention, Usage};
use bursar_core::name::{FlowKey, IdempotencyKey, Tenant};
use bursar_core::request::{Act, Op, Request};
use bursar_core::state::Counted;
use bursar_core::time::Span;

use super::mixed::Random;
use super::work::{complete, enqueue, fail, lease_request, owning, queue, work};
use super::world::{World, limit, scope, secs};

const QUEUES: [&str; 3] = ["free", "limited", "keyed"];

/// The jobs and leases that earlier answers of a stream contain.
#[derive(Default)]
struct KnownJobs {
    jobs: Vec<JobId>,
    leases: Vec<(JobId, u64)>,
}

/// Sends a stream of requests derived from `seed`, verifies the store on the way, and returns all answers.
///
/// # Panics
/// If a verification finds a violation.
pub async fn job_stream(world: &World, seed: u64, steps: usize) -> Vec<String> {
    world.budget("room", &[limit(5_000, "lifetime"), limit(700, "rolling:60000")]).await;
    world.budget("beside", &[limit(100, "lifetime")]).await;
    set_up(world).await;
    let mut random = Random(seed);
    let mut known = KnownJobs::default();
    let mut answers = Vec::new();
    for step in 0..steps {
        // Some batches are large enough that an engine splits their writes.
        let most = if random.below(20) == 0 { 100 } else { 3 };
        let requests: Vec<Request> = (0..=random.below(most)).map(|_| random_op(&mut random, &known).into()).collect();
        let text = format!("{requests:?}");
        for outcome in world.batch(requests).await {
            known.note(&outcome.as_ref().ok().map(|outcome| &outcome.answer));
            answers.push(format!("{:?}", outcome.map(|Outcome { answer, .. }| answer)));
        }
        world.clock.advance(Span::from_millis(random.below(4_000)));
        if random.below(6) == 0 {
            maintain(world).await;
        }
        if random.below(50) == 0 {
            world.clock.advance(secs(200));
        }
        if step % 10 == 0 {
            let report = world.store.verify().await.expect("the store works");
            assert!(report.is_ok(), "step {step}: {text}: {:#?}", report.violations);
        }
    }
    answers
}

async fn set_up(world: &World) {
    let retention = Retention { succeeded: Some(secs(300)), ..Retention::default() };
    world.set_queue("free", QueueConfig { retention, lease: secs(10), ..QueueConfig::default() }).await;
    let limited = QueueConfig {
        concurrency: Some(4),
        rate: Some(Rate { amount: 5, per: secs(10) }),
        deadline: Some(secs(40)),
        ..QueueConfig::default()
    };
    world.set_queue("limited", limited).await;
    let keyed = QueueConfig {
        key_concurrency: Some(2),
        key_rate: Some(Rate { amount: 4, per: secs(20) }),
        lease: secs(15),
        ..QueueConfig::default()
    };
    world.set_queue("keyed", keyed).await;
}

/// Does what the background maintenance of a node does.
async fn maintain(world: &World) {
    let due = world.store.due_jobs(1_000).await.expect("works");
    for (act, jobs) in [(Act::Rescue, due.lapsed), (Act::Resume, due.awaiting), (Act::Forget, due.ended)] {
        if !jobs.is_empty() {
            // The engines return jobs that are due at the same time in different orders.
            let mut ids: Vec<JobId> = jobs.into_iter().map(|(_, job)| job).collect();
            ids.sort();
            world.act(act, &ids).await;
        }
    }
}

impl KnownJobs {
    fn note(&mut self, answer: &Option<&Answer>) {
        match answer {
            Some(Answer::Submitted(done)) => self.jobs.extend(done.jobs.iter().map(|job| job.id)),
            Some(Answer::Leased(leased)) => {
                self.leases.extend(leased.jobs.iter().map(|job| (job.id, job.life.fence)));
            }
            _ => {}
        }
    }
}

fn random_op(random: &mut Random, known: &KnownJobs) -> Op {
    let some = |random: &mut Random| {
        let back = random.below(30) as usize;
        known.jobs.len().checked_sub(1 + back).map_or(JobId(1), |at| known.jobs[at])
    };
    match random.below(16) {
        0..=1 => enqueue((0..=random.below(3)).map(|_| spec(random)).collect()),
        2..=4 => owning(spec(random), &[("room", 10 + random.below(150) as i64)]),
        5..=7 => {
            let kinds: &[&str] = [&[][..], &["a.*"], &["b", "a.x"], &["c"]][random.below(4) as usize];
            Op::Lease(lease_request(&QUEUES[random.below(3) as usize..], kinds, 1 + random.below(6) as u32))
        }
        8..=11 => Op::Finish { items: (0..=random.below(2)).map(|_| finish(random, known)).collect() },
        12 => {
            let (job, fence) = lease_of(random, known);
            Op::Heartbeat { beats: vec![HeartbeatItem::new(job, fence)] }
        }
        _ => {
            let act = match random.below(7) {
                0 => Act::Cancel,
                1..=2 => Act::Retry,
                3 => Act::Move { queue: queue(QUEUES[random.below(3) as usize]) },
                4 => Act::Edit { priority: Some(random.below(5) as i16 - 2), delay: None },
                _ => Act::Edit { priority: None, delay: Some(secs(random.below(20))) },
            };
            Op::Act { act, jobs: (0..=random.below(2)).map(|_| some(random)).collect() }
        }
    }
}

fn spec(random: &mut Random) -> JobSpec {
    let mut spec = work(QUEUES[random.below(3) as usize], ["a.x", "a.y", "b", "c"][random.below(4) as usize]);
    spec.priority = random.below(5) as i16 - 2;
    spec.max_attempts = Some(1 + random.below(5) as u32);
    if random.below(4) == 0 {
        spec.delay = secs(random.below(30));
    }
    if random.below(2) == 0 {
        spec.key = Some(FlowKey::new(format!("k{}", random.below(3))).expect("a valid name"));
    }
    if random.below(5) == 0 {
        spec.idempotency_key = Some(IdempotencyKey::new(format!("u{}", random.below(20))).expect("a valid key"));
    }
    spec
}

fn lease_of(random: &mut Random, known: &KnownJobs) -> (JobId, u64) {
    let back = random.below(8) as usize;
    known.leases.len().checked_sub(1 + back).map_or((JobId(1), 1), |at| known.leases[at])
}

fn finish(random: &mut Random, known: &KnownJobs) -> Finish {
    let (job, fence) = lease_of(random, known);
    let usage = match random.below(5) {
        0..=1 => Some(vec![Usage { scope: Some(scope("room")), amount: random.below(60) as i64 }]),
        2 => Some(vec![Usage { scope: Some(scope("beside")), amount: random.below(9) as i64 }]),
        3 => Some(Vec::new()),
        _ => None,
    };
    let end = match random.below(6) {
        0..=1 => complete(usage),
        2..=3 => fail(usage),
        4 => End::Snooze { delay: secs(random.below(10)) },
        _ => End::Return,
    };
    Finish { job, fence, end }
}

pub(super) async fn random_job_stream_verifies_and_can_be_rebuilt(world: World) {
    job_stream(&world, 13, 300).await;
    world.assert_verified().await;
    let before = visible_rows(&world).await;
    let events = world.store.rebuild().await.expect("works");
    assert_eq!(events, world.position().await);
    let after = visible_rows(&world).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
    world.assert_verified().await;
    let kinds = world.kinds().await;
    let expected = [
        "job.leased",
        "job.succeeded",
        "job.failed",
        "job.rescued",
        "job.snoozed",
        "job.returned",
        "job.dead_lettered",
        "job.parked",
        "job.resumed",
        "job.retried",
        "job.funded",
        "job.cancelling",
        "job.cancelled",
        "job.moved",
        "job.edited",
        "job.billed",
        "job.forgotten",
        "queue.defined",
    ];
    let missing: Vec<_> = expected.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "the stream has no {missing:?}");
    finish_all_jobs(&world).await;
}

/// Leases and completes the jobs of a rebuilt store until none is left.
async fn finish_all_jobs(world: &World) {
    for name in QUEUES {
        world.set_queue(name, QueueConfig::default()).await;
    }
    for _ in 0..12 {
        world.clock.advance(secs(61));
        maintain(world).await;
        for name in QUEUES {
            for job in world.lease(name, 50).await {
                world.finish(job.id, job.life.fence, complete(Some(Vec::new()))).await.expect("the lease is current");
            }
        }
    }
    let filter = |state| crate::figures::JobFilter { state: Some(state), ..Default::default() };
    for state in [JobState::Queued, JobState::Scheduled, JobState::Leased] {
        let left = world.store.list_jobs(&Tenant::built_in(), &filter(state), None, 10).await.expect("works");
        assert_eq!(left, [], "{state}");
    }
    world.assert_verified().await;
}

/// Returns the rows of jobs and queues without what a rebuild does not restore: the expiry of leases, the next attempt of jobs that
/// await a budget, places in lines, and whether a due job was promoted.
async fn visible_rows(world: &World) -> Vec<String> {
    let (tenant, now) = (Tenant::built_in(), world.now());
    let mut rows = Vec::new();
    for job in world.store.list_jobs(&tenant, &Default::default(), None, 100_000).await.expect("works") {
        rows.push(format!("{:?}", job.lasting(now)));
    }
    for key in world.store.list_scope_keys(None, 1_000).await.expect("works") {
        let row = world.store.scope(&key).await.expect("works").expect("it exists");
        // A row with version 0 exists only to be locked.
        if row.version > 0 {
            let balances: Vec<_> = row.balances.iter().map(|b| (&b.window, b.posted, b.held, b.level)).collect();
            rows.push(format!("{key:?} {} {} {:?} {balances:?}", row.version, row.awaited, row.last));
        }
    }
    for (queue, state) in world.store.list_queues(&tenant, None, 100).await.expect("works") {
        let figures = world.figures(queue.as_str(), i64::MIN).await;
        let waits = |what: &Counted| matches!(what, Counted::In(JobState::Queued | JobState::Scheduled));
        let waiting: i64 = figures.counts.iter().filter(|(what, _)| waits(what)).map(|(_, count)| count).sum();
        let others: Vec<_> = figures.counts.iter().filter(|(what, _)| !waits(what)).collect();
        rows.push(format!("{queue} {state:?} {waiting} {others:?}"));
    }
    rows.push(format!("{:?}", world.store.list_costs(&tenant, i64::MIN..=i64::MAX, None, 1_000).await.expect("works")));
    rows.push(format!("{:?}", world.store.list_dead_groups(&tenant, None, None, 1_000).await.expect("works")));
    rows.push(format!("{:?}", world.store.list_held(&tenant, None, None, 1_000).await.expect("works")));
    rows
}
