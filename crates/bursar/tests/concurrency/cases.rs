//! The twelve cases.

use std::time::Duration;

use bursar::{Budget, HoldState, Limit, Payload, Span, Window};

use crate::act::{Act, End, Report};
use crate::crew::{Crew, Engine, Kind, World};

/// A case: its name and its function.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&World, &Crew<'_>),
}

macro_rules! cases {
    ($($name:ident,)*) => {
        pub(crate) const CASES: &[Case] = &[$(Case { name: stringify!($name), run: $name },)*];
    };
}

cases! {
    case_01_hundred_holds_on_a_cap,
    case_02_a_release_admits_exactly_as_many,
    case_03_an_expired_hold_blocks_no_request,
    case_04_failure_before_commit_leaves_nothing,
    case_05_clock_moves_back,
    case_06_late_commit_is_charged,
    case_07_two_redeemers_one_winner,
    case_08_a_rollback_leaves_nothing_and_a_commit_everything,
    case_09_scopes_in_different_orders,
    case_10_waiter_sees_the_balance_after_the_wait,
    case_11_open_transaction_delays_only_its_own_scopes,
    case_12_hundred_thousand_expire_at_once,
}

fn define(world: &World, scope: &str, cap: i64) {
    let mut budget = Budget::new([Limit::new(cap, Window::Lifetime)]);
    budget.hold.ttl_min = Span::from_millis(1);
    budget.hold.ttl_max = Some(Span::from_days(1));
    world.run(world.bursar.ledger().define(scope, budget)).expect("the budget is defined");
}

fn balance(world: &World, scope: &str) -> (i64, i64) {
    let found = world.run(world.bursar.ledger().remaining(scope)).expect("the scope exists");
    (found[0].posted, found[0].held)
}

fn hold(amount: i64, ttl_ms: u64, count: usize) -> Act {
    Act::Hold { scope: "room".into(), amount, ttl_ms, count }
}

fn tally(reports: Vec<Report>) -> Report {
    let sum = Crew::sum(reports);
    assert_eq!(sum.errors, Vec::<String>::new(), "contention fails no request");
    sum
}

fn case_01_hundred_holds_on_a_cap(world: &World, crew: &Crew<'_>) {
    define(world, "room", 1_000_000);
    let sum = tally(crew.all(|_| hold(50_000, 60_000, 100 / crew.size())));
    assert_eq!((sum.done, sum.refused), (20, 80));
    assert_eq!(balance(world, "room"), (0, 1_000_000));
}

fn case_02_a_release_admits_exactly_as_many(world: &World, crew: &Crew<'_>) {
    define(world, "room", 1_000_000);
    let first = tally(vec![crew.one(0, hold(500_000, 600_000, 1))]).holds[0];
    let fifty = |index: usize| hold(50_000, 600_000, if index < 2 { 13 } else { 12 });
    let sum = tally(crew.all(fifty));
    assert_eq!((sum.done, sum.refused), (10, 40));
    tally(vec![crew.one(1, Act::Release { hold: first })]);
    let sum = tally(crew.all(fifty));
    assert_eq!((sum.done, sum.refused), (10, 40));
    assert_eq!(balance(world, "room"), (0, 1_000_000));
}

fn case_03_an_expired_hold_blocks_no_request(world: &World, crew: &Crew<'_>) {
    define(world, "room", 100_000);
    for swept in [false, true] {
        tally(vec![crew.one(0, hold(100_000, 100, 1))]);
        assert_eq!(tally(crew.all(|_| hold(100_000, 100, 5))).refused, 5 * crew.size());
        world.advance(101);
        if swept {
            assert_eq!(tally(crew.all(|_| Act::Sweep)).done, 3, "the two of the first round are included, each once");
        }
        let next = tally(crew.all(|_| hold(100_000, 100, 1)));
        assert_eq!((next.done, next.refused), (1, crew.size() - 1));
        world.advance(101);
        if swept {
            assert_eq!(tally(crew.all(|_| Act::Sweep)).done, 1);
        }
    }
    assert_eq!(balance(world, "room"), (0, 0));
}

