//! The rows of the journal: one [`Batch`] per transaction, with one [`Entry`] per request.
//!
//! # History
//!
//! A batch names, for each stream it touches, the batch that touched the stream before ([`Batch::prev`]). The history
//! of a hold, job or scope is read backwards along these links, so no index by stream is written on the hot path.
//!
//! # Payloads
//!
//! Payloads above [`PAYLOAD_INLINE_BYTES`](crate::bounds::PAYLOAD_INLINE_BYTES) are stored once, in a table of their own, and
//! replaced by a marker in the journal. Smaller ones are part of it until it is archived: an archived row has markers only.
//!
//! Erasing the payload of a job or a grant is an event. What was recorded of the payload before is then overwritten by a second
//! marker ([`Entry::erase`]). No other change is ever made to a row of the journal, and a rebuild from it restores the same rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::answer::{Answer, Finished};
use crate::context::Context;
use crate::event::{Event, Stream};
use crate::id::{BatchId, CommandId, HoldId, JobId};
use crate::job::{EndedAttempt, JobState};
use crate::name::{IdempotencyKey, Scope};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::request::Fingerprint;
use crate::time::Time;
use crate::trace::TraceParent;
use crate::wakes::WakeUps;

/// An event with the version of its stream. The field names are short because the journal stores them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The version of the stream after the event.
    pub v: u64,
    /// The event.
    pub e: Event,
    /// The trace of the job, if the request belongs to another trace or to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t: Option<TraceParent>,
}

/// The effect of one request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The id of the command.
    pub id: CommandId,
    /// The tenant, the actor and the reason of the request.
    pub context: Context,
    /// The idempotency key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyUse>,
    /// Its events, in order.
    pub events: Vec<Recorded>,
    /// The wake-ups that it causes; empty if the entry was read from the journal.
    #[serde(skip)]
    pub wakes: WakeUps,
    /// The attempts of sampled traces that its events end, in the order of events; empty if the entry was read from the journal.
    #[serde(skip)]
    pub attempts: Vec<EndedAttempt>,
}

impl Entry {
    /// Overwrites the payloads that entries recorded of jobs and grants. Returns whether that changes any.
    pub fn erase(entries: &mut [Entry], of: &[Stream]) -> bool {
        let events = entries.iter_mut().flat_map(|entry| &mut entry.events);
        events.filter_map(|recorded| recorded.e.erase(of).then_some(())).count() > 0
    }
}

/// Ignores `wakes` and `attempts`, which follow from the events.
impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        let Entry { id, context, key, events, wakes: _, attempts: _ } = self;
        (id, context, key, events) == (&other.id, &other.context, &other.key, &other.events)
    }
}

/// The idempotency key of a request, as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    /// The key.
    pub key: IdempotencyKey,
    /// The digest of the request.
    pub fingerprint: Fingerprint,
    /// When the key is forgotten.
    pub until: Time,
    /// The answer for each job, where the request acted on jobs: it cannot be rendered from the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted: Option<Acted>,
}

/// The recorded answer to an operation on jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acted {
    /// The answer for each job, in order.
    pub jobs: Vec<RecordedAction>,
    /// Whether more parts of the operation follow.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub more: bool,
}

impl Acted {
    /// Returns the recorded answer.
    pub(crate) fn answer(&self) -> Answer {
        Answer::Acted { each: self.jobs.iter().map(RecordedAction::answer).collect(), more: self.more }
    }
}

/// The recorded answer for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAction {
    /// The job.
    pub job: JobId,
    /// Its state after the operation; `None` if there was no such job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// When it was due to run, if it was waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// Its hold, or its last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldId>,
    /// Units charged for it so far, by scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<(Scope, i64)>,
    /// Why the operation was refused for this job, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl RecordedAction {
    /// Records the answer for a job.
    pub(crate) fn of(job: JobId, answer: &Result<Finished, Refusal>) -> RecordedAction {
        let nothing = RecordedAction { job, state: None, run_at: None, hold: None, cost: Vec::new(), refused: None };
        match answer {
            Ok(Finished { state, run_at, hold, cost, .. }) => {
                RecordedAction { state: Some(*state), run_at: *run_at, hold: *hold, cost: cost.clone(), ..nothing }
            }
            Err(Refusal::WrongState { state, problem, .. }) => {
                RecordedAction { state: Some(*state), refused: Some(problem.to_string()), ..nothing }
            }
            Err(_) => nothing,
        }
    }

    fn answer(&self) -> Result<Finished, Refusal> {
        let RecordedAction { job, run_at, hold, .. } = *self;
        match (self.state, &self.refused) {
            (None, _) => Err(Refusal::UnknownJob { job }),
            (Some(state), Some(problem)) => Err(Refusal::WrongState { job, state, problem: problem.clone().into() }),
            (Some(state), None) => Ok(Finished { job, state, run_at, hold, cost: self.cost.clone(), overrun: 0 }),
        }
    }
}

