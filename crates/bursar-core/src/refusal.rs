//! Every way in which a request is not done, by name.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::bounds::{DEPTH_MAX, SCOPES_MAX, WINDOWS_MAX};
use crate::grant::GrantFault;
use crate::hold::HoldState;
use crate::id::{GrantId, HoldId, JobId};
use crate::job::JobState;
use crate::name::{IdempotencyKey, Purpose, ScheduleName, Scope};
use crate::time::{Span, Time};
use crate::window::{Window, Zone};

/// Input that no state of the world would make right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// Which part of the request.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Invalid {
    /// `field` has this problem.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Invalid {
        Invalid { field, problem: problem.into() }
    }
}

/// Why a request was not done. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Limits, freezes or grants do not admit it.
    #[error("refused: {}", List(.0))]
    Refused(Vec<Violation>),
    /// Neither a budget nor the request limits the scope.
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
        /// The id asked for.
        hold: HoldId,
    },
    /// There is no such grant.
    #[error("there is no grant {grant}")]
    UnknownGrant {
        /// The id asked for.
        grant: GrantId,
    },
    /// The hold has been settled before.
    #[error("hold {hold} is {state} already")]
    AlreadySettled {
        /// The hold.
        hold: HoldId,
        /// The state it is in.
        state: HoldState,
    },
    /// An expired hold cannot be extended.
    #[error("hold {hold} expired at {at}: place a new one")]
    HoldExpired {
        /// The hold.
        hold: HoldId,
        /// When.
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
    #[error("{actual} is above the {held} that {hold} holds on {scope}, and its policy refuses overruns")]
    OverrunRefused {
        /// The hold.
        hold: HoldId,
        /// Where.
        scope: Scope,
        /// What it holds there.
        held: i64,
        /// What was asked to be committed.
        actual: i64,
    },
    /// The hold cannot live longer.
    #[error("hold {hold} may not live beyond {until}")]
    LifeExceeded {
        /// The hold.
        hold: HoldId,
        /// The ceiling over its whole life.
        until: Time,
    },
    /// A job settles this hold.
    #[error("hold {hold} belongs to {job}, whose end settles it")]
    OwnedByJob {
        /// The hold.
        hold: HoldId,
        /// Its owner.
        job: JobId,
    },
    /// The hold has no charge on the scope an actual was given for.
    #[error("hold {hold} has no charge on {scope}")]
    NoSuchCharge {
        /// The hold.
        hold: HoldId,
        /// The scope named.
        scope: Scope,
    },
    /// One amount was given for a hold of several charges.
    #[error("hold {hold} has {charges} charges: give an actual for each scope")]
    ActualAmbiguous {
        /// The hold.
        hold: HoldId,
        /// How many charges it has.
        charges: usize,
    },
    /// The grant has been redeemed, so it cannot be revoked.
    #[error("grant {grant} has been redeemed already")]
    AlreadyRedeemed {
        /// The grant.
        grant: GrantId,
    },
    /// The grant has expired or was taken back, so it cannot be replaced.
    #[error("grant {grant} has expired or was revoked: make a new one")]
    GrantOver {
        /// The grant.
        grant: GrantId,
    },
    /// What is defined is not what the caller has read.
    #[error("the {what} is not as it was read, or there is none: read it again")]
    Changed {
        /// What was to be changed.
        what: &'static str,
    },
    /// The idempotency key was used for another request.
    #[error("idempotency key {key} was used for a different request: use a new key, or repeat the same request")]
    KeyReused {
        /// The key.
        key: IdempotencyKey,
    },
    /// More windows on a scope than are kept.
    #[error("scope {scope} would have more than {WINDOWS_MAX} different windows: use those it has")]
    TooManyWindows {
        /// The scope.
        scope: Scope,
    },
    /// A budget would be its own ancestor.
    #[error("{scope} cannot be under {parent}: {parent} is {scope} or under it")]
    Cycle {
        /// The budget.
        scope: Scope,
        /// The parent it was to get.
        parent: Scope,
    },
    /// A chain of budgets is too long.
    #[error("there would be more than {DEPTH_MAX} budgets in a chain through {scope}")]
    TooDeep {
        /// The budget that was to be put in the chain.
        scope: Scope,
    },
    /// A calendar window has ended, and this build does not know the zone that says where the next one begins.
    #[error("scope {scope} has a window in the time zone {zone}, which this build does not know: update it")]
    UnknownZone {
        /// The scope.
        scope: Scope,
        /// The zone.
        zone: Zone,
    },
    /// A command touches too many scopes.
    #[error("the command touches {count} scopes, ancestors included; at most {SCOPES_MAX} are allowed: split it")]
    TooManyScopes {
        /// How many.
        count: usize,
    },
    /// There is no such job.
    #[error("there is no job {job}")]
    UnknownJob {
        /// The id asked for.
        job: JobId,
    },
    /// There is no such schedule.
    #[error("there is no schedule {schedule}")]
    UnknownSchedule {
        /// The name asked for.
        schedule: ScheduleName,
    },
    /// The lease is over, or somebody else has the job. What was reported as spent is charged, once.
    #[error("the lease {fence} of {job} is lost: the job is {state}{}", if *billed { "; what it spent is charged" } else { "" })]
    LeaseLost {
        /// The job.
        job: JobId,
        /// The lease it was asked with.
        fence: u64,
        /// The state the job is in.
        state: JobState,
        /// Spend that was reported with it has been charged.
        billed: bool,
    },
    /// Another principal took the lease.
    #[error("the lease {fence} of {job} belongs to another principal: only the one that took it may report on it")]
    ForeignLease {
        /// The job.
        job: JobId,
        /// The lease.
        fence: u64,
    },
    /// A principal reports usage of a scope that its job may not charge.
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
        /// The job has a hold.
        held: bool,
    },
    /// The end of a lease was repeated with other usage.
    #[error("lease {fence} of {job} has ended, and another usage was recorded for it: {}", Amounts(.recorded))]
    UsageRecorded {
        /// The job.
        job: JobId,
        /// The lease.
        fence: u64,
        /// What was charged for it, by scope.
        recorded: Vec<(Scope, i64)>,
    },
    /// The job is in a state in which this cannot be done.
    #[error("{job} is {state}: {problem}")]
    WrongState {
        /// The job.
        job: JobId,
        /// The state it is in.
        state: JobState,
        /// What does not go.
        problem: Cow<'static, str>,
    },
    /// Usage without a scope does not say which of several it is for, or there is no hold to say it.
    #[error("usage of {job} must name its scope: its hold has {charges} charges")]
    UsageAmbiguous {
        /// The job.
        job: JobId,
        /// How many charges its hold has.
        charges: usize,
    },
    /// A balance would pass what 64 bits hold.
    #[error("the amount would take a balance of {scope} beyond 64 bits")]
    Overflow {
        /// The scope.
        scope: Scope,
    },
    /// The request is wrong in itself.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl Refusal {
    /// After how long it could be admitted at the earliest; `None` when time alone will not do it.
    pub fn retry_after(&self) -> Option<Span> {
        let Refusal::Refused(violations) = self else { return None };
        let waits = violations.iter().map(|violation| match violation {
            Violation::Limit { retry_after, .. } => *retry_after,
            Violation::Frozen { .. } | Violation::Grant { .. } => None,
        });
        // All of them must give way.
        waits.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

/// One reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Violation {
    /// A limit leaves too little.
    Limit {
        /// Where.
        scope: Scope,
        /// Over which window.
        window: Window,
        /// The limit's amount.
        limit: i64,
        /// What was asked for.
        requested: i64,
        /// What is left.
        available: i64,
        /// After how long it could fit at the earliest, if time alone can make it.
        retry_after: Option<Span>,
        /// Whether it could fit under this limit: in an empty window, or in this one once no hold lives.
        possible: bool,
    },
    /// The scope is frozen.
    Frozen {
        /// Which one.
        scope: Scope,
    },
    /// A token was not taken.
    Grant {
        /// What it was presented for.
        purpose: Purpose,
        /// Why; for the log, never for an outsider.
        #[serde(skip)]
        fault: GrantFault,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Limit { scope, window, limit, requested, available, retry_after, possible } => {
                write!(f, "{scope} has {available} left of {limit} ({window}), {requested} requested")?;
                match retry_after {
                    Some(span) => write!(f, ", try again in {} ms at the earliest", span.millis()),
                    None if !possible => f.write_str(", more than the limit itself"),
                    None => Ok(()),
                }
            }
            Violation::Frozen { scope } => write!(f, "{scope} is frozen"),
            Violation::Grant { purpose, .. } => write!(f, "the token does not grant {purpose}"),
        }
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
