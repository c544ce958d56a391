//! Windows: which postings and holds count, and for how long.

use bursar_core::bounds::FOLD_STEP;
use bursar_core::budget::{Budget, Short, WouldRefuse};
use bursar_core::event::Event;
use bursar_core::name::IdempotencyKey;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Op, Request};
use bursar_core::scope::Freeze;
use bursar_core::time::{Span, Time};

use super::world::{World, available, hold, hold_within, limit, loose, post, post_within, scope, secs, submitted};

pub(super) async fn rolling_window_is_exact(world: World) {
    world.budget("api", &[limit(100, "rolling:60000")]).await;
    world.apply(post("api", 40)).await;
    let first = world.now();
    world.clock.advance(secs(30));
    world.apply(post("api", 60)).await;
    world.at(first.after(secs(60)).before(Span::from_micros(1)));
    assert_eq!(available(world.submit(post("api", 1)).await), 0);
    world.at(first.after(secs(60)));
    assert_eq!(available(world.submit(post("api", 41)).await), 40, "the first posting has left, the second has not");
    let live = world.place(hold("api", 40, secs(3_600))).await;
    world.clock.advance(secs(600));
    assert_eq!(world.balance("api", "rolling:60000").await, (0, 40), "a hold counts until it is settled or expires");
    world.commit(live, 40).await.expect("it commits");
    assert_eq!(
        world.balance("api", "rolling:60000").await,
        (0, 0),
        "the spend is dated at its placement, ten minutes ago"
    );
    world.assert_verified().await;
}

pub(super) async fn more_postings_leave_a_window_than_one_step_folds(world: World) {
    let count = FOLD_STEP as i64 + 50;
    world.budget("api", &[limit(count, "rolling:60000")]).await;
    for _ in 0..2 {
        let half = count / 2;
        world.batch((0..half).map(|_| post("api", 1).into()).collect()).await;
        world.clock.advance(secs(1));
    }
    assert_eq!(available(world.submit(post("api", 10)).await), 0);
    world.clock.advance(secs(60));
    world.apply(post("api", count)).await;
    assert_eq!(world.balance("api", "rolling:60000").await, (count, 0));
    world.assert_verified().await;
}

