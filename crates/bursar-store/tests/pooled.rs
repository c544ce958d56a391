//! A store behind PgBouncer in transaction mode.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_core::budget::Limit;
use bursar_core::decide::Rules;
use bursar_core::name::{Queue, Scope, Tenant};
use bursar_core::request::{Charge, CheckedRequest, Command, Op, Request, Settle};
use bursar_core::window::Window;
use bursar_pg_cluster::Pooler;
use bursar_store::prelude::*;
use bursar_store::wakeup::Notification;
use bursar_store::{LockPolicy, PostgresOptions, PostgresStore, RequestOutcome, Setup, StoreError};
use bursar_testkit::SeqIds;
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

fn pooled() -> PostgresOptions {
    let role = bursar_testkit::postgres().app_role().to_owned();
    PostgresOptions { pooled: true, role: Some(role), ..PostgresOptions::default() }
}

async fn open(url: &str, seed: u64, options: PostgresOptions) -> Result<PostgresStore, StoreError> {
    let ids = Arc::new(Mutex::new(SeqIds::new(seed)));
    PostgresStore::open(url, Setup { rules: Rules::default(), clock: None, ids, migrate: true }, options).await
}

fn hold(scopes: &[&str]) -> Arc<CheckedRequest> {
    let charge =
        |scope: &&str| Charge::new(Scope::new(scope).unwrap(), 1).within([Limit::new(1_000_000, Window::Lifetime)]);
    let command = Command {
        charges: scopes.iter().map(charge).collect(),
        settle: Settle::Hold { ttl: None },
        ..Command::default()
    };
    Arc::new(CheckedRequest::new(Request::from(Op::Submit(command))).unwrap())
}

async fn answer(store: &PostgresStore, request: &Arc<CheckedRequest>) {
    loop {
        match store.commit(std::slice::from_ref(request), LockPolicy::Skip).await.unwrap().remove(0) {
            RequestOutcome::Answered(answer) => return answer.map(drop).unwrap(),
            RequestOutcome::Again | RequestOutcome::Blocked(_) => {}
            RequestOutcome::Failed(error) => panic!("{error}"),
        }
    }
}

