//! Rebuilding every table but the journal and the payloads from the journal.

use futures_util::FutureExt;
use rusqlite::Connection;

use super::error::store_error;
use super::read::journal;
use super::schema;
use super::writer::Shared;
use crate::error::StoreError;
use crate::transaction;
use crate::transaction::rows::Rows;

/// Deletes the tables' rows and replays the journal, within the caller's transaction. Returns how many events were applied.
pub(super) fn rebuild(shared: &Shared, conn: &Connection) -> Result<u64, StoreError> {
    for table in schema::REBUILT {
        conn.execute(&format!("DELETE FROM {table}"), []).map_err(store_error)?;
    }
    let (mut after, mut events) = (0, 0);
    loop {
        let page = journal(shared, conn, after, 100)?;
        for journaled in &page {
            let mut rows = shared.rows(conn);
            let apply = async {
                let ws = transaction::replay(&mut rows, &journaled.batch).await?;
                rows.store(&ws, None).await
            };
            apply.now_or_never().expect("SQLite never waits within a transaction")?;
            let count = journaled.batch.count() as u64;
            after = journaled.position + count - 1;
            events += count;
        }
        if page.is_empty() {
            shared.rows(conn).rebuild_lines()?;
            return Ok(events);
        }
    }
}
