//! The journal: everything that happened, in order.

use bursar_core::context::Context;
use bursar_core::event::{Event, Stream};
use bursar_core::id::{BatchId, CommandId};
use bursar_core::time::Time;
use bursar_store::Journaled;

use crate::error::Error;
use crate::instance::Bursar;

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
    /// What happened.
    pub event: Event,
}

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
        for _ in 0..PAGES_MAX {
            let page = self.0.inner.store.journal(at, PAGE).await?;
            for event in page.iter().flat_map(spread).filter(|event| event.position > after) {
                at = event.position;
                if event.context.tenant == self.0.context.tenant {
                    events.push(event);
                    if events.len() >= limit {
                        return Ok((events, at));
                    }
                }
            }
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