pub(super) async fn calendar_window_resets_at_its_end(world: World) {
    world.budget("room", &[limit(100, "month@Europe/Berlin"), limit(30, "day@Europe/Berlin")]).await;
    world.apply(post("room", 30)).await;
    let refused = world.submit(post("room", 80)).await;
    let Err(Refusal::Refused(violations)) = refused else { panic!("both limits refuse: {refused:?}") };
    let windows: Vec<String> = violations
        .iter()
        .map(|violation| match violation {
            Violation::Limit { window, .. } => window.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(windows, ["month@Europe/Berlin", "day@Europe/Berlin"]);
    let live = world.place(hold("room", 0, secs(60))).await;
    world.commit(live, 0).await.expect("zero is legal");
    // Midnight in Berlin is 23:00 UTC.
    let midnight = Time::from_micros(1_794_870_000_000_000);
    world.at(midnight.before(Span::from_micros(1)));
    assert_eq!(available(world.submit(post("room", 1)).await), 0);
    world.at(midnight);
    world.apply(post("room", 30)).await;
    assert_eq!(world.balance("room", "day@Europe/Berlin").await, (30, 0));
    assert_eq!(world.balance("room", "month@Europe/Berlin").await, (60, 0));
    world.assert_verified().await;
}

pub(super) async fn bucket_refills(world: World) {
    world.budget("api", &[limit(10, "bucket:10:5:1000")]).await;
    world.apply(post("api", 10)).await;
    let emptied = world.now();
    let refused = world.submit(post("api", 3)).await;
    let Err(Refusal::Refused(violations)) = refused else { panic!("it is empty: {refused:?}") };
    let [Violation::Limit { retry_after: Some(wait), .. }] = violations.as_slice() else { panic!("{violations:?}") };
    let full = world.now().after(*wait);
    assert_eq!(full, emptied.after(Span::from_millis(600)), "three tokens take 600 ms");
    world.at(full.before(Span::from_micros(1)));
    assert_eq!(available(world.submit(post("api", 3)).await), 2);
    world.at(full);
    world.apply(post("api", 3)).await;
    world.clock.advance(secs(100));
    let live = world.place(hold("api", 10, secs(100))).await;
    world.clock.advance(secs(1));
    world.commit(live, 8).await.expect("it commits");
    assert_eq!(available(world.submit(post("api", 8)).await), 7, "five were refilled, two returned by the commit");
    world.assert_verified().await;
}

pub(super) async fn new_window_includes_earlier_postings_and_holds(world: World) {
    world.budget("room", &[limit(1_000, "lifetime")]).await;
    world.apply(post("room", 10)).await;
    world.clock.advance(Span::from_days(1));
    world.apply(post("room", 20)).await;
    world.place(hold("room", 5, Span::from_days(20))).await;
    world.clock.advance(secs(60));
    let day = limit(26, "day");
    assert_eq!(
        available(world.submit(post_within("room", 2, std::slice::from_ref(&day))).await),
        1,
        "20 posted and 5 held today"
    );
    let hour = limit(40, "rolling:172800000");
    assert_eq!(available(world.submit(hold_within("room", 6, std::slice::from_ref(&hour))).await), 5, "35 in two days");
    world.apply(post_within("room", 1, &[day, hour])).await;
    assert_eq!(world.balance("room", "rolling:172800000").await, (31, 5));
    world.clock.advance(Span::from_days(1));
    assert_eq!(world.balance("room", "rolling:172800000").await, (21, 5), "the first posting has left");
    assert_eq!(world.balance("room", "day").await, (0, 0), "the hold was placed yesterday");
    world.assert_verified().await;
}

pub(super) async fn old_postings_are_rolled_up(world: World) {
    world.budget("room", &[limit(1_000, "lifetime"), limit(1_000, "year")]).await;
    world.apply(post("room", 10)).await;
    world.clock.advance(Span::from_days(300));
    world.apply(post("room", 20)).await;
    world.clock.advance(Span::from_days(150));
    let before = world.state("room").await;
    world.apply(Op::Tidy { scopes: vec![scope("room")] }).await;
    let key = (bursar_core::name::Tenant::built_in(), scope("room"));
    assert_eq!(world.store.spent(&key, Time::MIN, Time::NEVER).await.expect("works"), 20, "one posting is rolled up");
    let after = world.state("room").await;
    assert_eq!(before.balances[0].posted, after.balances[0].posted);
    assert_eq!(world.balance("room", "lifetime").await, (30, 0));
    world.assert_verified().await;
    // 400 days are kept: the window has the second posting, and not the first one, which is 450 days old.
    let long = world.submit(post_within("room", 6, &[limit(25, "rolling:34560000000")])).await;
    assert_eq!(available(long), 5);
}

pub(super) async fn ninth_window_is_refused(world: World) {
    let windows: Vec<_> = (1..=8).map(|hours| limit(100, &format!("rolling:{}", hours * 3_600_000))).collect();
    world.apply(post_within("room", 1, &windows)).await;
    let ninth = world.submit(post_within("room", 1, &[limit(100, "day")])).await;
    assert_eq!(ninth.expect_err("a scope has at most eight windows"), Refusal::TooManyWindows { scope: scope("room") });
    world.apply(post_within("room", 1, &[limit(100, "lifetime")])).await;
    // Windows that no request has used for a month are dropped.
    world.clock.advance(Span::from_days(32));
    world.apply(post_within("room", 1, &[limit(100, "day")])).await;
    world.assert_verified().await;
}

pub(super) async fn threshold_crossings_are_recorded_once(world: World) {
    let mut budget = loose(&[limit(100, "day")]);
    budget.thresholds = vec![50, 80, 100];
    world.define("room", budget).await;
    world.batch(vec![post("room", 40).into(), post("room", 20).into(), post("room", 25).into()]).await;
    world.apply(Op::Credit { scope: scope("room"), amount: 20, hold: None }).await;
    world.apply(post("room", 20)).await;
    world.clock.advance(Span::from_days(1));
    world.apply(post("room", 50)).await;
    let crossings: Vec<(bool, u32)> = world
        .events()
        .await
        .iter()
        .filter_map(|event| match event {
            Event::BudgetCrossed { percent, .. } => Some((true, *percent)),
            Event::BudgetCleared { percent, .. } => Some((false, *percent)),
            _ => None,
        })
        .collect();
    assert_eq!(crossings, [(true, 50), (true, 80), (false, 80), (true, 80), (true, 50)]);
    world.assert_verified().await;
}

pub(super) async fn tripped_scope_is_frozen_until_the_window_resets(world: World) {
    let mut budget = loose(&[limit(1_000, "lifetime")]);
    budget.trip = Some(limit(100, "day"));
    world.define("room", budget).await;
    let live = world.place(hold("room", 10, Span::from_days(9))).await;
    world.apply(post("room", 101)).await;
    assert!(matches!(world.state("room").await.frozen, Some(Freeze::Trip { .. })));
    let refused = world.submit(post("room", 1)).await;
    assert_eq!(refused.expect_err("frozen"), Refusal::Refused(vec![Violation::Frozen { scope: scope("room") }]));
    world.commit(live, 10).await.expect("a commit is never refused by a freeze");
    world.clock.advance(Span::from_days(1));
    world.apply(post("room", 1)).await;
    assert_eq!(world.state("room").await.frozen, None);
    world.apply(post("room", 150)).await;
    world.apply(Op::Unfreeze { scope: scope("room") }).await;
    world.apply(post("room", 1)).await;
    let trips = world.kinds().await.iter().filter(|kind| **kind == "budget.tripped").count();
    assert_eq!(trips, 2, "after a manual unfreeze it trips again only in the next window");
    world.apply(Op::Freeze { scope: scope("room") }).await;
    world.clock.advance(Span::from_days(3));
    assert!(world.submit(post("room", 1)).await.is_err(), "a manual freeze does not end by itself");
    world.assert_verified().await;
}

pub(super) async fn shadow_budget_refuses_nothing_and_records_it(world: World) {
    let strict = Budget { trip: Some(limit(150, "day")), ..loose(&[limit(100, "day")]) };
    let shadow = Budget { shadow: true, ..strict.clone() };
    world.define("room", shadow.clone()).await;
    let short = |requested, available| {
        let short = Short { window: "day".parse().expect("a window"), limit: 100, available };
        WouldRefuse { scope: scope("room"), requested, short: Some(short) }
    };
    let frozen = |requested| WouldRefuse { scope: scope("room"), requested, short: None };
    let fits = submitted(world.apply(post("room", 90)).await);
    assert!(fits.would_refuse().is_empty() && fits.warnings().is_empty(), "{fits:?}");
    let held = submitted(world.apply(hold("room", 30, secs(60))).await);
    assert_eq!((held.would_refuse(), held.warnings()), (&[short(30, 10)][..], vec!["would_refuse"]));
    assert_eq!(world.balance("room", "day").await, (90, 30), "it is held like any other");
    let over = submitted(world.apply(post("room", 65)).await);
    assert_eq!(over.would_refuse(), [short(65, 0)]);
    assert!(matches!(world.state("room").await.frozen, Some(Freeze::Trip { .. })));
    let tripped = submitted(world.apply(post("room", 1)).await);
    assert_eq!(tripped.would_refuse(), [frozen(1), short(1, 0)]);
    let live = held.hold.expect("a hold").id;
    world.apply(Op::Extend { hold: live, by: secs(60) }).await;
    world.commit(live, 30).await.expect("a commit is never refused");

    // A dry run and a repeated request give the same answer.
    let key = IdempotencyKey::new("again").expect("a valid key");
    let keyed = |dry_run| Request { dry_run, ..Request::from(post("room", 7)).with_key(key.clone()) };
    let expected = [frozen(7), short(7, 0)];
    for dry_run in [true, false, false] {
        let outcome = world.request(keyed(dry_run)).await.expect("nothing is refused");
        assert_eq!(submitted(outcome).would_refuse(), expected);
    }

    // What refuses nevertheless: a limit of the caller, also an equal one, an ancestor, and a freeze by a caller.
    for given in [limit(5, "hour"), limit(100, "day")] {
        assert!(world.submit(post_within("room", 6, &[given])).await.is_err());
    }
    world.budget("house", &[limit(10, "day")]).await;
    world.define("room", shadow.under(scope("house"))).await;
    assert_eq!(available(world.submit(post("room", 11)).await), 10, "the ancestor is not in shadow mode");
    world.apply(Op::Freeze { scope: scope("room") }).await;
    assert!(world.submit(post("room", 1)).await.is_err());
    world.apply(Op::Unfreeze { scope: scope("room") }).await;

    let recorded: Vec<WouldRefuse> = world.events().await.into_iter().filter_map(shadowed).collect();
    let expected = [short(30, 10), short(65, 0), frozen(1), short(1, 0), frozen(0), frozen(7), short(7, 0)];
    assert_eq!(recorded, expected, "what is refused or only tried records nothing");
    world.define("room", strict).await;
    assert_eq!(available(world.submit(post("room", 1)).await), 0, "spend in shadow mode counts");
    world.assert_verified().await;
}

fn shadowed(event: Event) -> Option<WouldRefuse> {
    match event {
        Event::BudgetWouldRefuse(shadowed) => Some(shadowed),
        _ => None,
    }
}

pub(super) async fn sums_never_overflow_64_bits(world: World) {
    world.budget("room", &[limit(i64::MAX, "lifetime"), limit(i64::MAX, "rolling:1000")]).await;
    let credit = |amount| Op::Credit { scope: scope("room"), amount, hold: None };
    let most = i64::MAX / 2;
    world.apply(credit(most)).await;
    world.place(hold("room", most, secs(60))).await;
    assert!(
        matches!(world.submit(hold("room", 2, secs(60))).await, Err(Refusal::Overflow { .. })),
        "held would overflow"
    );
    assert!(matches!(world.submit(credit(2)).await, Err(Refusal::Overflow { .. })));
    world.clock.advance(secs(100));
    world.apply(post("room", most)).await;
    assert!(matches!(world.submit(post("room", 2)).await, Err(Refusal::Overflow { .. })));
    world.clock.advance(secs(100));
    assert_eq!(world.balance("room", "rolling:1000").await, (0, 0), "all postings have left the window");
    world.assert_verified().await;
}

pub(super) async fn drained_bucket_is_not_deleted(world: World) {
    let drained = limit(10, "bucket:10:0:1000");
    world.apply(post_within("room", 10, std::slice::from_ref(&drained))).await;
    let others: Vec<_> = (1..=7).map(|hours| limit(100, &format!("rolling:{}", hours * 3_600_000))).collect();
    world.apply(post_within("room", 1, &others)).await;
    world.clock.advance(Span::from_days(64));
    world.apply(post_within("room", 1, &[limit(100, "day"), limit(100, "hour")])).await;
    assert_eq!(available(world.submit(post_within("room", 1, &[drained])).await), 0, "the bucket is still empty");
    world.assert_verified().await;
}

pub(super) async fn definition_records_thresholds_already_crossed(world: World) {
    world.budget("room", &[limit(100, "day")]).await;
    world.apply(post("room", 90)).await;
    let mut budget = loose(&[limit(100, "day")]);
    budget.thresholds = vec![80];
    budget.trip = Some(limit(50, "day"));
    world.define("room", budget).await;
    let kinds = world.kinds().await;
    assert!(kinds.ends_with(&["budget.defined", "budget.crossed", "budget.tripped"]), "{kinds:?}");
    assert!(matches!(world.submit(post("room", 1)).await, Err(Refusal::Refused(_))), "the scope is frozen at once");
    world.assert_verified().await;
}
