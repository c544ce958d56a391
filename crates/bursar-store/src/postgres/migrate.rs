//! Creates and upgrades the schema in numbered steps. If several nodes start at once, one of them migrates and the others wait for it.
//!
//! The version of the tables is the number of the last step, in the row `schema` of `bursar.meta`. A newer version only adds tables and
//! columns, so that nodes of the version before keep running during an upgrade. A node refuses to start on tables newer than it knows.

use super::conn::Conn;
use super::error::store_error;
use super::jobs::group_dead_jobs;
use super::{PostgresStore, READ_COMMITTED, moving, wall};
use crate::error::StoreError;

/// The steps in order. Each ends by storing its number. The statements of a released step never change.
const STEPS: &[&str] = &[
    include_str!("schema/0001_kernel.sql"),
    include_str!("schema/0002_dead_groups.sql"),
    include_str!("schema/0003_blobs.sql"),
    include_str!("schema/0004_on_expiry.sql"),
    include_str!("schema/0005_journal_segments.sql"),
    ROW_SECURITY,
];

const ROW_SECURITY: &str = include_str!("schema/0006_row_security.sql");

/// The step that groups dead jobs by their error.
const GROUPS_STEP: usize = 2;

/// The schema version that this build needs.
pub(crate) const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// The advisory lock that a migrating node holds until the end of its transaction.
const MIGRATION_LOCK: i64 = 0x6275_7273_6172_0001;

/// Returns the SQL that creates the tables in an empty database, for use with another migration tool. Run it in one transaction.
pub fn migration_sql() -> String {
    let mut text = String::from("-- The tables of Bursar. Run this in one transaction.\n");
    for (index, step) in STEPS.iter().enumerate() {
        text.push_str(&format!("\n-- Step {}\n{step}", index + 1));
    }
    text
}

/// Upgrades the tables to the version of this build. Fails if they are newer, or if migrations are off and they are older.
pub(super) async fn prepare(store: &PostgresStore) -> Result<(), StoreError> {
    prepare_with(store, STEPS).await
}

async fn prepare_with(store: &PostgresStore, steps: &[&'static str]) -> Result<(), StoreError> {
    let known = steps.len() as i64;
    let mut conn = store.acquire().await?;
    moving::read_marks(&mut conn.conn()).await?.check()?;
    let found = version(&mut conn.conn()).await?;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    let is_current = found == known;
    if is_current && wall::is_prepared(&mut conn.conn(), &store.options).await? {
        return Ok(());
    }
    if !store.setup.migrate {
        let missing = StoreError::NotMigrated { found, needed: known };
        return Err(if is_current { wall::not_prepared() } else { missing });
    }
    drop(conn);
    // A migration may take long, and a pooler may cancel a long transaction, so a direct connection is used if there is one.
    let mut tx = store.side_pool.begin(READ_COMMITTED).await.map_err(store_error)?.unbounded();
    // Row-level security may apply to the owner, and a step may read rows of all tenants.
    sqlx::query("SELECT pg_advisory_xact_lock($1), set_config('bursar.every_tenant', 'on', true)")
        .bind(MIGRATION_LOCK)
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
    // Another node may have migrated while this one waited for the lock.
    let found = version(&mut tx.conn()).await?;
    for (step, number) in steps.iter().zip(1..).skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::raw_sql(*step).execute(tx.conn()).await.map_err(store_error)?;
        if number == GROUPS_STEP {
            group_dead_jobs(&mut tx.conn()).await?;
        }
    }
    wall::prepare(&mut tx.conn(), &store.options).await?;
    tx.commit().await.map_err(store_error)
}

