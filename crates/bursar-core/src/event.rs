//! Events: every change of state, as the journal records it.
//!
//! A request that has an effect becomes an [`Entry`] of events; all entries of one transaction are a [`Batch`], one row
//! of the journal. The answer to a request is rendered from its events, and replaying the journal applies the same
//! events again, so a repeated request gets the same answer and a rebuild gives the same rows.
//!
//! # Versions
//!
//! The journal is JSON text that any later build must read. So an event is never changed or removed: its name (the
//! `serde` rename) and its field names are fixed. A new field must have a default, and is left out when it has it, so
//! that old entries read as before. Every event also carries the version of its stream (`v` of [`Recorded`]), which
//! replay asserts.

mod blob;
mod charged;
mod checkpointed;
mod defaults;
mod journal;
mod kind;
mod leased;
mod set_back;
mod stream;

use serde::{Deserialize, Serialize};

pub use self::blob::{GrownBlob, StartedBlob, StoredBlob};
pub use self::charged::{Charged, Left};
pub use self::checkpointed::CheckpointedJob;
use self::defaults::{is_false, is_never, is_null, is_zero, never};
pub use self::journal::{Acted, Batch, Entry, KeyUse, Links, Recorded, RecordedAction};
pub use self::leased::LeasedJob;
pub use self::set_back::ClockCorrection;
pub use self::stream::Stream;
use crate::blob::{NamespaceConfig, Reference};
use crate::budget::{Budget, Cover, WouldRefuse};
use crate::grant::TokenDigest;
use crate::hold::{ClampedTtl, OnExpiry, Uncovered};
use crate::id::{BlobId, GrantId, HoldId, JobId};
use crate::job::{Emit, JobError, JobSpec, QueueConfig, ScheduleSpec};
use crate::name::{Backend, Namespace, Purpose, Queue, ScheduleName, Scope, Subject, WorkerName};
use crate::payload::Payload;
use crate::time::Time;
use crate::window::Window;

