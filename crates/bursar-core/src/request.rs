//! Requests: every operation that the engine executes, and the checks that need no stored row.

mod blob;
mod checked;
mod checks;
mod command;
mod fingerprint;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::blob::{BlobOp, NamedReference};
pub use self::checked::CheckedRequest;
use self::checks::{check_not_negative, check_sweep_size, check_ttl};
pub use self::fingerprint::{Fingerprint, IfMatch, Part};
use crate::bounds::{CHARGES_MAX, GRANT_TTL_MAX, TTL_MAX, check_items};
use crate::budget::{Budget, Cover, Limit};
use crate::context::Context;
use crate::credential::is_credential;
use crate::event::Stream;
use crate::grant::{Token, TokenDigest};
use crate::hold::OnExpiry;
use crate::id::{GrantId, HoldId, JobId};
use crate::job::{
    Emit, Finish, HeartbeatItem, JobSpec, LeaseRequest, QueueConfig, ScheduleSpec, check_delay, check_priority,
};
use crate::name::{IdempotencyKey, Purpose, Queue, ScheduleName, Scope, Subject};
use crate::payload::Payload;
use crate::refusal::{Invalid, Refusal, Violation};
use crate::time::Span;

/// One request to the engine. It is executed completely or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tenant, actor, reason and trace.
    pub context: Context,
    /// The key under which a retried request returns its first answer and has no second effect.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The position of this request in a larger one that was made under the key.
    pub part: Option<Part>,
    /// Whether to decide and answer without writing anything.
    pub dry_run: bool,
    /// The definition that the caller has read and wants to replace. If it has changed since, the request is refused, so
    /// that no concurrent change is lost.
    pub if_match: Option<IfMatch>,
    /// The operation.
    pub op: Op,
}

impl From<Op> for Request {
    fn from(op: Op) -> Request {
        Request { context: Context::default(), idempotency_key: None, part: None, dry_run: false, if_match: None, op }
    }
}

/// An operation: what a request does.
///
/// The fingerprint of a request is a digest of its serialized operation, so the serialized names must not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Executes a command: charges, redemptions and jobs together.
    Submit(Command),
    /// Commits a hold: posts the units that were really spent.
    Commit {
        /// The hold.
        hold: HoldId,
        /// The units spent.
        actual: Actual,
    },
    /// Releases a hold: frees its units.
    Release {
        /// The hold.
        hold: HoldId,
    },
    /// Extends a hold: moves its expiry to a later instant.
    Extend {
        /// The hold.
        hold: HoldId,
        /// The time to add to its expiry.
        by: Span,
    },
    /// Gives units back to a scope. No limit and no freeze refuses it.
    Credit {
        /// The scope.
        scope: Scope,
        /// The number of units.
        amount: i64,
        /// The hold whose spend is given back. The credit counts in the same windows as that spend.
        hold: Option<HoldId>,
    },
    /// Defines or changes a budget.
    Define {
        /// The scope.
        scope: Scope,
        /// The budget.
        budget: Budget,
    },
    /// Removes the budget of a scope. Its spend and its journal stay.
    RemoveBudget {
        /// The scope.
        scope: Scope,
    },
    /// Freezes a scope: refuses new spend on it.
    Freeze {
        /// The scope.
        scope: Scope,
    },
    /// Unfreezes a scope: admits spend again.
    Unfreeze {
        /// The scope.
        scope: Scope,
    },
    /// Creates a grant.
    Mint(Mint),
    /// Replaces a credential by a new one. The old one stays valid for a while.
    Rotate {
        /// The credential to replace.
        grant: GrantId,
        /// The new credential, of the same class.
        mint: Mint,
        /// The longest time that the old credential stays valid.
        overlap: Span,
    },
    /// Records that a credential was used.
    Use {
        /// The credential.
        grant: GrantId,
    },
    /// Revokes a grant.
    Revoke {
        /// The grant.
        grant: GrantId,
    },
    /// Erases the payload of a grant that can no longer be redeemed.
    EraseGrant {
        /// The grant.
        grant: GrantId,
    },
    /// Deletes grants that expired long enough ago.
    PurgeGrants {
        /// The grants. Those that may not be deleted yet are left out.
        grants: Vec<GrantId>,
    },
    /// Records that holds have expired.
    Expire {
        /// The holds. Those that have not expired are left out.
        holds: Vec<HoldId>,
    },
    /// Folds what is due on scopes into their balances, and records thresholds, trips and freezes that follow from it.
    Tidy {
        /// The scopes.
        scopes: Vec<Scope>,
    },
    /// Leases jobs to a worker.
    Lease(LeaseRequest),
    /// Renews leases.
    Heartbeat {
        /// The leases.
        beats: Vec<HeartbeatItem>,
    },
    /// Records an event that a worker emits about its job.
    Emit(Emit),
    /// Ends leases.
    Finish {
        /// The leases, each with its end.
        items: Vec<Finish>,
    },
    /// Changes jobs without holding their leases.
    Act {
        /// The action.
        act: Act,
        /// The jobs.
        jobs: Vec<JobId>,
    },
    /// Defines or changes the settings of a queue.
    DefineQueue {
        /// The queue.
        queue: Queue,
        /// Its settings.
        config: QueueConfig,
    },
    /// Defines or changes a schedule.
    DefineSchedule {
        /// Its name.
        schedule: ScheduleName,
        /// The schedule.
        spec: ScheduleSpec,
    },
    /// Removes a schedule.
    RemoveSchedule {
        /// Its name.
        schedule: ScheduleName,
    },
    /// Pauses or resumes a schedule. Its other settings stay.
    PauseSchedule {
        /// Its name.
        schedule: ScheduleName,
        /// Whether to pause it.
        paused: bool,
    },
    /// Enqueues the job of a schedule now.
    RunSchedule {
        /// Its name.
        schedule: ScheduleName,
    },
    /// Enqueues the jobs of a schedule's due ticks.
    Tick {
        /// Its name.
        schedule: ScheduleName,
    },
    /// Changes blobs or the rules of a namespace.
    Blob(BlobOp),
    /// Pauses or resumes leasing from a queue. Its other settings stay.
    PauseQueue {
        /// The queue.
        queue: Queue,
        /// Whether to pause it.
        paused: bool,
    },
}

