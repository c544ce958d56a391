//! Handles of holds: settling twice does not compile, and a dropped handle settles its hold.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod misuse;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{Budget, Bursar, Held, Limit, ManualClock, NotSettled, Time, Window};

async fn room() -> Bursar {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
    bursar
}

/// Waits for the next event and returns its kind.
async fn next_kind(notices: &mut bursar::Notices) -> &'static str {
    let next = tokio::time::timeout(Duration::from_secs(120), notices.next()).await;
    next.expect("an event within two minutes").expect("open").expect("not lagging").event().kind()
}

#[tokio::test]
async fn dropped_handle_releases() {
    let bursar = room().await;
    let mut notices = bursar.listen();
    drop(bursar.ledger().hold("room", 40, Duration::from_secs(60)).await.unwrap());
    assert_eq!(next_kind(&mut notices).await, "hold.placed");
    assert_eq!(next_kind(&mut notices).await, "hold.released");
    assert_eq!(bursar.ledger().remaining("room").await.unwrap()[0].remaining, Some(100));
}

#[tokio::test]
async fn dropped_handle_with_a_floor_commits_it() {
    let bursar = room().await;
    let mut notices = bursar.listen();
    drop(bursar.ledger().hold("room", 40, Duration::from_secs(60)).await.unwrap().with_floor(7));
    assert_eq!(next_kind(&mut notices).await, "hold.placed");
    assert_eq!(next_kind(&mut notices).await, "hold.committed");
    assert_eq!(bursar.ledger().remaining("room").await.unwrap()[0].remaining, Some(93));
}

/// Collects logged warnings and errors.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN && metadata.target().starts_with("bursar")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

impl Warnings {
    fn contain(&self, words: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|text| words.iter().all(|word| text.contains(word)))
    }
}

#[test]
fn handle_dropped_outside_a_runtime_is_settled_and_logged() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bursar = runtime.block_on(room());
    let mut notices = bursar.listen();
    let warnings = Warnings::default();
    for (floor, kind, left) in [(None, "hold.released", 100), (Some(7), "hold.committed", 93)] {
        let held = runtime.block_on(bursar.ledger().hold("room", 40, Duration::from_secs(60))).unwrap();
        let id = held.id().to_string();
        let held = if let Some(floor) = floor { held.with_floor(floor) } else { held };
        assert!(tokio::runtime::Handle::try_current().is_err(), "there is no runtime here");
        tracing::subscriber::with_default(warnings.clone(), || drop(held));
        assert!(warnings.contain(&["dropped without being settled", &id]));
        assert_eq!(runtime.block_on(next_kind(&mut notices)), "hold.placed");
        assert_eq!(runtime.block_on(next_kind(&mut notices)), kind);
        let remaining = runtime.block_on(bursar.ledger().remaining("room")).unwrap();
        assert_eq!(remaining[0].remaining, Some(left));
    }
}

#[test]
fn handle_that_outlives_its_runtime_is_logged_and_expires() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("b.db").display());
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_800_000_000_000_000)));
    let open = async || Bursar::options(&url).clock(clock.clone()).upkeep(None).open().await.unwrap();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();

    let first = runtime();
    let held = first.block_on(async {
        let bursar = open().await;
        bursar.ledger().define("room", Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
        bursar.ledger().hold("room", 40, Duration::from_secs(60)).await.unwrap()
    });
    drop(first);
    let (id, warnings) = (held.id(), Warnings::default());
    tracing::subscriber::with_default(warnings.clone(), || drop(held));
    assert!(warnings.contain(&["hold not settled", &format!("{id:?}")]), "{:?}", warnings.0);

    runtime().block_on(async {
        let bursar = open().await;
        assert_eq!(
            bursar.ledger().remaining("room").await.unwrap()[0].remaining,
            Some(60),
            "the hold counts until it expires"
        );
        clock.advance(bursar::Span::from_secs(61));
        assert_eq!(bursar.ledger().remaining("room").await.unwrap()[0].remaining, Some(100));
        assert_eq!(bursar.sweep(500).await.unwrap().expired_count, 1);
        assert_eq!(bursar.ledger().find(id).await.unwrap().unwrap().state, bursar::HoldState::Expired);
    });
}

/// Returns a file with a held amount of 40, the handle, and another connection that keeps all writers out.
async fn held_behind_a_lock(folder: &std::path::Path, overrun: bursar::Cover) -> (Bursar, Held, rusqlite::Connection) {
    let file = folder.join("b.db");
    let bursar = Bursar::options(&format!("sqlite://{}", file.display())).upkeep(None).open().await.unwrap();
    let mut budget = Budget::new([Limit::new(100, Window::Lifetime)]);
    budget.hold.overrun = overrun;
    bursar.ledger().define("room", budget).await.unwrap();
    let held = bursar.ledger().hold("room", 40, Duration::from_secs(600)).await.unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    (bursar, held, other)
}