/// Returns the version of the tables; 0 if there are none.
pub(super) async fn version(conn: &mut Conn<'_>) -> Result<i64, StoreError> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('bursar.meta') IS NOT NULL")
        .fetch_one(&mut *conn)
        .await
        .map_err(store_error)?;
    if !exists {
        return Ok(0);
    }
    let value: Option<String> = sqlx::query_scalar("SELECT value FROM bursar.meta WHERE key = 'schema'")
        .fetch_optional(&mut *conn)
        .await
        .map_err(store_error)?;
    let value = value.unwrap_or_else(|| "0".into());
    value.parse().map_err(|_| StoreError::corrupt("schema version", value))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use bursar_core::budget::Limit;
    use bursar_core::decide::Rules;
    use bursar_core::id::IdSource;
    use bursar_core::name::{Scope, Tenant};
    use bursar_core::request::{Charge, Command, Op, Request, Settle};
    use bursar_core::time::Time;
    use bursar_core::window::Window;

    use super::*;
    use crate::conformance::CommitRequests;
    use crate::only_adds::only_adds;
    use crate::postgres::PostgresOptions;
    use crate::prelude::*;
    use crate::store::{LockPolicy, RequestOutcome, Setup};

    /// A step of a later version: it adds columns and tables, and removes nothing.
    const LATER: &str = "ALTER TABLE bursar.holds ADD COLUMN note text;
        ALTER TABLE bursar.postings ADD COLUMN note text DEFAULT 'later';
        CREATE TABLE bursar.later (id uuid PRIMARY KEY);
        UPDATE bursar.meta SET value = '7' WHERE key = 'schema';";

    /// Growing ids, different on each node.
    struct Counter(u128);

    impl IdSource for Counter {
        fn next_id(&mut self, _: Time) -> u128 {
            self.0 += 1;
            self.0
        }
    }

    async fn open(url: &str, node: u128) -> Result<PostgresStore, StoreError> {
        let ids = Arc::new(Mutex::new(Counter(node << 64)));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        PostgresStore::open(url, setup, PostgresOptions::default()).await
    }

    #[test]
    fn a_later_version_only_adds() {
        for step in STEPS.iter().skip(1) {
            if *step == ROW_SECURITY {
                // Earlier versions connect as the owner of the tables, to whom policies do not apply unless they are forced.
                assert!(!step.contains("FORCE ROW LEVEL SECURITY"));
                continue;
            }
            only_adds(step).unwrap();
        }
    }

    #[tokio::test]
    async fn a_running_older_node_survives_a_migration_but_cannot_reopen() {
        let url = bursar_testkit::fresh_database();
        let (old, one, other) =
            (open(&url, 1).await.unwrap(), open(&url, 2).await.unwrap(), open(&url, 3).await.unwrap());
        let scope = Scope::new("room").unwrap();
        let charge = || Charge::new(scope.clone(), 1).within([Limit::new(1_000_000, Window::Lifetime)]);
        let submit = async |settle: Settle| {
            let command = Command { charges: vec![charge()], settle, ..Command::default() };
            let request = Arc::new(Request::from(Op::Submit(command)));
            loop {
                match old.commit_requests(std::slice::from_ref(&request), LockPolicy::Skip).await.unwrap().remove(0) {
                    RequestOutcome::Answered(answer) => return answer.map(drop).unwrap(),
                    RequestOutcome::Again | RequestOutcome::Blocked(_) => {}
                    RequestOutcome::Failed(error) => panic!("{error}"),
                }
            }
        };
        let steps = [STEPS, &[LATER]].concat();
        let migrated = AtomicBool::new(false);
        let working = async {
            let (mut submitted, mut after_migration) = (0, 0);
            // Requests before, during and after the migration.
            while after_migration < 20 {
                after_migration += usize::from(migrated.load(Ordering::SeqCst));
                submit(Settle::Now).await;
                submit(Settle::Hold { ttl: None }).await;
                submitted += 1;
            }
            submitted
        };
        let migrating = async {
            let both = tokio::join!(prepare_with(&one, &steps), prepare_with(&other, &steps));
            migrated.store(true, Ordering::SeqCst);
            both
        };
        let (submitted, (first, second)) = tokio::join!(working, migrating);
        first.unwrap();
        second.unwrap();
        let row = old.scope(&(Tenant::built_in(), scope.clone())).await.unwrap().unwrap();
        assert_eq!((row.balances[0].posted, row.balances[0].held), (submitted, submitted));
        assert_eq!(old.verify().await.unwrap().violations, Vec::<String>::new());
        assert_eq!(old.health().await.unwrap().schema, SCHEMA_VERSION + 1);
        let reopened = open(&url, 4).await.err();
        assert!(matches!(reopened, Some(StoreError::NewerSchema { found: 7, known: SCHEMA_VERSION })), "{reopened:?}");
    }
}