/// An action on jobs by a caller or by maintenance, which holds no lease of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Cancels them. The worker of a leased job learns it from its next heartbeat; the job ends as cancelled unless the
    /// worker completes it.
    Cancel,
    /// Starts dead and cancelled jobs over from the first attempt, and runs jobs between two attempts at once.
    Retry,
    /// Cancels dead jobs, so that they no longer count as dead.
    Discard,
    /// Erases the payloads, results and checkpoints of jobs that have ended.
    Erase,
    /// Moves them to another queue. Dead jobs start over there.
    Move {
        /// The queue.
        queue: Queue,
    },
    /// Changes the priority or the start time of waiting jobs.
    Edit {
        /// The new priority; `None` leaves it as it is.
        priority: Option<i16>,
        /// The new start time, counted from now; `None` leaves it as it is.
        delay: Option<Span>,
    },
    /// Takes back leases that have lapsed.
    Rescue,
    /// Tries again to place the holds of jobs that wait for a budget.
    Resume,
    /// Removes finished jobs whose retention is over.
    Forget,
    /// Makes jobs ready that were barred by the concurrency limit of their flow key.
    Unbar,
}

/// Charges, redemptions and jobs that are executed together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Command {
    /// The units to charge.
    pub charges: Vec<Charge>,
    /// Whether the charges are posted at once or held.
    pub settle: Settle,
    /// What the expiry of the hold does.
    #[serde(skip_serializing_if = "OnExpiry::is_release")]
    pub on_expiry: OnExpiry,
    /// The grants to redeem.
    pub redeem: Vec<Redemption>,
    /// The jobs to enqueue.
    pub jobs: Vec<JobSpec>,
    /// References of the application to blobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<NamedReference>,
}

/// Units to charge to a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    /// The scope.
    pub scope: Scope,
    /// The number of units.
    pub amount: i64,
    /// Limits that apply in addition to those of the budget.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// How a late commit or an overrun is treated if the scope has no budget that says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cover: Option<Cover>,
    /// The budget to define together with the charge, if the scope has none or only one that a charge has defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Arc<Budget>>,
}

impl Charge {
    /// Creates a charge of `amount` units on a scope that has a budget.
    pub fn new(scope: Scope, amount: i64) -> Charge {
        Charge { scope, amount, limits: Vec::new(), cover: None, default: None }
    }

    /// Returns the charge with limits of the caller.
    pub fn within(self, limits: impl IntoIterator<Item = Limit>) -> Charge {
        Charge { limits: limits.into_iter().collect(), ..self }
    }

    /// Returns the charge with a budget to define if the scope has none.
    pub fn or_define(self, budget: Arc<Budget>) -> Charge {
        Charge { default: Some(budget), ..self }
    }
}

/// How the charges of a command are settled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// They are posted at once.
    #[default]
    Now,
    /// They are held until the caller commits or releases them.
    Hold {
        /// The time to live of the hold. Default: the budget's setting.
        ttl: Option<Span>,
    },
    /// They are held for the job of the command, which has one. The end of the job settles them.
    Job,
}

/// A grant to redeem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redemption {
    /// The purpose it must have been made for.
    pub purpose: Purpose,
    /// The subject it must have been made for.
    pub subject: Subject,
    /// The grant.
    pub grant: GrantId,
    /// The digest of the secret presented.
    pub digest: TokenDigest,
}