/// A change of state that has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Units were set aside.
    #[serde(rename = "hold.placed")]
    HoldPlaced {
        /// The new hold.
        hold: HoldId,
        /// Its charges, with what their limits left.
        charges: Vec<Charged>,
        /// When it expires; `NEVER` while a job owns it.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        expires_at: Time,
        /// The latest expiry that extensions can reach.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        life_until: Time,
        /// What happens to a commit after expiry.
        #[serde(default, skip_serializing_if = "Cover::charges")]
        late: Cover,
        /// What happens to a commit above the held amount.
        #[serde(default, skip_serializing_if = "Cover::charges")]
        overrun: Cover,
        /// The job that owns it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
        /// The requested time to live, if the budgets changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clamped: Option<ClampedTtl>,
        /// What its expiry does.
        #[serde(default, skip_serializing_if = "OnExpiry::is_release")]
        on_expiry: OnExpiry,
    },
    /// The actual units of a hold were posted.
    #[serde(rename = "hold.committed")]
    HoldCommitted {
        /// The hold.
        hold: HoldId,
        /// Its charges with their actual units, and what their limits left.
        charges: Vec<Charged>,
        /// Whether the hold had expired.
        #[serde(default, skip_serializing_if = "is_false")]
        late: bool,
        /// Units above those held, over all charges.
        #[serde(default, skip_serializing_if = "is_zero")]
        overrun: i64,
    },
    /// A hold was released.
    #[serde(rename = "hold.released")]
    HoldReleased {
        /// The hold.
        hold: HoldId,
        /// Its charges, with what their limits left.
        charges: Vec<Charged>,
    },
    /// A hold expired.
    #[serde(rename = "hold.expired")]
    HoldExpired {
        /// The hold.
        hold: HoldId,
        /// When it expired.
        at: Time,
        /// The scopes it held units on.
        scopes: Vec<Scope>,
        /// The units of each charge that the expiry posted.
        #[serde(default, skip_serializing_if = "is_zero")]
        charged: i64,
    },
    /// A hold was extended.
    #[serde(rename = "hold.extended")]
    HoldExtended {
        /// The hold.
        hold: HoldId,
        /// Its new expiry.
        expires_at: Time,
        /// The scopes it holds units on.
        scopes: Vec<Scope>,
        /// The requested extension, if the budgets' longest life of a hold changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clamped: Option<ClampedTtl>,
    },
    /// Units were spent without a hold.
    #[serde(rename = "spend.posted")]
    Posted {
        /// The charges, with what their limits left.
        charges: Vec<Charged>,
    },
    /// Units were credited.
    #[serde(rename = "spend.credited")]
    Credited {
        /// The charge that is credited, with what its limits left.
        charge: Charged,
        /// The instant that the credit counts for.
        at: Time,
        /// The hold it corrects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<HoldId>,
        /// The part of the credit that counts for the instant of the hold's commit: it reverses what the hold did not
        /// cover.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beyond: Option<Uncovered>,
        /// The units credited above all that the scope had spent.
        #[serde(default, skip_serializing_if = "is_zero")]
        excess: i64,
    },
    /// A budget was defined or replaced.
    #[serde(rename = "budget.defined")]
    BudgetDefined {
        /// The scope.
        scope: Scope,
        /// Its new definition.
        budget: Box<Budget>,
    },
    /// A budget was removed.
    #[serde(rename = "budget.removed")]
    BudgetRemoved {
        /// The scope.
        scope: Scope,
    },
    /// A caller froze a scope: it refuses new spend.
    #[serde(rename = "budget.frozen")]
    BudgetFrozen {
        /// The scope.
        scope: Scope,
    },
    /// Spend passed the trip limit of a scope, which froze it.
    #[serde(rename = "budget.tripped")]
    BudgetTripped {
        /// The scope.
        scope: Scope,
        /// The window of the trip limit.
        window: Window,
        /// The trip limit.
        limit: i64,
        /// The units spent in the window.
        spent: i64,
        /// When the window ends; `None` unless it is a calendar window.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// A scope admits spend again.
    #[serde(rename = "budget.unfrozen")]
    BudgetUnfrozen {
        /// The scope.
        scope: Scope,
        /// Whether the freeze ended by itself: the window of the trip limit was reset, or spend fell back.
        #[serde(default, skip_serializing_if = "is_false")]
        turned: bool,
    },
    /// Posted spend reached a threshold of a limit.
    #[serde(rename = "budget.crossed")]
    BudgetCrossed {
        /// The scope.
        scope: Scope,
        /// The window of the limit.
        window: Window,
        /// The threshold.
        percent: u32,
        /// The limit.
        limit: i64,
        /// The units spent in the window.
        spent: i64,
    },
    /// Posted spend fell below a threshold, or the threshold was removed.
    #[serde(rename = "budget.cleared")]
    BudgetCleared {
        /// The scope.
        scope: Scope,
        /// The window of the limit.
        window: Window,
        /// The threshold.
        percent: u32,
    },
    /// A budget in shadow mode admitted what it would have refused otherwise.
    #[serde(rename = "budget.would_refuse")]
    BudgetWouldRefuse(WouldRefuse),
    /// A grant was minted.
    #[serde(rename = "grant.minted")]
    GrantMinted {
        /// The new grant.
        grant: GrantId,
        /// The digest of its secret.
        digest: TokenDigest,
        /// The purpose it permits.
        purpose: Purpose,
        /// The subject it is for.
        subject: Subject,
        /// The payload returned to the caller that redeems it.
        payload: Payload,
        /// When it expires.
        expires_at: Time,
    },
    /// A grant was redeemed.
    #[serde(rename = "grant.redeemed")]
    GrantRedeemed {
        /// The grant.
        grant: GrantId,
        /// The purpose it was redeemed for.
        purpose: Purpose,
    },
    /// A grant was revoked.
    #[serde(rename = "grant.revoked")]
    GrantRevoked {
        /// The grant.
        grant: GrantId,
    },
    /// The payload of a grant was erased.
    #[serde(rename = "grant.erased")]
    GrantErased {
        /// The grant.
        grant: GrantId,
    },
    /// The expiry of a grant was moved to an earlier instant, because the grant was rotated.
    #[serde(rename = "grant.curtailed")]
    GrantCurtailed {
        /// The grant.
        grant: GrantId,
        /// Its new expiry.
        expires_at: Time,
    },
    /// A credential was used. Not every use is recorded.
    #[serde(rename = "grant.used")]
    GrantUsed {
        /// The credential.
        grant: GrantId,
    },
    /// An expired grant was removed.
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
        /// The requested job, with the payload it got.
        spec: Box<JobSpec>,
        /// The instant from which it may run.
        run_at: Time,
        /// The hold that the job owns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<HoldId>,
    },
    /// A job with this idempotency key existed already, so nothing was enqueued.
    #[serde(rename = "job.found")]
    JobFound {
        /// The existing job.
        job: JobId,
    },
    /// A worker leased a job.
    #[serde(rename = "job.leased")]
    JobLeased(LeasedJob),
    /// A job succeeded.
    #[serde(rename = "job.succeeded")]
    JobSucceeded {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
        /// The result that the worker reported.
        #[serde(default, skip_serializing_if = "is_null")]
        result: Payload,
    },
    /// An attempt failed.
    #[serde(rename = "job.failed")]
    JobFailed {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The worker that ran it.
        worker: WorkerName,
        /// The error.
        error: JobError,
        /// When it is retried; `None` if the job is dead, cancelled or parked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_at: Option<Time>,
    },
    /// A lease lapsed: there was no heartbeat in time, or the attempt passed its deadline.
    #[serde(rename = "job.rescued")]
    JobRescued {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The worker that held the lease.
        worker: WorkerName,
        /// The error.
        error: JobError,
        /// When it is retried; `None` if the job is dead, cancelled or parked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_at: Option<Time>,
    },
    /// A worker reported a checkpoint, which the next lease of the job carries.
    #[serde(rename = "job.checkpointed")]
    JobCheckpointed(CheckpointedJob),
    /// A worker emitted an event of the application.
    #[serde(rename = "job.emitted")]
    JobEmitted(Emit),
    /// A worker postponed a job; this does not count as an attempt.
    #[serde(rename = "job.snoozed")]
    JobSnoozed {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
        /// The instant from which it may run.
        run_at: Time,
    },
    /// A worker returned a job; this does not count as an attempt.
    #[serde(rename = "job.returned")]
    JobReturned {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
    },
    /// A job is dead: its last attempt failed, or the error is not retryable.
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
        /// The scope that refused the hold.
        scope: Scope,
        /// When it is tried again at the latest.
        run_at: Time,
    },
    /// The budget of a parked job admitted another attempt.
    #[serde(rename = "job.resumed")]
    JobResumed {
        /// The job.
        job: JobId,
        /// The scope it waited for.
        scope: Scope,
        /// The hold of that attempt.
        hold: HoldId,
    },
    /// A dead or cancelled job was made to run again.
    #[serde(rename = "job.retried")]
    JobRetried {
        /// The job.
        job: JobId,
        /// The hold of the next attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<HoldId>,
    },
    /// A job got a new hold for its next attempt, because the last one was committed.
    #[serde(rename = "job.funded")]
    JobFunded {
        /// The job.
        job: JobId,
        /// The hold.
        hold: HoldId,
    },
    /// The cancellation of a leased job was requested; its worker learns of it with the next heartbeat.
    #[serde(rename = "job.cancelling")]
    JobCancelling {
        /// The job.
        job: JobId,
    },
    /// A job was cancelled.
    #[serde(rename = "job.cancelled")]
    JobCancelled {
        /// The job.
        job: JobId,
    },
    /// A dead job was discarded.
    #[serde(rename = "job.discarded")]
    JobDiscarded {
        /// The job.
        job: JobId,
    },
    /// The payload, the result and the checkpoint of a job were erased.
    #[serde(rename = "job.erased")]
    JobErased {
        /// The job.
        job: JobId,
    },
    /// A job was moved to another queue.
    #[serde(rename = "job.moved")]
    JobMoved {
        /// The job.
        job: JobId,
        /// Its new queue.
        queue: Queue,
    },
    /// The priority or start time of a waiting job was changed.
    #[serde(rename = "job.edited")]
    JobEdited {
        /// The job.
        job: JobId,
        /// Its new priority.
        priority: i16,
        /// The instant from which it may run.
        run_at: Time,
    },
    /// Spend of a job was charged without a hold.
    #[serde(rename = "job.billed")]
    JobBilled {
        /// The job.
        job: JobId,
        /// The fence of the lease that reported it.
        fence: u64,
        /// The charges, with what their limits left.
        charges: Vec<Charged>,
        /// Whether the lease had lapsed.
        #[serde(default, skip_serializing_if = "is_false")]
        lost: bool,
    },
    /// A finished job was removed after its retention.
    #[serde(rename = "job.forgotten")]
    JobForgotten {
        /// The job.
        job: JobId,
    },
    /// A queue was configured.
    #[serde(rename = "queue.defined")]
    QueueDefined {
        /// The queue.
        queue: Queue,
        /// Its new configuration.
        config: Box<QueueConfig>,
    },
    /// A schedule was defined or replaced.
    #[serde(rename = "schedule.defined")]
    ScheduleDefined {
        /// The schedule.
        schedule: ScheduleName,
        /// Its new definition.
        spec: Box<ScheduleSpec>,
        /// The next tick of the schedule; `NEVER` if there is none.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        next_at: Time,
    },
    /// A schedule was removed.
    #[serde(rename = "schedule.removed")]
    ScheduleRemoved {
        /// The schedule.
        schedule: ScheduleName,
    },
    /// A job was enqueued for a tick.
    #[serde(rename = "schedule.ticked")]
    ScheduleTicked {
        /// The schedule.
        schedule: ScheduleName,
        /// The instant of the tick.
        tick: Time,
        /// The job.
        job: JobId,
        /// The next tick of the schedule; `NEVER` if there is none.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        next_at: Time,
    },
    /// The rules of a namespace were defined or replaced.
    #[serde(rename = "namespace.defined")]
    NamespaceDefined {
        /// The namespace.
        namespace: Namespace,
        /// Its new rules.
        config: Box<NamespaceConfig>,
    },
    /// The upload of a blob began.
    #[serde(rename = "blob.started")]
    BlobStarted(StartedBlob),
    /// An upload went on.
    #[serde(rename = "blob.grown")]
    BlobGrown(GrownBlob),
    /// The bytes of a blob are stored and verified: it is live.
    #[serde(rename = "blob.stored")]
    BlobStored(StoredBlob),
    /// Something began to refer to a blob.
    #[serde(rename = "blob.referenced")]
    BlobReferenced {
        /// The blob.
        blob: BlobId,
        /// What refers to it.
        by: Reference,
    },
    /// Something no longer refers to a blob.
    #[serde(rename = "blob.released")]
    BlobReleased {
        /// The blob.
        blob: BlobId,
        /// What referred to it.
        by: Reference,
        /// When it is collected if nothing refers to it.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        due_at: Time,
    },
    /// A blob was deleted; it can be restored until it is collected.
    #[serde(rename = "blob.deleted")]
    BlobDeleted {
        /// The blob.
        blob: BlobId,
        /// When it is collected, unless something refers to it.
        due_at: Time,
    },
    /// A deleted blob was restored.
    #[serde(rename = "blob.restored")]
    BlobRestored {
        /// The blob.
        blob: BlobId,
        /// When it is collected if nothing refers to it.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        due_at: Time,
    },
    /// Another backend has the bytes of a blob now.
    #[serde(rename = "blob.moved")]
    BlobMoved {
        /// The blob.
        blob: BlobId,
        /// The backend.
        backend: Backend,
    },
    /// Nothing needs a blob any more: its bytes may be deleted.
    #[serde(rename = "blob.doomed")]
    BlobDoomed {
        /// The blob.
        blob: BlobId,
        /// The live blob with the same bytes, which was the answer to the upload.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<BlobId>,
    },
    /// The bytes of a doomed blob were deleted, and its row is removed.
    #[serde(rename = "blob.collected")]
    BlobCollected {
        /// The blob.
        blob: BlobId,
    },
    /// Ticks passed without a job, because they were missed or the last job still ran.
    #[serde(rename = "schedule.skipped")]
    ScheduleSkipped {
        /// The schedule.
        schedule: ScheduleName,
        /// The instant of the last of them.
        tick: Time,
        /// The next tick of the schedule; `NEVER` if there is none.
        #[serde(default = "never", skip_serializing_if = "is_never")]
        next_at: Time,
    },
}
