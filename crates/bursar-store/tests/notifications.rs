//! Notifications between nodes on PostgreSQL.

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

const TIMEOUT: Duration = Duration::from_secs(60);

/// Opens a node with its own store and notifier.
async fn node(url: &str) -> (PostgresStore, Arc<dyn Notifier>) {
    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
    let store = PostgresStore::open(url, setup, PostgresOptions::default()).await.unwrap();
    let notifier = store.notifier().unwrap();
    (store, notifier)
}

fn key(queue: &str) -> QueueKey {
    (Tenant::built_in(), Queue::new(queue).unwrap())
}

fn notification(queue: &str) -> Notification {
    let mut notification = Notification::default();
    notification.add_queue(&key(queue));
    notification
}

/// Sends the payload "end" on the channel and returns the number of notifications before it.
async fn count_until_end(listener: &mut PgListener, url: &str) -> usize {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::query("SELECT pg_notify('bursar', 'end')").execute(&mut conn).await.unwrap();
    let mut count = 0;
    while timeout(TIMEOUT, listener.recv()).await.unwrap().unwrap().payload() != "end" {
        count += 1;
    }
    count
}

/// Waits until the server has noticed that all listeners are gone.
async fn until_no_listeners(url: &str) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let listen = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2";
    let gone = async { while sqlx::query_scalar::<_, i64>(listen).fetch_one(&mut conn).await.unwrap() > 0 {} };
    timeout(TIMEOUT, gone).await.unwrap();
}

async fn receive(listener: &mut Box<dyn Listener>) -> Notification {
    timeout(TIMEOUT, listener.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn notifications_are_sent_only_while_a_node_listens() {
    let url = bursar_testkit::fresh_database();
    let mut channel = PgListener::connect(&url).await.unwrap();
    channel.listen("bursar").await.unwrap();
    let (first, notifier) = node(&url).await;
    notifier.send(&notification("q")).await.unwrap();
    assert_eq!(count_until_end(&mut channel, &url).await, 0, "there is no listener");

    let mut listener = notifier.listen().await.unwrap();
    assert_eq!(count_until_end(&mut channel, &url).await, 1, "the probe of the new listener");
    let (second, notifier) = node(&url).await;
    let mut other = notifier.listen().await.unwrap();
    drop((second, notifier));
    let (sender, notifier) = node(&url).await;
    notifier.send(&notification("q")).await.unwrap();
    for listener in [&mut listener, &mut other] {
        let mut received = receive(listener).await;
        // The payload "end" of an earlier count is received as a notification for everything.
        while !received.concerns(&key("q")) || received.concerns(&key("r")) {
            received = receive(listener).await;
        }
    }
    listener.close().await;
    other.close().await;
    until_no_listeners(&url).await;
    count_until_end(&mut channel, &url).await;
    let (late, notifier) = node(&url).await;
    notifier.send(&notification("q")).await.unwrap();
    assert_eq!(count_until_end(&mut channel, &url).await, 0, "there is no listener any more");
    for store in [first, sender, late] {
        store.close().await;
    }
}

#[tokio::test]
async fn a_nodes_own_listener_is_not_a_reason_to_notify() {
    let url = bursar_testkit::fresh_database();
    let mut channel = PgListener::connect(&url).await.unwrap();
    channel.listen("bursar").await.unwrap();
    let (store, notifier) = node(&url).await;
    let listener = notifier.listen().await.unwrap();
    assert_eq!(count_until_end(&mut channel, &url).await, 1, "the probe of the new listener");
    notifier.send(&notification("q")).await.unwrap();
    assert_eq!(count_until_end(&mut channel, &url).await, 0);
    listener.close().await;
    store.close().await;
}
