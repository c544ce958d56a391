//! Archiving the journal: which rows may leave the table, which segments have them, and how they are read again.

use async_trait::async_trait;
use bursar_core::event::Entry;
use bursar_core::id::BatchId;
use bursar_core::mutant::Mutant;
use bursar_core::name::{IdempotencyKey, Tenant};
use bursar_core::payload::Payload;
use bursar_core::time::Time;
use tokio::sync::mpsc;

use super::Journaled;
use crate::codec::{from_json, to_json};
use crate::error::StoreError;
use crate::segment::{ArchivedRow, NO_SEGMENT, Segment};

/// The part of a store that archives its journal. It writes no files: the caller does, between the steps.
///
/// A row leaves the table in steps, and a process may end between any two: its payloads are kept apart from the journal, a segment with
/// the row is written, the segment is recorded in the database, and rows that a recorded segment has are deleted, the oldest first. The last row of the journal never
/// leaves: the next position and the time of the database follow from it.
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// Returns the identity of the database, which its segments name. It is created when it is first needed.
    async fn database_id(&self) -> Result<u128, StoreError>;
    /// Lists rows after a position that may be archived, in order and without gaps. The list ends before the first row that is not older
    /// than `before`, before the first one whose idempotency key is still kept, and at the row with which it has `bytes`.
    async fn archivable(&self, after: u64, before: Time, bytes: usize) -> Result<Vec<ArchivedRow>, StoreError>;
    /// Stores payloads that were taken out of these rows apart from the journal, except those whose job or grant is gone. Returns false, with
    /// nothing stored, if a row has changed since it was listed: a payload was erased.
    async fn keep_payloads(&self, rows: &[ArchivedRow], payloads: &[(u128, Payload)]) -> Result<bool, StoreError>;
    /// Records a segment if it follows the last recorded one, and returns whether it did. A segment that does not was overtaken by
    /// another process.
    async fn record_segment(&self, segment: &Segment) -> Result<bool, StoreError>;
    /// Deletes at most `limit` rows of the journal that recorded segments have, the oldest first, and returns how many.
    async fn prune_journal(&self, limit: usize) -> Result<usize, StoreError>;
    /// Puts the rows of the last recorded segment back into the table and forgets the segment. Returns false, with nothing changed, if
    /// another segment is the last one. `rows` are all rows of the segment; those that were not deleted yet stay as they are.
    async fn restore_segment(&self, segment: &Segment, rows: Vec<ArchivedRow>) -> Result<bool, StoreError>;

    /// Lists recorded segments that end after a position, in order.
    async fn list_segments(&self, after: u64, limit: usize) -> Result<Vec<Segment>, StoreError>;
    /// Returns the last recorded segment.
    async fn last_segment(&self) -> Result<Option<Segment>, StoreError>;
    /// Lists the segments that may have a transaction, the most likely first.
    async fn segments_with(&self, id: BatchId) -> Result<Vec<Segment>, StoreError>;
    /// Decodes rows of a segment, with their payloads from the database, up to the end of one page.
    async fn read_archived(&self, rows: Vec<ArchivedRow>, limit: usize) -> Result<Vec<Journaled>, StoreError>;
    /// Rebuilds every table but the journal and the payloads: from the archived rows, and then from the rows in the table. Returns the
    /// number of events it applied. Fails, with nothing changed, if positions are missing.
    async fn rebuild_from(&self, archived: ArchivedRows) -> Result<u64, StoreError>;
}

/// The most segments that [`Archive::segments_with`] returns.
pub(crate) const CANDIDATES_MAX: usize = 8;

/// Archived rows in order, which a task sends while they are applied: the archive is larger than the memory.
pub struct ArchivedRows(mpsc::Receiver<Result<Vec<ArchivedRow>, StoreError>>);

/// Sends archived rows. Dropping it without [`ArchivedSender::send`] of an error ends them.
pub struct ArchivedSender(mpsc::Sender<Result<Vec<ArchivedRow>, StoreError>>);