/// Returns what a failed opening says.
async fn refusal(url: &str, options: PostgresOptions) -> String {
    match open(url, 1, options).await {
        Ok(_) => panic!("it opened"),
        Err(error @ StoreError::Unavailable { permanent: true, .. }) => error.to_string(),
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn without_the_setting_the_error_names_it() {
    let direct = bursar_testkit::fresh_database();
    let url = bursar_testkit::pooler().url(&direct);
    let text = refusal(&url, PostgresOptions::default()).await;
    assert!(text.contains("postgres.pooled"), "{text}");
    // A pooler that ignores the parameter which it rejects by default.
    let lenient = Pooler::start_ignoring(bursar_testkit::postgres(), 2, Duration::from_secs(60), "extra_float_digits");
    let text = refusal(&lenient.url(&direct), PostgresOptions::default()).await;
    assert!(text.contains("postgres.pooled"), "{text}");
}

#[tokio::test]
async fn a_url_that_cannot_work_is_rejected() {
    let (direct, other) = (bursar_testkit::fresh_database(), bursar_testkit::fresh_database());
    let url = bursar_testkit::pooler().url(&direct);
    let text = refusal(&format!("{url}?options=-c%20jit%3Doff"), pooled()).await;
    assert!(text.contains("ALTER ROLE"), "{text}");
    let text = refusal(&url, PostgresOptions { direct_url: Some(other), ..pooled() }).await;
    assert!(text.contains("postgres.direct_url"), "{text}");
    let nowhere = "postgres://nobody@127.0.0.1:1/none".to_owned();
    let unreachable = open(&url, 1, PostgresOptions { direct_url: Some(nowhere), ..pooled() }).await;
    let text = unreachable.err().expect("nothing listens there").to_string();
    assert!(text.contains("the server at postgres.direct_url cannot be used"), "{text}");
    open(&url, 1, PostgresOptions { direct_url: Some(direct), ..pooled() }).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_on_the_connections_of_the_pooler() {
    const SIZE: u32 = 3;
    let direct = bursar_testkit::fresh_database();
    let pooler = Pooler::start(bursar_testkit::postgres(), SIZE, Duration::from_secs(600));
    let url = pooler.url(&direct);
    let first = Arc::new(open(&url, 1, pooled()).await.unwrap());
    let second =
        Arc::new(open(&url, 2, PostgresOptions { direct_url: Some(direct.clone()), ..pooled() }).await.unwrap());
    // More transactions at once than the pooler has connections.
    let tasks: Vec<_> = (0..24)
        .map(|task| {
            let store = if task % 2 == 0 { first.clone() } else { second.clone() };
            tokio::spawn(async move {
                for round in 0..4 {
                    answer(&store, &hold(&["shared", &format!("own-{task}-{round}")])).await;
                }
                store.list_journal(0, 10).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        timeout(TIMEOUT, task).await.unwrap().unwrap();
    }
    let listener = second.notifier().unwrap().listen().await.unwrap();
    first.change_counter().await.unwrap();
    first.notifier().unwrap().send(&Notification::of_a_write()).await.unwrap();
    assert_eq!(first.verify().await.unwrap().violations, Vec::<String>::new());

    // Open transactions on all connections of the pooler, and look at each.
    let mut clients = Vec::new();
    let mut servers = BTreeSet::new();
    let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
    let options = options.extra_float_digits(None);
    for _ in 0..SIZE {
        let mut client = PgConnection::connect_with(&options).await.unwrap();
        sqlx::raw_sql("BEGIN").execute(&mut client).await.unwrap();
        let look = "SELECT pg_backend_pid(), (SELECT count(*) FROM pg_prepared_statements),
                (SELECT count(*) FROM pg_listening_channels()),
                (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
                (SELECT count(*) FROM pg_settings WHERE source = 'session'
                 AND name IN ('lock_timeout', 'enable_seqscan', 'plan_cache_mode', 'jit', 'synchronous_commit')),
                current_user = session_user AND coalesce(current_setting('bursar.tenants', true), '') = ''
                    AND coalesce(current_setting('bursar.journal', true), '') = ''";
        let (server, statements, channels, locks, settings, clean): (i32, i64, i64, i64, i64, bool) =
            sqlx::query_as(look).persistent(false).fetch_one(&mut client).await.unwrap();
        assert_eq!((statements, channels, locks, settings, clean), (0, 0, 0, 0, true));
        servers.insert(server);
        clients.push(client);
    }
    assert_eq!(servers.len(), SIZE as usize, "every connection was looked at");
    drop(clients);
    listener.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_to_the_server_is_enough_for_batches() {
    let pooler = Pooler::start(bursar_testkit::postgres(), 1, Duration::from_secs(60));
    let url = pooler.url(&bursar_testkit::fresh_database());
    let store = Arc::new(open(&url, 1, pooled()).await.unwrap());
    let work = |task: usize| {
        let store = store.clone();
        async move {
            for round in 0..3 {
                answer(&store, &hold(&[&format!("new-{task}-{round}"), "shared"])).await;
            }
        }
    };
    let tasks: Vec<_> = (0..6).map(|task| tokio::spawn(work(task))).collect();
    for task in tasks {
        timeout(TIMEOUT, task).await.unwrap().unwrap();
    }
    let shared = store.scope(&(Tenant::built_in(), Scope::new("shared").unwrap())).await.unwrap().unwrap();
    assert_eq!(shared.balances[0].held, 18);
    store.close().await;
}

#[tokio::test]
async fn a_callers_own_transaction_works_on_its_own_connection() {
    let url = bursar_testkit::pooler().url(&bursar_testkit::fresh_database());
    let store = open(&url, 1, pooled()).await.unwrap();
    let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
    let mut conn = PgConnection::connect_with(&options.extra_float_digits(None)).await.unwrap();
    let held = async || {
        let scope = store.scope(&(Tenant::built_in(), Scope::new("room").unwrap())).await.unwrap();
        scope.map_or(0, |scope| scope.balances[0].held)
    };
    for (end, expected) in [("ROLLBACK", 0), ("COMMIT", 2)] {
        sqlx::raw_sql("BEGIN").execute(&mut conn).await.unwrap();
        for _ in 0..2 {
            store.commit_in(&mut conn, &hold(&["room"])).await.unwrap().unwrap();
        }
        let key = (Tenant::built_in(), Scope::new("room").unwrap());
        store.lock_scope(&mut conn, &key).await.unwrap();
        sqlx::raw_sql(end).execute(&mut conn).await.unwrap();
        assert_eq!(held().await, expected, "{end}");
    }
    let mut tx = store.begin_own().await.unwrap();
    store.commit_in(&mut tx, &hold(&["room"])).await.unwrap().unwrap();
    store.finish(tx).await.unwrap();
    assert_eq!(held().await, 3);
}

#[tokio::test]
async fn notifications_arrive_over_the_direct_url() {
    let direct = bursar_testkit::fresh_database();
    let url = bursar_testkit::pooler().url(&direct);
    let polling = open(&url, 1, pooled()).await.unwrap();
    let refused = polling.notifier().unwrap().listen().await.err().unwrap();
    assert!(refused.to_string().contains("postgres.direct_url"), "{refused}");
    let listening = open(&url, 2, PostgresOptions { direct_url: Some(direct), ..pooled() }).await.unwrap();
    let mut listener = timeout(TIMEOUT, listening.notifier().unwrap().listen()).await.unwrap().unwrap();
    let key = (Tenant::built_in(), Queue::new("q").unwrap());
    let mut notification = Notification::default();
    notification.add_queue(&key);
    polling.notifier().unwrap().send(&notification).await.unwrap();
    assert!(timeout(TIMEOUT, listener.next()).await.unwrap().unwrap().concerns(&key));
    listener.close().await;
}
