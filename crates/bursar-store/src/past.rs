//! How one row was at an earlier moment.
//!
//! The row is computed from its events, which the journal links from the last one backwards. [`Past`] says which transaction to read
//! next, keeps what the row follows from, and applies it again in empty tables in memory. It reads nothing itself, so every engine, the
//! archive and the simulator use the same code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bursar_core::event::{Batch, Entry, Event, Stream};
use bursar_core::id::{BatchId, HoldId, JobId};
use bursar_core::time::Time;

use crate::error::StoreError;
use crate::memory::Tables;
use crate::store::Journaled;

/// The most transactions of one row that are read.
pub const PAST_TRANSACTIONS_MAX: usize = 10_000;

/// A moment of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After everything that was decided at this instant or before.
    At(Time),
    /// After the event with this position, and before the next one.
    After(u64),
}

/// What [`Past`] needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The row of the journal with this transaction, for [`Past::add`].
    Batch(BatchId),
    /// The last transaction that touched this hold, for [`Past::follow`].
    Hold(HoldId),
}

/// The events of one row up to a moment.
#[derive(Debug)]
pub struct Past {
    of: Stream,
    moment: Moment,
    /// The stream whose links are followed, and its next transaction.
    next: Option<(Stream, BatchId)>,
    /// The holds of a job whose events are not read yet.
    holds: Vec<HoldId>,
    holds_seen: BTreeSet<HoldId>,
    read: BTreeSet<BatchId>,
    /// What the row follows from, by position.
    kept: BTreeMap<u64, Batch>,
}

impl Past {
    /// Begins with the last transaction that touched the row.
    pub fn new(of: Stream, last: BatchId, moment: Moment) -> Past {
        let next = Some((of.clone(), last));
        Past {
            of,
            moment,
            next,
            holds: Vec::new(),
            holds_seen: BTreeSet::new(),
            read: BTreeSet::new(),
            kept: BTreeMap::new(),
        }
    }

    /// Returns what to read next; `None` if everything was read.
    pub fn wanted(&self) -> Option<Wanted> {
        match (&self.next, self.holds.last()) {
            (Some((_, batch)), _) => Some(Wanted::Batch(*batch)),
            (None, Some(hold)) => Some(Wanted::Hold(*hold)),
            (None, None) => None,
        }
    }

    /// Returns the number of transactions read.
    pub fn count(&self) -> usize {
        self.read.len()
    }

    /// Adds the row of the journal that [`Past::wanted`] named.
    pub fn add(&mut self, row: &Journaled) {
        let Some((stream, _)) = self.next.take() else { return };
        self.next = row.batch.prev.get(&stream).map(|before| (stream, before));
        if !self.read.insert(row.batch.id) {
            return;
        }
        let mut entries = Vec::new();
        let mut position = row.position;
        for entry in &row.batch.entries {
            let tenant = &entry.context.tenant;
            let events = (position..).zip(&entry.events).filter(|(position, recorded)| {
                self.includes(*position, row.batch.at) && recorded.e.shapes(&self.of, tenant, entry.id)
            });
            let events: Vec<_> = events.map(|(_, recorded)| recorded.clone()).collect();
            position += entry.events.len() as u64;
            if let Stream::Job(job) = &self.of {
                let holds: Vec<HoldId> = events.iter().filter_map(|recorded| hold_of(&recorded.e, *job)).collect();
                self.holds.extend(holds.into_iter().filter(|hold| self.holds_seen.insert(*hold)));
            }
            if !events.is_empty() {
                entries.push(Arc::new(Entry { key: None, events, ..(**entry).clone() }));
            }
        }
        if !entries.is_empty() {
            let Batch { id, at, .. } = row.batch;
            self.kept.insert(row.position, Batch { id, at, prev: Default::default(), entries });
        }
    }

    /// Continues with the hold that [`Past::wanted`] named, from the last transaction that touched it; `None` if its row is gone.
    pub fn follow(&mut self, last: Option<BatchId>) {
        let Some(hold) = self.holds.pop() else { return };
        self.next = last.map(|last| (Stream::Hold(hold), last));
    }

    /// Applies the events again. Of the returned tables only the row of the stream is complete. `None` if it did not exist yet.
    ///
    /// # Errors
    /// When the journal does not link all events of the row.
    pub fn replay(self) -> Result<Option<Tables>, StoreError> {
        if self.kept.is_empty() {
            return Ok(None);
        }
        let mut tables = Tables::default();
        for batch in self.kept.values() {
            tables.replay_for(batch, &self.of)?;
        }
        Ok(Some(tables))
    }

    fn includes(&self, position: u64, at: Time) -> bool {
        match self.moment {
            Moment::At(moment) => at <= moment,
            Moment::After(last) => position <= last,
        }
    }
}

/// Returns the hold that an event gives to a job.
fn hold_of(event: &Event, job: JobId) -> Option<HoldId> {
    match event {
        Event::JobEnqueued { job: of, hold, .. } | Event::JobRetried { job: of, hold } if *of == job => *hold,
        Event::JobResumed { job: of, hold, .. } | Event::JobFunded { job: of, hold } if *of == job => Some(*hold),
        _ => None,
    }
}
