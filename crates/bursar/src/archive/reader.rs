//! Reading the journal, whether a row is in the table or in a segment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_core::blob::Sha256Digest;
use bursar_core::id::BatchId;
use bursar_store::segment::{self, Head, decode_block};
use bursar_store::{ArchivedRow, ArchivedRows, ArchivedSender, Journaled, Segment, SegmentError, Store, StoreError};
use tokio::task::JoinHandle;

use super::{
    ArchiveCounters, ArchiveOptions, ArchivePlace, ArchiveStatus, PROBE, bad_segment, not_configured, not_writable,
    unreachable,
};

/// The heads that are kept. A head has some kilobytes.
const HEADS_KEPT: usize = 64;
/// The decoded blocks that are kept.
const BLOCKS_KEPT: usize = 8;
/// How often rows are looked for in the table and in segments, while they are moved between the two.
const LOOKS_MAX: u32 = 4;
/// The segments that one query lists.
const SEGMENTS_PAGE: usize = 1_000;

/// The digest of a segment, the index of a block in it, and the rows of the block. Rows that were put back into the table may be in
/// another segment later, which then begins at the same position.
type CachedBlock = (Sha256Digest, usize, Arc<Vec<ArchivedRow>>);

/// Reads the journal. Every reader of the journal outside of the store uses it, so that archived rows are read from their segments, and
/// a row that cannot be read is an error and never a gap.
pub(crate) struct JournalReader {
    store: Arc<dyn Store>,
    options: Option<ArchiveOptions>,
    counters: ArchiveCounters,
    heads: Mutex<VecDeque<(Sha256Digest, Arc<Head>)>>,
    blocks: Mutex<VecDeque<CachedBlock>>,
}

impl JournalReader {
    pub(crate) fn new(store: Arc<dyn Store>, options: Option<ArchiveOptions>) -> JournalReader {
        let (counters, heads, blocks) = (ArchiveCounters::default(), Mutex::default(), Mutex::default());
        JournalReader { store, options, counters, heads, blocks }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn options(&self) -> Option<&ArchiveOptions> {
        self.options.as_ref()
    }

    pub(crate) fn counters(&self) -> &ArchiveCounters {
        &self.counters
    }

    /// Lists at most `limit` rows of the journal after a position, in order and without gaps. A page of archived rows may be shorter
    /// before the end, but is not empty.
    pub(crate) async fn list(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let mut page = self.store.list_journal(after, limit).await?;
        let mut looks = LOOKS_MAX;
        // The last row is never archived, so a page that begins later shows that the rows before it are.
        while let Some(until) = begins_later(&page, after) {
            if let Some(archived) = self.list_archived(after, limit).await? {
                return Ok(archived);
            }
            looks -= 1;
            if looks == 0 {
                return Err(gap(after + 1, until));
            }
            // The segment may have been put back into the table meanwhile, and archived again before the next look.
            page = self.store.list_journal(after, limit).await?;
        }
        for (one, next) in page.iter().zip(page.iter().skip(1)) {
            let end = one.position + one.batch.count() as u64;
            if next.position != end {
                return Err(gap(end, next.position));
            }
        }
        Ok(page)
    }

    /// Returns one row of the journal.
    pub(crate) async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        if let Some(found) = self.store.batch(id).await? {
            return Ok(Some(found));
        }
        for segment in self.store.segments_with(id).await? {
            let head = self.head(&segment).await?;
            for index in head.blocks_with(id) {
                let rows = self.block(&segment, &head, index).await?;
                if let Some(row) = rows.iter().find(|row| row.id == id) {
                    return Ok(self.store.read_archived(vec![row.clone()], 1).await?.pop());
                }
            }
        }
        // The row may have been put back into the table meanwhile.
        self.store.batch(id).await
    }

