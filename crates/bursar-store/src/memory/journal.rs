//! The journal of the in-memory tables.

use std::collections::HashMap;
use std::sync::Arc;

use bursar_core::event::{Batch, Entry, Stream};
use bursar_core::id::BatchId;
use bursar_core::time::Time;

use crate::store::Journaled;

/// The batches in the order of their commits, with look-up by id and by position.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    rows: Vec<Journaled>,
    /// Indexes into `rows`.
    by_id: HashMap<BatchId, usize>,
    newest: Option<Time>,
}

impl Journal {
    /// Appends a batch. Its position follows the last event of the batch before.
    pub fn push(&mut self, batch: Batch) {
        self.newest = self.newest.max(Some(batch.at));
        self.by_id.insert(batch.id, self.rows.len());
        self.rows.push(Journaled { position: self.next_position(), batch });
    }

    /// Returns the rows in the order of commits.
    pub fn rows(&self) -> &[Journaled] {
        &self.rows
    }

    /// Returns the row of a batch.
    pub fn get(&self, id: BatchId) -> Option<&Journaled> {
        self.rows.get(*self.by_id.get(&id)?)
    }

    /// Returns the rows with an event after a position, which may lie within the events of a batch.
    pub fn after(&self, position: u64) -> &[Journaled] {
        &self.rows[self.rows.partition_point(|row| end(row) <= position.saturating_add(1))..]
    }

    /// Overwrites the payloads of jobs and grants in a row. Returns whether there are any.
    pub(super) fn erase(&mut self, row: BatchId, of: &[Stream]) -> bool {
        let Some(row) = self.by_id.get(&row).map(|index| &mut self.rows[*index]) else { return false };
        let mut entries: Vec<Entry> = row.batch.entries.iter().map(|entry| (**entry).clone()).collect();
        let erased = Entry::erase(&mut entries, of);
        row.batch.entries = entries.into_iter().map(Arc::new).collect();
        erased
    }

    /// Deletes at most `limit` rows up to a position, the oldest first, but never the last row. Returns how many it deleted.
    pub(super) fn prune(&mut self, until: u64, limit: usize) -> usize {
        let old = self.rows.partition_point(|row| row.position <= until);
        let count = old.min(limit).min(self.rows.len().saturating_sub(1));
        self.rows.drain(..count);
        self.index();
        count
    }

    /// Puts rows before the first one back. Rows that were not deleted stay as they are.
    pub(super) fn restore(&mut self, mut rows: Vec<Journaled>) {
        let first = self.rows.first().map_or(u64::MAX, |row| row.position);
        rows.retain(|row| row.position < first);
        self.rows.splice(..0, rows);
        self.index();
    }

    fn index(&mut self) {
        self.by_id = self.rows.iter().enumerate().map(|(index, row)| (row.batch.id, index)).collect();
    }

    /// Returns the position of the next event.
    pub fn next_position(&self) -> u64 {
        self.rows.last().map_or(1, end)
    }

    /// Returns the latest time of a batch. Nodes whose clocks differ may commit batches out of the order of time.
    pub fn newest(&self) -> Option<Time> {
        self.newest
    }
}

/// Returns the position after the last event of a row.
fn end(row: &Journaled) -> u64 {
    row.position + row.batch.count() as u64
}
