//! Tests of the PostgreSQL engine: locks, callers' transactions, journal positions, query plans.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod archive;
mod counts;
mod disk;
mod faults;
mod grants;
mod job_keys;
mod locks;
mod names;
mod sessions;
mod support;
mod wall;

use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::budget::{Budget, Limit};
use bursar_core::name::{IdempotencyKey, Tenant};
use bursar_core::refusal::Refusal;
use bursar_core::request::{Charge, Command, Op};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::conformance::{CommitRequests, checked};
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, MemoryStore, PostgresOptions, PostgresStore, RequestOutcome, StoreError};
use bursar_testkit::{Cluster, fresh_database, postgres};
use sqlx::{Connection, PgConnection};
use support::*;

#[tokio::test]
async fn migrations_run_once_when_four_nodes_start_at_once() {
    let url = fresh_database();
    let nodes = (0..4).map(|seed| {
        let url = url.clone();
        tokio::spawn(async move { PostgresStore::open(&url, setup(seed), PostgresOptions::default()).await })
    });
    for node in nodes.collect::<Vec<_>>() {
        let store = node.await.unwrap().expect("every node opens");
        assert_eq!(store.health().await.unwrap().schema, 6);
    }
}

#[tokio::test]
async fn printed_migrations_work_and_a_newer_schema_is_refused() {
    let url = fresh_database();
    let not_migrating = || bursar_store::Setup { migrate: false, ..setup(1) };
    let closed = PostgresStore::open(&url, not_migrating(), PostgresOptions::default()).await;
    assert!(matches!(closed.err(), Some(StoreError::NotMigrated { found: 0, needed: 6 })));

    let mut conn = PgConnection::connect(&url).await.unwrap();
    let sql = sqlx::AssertSqlSafe(bursar_store::postgres::migration_sql());
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    PostgresStore::open(&url, not_migrating(), PostgresOptions::default()).await.expect("it is prepared");

    sqlx::query("UPDATE bursar.meta SET value = '9' WHERE key = 'schema'").execute(&mut conn).await.unwrap();
    let newer = PostgresStore::open(&url, setup(1), PostgresOptions::default()).await;
    assert!(matches!(newer.err(), Some(StoreError::NewerSchema { found: 9, known: 6 })));
}

#[tokio::test]
async fn open_errors_are_clear_and_hide_the_password() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cases = [
        (format!("postgres://bob:s3cret@127.0.0.1:{port}/shop"), "cannot be reached"),
        (postgres().url("nowhere").replace("postgres@", "postgres:s3cret@"), "does not exist"),
        (fresh_database().replace("postgres@", "nobody:s3cret@"), "refused the login"),
        ("postgres://bob:s3cret@127.0.0.1:port/shop".into(), "is not a database URL"),
        ("mysql://bob:s3cret@127.0.0.1/shop".into(), "is not a database URL"),
    ];
    for (url, expected) in cases {
        let error = PostgresStore::open(&url, setup(1), PostgresOptions::default()).await.err().expect("it fails");
        let (text, all) = (error.to_string(), format!("{error:?}"));
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("s3cret") && !all.contains("s3cret"), "{all}");
    }
}

