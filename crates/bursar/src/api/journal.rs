//! The journal: the append-only log of all events, in the order of commits.

use std::collections::HashMap;
use std::sync::Arc;

use bursar_core::answer::Answer;
use bursar_core::context::Context;
use bursar_core::event::{Entry, Event, Stream};
use bursar_core::id::{BatchId, CommandId};
use bursar_core::page::{PageFill, PageItem};
use bursar_core::refusal::Invalid;
use bursar_core::time::{Span, Time};
use bursar_core::trace::TraceParent;
use bursar_store::{Journaled, Segment, StoreError};

use crate::api::command::Receipt;
use crate::api::instance::Bursar;
use crate::archive::{self, ArchiveCounts, ArchiveStatus, Archived, JournalProof};
use crate::error::Error;

/// The append-only log of events. From [`Bursar::journal`].
#[derive(Clone, Copy)]
pub struct Journal<'a>(pub(crate) &'a Bursar);

/// An event of the journal, with its position and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEvent {
    /// The position of the event. Positions have no gaps and follow the order of commits.
    pub position: u64,
    /// The scope, hold, job, grant, queue, schedule or command that the event belongs to.
    pub stream: Stream,
    /// The version of that stream after the event.
    pub version: u64,
    /// When the event was committed, by the clock that decisions use.
    pub at: Time,
    /// The command that caused the event.
    pub command: CommandId,
    /// The tenant, actor and reason of the request.
    pub context: Context,
    /// The trace of the event's job, or else of the request.
    pub traceparent: Option<TraceParent>,
    /// The event itself.
    pub event: Event,
}

/// The position in a history at which the next page starts. Its text form can be parsed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMark {
    batch: BatchId,
    skip: usize,
}

impl std::fmt::Display for HistoryMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.batch, self.skip)
    }
}

impl std::str::FromStr for HistoryMark {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<HistoryMark, Invalid> {
        let parts = text.split_once('.').and_then(|(batch, skip)| Some((batch.parse().ok()?, skip.parse().ok()?)));
        let (batch, skip) = parts.ok_or_else(|| Invalid::new("cursor", "is not one that an earlier page returned"))?;
        Ok(HistoryMark { batch, skip })
    }
}

/// How far before the instant in its id the search for a command starts.
const SEARCH_BEFORE: Span = Span::from_secs(2);
/// How far after the instant in its id the search for a command ends.
const SEARCH_AFTER: Span = Span::from_secs(60);
/// The most pages that the search for a command reads.
const COMMAND_PAGES_MAX: usize = 50;
/// Rows of the journal read at once. A row holds the events of one transaction.
const PAGE: usize = 100;
/// The most pages that one call reads, including events of other tenants.
const PAGES_MAX: usize = 10;
/// The most events that one call returns.
const EVENTS_MAX: usize = 1_000;

