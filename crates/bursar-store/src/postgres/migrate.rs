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
    let mut conn = store.acquire().await?;
    let found = version(&mut conn).await?;
    if found > KNOWN {
        return Err(StoreError::NewerSchema { found, known: KNOWN });
    }
    if found == KNOWN {
        return Ok(());
    }
    if !store.setup.migrate {
        return Err(StoreError::NotMigrated { found, needed: KNOWN });
    }
    drop(conn);
    let mut tx = store.begin(READ_COMMITTED).await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await.map_err(store_error)?;
    // Another node may have done it while this one waited.
    let found = version(&mut tx).await?;
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
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
