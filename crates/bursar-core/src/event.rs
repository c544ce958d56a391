//! Events: every change of state, as the journal keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::budget::{Budget, Cover, Limit};
use crate::context::Context;
use crate::grant::TokenDigest;
use crate::hold::{Beyond, HeldCharge};
use crate::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use crate::job::{JobError, JobSpec, QueueConfig, ScheduleSpec};
use crate::name::{IdempotencyKey, Purpose, Queue, ScheduleName, Scope, Subject, Tenant, WorkerName};
use crate::payload::Payload;
use crate::request::Fingerprint;
use crate::time::{Span, Time};
use crate::wakes::Wakes;
use crate::window::Window;

/// Something that happened. The answer to a request is rendered from its events, the first time as later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Units were set aside.
    #[serde(rename = "hold.placed")]
    HoldPlaced {
        /// The new hold.
        hold: HoldId,
        /// Its charges, with what was left after them.
        charges: Vec<Charged>,
        /// When it expires; `NEVER` while a job owns it.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        expires_at: Time,
        /// Expiry can be put off to here at most.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        life_until: Time,
        /// A commit after expiry.
        #[serde(default, skip_serializing_if = "Cover::charges")]
        late: Cover,
        /// A commit above the held amount.
        #[serde(default, skip_serializing_if = "Cover::charges")]
        overrun: Cover,
        /// The job that owns it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
    },
    /// The real cost of a hold was posted.
    #[serde(rename = "hold.committed")]
    HoldCommitted {
        /// The hold.
        hold: HoldId,
        /// Its charges with their actual units, and what was left after them.
        charges: Vec<Charged>,
        /// It had expired.
        #[serde(default, skip_serializing_if = "is_false")]
        late: bool,
        /// Units above what was held.
        #[serde(default, skip_serializing_if = "is_zero")]
        overrun: i64,
    },
    /// A hold was given up.
    #[serde(rename = "hold.released")]
    HoldReleased {
        /// The hold.
        hold: HoldId,
        /// What was left after it.
        charges: Vec<Charged>,
    },
    /// A hold's time ran out.
    #[serde(rename = "hold.expired")]
    HoldExpired {
        /// The hold.
        hold: HoldId,
        /// When its time was over.
        at: Time,
        /// The scopes it held units on.
        scopes: Vec<Scope>,
    },
    /// A hold lives longer.
    #[serde(rename = "hold.extended")]
    HoldExtended {
        /// The hold.
        hold: HoldId,
        /// When it expires now.
        expires_at: Time,
        /// The scopes it holds units on.
        scopes: Vec<Scope>,
    },
    /// Units were spent at once.
    #[serde(rename = "spend.posted")]
    Posted {
        /// Where, and what was left.
        charges: Vec<Charged>,
    },
    /// Units were given back.
    #[serde(rename = "spend.credited")]
    Credited {
        /// Where, and what was left.
        charge: Charged,
        /// The instant it counts for.
        at: Time,
        /// The hold it corrects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<HoldId>,
        /// Units of it, on some scopes, that count for the commit of the hold: they take back what went beyond it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beyond: Option<Beyond>,
    },
    /// A budget was registered or changed.
    #[serde(rename = "budget.defined")]
    BudgetDefined {
        /// Where.
        scope: Scope,
        /// What it is now.
        budget: Box<Budget>,
    },
    /// A scope refuses new spend.
    #[serde(rename = "budget.frozen")]
    BudgetFrozen {
        /// Where.
        scope: Scope,
    },
    /// A scope passed its trip limit and refuses new spend.
    #[serde(rename = "budget.tripped")]
    BudgetTripped {
        /// Where.
        scope: Scope,
        /// The window of the trip limit.
        window: Window,
        /// The trip limit.
        limit: i64,
        /// What is spent.
        spent: i64,
        /// When the window turns, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// A scope admits spend again.
    #[serde(rename = "budget.unfrozen")]
    BudgetUnfrozen {
        /// Where.
        scope: Scope,
        /// By itself, as the window turned.
        #[serde(default, skip_serializing_if = "is_false")]
        turned: bool,
    },
    /// Posted spend reached a threshold of a limit.
    #[serde(rename = "budget.crossed")]
    BudgetCrossed {
        /// Where.
        scope: Scope,
        /// The window of the limit.
        window: Window,
        /// The threshold.
        percent: u32,
        /// The limit.
        limit: i64,
        /// What is spent.
        spent: i64,
    },
    /// Posted spend fell below a threshold again.
    #[serde(rename = "budget.cleared")]
    BudgetCleared {
        /// Where.
        scope: Scope,
        /// The window of the limit.
        window: Window,
        /// The threshold.
        percent: u32,
    },
    /// A grant was made.
    #[serde(rename = "grant.minted")]
    GrantMinted {
        /// The new grant.
        grant: GrantId,
        /// The digest of its secret.
        digest: TokenDigest,
        /// What it permits.
        purpose: Purpose,
        /// Whom.
        subject: Subject,
        /// What its redeemer is told.
        payload: Payload,
        /// Until when.
        expires_at: Time,
    },
    /// A grant was used up.
    #[serde(rename = "grant.redeemed")]
    GrantRedeemed {
        /// The grant.
        grant: GrantId,
        /// What it permitted.
        purpose: Purpose,
    },
    /// A grant was taken back.
    #[serde(rename = "grant.revoked")]
    GrantRevoked {
        /// The grant.
        grant: GrantId,
    },
    /// A grant that had expired was removed.
    #[serde(rename = "grant.purged")]
    GrantPurged {
        /// The grant.
        grant: GrantId,
    },
    /// A job was enqueued.
    #[serde(rename = "job.enqueued")]
    JobEnqueued {
        /// The new job.
        job: JobId,
        /// What was asked for, with the payload it got.
        spec: Box<JobSpec>,
        /// Not before this.
        run_at: Time,
        /// The hold that its end settles.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<HoldId>,
    },
    /// A job with this key was there already; nothing was enqueued.
    #[serde(rename = "job.found")]
    JobFound {
        /// The job that was there.
        job: JobId,
    },
    /// A worker took a job.
    #[serde(rename = "job.leased")]
    JobLeased {
        /// The job.
        job: JobId,
        /// The number of the lease.
        fence: u64,
        /// Which attempt it is.
        attempt: u32,
        /// Who.
        worker: WorkerName,
        /// How long it lasts without a heartbeat.
        lease: Span,
        /// The run is over here.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        deadline: Time,
        /// The scopes it takes a slot of.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        slots: Vec<Scope>,
    },
    /// A job is done.
    #[serde(rename = "job.succeeded")]
    JobSucceeded {
        /// The job.
        job: JobId,
        /// By which lease.
        fence: u64,
        /// What came of it.
        #[serde(default, skip_serializing_if = "is_null")]
        result: Payload,
    },
    /// An attempt did not work.
    #[serde(rename = "job.failed")]
    JobFailed {
        /// The job.
        job: JobId,
        /// By which lease.
        fence: u64,
        /// Which attempt it was.
        attempt: u32,
        /// Who tried.
        worker: WorkerName,
        /// What went wrong.
        error: JobError,
        /// When it is tried again; it is dead, cancelled or parked otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_at: Option<Time>,
    },
    /// A lease lapsed.
    #[serde(rename = "job.rescued")]
    JobRescued {
        /// The job.
        job: JobId,
        /// Which lease.
        fence: u64,
        /// Which attempt it was.
        attempt: u32,
        /// Who had it.
        worker: WorkerName,
        /// What went wrong.
        error: JobError,
        /// When it is tried again; it is dead, cancelled or parked otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_at: Option<Time>,
    },
    /// A worker put a job off; it was no attempt.
    #[serde(rename = "job.snoozed")]
    JobSnoozed {
        /// The job.
        job: JobId,
        /// By which lease.
        fence: u64,
        /// Until when.
        run_at: Time,
    },
    /// A worker handed a job back; it was no attempt.
    #[serde(rename = "job.returned")]
    JobReturned {
        /// The job.
        job: JobId,
        /// By which lease.
        fence: u64,
    },
    /// A job has no attempt left.
    #[serde(rename = "job.dead_lettered")]
    JobDied {
        /// The job.
        job: JobId,
    },
    /// A job waits for units of a budget.
    #[serde(rename = "job.parked")]
    JobParked {
        /// The job.
        job: JobId,
        /// Where they are lacking.
        scope: Scope,
        /// When it is looked at again, whatever else wakes it.
        run_at: Time,
    },
    /// A job's budget admits another attempt.
    #[serde(rename = "job.resumed")]
    JobResumed {
        /// The job.
        job: JobId,
        /// The scope it waited for.
        scope: Scope,
        /// The hold of that attempt.
        hold: HoldId,
    },
    /// A job that was given up is to be tried again.
    #[serde(rename = "job.retried")]
    JobRetried {
        /// The job.
        job: JobId,
        /// The hold of the next attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<HoldId>,
    },
    /// The hold of an attempt is settled, and this one is for the next.
    #[serde(rename = "job.funded")]
    JobFunded {
        /// The job.
        job: JobId,
        /// The hold.
        hold: HoldId,
    },
    /// Somebody wants a job cancelled that runs; its worker is told.
    #[serde(rename = "job.cancelling")]
    JobCancelling {
        /// The job.
        job: JobId,
    },
    /// A job is cancelled.
    #[serde(rename = "job.cancelled")]
    JobCancelled {
        /// The job.
        job: JobId,
    },
    /// A dead job is not wanted any more.
    #[serde(rename = "job.discarded")]
    JobDiscarded {
        /// The job.
        job: JobId,
    },
    /// A job waits in another queue.
    #[serde(rename = "job.moved")]
    JobMoved {
        /// The job.
        job: JobId,
        /// Where it waits now.
        queue: Queue,
    },
    /// A waiting job was put elsewhere in its queue.
    #[serde(rename = "job.edited")]
    JobEdited {
        /// The job.
        job: JobId,
        /// Its priority now.
        priority: i16,
        /// Not before this.
        run_at: Time,
    },
    /// What a job really cost was charged beside its hold.
    #[serde(rename = "job.billed")]
    JobBilled {
        /// The job.
        job: JobId,
        /// The lease that reported it.
        fence: u64,
        /// Where, and what was left.
        charges: Vec<Charged>,
        /// The lease had been lost.
        #[serde(default, skip_serializing_if = "is_false")]
        lost: bool,
    },
    /// A finished job was removed when its time was over.
    #[serde(rename = "job.forgotten")]
    JobForgotten {
        /// The job.
        job: JobId,
    },
    /// A queue was set up or changed.
    #[serde(rename = "queue.defined")]
    QueueDefined {
        /// Which queue.
        queue: Queue,
        /// What is set for it.
        config: Box<QueueConfig>,
    },
    /// A schedule was registered or changed.
    #[serde(rename = "schedule.defined")]
    ScheduleDefined {
        /// Which one.
        schedule: ScheduleName,
        /// What it is now.
        spec: Box<ScheduleSpec>,
        /// Its next tick.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        next_at: Time,
    },
    /// A schedule was removed.
    #[serde(rename = "schedule.removed")]
    ScheduleRemoved {
        /// Which one.
        schedule: ScheduleName,
    },
    /// A job was enqueued for a tick.
    #[serde(rename = "schedule.ticked")]
    ScheduleTicked {
        /// Of which schedule.
        schedule: ScheduleName,
        /// Which tick.
        tick: Time,
        /// The job.
        job: JobId,
        /// Its next tick.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        next_at: Time,
    },
    /// Ticks passed for which nothing was to be enqueued.
    #[serde(rename = "schedule.skipped")]
    ScheduleSkipped {
        /// Of which schedule.
        schedule: ScheduleName,
        /// The last of them.
        tick: Time,
        /// Its next tick.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        next_at: Time,
    },
}