    /// Lists rows after a position from the segment that has them; `None` if no segment has.
    async fn list_archived(&self, after: u64, limit: usize) -> Result<Option<Vec<Journaled>>, StoreError> {
        let wanted = after + 1;
        let found = self.store.list_segments(after, 1).await?.pop();
        let Some(segment) = found.filter(|segment| segment.first <= wanted) else { return Ok(None) };
        self.counters.knows(segment.last);
        let head = self.head(&segment).await?;
        let rows = self.block(&segment, &head, head.block_of(wanted)).await?;
        let rows: Vec<ArchivedRow> = rows.iter().filter(|row| row.last() >= wanted).take(limit).cloned().collect();
        self.store.read_archived(rows, limit).await.map(Some)
    }

    fn place(&self, segment: &Segment) -> Result<&dyn ArchivePlace, StoreError> {
        self.options.as_ref().map(|options| &*options.place).ok_or_else(|| not_configured(segment))
    }

    async fn head(&self, segment: &Segment) -> Result<Arc<Head>, StoreError> {
        let kept = lock(&self.heads).iter().find(|(digest, _)| *digest == segment.digest).map(|(_, head)| head.clone());
        if let Some(head) = kept {
            return Ok(head);
        }
        let head = Arc::new(self.read_head(segment).await?);
        keep(&self.heads, HEADS_KEPT, (segment.digest, head.clone()));
        Ok(head)
    }

    /// Reads the head of a segment from the archive, and checks it.
    async fn read_head(&self, segment: &Segment) -> Result<Head, StoreError> {
        let (place, name) = (self.place(segment)?, segment.name());
        let read = place.read(&name, 0..segment.head_bytes).await.map_err(|error| unreachable(&name, place, error))?;
        match Head::read(&read) {
            Ok((head, digest)) if digest == segment.digest => Ok(head),
            Ok((_, found)) => {
                let error = SegmentError::WrongDigest { expected: segment.digest, found };
                Err(bad_segment(&name, place, &error))
            }
            Err(error) => Err(bad_segment(&name, place, &error)),
        }
    }

    async fn block(&self, segment: &Segment, head: &Head, index: usize) -> Result<Arc<Vec<ArchivedRow>>, StoreError> {
        let is_wanted = |(digest, at, _): &&CachedBlock| (*digest, *at) == (segment.digest, index);
        let kept = lock(&self.blocks).iter().find(is_wanted).map(|(_, _, rows)| rows.clone());
        if let Some(rows) = kept {
            return Ok(rows);
        }
        let (place, name) = (self.place(segment)?, segment.name());
        let range = head.range_of(index, segment.head_bytes);
        let read = place.read(&name, range).await.map_err(|error| unreachable(&name, place, error))?;
        let rows = decode_block(head, index, &read).map_err(|error| bad_segment(&name, place, &error))?;
        let rows = Arc::new(rows);
        keep(&self.blocks, BLOCKS_KEPT, (segment.digest, index, rows.clone()));
        Ok(rows)
    }

    /// Rebuilds every table but the journal and the payloads, from the archive and the journal.
    pub(crate) async fn rebuild(&self) -> Result<u64, StoreError> {
        let (rows, _feeding) = feed(self.segments().await?, self.options.as_ref())?;
        self.store.rebuild_from(rows).await
    }

    /// Fails if the archive cannot be written, or the last segment is not there.
    pub(crate) async fn reach(&self) -> Result<(), StoreError> {
        if let Some(last) = self.store.last_segment().await? {
            self.read_head(&last).await?;
        }
        if let Some(ArchiveOptions { place, .. }) = &self.options {
            let bytes = b"Written by `bursar doctor` to see whether this archive can be written.\n".to_vec();
            place.put(PROBE, bytes).await.map_err(|error| not_writable(&**place, error))?;
        }
        Ok(())
    }

