//! Rebuilding every table but the journal and the payloads from the journal.

use bursar_core::event::Batch;
use futures_util::FutureExt;
use rusqlite::Connection;

use super::error::store_error;
use super::read::journal;
use super::schema;
use super::writer::Shared;
use crate::error::StoreError;
use crate::store::{ArchivedRows, Positions};
use crate::transaction;
use crate::transaction::rows::Rows;

/// Deletes the tables' rows and replays the archived rows and the journal, within the caller's transaction. Returns how many events were
/// applied.
pub(super) fn rebuild(shared: &Shared, conn: &Connection, mut archived: ArchivedRows) -> Result<u64, StoreError> {
    for table in schema::REBUILT {
        conn.execute(&format!("DELETE FROM {table}"), []).map_err(store_error)?;
    }
    let mut positions = Positions::new();
    while let Some(rows) = archived.blocking_next()? {
        for row in rows {
            let batch = shared.rows(conn).batch_of(&row)?;
            if positions.add(row.position, batch.count())? {
                replay(shared, conn, &batch)?;
            }
        }
    }
    // A row is archived only when its idempotency keys are gone.
    conn.execute("DELETE FROM bursar_keys", []).map_err(store_error)?;
    loop {
        let page = journal(shared, conn, positions.next() - 1, 100)?;
        for journaled in &page {
            if positions.add(journaled.position, journaled.batch.count())? {
                replay(shared, conn, &journaled.batch)?;
            }
        }
        if page.is_empty() {
            shared.rows(conn).rebuild_lines()?;
            return Ok(positions.next() - 1);
        }
    }
}

fn replay(shared: &Shared, conn: &Connection, batch: &Batch) -> Result<(), StoreError> {
    let mut rows = shared.rows(conn);
    let apply = async {
        let ws = transaction::replay(&mut rows, batch).await?;
        rows.store(&ws, None).await
    };
    apply.now_or_never().expect("SQLite never waits within a transaction").map(drop)
}
