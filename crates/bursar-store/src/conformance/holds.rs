//! Holds: placement, settlement, expiry.

use bursar_core::bounds::FOLD_STEP;
use bursar_core::budget::Cover;
use bursar_core::event::Event;
use bursar_core::hold::{HoldState, OnExpiry};
use bursar_core::id::HoldId;
use bursar_core::name::Tenant;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Command, Op, Request};
use bursar_core::time::Span;

use super::world::{World, available, hold, hold_within, limit, loose, post, scope, secs};

pub(super) async fn limit_admits_up_to_its_amount(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    world.place(hold("room", 60, secs(60))).await;
    assert_eq!(available(world.submit(hold("room", 41, secs(60))).await), 40);
    world.place(hold("room", 40, secs(60))).await;
    world.place(hold("room", 0, secs(60))).await;
    assert_eq!(available(world.submit(post("room", 1)).await), 0);
    assert_eq!(world.balance("room", "lifetime").await, (0, 100));
    assert!(matches!(world.submit(post("nowhere", 1)).await, Err(Refusal::UnknownScope { .. })));
    world.assert_verified().await;
}

pub(super) async fn a_refusal_does_not_affect_other_requests(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let requests = [70, 50, 30, -1, 1].map(|amount| Request::from(hold("room", amount, secs(60))));
    let answers = world.batch(requests.to_vec()).await;
    let done: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, false, true, false, false]);
    assert!(matches!(answers[3], Err(Refusal::Invalid(_))));
    assert_eq!(world.balance("room", "lifetime").await, (0, 100));
    world.assert_verified().await;
}

pub(super) async fn commit_returns_the_rest_and_release_returns_all(world: World) {
    world.budget("room", &[limit(1_000, "month")]).await;
    let first = world.place(hold("room", 600, secs(60))).await;
    let second = world.place(hold("room", 400, secs(60))).await;
    let settled = world.commit(first, 250).await.expect("it commits");
    assert_eq!((settled.late, settled.overrun, settled.charges[0].balances[0].remaining), (false, 0, 350));
    let released = world.settle(Op::Release { hold: second }).await.expect("it releases");
    assert_eq!((released.state, released.charges[0].balances[0].remaining), (HoldState::Released, 750));
    assert_eq!(world.balance("room", "month").await, (250, 0));
    world.assert_verified().await;
}

pub(super) async fn expired_hold_stops_counting_the_instant_it_expires(world: World) {
    for swept in [false, true] {
        let name = if swept { "swept" } else { "unswept" };
        world.budget(name, &[limit(100_000, "lifetime")]).await;
        let placed = world.place(hold(name, 100_000, Span::from_millis(100))).await;
        let expires_at =
            world.store.hold(&Tenant::built_in(), placed).await.expect("works").expect("it exists").expires_at;
        world.at(expires_at.before(Span::from_micros(1)));
        assert_eq!(available(world.submit(hold(name, 1, secs(60))).await), 0);
        world.clock.set(expires_at);
        if swept {
            assert_eq!(world.sweep().await, 1);
            assert_eq!(world.sweep().await, 0, "a hold is swept once");
            assert_eq!(world.hold_state(placed).await, HoldState::Expired);
        }
        assert_eq!(world.balance(name, "lifetime").await, (0, 0));
        world.place(hold(name, 100_000, secs(1_000))).await;
        world.assert_verified().await;
        if !swept {
            assert_eq!(world.sweep().await, 1);
        }
    }
    assert_eq!(world.kinds().await.iter().filter(|kind| **kind == "hold.expired").count(), 2);
}

