//! A clock that jumped ahead and was corrected: time does not advance until the journal is set back.

use std::path::Path;
use std::sync::Arc;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::budget::{Budget, Limit};
use bursar_core::job::{End, Finish, LeaseRequest, Usage};
use bursar_core::name::{Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::request::{Actual, Charge, Command, Op, Settle};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::prelude::*;
use bursar_store::sqlite::set_clock_back;
use bursar_store::{ArchivedRows, ManualClock, SqliteStore, Store};

use crate::ask::{clock, done, job, key_of, setup};

const SCOPE: &str = "room";

async fn open(path: &Path, clock: &Arc<ManualClock>) -> SqliteStore {
    SqliteStore::open(path, setup(clock)).await.unwrap()
}

fn hold_for(amount: i64, secs: u64) -> Op {
    let charges = vec![Charge::new(key_of(SCOPE).1, amount)];
    Op::Submit(Command { charges, settle: Settle::Hold { ttl: Some(Span::from_secs(secs)) }, ..Command::default() })
}

fn spend(amount: i64) -> Op {
    Op::Submit(Command { charges: vec![Charge::new(key_of(SCOPE).1, amount)], ..Command::default() })
}

async fn one(store: &dyn Store, op: Op) -> Outcome {
    done(store, vec![op.into()]).await.remove(0)
}

fn placed(outcome: &Outcome) -> bursar_core::id::HoldId {
    match &outcome.answer {
        Answer::Submitted(submitted) => submitted.hold.as_ref().unwrap().id,
        other => panic!("{other:?}"),
    }
}

/// Returns the posted and held units of a window.
async fn balance(store: &dyn Store, window: &str) -> (i64, i64) {
    let row = store.scope(&key_of(SCOPE)).await.unwrap().unwrap();
    let balance = row.balance(&window.parse::<Window>().unwrap()).unwrap().clone();
    (balance.posted, balance.held)
}

#[tokio::test]
async fn setting_back_a_journal_ahead_of_the_clock_keeps_balances() {
    let folder = tempfile::tempdir().unwrap();
    let (path, restored) = (folder.path().join("b.db"), folder.path().join("restored.db"));
    let clock = clock();
    let began = clock_now(&clock);
    let store = open(&path, &clock).await;
    let limits = ["lifetime", "day", "rolling:3600000"].map(|window| Limit::new(1_000, window.parse().unwrap()));
    let mut budget = Budget::new(limits);
    budget.hold.ttl_max = Some(Span::from_days(30));
    one(&store, Op::Define { scope: key_of(SCOPE).1, budget }).await;
    one(&store, spend(100)).await;
    let kept = placed(&one(&store, hold_for(10, 5 * 86_400)).await);
    let lapsed = placed(&one(&store, hold_for(20, 300)).await);
    let swept = placed(&one(&store, hold_for(30, 300)).await);
    done(&store, vec![job(SCOPE, 5)]).await;
    clock.advance(Span::from_secs(60));
    one(&store, spend(1)).await;
    // Two days ahead: a window has been reset, holds have expired, and jobs run.
    clock.advance(Span::from_days(2));
    one(&store, Op::Expire { holds: vec![swept] }).await;
    one(&store, Op::Commit { hold: lapsed, actual: Actual::Amount(25) }).await;
    one(&store, spend(200)).await;
    let ask = LeaseRequest {
        queues: vec![Queue::new("q").unwrap()],
        kinds: Vec::new(),
        capacity: 1,
        lease: None,
        worker: WorkerName::new("w").unwrap(),
    };
    let Answer::Leased(leased) = one(&store, Op::Lease(ask)).await.answer else { panic!("expected a lease") };
    let end = End::Complete {
        result: Payload::default(),
        usage: Some(vec![Usage { scope: None, amount: 4 }]),
        blobs: Vec::new(),
    };
    let finish = Finish { job: leased.jobs[0].id, fence: leased.jobs[0].life.fence, end };
    one(&store, Op::Finish { items: vec![finish] }).await;
    // The clock is corrected an hour later. From then on time does not advance.
    clock.advance(Span::from_secs(3_600));
    one(&store, spend(7)).await;
    let late = placed(&one(&store, hold_for(40, 120)).await);
    clock.turn_back(Span::from_days(2));
    clock.advance(Span::from_secs(600));
    one(&store, spend(8)).await;
    let ahead = store.health().await.unwrap().last_event_at.unwrap().since(clock_now(&clock));
    assert!(ahead > Span::from_days(1), "{ahead:?}");
    let before = (balance(&store, "lifetime").await, store.verify().await.unwrap().violations);
    store.close().await;

    let (events, by) =
        set_clock_back(&path, &restored, setup(&clock), clock_now(&clock), ArchivedRows::none()).await.unwrap();
    assert!(events > 10 && by > Span::from_days(1) && by < Span::from_days(2), "{events} events, {by:?}");
    let store = open(&restored, &clock).await;
    let health = store.health().await.unwrap();
    assert!(health.last_event_at.unwrap() <= clock_now(&clock), "{health:?}");
    assert_eq!(
        (balance(&store, "lifetime").await, store.verify().await.unwrap().violations),
        before,
        "nothing is lost"
    );
    assert_eq!(balance(&store, "lifetime").await, (345, 50), "100 + 1 + 25 + 200 + 4 + 7 + 8, and two holds");
    // A second later time advances again with the clock. Everything was spent today.
    clock.advance(Span::from_secs(1));
    one(&store, spend(0)).await;
    assert_eq!(clock_now(&clock).since(began), Span::from_secs(60 + 3_600 + 600 + 1));
    assert_eq!(balance(&store, "day").await, (345, 50));
    assert_eq!(balance(&store, "rolling:3600000").await, (15, 50), "the spend just after the jump is an hour old");
    let row = store.hold(&Tenant::built_in(), late).await.unwrap().unwrap();
    assert!(row.expires_at < clock_now(&clock).after(Span::from_secs(121)), "the hold keeps its TTL");
    clock.advance(Span::from_secs(3_600));
    one(&store, Op::Expire { holds: vec![late, kept] }).await;
    assert_eq!(balance(&store, "lifetime").await, (345, 10), "the hold for five days is still live");
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
    let events_again = store.rebuild().await.unwrap();
    assert!(events_again > events, "the new journal can be replayed");
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
    store.close().await;

    // A journal that is not ahead is refused, and no file is created.
    let other = folder.path().join("other.db");
    assert!(set_clock_back(&restored, &other, setup(&clock), clock_now(&clock), ArchivedRows::none()).await.is_err());
    assert!(!other.exists());
}

fn clock_now(clock: &ManualClock) -> Time {
    bursar_store::Clock::now(clock)
}
