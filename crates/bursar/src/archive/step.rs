//! The steps of archiving. A process may end between any two, and several processes may take them at the same time.
//!
//! 1. Choose rows after the last recorded segment that are old enough and that nothing needs in the table ([`Archive::archivable`]).
//! 2. Take the payloads out of them, and keep those of jobs and grants that still exist apart from the journal ([`Archive::keep_payloads`]).
//!    So no payload is in the archive, where it could not be erased.
//! 3. Write them as a segment, read it back, and check that it decodes to the same rows. A crash from here on leaves a file that no row
//!    names; the next attempt writes one of its own, because the name contains the digest.
//! 4. Record the segment, if it still follows the last recorded one. Another process may have been faster; then nothing happens.
//! 5. Delete rows that recorded segments have, the oldest first, in bounded steps. Until then the rows are in both places.
//!
//! [`Archive::archivable`]: bursar_store::Archive::archivable
//! [`Archive::keep_payloads`]: bursar_store::Archive::keep_payloads

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bursar_core::bounds::SEGMENT_BYTES;
use bursar_core::time::{Span, Time};
use bursar_store::segment::{self, NO_SEGMENT, Segment};
use bursar_store::{ArchivedRow, Store, StoreError, without_payloads};

use super::{ArchiveOptions, bad_segment, unreachable};

/// The rows that one transaction deletes.
const PRUNE_ROWS: usize = 500;
/// The most transactions that delete rows in one round of maintenance.
const PRUNE_STEPS: usize = 20;
/// How much longer than asked rows may stay in the table so that a segment becomes full.
const WAIT_MAX: Span = Span::from_days(1);

/// What was archived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// The segments that were recorded.
    pub segments: Vec<Segment>,
    /// The rows that were deleted from the table.
    pub deleted: u64,
}

/// What this process has archived since the instance was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveCounts {
    /// The last archived position that this process knows.
    pub position: u64,
    /// The segments that it has recorded.
    pub segments: u64,
    /// The bytes of these segments.
    pub bytes: u64,
    /// The rounds of maintenance that failed.
    pub failures: u64,
}

/// Counts what was archived.
#[derive(Debug, Default)]
pub(crate) struct ArchiveCounters {
    position: AtomicU64,
    segments: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
}

impl ArchiveCounters {
    pub(crate) fn get(&self) -> ArchiveCounts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ArchiveCounts {
            position: get(&self.position),
            segments: get(&self.segments),
            bytes: get(&self.bytes),
            failures: get(&self.failures),
        }
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn knows(&self, position: u64) {
        self.position.fetch_max(position, Ordering::Relaxed);
    }

    /// Notes the end of the last segment. It is before an earlier one if rows were put back into the table.
    fn last(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    fn recorded(&self, segment: &Segment) {
        self.segments.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(segment.bytes, Ordering::Relaxed);
        self.knows(segment.last);
    }
}

/// Which rows are archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// All that are old enough.
    All,
    /// Those that fill a segment, or that have waited for one long enough.
    Full,
}

/// Does a round of maintenance: deletes what is archived already, and archives at most one segment.
pub(crate) async fn step(
    store: &Arc<dyn Store>,
    options: &ArchiveOptions,
    counters: &ArchiveCounters,
) -> Result<Archived, StoreError> {
    let mut deleted = prune(store, PRUNE_STEPS).await?;
    let segments: Vec<Segment> = archive_next(store, options, counters, Fill::Full).await?.into_iter().collect();
    if !segments.is_empty() {
        deleted += prune(store, PRUNE_STEPS).await?;
    }
    Ok(Archived { segments, deleted })
}

/// Archives everything that is old enough.
pub(crate) async fn step_all(
    store: &Arc<dyn Store>,
    options: &ArchiveOptions,
    counters: &ArchiveCounters,
) -> Result<Archived, StoreError> {
    let mut done = Archived { segments: Vec::new(), deleted: prune(store, usize::MAX).await? };
    while let Some(segment) = archive_next(store, options, counters, Fill::All).await? {
        done.segments.push(segment);
        done.deleted += prune(store, usize::MAX).await?;
    }
    Ok(done)
}

/// Writes and records the next segment. Returns `None` if there is none, or another process was faster.
async fn archive_next(
    store: &Arc<dyn Store>,
    options: &ArchiveOptions,
    counters: &ArchiveCounters,
    fill: Fill,
) -> Result<Option<Segment>, StoreError> {
    let Some(segment) = prepare(store, options, counters, fill).await? else { return Ok(None) };
    if !store.record_segment(&segment).await? {
        return Ok(None);
    }
    counters.recorded(&segment);
    Ok(Some(segment))
}

