//! Batches without locks: rows are looked at, and written by one statement that commits by itself, if nobody has changed them
//! meanwhile. That is two trips instead of four.
//!
//! It is for commands and new grants, which write all that they rely on: scopes they charge and grants they redeem are written
//! by whoever wrote them last, names by their keys. Where others are at the same rows, batches lock for a while.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bursar_core::event::{Batch, Charged, Entry, Event};
use bursar_core::request::{Op, Request};
use bursar_core::state::{At, Change, Table, Workspace};
use bursar_core::time::Time;
use tokio::time::Instant;

use super::error::{Trouble, commit_error, trouble};
use super::lane::OpenBatch;
use super::rows::{PgRows, Taking};
use super::{PostgresStore, no_answer};
use crate::attempt::Setback;
use crate::error::StoreError;
use crate::store::Verdict;
use crate::work::{self, When};

/// So long a batch waits for who has one of its rows in hand: what it has seen of it is mostly not so any more after that.
const PATIENCE: Duration = Duration::from_millis(5);
/// So long batches lock their rows after somebody was in the way.
const WARY: Duration = Duration::from_secs(1);

/// How batches fared.
#[derive(Default)]
pub(super) struct Wary {
    /// Until then they lock their rows.
    until: Mutex<Option<Instant>>,
    /// The last one locked its rows.
    locked_last: AtomicBool,
}

impl Wary {
    fn is_at(&self, now: Instant) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }

    fn begin(&self, now: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(now + WARY);
    }
}

/// What a batch came to that was done at once, if it was.
type Done = Option<(Vec<Verdict>, Time)>;

impl PostgresStore {
    /// Whether the last batch locked its rows, as the next one then may.
    pub(super) fn locked_last(&self) -> bool {
        self.wary.locked_last.load(Ordering::Relaxed)
    }

    /// Does requests at once; `None` where they need locks, and nothing has happened.
    pub(super) async fn do_at_once(&self, requests: &[&Request]) -> Result<Done, Setback> {
        let fits = requests.iter().all(|request| fits(request)) && !self.wary.is_at(Instant::now());
        let done = if fits { self.try_at_once(requests).await } else { Ok(None) };
        self.wary.locked_last.store(matches!(done, Ok(None)), Ordering::Relaxed);
        done
    }

    async fn try_at_once(&self, requests: &[&Request]) -> Result<Done, Setback> {
        let within = self.options.connect_within + self.options.answer_within;
        let opened = tokio::time::timeout(within, self.open_alone()).await;
        // What a connection is good for finds out who opens a transaction on it.
        let Ok(Ok(mut batch)) = opened else { return Ok(None) };
        match self.look_and_write(&mut batch, requests).await {
            Ok(done) => {
                self.close_alone(batch);
                if done.is_none() {
                    self.wary.begin(Instant::now());
                }
                Ok(done)
            }
            // The connection is not known to be at rest, and goes with what is dropped here.
            Err(Some(setback)) => Err(setback),
            Err(None) => Ok(None),
        }
    }

    /// An error that says nothing is for who tries it with locks.
    async fn look_and_write(&self, batch: &mut OpenBatch, requests: &[&Request]) -> Result<Done, Option<Setback>> {
        let set_back = |error| Err(Some(Setback::Final(error)));
        let within = self.options.answer_within;
        let when = When { floor: self.floor(), batch: self.next_batch() };
        let mut rows = PgRows::new(batch.conn(), self, Taking::See);
        let mut ids = self.ids();
        let decided = work::run(&mut rows, requests, &self.setup.rules, when, &mut ids);
        let (mut ws, verdicts) = match tokio::time::timeout(within, decided).await {
            Ok(Ok(decided)) => decided,
            Ok(Err(_)) => return Err(None),
            Err(_) => return set_back(no_answer(within)),
        };
        let events = ws.take_batch();
        let blocked = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Blocked(_)));
        if blocked || !relies_on_what_it_writes(&ws, events.as_ref()) {
            return Ok(None);
        }
        let now = ws.now;
        match tokio::time::timeout(within, rows.write_alone(ws, events, PATIENCE)).await {
            Ok(Ok(true)) => Ok(Some((verdicts, now))),
            Ok(Ok(false)) => Ok(None),
            Ok(Err(error)) => match trouble(&error) {
                Some(Trouble::LockTimeout | Trouble::Deadlock) => Ok(None),
                Some(Trouble::Lost) | None => set_back(commit_error(error)),
            },
            Err(late) => set_back(StoreError::UnknownOutcome(Box::new(late))),
        }
    }
}

/// Whether a request may be done without locks. A job in a line relies on who stands there.
fn fits(request: &Request) -> bool {
    match &request.op {
        Op::Submit(command) => command.jobs.iter().all(|job| job.key.is_none()),
        Op::Mint(_) => true,
        _ => false,
    }
}

/// Whether all that had an effect relied on rows that are written, and are found out if somebody else wrote them meanwhile. Who
/// was refused had none.
fn relies_on_what_it_writes(ws: &Workspace, batch: Option<&Batch>) -> bool {
    let written = |tenant: &_, charges: &[Charged]| {
        charges.iter().flat_map(Charged::scopes).all(|scope| ws.scopes.is_changed(&At(tenant, scope)))
    };
    let covered = |entry: &Entry| {
        entry.events.iter().all(|recorded| match &recorded.e {
            Event::HoldPlaced { charges, .. } | Event::Posted { charges } => written(&entry.context.tenant, charges),
            Event::GrantRedeemed { grant, .. } => ws.grants.is_changed(grant),
            _ => true,
        })
    };
    let only_new = adds_only(&ws.holds) && adds_only(&ws.jobs) && adds_only(&ws.queues) && adds_only(&ws.schedules);
    only_new && batch.is_none_or(|batch| batch.entries.iter().all(|entry| covered(entry)))
}

fn adds_only<K: Hash + Eq + Debug, V>(table: &Table<K, V>) -> bool {
    table.changes().all(|(_, change)| matches!(change, Change::Insert(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_lock_for_a_while_after_somebody_was_in_the_way() {
        let (wary, now) = (Wary::default(), Instant::now());
        assert!(!wary.is_at(now));
        wary.begin(now);
        assert!(wary.is_at(now + WARY / 2));
        wary.begin(now + WARY / 2);
        assert!(wary.is_at(now + WARY), "it began anew");
        assert!(!wary.is_at(now + WARY * 3 / 2));
    }
}