pub(super) async fn late_commit_is_charged_and_flagged(world: World) {
    world.budget("room", &[limit(1_000_000, "lifetime")]).await;
    for swept in [false, true] {
        let placed = world.place(hold("room", 300_000, secs(1))).await;
        world.clock.advance(secs(2));
        if swept {
            world.sweep().await;
        }
        let settled = world.commit(placed, 300_000).await.expect("late spend is charged");
        assert!(settled.late);
        assert_eq!(settled.warnings(), ["committed_after_expiry"]);
        world.assert_verified().await;
    }
    assert_eq!(world.balance("room", "lifetime").await, (600_000, 0));
    assert_eq!(available(world.submit(post("room", 410_000)).await), 400_000);
    world.apply(post("room", 400_000)).await;
}

pub(super) async fn overrun_counts_at_commit_and_the_held_part_at_placement(world: World) {
    world.budget("room", &[limit(100, "day")]).await;
    let placed = world.place(hold("room", 40, Span::from_days(2))).await;
    world.clock.advance(Span::from_days(1));
    let settled = world.commit(placed, 55).await.expect("an overrun is charged");
    assert_eq!((settled.overrun, settled.late), (15, false));
    assert_eq!(world.balance("room", "day").await, (15, 0), "only the overrun counts today");
    let today = world.now().after(secs(86_400));
    let key = (bursar_core::name::Tenant::built_in(), scope("room"));
    let spent = world.store.spent(&key, bursar_core::time::Time::MIN, today).await.expect("works");
    assert_eq!(spent, 55, "held part and overrun are spent");
    world.assert_verified().await;
}

pub(super) async fn late_commits_and_overruns_are_refused_by_policy(world: World) {
    let mut strict = loose(&[limit(100, "lifetime")]);
    strict.hold.late = Cover::Refuse;
    strict.hold.overrun = Cover::Refuse;
    world.define("seat", strict).await;
    let placed = world.place(hold("seat", 10, secs(10))).await;
    assert!(matches!(world.commit(placed, 11).await, Err(Refusal::OverrunRefused { held: 10, actual: 11, .. })));
    world.clock.advance(secs(10));
    assert!(matches!(world.commit(placed, 10).await, Err(Refusal::LateRefused { .. })));
    assert_eq!(world.balance("seat", "lifetime").await, (0, 0));
    world.assert_verified().await;
}

pub(super) async fn extension_moves_the_expiry(world: World) {
    let mut budget = loose(&[limit(100, "lifetime")]);
    budget.hold.life_max = Some(secs(100));
    world.define("room", budget).await;
    let placed = world.place(hold("room", 10, secs(30))).await;
    world.apply(Op::Extend { hold: placed, by: secs(30) }).await;
    world.clock.advance(secs(59));
    assert_eq!(world.balance("room", "lifetime").await, (0, 10), "it lasts beyond its first expiry");
    world.apply(Op::Extend { hold: placed, by: secs(3_600) }).await;
    assert!(matches!(world.submit(Op::Extend { hold: placed, by: secs(1) }).await, Err(Refusal::LifeExceeded { .. })));
    world.apply(Op::Freeze { scope: scope("room") }).await;
    assert!(matches!(world.submit(Op::Extend { hold: placed, by: secs(1) }).await, Err(Refusal::Refused(_))));
    world.clock.advance(secs(42));
    assert!(matches!(world.submit(Op::Extend { hold: placed, by: secs(1) }).await, Err(Refusal::HoldExpired { .. })));
    assert_eq!(world.balance("room", "lifetime").await, (0, 0), "its lifetime is at most 100 seconds");
    world.assert_verified().await;
}

pub(super) async fn a_settled_hold_cannot_be_settled_again(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let placed = world.place(hold("room", 10, secs(10))).await;
    world.commit(placed, 5).await.expect("it commits");
    for op in [Op::Release { hold: placed }, Op::Commit { hold: placed, actual: Actual::Held }] {
        let again = world.submit(op).await;
        assert_eq!(
            again.expect_err("it is settled"),
            Refusal::AlreadySettled { hold: placed, state: HoldState::Committed }
        );
    }
    let unknown = HoldId(42);
    assert_eq!(world.commit(unknown, 1).await.expect_err("there is none"), Refusal::UnknownHold { hold: unknown });
    assert_eq!(world.balance("room", "lifetime").await, (5, 0));
    world.assert_verified().await;
}