#[tokio::test]
async fn postgres_and_memory_give_the_same_answers() {
    let (clock, again) = (clock(), clock());
    let model = MemoryStore::new(timed(1, &clock));
    let (store, _) = open_timed(1, &again).await;
    for (step, requests) in story().into_iter().enumerate() {
        let (expected, found) = (run_steps(&model, &requests).await, run_steps(&store, &requests).await);
        assert_eq!(found, expected, "step {step}");
        for clock in [&clock, &again] {
            clock.advance(Span::from_secs(7));
        }
    }
    let key = scope_key("agent");
    assert_eq!(plain(&store.scope(&key).await.unwrap()), plain(&model.scope(&key).await.unwrap()));
    let (all, expected) = (
        store.list_scopes(&key.0, "a", None, 9).await.unwrap(),
        model.list_scopes(&key.0, "a", None, 9).await.unwrap(),
    );
    assert_eq!(plain(&all), plain(&expected));
    let (all, expected) = (store.list_journal(3, 100).await.unwrap(), model.list_journal(3, 100).await.unwrap());
    let positions = |rows: &[bursar_store::Journaled]| rows.iter().map(|row| row.position).collect::<Vec<_>>();
    assert_eq!(positions(&all), positions(&expected));
    assert_eq!(store.verify().await.unwrap(), model.verify().await.unwrap());
    assert!(store.verify().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_callers_transaction_is_atomic() {
    let (store, url) = open(1).await;
    define(&store, &["a"], 1_000).await;
    let (grant, redemption) = mint(&store).await;
    let before = dump(&url).await;
    let command = full_command("a", 10, redemption.clone(), "once");
    let mut conn = PgConnection::connect(&url).await.unwrap();

    let mut theirs = conn.begin().await.unwrap();
    sqlx::query("SET LOCAL lock_timeout = '77s'").execute(&mut *theirs).await.unwrap();
    store.commit_in(&mut theirs, &checked(command.clone())).await.unwrap().unwrap();
    let kept: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *theirs).await.unwrap();
    assert_eq!(kept, "77s");
    theirs.rollback().await.unwrap();
    assert_eq!(dump(&url).await, before);

    let mut theirs = conn.begin().await.unwrap();
    sqlx::query("CREATE TABLE orders (id int)").execute(&mut *theirs).await.unwrap();
    let outcome = store.commit_in(&mut theirs, &checked(command.clone())).await.unwrap().unwrap();
    // A refusal does not abort the transaction.
    let refused = store.commit_in(&mut theirs, &checked(post("a", 5_000))).await.unwrap();
    assert!(matches!(refused, Err(Refusal::Refused(_))));
    assert_eq!(store.list_journal(0, 100).await.unwrap().len(), 2, "nothing is visible before the commit");
    theirs.commit().await.unwrap();
    let Answer::Submitted(submitted) = outcome.answer else { panic!("a command") };
    assert!(store.job(&Tenant::built_in(), submitted.jobs[0].id).await.unwrap().is_some());
    assert!(store.hold(&Tenant::built_in(), submitted.hold.unwrap().id).await.unwrap().is_some());
    assert_eq!(store.scope(&scope_key("a")).await.unwrap().unwrap().balances[0].held, 10);
    assert_eq!(store.list_journal(0, 100).await.unwrap().len(), 3);
    let grants = store.list_grants(&scope_key("a").0, None, 10).await.unwrap();
    assert_eq!((grants[0].id, grants[0].version), (grant, 2));
    assert!(one(&store, &command).await.unwrap().replayed);
}

#[tokio::test]
async fn transactions_with_a_wrong_isolation_level_are_refused() {
    let (store, url) = open(1).await;
    define(&store, &["a"], 1_000).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let cases = [
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", "REPEATABLE READ"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "SERIALIZABLE"),
        ("BEGIN READ ONLY", "READ ONLY"),
        ("SELECT 1", "no open transaction"),
    ];
    for (begin, expected) in cases {
        sqlx::raw_sql(begin).execute(&mut conn).await.unwrap();
        let refused = store.commit_in(&mut conn, &checked(post("a", 1))).await;
        let Err(StoreError::WrongTransaction(text)) = refused else { panic!("{begin}: {refused:?}") };
        assert!(text.contains(expected), "{text}");
        sqlx::raw_sql("ROLLBACK").execute(&mut conn).await.unwrap();
    }
    assert_eq!(store.list_journal(0, 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_second_transaction_waits_for_an_uncommitted_job_key() {
    let (store, url) = open(1).await;
    define(&store, &["a"], 1_000).await;
    let store = Arc::new(store);
    for commits in [true, false] {
        let request = job(if commits { "once" } else { "again" });
        let mut first = PgConnection::connect(&url).await.unwrap();
        let mut first = first.begin().await.unwrap();
        let outcome = store.commit_in(&mut first, &checked(request.clone())).await.unwrap().unwrap();
        let Answer::Submitted(outcome) = outcome.answer else { panic!("a job") };

        let second = tokio::spawn({
            let (store, url) = (store.clone(), url.clone());
            async move {
                let mut conn = PgConnection::connect(&url).await.unwrap();
                let mut theirs = conn.begin().await.unwrap();
                let outcome = store.commit_in(&mut theirs, &checked(request.clone())).await.unwrap().unwrap();
                theirs.commit().await.unwrap();
                outcome
            }
        });
        until_waiting(&url, 1).await;
        if commits {
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        let Answer::Submitted(second) = second.await.unwrap().answer else { panic!("a job") };
        let ([first], [second]) = (&outcome.jobs[..], &second.jobs[..]) else { panic!("a job each") };
        assert_eq!((first.created, second.created, first.id == second.id), (true, !commits, commits));
        assert_eq!(
            store.job(&Tenant::built_in(), first.id).await.unwrap().is_some(),
            commits,
            "a job that was rolled back does not exist"
        );
        assert!(store.job(&Tenant::built_in(), second.id).await.unwrap().is_some());
    }
}

/// Keys are read before rows are locked. Without a second read after the wait, the retry would be refused for the spend of the
/// first request.
#[tokio::test]
async fn a_retry_that_waited_for_the_first_request_is_replayed() {
    let (store, url) = open(1).await;
    define(&store, &["a"], 1_000).await;
    let store = Arc::new(store);
    let request = post("a", 1_000).with_key(IdempotencyKey::new("once").unwrap());
    let mut first = PgConnection::connect(&url).await.unwrap();
    let mut first = first.begin().await.unwrap();
    let outcome = store.commit_in(&mut first, &checked(request.clone())).await.unwrap().unwrap();

    let second = tokio::spawn({
        let (store, url) = (store.clone(), url.clone());
        async move {
            let mut conn = PgConnection::connect(&url).await.unwrap();
            let mut theirs = conn.begin().await.unwrap();
            let outcome = store.commit_in(&mut theirs, &checked(request.clone())).await.unwrap();
            theirs.commit().await.unwrap();
            outcome
        }
    });
    until_waiting(&url, 1).await;
    first.commit().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(second.replayed);
    assert_eq!((second.command, second.answer), (outcome.command, outcome.answer));
}

#[tokio::test]
async fn a_deadlock_of_callers_transactions_asks_for_a_retry() {
    let (store, url) = open(1).await;
    define(&store, &["a", "b"], 1_000).await;
    let store = Arc::new(store);
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let parts = [["a", "b"], ["b", "a"]].map(|[first, second]| {
        let (store, url, barrier) = (store.clone(), url.clone(), barrier.clone());
        tokio::spawn(async move {
            let mut conn = PgConnection::connect(&url).await.unwrap();
            let mut theirs = conn.begin().await.unwrap();
            store.commit_in(&mut theirs, &checked(post(first, 1))).await.unwrap().unwrap();
            barrier.wait().await;
            let done = store.commit_in(&mut theirs, &checked(post(second, 1))).await;
            if done.is_ok() {
                theirs.commit().await.unwrap();
            } else {
                theirs.rollback().await.unwrap();
            }
            done.map(drop)
        })
    });
    let mut victims = 0;
    for part in parts {
        match part.await.unwrap() {
            Ok(()) => {}
            Err(StoreError::RetryTransaction(_)) => victims += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(victims, 1);
    assert_eq!(store.scope(&scope_key("a")).await.unwrap().unwrap().balances[0].posted, 1);
}

#[tokio::test]
async fn positions_follow_commits_without_gaps_despite_open_transactions() {
    let (store, url) = open(1).await;
    define(&store, &["a", "b", "c"], 1_000).await;
    // A write transaction in another database of the cluster, and one in this database that does not use Bursar.
    let mut elsewhere = PgConnection::connect(&fresh_database()).await.unwrap();
    sqlx::raw_sql("BEGIN; CREATE TABLE t (i int)").execute(&mut elsewhere).await.unwrap();
    let mut bystander = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN; CREATE TABLE t (i int)").execute(&mut bystander).await.unwrap();

    let mut early = PgConnection::connect(&url).await.unwrap();
    let mut early = early.begin().await.unwrap();
    let mut open_still = PgConnection::connect(&url).await.unwrap();
    let mut open_still = open_still.begin().await.unwrap();
    let first = store.commit_in(&mut early, &checked(post("a", 1))).await.unwrap().unwrap().command;
    store.commit_in(&mut open_still, &checked(post("c", 1))).await.unwrap().unwrap();
    let second = one(&store, &post("b", 1)).await.unwrap().command;

    let visible = commands(&store, 3).await;
    assert_eq!(visible, vec![(4, second)], "a commit is visible despite open transactions");
    early.commit().await.unwrap();
    assert_eq!(commands(&store, 3).await, vec![(4, second), (5, first)], "a later commit has a later position");
    open_still.rollback().await.unwrap();
    let third = one(&store, &post("b", 1)).await.unwrap().command;
    assert_eq!(commands(&store, 5).await, vec![(6, third)], "a rollback leaves no gap");
    assert_eq!(store.health().await.unwrap().position, 6);
    let batch = store.list_journal(5, 1).await.unwrap().remove(0);
    assert_eq!(store.batch(batch.batch.id).await.unwrap(), Some(batch));
}

#[tokio::test]
async fn concurrent_readers_of_the_journal_miss_nothing() {
    let (store, _) = open(1).await;
    let scopes: Vec<String> = (0..4).map(|n| format!("s{n}")).collect();
    define(&store, &scopes.iter().map(String::as_str).collect::<Vec<_>>(), 1_000_000).await;
    let store = Arc::new(store);
    let writers = scopes.into_iter().map(|scope| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                done(one(&*store, &post(&scope, 1)).await);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let (mut after, mut seen) = (0, 0);
    while seen < 4 + 100 {
        for row in store.list_journal(after, 7).await.unwrap() {
            assert_eq!(row.position, after + 1, "without gaps");
            after += row.batch.count() as u64;
            seen += row.batch.entries.len();
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(store.list_journal(after, 7).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_rebuild_restores_the_same_tables() {
    let clock = clock();
    let (store, url) = open_timed(1, &clock).await;
    for requests in story() {
        run_steps(&store, &requests).await;
        clock.advance(Span::from_secs(7));
    }
    let (before, events) = (dump(&url).await, store.health().await.unwrap().position);
    assert_eq!(store.rebuild().await.unwrap(), events);
    assert_eq!(dump(&url).await, before);
    assert!(store.verify().await.unwrap().is_ok());
    done(one(&store, &job("after")).await);
}

#[tokio::test]
async fn no_acknowledged_commit_is_lost_when_the_server_crashes() {
    let cluster = Cluster::start(true);
    let url = cluster.fresh_database();
    let store = PostgresStore::open(&url, setup(1), PostgresOptions::default()).await.unwrap();
    assert_eq!(store.health().await.unwrap().problems, Vec::<String>::new());
    define(&store, &["a"], 1_000).await;
    done(one(&store, &post("a", 300)).await);
    cluster.crash_and_restart();
    // The connections are lost. No commit was in flight, so the store reconnects.
    done(one(&store, &post("a", 100)).await);
    assert_eq!(store.scope(&scope_key("a")).await.unwrap().unwrap().balances[0].posted, 400);
    assert!(store.verify().await.unwrap().is_ok());
}

#[tokio::test]
async fn commits_are_durable_whatever_the_database_setting() {
    for (default, kept) in [("off", "on"), ("local", "local")] {
        let url = fresh_database();
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let name = url.rsplit('/').next().unwrap();
        let set = format!("ALTER DATABASE {name} SET synchronous_commit = {default}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut conn).await.unwrap();
        let store = PostgresStore::open(&url, setup(1), PostgresOptions::default()).await.unwrap();
        let now = "SELECT current_setting('synchronous_commit')";
        // The test server is not durable, which the store reports as a problem.
        let problems = store.health().await.unwrap().problems.join(" ");
        assert!(problems.contains("fsync is off") && problems.contains("full_page_writes is off"), "{problems}");
        assert!(!problems.contains("synchronous_commit"), "{problems}");
        // A caller's transaction becomes durable when Bursar writes in it, not before.
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let mut tx = conn.begin().await.unwrap();
        let before: String = sqlx::query_scalar(now).fetch_one(&mut *tx).await.unwrap();
        store.commit_in(&mut tx, &checked(post_within("a", 1, 10))).await.unwrap().unwrap();
        let after: String = sqlx::query_scalar(now).fetch_one(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        let later: String = sqlx::query_scalar(now).fetch_one(&mut conn).await.unwrap();
        assert_eq!([before, after, later], [default, kept, default]);
    }
}

#[tokio::test]
async fn a_node_with_a_slow_clock_does_not_move_time_back() {
    let (first, second) = (clock(), clock());
    let (store, url) = open_timed(1, &first).await;
    define(&store, &["a"], 1_000).await;
    first.advance(Span::from_secs(50));
    done(one(&store, &post("a", 1)).await);
    second.set(Time::from_micros(1));
    let late = PostgresStore::open(&url, timed(2, &second), PostgresOptions::default()).await.unwrap();
    done(one(&late, &post_within("b", 1, 10)).await);
    let rows = late.list_journal(0, 10).await.unwrap();
    assert!(rows.is_sorted_by_key(|row| row.batch.at), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_holds_on_three_nodes_stop_at_the_limit() {
    let (store, url) = open(1).await;
    define(&store, &["cap"], 1_000_000).await;
    let mut nodes = vec![Arc::new(store)];
    for seed in 2..4 {
        nodes.push(Arc::new(PostgresStore::open(&url, setup(seed), PostgresOptions::default()).await.unwrap()));
    }
    let callers: Vec<_> = (0..100)
        .map(|n| {
            let store = nodes[n % nodes.len()].clone();
            tokio::spawn(async move { one(&*store, &hold("cap", 50_000)).await })
        })
        .collect();
    let mut held = 0;
    for caller in callers {
        match caller.await.unwrap() {
            Ok(_) => held += 1,
            Err(Refusal::Refused(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(held, 20);
    assert_eq!(nodes[0].scope(&scope_key("cap")).await.unwrap().unwrap().balances[0].held, 1_000_000);
    assert!(nodes[1].verify().await.unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn charges_in_opposite_order_never_deadlock() {
    let (store, _) = open(1).await;
    let limit = || [Limit::new(1_000_000, Window::Lifetime)];
    let family = [("alpha", None), ("zeta", Some("alpha"))].map(|(name, parent)| {
        let budget = Budget { parent: parent.map(scope), ..Budget::new(limit()) };
        Arc::new(Op::Define { scope: scope(name), budget }.into())
    });
    done_all(store.commit_requests(&family[..1], LockPolicy::Skip).await);
    done_all(store.commit_requests(&family[1..], LockPolicy::Skip).await);
    let store = Arc::new(store);
    let callers = [["alpha", "zeta"], ["zeta", "zeta"], ["zeta", "alpha"]].map(|names| {
        let store = store.clone();
        tokio::spawn(async move {
            let charges = names.map(|name| Charge::new(scope(name), 1)).into();
            let request = Op::Submit(Command { charges, ..Command::default() }).into();
            for _ in 0..100 {
                done(one(&*store, &request).await);
            }
        })
    });
    for caller in callers {
        caller.await.unwrap();
    }
    let posted = async |name| store.scope(&scope_key(name)).await.unwrap().unwrap().balances[0].posted;
    assert_eq!((posted("alpha").await, posted("zeta").await), (600, 400));
}

#[tokio::test]
async fn postings_of_the_same_time_leave_a_window_in_order() {
    let clock = clock();
    let (store, _) = open_timed(1, &clock).await;
    let count = bursar_core::bounds::FOLD_STEP + 500;
    let window = Window::rolling(Duration::from_secs(10)).unwrap();
    let budget = Budget::new([Limit::new(count as i64, window.clone())]);
    done_all(
        store.commit_requests(&[Arc::new(Op::Define { scope: scope("a"), budget }.into())], LockPolicy::Skip).await,
    );
    let holds: Vec<_> = (0..count).map(|_| Arc::new(hold("a", 1))).collect();
    let placed = store.commit_requests(&holds, LockPolicy::Skip).await.unwrap();
    // The holds are committed in reverse order, so that the order of the postings is not that of the ids.
    let commits = placed
        .iter()
        .rev()
        .map(|outcome| Arc::new(Op::Commit { hold: hold_of(outcome), actual: Default::default() }.into()));
    done_all(store.commit_requests(&commits.collect::<Vec<_>>(), LockPolicy::Skip).await);
    assert!(store.verify().await.unwrap().is_ok());

    clock.advance(Span::from_secs(11));
    let again = store.commit_requests(&[Arc::new(post("a", count as i64))], LockPolicy::Skip).await.unwrap();
    assert!(matches!(again[0], RequestOutcome::Again), "one step does not fold all postings");
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
    done(one(&store, &post("a", count as i64)).await);
    let row = store.scope(&scope_key("a")).await.unwrap().unwrap();
    assert_eq!(row.balance(&window).unwrap().posted, count as i64);
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
}

#[tokio::test]
async fn a_rebuild_waits_for_writers_and_blocks_new_ones() {
    let (store, url) = open_with(1, PostgresOptions { connections: 3, ..PostgresOptions::default() }).await;
    define(&store, &["a", "b"], 1_000).await;
    let store = Arc::new(store);
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut theirs = conn.begin().await.unwrap();
    store.commit_in(&mut theirs, &checked(post("a", 7))).await.unwrap().unwrap();
    let rebuild = tokio::spawn({
        let store = store.clone();
        async move { store.rebuild().await }
    });
    until_waiting(&url, 1).await;
    let busy = store.commit_requests(&[Arc::new(post("b", 1))], LockPolicy::Skip).await;
    assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
    theirs.commit().await.unwrap();
    assert_eq!(rebuild.await.unwrap().unwrap(), 3);
    assert_eq!(store.scope(&scope_key("a")).await.unwrap().unwrap().balances[0].posted, 7);
    done(one(&*store, &post("b", 1)).await);
}