/// A charge with what its limits left afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    /// The scope that was named.
    pub scope: Scope,
    /// The units.
    pub amount: i64,
    /// The units it was committed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<i64>,
    /// Its ancestors, which are charged the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<Scope>,
    /// Limits the caller gave beside the registered ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// What each limit left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balances: Vec<Left>,
}

impl Charged {
    pub(crate) fn new(charge: HeldCharge, balances: Vec<Left>) -> Charged {
        let HeldCharge { scope, amount, actual, ancestors, limits } = charge;
        Charged { scope, amount, actual, ancestors, limits, balances }
    }

    /// The charge alone.
    pub(crate) fn charge(&self) -> HeldCharge {
        HeldCharge {
            scope: self.scope.clone(),
            amount: self.amount,
            actual: self.actual,
            ancestors: self.ancestors.clone(),
            limits: self.limits.clone(),
        }
    }

    /// The scopes it is charged to.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.scope).chain(&self.ancestors)
    }
}

/// What a limit left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// On which scope, where it is not the charged one but an ancestor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Over which window.
    pub window: Window,
    /// The limit.
    pub limit: i64,
    /// What was left.
    pub remaining: i64,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn never() -> Time {
    Time::NEVER
}

fn is_never(time: &Time) -> bool {
    *time == Time::NEVER
}

