//! How nodes on PostgreSQL hear of each other's work.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_core::decide::Rules;
use bursar_core::name::{Queue, Tenant};
use bursar_core::state::QueueKey;
use bursar_store::prelude::*;
use bursar_store::wakeup::{Listener, Notification, Notifier};
use bursar_store::{PostgresOptions, PostgresStore, Setup};
use bursar_testkit::SeqIds;
use sqlx::postgres::PgListener;
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

/// A node of its own, which knows nothing of others yet.
async fn node(url: &str) -> (PostgresStore, Arc<dyn Notifier>) {
    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
    let store = PostgresStore::open(url, setup, PostgresOptions::default()).await.unwrap();
    let hints = store.notifier().unwrap();
    (store, hints)
}

fn key(queue: &str) -> QueueKey {
    (Tenant::built_in(), Queue::new(queue).unwrap())
}

fn hint(queue: &str) -> Notification {
    let mut hint = Notification::default();
    hint.add_queue(&key(queue));
    hint
}

/// What is said on the channel until somebody says "end".
async fn said_before_the_end(listener: &mut PgListener, url: &str) -> usize {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::query("SELECT pg_notify('bursar', 'end')").execute(&mut conn).await.unwrap();
    let mut count = 0;
    while timeout(PATIENCE, listener.recv()).await.unwrap().unwrap().payload() != "end" {
        count += 1;
    }
    count
}

/// Who has gone is known to the server a moment later.
async fn until_nobody_listens(url: &str) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let listen = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2";
    let gone = async { while sqlx::query_scalar::<_, i64>(listen).fetch_one(&mut conn).await.unwrap() > 0 {} };
    timeout(PATIENCE, gone).await.unwrap();
}

async fn heard(ear: &mut Box<dyn Listener>) -> Notification {
    timeout(PATIENCE, ear.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn whoever_listens_is_told_and_where_nobody_does_nothing_is_said() {
    let url = bursar_testkit::fresh_database();
    let mut channel = PgListener::connect(&url).await.unwrap();
    channel.listen("bursar").await.unwrap();
    let (quiet, alone) = node(&url).await;
    alone.send(&hint("q")).await.unwrap();
    assert_eq!(said_before_the_end(&mut channel, &url).await, 0, "nobody listens");

    let mut ear = alone.listen().await.unwrap();
    assert_eq!(said_before_the_end(&mut channel, &url).await, 1, "it has heard itself");
    let (own, same) = node(&url).await;
    let mut other = same.listen().await.unwrap();
    drop((own, same));
    let (teller, tells) = node(&url).await;
    tells.send(&hint("q")).await.unwrap();
    for ear in [&mut ear, &mut other] {
        let mut told = heard(ear).await;
        // The end of what was said before is heard as anything.
        while !told.concerns(&key("q")) || told.concerns(&key("r")) {
            told = heard(ear).await;
        }
    }
    ear.close().await;
    other.close().await;
    until_nobody_listens(&url).await;
    said_before_the_end(&mut channel, &url).await;
    let (late, too_late) = node(&url).await;
    too_late.send(&hint("q")).await.unwrap();
    assert_eq!(said_before_the_end(&mut channel, &url).await, 0, "nobody listens any more");
    for store in [quiet, teller, late] {
        store.close().await;
    }
}

#[tokio::test]
async fn own_ear_is_no_reason_to_tell() {
    let url = bursar_testkit::fresh_database();
    let mut channel = PgListener::connect(&url).await.unwrap();
    channel.listen("bursar").await.unwrap();
    let (store, hints) = node(&url).await;
    let ear = hints.listen().await.unwrap();
    assert_eq!(said_before_the_end(&mut channel, &url).await, 1, "it has heard itself");
    hints.send(&hint("q")).await.unwrap();
    assert_eq!(said_before_the_end(&mut channel, &url).await, 0);
    ear.close().await;
    store.close().await;
}
