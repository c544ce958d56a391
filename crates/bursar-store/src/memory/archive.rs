//! [`Archive`] on the maps.

use std::sync::PoisonError;

use async_trait::async_trait;
use bursar_core::id::{BatchId, GrantId, JobId};
use bursar_core::mutant::Mutant;
use bursar_core::page;
use bursar_core::payload::Payload;
use bursar_core::time::Time;

use super::{MemoryStore, Tables};
use crate::codec::to_json;
use crate::error::StoreError;
use crate::segment::{ArchivedRow, Segment};
use crate::store::{Archive, ArchivedRows, Journaled, Positions, follows, prunable};

impl Tables {
    /// Lists rows after a position that may be archived.
    fn archivable(&self, after: u64, before: Time, bytes: usize) -> Vec<ArchivedRow> {
        let (mut found, mut size) = (Vec::new(), 0);
        let rows = self.journal.rows();
        for row in rows.iter().take(rows.len().saturating_sub(1)).filter(|row| row.position > after) {
            let answers_key = |(tenant, key)| self.keys.get(&(tenant, key)).is_some_and(|of| of.batch == row.batch.id);
            let mut keys = row
                .batch
                .entries
                .iter()
                .filter_map(|entry| Some((entry.context.tenant.clone(), entry.key.as_ref()?.key.clone())));
            let needed = !Mutant::ArchiveAnswers.on() && keys.any(answers_key);
            if row.batch.at >= before || needed || size >= bytes {
                break;
            }
            let archived = ArchivedRow {
                position: row.position,
                id: row.batch.id,
                at: row.batch.at,
                count: u32::try_from(row.batch.count()).unwrap_or(u32::MAX),
                prev: to_json(&row.batch.prev),
                entries: to_json(&row.batch.entries),
            };
            size += archived.bytes();
            found.push(archived);
        }
        found
    }

    fn read_archived(&self, row: &ArchivedRow) -> Result<Journaled, StoreError> {
        Ok(self.journaled(&stored(row)?))
    }
}

/// Returns a row as the table had it.
fn stored(row: &ArchivedRow) -> Result<Journaled, StoreError> {
    Ok(Journaled { position: row.position, batch: row.batch()? })
}

#[async_trait]
impl Archive for MemoryStore {
    async fn database_id(&self) -> Result<u128, StoreError> {
        let mut tables = self.tables();
        let new = || self.setup.ids.lock().unwrap_or_else(PoisonError::into_inner).next_id(self.clock.now());
        Ok(*tables.database.get_or_insert_with(new))
    }

    async fn archivable(&self, after: u64, before: Time, bytes: usize) -> Result<Vec<ArchivedRow>, StoreError> {
        Ok(self.tables().archivable(after, before, bytes))
    }

    async fn keep_payloads(&self, rows: &[ArchivedRow], payloads: &[(u128, Payload)]) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let unchanged = |row: &ArchivedRow| {
            tables.journal.get(row.id).is_some_and(|stored| to_json(&stored.batch.entries) == row.entries)
        };
        if !rows.iter().all(unchanged) {
            return Ok(false);
        }
        for (key, payload) in payloads {
            let owner = JobId::of_payload_key(*key);
            if tables.jobs.contains_key(&owner) || tables.grants.contains_key(&GrantId(*key)) {
                tables.payloads.entry(*key).or_insert_with(|| payload.clone());
            }
        }
        Ok(true)
    }

    async fn record_segment(&self, segment: &Segment) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let is_next = follows(segment, tables.segments.last());
        if is_next {
            tables.segments.push(segment.clone());
        }
        Ok(is_next)
    }

    async fn prune_journal(&self, limit: usize) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let until = prunable(tables.segments.last().map(|segment| segment.last));
        Ok(tables.journal.prune(until, limit))
    }

    async fn restore_segment(&self, segment: &Segment, rows: Vec<ArchivedRow>) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        if tables.segments.last() != Some(segment) {
            return Ok(false);
        }
        let rows = rows.iter().map(stored).collect::<Result<Vec<_>, _>>()?;
        tables.journal.restore(rows);
        tables.segments.pop();
        Ok(true)
    }

    async fn list_segments(&self, after: u64, limit: usize) -> Result<Vec<Segment>, StoreError> {
        let tables = self.tables();
        Ok(tables.segments.iter().filter(|segment| segment.last > after).take(limit).cloned().collect())
    }

    async fn last_segment(&self) -> Result<Option<Segment>, StoreError> {
        Ok(self.tables().segments.last().cloned())
    }

    async fn segments_with(&self, id: BatchId) -> Result<Vec<Segment>, StoreError> {
        let has = |segment: &&Segment| segment.ids.0 <= id && id <= segment.ids.1;
        Ok(self.tables().segments.iter().filter(has).cloned().collect())
    }

    async fn read_archived(&self, rows: Vec<ArchivedRow>, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let tables = self.tables();
        let rows = rows.iter().map(|row| tables.read_archived(row)).collect::<Result<Vec<_>, _>>()?;
        Ok(page::cut(rows, limit))
    }

    async fn rebuild_from(&self, mut archived: ArchivedRows) -> Result<u64, StoreError> {
        let mut rows = Vec::new();
        while let Some(part) = archived.next().await? {
            rows.extend(part);
        }
        let mut tables = self.tables();
        let (mut rebuilt, mut positions) = (tables.before_replay(), Positions::new());
        for row in &rows {
            let row = tables.read_archived(row)?;
            if positions.add(row.position, row.batch.count())? {
                rebuilt.replay(&row.batch)?;
            }
        }
        // A row is archived only when its idempotency keys are gone.
        rebuilt.keys.clear();
        for row in tables.journal.rows() {
            if positions.add(row.position, row.batch.count())? {
                rebuilt.replay(&row.batch)?;
            }
        }
        rebuilt.rebuild_lines();
        *tables = rebuilt;
        Ok(positions.next() - 1)
    }
}
