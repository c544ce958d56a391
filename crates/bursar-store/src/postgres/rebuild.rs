//! Rebuilding every table but the journal and the payloads from the journal.

use std::time::Duration;

use super::error::{commit_error, store_error};
use super::journal;
use super::rows::{LockMode, PgRows};
use super::{GATE, PostgresStore, READ_COMMITTED};
use crate::error::StoreError;
use crate::transaction;
use crate::transaction::rows::Rows;

/// Rows of the journal that are read together.
const JOURNAL_PAGE: usize = 200;
/// How long to wait until every writer has ended.
const WRITERS_TIMEOUT: Duration = Duration::from_secs(60);

impl PostgresStore {
    pub(super) async fn rebuild_tables(&self) -> Result<u64, StoreError> {
        let mut tx = self.begin(READ_COMMITTED).await?;
        sqlx::query("SELECT set_config('lock_timeout', $1, true), pg_advisory_xact_lock($2)")
            .bind(format!("{}ms", WRITERS_TIMEOUT.as_millis()))
            .bind(GATE)
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        // Every writer has ended, so this assigns the last positions. On another connection, so that readers of the journal need not
        // wait for this transaction.
        let mut side = self.side.acquire().await.map_err(store_error)?;
        self.sequence(&mut side).await?;
        drop(side);
        sqlx::raw_sql(
            "TRUNCATE bursar.keys, bursar.job_keys, bursar.jobs, bursar.ended_jobs, bursar.queues, bursar.schedules,
                 bursar.tallies, bursar.costs, bursar.held, bursar.holds, bursar.grants, bursar.scopes,
                 bursar.live_charges, bursar.postings, bursar.rollups",
        )
        .execute(&mut *tx)
        .await
        .map_err(store_error)?;
        self.scope_cache.clear();
        let (mut events, mut after) = (0, 0);
        loop {
            let page = journal::page(&mut tx, after, JOURNAL_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.position + last.batch.count() as u64 - 1;
            for row in &page {
                let mut rows = PgRows::new(&mut tx, self, LockMode::Exclusive);
                let ws = transaction::replay(&mut rows, &row.batch).await?;
                if !rows.store(&ws, None).await? {
                    let problem = format!("{} uses an idempotency key that is in use", row.batch.id);
                    return Err(StoreError::corrupt("journal row", problem));
                }
                events += row.batch.count() as u64;
            }
        }
        self.restore_lines(&mut tx).await?;
        tx.commit().await.map_err(commit_error)?;
        // Entries that other transactions cached before this commit may be wrong.
        self.scope_cache.clear();
        Ok(events)
    }
}