/// The effect of one transaction: one row of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The id of the transaction.
    pub id: BatchId,
    /// The instant of all its events.
    pub at: Time,
    /// For each stream that it touches, the transaction that touched the stream before.
    pub prev: Links,
    /// One entry for each request that had an effect.
    pub entries: Vec<Arc<Entry>>,
}

/// Links from streams to the transactions that touched them before. Serialized as a JSON object by stream name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links(Vec<(String, BatchId)>);

impl Links {
    /// Adds a link from a stream that `batch` touches to the transaction `last` that touched it before.
    pub(crate) fn link(&mut self, batch: BatchId, stream: impl FnOnce() -> Stream, last: Option<BatchId>) {
        // Only the first event of a batch adds a link: after it, `last` is the batch itself.
        if let Some(last) = last.filter(|last| *last != batch) {
            self.0.push((stream().link(), last));
        }
    }

    /// Returns the transaction that touched a stream before.
    pub fn get(&self, stream: &Stream) -> Option<BatchId> {
        let link = stream.link();
        self.0.iter().find(|(name, _)| *name == link).map(|(_, last)| *last)
    }

    /// Returns all links, by stream name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, BatchId)> {
        self.0.iter().map(|(name, last)| (name.as_str(), *last))
    }
}

impl Serialize for Links {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        ser.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Links, D::Error> {
        Ok(Links(BTreeMap::deserialize(de)?.into_iter().collect()))
    }
}

impl Batch {
    /// Returns the number of its events.
    pub fn count(&self) -> usize {
        self.entries.iter().map(|entry| entry.events.len()).sum()
    }
}

impl Batch {
    /// Takes out the payloads that are too large for the journal, and returns them with the id of their job or grant.
    pub fn detach_payloads(&mut self) -> Vec<(u128, Payload)> {
        self.detach(Payload::is_large)
    }

    /// Takes out all payloads, for the archive, and returns them with the id of their job or grant.
    pub fn detach_all_payloads(&mut self) -> Vec<(u128, Payload)> {
        self.detach(|payload| !payload.is_elsewhere() && !payload.is_erased() && *payload != Payload::default())
    }

    fn detach(&mut self, moves: impl Fn(&Payload) -> bool) -> Vec<(u128, Payload)> {
        let mut detached = Vec::new();
        self.each_payload(moves, |id, payload| {
            detached.push((id, std::mem::replace(payload, Payload::elsewhere())));
        });
        detached
    }

    /// Returns the ids of the payloads that are stored outside the journal.
    pub fn detached(&mut self) -> Vec<u128> {
        let mut ids = Vec::new();
        self.each_payload(Payload::is_elsewhere, |id, _| ids.push(id));
        ids
    }

    /// Puts back the payloads that are stored outside the journal; one that was deleted with its job or grant becomes `null`.
    pub fn attach_payloads(&mut self, mut find: impl FnMut(u128) -> Option<Payload>) {
        self.each_payload(Payload::is_elsewhere, |id, payload| *payload = find(id).unwrap_or_default());
    }

    fn each_payload(&mut self, moves: impl Fn(&Payload) -> bool, mut visit: impl FnMut(u128, &mut Payload)) {
        for entry in &mut self.entries {
            // The entry is shared with its answer, so it is copied only if a payload moves.
            if !entry.events.iter().any(|recorded| recorded.e.payload().is_some_and(&moves)) {
                continue;
            }
            for recorded in &mut Arc::make_mut(entry).events {
                if let Some((id, payload)) = recorded.e.payload_mut().filter(|(_, payload)| moves(payload)) {
                    visit(id, payload);
                }
            }
        }
    }
}
