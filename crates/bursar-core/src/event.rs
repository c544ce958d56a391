//! Events: every change of state, as the journal keeps it.

mod charged;
mod journal;
mod set_back;
mod stream;

use serde::{Deserialize, Serialize};

pub use self::charged::{Charged, Left};
pub use self::journal::{Acted, ActedOn, Batch, Entry, KeyUse, Links, Recorded};
pub use self::set_back::SetBack;
pub use self::stream::Stream;
use crate::budget::{Budget, Cover};
use crate::grant::TokenDigest;
use crate::hold::Beyond;
use crate::id::{GrantId, HoldId, JobId};
use crate::job::{JobError, JobSpec, QueueConfig, ScheduleSpec};
use crate::name::{LeaseOwner, Purpose, Queue, ScheduleName, Scope, Subject, WorkerName};
use crate::payload::Payload;
use crate::time::{Span, Time};
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
    /// A grant expires sooner than it was to.
    #[serde(rename = "grant.curtailed")]
    GrantCurtailed {
        /// The grant.
        grant: GrantId,
        /// Until when it is good now.
        expires_at: Time,
    },
    /// A credential was used, for the first time in a while.
    #[serde(rename = "grant.used")]
    GrantUsed {
        /// The credential.
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
        /// The principal that the lease is bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<LeaseOwner>,
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
            Event::GrantCurtailed { .. } => "grant.curtailed",
            Event::GrantUsed { .. } => "grant.used",
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

    pub(crate) fn payload(&self) -> Option<&Payload> {
        match self {
            Event::JobEnqueued { spec, .. } => Some(&spec.payload),
            Event::JobSucceeded { result, .. } => Some(result),
            Event::GrantMinted { payload, .. } => Some(payload),
            _ => None,
        }
    }
}