pub(super) async fn hold_is_settled_on_the_parents_it_was_placed_on(world: World) {
    world.budget("org", &[limit(100, "lifetime")]).await;
    world.budget("other", &[limit(100, "lifetime")]).await;
    world.define("team", loose(&[limit(80, "lifetime")]).under(scope("org"))).await;
    world.define("agent", loose(&[limit(1_000, "lifetime")]).under(scope("team"))).await;
    assert_eq!(available(world.submit(hold("agent", 90, secs(60))).await), 80, "the team refuses");
    let placed = world.place(hold("agent", 60, secs(60))).await;
    assert_eq!(world.balance("org", "lifetime").await, (0, 60));
    world.define("team", loose(&[limit(80, "lifetime")]).under(scope("other"))).await;
    world.commit(placed, 50).await.expect("it commits");
    assert_eq!(world.balance("org", "lifetime").await, (50, 0));
    assert_eq!(world.balance("other", "lifetime").await, (0, 0));
    world.apply(post("agent", 10)).await;
    assert_eq!(world.balance("other", "lifetime").await, (10, 0));
    let cycle = Op::Define { scope: scope("other"), budget: loose(&[limit(1, "lifetime")]).under(scope("agent")) };
    assert!(matches!(world.submit(cycle).await, Err(Refusal::Cycle { .. })));
    world.assert_verified().await;
}

pub(super) async fn clock_set_back_does_not_revive_expired_holds(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let short = world.place(hold("room", 50, secs(10))).await;
    let long = world.place(hold("room", 50, secs(60))).await;
    world.clock.advance(secs(20));
    world.place(hold("room", 50, secs(60))).await;
    world.clock.turn_back(secs(30));
    assert_eq!(world.sweep().await, 0, "no hold is due by the clock");
    assert_eq!(available(world.submit(hold("room", 1, secs(60))).await), 0, "the expired hold stays expired");
    assert!(!world.commit(long, 50).await.expect("it is live").late);
    assert!(world.commit(short, 50).await.expect("late spend is charged").late, "its commit is late");
    world.assert_verified().await;
}

pub(super) async fn more_holds_expire_than_one_step_folds(world: World) {
    let count = FOLD_STEP as i64 * 2 + 100;
    let cap = [limit(count, "lifetime")];
    world.budget("room", &cap).await;
    world.budget("other", &cap).await;
    for chunk in 0..3 {
        let left = (count - chunk * 2_000).min(2_000);
        world.batch((0..left).map(|_| hold("room", 1, secs(60)).into()).collect()).await;
    }
    assert_eq!(world.balance("room", "lifetime").await.1, count);
    assert_eq!(available(world.submit(hold("room", 1, secs(60))).await), 0);
    world.clock.advance(secs(60));
    assert_eq!(world.balance("room", "lifetime").await.1, 0, "a read counts none of them");
    // A request on another scope is answered by the first step, one on this scope after all steps.
    let answers = world.batch(vec![hold("room", count, secs(60)).into(), hold("other", 1, secs(60)).into()]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.balance("room", "lifetime").await.1, count);
    world.assert_verified().await;
}

