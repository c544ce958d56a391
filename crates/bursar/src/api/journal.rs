//! The journal: everything that happened, in order.

use std::collections::HashMap;
use std::sync::Arc;

use bursar_core::answer::Answer;
use bursar_core::context::Context;
use bursar_core::event::{Entry, Event, Stream};
use bursar_core::id::{BatchId, CommandId};
use bursar_core::page::{Filling, Weighs};
use bursar_core::refusal::Invalid;
use bursar_core::time::{Span, Time};
use bursar_core::trace::TraceParent;
use bursar_store::Journaled;

use crate::api::command::Receipt;
use crate::api::instance::Bursar;
use crate::error::Error;

/// What happened. From [`Bursar::journal`].
#[derive(Clone, Copy)]
pub struct Journal<'a>(pub(crate) &'a Bursar);

/// An event at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEvent {
    /// Its position: dense, and in the order of commits.
    pub position: u64,
    /// The thing it happened to.
    pub stream: Stream,
    /// The version of that thing after it.
    pub version: u64,
    /// When.
    pub at: Time,
    /// The command that did it.
    pub command: CommandId,
    /// Who asked for it, for whom, and why.
    pub context: Context,
    /// The trace it belongs to: that of its job, or else that of the request.
    pub traceparent: Option<TraceParent>,
    /// What happened.
    pub event: Event,
}

/// Where a page of history begins.
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
        let (batch, skip) = parts.ok_or_else(|| Invalid::new("cursor", "is not one that a page has told"))?;
        Ok(HistoryMark { batch, skip })
    }
}

/// How much earlier than its id says a command is looked for, and how much later.
const EARLIER: Span = Span::from_secs(2);
const LATER: Span = Span::from_secs(60);
/// Pages that are looked at for it.
const COMMAND_PAGES_MAX: usize = 50;
/// Rows of the journal read at once.
const PAGE: usize = 100;
/// Such pages that one call reads at most, whoever's events are on them.
const PAGES_MAX: usize = 10;
/// Events that one call returns at most.
const EVENTS_MAX: usize = 1_000;