impl ArchivedRows {
    /// Returns both ends of a channel.
    pub fn channel() -> (ArchivedSender, ArchivedRows) {
        let (sender, receiver) = mpsc::channel(1);
        (ArchivedSender(sender), ArchivedRows(receiver))
    }

    /// Returns no rows.
    pub fn none() -> ArchivedRows {
        ArchivedRows::channel().1
    }

    /// Returns the next rows; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ArchivedRow>>, StoreError> {
        self.0.recv().await.transpose()
    }

    /// Returns the next rows, from a thread without a runtime.
    pub(crate) fn blocking_next(&mut self) -> Result<Option<Vec<ArchivedRow>>, StoreError> {
        self.0.blocking_recv().transpose()
    }
}

impl ArchivedSender {
    /// Sends rows or an error. Returns false if they are no longer wanted.
    pub async fn send(&self, rows: Result<Vec<ArchivedRow>, StoreError>) -> bool {
        self.0.send(rows).await.is_ok()
    }
}

/// Checks that the rows of a rebuild have no gaps.
pub(crate) struct Positions {
    next: u64,
}

impl Positions {
    pub(crate) fn new() -> Positions {
        Positions { next: 1 }
    }

    /// Returns the position after the last row.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds a row; returns false if it was added already, because rows may be in a segment and still in the table.
    pub(crate) fn add(&mut self, position: u64, count: usize) -> Result<bool, StoreError> {
        if position < self.next && position + count as u64 <= self.next {
            return Ok(false);
        }
        if position < self.next {
            return Err(StoreError::corrupt(
                "journal row",
                format!("the row at position {position} overlaps another one"),
            ));
        }
        if position > self.next {
            return Err(missing(self.next, position));
        }
        self.next = position + count as u64;
        Ok(true)
    }
}

/// The error for positions that are not in the journal and whose archive was not passed.
pub(crate) fn missing(from: u64, until: u64) -> StoreError {
    StoreError::Unavailable {
        what: format!("the journal has no positions from {from} to {}: they are archived or lost", until - 1),
        hint: "nothing was changed; set `journal.archive` to where the archive is, and retry",
        permanent: true,
        source: None,
    }
}

/// Returns the idempotency keys that a row has recorded.
pub(crate) fn keys_of(row: &ArchivedRow) -> Result<Vec<(Tenant, IdempotencyKey)>, StoreError> {
    if Mutant::ArchiveAnswers.on() {
        return Ok(Vec::new());
    }
    let entries: Vec<Entry> = from_json("journal row", &row.entries)?;
    let keys = entries.into_iter().filter_map(|entry| Some((entry.context.tenant, entry.key?.key)));
    Ok(keys.collect())
}

/// Rows without their payloads, and the payloads, each with its key.
pub type Detached = (Vec<ArchivedRow>, Vec<(u128, Payload)>);

/// Takes the payloads out of rows. Returns the rows without them, and the payloads with their keys.
pub fn without_payloads(rows: &[ArchivedRow]) -> Result<Detached, StoreError> {
    let (mut without, mut payloads) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let mut batch = row.batch()?;
        let found = batch.detach_all_payloads();
        let entries = if found.is_empty() { row.entries.clone() } else { to_json(&batch.entries) };
        without.push(ArchivedRow { entries, prev: row.prev.clone(), ..*row });
        payloads.extend(found);
    }
    Ok((without, payloads))
}

/// Returns whether a segment follows the last recorded one.
pub(crate) fn follows(segment: &Segment, last: Option<&Segment>) -> bool {
    let end = last.map_or((1, NO_SEGMENT), |last| (last.last + 1, last.digest));
    (segment.first, segment.previous) == end || Mutant::BreakChain.on()
}

/// Returns the last position that may be deleted, from that of the last recorded segment.
pub(crate) fn prunable(last: Option<u64>) -> u64 {
    last.unwrap_or(0) + if Mutant::PruneUnarchived.on() { 8 } else { 0 }
}