/// Returns the positions of the rows that the next segment would have, and their bytes.
pub(crate) async fn preview(
    store: &Arc<dyn Store>,
    options: &ArchiveOptions,
) -> Result<Option<(u64, u64, u64)>, StoreError> {
    let DueRows { rows, .. } = due_rows(store, options).await?;
    let bytes = rows.iter().map(|row| row.bytes() as u64).sum();
    Ok(rows.first().zip(rows.last()).map(|(first, last)| (first.position, last.last(), bytes)))
}

/// The rows of the next segment.
struct DueRows {
    /// The segment before it.
    last: Option<Segment>,
    /// Rows from before this time are old enough.
    old: Time,
    rows: Vec<ArchivedRow>,
}

async fn due_rows(store: &Arc<dyn Store>, options: &ArchiveOptions) -> Result<DueRows, StoreError> {
    let last = store.last_segment().await?;
    let old = store.now().await?.before(options.age());
    let rows = store.archivable(last.as_ref().map_or(0, |last| last.last), old, SEGMENT_BYTES).await?;
    Ok(DueRows { last, old, rows })
}

/// Writes the next segment and reads it back. Nothing refers to it until it is recorded.
async fn prepare(
    store: &Arc<dyn Store>,
    options: &ArchiveOptions,
    counters: &ArchiveCounters,
    fill: Fill,
) -> Result<Option<Segment>, StoreError> {
    let DueRows { last, old, rows } = due_rows(store, options).await?;
    counters.last(last.as_ref().map_or(0, |last| last.last));
    let previous = last.map_or(NO_SEGMENT, |last| last.digest);
    let waited: Time = old.before(options.age().min(WAIT_MAX));
    let is_full = rows.iter().map(|row| row.bytes()).sum::<usize>() >= SEGMENT_BYTES;
    if !rows.first().is_some_and(|oldest| fill == Fill::All || is_full || oldest.at < waited) {
        return Ok(None);
    }
    let Some(rows) = detach_payloads(store, rows).await? else { return Ok(None) };
    let database = store.database_id().await?;
    let place = &options.place;
    // Compressing takes about a second, which is too long for a thread that runs other tasks.
    let encode = move || (segment::encode(database, previous, &rows), rows);
    let (encoded, rows) = tokio::task::spawn_blocking(encode).await.map_err(|_| StoreError::Closed)?;
    let segment = encoded.segment;
    let name = segment.name();
    let failed = |error| unreachable(&name, &**place, error);
    place.put(&name, encoded.bytes).await.map_err(failed)?;
    let stored = place.read(&name, 0..segment.bytes + 1).await.map_err(failed)?;
    let checked = tokio::task::spawn_blocking(move || {
        let (_, digest, read) = segment::check(&stored)?;
        Ok((digest, read == rows))
    });
    match checked.await.map_err(|_| StoreError::Closed)? {
        Ok((digest, true)) if digest == segment.digest => Ok(Some(segment)),
        Ok(_) => Err(unreachable(&name, &**place, std::io::Error::other("it reads back with other contents"))),
        Err(error) => Err(bad_segment(&name, &**place, &error)),
    }
}

/// Returns the rows without their payloads, which are kept apart. Returns `None` if a payload was erased meanwhile.
async fn detach_payloads(
    store: &Arc<dyn Store>,
    rows: Vec<ArchivedRow>,
) -> Result<Option<Vec<ArchivedRow>>, StoreError> {
    let detach = move || without_payloads(&rows).map(|(without, payloads)| (rows, without, payloads));
    let (rows, without, payloads) = tokio::task::spawn_blocking(detach).await.map_err(|_| StoreError::Closed)??;
    let kept = payloads.is_empty() || store.keep_payloads(&rows, &payloads).await?;
    Ok(kept.then_some(without))
}

/// Deletes rows that recorded segments have, in at most this many transactions.
async fn prune(store: &Arc<dyn Store>, steps: usize) -> Result<u64, StoreError> {
    let mut deleted = 0;
    for _ in 0..steps {
        let count = store.prune_journal(PRUNE_ROWS).await?;
        deleted += count as u64;
        if count < PRUNE_ROWS {
            break;
        }
    }
    Ok(deleted)
}