impl Redemption {
    /// Parses a token. A malformed token is refused with the same message as one that was redeemed already.
    pub fn new(purpose: Purpose, subject: Subject, token: &str) -> Result<Redemption, Refusal> {
        match Token::parse(token) {
            Ok(token) => Ok(Redemption { purpose, subject, grant: token.id(), digest: token.digest() }),
            Err(fault) => Err(Refusal::Refused(vec![Violation::Grant { purpose, fault }])),
        }
    }
}

/// A grant to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mint {
    /// Its id. A retried request brings a new one, which is ignored.
    #[serde(skip)]
    pub id: GrantId,
    /// The digest of its secret. A retried request brings a new one, which is ignored.
    #[serde(skip)]
    pub digest: TokenDigest,
    /// What it permits.
    pub purpose: Purpose,
    /// The subject it is made for.
    pub subject: Subject,
    /// Data that the redemption returns.
    pub payload: Payload,
    /// Its time to live.
    pub ttl: Span,
}

/// The units that were really spent under a hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actual {
    /// As many as were held.
    #[default]
    Held,
    /// This many, on the only charge of the hold.
    Amount(i64),
    /// This many on each named scope; on the others as many as were held.
    Each(Vec<(Scope, i64)>),
}

impl From<i64> for Actual {
    fn from(amount: i64) -> Actual {
        Actual::Amount(amount)
    }
}

impl Request {
    /// Returns the request with an idempotency key.
    pub fn with_key(self, key: IdempotencyKey) -> Request {
        Request { idempotency_key: Some(key), ..self }
    }

    /// Returns the request with a context.
    pub fn in_context(self, context: Context) -> Request {
        Request { context, ..self }
    }

    /// Returns the key that its answer is recorded under: the caller's, or that of its part.
    pub fn key(&self) -> Option<Cow<'_, IdempotencyKey>> {
        let key = self.idempotency_key.as_ref()?;
        match self.part {
            Some(Part { number: number @ 1.., .. }) => Some(Cow::Owned(key.of_part(number))),
            _ => Some(Cow::Borrowed(key)),
        }
    }

    /// Returns the digest of its operation, without the context. For a part it is that of the whole request.
    pub fn fingerprint(&self) -> Fingerprint {
        self.part.map_or_else(|| Fingerprint::of(&self.op), |part| part.whole)
    }

    /// Refuses a request that is invalid whatever rows are stored.
    pub fn check(&self) -> Result<(), Invalid> {
        self.context.check()?;
        if self.dry_run && (self.op.is_on_jobs() || self.op.is_on_schedule()) {
            return Err(Invalid::new("dry_run", "is not supported for operations on jobs and schedules"));
        }
        if let Some(key) = &self.idempotency_key {
            key.check_own()?;
            if self.op.is_on_jobs() && !self.op.is_requested_act() {
                return Err(Invalid::new(
                    "idempotency_key",
                    "is not allowed for this operation, which is safe to retry without a key",
                ));
            }
        }
        if self.if_match.is_some() && !self.op.can_be_guarded() {
            return Err(Invalid::new(
                "if_match",
                "is allowed only to define or remove a budget or schedule, to define a queue or namespace, to edit one job, or to continue an upload",
            ));
        }
        self.op.check_scopes()?;
        match &self.op {
            Op::Submit(command) => command.check(),
            Op::Commit { actual, .. } => match actual {
                Actual::Held => Ok(()),
                Actual::Amount(amount) => check_not_negative("actual", *amount),
                Actual::Each(each) if each.len() > CHARGES_MAX => {
                    Err(Invalid::new("actuals", format!("has more than {CHARGES_MAX} entries")))
                }
                Actual::Each(each) => each.iter().enumerate().try_for_each(|(index, (_, amount))| {
                    check_not_negative("amount", *amount).map_err(|invalid| invalid.of_entry("actuals", index))
                }),
            },
            Op::Extend { by, .. } => check_ttl("by_ms", *by, TTL_MAX),
            Op::Credit { amount, .. } => check_not_negative("amount", *amount),
            Op::Define { budget, .. } if budget.by_default => {
                Err(Invalid::new("by_default", "is only for the default budget of a charge: leave it out"))
            }
            Op::Define { budget, .. } => budget.check(),
            Op::Mint(mint) => mint.check(),
            Op::Rotate { mint, .. } => mint.check(),
            Op::Use { grant } if !is_credential(*grant) => Err(Invalid::new("grant", "is not a credential")),
            Op::Use { .. } => Ok(()),
            Op::Expire { holds } => check_sweep_size("holds", holds.len()),
            Op::PurgeGrants { grants } => check_sweep_size("grants", grants.len()),
            Op::Tidy { scopes } => check_sweep_size("scopes", scopes.len()),
            Op::Release { .. } | Op::Revoke { .. } | Op::EraseGrant { .. } => Ok(()),
            Op::RemoveBudget { .. } | Op::Freeze { .. } | Op::Unfreeze { .. } => Ok(()),
            Op::PauseQueue { .. } => Ok(()),
            Op::DefineQueue { config, .. } => config.check(),
            Op::DefineSchedule { spec, .. } => spec.check(),
            Op::Blob(op) => op.check(),
            Op::PauseSchedule { .. } | Op::RemoveSchedule { .. } | Op::RunSchedule { .. } | Op::Tick { .. } => Ok(()),
            Op::Lease(lease) => lease.check(),
            Op::Heartbeat { beats } => check_items("beats", beats.len()),
            Op::Emit(emit) => emit.check(),
            // An invalid item is refused by itself when it is decided; the others are executed.
            Op::Finish { items } => check_items("items", items.len()),
            Op::Act { act, jobs } => {
                check_items("jobs", jobs.len())?;
                act.check()
            }
        }
    }
}