pub(super) async fn removed_budget_stays_removed_and_can_be_defined_again(world: World) {
    world.budget("org", &[limit(100, "lifetime")]).await;
    world.define("team", loose(&[limit(80, "month")]).under(scope("org"))).await;
    let placed = world.place(hold("team", 10, secs(60))).await;
    let remove = |name: &str| Op::RemoveBudget { scope: scope(name) };
    let in_use = world.submit(remove("team")).await;
    assert!(matches!(in_use, Err(Refusal::BudgetInUse { held: 10, children: 0, .. })), "{in_use:?}");
    let parent = world.submit(remove("org")).await;
    assert!(matches!(parent, Err(Refusal::BudgetInUse { held: 10, children: 1, .. })), "{parent:?}");
    world.commit(placed, 7).await.expect("it commits");
    // Both are removed in one batch, the child first.
    let answers = world.batch(vec![remove("team").into(), remove("org").into()]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for name in ["team", "org", "team", "org"] {
        assert!(world.state(name).await.budget.is_none(), "{name}");
        assert!(matches!(world.submit(post(name, 1)).await, Err(Refusal::UnknownScope { .. })), "{name}");
        assert_eq!(world.balance(name, "lifetime").await, (7, 0), "the spend of {name} stays");
        world.store.rebuild().await.expect("works");
    }
    world.assert_verified().await;
    world.budget("team", &[limit(20, "lifetime")]).await;
    assert_eq!(available(world.submit(post("team", 14)).await), 13);
    assert_eq!(world.state("org").await.below, Vec::<u64>::new());
    world.assert_verified().await;
}

/// Holds more charges than the row of a scope keeps, so that some are in the table.
pub(super) async fn expiry_posts_its_charge_the_instant_it_expires(world: World) {
    world.budget("org", &[limit(10_000, "lifetime")]).await;
    world.define("room", loose(&[limit(1_000, "rolling:1h")]).under(scope("org"))).await;
    let charging = |ttl| match hold("room", 10, ttl) {
        Op::Submit(command) => Op::Submit(Command { on_expiry: OnExpiry::Charge(7), ..command }),
        other => other,
    };
    let mut placed = Vec::new();
    for number in 0..20 {
        placed.push(world.place(charging(secs(60 + number))).await);
    }
    assert_eq!(world.balance("room", "rolling:1h").await, (0, 200));
    let start = world.now();
    world.clock.advance(secs(69));
    let spent = async || {
        let key = (bursar_core::name::Tenant::built_in(), scope("room"));
        world.store.spent(&key, start, world.now().after(secs(1))).await.expect("works")
    };
    // Ten holds have expired. Readers count them although nothing is stored yet.
    assert_eq!(world.balance("room", "rolling:1h").await, (70, 100));
    assert_eq!((world.balance("org", "lifetime").await, spent().await), ((70, 100), 70));
    world.assert_verified().await;
    // A window that is opened now counts them as well, and so does the next charge.
    world.place(hold_within("room", 1, &[limit(1_000, "day")])).await;
    assert_eq!((world.balance("room", "day").await, spent().await), ((70, 101), 70));
    world.assert_verified().await;
    let late = world.commit(placed[0], 9).await.expect("it commits");
    assert!(late.late);
    world.commit(placed[1], 2).await.expect("it commits");
    assert_eq!(world.sweep().await, 8);
    assert_eq!(world.sweep().await, 0);
    assert_eq!((world.balance("room", "rolling:1h").await, spent().await), ((67, 101), 67));
    let charged = |event: &Event| matches!(event, Event::HoldExpired { charged: 7, .. });
    assert_eq!(world.events().await.iter().filter(|event| charged(event)).count(), 8);
    world.store.rebuild().await.expect("works");
    assert_eq!(world.balance("room", "rolling:1h").await, (67, 101));
    world.assert_verified().await;
    // An hour later all of it has left the window, also what was never stored before that.
    world.clock.advance(secs(2 * 3_600));
    assert_eq!(world.balance("room", "rolling:1h").await, (0, 0));
    assert_eq!(world.balance("org", "lifetime").await, (137, 0));
    world.place(hold("room", 1_000, secs(60))).await;
    assert_eq!(world.sweep().await, 11);
    assert_eq!(world.balance("org", "lifetime").await, (137, 1_000));
    world.store.rebuild().await.expect("works");
    assert_eq!(world.balance("org", "lifetime").await, (137, 1_000));
    world.assert_verified().await;
}
