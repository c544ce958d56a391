//! Refusals: every reason for which a request is not done. A refused request changes nothing.

mod reason;

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

pub use self::reason::RefusalReason;
use crate::blob::BlobState;
use crate::bounds::{BLOB_REFERENCES_MAX, DEPTH_MAX, SCOPES_MAX, WINDOWS_MAX};
use crate::grant::GrantFault;
use crate::hold::HoldState;
use crate::id::{BlobId, GrantId, HoldId, JobId};
use crate::job::JobState;
use crate::name::{IdempotencyKey, Purpose, ScheduleName, Scope};
use crate::notation::{Unit, about};
use crate::time::{Span, Time};
use crate::window::{Window, Zone};

/// Input that is invalid in any state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// The path of the field in the request, such as `charges[0].amount`.
    pub field: Cow<'static, str>,
    /// What is wrong with it.
    pub problem: String,
}

impl Invalid {
    /// Creates an error about `field`.
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Invalid {
        Invalid { field: field.into(), problem: problem.into() }
    }

    /// Returns the error about a field of `parent`, such as `hold.ttl_ms` for `ttl_ms`.
    #[must_use]
    pub fn within(self, parent: &str) -> Invalid {
        Invalid { field: format!("{parent}.{}", self.field).into(), ..self }
    }

    /// Returns the error about a field of an entry of `list`, such as `charges[0].amount` for `amount`.
    #[must_use]
    pub fn of_entry(self, list: &str, index: usize) -> Invalid {
        Invalid { field: format!("{list}[{index}].{}", self.field).into(), ..self }
    }
}

