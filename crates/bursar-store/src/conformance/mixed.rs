//! A mixed stream of requests, the same for every engine.

use bursar_core::answer::Answer;
use bursar_core::grant::Token;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::{IdempotencyKey, Purpose, Subject};
use bursar_core::payload::Payload;
use bursar_core::request::{Actual, Charge, Command, Mint, Op, Redemption, Request, Settle};
use bursar_core::time::Span;

use super::commands::job;
use super::world::{World, limit, loose, scope, secs};

/// What a stream brought into being.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) holds: Vec<HoldId>,
    pub(super) grants: Vec<u128>,
    pub(super) jobs: Vec<u128>,
}

/// A small generator of numbers, so that a stream is the same everywhere.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

pub(super) async fn mixed_stream(world: &World, steps: usize) -> Seen {
    let mut org = loose(&[limit(5_000, "rolling:600000"), limit(20_000, "day@Asia/Kolkata")]);
    org.thresholds = vec![25, 50, 75];
    org.trip = Some(limit(12_000, "hour"));
    world.define("org", org).await;
    world.define("team", loose(&[limit(3_000, "bucket:3000:1000:60000")]).under(scope("org"))).await;
    for agent in 0..4 {
        let limits = [limit(1_500, "rolling:60000"), limit(90_000, "lifetime")];
        world.define(&format!("agent:{agent}"), loose(&limits).under(scope("team"))).await;
    }
    let mut dice = Dice(7);
    let mut seen = Seen::default();
    for step in 0..steps {
        let count = 1 + dice.roll(4);
        let requests: Vec<Request> = (0..count).map(|place| random(&mut dice, &mut seen, step, place)).collect();
        for outcome in world.batch(requests).await.into_iter().flatten() {
            if let Answer::Submitted(done) = outcome.answer {
                seen.holds.extend(done.hold.map(|hold| hold.id));
                seen.jobs.extend(done.jobs.iter().map(|job| job.id.0));
            }
        }
        world.clock.advance(Span::from_millis(dice.roll(9_000)));
        if dice.roll(10) == 0 {
            world.sweep().await;
        }
        if dice.roll(40) == 0 {
            world.clock.advance(secs(4_000));
        }
    }
    seen.holds.sort();
    seen.holds.dedup();
    seen.jobs.sort_unstable();
    seen.jobs.dedup();
    seen
}

fn random(dice: &mut Dice, seen: &mut Seen, step: usize, place: u64) -> Request {
    let agent = |dice: &mut Dice| scope(&format!("agent:{}", dice.roll(4)));
    let hold = |dice: &mut Dice, seen: &Seen| {
        let back = dice.roll(6) as usize;
        seen.holds.len().checked_sub(1 + back).map_or(HoldId(1), |at| seen.holds[at])
    };
    let op = match dice.roll(12) {
        0..=3 => Op::Submit(Command {
            charges: (0..=dice.roll(2)).map(|_| Charge::new(agent(dice), dice.roll(700) as i64)).collect(),
            settle: Settle::Hold { ttl: Some(Span::from_millis(1 + dice.roll(30_000))) },
            ..Command::default()
        }),
        4 => Op::Submit(Command {
            charges: vec![Charge::new(agent(dice), 10).within([limit(400, "hour")])],
            jobs: vec![job(Some(&format!("k{}", dice.roll(50))), "{\"a\":1}")],
            settle: Settle::Job,
            ..Command::default()
        }),
        5 => {
            Op::Submit(Command { charges: vec![Charge::new(agent(dice), dice.roll(300) as i64)], ..Command::default() })
        }
        6..=7 => Op::Commit { hold: hold(dice, seen), actual: Actual::Amount(dice.roll(900) as i64) },
        8 => Op::Release { hold: hold(dice, seen) },
        9 => Op::Extend { hold: hold(dice, seen), by: Span::from_millis(1 + dice.roll(20_000)) },
        10 => Op::Credit { scope: agent(dice), amount: dice.roll(50) as i64, hold: None },
        _ => return granted(dice, seen, step, place),
    };
    let request = Request::from(op);
    if dice.roll(3) == 0 {
        return request.with_key(IdempotencyKey::new(format!("key-{}", dice.roll(200))).expect("a good key"));
    }
    request
}

fn granted(dice: &mut Dice, seen: &mut Seen, step: usize, place: u64) -> Request {
    let (purpose, subject) = (Purpose::new("upload").expect("good"), Subject::new("s").expect("good"));
    let token = |id: u128| Token::new(GrantId(id), [id as u8; 32]);
    if let (0, Some(id)) = (dice.roll(2), seen.grants.last().copied()) {
        let redemption = Redemption::new(purpose, subject, &token(id).reveal()).expect("well-formed");
        return Op::Submit(Command { redeem: vec![redemption], ..Command::default() }).into();
    }
    let id = 1_000 + step as u128 * 10 + u128::from(place);
    seen.grants.push(id);
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

pub(super) async fn verify_is_clean_after_a_mixed_stream(world: World) {
    mixed_stream(&world, 200).await;
    world.verified().await;
    world.clock.advance(Span::from_days(3));
    while world.sweep().await > 0 {}
    world.done(Op::Tidy { scopes: (0..4).map(|n| scope(&format!("agent:{n}"))).collect() }).await;
    world.verified().await;
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
        assert!(kinds.contains(&kind), "the stream has a {kind}");
    }
}
