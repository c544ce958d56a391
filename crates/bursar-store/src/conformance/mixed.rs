//! A pseudo-random stream of holds, commits, grants and jobs, the same for every engine.

use bursar_core::answer::Answer;
use bursar_core::grant::Token;
use bursar_core::hold::OnExpiry;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::{IdempotencyKey, Purpose, Subject};
use bursar_core::payload::Payload;
use bursar_core::request::{Actual, Charge, Command, Mint, Op, Redemption, Request, Settle};
use bursar_core::time::Span;

use super::commands::job;
use super::world::{World, limit, loose, scope, secs};

/// The ids of the rows that a stream created.
#[derive(Default)]
pub(super) struct Created {
    pub(super) holds: Vec<HoldId>,
    pub(super) grants: Vec<u128>,
    pub(super) jobs: Vec<u128>,
}

/// A linear congruential generator, so that a stream is the same on every engine.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

pub(super) async fn mixed_stream(world: &World, steps: usize) -> Created {
    let mut org = loose(&[limit(5_000, "rolling:600000"), limit(20_000, "day@Asia/Kolkata")]);
    org.thresholds = vec![25, 50, 75];
    org.trip = Some(limit(12_000, "hour"));
    world.define("org", org).await;
    world.define("team", loose(&[limit(3_000, "bucket:3000:1000:60000")]).under(scope("org"))).await;
    for agent in 0..4 {
        let limits = [limit(1_500, "rolling:60000"), limit(90_000, "lifetime")];
        world.define(&format!("agent:{agent}"), loose(&limits).under(scope("team"))).await;
    }
    let mut random = Random(7);
    let mut created = Created::default();
    for step in 0..steps {
        let count = 1 + random.below(4);
        let requests: Vec<Request> =
            (0..count).map(|place| random_request(&mut random, &mut created, step, place)).collect();
        for outcome in world.batch(requests).await.into_iter().flatten() {
            if let Answer::Submitted(done) = outcome.answer {
                created.holds.extend(done.hold.map(|hold| hold.id));
                created.jobs.extend(done.jobs.iter().map(|job| job.id.0));
            }
        }
        world.clock.advance(Span::from_millis(random.below(9_000)));
        if random.below(10) == 0 {
            world.sweep().await;
        }
        if random.below(40) == 0 {
            world.clock.advance(secs(4_000));
        }
    }
    created.holds.sort();
    created.holds.dedup();
    created.jobs.sort_unstable();
    created.jobs.dedup();
    created
}

fn random_request(random: &mut Random, created: &mut Created, step: usize, place: u64) -> Request {
    let agent = |random: &mut Random| scope(&format!("agent:{}", random.below(4)));
    let hold = |random: &mut Random, created: &Created| {
        let back = random.below(6) as usize;
        created.holds.len().checked_sub(1 + back).map_or(HoldId(1), |at| created.holds[at])
    };
    let op = match random.below(12) {
        0..=3 => {
            let charges: Vec<Charge> =
                (0..=random.below(2)).map(|_| Charge::new(agent(random), random.below(700) as i64)).collect();
            let settle = Settle::Hold { ttl: Some(Span::from_millis(1 + random.below(30_000))) };
            let held = charges.iter().map(|charge| charge.amount).min().unwrap_or(0);
            let on_expiry = if random.below(3) == 0 { OnExpiry::Charge(held.min(9)) } else { OnExpiry::Release };
            Op::Submit(Command { charges, settle, on_expiry, ..Command::default() })
        }
        4 => Op::Submit(Command {
            charges: vec![Charge::new(agent(random), 10).within([limit(400, "hour")])],
            jobs: vec![job(Some(&format!("k{}", random.below(50))), "{\"a\":1}")],
            settle: Settle::Job,
            ..Command::default()
        }),
        5 => Op::Submit(Command {
            charges: vec![Charge::new(agent(random), random.below(300) as i64)],
            ..Command::default()
        }),
        6..=7 => Op::Commit { hold: hold(random, created), actual: Actual::Amount(random.below(900) as i64) },
        8 => Op::Release { hold: hold(random, created) },
        9 => Op::Extend { hold: hold(random, created), by: Span::from_millis(1 + random.below(20_000)) },
        10 => Op::Credit { scope: agent(random), amount: random.below(50) as i64, hold: None },
        _ => return random_grant_request(random, created, step, place),
    };
    let request = Request::from(op);
    if random.below(3) == 0 {
        return request.with_key(IdempotencyKey::new(format!("key-{}", random.below(200))).expect("a valid key"));
    }
    request
}

fn random_grant_request(random: &mut Random, created: &mut Created, step: usize, place: u64) -> Request {
    let (purpose, subject) = (Purpose::new("upload").expect("valid"), Subject::new("s").expect("valid"));
    let token = |id: u128| Token::new(GrantId(id), [id as u8; 32]);
    if let (0, Some(id)) = (random.below(2), created.grants.last().copied()) {
        let redemption = Redemption::new(purpose, subject, &token(id).reveal()).expect("well-formed");
        return Op::Submit(Command { redeem: vec![redemption], ..Command::default() }).into();
    }
    let id = 1_000 + step as u128 * 10 + u128::from(place);
    created.grants.push(id);
    Op::Mint(Mint {
        id: GrantId(id),
        digest: token(id).digest(),
        purpose,
        subject,
        payload: Payload::new("{\"n\":1}").expect("JSON"),
        ttl: secs(30),
    })
    .into()
}

pub(super) async fn verify_finds_nothing_after_a_mixed_stream(world: World) {
    mixed_stream(&world, 200).await;
    world.assert_verified().await;
    world.clock.advance(Span::from_days(3));
    while world.sweep().await > 0 {}
    world.apply(Op::Tidy { scopes: (0..4).map(|n| scope(&format!("agent:{n}"))).collect() }).await;
    world.assert_verified().await;
    let kinds = world.kinds().await;
    for kind in [
        "hold.placed",
        "hold.committed",
        "hold.released",
        "hold.expired",
        "hold.extended",
        "spend.posted",
        "grant.redeemed",
        "job.enqueued",
        "budget.crossed",
    ] {
        assert!(kinds.contains(&kind), "the stream has no {kind}");
    }
}