impl Op {
    /// Returns whether it leases, renews, ends or changes existing jobs. Such operations are answered job by job.
    pub fn is_on_jobs(&self) -> bool {
        matches!(self, Op::Lease(_) | Op::Heartbeat { .. } | Op::Finish { .. } | Op::Act { .. })
    }

    /// Returns whether it is an action on jobs that callers request, not one of maintenance.
    pub fn is_requested_act(&self) -> bool {
        let Op::Act { act, .. } = self else { return false };
        matches!(act, Act::Cancel | Act::Retry | Act::Discard | Act::Erase | Act::Move { .. } | Act::Edit { .. })
    }

    /// Returns the jobs and grants whose payloads it erases.
    pub fn erases(&self) -> Vec<Stream> {
        match self {
            Op::Act { act: Act::Erase, jobs } => jobs.iter().copied().map(Stream::Job).collect(),
            Op::EraseGrant { grant } => vec![Stream::Grant(*grant)],
            _ => Vec::new(),
        }
    }

    /// Returns whether it is an operation on a schedule.
    pub fn is_on_schedule(&self) -> bool {
        self.schedule().is_some()
    }

    /// Returns whether `if_match` can guard it: it replaces or removes a whole definition, edits one job, or continues an upload.
    pub fn can_be_guarded(&self) -> bool {
        if let Op::Act { act: Act::Edit { .. }, jobs } = self {
            return jobs.len() == 1;
        }
        matches!(
            self,
            Op::Define { .. }
                | Op::RemoveBudget { .. }
                | Op::DefineQueue { .. }
                | Op::DefineSchedule { .. }
                | Op::RemoveSchedule { .. }
                | Op::Blob(BlobOp::DefineNamespace { .. } | BlobOp::Grow { .. })
        )
    }

    /// Returns the schedule that it names.
    pub fn schedule(&self) -> Option<&ScheduleName> {
        match self {
            Op::DefineSchedule { schedule, .. }
            | Op::PauseSchedule { schedule, .. }
            | Op::RemoveSchedule { schedule }
            | Op::RunSchedule { schedule }
            | Op::Tick { schedule } => Some(schedule),
            _ => None,
        }
    }

    /// Refuses scopes that callers may not name.
    fn check_scopes(&self) -> Result<(), Invalid> {
        match self {
            Op::Submit(command) => command.charges.iter().enumerate().try_for_each(|(index, charge)| {
                charge.scope.check_own().map_err(|invalid| invalid.of_entry("charges", index))
            }),
            Op::Define { scope, .. }
            | Op::RemoveBudget { scope }
            | Op::Credit { scope, .. }
            | Op::Freeze { scope }
            | Op::Unfreeze { scope } => scope.check_own(),
            _ => Ok(()),
        }
    }
}

impl Act {
    /// Refuses an action that is invalid for any job.
    pub fn check(&self) -> Result<(), Invalid> {
        let Act::Edit { priority, delay } = self else { return Ok(()) };
        priority.map_or(Ok(()), |priority| check_priority("priority", priority))?;
        delay.map_or(Ok(()), |delay| check_delay("delay_ms", delay))
    }
}

impl Mint {
    fn check(&self) -> Result<(), Invalid> {
        // A credential is recognized by its id, and may be valid for ever.
        if is_credential(self.id) && self.purpose.is_internal() {
            return check_ttl("expires_in_ms", self.ttl.min(GRANT_TTL_MAX), GRANT_TTL_MAX);
        }
        self.purpose.check_own()?;
        self.payload.check("payload")?;
        check_ttl("ttl_ms", self.ttl, GRANT_TTL_MAX)
    }
}
