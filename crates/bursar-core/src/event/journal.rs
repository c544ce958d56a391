//! How events stand in the journal: one after the other for each request, all of a transaction in one row.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::answer::{Answer, Finished};
use crate::context::Context;
use crate::event::{Event, Stream};
use crate::id::{BatchId, CommandId, HoldId, JobId};
use crate::job::JobState;
use crate::name::{IdempotencyKey, Scope};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::request::Fingerprint;
use crate::time::Time;
use crate::trace::TraceParent;
use crate::wakes::Wakes;

/// An event with its version in its stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The version of the stream after it.
    pub v: u64,
    /// What happened.
    pub e: Event,
    /// The trace of the job it happened to, where the request that did it is of another or of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t: Option<TraceParent>,
}

/// All that one request did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The command.
    pub id: CommandId,
    /// Who asked, for whom, and why.
    pub context: Context,
    /// The idempotency key it was asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyUse>,
    /// What happened, in order.
    pub events: Vec<Recorded>,
    /// Whom it wakes; empty when it was read from the journal.
    #[serde(skip)]
    pub wakes: Wakes,
}

/// Entries are the same that did the same: whom one wakes follows from what it did.
impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        let Entry { id, context, key, events, wakes: _ } = self;
        (id, context, key, events) == (&other.id, &other.context, &other.key, &other.events)
    }
}

/// The use of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    /// The key.
    pub key: IdempotencyKey,
    /// What was asked.
    pub fingerprint: Fingerprint,
    /// Remembered until then.
    pub until: Time,
    /// What became of the jobs that were acted on, in order: events alone do not tell what each was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted: Option<Acted>,
}

/// What an act on jobs came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acted {
    /// What became of each, in order.
    pub jobs: Vec<ActedOn>,
    /// More parts follow.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub more: bool,
}

impl Acted {
    /// The answer again.
    pub(crate) fn answer(&self) -> Answer {
        Answer::Acted { each: self.jobs.iter().map(ActedOn::answer).collect(), more: self.more }
    }
}

/// What became of a job that was acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActedOn {
    /// The job.
    pub job: JobId,
    /// The state it was in then; `None` where there was no such job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// When it was to run again, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// Its hold, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldId>,
    /// Units charged for it until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<(Scope, i64)>,
    /// Why nothing was done to it, where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl ActedOn {
    /// What was answered for a job.
    pub(crate) fn of(job: JobId, answer: &Result<Finished, Refusal>) -> ActedOn {
        let nothing = ActedOn { job, state: None, run_at: None, hold: None, cost: Vec::new(), refused: None };
        match answer {
            Ok(Finished { state, run_at, hold, cost, .. }) => {
                ActedOn { state: Some(*state), run_at: *run_at, hold: *hold, cost: cost.clone(), ..nothing }
            }
            Err(Refusal::WrongState { state, problem, .. }) => {
                ActedOn { state: Some(*state), refused: Some(problem.to_string()), ..nothing }
            }
            Err(_) => nothing,
        }
    }

    fn answer(&self) -> Result<Finished, Refusal> {
        let ActedOn { job, run_at, hold, .. } = *self;
        match (self.state, &self.refused) {
            (None, _) => Err(Refusal::UnknownJob { job }),
            (Some(state), Some(problem)) => Err(Refusal::WrongState { job, state, problem: problem.clone().into() }),
            (Some(state), None) => Ok(Finished { job, state, run_at, hold, cost: self.cost.clone() }),
        }
    }
}

/// All that one transaction did: one row of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Its name.
    pub id: BatchId,
    /// The instant of all its events.
    pub at: Time,
    /// For each stream it touches, the transaction that touched it last: history is read backwards along these.
    pub prev: Links,
    /// What was done.
    pub entries: Vec<Arc<Entry>>,
}

/// The transactions that touched things last. Written as a JSON object by the things' names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links(Vec<(String, BatchId)>);

impl Links {
    /// Notes that `batch` touches a stream that `last` touched before.
    pub(crate) fn link(&mut self, batch: BatchId, stream: impl FnOnce() -> Stream, last: Option<BatchId>) {
        // Once a batch: from then on the last that touched it is this one.
        if let Some(last) = last.filter(|last| *last != batch) {
            self.0.push((stream().link(), last));
        }
    }

    /// The transaction that touched a thing before.
    pub fn get(&self, stream: &Stream) -> Option<BatchId> {
        let link = stream.link();
        self.0.iter().find(|(name, _)| *name == link).map(|(_, last)| *last)
    }

    /// All of them, by name.
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
    /// How many events it has.
    pub fn count(&self) -> usize {
        self.entries.iter().map(|entry| entry.events.len()).sum()
    }
}

impl Batch {
    /// Takes out the payloads that are too large to stand in the journal. They are kept beside it under the id of
    /// their job or grant, and can be erased there without breaking it.
    pub fn detach_payloads(&mut self) -> Vec<(u128, Payload)> {
        let mut detached = Vec::new();
        self.each_payload(|id, payload| {
            if payload.is_large() {
                detached.push((id, std::mem::replace(payload, Payload::elsewhere())));
            }
        });
        detached
    }

    /// The ids of payloads that are kept beside the journal.
    pub fn detached(&mut self) -> Vec<u128> {
        let mut ids = Vec::new();
        self.each_payload(|id, payload| {
            if payload.is_elsewhere() {
                ids.push(id);
            }
        });
        ids
    }

    /// Puts payloads back that were kept beside the journal; one that was erased is `null`.
    pub fn attach_payloads(&mut self, mut find: impl FnMut(u128) -> Option<Payload>) {
        self.each_payload(|id, payload| {
            if payload.is_elsewhere() {
                *payload = find(id).unwrap_or_default();
            }
        });
    }

    fn each_payload(&mut self, mut visit: impl FnMut(u128, &mut Payload)) {
        for entry in &mut self.entries {
            // An entry is shared with its answer; it is copied only when it has a payload to be moved.
            let moves = |payload: &Payload| payload.is_large() || payload.is_elsewhere();
            if !entry.events.iter().any(|recorded| recorded.e.payload().is_some_and(moves)) {
                continue;
            }
            for recorded in &mut Arc::make_mut(entry).events {
                match &mut recorded.e {
                    Event::JobEnqueued { job, spec, .. } => visit(job.0, &mut spec.payload),
                    Event::JobSucceeded { job, result, .. } => visit(job.result_key(), result),
                    Event::GrantMinted { grant, payload, .. } => visit(grant.0, payload),
                    _ => {}
                }
            }
        }
    }
}