fn case_04_failure_before_commit_leaves_nothing(world: &World, crew: &Crew<'_>) {
    define(world, "room", 100);
    let token = mint(world, 1).remove(0);
    let before = world.run(world.bursar.health()).expect("works").position;
    let own = |end| Act::Own { scope: "room".into(), token: token.clone(), job: "j".into(), end };
    match crew.kind() {
        Kind::Processes => crew.last_words(3, &own(End::Die)),
        Kind::Tasks => drop(tally(vec![crew.one(3, own(End::Rollback))])),
    }
    assert_eq!(world.run(world.bursar.health()).expect("works").position, before, "no event was written");
    assert_eq!(balance(world, "room"), (0, 0));
    assert_eq!(tally(vec![crew.one(0, own(End::Commit))]).done, 1, "token and job key are unused");
    assert_eq!(balance(world, "room"), (10, 0));
}

fn case_05_clock_moves_back(world: &World, crew: &Crew<'_>) {
    define(world, "room", 300);
    let long = tally(vec![crew.one(0, hold(100, 60_000, 1))]).holds[0];
    let short = tally(vec![crew.one(1, hold(100, 1_000, 1))]).holds[0];
    world.advance(2_000);
    tally(vec![crew.one(2, hold(100, 60_000, 1))]);
    world.turn_back(30_000);
    assert_eq!(tally(crew.all(|_| Act::Sweep)).done, 0, "nothing is due by the clock");
    let normal = tally(vec![crew.one(3, Act::Commit { hold: long, actual: 100 })]);
    assert_eq!((normal.done, normal.late), (1, 0));
    let late = tally(vec![crew.one(2, Act::Commit { hold: short, actual: 100 })]);
    assert_eq!((late.done, late.late), (1, 1), "an expired hold stays expired");
    assert_eq!(balance(world, "room"), (200, 100));
}

fn case_06_late_commit_is_charged(world: &World, crew: &Crew<'_>) {
    define(world, "room", 1_000_000);
    let placed = tally(vec![crew.one(0, hold(300_000, 1_000, 1))]).holds[0];
    world.advance(2_000);
    let late = crew.all(|_| Act::Commit { hold: placed, actual: 300_000 });
    let sum = Crew::sum(late);
    assert_eq!((sum.done, sum.late, sum.errors.len()), (1, 1, crew.size() - 1), "charged once, with a warning");
    let post = |amount| Act::Post { scope: "room".into(), amount, count: 1 };
    assert_eq!(tally(vec![crew.one(1, post(700_000))]).done, 1);
    assert_eq!(tally(crew.all(|_| post(10_000))).refused, crew.size());
    assert_eq!(balance(world, "room"), (1_000_000, 0));
}

fn mint(world: &World, count: usize) -> Vec<String> {
    let grants = world.bursar.grants();
    let mint = async {
        let mut tokens = Vec::new();
        for _ in 0..count {
            let minted = grants.mint("upload", "session", Payload::default(), Duration::from_secs(3_600)).await;
            tokens.push(minted.expect("the grant is minted").token.expect("the grant is new"));
        }
        tokens
    };
    world.run(mint)
}

fn case_07_two_redeemers_one_winner(world: &World, crew: &Crew<'_>) {
    let count = world.many(1_000);
    let tokens = mint(world, count);
    let sum = tally(crew.all(|_| Act::Redeem { tokens: tokens.clone() }));
    assert_eq!((sum.done, sum.refused), (count, count * (crew.size() - 1)));
}

fn case_08_a_rollback_leaves_nothing_and_a_commit_everything(world: &World, crew: &Crew<'_>) {
    define(world, "room", 1_000);
    let tokens = mint(world, crew.size());
    let own = |index: usize, end| Act::Own {
        scope: "room".into(),
        token: tokens[index].clone(),
        job: format!("job-{index}"),
        end,
    };
    let before = world.run(world.bursar.health()).expect("works").position;
    let mut notices = world.bursar.listen();
    assert_eq!(tally(crew.all(|index| own(index, End::Rollback))).done, crew.size());
    assert_eq!(world.run(world.bursar.health()).expect("works").position, before, "no event was written");
    assert_eq!(balance(world, "room"), (0, 0));
    assert_eq!(tally(crew.all(|index| own(index, End::Commit))).done, crew.size());
    assert_eq!(balance(world, "room"), (10 * crew.size() as i64, 0));
    let position = world.run(world.bursar.health()).expect("works").position;
    assert_eq!(position - before, 3 * crew.size() as u64, "posting, redemption and job of each");
    if crew.kind() == Kind::Tasks {
        let first = world.run(notices.next()).expect("open").expect("not lagging");
        assert_eq!(first.event().kind(), "spend.posted", "listeners receive nothing of what was rolled back");
    }
    let again = tally(crew.all(|index| own(index, End::Commit)));
    assert_eq!(again.refused, crew.size(), "the tokens are redeemed");
}