fn is_null(payload: &Payload) -> bool {
    *payload == Payload::default()
}

fn is_zero(amount: &i64) -> bool {
    *amount == 0
}

/// An event with its version in its stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The version of the stream after it.
    pub v: u64,
    /// What happened.
    pub e: Event,
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

/// A thing whose events can be followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// A scope and its budget.
    Scope(Tenant, Scope),
    /// A hold.
    Hold(HoldId),
    /// A grant.
    Grant(GrantId),
    /// A job.
    Job(JobId),
    /// A queue.
    Queue(Tenant, Queue),
    /// A schedule.
    Schedule(Tenant, ScheduleName),
    /// What belongs to none of these: the command itself.
    Command(CommandId),
}

impl Stream {
    /// Its name among the links of a batch. A tab cannot be part of a name, so that no two things share one.
    pub fn link(&self) -> String {
        let (mut link, kind) = (String::with_capacity(64), self.kind());
        link.push_str(kind);
        link.push(':');
        match self {
            Stream::Scope(tenant, scope) => link.extend([tenant.as_str(), "\t", scope.as_str()]),
            Stream::Hold(id) => link.push_str(id.text().as_str()),
            Stream::Grant(id) => link.push_str(id.text().as_str()),
            Stream::Job(id) => link.push_str(id.text().as_str()),
            Stream::Queue(tenant, queue) => link.extend([tenant.as_str(), "\t", queue.as_str()]),
            Stream::Schedule(tenant, name) => link.extend([tenant.as_str(), "\t", name.as_str()]),
            Stream::Command(id) => link.push_str(id.text().as_str()),
        }
        link
    }