impl Journal<'_> {
    /// Returns the events of this tenant after a position, at most `limit` (from 1 to 1,000), and the position to continue
    /// from. No event is ever inserted before a position that was read.
    ///
    /// One call reads a bounded part of the journal, which other tenants share. So it may return fewer events than
    /// `limit`, or none, before the end. The end is reached when the returned position equals `after`.
    pub async fn read(&self, after: u64, limit: usize) -> Result<(Vec<JournalEvent>, u64), Error> {
        let limit = limit.clamp(1, EVENTS_MAX);
        let mut events = Vec::new();
        let mut at = after;
        let mut filling = PageFill::new(limit);
        for _ in 0..PAGES_MAX {
            let page = self.0.inner.journal.list(at, PAGE).await?;
            for event in page.iter().flat_map(events_of_row).filter(|event| event.position > after) {
                at = event.position;
                if event.context.tenant == self.0.context.tenant {
                    filling.add(event.event.bytes());
                    events.push(event);
                    if filling.is_full() {
                        return Ok((events, at));
                    }
                }
            }
            // A page of large rows ends early; the next call continues from `at`.
            if page.len() < PAGE {
                break;
            }
        }
        Ok((events, at))
    }

    /// Returns the events of one stream, newest first, at most `limit`. The events of a scope include all charges that
    /// changed its balances. Empty if the stream belongs to another tenant.
    pub async fn history(&self, stream: &Stream, limit: usize) -> Result<Vec<JournalEvent>, Error> {
        let mut next = self.last_batch(stream).await?;
        let mut events = Vec::new();
        while let Some(id) = next {
            let Some(journaled) = self.0.inner.journal.batch(id).await? else { break };
            let mut found: Vec<_> = events_of_row(&journaled).filter(|event| concerns(event, stream)).collect();
            found.reverse();
            events.extend(found);
            if events.len() >= limit {
                events.truncate(limit);
                break;
            }
            next = journaled.batch.prev.get(stream);
        }
        Ok(events)
    }

    /// Returns one page of a stream's events, newest first, at most `limit` (from 1 to 1,000), and the mark of the next
    /// page, or `None` at the end. Without `from`, the page starts at the newest event.
    pub async fn history_page(
        &self,
        stream: &Stream,
        from: Option<HistoryMark>,
        limit: usize,
    ) -> Result<(Vec<JournalEvent>, Option<HistoryMark>), Error> {
        let limit = limit.clamp(1, EVENTS_MAX);
        // A mark of another stream or tenant is harmless: events of another stream are filtered out.
        let Some(last) = self.last_batch(stream).await? else { return Ok((Vec::new(), None)) };
        let mut at = from.unwrap_or(HistoryMark { batch: last, skip: 0 });
        let mut events = Vec::new();
        let mut filling = PageFill::new(limit);
        loop {
            let Some(journaled) = self.0.inner.journal.batch(at.batch).await? else { return Ok((events, None)) };
            let mut found: Vec<_> = events_of_row(&journaled).filter(|event| concerns(event, stream)).collect();
            found.reverse();
            let total = found.len();
            for (index, event) in found.into_iter().enumerate().skip(at.skip) {
                filling.add(event.event.bytes());
                events.push(event);
                if filling.is_full() && index + 1 < total {
                    return Ok((events, Some(HistoryMark { skip: index + 1, ..at })));
                }
            }
            match journaled.batch.prev.get(stream) {
                Some(batch) => at = HistoryMark { batch, skip: 0 },
                None => return Ok((events, None)),
            }
            if filling.is_full() {
                return Ok((events, Some(at)));
            }
        }
    }

    /// Returns the result of a command of this tenant; `None` if it is not found or was not a command.
    ///
    /// The journal has no index of commands; it is searched around the instant in the id. A command whose transaction
    /// stayed open for more than a minute, or that committed among more than five thousand others, may not be found.
    pub async fn command(&self, id: CommandId) -> Result<Option<Receipt>, Error> {
        let Some(entry) = self.entry(id).await?.filter(|entry| entry.context.tenant == self.0.context.tenant) else {
            return Ok(None);
        };
        let mut payloads = HashMap::new();
        for recorded in &entry.events {
            if let Event::GrantRedeemed { grant, .. } = &recorded.e
                && let Some(row) = self.0.inner.store.grant(&self.0.context.tenant, *grant).await?
            {
                payloads.insert(*grant, row.payload);
            }
        }
        match Answer::render(&entry, |grant| payloads.get(&grant).cloned()) {
            Answer::Submitted(done) => Ok(Some(Receipt { command: id, replayed: false, done, entry: None })),
            _ => Ok(None),
        }
    }

    /// Returns the position after which the events of an instant and later ones are, of all tenants. Positions follow the clock, except
    /// for small deviations, so that some events near the instant may be on the other side.
    pub async fn position_at(&self, at: Time) -> Result<u64, Error> {
        let store = &self.0.inner.store;
        // A binary search: some twenty look-ups, however long the journal is.
        let (mut low, mut high) = (0, store.health().await?.position);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.0.inner.journal.list(middle, 1).await?.first() {
                Some(row) if row.batch.at < at => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Archives all rows of the journal that are old enough, over all tenants. Fails if no archive is set.
    pub async fn archive(&self) -> Result<Archived, Error> {
        let journal = &self.0.inner.journal;
        let options = journal.options().ok_or_else(no_archive)?;
        Ok(archive::step_all(&self.0.inner.store, options, journal.counters()).await?)
    }

    /// Returns the first and the last position that [`Journal::archive`] would archive first, and the bytes before compression. Changes
    /// nothing. Fails if no archive is set.
    pub async fn archive_preview(&self) -> Result<Option<(u64, u64, u64)>, Error> {
        let options = self.0.inner.journal.options().ok_or_else(no_archive)?;
        Ok(archive::preview(&self.0.inner.store, options).await?)
    }

    /// Puts everything that is archived back into the table, over all tenants, and returns the segments that had it, the last one first.
    /// Their files stay where they are. An instance with an archive archives old rows again: open none until what needs the whole journal
    /// in the table is done, such as a move to another engine.
    pub async fn unarchive(&self) -> Result<Vec<Segment>, Error> {
        Ok(archive::undo(&self.0.inner.journal).await?)
    }

    /// Returns the state of the archive.
    pub async fn archive_status(&self) -> Result<ArchiveStatus, Error> {
        Ok(self.0.inner.journal.status().await?)
    }

    /// Fails if the archive cannot be written, or its last segment is not there or is damaged. Writes a small file to the archive.
    pub async fn reach_archive(&self) -> Result<(), Error> {
        Ok(self.0.inner.journal.reach().await?)
    }

    /// Returns what this process has archived since the instance was opened.
    pub fn archive_counts(&self) -> ArchiveCounts {
        self.0.inner.journal.counters().get()
    }

    /// Lists the segments of the archive that end after a position, in order.
    pub async fn segments(&self, after: u64, limit: usize) -> Result<Vec<Segment>, Error> {
        Ok(self.0.inner.store.list_segments(after, limit).await?)
    }

    /// Reads every segment of the archive and every row of the table, and proves that none is missing or changed. Fails at the first one
    /// that is.
    pub async fn prove(&self) -> Result<JournalProof, Error> {
        Ok(self.0.inner.journal.prove().await?)
    }

    async fn entry(&self, id: CommandId) -> Result<Option<Arc<Entry>>, Error> {
        let start = self.position_at(id.at().before(SEARCH_BEFORE)).await?;
        let (mut after, until) = (start.saturating_sub(1), id.at().after(SEARCH_AFTER));
        for _ in 0..COMMAND_PAGES_MAX {
            let page = self.0.inner.journal.list(after, PAGE).await?;
            let found = page.iter().flat_map(|row| &row.batch.entries).find(|entry| entry.id == id);
            if let Some(entry) = found {
                return Ok(Some(entry.clone()));
            }
            match page.last() {
                Some(last) if last.batch.at <= until => {
                    let events: usize = last.batch.entries.iter().map(|entry| entry.events.len()).sum();
                    after = last.position + (events as u64).saturating_sub(1);
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the last transaction with an event of the stream, if the stream is this tenant's.
    pub(super) async fn last_batch(&self, stream: &Stream) -> Result<Option<BatchId>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(match stream {
            Stream::Scope(of, scope) if of == tenant => {
                store.scope(&(of.clone(), scope.clone())).await?.and_then(|row| row.last)
            }
            Stream::Hold(id) => store.hold(tenant, *id).await?.and_then(|row| row.last),
            Stream::Job(id) => store.job(tenant, *id).await?.and_then(|row| row.last),
            Stream::Grant(id) => store.grant(tenant, *id).await?.and_then(|row| row.last),
            Stream::Queue(of, queue) if of == tenant => {
                store.queue(&(of.clone(), queue.clone())).await?.and_then(|row| row.last)
            }
            Stream::Schedule(of, name) if of == tenant => {
                store.schedule(&(of.clone(), name.clone())).await?.and_then(|row| row.last)
            }
            Stream::Namespace(of, name) if of == tenant => {
                store.namespace(&(of.clone(), name.clone())).await?.and_then(|row| row.last)
            }
            Stream::Blob(id) => store.blob(tenant, *id).await?.and_then(|row| row.last),
            Stream::Scope(..)
            | Stream::Queue(..)
            | Stream::Schedule(..)
            | Stream::Namespace(..)
            | Stream::Command(_) => None,
        })
    }
}

fn no_archive() -> StoreError {
    StoreError::Unavailable {
        what: "no archive of the journal is set".into(),
        hint: "nothing was changed; set `journal.archive` to a directory",
        permanent: true,
        source: None,
    }
}

/// Returns the events of a row of the journal, each with its position.
fn events_of_row(journaled: &Journaled) -> impl Iterator<Item = JournalEvent> {
    let entries =
        journaled.batch.entries.iter().flat_map(|entry| entry.events.iter().map(move |recorded| (entry, recorded)));
    entries.zip(journaled.position..).map(|((entry, recorded), position)| JournalEvent {
        position,
        stream: recorded.e.stream(&entry.context.tenant, entry.id),
        version: recorded.v,
        at: journaled.batch.at,
        command: entry.id,
        context: entry.context.clone(),
        traceparent: recorded.t.or(entry.context.traceparent),
        event: recorded.e.clone(),
    })
}

/// Returns whether an event belongs to the stream, or changes the balances of the stream's scope.
fn concerns(event: &JournalEvent, stream: &Stream) -> bool {
    if event.stream == *stream {
        return true;
    }
    match stream {
        Stream::Scope(tenant, scope) => event.context.tenant == *tenant && event.event.scopes().contains(&scope),
        _ => false,
    }
}
