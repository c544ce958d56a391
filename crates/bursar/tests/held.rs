//! Handles are used once: settling twice does not compile, and a dropped one settles itself.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use bursar::{Budget, Bursar, Limit, Window};

#[test]
fn settling_twice_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

async fn room() -> Bursar {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
    bursar
}

/// Waits until something is told of a hold, and says what.
async fn next_kind(notices: &mut bursar::Notices) -> &'static str {
    notices.next().await.expect("open").expect("not lagging").event().kind()
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