    /// The kind of thing.
    pub fn kind(&self) -> &'static str {
        match self {
            Stream::Scope(..) => "scope",
            Stream::Hold(_) => "hold",
            Stream::Grant(_) => "grant",
            Stream::Job(_) => "job",
            Stream::Queue(..) => "queue",
            Stream::Schedule(..) => "schedule",
            Stream::Command(_) => "command",
        }
    }
}

/// Its id; for a scope the name.
impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stream::Scope(tenant, scope) => write!(f, "{tenant}/{scope}"),
            Stream::Hold(id) => write!(f, "{id}"),
            Stream::Grant(id) => write!(f, "{id}"),
            Stream::Job(id) => write!(f, "{id}"),
            Stream::Queue(tenant, queue) => write!(f, "{tenant}/{queue}"),
            Stream::Schedule(tenant, name) => write!(f, "{tenant}/{name}"),
            Stream::Command(id) => write!(f, "{id}"),
        }
    }
}

impl Event {
    /// Its kind: `hold.placed`.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::HoldPlaced { .. } => "hold.placed",
            Event::HoldCommitted { .. } => "hold.committed",
            Event::HoldReleased { .. } => "hold.released",
            Event::HoldExpired { .. } => "hold.expired",
            Event::HoldExtended { .. } => "hold.extended",
            Event::Posted { .. } => "spend.posted",
            Event::Credited { .. } => "spend.credited",
            Event::BudgetDefined { .. } => "budget.defined",
            Event::BudgetFrozen { .. } => "budget.frozen",
            Event::BudgetTripped { .. } => "budget.tripped",
            Event::BudgetUnfrozen { .. } => "budget.unfrozen",
            Event::BudgetCrossed { .. } => "budget.crossed",
            Event::BudgetCleared { .. } => "budget.cleared",
            Event::GrantMinted { .. } => "grant.minted",
            Event::GrantRedeemed { .. } => "grant.redeemed",
            Event::GrantRevoked { .. } => "grant.revoked",
            Event::GrantPurged { .. } => "grant.purged",
            Event::JobEnqueued { .. } => "job.enqueued",
            Event::JobFound { .. } => "job.found",
            Event::JobLeased { .. } => "job.leased",
            Event::JobSucceeded { .. } => "job.succeeded",
            Event::JobFailed { .. } => "job.failed",
            Event::JobRescued { .. } => "job.rescued",
            Event::JobSnoozed { .. } => "job.snoozed",
            Event::JobReturned { .. } => "job.returned",
            Event::JobDied { .. } => "job.dead_lettered",
            Event::JobParked { .. } => "job.parked",
            Event::JobResumed { .. } => "job.resumed",
            Event::JobRetried { .. } => "job.retried",
            Event::JobFunded { .. } => "job.funded",
            Event::JobCancelling { .. } => "job.cancelling",
            Event::JobCancelled { .. } => "job.cancelled",
            Event::JobDiscarded { .. } => "job.discarded",
            Event::JobMoved { .. } => "job.moved",
            Event::JobEdited { .. } => "job.edited",
            Event::JobBilled { .. } => "job.billed",
            Event::JobForgotten { .. } => "job.forgotten",
            Event::QueueDefined { .. } => "queue.defined",
            Event::ScheduleDefined { .. } => "schedule.defined",
            Event::ScheduleRemoved { .. } => "schedule.removed",
            Event::ScheduleTicked { .. } => "schedule.ticked",
            Event::ScheduleSkipped { .. } => "schedule.skipped",
        }
    }

    /// The stream it belongs to.
    pub fn stream(&self, tenant: &Tenant, command: CommandId) -> Stream {
        match self {
            Event::HoldPlaced { hold, .. }
            | Event::HoldCommitted { hold, .. }
            | Event::HoldReleased { hold, .. }
            | Event::HoldExpired { hold, .. }
            | Event::HoldExtended { hold, .. } => Stream::Hold(*hold),
            Event::Posted { .. } => Stream::Command(command),
            Event::Credited { charge, .. } => Stream::Scope(tenant.clone(), charge.scope.clone()),
            Event::BudgetDefined { scope, .. }
            | Event::BudgetFrozen { scope }
            | Event::BudgetTripped { scope, .. }
            | Event::BudgetUnfrozen { scope, .. }
            | Event::BudgetCrossed { scope, .. }
            | Event::BudgetCleared { scope, .. } => Stream::Scope(tenant.clone(), scope.clone()),
            Event::GrantMinted { grant, .. }
            | Event::GrantRedeemed { grant, .. }
            | Event::GrantRevoked { grant }
            | Event::GrantPurged { grant } => Stream::Grant(*grant),
            Event::QueueDefined { queue, .. } => Stream::Queue(tenant.clone(), queue.clone()),
            Event::ScheduleDefined { schedule, .. }
            | Event::ScheduleRemoved { schedule }
            | Event::ScheduleTicked { schedule, .. }
            | Event::ScheduleSkipped { schedule, .. } => Stream::Schedule(tenant.clone(), schedule.clone()),
            _ => Stream::Job(self.job().expect("what is left are events of jobs")),
        }
    }

    /// The job it is of.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Event::JobEnqueued { job, .. }
            | Event::JobFound { job }
            | Event::JobLeased { job, .. }
            | Event::JobSucceeded { job, .. }
            | Event::JobFailed { job, .. }
            | Event::JobRescued { job, .. }
            | Event::JobSnoozed { job, .. }
            | Event::JobReturned { job, .. }
            | Event::JobDied { job }
            | Event::JobParked { job, .. }
            | Event::JobResumed { job, .. }
            | Event::JobRetried { job, .. }
            | Event::JobFunded { job, .. }
            | Event::JobCancelling { job }
            | Event::JobCancelled { job }
            | Event::JobDiscarded { job }
            | Event::JobMoved { job, .. }
            | Event::JobEdited { job, .. }
            | Event::JobBilled { job, .. }
            | Event::JobForgotten { job } => Some(*job),
            _ => None,
        }
    }

    fn payload(&self) -> Option<&Payload> {
        match self {
            Event::JobEnqueued { spec, .. } => Some(&spec.payload),
            Event::JobSucceeded { result, .. } => Some(result),
            Event::GrantMinted { payload, .. } => Some(payload),
            _ => None,
        }
    }

    /// The scopes whose balances it moves, beside its own stream.
    pub fn scopes(&self) -> Vec<&Scope> {
        let charges = match self {
            Event::HoldPlaced { charges, .. }
            | Event::HoldCommitted { charges, .. }
            | Event::HoldReleased { charges, .. }
            | Event::JobBilled { charges, .. }
            | Event::Posted { charges } => charges.as_slice(),
            Event::JobLeased { slots, .. } => return slots.iter().collect(),
            Event::Credited { charge, .. } => std::slice::from_ref(charge),
            Event::HoldExpired { scopes, .. } | Event::HoldExtended { scopes, .. } => return scopes.iter().collect(),
            _ => &[],
        };
        charges.iter().flat_map(Charged::scopes).collect()
    }
}