/// Why a request was refused. Nothing was changed, except what [`Refusal::LeaseLost`] reports as charged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A limit, a freeze or a grant does not admit it.
    #[error("refused: {}", List(.0))]
    Refused(Vec<Violation>),
    /// The scope has no budget, and the request gives no limit for it.
    #[error(
        "scope {scope} is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits"
    )]
    UnknownScope {
        /// The scope.
        scope: Scope,
    },
    /// There is no such hold.
    #[error("there is no hold {hold}")]
    UnknownHold {
        /// The requested id.
        hold: HoldId,
    },
    /// There is no such grant.
    #[error("there is no grant {grant}")]
    UnknownGrant {
        /// The requested id.
        grant: GrantId,
    },
    /// The hold has been committed, released or recorded as expired.
    #[error("hold {hold} is already {state}")]
    AlreadySettled {
        /// The hold.
        hold: HoldId,
        /// Its state.
        state: HoldState,
    },
    /// An expired hold cannot be extended.
    #[error("hold {hold} expired at {at}: place a new one")]
    HoldExpired {
        /// The hold.
        hold: HoldId,
        /// When it expired.
        at: Time,
    },
    /// The hold's policy refuses a commit after expiry.
    #[error("hold {hold} expired at {at} and its policy refuses late commits: place a new one")]
    LateRefused {
        /// The hold.
        hold: HoldId,
        /// When it expired.
        at: Time,
    },
    /// The hold's policy refuses a commit above the held amount.
    #[error("{actual} cannot be committed on {scope}: {hold} holds {held}, and its policy refuses overruns")]
    OverrunRefused {
        /// The hold.
        hold: HoldId,
        /// The scope.
        scope: Scope,
        /// The units held on it.
        held: i64,
        /// The units to be committed.
        actual: i64,
    },
    /// The hold has reached its longest life.
    #[error("hold {hold} cannot be extended beyond {until}, its longest life")]
    LifeExceeded {
        /// The hold.
        hold: HoldId,
        /// The latest expiry it can have.
        until: Time,
    },
    /// A job owns the hold, and its end settles it.
    #[error("hold {hold} belongs to {job} and is settled when that job ends")]
    OwnedByJob {
        /// The hold.
        hold: HoldId,
        /// The job that owns it.
        job: JobId,
    },
    /// The hold has no charge on the named scope.
    #[error("hold {hold} has no charge on {scope}")]
    NoSuchCharge {
        /// The hold.
        hold: HoldId,
        /// The named scope.
        scope: Scope,
    },
    /// One amount was given for a hold with several charges.
    #[error("hold {hold} has {charges} charges: give an actual for each scope")]
    ActualAmbiguous {
        /// The hold.
        hold: HoldId,
        /// The number of its charges.
        charges: usize,
    },
    /// The grant has been redeemed, so it cannot be revoked.
    #[error("grant {grant} has already been redeemed")]
    AlreadyRedeemed {
        /// The grant.
        grant: GrantId,
    },
    /// The grant can still be redeemed, so its payload cannot be erased.
    #[error("grant {grant} can still be redeemed: revoke it before you erase its payload")]
    GrantOpen {
        /// The grant.
        grant: GrantId,
    },
    /// The grant has expired or was revoked, so it cannot be rotated.
    #[error("the token has expired or was revoked, so it cannot be replaced; nothing was changed; create a new one")]
    GrantOver {
        /// The grant.
        grant: GrantId,
    },
    /// The definition has changed since the caller read it, or does not exist.
    #[error("the {what} has changed since it was read, or does not exist: read it again")]
    Changed {
        /// What it is: `budget`, `queue`, `schedule`, `namespace`, `upload` or `job`.
        what: &'static str,
    },
    /// The idempotency key was used for another request.
    #[error("idempotency key {key} was used for a different request: use a new key, or repeat the same request")]
    KeyReused {
        /// The key.
        key: IdempotencyKey,
    },
    /// The scope would have too many windows.
    #[error("scope {scope} would have more than {WINDOWS_MAX} different windows: use those it has")]
    TooManyWindows {
        /// The scope.
        scope: Scope,
    },
    /// A budget would be its own ancestor.
    #[error("{scope} cannot have the parent {parent}: its chain of parents would be a cycle")]
    Cycle {
        /// The budget.
        scope: Scope,
        /// The requested parent.
        parent: Scope,
    },
    /// The budget cannot be removed while units are held on it or other budgets are below it.
    #[error("the budget {scope} cannot be removed: it has {}; nothing was changed", InUse(*.held, *.children))]
    BudgetInUse {
        /// The scope.
        scope: Scope,
        /// The units that live holds set aside on it.
        held: i64,
        /// The number of budgets whose parent it is.
        children: u64,
    },
    /// The unit of a budget cannot be changed once amounts were counted in it.
    #[error(
        "the budget {scope} counts {before}, and its spend and its holds are in that unit, so it cannot count {after}; \
         nothing was changed; keep the unit, or define a budget for another scope"
    )]
    UnitInUse {
        /// The scope.
        scope: Scope,
        /// The unit of the budget.
        before: String,
        /// The requested unit.
        after: String,
    },
    /// A chain of budgets would be too deep.
    #[error("the chain of budgets through {scope} would have more than {DEPTH_MAX} budgets")]
    TooDeep {
        /// The budget to be added to the chain.
        scope: Scope,
    },
    /// A calendar window has ended, and this build does not know the zone that says when the next one starts.
    #[error("scope {scope} has a window in the time zone {zone}, which this build does not know: update bursar")]
    UnknownZone {
        /// The scope.
        scope: Scope,
        /// The zone.
        zone: Zone,
    },
    /// A command touches too many scopes.
    #[error("the command touches {count} scopes, ancestors included; at most {SCOPES_MAX} are allowed: split it")]
    TooManyScopes {
        /// The number of scopes.
        count: usize,
    },
    /// There is no such job.
    #[error("there is no job {job}")]
    UnknownJob {
        /// The requested id.
        job: JobId,
    },
    /// There is no such schedule.
    #[error("there is no schedule {schedule}")]
    UnknownSchedule {
        /// The requested name.
        schedule: ScheduleName,
    },
    /// There is no such blob, or it is not live.
    #[error("there is no blob {blob}")]
    UnknownBlob {
        /// The requested id.
        blob: BlobId,
    },
    /// The upload has ended.
    #[error("the upload of {blob} is over: {}", match state {
        BlobState::Live => "it is stored",
        _ => "it took too long or was given up; begin a new one",
    })]
    UploadOver {
        /// The blob.
        blob: BlobId,
        /// Its state.
        state: BlobState,
    },
    /// The blob is larger than its namespace allows.
    #[error("the blob has {size} bytes; its namespace allows at most {most}")]
    BlobTooLarge {
        /// The length of the blob.
        size: u64,
        /// The most bytes of one blob.
        most: u64,
    },
    /// The uploaded bytes are not the announced ones.
    #[error("the upload of {blob} {problem}; nothing was stored")]
    BlobMismatch {
        /// The blob.
        blob: BlobId,
        /// What differs.
        problem: &'static str,
    },
    /// The application refers to the blob too often.
    #[error(
        "blob {blob} has {BLOB_REFERENCES_MAX} references of the application, which is the most: release one first"
    )]
    TooManyReferences {
        /// The blob.
        blob: BlobId,
    },
    /// The lease has ended. If it lapsed, what its worker reported as spent is charged, once.
    #[error("lease {fence} of {job} is no longer current: the job is now {state}{}", if *billed { "; the reported usage is charged" } else { "" })]
    LeaseLost {
        /// The job.
        job: JobId,
        /// The fence of the report.
        fence: u64,
        /// The state of the job.
        state: JobState,
        /// Whether reported spend of the lease is charged, now or by an earlier report.
        billed: bool,
    },
    /// The lease belongs to another principal.
    #[error(
        "lease {fence} of {job} belongs to another principal; only the principal that took the lease may report on it"
    )]
    ForeignLease {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
    },
    /// A principal reported usage of a scope that its job may not charge.
    #[error("usage of {job} may not be charged to {scope}: {}", if *held {
        "a job with a hold charges the scopes of its hold"
    } else {
        "the job has no hold, and the worker's capabilities do not name the scope among `charges`"
    })]
    ForeignCharge {
        /// The job.
        job: JobId,
        /// The scope.
        scope: Scope,
        /// Whether the job has a hold.
        held: bool,
    },
    /// The end of a lease was repeated with different usage.
    #[error("lease {fence} of {job} has ended, and a different usage was recorded for it: {}", Amounts(.recorded))]
    UsageRecorded {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
        /// The units charged for it, by scope.
        recorded: Vec<(Scope, i64)>,
    },
    /// The end of a lease was repeated with a blob that was not recorded for it.
    #[error("lease {fence} of {job} has ended, and {blob} was not recorded for it; the job does not refer to it")]
    BlobsRecorded {
        /// The job.
        job: JobId,
        /// The fence of the lease.
        fence: u64,
        /// The blob.
        blob: BlobId,
    },
    /// The state of the job does not allow the operation.
    #[error("{job} is {state}: {problem}")]
    WrongState {
        /// The job.
        job: JobId,
        /// Its state.
        state: JobState,
        /// Why the operation is not possible.
        problem: Cow<'static, str>,
    },
    /// Usage without a scope was reported for a job whose hold does not have exactly one charge.
    #[error("usage of {job} must name its scope: {}", match charges {
        0 => "the job has no hold".to_owned(),
        charges => format!("its hold has {charges} charges"),
    })]
    UsageAmbiguous {
        /// The job.
        job: JobId,
        /// The number of charges of its hold.
        charges: usize,
    },
    /// A balance would overflow 64 bits.
    #[error("the amount would take a balance of {scope} beyond 64 bits")]
    Overflow {
        /// The scope.
        scope: Scope,
    },
    /// The request is invalid in any state.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl Refusal {
    /// Estimates how long until the request could be admitted; `None` if time alone will not do it.
    pub fn retry_after(&self) -> Option<Span> {
        let Refusal::Refused(violations) = self else { return None };
        let waits = violations.iter().map(|violation| match violation {
            Violation::Limit { retry_after, .. } => *retry_after,
            Violation::Frozen { .. } | Violation::Grant { .. } => None,
        });
        // Every violation must be gone, so the longest wait counts.
        waits.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

/// One reason for a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Violation {
    /// A limit leaves too few units.
    Limit {
        /// The scope.
        scope: Scope,
        /// The window of the limit.
        window: Window,
        /// The amount of the limit.
        limit: i64,
        /// The units requested.
        requested: i64,
        /// The units left.
        available: i64,
        /// An estimate of how long until the charge could fit; `None` if time alone will not make it fit.
        retry_after: Option<Span>,
        /// Whether the charge could ever fit under this limit: in an empty window, or in this window without its holds.
        possible: bool,
        /// The unit of the scope's budget; one without a name if the scope has no budget.
        unit: Unit,
    },
    /// The scope is frozen.
    Frozen {
        /// The scope.
        scope: Scope,
    },
    /// A token was refused.
    Grant {
        /// The purpose it was presented for.
        purpose: Purpose,
        /// Why; for the log only, never sent to callers over the network.
        #[serde(skip)]
        fault: GrantFault,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Limit { scope, window, limit, requested, available, retry_after, possible, unit } => {
                let [limit, requested, available] = [limit, requested, available].map(|amount| unit.format(*amount));
                write!(f, "{scope} has {available} left of {limit} ({window}), {requested} requested")?;
                match retry_after {
                    Some(span) => write!(f, ", room for it in about {} (an estimate)", about(*span)),
                    None if !possible => f.write_str(", more than the limit itself"),
                    None => Ok(()),
                }
            }
            Violation::Frozen { scope } => write!(f, "{scope} is frozen"),
            Violation::Grant { purpose, .. } => write!(f, "the token is not valid for {purpose}"),
        }
    }
}

/// What keeps a budget from being removed: held units, budgets below it.
struct InUse(i64, u64);

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InUse(held, children) = *self;
        if held > 0 {
            write!(f, "{held} held (commit or release the holds)")?;
        }
        if children > 0 {
            let and = if held > 0 { ", and " } else { "" };
            let budgets = if children == 1 { "1 budget" } else { &format!("{children} budgets") };
            write!(f, "{and}{budgets} below it (remove them, or give them another parent)")?;
        }
        Ok(())
    }
}

struct Amounts<'a>(&'a [(Scope, i64)]);

impl fmt::Display for Amounts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (place, (scope, amount)) in self.0.iter().enumerate() {
            write!(f, "{}{amount} on {scope}", if place > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

struct List<'a>(&'a [Violation]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, violation) in self.0.iter().enumerate() {
            write!(f, "{}{violation}", if place > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}
