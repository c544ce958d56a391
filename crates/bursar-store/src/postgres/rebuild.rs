//! Rebuilds every table except the journal and the payloads, by replaying the journal in one transaction.
//!
//! An exclusive advisory lock keeps writers out; every writer holds it shared.
//!
//! Some values follow from time and not from events, so they may differ from those before:
//! - how far scopes are folded, and which idempotency keys and postings were already deleted or rolled up;
//! - when leases expire that heartbeats have extended, when a parked job is checked again, and whether a due job was already promoted;
//! - the order within the lines of flow keys, which is computed again from the jobs;
//! - old figures and unused flow scopes, which maintenance had deleted and deletes again.

use std::collections::VecDeque;
use std::time::Duration;

use super::error::{commit_error, store_error};
use super::journal;
use super::rows::{LockMode, PgRows};
use super::wall::Reach;
use super::{PostgresStore, READ_COMMITTED, REBUILD_LOCK, Tx};
use crate::error::StoreError;
use crate::store::{ArchivedRows, Journaled, Positions};
use crate::transaction;
use crate::transaction::rows::Rows;

/// The rows of the journal that one statement reads.
const JOURNAL_PAGE: usize = 200;
/// How long to wait for running writers to end.
const WRITERS_TIMEOUT: Duration = Duration::from_secs(60);

impl PostgresStore {
    pub(super) async fn rebuild_tables(&self, mut archived: ArchivedRows) -> Result<u64, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::All).await?.unbounded();
        sqlx::query("SELECT set_config('lock_timeout', $1, true), pg_advisory_xact_lock($2)")
            .bind(format!("{}ms", WRITERS_TIMEOUT.as_millis()))
            .bind(REBUILD_LOCK)
            .execute(tx.conn())
            .await
            .map_err(store_error)?;
        // All writers have ended, so this assigns the last positions. It uses another connection, because within this transaction
        // readers of the journal would have to wait for its end.
        let mut side = self.side_pool.acquire().await.map_err(store_error)?;
        self.assign_positions(&mut side.conn()).await?;
        drop(side);
        sqlx::raw_sql(
            "TRUNCATE bursar.keys, bursar.job_keys, bursar.jobs, bursar.ended_jobs, bursar.queues, bursar.schedules,
                 bursar.tallies, bursar.costs, bursar.held, bursar.dead_groups, bursar.holds, bursar.grants,
                 bursar.scopes, bursar.blobs, bursar.blob_digests, bursar.namespaces, bursar.live_charges, bursar.postings, bursar.rollups",
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        self.scope_cache.clear();
        let mut positions = Positions::new();
        while let Some(rows) = archived.next().await? {
            let mut rows = VecDeque::from(rows);
            while !rows.is_empty() {
                // One page at a time, because the payloads of many rows may not fit in memory.
                let part = rows.iter().take(JOURNAL_PAGE).cloned().collect();
                let page = journal::unarchived(&mut tx.conn(), part, JOURNAL_PAGE, false).await?;
                rows.drain(..page.len());
                self.replay(&mut tx, &page, &mut positions).await?;
            }
        }
        // A row is archived only when its idempotency keys are gone.
        sqlx::query("DELETE FROM bursar.keys").execute(tx.conn()).await.map_err(store_error)?;
        loop {
            let page = journal::page(&mut tx.conn(), positions.next() - 1, JOURNAL_PAGE, false).await?;
            if page.is_empty() {
                break;
            }
            self.replay(&mut tx, &page, &mut positions).await?;
        }
        self.rebuild_lines(&mut tx.conn()).await?;
        tx.commit().await.map_err(commit_error)?;
        // Entries that were cached before the commit may be outdated.
        self.scope_cache.clear();
        Ok(positions.next() - 1)
    }

    async fn replay(&self, tx: &mut Tx, page: &[Journaled], positions: &mut Positions) -> Result<(), StoreError> {
        for row in page {
            if !positions.add(row.position, row.batch.count())? {
                continue;
            }
            let mut rows = PgRows::new(tx.conn(), self, LockMode::Exclusive);
            let ws = transaction::replay(&mut rows, &row.batch).await?;
            if !rows.store(&ws, None).await? {
                let problem = format!("{} uses an idempotency key that an earlier row uses", row.batch.id);
                return Err(StoreError::corrupt("journal row", problem));
            }
        }
        Ok(())
    }
}
