//! A random stream of work, the same for every engine.

use bursar_core::answer::{Answer, Outcome};
use bursar_core::id::JobId;
use bursar_core::job::{Beat, End, Finish, JobSpec, JobState, QueueConfig, Rate, Retention, Usage};
use bursar_core::name::{FlowKey, IdempotencyKey, Tenant};
use bursar_core::request::{Act, Op, Request};
use bursar_core::state::Counted;
use bursar_core::time::Span;

use super::mixed::Dice;
use super::work::{ask, complete, enqueue, fail, owning, queue, work};
use super::world::{World, limit, scope, secs};

const QUEUES: [&str; 3] = ["free", "limited", "keyed"];

/// What a stream knows of jobs: which there are, and who leased them.
#[derive(Default)]
struct Seen {
    jobs: Vec<JobId>,
    leases: Vec<(JobId, u64)>,
}

/// Drives a world through a random stream of work, checks the books on the way, and returns all that was answered.
///
/// # Panics
/// When the books do not agree.
pub async fn job_stream(world: &World, seed: u64, steps: usize) -> Vec<String> {
    world.budget("room", &[limit(5_000, "lifetime"), limit(700, "rolling:60000")]).await;
    world.budget("beside", &[limit(100, "lifetime")]).await;
    set_up(world).await;
    let mut dice = Dice(seed);
    let mut seen = Seen::default();
    let mut answers = Vec::new();
    for step in 0..steps {
        // Some batches are large enough that an engine may write them in parts.
        let most = if dice.roll(20) == 0 { 100 } else { 3 };
        let requests: Vec<Request> = (0..=dice.roll(most)).map(|_| random(&mut dice, &seen).into()).collect();
        let asked = format!("{requests:?}");
        for outcome in world.batch(requests).await {
            seen.note(&outcome.as_ref().ok().map(|outcome| &outcome.answer));
            answers.push(format!("{:?}", outcome.map(|Outcome { answer, .. }| answer)));
        }
        world.clock.advance(Span::from_millis(dice.roll(4_000)));
        if dice.roll(6) == 0 {
            upkeep(world).await;
        }
        if dice.roll(50) == 0 {
            world.clock.advance(secs(200));
        }
        if step % 10 == 0 {
            let report = world.store.verify().await.expect("the store works");
            assert!(report.is_ok(), "step {step}: {asked}: {:#?}", report.violations);
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

/// What a node does by itself from time to time.
async fn upkeep(world: &World) {
    let due = world.store.due_jobs(1_000).await.expect("works");
    for (act, jobs) in [(Act::Rescue, due.lapsed), (Act::Resume, due.awaiting), (Act::Forget, due.ended)] {
        if !jobs.is_empty() {
            // Engines find those of one instant in orders of their own.
            let mut ids: Vec<JobId> = jobs.into_iter().map(|(_, job)| job).collect();
            ids.sort();
            world.act(act, &ids).await;
        }
    }
}

impl Seen {
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

fn random(dice: &mut Dice, seen: &Seen) -> Op {
    let some = |dice: &mut Dice| {
        let back = dice.roll(30) as usize;
        seen.jobs.len().checked_sub(1 + back).map_or(JobId(1), |at| seen.jobs[at])
    };
    match dice.roll(16) {
        0..=1 => enqueue((0..=dice.roll(3)).map(|_| spec(dice)).collect()),
        2..=4 => owning(spec(dice), &[("room", 10 + dice.roll(150) as i64)]),
        5..=7 => {
            let kinds: &[&str] = [&[][..], &["a.*"], &["b", "a.x"], &["c"]][dice.roll(4) as usize];
            Op::Lease(ask(&QUEUES[dice.roll(3) as usize..], kinds, 1 + dice.roll(6) as u32))
        }
        8..=11 => Op::Finish { items: (0..=dice.roll(2)).map(|_| finish(dice, seen)).collect() },
        12 => {
            let (job, fence) = lease_of(dice, seen);
            Op::Heartbeat { beats: vec![Beat { job, fence }] }
        }
        _ => {
            let act = match dice.roll(7) {
                0 => Act::Cancel,
                1..=2 => Act::Retry,
                3 => Act::Move { queue: queue(QUEUES[dice.roll(3) as usize]) },
                4 => Act::Edit { priority: Some(dice.roll(5) as i16 - 2), delay: None },
                _ => Act::Edit { priority: None, delay: Some(secs(dice.roll(20))) },
            };
            Op::Act { act, jobs: (0..=dice.roll(2)).map(|_| some(dice)).collect() }
        }
    }
}

fn spec(dice: &mut Dice) -> JobSpec {
    let mut spec = work(QUEUES[dice.roll(3) as usize], ["a.x", "a.y", "b", "c"][dice.roll(4) as usize]);
    spec.priority = dice.roll(5) as i16 - 2;
    spec.max_attempts = Some(1 + dice.roll(5) as u32);
    if dice.roll(4) == 0 {
        spec.delay = secs(dice.roll(30));
    }
    if dice.roll(2) == 0 {
        spec.key = Some(FlowKey::new(format!("k{}", dice.roll(3))).expect("a good name"));
    }
    if dice.roll(5) == 0 {
        spec.idempotency_key = Some(IdempotencyKey::new(format!("u{}", dice.roll(20))).expect("a good key"));
    }
    spec
}

fn lease_of(dice: &mut Dice, seen: &Seen) -> (JobId, u64) {
    let back = dice.roll(8) as usize;
    seen.leases.len().checked_sub(1 + back).map_or((JobId(1), 1), |at| seen.leases[at])
}

fn finish(dice: &mut Dice, seen: &Seen) -> Finish {
    let (job, fence) = lease_of(dice, seen);
    let usage = match dice.roll(5) {
        0..=1 => Some(vec![Usage { scope: Some(scope("room")), amount: dice.roll(60) as i64 }]),
        2 => Some(vec![Usage { scope: Some(scope("beside")), amount: dice.roll(9) as i64 }]),
        3 => Some(Vec::new()),
        _ => None,
    };
    let end = match dice.roll(6) {
        0..=1 => complete(usage),
        2..=3 => fail(usage),
        4 => End::Snooze { delay: secs(dice.roll(10)) },
        _ => End::Return,
    };
    Finish { job, fence, end }
}

pub(super) async fn random_work_keeps_the_books_and_is_rebuilt(world: World) {
    job_stream(&world, 13, 300).await;
    world.verified().await;
    let before = lasting(&world).await;
    let events = world.store.rebuild().await.expect("works");
    assert_eq!(events, world.position().await);
    for (before, after) in before.iter().zip(&lasting(&world).await) {
        assert_eq!(before, after);
    }
    world.verified().await;
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
    assert!(missing.is_empty(), "the stream has none of {missing:?}");
    job_stream_goes_on(&world).await;
}

/// What was rebuilt can be worked on until nothing is left.
async fn job_stream_goes_on(world: &World) {
    for name in QUEUES {
        world.set_queue(name, QueueConfig::default()).await;
    }
    for _ in 0..12 {
        world.clock.advance(secs(61));
        upkeep(world).await;
        for name in QUEUES {
            for job in world.lease(name, 50).await {
                world.finish(job.id, job.life.fence, complete(Some(Vec::new()))).await.expect("its own");
            }
        }
    }
    let filter = |state| crate::figures::JobFilter { state: Some(state), ..Default::default() };
    for state in [JobState::Queued, JobState::Scheduled, JobState::Leased] {
        let left = world.store.list_jobs(&Tenant::built_in(), &filter(state), None, 10).await.expect("works");
        assert_eq!(left, [], "{state}");
    }
    world.verified().await;
}

/// Everything that can be seen of jobs and queues, without what a rebuild need not give: when leases lapse and parked jobs
/// are looked at, places in lines, and whether somebody has found that a job is due.
async fn lasting(world: &World) -> Vec<String> {
    let (tenant, now) = (Tenant::built_in(), world.now());
    let mut rows = Vec::new();
    for job in world.store.list_jobs(&tenant, &Default::default(), None, 100_000).await.expect("works") {
        rows.push(format!("{:?}", job.lasting(now)));
    }
    for key in world.store.list_scope_keys(None, 1_000).await.expect("works") {
        let row = world.store.scope(&key).await.expect("works").expect("is there");
        // Rows that exist only to be locked are not counted as rows.
        if row.version > 0 {
            let balances: Vec<_> = row.balances.iter().map(|b| (&b.window, b.posted, b.held, b.level)).collect();
            rows.push(format!("{key:?} {} {} {:?} {balances:?}", row.version, row.awaited, row.last));
        }
    }
    for (queue, state) in world.store.list_queues(&tenant, None, 100).await.expect("works") {
        let figures = world.store.figures(&(tenant.clone(), queue.clone()), i64::MIN).await.expect("works");
        let waits = |what: &Counted| matches!(what, Counted::In(JobState::Queued | JobState::Scheduled));
        let waiting: i64 = figures.counts.iter().filter(|(what, _)| waits(what)).map(|(_, count)| count).sum();
        let others: Vec<_> = figures.counts.iter().filter(|(what, _)| !waits(what)).collect();
        rows.push(format!("{queue} {state:?} {waiting} {others:?}"));
    }
    rows.push(format!("{:?}", world.store.list_costs(&tenant, i64::MIN..=i64::MAX, None, 1_000).await.expect("works")));
    rows.push(format!("{:?}", world.store.list_held(&tenant, None, None, 1_000).await.expect("works")));
    rows
}
