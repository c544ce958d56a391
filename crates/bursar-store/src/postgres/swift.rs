//! Batches without locks: rows are looked at, and written by one statement that commits by itself, if nobody has changed them
//! meanwhile. That is two trips instead of four. Which batches, and when, is said in `crate::swift`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bursar_core::request::Request;
use bursar_core::time::Time;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{PgConnection, Postgres};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::{Trouble, commit_error, trouble};
use super::lane::Kept;
use super::rows::{PgRows, Taking};
use super::{PostgresStore, no_answer};
use crate::attempt::Setback;
use crate::error::StoreError;
use crate::store::Verdict;
use crate::swift::{Attempted, WAIT, WARY};
use crate::work::{self, When};

/// So long one waits for a connection for them: a server may have none left but those of the other batches.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// And so long batches lock after none was to be had.
const NONE_TO_BE_HAD: Duration = Duration::from_secs(60);

/// How the connections are set, from their beginning: so nobody else finds one that is, also where a pooler hands them on. A plan
/// is made once and kept, and must not read a whole table as long as it is small.
fn settings() -> [(&'static str, String); 3] {
    [
        ("enable_seqscan", "off".into()),
        ("lock_timeout", format!("{}ms", WAIT.as_millis())),
        ("default_transaction_isolation", "read committed".into()),
    ]
}

/// Connections for statements that commit by themselves. They are kept from one batch to the next: the pool would ask the server
/// each time whether they are still good.
pub(super) struct Alone {
    pool: PgPool,
    kept: Kept,
    /// One for each of them: the pool takes those that are kept for taken.
    turns: Semaphore,
}

/// Why there is no connection for a batch.
#[derive(Debug)]
enum Lack {
    /// Others are using them.
    InUse,
    /// None is to be had of the server. Why, finds out who opens a transaction.
    Refused,
}

impl Alone {
    pub(super) fn new(pool: PgPoolOptions, connect: PgConnectOptions) -> Alone {
        let turns = Semaphore::new(pool.get_max_connections() as usize);
        let pool = pool.acquire_timeout(CONNECT_WITHIN).connect_lazy_with(connect.options(settings()));
        Alone { pool, kept: Kept::default(), turns }
    }

    async fn take(&self) -> Result<(SemaphorePermit<'_>, PoolConnection<Postgres>), Lack> {
        let turn = self.turns.try_acquire().map_err(|_| Lack::InUse)?;
        let conn = match self.kept.take() {
            Some(conn) => conn,
            None => self.pool.acquire().await.map_err(|_| Lack::Refused)?,
        };
        Ok((turn, conn))
    }

    pub(super) async fn close(&self) {
        self.kept.close();
        self.pool.close().await;
    }
}

impl PostgresStore {
    /// Whether the last batch locked its rows, as the next one then may.
    pub(super) fn has_locked_last(&self) -> bool {
        self.locked_last.load(Ordering::Relaxed)
    }

    /// Does requests at once; `None` where they need locks, and nothing has happened.
    pub(super) async fn do_at_once(&self, requests: &[&Request]) -> Result<Option<(Vec<Verdict>, Time)>, Setback> {
        let done = match &self.alone {
            Some(alone) => self.wary.attempt(requests, self.try_at_once(alone, requests)).await,
            None => Ok(None),
        };
        self.locked_last.store(matches!(done, Ok(None)), Ordering::Relaxed);
        done
    }

    async fn try_at_once(&self, alone: &Alone, requests: &[&Request]) -> Result<Attempted, Setback> {
        // A transaction that stands ready for another batch would keep its connection, and those out who make the tables anew.
        self.close_early().await;
        let (_turn, mut conn) = match alone.take().await {
            Ok(taken) => taken,
            Err(Lack::InUse) => return Ok(Attempted::Unfit),
            Err(Lack::Refused) => return Ok(Attempted::Spoiled(NONE_TO_BE_HAD)),
        };
        match self.look_and_write(&mut conn, requests).await {
            Ok(done) => {
                alone.kept.keep(conn, usize::MAX);
                Ok(done)
            }
            Err(setback) => {
                // It is not known to be at rest.
                drop(conn.detach());
                setback.map_or(Ok(Attempted::Spoiled(WARY)), Err)
            }
        }
    }

    /// An error that says nothing is for who tries it with locks.
    async fn look_and_write(
        &self,
        conn: &mut PgConnection,
        requests: &[&Request],
    ) -> Result<Attempted, Option<Setback>> {
        let set_back = |error| Err(Some(Setback::Final(error)));
        let within = self.options.answer_within;
        let when = When { floor: self.floor(), batch: self.next_batch() };
        let mut rows = PgRows::new(conn, self, Taking::See);
        let mut ids = self.ids();
        let decided = work::run(&mut rows, requests, &self.setup.rules, when, &mut ids);
        let (mut ws, verdicts) = match tokio::time::timeout(within, decided).await {
            Ok(Ok(decided)) => decided,
            Ok(Err(_)) if rows.seen_in_parts => return Ok(Attempted::Unfit),
            Ok(Err(_)) => return Err(None),
            Err(_) => return set_back(no_answer(within)),
        };
        if !ws.relies_on_what_it_writes() {
            return Ok(Attempted::Unfit);
        }
        let (now, events) = (ws.now, ws.take_batch());
        match tokio::time::timeout(within, rows.write_alone(ws, events)).await {
            Ok(Ok(true)) => Ok(Attempted::Done(verdicts, now)),
            Ok(Ok(false)) => Ok(Attempted::Spoiled(WARY)),
            Ok(Err(error)) => match trouble(&error) {
                Some(Trouble::LockTimeout | Trouble::Deadlock) => Ok(Attempted::Spoiled(WARY)),
                Some(Trouble::Lost) | None => set_back(commit_error(error)),
            },
            Err(late) => set_back(StoreError::UnknownOutcome(Box::new(late))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bursar_core::decide::Rules;
    use bursar_core::name::{Scope, Tenant};
    use bursar_core::scope::ScopeState;
    use bursar_core::state::{ScopeKey, Workspace};
    use bursar_core::time::Time;
    use bursar_testkit::SeqIds;
    use sqlx::Connection;

    use super::*;
    use crate::codec::Packed;
    use crate::postgres::PostgresOptions;
    use crate::rows::Rows;
    use crate::store::Setup;

    fn key(name: &str) -> ScopeKey {
        (Tenant::built_in(), Scope::new(name).expect("a name"))
    }

    async fn open() -> (PostgresStore, PgConnection) {
        let url = bursar_testkit::fresh_database();
        let ids = Arc::new(Mutex::new(SeqIds::new(1)));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        let store = PostgresStore::open(&url, setup, PostgresOptions::default()).await.expect("it opens");
        (store, PgConnection::connect(&url).await.expect("a connection"))
    }

    async fn run(conn: &mut PgConnection, sql: &'static str) {
        sqlx::raw_sql(sql).execute(conn).await.expect("it is run");
    }

    /// Looks at a scope, lets something happen until it is so, and writes what it saw; says whether it could.
    async fn writes_after(happens: &'static str, until: &'static str) -> bool {
        let (store, mut stranger) = open().await;
        // One after the other on their page, of one transaction.
        let create = "INSERT INTO bursar.scopes (tenant, scope, version, state)
            SELECT 'default', unnest(ARRAY['x', 'a', 'b']), 0, $1";
        sqlx::query(create).bind(ScopeState::default().pack()).execute(&mut stranger).await.expect("they are made");
        run(&mut stranger, "DELETE FROM bursar.scopes WHERE scope = 'x'").await;
        let (_turn, mut conn) = store.alone.as_ref().expect("there are enough").take().await.expect("a connection");
        let mut rows = PgRows::new(&mut conn, &store, Taking::See);
        let asked = [(key("a"), false)];
        let seen = rows.scopes(&asked).await.expect("it is there").rows.remove(0).1;
        run(&mut stranger, happens).await;
        while !sqlx::query_scalar::<_, bool>(until).fetch_one(&mut stranger).await.expect("yes or no") {
            run(&mut stranger, happens).await;
        }
        rows.scopes(&asked).await.expect_err("what is seen later may not go with it");
        assert!(rows.seen_in_parts);
        let mut ws = Workspace::new(Time::MIN, store.next_batch());
        ws.scopes.load(key("a"), Some(seen));
        ws.scopes.get_mut(&key("a")).expect("it was loaded").version = 7;
        let written = rows.write_alone(ws, None).await.expect("an answer");
        let versions = "SELECT count(*) FROM bursar.scopes WHERE version = 7 AND scope = 'a'";
        let there: i64 = sqlx::query_scalar(versions).fetch_one(&mut stranger).await.expect("a count");
        assert_eq!(there, i64::from(written), "and nothing else was written");
        let others = "SELECT count(*) FROM bursar.scopes WHERE version = 7 AND scope <> 'a'";
        let others: i64 = sqlx::query_scalar(others).fetch_one(&mut stranger).await.expect("a count");
        assert_eq!(others, 0, "not in the place of another");
        written
    }

    #[tokio::test]
    async fn what_was_seen_is_what_must_still_be_there() {
        let at_once = "SELECT true";
        assert!(writes_after("SELECT 1", at_once).await, "nothing happened");
        assert!(!writes_after("UPDATE bursar.scopes SET version = version WHERE scope = 'a'", at_once).await);
    }

    #[tokio::test]
    async fn what_was_not_seen_is_not_written_over() {
        let (store, mut stranger) = open().await;
        let create = "INSERT INTO bursar.scopes (tenant, scope, version, state) VALUES ('default', 'a', 3, $1)";
        sqlx::query(create).bind(ScopeState::default().pack()).execute(&mut stranger).await.expect("it is made");
        let (_turn, mut conn) = store.alone.as_ref().expect("there are enough").take().await.expect("a connection");
        for known in [Some(ScopeState::default()), None] {
            let mut rows = PgRows::new(&mut conn, &store, Taking::See);
            let mut ws = Workspace::new(Time::MIN, store.next_batch());
            ws.scopes.load(key("a"), known.clone());
            ws.scopes.put(key("a"), ScopeState { version: 7, ..ScopeState::default() });
            assert!(!rows.write_alone(ws, None).await.expect("an answer"), "{known:?}");
            let version: i64 =
                sqlx::query_scalar("SELECT version FROM bursar.scopes").fetch_one(&mut stranger).await.expect("one");
            assert_eq!(version, 3, "{known:?}");
        }
    }

    /// The server may lay all rows of a table elsewhere, and leaves them of whom they were.
    #[tokio::test]
    async fn a_row_that_lies_where_another_lay_is_not_taken_for_it() {
        // One that was deleted is left out once nobody can see it any more.
        let b_is_where_a_was = "SELECT ctid = '(0,2)' FROM bursar.scopes WHERE scope = 'b'";
        assert!(!writes_after("VACUUM FULL bursar.scopes", b_is_where_a_was).await);
    }
}