#[tokio::test]
async fn a_commit_is_tried_again_after_a_transient_error() {
    let folder = tempfile::tempdir().unwrap();
    let (bursar, held, other) = held_behind_a_lock(folder.path(), bursar::Cover::Charge).await;
    let NotSettled { error, held } = held.with_floor(7).commit(30).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    let settled = held.expect("the handle").commit(30).await.unwrap();
    assert_eq!(settled.charges[0].actual, Some(30));
    let again = bursar.ledger().release(settled.hold, "again").await.unwrap_err();
    assert!(again.to_string().contains("already committed"), "{again}");
}

#[tokio::test]
async fn what_failed_is_settled_in_the_background_after_a_drop() {
    for (commit, kind, left) in [(true, "hold.committed", 70), (false, "hold.released", 100)] {
        let folder = tempfile::tempdir().unwrap();
        let (bursar, held, other) = held_behind_a_lock(folder.path(), bursar::Cover::Charge).await;
        let mut notices = bursar.listen();
        let failed = if commit { held.commit(30).await } else { held.with_floor(7).release("nothing was spent").await };
        let error = bursar::Error::from(failed.unwrap_err());
        assert!(error.is_busy(), "{error}");
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(next_kind(&mut notices).await, kind);
        assert_eq!(bursar.ledger().remaining("room").await.unwrap()[0].remaining, Some(left));
    }
}

#[tokio::test]
async fn a_commit_that_is_refused_in_the_background_falls_back_to_the_floor() {
    let folder = tempfile::tempdir().unwrap();
    let (bursar, held, other) = held_behind_a_lock(folder.path(), bursar::Cover::Refuse).await;
    let mut notices = bursar.listen();
    let error = bursar::Error::from(held.with_floor(7).commit(150).await.unwrap_err());
    assert!(error.is_busy(), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(next_kind(&mut notices).await, "hold.committed");
    assert_eq!(bursar.ledger().remaining("room").await.unwrap()[0].remaining, Some(93));
}

#[tokio::test]
async fn a_refused_commit_gives_back_the_handle_with_its_floor() {
    let bursar = room().await;
    let mut strict = Budget::new([Limit::new(100, Window::Lifetime)]);
    strict.hold.overrun = bursar::Cover::Refuse;
    bursar.ledger().define("room", strict).await.unwrap();
    let mut notices = bursar.listen();
    let held = bursar.ledger().hold("room", 40, Duration::from_secs(60)).await.unwrap().with_floor(7);
    assert_eq!(next_kind(&mut notices).await, "hold.placed");
    let NotSettled { error, held } = held.commit(41).await.unwrap_err();
    assert!(matches!(error, bursar::Error::Refused(bursar::Refusal::OverrunRefused { .. })), "{error}");
    drop(held.expect("the handle"));
    assert_eq!(next_kind(&mut notices).await, "hold.committed");
    assert_eq!(bursar.ledger().remaining("room").await.unwrap()[0].remaining, Some(93), "the floor is committed");
    // What is invalid is refused too, and the hold can still be settled.
    let held = bursar.ledger().hold("room", 40, Duration::from_secs(60)).await.unwrap();
    let NotSettled { held, .. } = held.release("r".repeat(2_000)).await.unwrap_err();
    let NotSettled { held, .. } = held.expect("the handle").commit(-1).await.unwrap_err();
    held.expect("the handle").release("not needed").await.unwrap();
    let held = bursar.ledger().hold("room", 40, Duration::from_secs(60)).await.unwrap();
    bursar.ledger().release(held.id(), "by its id").await.unwrap();
    let NotSettled { held, .. } = held.commit(1).await.unwrap_err();
    assert!(held.is_none(), "a settled hold has no handle");
}

#[tokio::test]
async fn handle_extends_and_commits() {
    let bursar = room().await;
    let mut held = bursar.ledger().hold("room", 40, Duration::from_secs(60)).await.unwrap();
    let before = held.expires_at();
    assert!(held.extend(Duration::from_secs(30)).await.unwrap() > before);
    let settled = held.commit(30).await.unwrap();
    assert_eq!(settled.charges[0].balances[0].remaining, 70);
    let detached = bursar.ledger().hold("room", 5, Duration::from_secs(60)).await.unwrap().detach();
    bursar.ledger().held(detached).await.unwrap().release("not needed").await.unwrap();
    assert_eq!(bursar.ledger().remaining("room").await.unwrap()[0].held, 0);
}