fn case_09_scopes_in_different_orders(world: &World, crew: &Crew<'_>) {
    define(world, "a", 1_000_000);
    define(world, "b", 1_000_000);
    let count = world.many(10_000) / crew.size();
    let sum = tally(crew.all(|index| {
        let (first, second) = if index % 2 == 0 { ("a", "b") } else { ("b", "a") };
        Act::Pair { first: first.into(), second: second.into(), count }
    }));
    assert_eq!((sum.done, sum.refused), (count * crew.size(), 0));
    assert_eq!((balance(world, "a"), balance(world, "b")), ((0, 0), (0, 0)));
}

fn case_10_waiter_sees_the_balance_after_the_wait(world: &World, crew: &Crew<'_>) {
    define(world, "room", 1_000);
    tally(vec![crew.one(0, Act::Open { scope: "room".into(), amount: 900 })]);
    let post = Act::Post { scope: "room".into(), amount: 200, count: 3 };
    let sum = std::thread::scope(|scope| {
        let waiters: Vec<_> = (1..crew.size())
            .map(|index| {
                scope.spawn({
                    let post = post.clone();
                    move || crew.one(index, post)
                })
            })
            .collect();
        // Whether the waiters already wait or start later, they must see what was posted.
        tally(vec![crew.one(0, Act::Close)]);
        tally(waiters.into_iter().map(|waiter| waiter.join().expect("the thread does not panic")).collect())
    });
    assert_eq!((sum.done, sum.refused), (0, 3 * (crew.size() - 1)));
    assert_eq!(balance(world, "room"), (900, 0));
}

/// On PostgreSQL, commands on other scopes are not delayed. SQLite has one writer: readers are not delayed, and commands
/// wait for the transaction, whose time is limited.
fn case_11_open_transaction_delays_only_its_own_scopes(world: &World, crew: &Crew<'_>) {
    define(world, "a", 1_000);
    define(world, "b", 1_000_000);
    tally(vec![crew.one(0, Act::Open { scope: "a".into(), amount: 1 })]);
    match world.engine {
        Engine::Postgres | Engine::PgBouncer => {
            // All of these are answered while the transaction is open.
            for index in 1..crew.size() {
                let sum = tally(vec![crew.one(index, Act::Post { scope: "b".into(), amount: 1, count: 500 })]);
                assert_eq!(sum.done, 500);
            }
            tally(vec![crew.one(0, Act::Close)]);
        }
        Engine::Sqlite => {
            assert_eq!(balance(world, "b"), (0, 0), "readers do not wait");
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| crew.one(1, Act::Post { scope: "b".into(), amount: 1, count: 500 }));
                tally(vec![crew.one(0, Act::Close)]);
                assert_eq!(tally(vec![waiting.join().expect("the thread does not panic")]).done, 500);
            });
        }
    }
    let sum = tally(crew.all(|_| Act::Post { scope: "a".into(), amount: 1, count: 1 }));
    assert_eq!(sum.done, crew.size());
    assert_eq!(balance(world, "a"), (1 + crew.size() as i64, 0));
}

fn case_12_hundred_thousand_expire_at_once(world: &World, crew: &Crew<'_>) {
    define(world, "room", 100_000);
    define(world, "other", 100_000);
    for _ in 0..10 {
        let sum = tally(crew.all(|_| hold(1, 86_000_000, 10_000 / crew.size())));
        assert_eq!(sum.done, 10_000);
    }
    assert_eq!(tally(crew.all(|_| hold(1, 1_000, 1))).refused, crew.size());
    assert_eq!(balance(world, "room"), (0, 100_000));
    world.advance(86_400_000);
    let first = tally(crew.all(|index| match index {
        0 => hold(100_000, 60_000, 1),
        _ => Act::Post { scope: "other".into(), amount: 1, count: 10 },
    }));
    assert_eq!((first.done, first.refused), (1 + 10 * (crew.size() - 1), 0));
    assert_eq!(tally(crew.all(|_| hold(1, 1_000, 1))).refused, crew.size());
    let placed = first.holds[0];
    let stored = world.run(world.bursar.ledger().find(placed)).expect("works").expect("is there");
    assert_eq!(stored.state, HoldState::Held);
}
