//! The schema, step by step. Several nodes may start at once: one migrates, the others wait for it.

use sqlx::PgConnection;

use super::error::store_error;
use super::{PostgresStore, READ_COMMITTED};
use crate::error::StoreError;

/// Each step ends by writing down its number. A step that has been released is never changed.
const STEPS: &[&str] = &[include_str!("schema/0001_kernel.sql")];

/// The schema version this build works with.
pub(super) const KNOWN: i64 = STEPS.len() as i64;

/// Whoever migrates holds this advisory lock of the database until the end of the transaction.
const LOCK: i64 = 0x6275_7273_6172_0001;

/// The SQL that prepares an empty database, for those who migrate with a tool of their own. To be run in one transaction.
pub fn migration_sql() -> String {
    let mut text = String::from("-- Bursar: the tables. Run this in one transaction.\n");
    for (place, step) in STEPS.iter().enumerate() {
        text.push_str(&format!("\n-- Step {}\n{step}", place + 1));
    }
    text
}

/// Brings the database to the version of this build, or says why it cannot be used as it is.
pub(super) async fn prepare(store: &PostgresStore) -> Result<(), StoreError> {
    prepare_with(store, STEPS).await
}

async fn prepare_with(store: &PostgresStore, steps: &[&'static str]) -> Result<(), StoreError> {
    let known = steps.len() as i64;
    let mut conn = store.acquire().await?;
    let found = version(&mut conn).await?;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    if found == known {
        return Ok(());
    }
    if !store.setup.migrate {
        return Err(StoreError::NotMigrated { found, needed: known });
    }
    drop(conn);
    let mut tx = store.begin(READ_COMMITTED).await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await.map_err(store_error)?;
    // Another node may have done it while this one waited.
    let found = version(&mut tx).await?;
    for step in steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::raw_sql(*step).execute(&mut *tx).await.map_err(store_error)?;
    }
    tx.commit().await.map_err(store_error)
}

/// The version of the tables; 0 when there are none.
pub(super) async fn version(conn: &mut PgConnection) -> Result<i64, StoreError> {
    let there: bool = sqlx::query_scalar("SELECT to_regclass('bursar.meta') IS NOT NULL")
        .fetch_one(&mut *conn)
        .await
        .map_err(store_error)?;
    if !there {
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
    use crate::postgres::PostgresOptions;
    use crate::prelude::*;
    use crate::store::{LockPolicy, RequestOutcome, Setup};

    /// A step as a later version may have it: it adds, and takes nothing away.
    const LATER: &str = "ALTER TABLE bursar.holds ADD COLUMN note text;
        ALTER TABLE bursar.postings ADD COLUMN note text DEFAULT 'later';
        CREATE TABLE bursar.later (id uuid PRIMARY KEY);
        UPDATE bursar.meta SET value = '2' WHERE key = 'schema';";

    /// Ids that grow, and that two nodes do not share.
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

    #[tokio::test]
    async fn an_older_node_goes_on_while_newer_ones_migrate_and_is_refused_when_it_starts_again() {
        let url = bursar_testkit::fresh_database();
        let (old, one, other) =
            (open(&url, 1).await.unwrap(), open(&url, 2).await.unwrap(), open(&url, 3).await.unwrap());
        let scope = Scope::new("room").unwrap();
        let charge = || Charge::new(scope.clone(), 1).within([Limit::new(1_000_000, Window::Lifetime)]);
        let ask = async |settle: Settle| {
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
            let (mut asked, mut since) = (0, 0);
            // Some before, some meanwhile, and some on the tables as they are then.
            while since < 20 {
                since += usize::from(migrated.load(Ordering::SeqCst));
                ask(Settle::Now).await;
                ask(Settle::Hold { ttl: None }).await;
                asked += 1;
            }
            asked
        };
        let migrating = async {
            let both = tokio::join!(prepare_with(&one, &steps), prepare_with(&other, &steps));
            migrated.store(true, Ordering::SeqCst);
            both
        };
        let (asked, (first, second)) = tokio::join!(working, migrating);
        first.unwrap();
        second.unwrap();
        let row = old.scope(&(Tenant::built_in(), scope.clone())).await.unwrap().unwrap();
        assert_eq!((row.balances[0].posted, row.balances[0].held), (asked, asked));
        assert_eq!(old.verify().await.unwrap().violations, Vec::<String>::new());
        assert_eq!(old.health().await.unwrap().schema, 2);
        let again = open(&url, 4).await.err();
        assert!(matches!(again, Some(StoreError::NewerSchema { found: 2, known: KNOWN })), "{again:?}");
    }
}
