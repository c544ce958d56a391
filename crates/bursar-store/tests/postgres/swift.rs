//! Commands that lock nothing: written by one statement that commits by itself, if all still is as it was seen.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::budget::{Budget, Limit};
use bursar_core::decide::Rules;
use bursar_core::job::JobSpec;
use bursar_core::live::RECENT_MAX;
use bursar_core::name::{JobKind, Queue, Scope};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Charge, Command, Op, Request};
use bursar_core::time::Span;
use bursar_core::window::Window;
use bursar_store::swift::WARY;
use bursar_store::{Patience, PostgresOptions, PostgresStore, Store, StoreError, Verdict};
use bursar_testkit::Cluster;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::Instant;

use crate::support::*;

/// What only such a statement says.
const ALONE: &str = "pg_try_advisory_xact_lock_shared";

/// A table that such statements do not come to write before it is lifted. They wait for no lock meanwhile, for which they have
/// little time.
struct Gate(PgConnection);

impl Gate {
    async fn before(table: &str, url: &str) -> Gate {
        Gate::before_who(&format!("current_query() LIKE '%{ALONE}%'"), table, url).await
    }

    async fn before_who(comes: &str, table: &str, url: &str) -> Gate {
        let mut conn = PgConnection::connect(url).await.unwrap();
        let sql = format!(
            "CREATE FUNCTION stand_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 WHILE {comes} AND NOT pg_try_advisory_xact_lock_shared(4712) LOOP
                     PERFORM pg_sleep(0.002);
                 END LOOP; RETURN NULL; END $$;
             CREATE TRIGGER gate BEFORE INSERT OR UPDATE OR DELETE ON {table}
                 FOR EACH STATEMENT EXECUTE FUNCTION stand_here();
             SELECT pg_advisory_lock(4712)"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        Gate(conn)
    }

    /// Rows of scopes that somebody looks at without locking them, who gets them as they were, but not before it is lifted.
    async fn behind_looks(url: &str) -> Gate {
        let mut conn = PgConnection::connect(url).await.unwrap();
        let sql = "CREATE FUNCTION look_here() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                 WHILE current_query() LIKE '%OFFSET 0) s' AND NOT pg_try_advisory_xact_lock_shared(4712) LOOP
                     PERFORM pg_sleep(0.002);
                 END LOOP; RETURN true; END $$;
             ALTER TABLE bursar.scopes RENAME TO kept_scopes;
             CREATE VIEW bursar.scopes AS SELECT ctid, xmin, tenant, scope, version, state, budget
                 FROM bursar.kept_scopes WHERE look_here();
             SELECT pg_advisory_lock(4712)";
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
        Gate(conn)
    }

    /// Waits until somebody stands before it.
    async fn until_somebody_stands(&mut self) {
        let standing = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND wait_event = 'PgSleep'";
        let stands =
            async { while sqlx::query_scalar::<_, i64>(standing).fetch_one(&mut self.0).await.unwrap() == 0 {} };
        tokio::time::timeout(Duration::from_secs(120), stands).await.expect("somebody comes to the gate");
    }

    async fn open(&mut self) {
        sqlx::raw_sql("SELECT pg_advisory_unlock(4712)").execute(&mut self.0).await.unwrap();
    }

    async fn close(&mut self) {
        sqlx::raw_sql("SELECT pg_advisory_lock(4712)").execute(&mut self.0).await.unwrap();
    }

    async fn lift(mut self) {
        self.open().await;
    }
}

fn later(store: &Arc<PostgresStore>, request: Request) -> tokio::task::JoinHandle<Result<(), Refusal>> {
    let store = store.clone();
    tokio::spawn(async move { one(&*store, &request).await.map(drop) })
}

/// Somebody else's transaction.
async fn stranger_does(store: &PostgresStore, url: &str, request: &Request) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    store.commit_in(&mut tx, request).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

async fn balance(store: &PostgresStore, name: &str) -> (i64, i64) {
    let balances = store.scope(&scope_key(name)).await.unwrap().unwrap().balances;
    (balances[0].posted, balances[0].held)
}

async fn is_whole(store: &PostgresStore, case: &str) {
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{case}: {:#?}", report.violations);
}

#[tokio::test]
async fn a_scope_that_changes_after_it_was_looked_at_is_decided_anew() {
    for change in ["charged", "frozen", "redefined", "touched"] {
        let (store, url) = open(1).await;
        let store = Arc::new(store);
        define(&*store, &["a"], 1_000).await;
        let mut gate = Gate::before("bursar.scopes", &url).await;
        let late = later(&store, post("a", 200));
        gate.until_somebody_stands().await;
        let less = Budget::new([Limit::new(100, Window::Lifetime)]);
        match change {
            "charged" => stranger_does(&store, &url, &post("a", 900)).await,
            "frozen" => stranger_does(&store, &url, &Op::Freeze { scope: scope("a") }.into()).await,
            "redefined" => stranger_does(&store, &url, &Op::Define { scope: scope("a"), budget: less }.into()).await,
            _ => {
                let mut stranger = PgConnection::connect(&url).await.unwrap();
                let touch = "UPDATE bursar.scopes SET version = version WHERE scope = 'a'";
                assert_eq!(sqlx::query(touch).execute(&mut stranger).await.unwrap().rows_affected(), 1);
            }
        }
        gate.lift().await;
        let answer = late.await.unwrap();
        assert_eq!(answer.is_ok(), change == "touched", "{change}: {answer:?}");
        let posted = match change {
            "charged" => 900,
            "touched" => 200,
            _ => 0,
        };
        assert_eq!(balance(&store, "a").await, (posted, 0), "{change}");
        is_whole(&store, change).await;
    }
}

#[tokio::test]
async fn a_grant_that_changes_after_it_was_looked_at_is_redeemed_once() {
    for change in ["redeemed", "revoked", "touched"] {
        let (store, url) = open(1).await;
        let store = Arc::new(store);
        define(&*store, &["a"], 1_000).await;
        let (grant, redemption) = mint(&*store).await;
        let mut gate = Gate::before("bursar.grants", &url).await;
        let late = later(&store, full_command("a", 10, redemption.clone(), "work"));
        gate.until_somebody_stands().await;
        match change {
            "redeemed" => stranger_does(&store, &url, &redeem(redemption)).await,
            "revoked" => stranger_does(&store, &url, &Op::Revoke { grant }.into()).await,
            _ => {
                let mut stranger = PgConnection::connect(&url).await.unwrap();
                sqlx::query("UPDATE bursar.grants SET expires_at = expires_at").execute(&mut stranger).await.unwrap();
            }
        }
        gate.lift().await;
        let answer = late.await.unwrap();
        assert_eq!(answer.is_ok(), change == "touched", "{change}: {answer:?}");
        assert_eq!(balance(&store, "a").await.1, if change == "touched" { 10 } else { 0 }, "{change}");
        is_whole(&store, change).await;
    }
}

/// What is charged above a scope is written too, and found out as well.
#[tokio::test]
async fn an_ancestor_that_changes_after_it_was_looked_at_is_decided_anew() {
    let (store, url) = open(1).await;
    let store = Arc::new(store);
    define(&*store, &["above"], 1_000).await;
    let below = Budget { parent: Some(scope("above")), ..Budget::new([Limit::new(500, Window::Lifetime)]) };
    done(one(&*store, &Op::Define { scope: scope("below"), budget: below }.into()).await);
    // So that it is known what is above it.
    done(one(&*store, &post("below", 1)).await);
    let mut gate = Gate::before("bursar.scopes", &url).await;
    let late = later(&store, post("below", 200));
    gate.until_somebody_stands().await;
    stranger_does(&store, &url, &post("above", 900)).await;
    gate.lift().await;
    assert!(late.await.unwrap().is_err(), "there are 99 left above it");
    assert_eq!((balance(&store, "above").await, balance(&store, "below").await), ((901, 0), (1, 0)));
    is_whole(&store, "ancestor").await;
}

/// A scope and those above it may be read one after the other.
#[tokio::test]
async fn a_scope_is_not_refused_for_what_is_spent_above_it_once_it_is_elsewhere() {
    let (store, url) = open(1).await;
    define(&store, &["above"], 1_000).await;
    let define = |parent: Option<Scope>| -> Request {
        let budget = Budget { parent, ..Budget::new([Limit::new(500, Window::Lifetime)]) };
        Op::Define { scope: scope("below"), budget }.into()
    };
    done(one(&store, &define(Some(scope("above")))).await);
    // One who does not know yet what is above it.
    let other = Arc::new(PostgresStore::open(&url, setup(2), PostgresOptions::default()).await.unwrap());
    let mut gate = Gate::behind_looks(&url).await;
    let late = later(&other, post("below", 200));
    gate.until_somebody_stands().await;
    stranger_does(&store, &url, &define(None)).await;
    stranger_does(&store, &url, &post("above", 1_000)).await;
    gate.lift().await;
    late.await.unwrap().expect("nothing is above it any more");
    assert_eq!((balance(&store, "above").await, balance(&store, "below").await), ((1_000, 0), (200, 0)));
}

/// What lies in a scope's row and what lies beside it are read one after the other, and whether they belong together is found out
/// also where somebody is refused.
#[tokio::test]
async fn what_expires_between_two_looks_is_held_against_nobody() {
    let clock = clock();
    let (store, url) = open_timed(1, &clock).await;
    let store = Arc::new(store);
    define(&*store, &["a"], 100).await;
    let mut holds = Vec::new();
    // So many that the first of them lie beside the row.
    for _ in 0..RECENT_MAX {
        holds.push(hold_of(&Verdict::Answered(one(&*store, &hold("a", 5)).await)));
    }
    clock.advance(Span::from_secs(1));
    done(one(&*store, &hold("a", 1)).await);
    // The last one lives on.
    clock.advance(Span::from_micros(Rules::default().hold_ttl.micros() - 1_000));
    let mut gate = Gate::behind_looks(&url).await;
    let late = later(&store, post("a", 50));
    gate.until_somebody_stands().await;
    stranger_does(&store, &url, &Op::Expire { holds }.into()).await;
    gate.lift().await;
    late.await.unwrap().expect("99 of 100 are left");
    assert_eq!(balance(&store, "a").await, (50, 1));
}

/// A budget that a charge brings along is of no account where somebody has defined one, and what was spent since then neither.
#[tokio::test]
async fn what_is_spent_on_a_scope_that_was_new_is_not_held_against_a_default() {
    let (store, url) = open(1).await;
    let store = Arc::new(store);
    define(&*store, &["old"], 1_000).await;
    done(one(&*store, &post("old", 1)).await);
    // Brought into being, and nothing else.
    let dry = Charge { default: Some(Arc::new(daily(100).by_default())), ..Charge::new(scope("new"), 500) };
    assert!(one(&*store, &Op::Submit(Command { charges: vec![dry], ..Command::default() }).into()).await.is_err());
    let mut gate = Gate::behind_looks(&url).await;
    // The window of the one has a past, and is opened by a look of its own.
    let limits = daily(100).limits;
    let charges = vec![
        Charge { limits, ..Charge::new(scope("old"), 1) },
        Charge { default: Some(Arc::new(daily(100).by_default())), ..Charge::new(scope("new"), 50) },
    ];
    let late = later(&store, Op::Submit(Command { charges, ..Command::default() }).into());
    gate.until_somebody_stands().await;
    stranger_does(&store, &url, &Op::Define { scope: scope("new"), budget: daily(1_000) }.into()).await;
    stranger_does(&store, &url, &post("new", 60)).await;
    gate.lift().await;
    late.await.unwrap().expect("940 of 1,000 are left");
}

/// A row that was made only to be locked is gone when another process has made the tables anew, and is made by whoever wants it next:
/// not by two.
#[tokio::test]
async fn a_scope_that_is_gone_is_made_once() {
    for connections in [PostgresOptions::default().connections, 3] {
        let (other, url) = open(1).await;
        let options = PostgresOptions { connections, ..PostgresOptions::default() };
        let late = PostgresStore::open(&format!("{url}?application_name=late"), setup(2), options).await.unwrap();
        let late = Arc::new(late);
        one(&*late, &post_within("a", 2_000, 1_000)).await.expect_err("more than the limit");
        other.rebuild().await.unwrap();
        let mut gate = Gate::before_who("current_setting('application_name') = 'late'", "bursar.scopes", &url).await;
        let second = later(&late, post_within("a", 200, 1_000));
        gate.until_somebody_stands().await;
        stranger_does(&other, &url, &post_within("a", 900, 1_000)).await;
        gate.lift().await;
        second.await.unwrap().expect_err("100 are left");
        assert_eq!(balance(&other, "a").await, (900, 0), "of {connections} connections");
        is_whole(&other, "made once").await;
    }
}

fn daily(amount: i64) -> Budget {
    Budget::new([Limit::new(amount, Window::rolling(Span::from_secs(86_400)).unwrap())])
}

#[tokio::test]
async fn a_key_that_is_taken_after_it_was_looked_for_is_answered_from_the_journal() {
    let (store, url) = open(1).await;
    let store = Arc::new(store);
    let work = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::default());
    let twin = Request::from(Op::Submit(Command { jobs: vec![work], ..Command::default() })).with_key(key("twin"));
    let mut gate = Gate::before("bursar.keys", &url).await;
    let late = tokio::spawn({
        let (store, twin) = (store.clone(), twin.clone());
        async move { one(&*store, &twin).await }
    });
    gate.until_somebody_stands().await;
    stranger_does(&store, &url, &twin).await;
    gate.lift().await;
    assert!(late.await.unwrap().unwrap().replayed);
    assert_eq!(commands(&*store, 0).await.len(), 1, "one of them was done");
    is_whole(&store, "twin").await;
}

/// From now on it is noted how scopes are written: by such a statement, or with locks.
async fn notes_ways(url: &str) -> PgConnection {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let note = format!(
        "CREATE TABLE ways (n serial, alone boolean);
         CREATE FUNCTION note_way() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO ways (alone) VALUES (current_query() LIKE '%{ALONE}%'); RETURN NULL; END $$;
         CREATE TRIGGER way AFTER UPDATE ON bursar.scopes FOR EACH STATEMENT EXECUTE FUNCTION note_way()"
    );
    sqlx::raw_sql(AssertSqlSafe(note)).execute(&mut conn).await.unwrap();
    conn
}

async fn last_three_ways(conn: &mut PgConnection) -> Vec<bool> {
    let ways = "SELECT alone FROM (SELECT * FROM ways ORDER BY n DESC LIMIT 3) w ORDER BY n";
    sqlx::query_scalar(ways).fetch_all(conn).await.unwrap()
}

/// Of more batches at once than there are connections for, some lock; and the next ones do not.
#[tokio::test]
async fn a_batch_that_finds_no_connection_of_its_own_locks_and_nobody_else_does() {
    let one_for_them = PostgresOptions { connections: 4, ..PostgresOptions::default() };
    let (store, url) = open_with(1, one_for_them).await;
    let store = Arc::new(store);
    define(&*store, &["a", "b"], 1_000).await;
    done(one(&*store, &post("b", 1)).await);
    let mut conn = notes_ways(&url).await;
    let mut gate = Gate::before("bursar.scopes", &url).await;
    let first = later(&store, post("a", 2));
    gate.until_somebody_stands().await;
    done(one(&*store, &post("b", 3)).await);
    gate.lift().await;
    first.await.unwrap().unwrap();
    done(one(&*store, &post("b", 4)).await);
    assert_eq!(last_three_ways(&mut conn).await, [false, true, true], "beside the first, the first, after it");
    assert_eq!((balance(&store, "a").await, balance(&store, "b").await), ((2, 0), (8, 0)));
    is_whole(&store, "more batches than connections").await;
}

/// A server may have just as many connections left as batches with locks need.
#[tokio::test]
async fn where_the_server_has_no_connection_left_for_them_batches_lock() {
    let (owner, url) = open(1).await;
    define(&owner, &["a"], 1_000).await;
    let mut conn = notes_ways(&url).await;
    let limited = "CREATE ROLE few_connections LOGIN CONNECTION LIMIT 3;
        GRANT ALL ON SCHEMA bursar TO few_connections;
        GRANT ALL ON ALL TABLES IN SCHEMA bursar, public TO few_connections;
        GRANT ALL ON ALL SEQUENCES IN SCHEMA bursar, public TO few_connections";
    sqlx::raw_sql(limited).execute(&mut conn).await.unwrap();
    let theirs = url.replace("postgres@", "few_connections@");
    assert_ne!(theirs, url, "they have a name of their own");
    // The first connection is that of batches with locks …
    let store = PostgresStore::open(&theirs, setup(2), PostgresOptions::default()).await.unwrap();
    // … the second brings scopes into being, for whoever's transaction …
    stranger_does(&store, &url, &post("a", 1)).await;
    // … and somebody has the last.
    let _last = PgConnection::connect(&theirs).await.unwrap();
    PgConnection::connect(&theirs).await.expect_err("there is none left");
    done(one(&store, &post("a", 2)).await);
    done(one(&store, &post("a", 3)).await);
    assert_eq!(last_three_ways(&mut conn).await, [false; 3]);
    assert_eq!(balance(&store, "a").await, (6, 0));
}

/// Processes that charge the same scope all the time take turns better than they race.
#[tokio::test]
async fn batches_lock_once_somebody_was_in_the_way() {
    let (store, url) = open(1).await;
    let store = Arc::new(store);
    define(&*store, &["a"], 1_000_000).await;
    let mut conn = notes_ways(&url).await;
    let mut gate = Gate::before("bursar.scopes", &url).await;
    let quick = async {
        loop {
            let late = later(&store, post("a", 2));
            gate.until_somebody_stands().await;
            stranger_does(&store, &url, &post("a", 3)).await;
            let before = Instant::now();
            gate.open().await;
            late.await.unwrap().unwrap();
            done(one(&*store, &post("a", 4)).await);
            if before.elapsed() < WARY {
                break;
            }
            // It took too long to tell anything: until batches lock no more.
            let last = "SELECT alone FROM ways ORDER BY n DESC LIMIT 1";
            while !sqlx::query_scalar::<_, bool>(last).fetch_one(&mut conn).await.unwrap() {
                done(one(&*store, &post("a", 1)).await);
            }
            gate.close().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), quick).await.expect("within a second for once");
    let ways = last_three_ways(&mut conn).await;
    // What the one wrote at once that was too late is gone with it.
    assert_eq!(ways, [false; 3], "a stranger, the one he was in the way of, the next");
}

/// Whoever makes the tables anew holds this alone.
#[tokio::test]
async fn nothing_is_written_while_the_tables_are_made_anew() {
    let options = PostgresOptions { key_patience: Duration::from_secs(60), ..PostgresOptions::default() };
    let (store, url) = open_with(1, options).await;
    let store = Arc::new(store);
    define(&*store, &["a"], 1_000).await;
    let gate = 0x6275_7273_6172_0002_i64;
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    sqlx::query("SELECT pg_advisory_lock($1)").bind(gate).execute(&mut stranger).await.unwrap();
    let late = later(&store, post("a", 10));
    until_waiting(&url, 1).await;
    let held = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'bursar'";
    let held: i64 = sqlx::query_scalar(held).fetch_one(&mut stranger).await.unwrap();
    assert_eq!(held, 0, "who waits keeps no table from being emptied");
    assert_eq!(balance(&store, "a").await, (0, 0));
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(gate).execute(&mut stranger).await.unwrap();
    late.await.unwrap().unwrap();
    assert_eq!(balance(&store, "a").await, (10, 0));
}

#[tokio::test]
async fn a_stranger_with_a_scope_in_hand_delays_others_no_longer_than_a_moment() {
    let options = PostgresOptions { key_patience: Duration::from_secs(3_600), ..PostgresOptions::default() };
    let (store, url) = open_with(1, options).await;
    define(&store, &["a", "b"], 1_000).await;
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    let mut theirs = stranger.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.scopes WHERE scope = 'a' FOR UPDATE").execute(&mut *theirs).await.unwrap();
    // An hour is what it would wait for a name.
    let requests = [Arc::new(post("a", 1)), Arc::new(post("b", 1))];
    let verdicts = store.commit(&requests, Patience::Skip).await.unwrap();
    assert!(matches!(verdicts[..], [Verdict::Blocked(_), Verdict::Answered(Ok(_))]), "{verdicts:?}");
    theirs.rollback().await.unwrap();
    done(one(&store, &requests[0]).await);
}

/// As while the tables are made anew, or changed.
#[tokio::test]
async fn a_table_that_somebody_has_locked_is_not_waited_for_without_end() {
    for table in ["bursar.scopes", "bursar.postings"] {
        let (store, url) = open(1).await;
        define(&store, &["a"], 1_000).await;
        done(one(&store, &post("a", 1)).await);
        let mut stranger = PgConnection::connect(&url).await.unwrap();
        let mut theirs = stranger.begin().await.unwrap();
        let lock = AssertSqlSafe(format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"));
        sqlx::raw_sql(lock).execute(&mut *theirs).await.unwrap();
        let verdicts = store.commit(&[Arc::new(post("a", 1))], Patience::Skip).await.unwrap();
        let busy = |error: &StoreError| matches!(error, StoreError::Busy(_));
        assert!(matches!(&verdicts[..], [Verdict::Failed(error)] if busy(error)), "{table}: {verdicts:?}");
        theirs.rollback().await.unwrap();
        done(one(&store, &post("a", 1)).await);
        assert_eq!(balance(&store, "a").await, (2, 0), "what was told to be busy was not done");
    }
}

#[tokio::test]
async fn a_server_that_begins_not_to_wait_for_its_disk_does_for_bursar() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(false)).await.unwrap();
    let url = cluster.url("postgres");
    let store = PostgresStore::open(&url, setup(1), PostgresOptions::default()).await.unwrap();
    define(&store, &["a"], 1_000).await;
    done(one(&store, &post("a", 1)).await);
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let note = "CREATE TABLE noted (setting text);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO noted VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
        CREATE TRIGGER note AFTER INSERT ON bursar.journal FOR EACH STATEMENT EXECUTE FUNCTION note()";
    sqlx::raw_sql(note).execute(&mut conn).await.unwrap();
    sqlx::raw_sql("ALTER SYSTEM SET synchronous_commit = off").execute(&mut conn).await.unwrap();
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut conn).await.unwrap();
    // Every connection hears of it before its next statement, once the server has told them.
    let now = "SELECT current_setting('synchronous_commit')";
    while sqlx::query_scalar::<_, String>(now).fetch_one(&mut conn).await.unwrap() != "off" {}
    for _ in 0..5 {
        done(one(&store, &post("a", 1)).await);
    }
    let noted: Vec<String> =
        sqlx::query_scalar("SELECT DISTINCT setting FROM noted").fetch_all(&mut conn).await.unwrap();
    assert_eq!(noted, ["on"]);
}