    /// Returns the state of the archive.
    pub(crate) async fn status(&self) -> Result<ArchiveStatus, StoreError> {
        let last = self.store.last_segment().await?;
        let (after, now) = (last.as_ref().map_or(0, |last| last.last), self.store.now().await?);
        let mut overdue = None;
        if let Some(options) = &self.options
            && let Some(oldest) = self.store.archivable(after, now.before(options.age()), 1).await?.pop()
        {
            // The last row of the journal stays. So a row may be old already when the next one lets it go.
            let next = self.store.list_journal(oldest.last(), 1).await?.pop();
            let due = oldest.at.after(options.age()).max(next.map_or(oldest.at, |next| next.batch.at));
            overdue = Some(now.since(due));
        }
        let place = self.options.as_ref().map(|options| options.place.describe());
        let position = self.store.health().await?.position;
        Ok(ArchiveStatus { place, last, position, overdue })
    }

    /// Returns all segments.
    pub(crate) async fn segments(&self) -> Result<Vec<Segment>, StoreError> {
        let mut segments: Vec<Segment> = Vec::new();
        loop {
            let after = segments.last().map_or(0, |last| last.last);
            let page = self.store.list_segments(after, SEGMENTS_PAGE).await?;
            let is_last = page.len() < SEGMENTS_PAGE;
            segments.extend(page);
            if is_last {
                return Ok(segments);
            }
        }
    }
}

/// A task that ends when this is dropped.
pub(crate) struct Feeding(Option<JoinHandle<()>>);

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Starts a task that reads the rows of segments for a rebuild, one segment at a time.
pub(crate) fn feed(
    segments: Vec<Segment>,
    options: Option<&ArchiveOptions>,
) -> Result<(ArchivedRows, Feeding), StoreError> {
    let Some(first) = segments.first() else { return Ok((ArchivedRows::none(), Feeding(None))) };
    let place = options.ok_or_else(|| not_configured(first))?.place.clone();
    let (sender, rows) = ArchivedRows::channel();
    let task = tokio::spawn(async move { send_all(&segments, &*place, &sender).await });
    Ok((rows, Feeding(Some(task))))
}

/// Sends the rows of all segments, each of which is checked before.
async fn send_all(segments: &[Segment], place: &dyn ArchivePlace, sender: &ArchivedSender) {
    for segment in segments {
        let rows = read_whole(segment, place).await.map(|(_, rows)| rows);
        let failed = rows.is_err();
        if !sender.send(rows).await || failed {
            return;
        }
    }
}

/// Reads a whole segment, and checks every byte of it.
pub(super) async fn read_whole(
    segment: &Segment,
    place: &dyn ArchivePlace,
) -> Result<(Head, Vec<ArchivedRow>), StoreError> {
    let name = segment.name();
    // One byte more shows a file that is too long.
    let read = place.read(&name, 0..segment.bytes + 1).await.map_err(|error| unreachable(&name, place, error))?;
    let checked = tokio::task::spawn_blocking(move || segment::check(&read));
    match checked.await.map_err(|_| StoreError::Closed)? {
        Ok((head, digest, rows)) if digest == segment.digest => Ok((head, rows)),
        Ok((_, found, _)) => {
            Err(bad_segment(&name, place, &SegmentError::WrongDigest { expected: segment.digest, found }))
        }
        Err(error) => Err(bad_segment(&name, place, &error)),
    }
}

/// Returns the first position of a page, if it is not the one after `after`.
fn begins_later(page: &[Journaled], after: u64) -> Option<u64> {
    page.first().map(|first| first.position).filter(|first| *first > after.saturating_add(1))
}

/// The error for positions that are neither in the table nor in a segment.
pub(super) fn gap(from: u64, until: u64) -> StoreError {
    StoreError::Corrupt {
        what: "journal",
        problem: format!("positions {from} to {} are neither in the table nor in a recorded segment", until - 1),
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an item, and forgets the oldest one if there are too many.
fn keep<T>(kept: &Mutex<VecDeque<T>>, most: usize, item: T) {
    let mut kept = lock(kept);
    if kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(item);
}