impl Journal<'_> {
    /// Events of this tenant after a position, at most `limit` (from 1 to 1,000), and the position to go on from.
    /// Nothing is ever inserted before a position that was read.
    ///
    /// One call looks at a bounded part of the journal, so that fewer events than asked for, or none, do not mean that
    /// there are no more: the end is reached when the position does not move.
    pub async fn read(&self, after: u64, limit: usize) -> Result<(Vec<JournalEvent>, u64), Error> {
        let limit = limit.clamp(1, EVENTS_MAX);
        let mut events = Vec::new();
        let mut at = after;
        let mut filling = Filling::new(limit);
        for _ in 0..PAGES_MAX {
            let page = self.0.inner.store.list_journal(at, PAGE).await?;
            for event in page.iter().flat_map(spread).filter(|event| event.position > after) {
                at = event.position;
                if event.context.tenant == self.0.context.tenant {
                    filling.add(event.event.bytes());
                    events.push(event);
                    if filling.is_full() {
                        return Ok((events, at));
                    }
                }
            }
            // A page may end before it has so many rows, where they are large: whoever goes on from here finds the rest.
            if page.len() < PAGE {
                break;
            }
        }
        Ok((events, at))
    }

    /// What happened to one thing, newest first, at most `limit`. For a scope this is everything that moved it.
    pub async fn history(&self, stream: &Stream, limit: usize) -> Result<Vec<JournalEvent>, Error> {
        let mut next = self.last(stream).await?;
        let mut events = Vec::new();
        while let Some(id) = next {
            let Some(journaled) = self.0.inner.store.batch(id).await? else { break };
            let mut found: Vec<_> = spread(&journaled).filter(|event| concerns(event, stream)).collect();
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

    /// What happened to one thing, newest first, a page of at most `limit` events (from 1 to 1,000) and where the next one
    /// begins, from the newest on or from where an earlier page said.
    pub async fn history_page(
        &self,
        stream: &Stream,
        from: Option<HistoryMark>,
        limit: usize,
    ) -> Result<(Vec<JournalEvent>, Option<HistoryMark>), Error> {
        let limit = limit.clamp(1, EVENTS_MAX);
        // A mark of another thing, or of another tenant's, leads nowhere: its events concern another stream.
        let Some(last) = self.last(stream).await? else { return Ok((Vec::new(), None)) };
        let mut at = from.unwrap_or(HistoryMark { batch: last, skip: 0 });
        let mut events = Vec::new();
        let mut filling = Filling::new(limit);
        loop {
            let Some(journaled) = self.0.inner.store.batch(at.batch).await? else { return Ok((events, None)) };
            let mut found: Vec<_> = spread(&journaled).filter(|event| concerns(event, stream)).collect();
            found.reverse();
            let total = found.len();
            for (place, event) in found.into_iter().enumerate().skip(at.skip) {
                filling.add(event.event.bytes());
                events.push(event);
                if filling.is_full() && place + 1 < total {
                    return Ok((events, Some(HistoryMark { skip: place + 1, ..at })));
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

    /// What a command of this tenant did, if it was one and the journal still has it.
    ///
    /// The journal is searched by the instant in the id. A command whose transaction stayed open for more than a minute, or
    /// committed among more than five thousand others, may not be found.
    pub async fn command(&self, id: CommandId) -> Result<Option<Receipt>, Error> {
        let Some(entry) = self.entry(id).await?.filter(|entry| entry.context.tenant == self.0.context.tenant) else {
            return Ok(None);
        };
        let mut payloads = HashMap::new();
        for recorded in &entry.events {
            if let Event::GrantRedeemed { grant, .. } = &recorded.e
                && let Some(row) = self.0.inner.store.grant(*grant).await?
            {
                payloads.insert(*grant, row.payload);
            }
        }
        match Answer::render(&entry, |grant| payloads.get(&grant).cloned()) {
            Answer::Submitted(done) => Ok(Some(Receipt { command: id, replayed: false, done, entry: None })),
            _ => Ok(None),
        }
    }

    async fn entry(&self, id: CommandId) -> Result<Option<Arc<Entry>>, Error> {
        let store = &self.0.inner.store;
        // The first row from shortly before then on: positions follow the clock but for a little.
        let from = id.at().before(EARLIER);
        let (mut low, mut high) = (0, store.health().await?.position);
        while low < high {
            let middle = low + (high - low) / 2;
            match store.list_journal(middle, 1).await?.first() {
                Some(row) if row.batch.at < from => low = middle + 1,
                _ => high = middle,
            }
        }
        let (mut after, until) = (low.saturating_sub(1), id.at().after(LATER));
        for _ in 0..COMMAND_PAGES_MAX {
            let page = store.list_journal(after, PAGE).await?;
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

    /// Erases the payload of a job or a grant, for privacy, where it was large enough to be kept beside the journal.
    /// The journal stays whole; the payload reads as `null` from then on. False when there is none to erase.
    pub async fn erase_payload(&self, stream: &Stream) -> Result<bool, Error> {
        let id = match stream {
            Stream::Job(id) => id.0,
            Stream::Grant(id) => id.0,
            Stream::Scope(..) | Stream::Hold(_) | Stream::Queue(..) | Stream::Schedule(..) | Stream::Command(_) => {
                return Ok(false);
            }
        };
        // What is another tenant's is not there.
        if self.last(stream).await?.is_none() {
            return Ok(false);
        }
        Ok(self.0.inner.store.erase_payload(id).await?)
    }

    /// The transaction that touched a thing last, if it is this tenant's.
    async fn last(&self, stream: &Stream) -> Result<Option<BatchId>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(match stream {
            Stream::Scope(of, scope) if of == tenant => {
                store.scope(&(of.clone(), scope.clone())).await?.and_then(|row| row.last)
            }
            Stream::Hold(id) => store.hold(*id).await?.filter(|row| row.tenant == *tenant).and_then(|row| row.last),
            Stream::Job(id) => store.job(*id).await?.filter(|row| row.tenant == *tenant).and_then(|row| row.last),
            Stream::Grant(id) => store.grant(*id).await?.filter(|row| row.tenant == *tenant).and_then(|row| row.last),
            Stream::Queue(of, queue) if of == tenant => {
                store.queue(&(of.clone(), queue.clone())).await?.and_then(|row| row.last)
            }
            Stream::Schedule(of, name) if of == tenant => {
                store.schedule(&(of.clone(), name.clone())).await?.and_then(|row| row.last)
            }
            Stream::Scope(..) | Stream::Queue(..) | Stream::Schedule(..) | Stream::Command(_) => None,
        })
    }
}

/// The events of a row, each at its position.
fn spread(journaled: &Journaled) -> impl Iterator<Item = JournalEvent> {
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

fn concerns(event: &JournalEvent, stream: &Stream) -> bool {
    if event.stream == *stream {
        return true;
    }
    match stream {
        Stream::Scope(tenant, scope) => event.context.tenant == *tenant && event.event.scopes().contains(&scope),
        _ => false,
    }
}
