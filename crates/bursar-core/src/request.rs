//! Requests: everything that can be asked of the kernel, in one shape.

mod checked;
mod fingerprint;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::checked::CheckedRequest;
pub use self::fingerprint::{Fingerprint, IfMatch, Part};
use crate::bounds::{
    CHARGES_MAX, GRANT_TTL_MAX, JOBS_MAX, LIMITS_MAX, REDEMPTIONS_MAX, SWEEP_MAX, TTL_MAX, TTL_MIN, check_items,
};
use crate::budget::{Budget, Cover, Limit};
use crate::context::Context;
use crate::credential::is_credential;
use crate::grant::{Token, TokenDigest};
use crate::id::{GrantId, HoldId, JobId};
use crate::job::{Beat, Finish, JobSpec, LeaseAsk, QueueConfig, ScheduleSpec, check_delay, check_priority};
use crate::name::{IdempotencyKey, Purpose, Queue, ScheduleName, Scope, Subject};
use crate::payload::Payload;
use crate::refusal::{Invalid, Refusal, Violation};
use crate::time::{Span, Time};

/// One atomic request, with its circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks, for whom, and why.
    pub context: Context,
    /// Makes a repetition have one effect and one answer.
    pub idempotency_key: Option<IdempotencyKey>,
    /// It is a part of something larger that was asked under the key.
    pub part: Option<Part>,
    /// Decide and answer, but write nothing.
    pub dry_run: bool,
    /// Only if what is defined now is as the caller says: who changes what it has read does not undo what others changed since.
    pub if_match: Option<IfMatch>,
    /// What is asked.
    pub op: Op,
}

impl From<Op> for Request {
    fn from(op: Op) -> Request {
        Request { context: Context::default(), idempotency_key: None, part: None, dry_run: false, if_match: None, op }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Charges, redemptions and jobs together.
    Submit(Command),
    /// Post what a hold really cost.
    Commit {
        /// Which hold.
        hold: HoldId,
        /// What it cost.
        actual: Actual,
    },
    /// Free what a hold set aside.
    Release {
        /// Which hold.
        hold: HoldId,
    },
    /// Put off a hold's expiry.
    Extend {
        /// Which hold.
        hold: HoldId,
        /// By how much.
        by: Span,
    },
    /// Give units back. Never refused for lack of anything.
    Credit {
        /// Where.
        scope: Scope,
        /// How many.
        amount: i64,
        /// Dates the credit like this hold.
        hold: Option<HoldId>,
    },
    /// Register or change a budget.
    Define {
        /// Where.
        scope: Scope,
        /// What.
        budget: Budget,
    },
    /// Refuse new spend on a scope.
    Freeze {
        /// Where.
        scope: Scope,
    },
    /// Admit spend again.
    Unfreeze {
        /// Where.
        scope: Scope,
    },
    /// Make a grant.
    Mint(Mint),
    /// Make a credential in the place of another, which is good for a while yet.
    Rotate {
        /// The one that is replaced.
        grant: GrantId,
        /// The one that replaces it: of the same class.
        mint: Mint,
        /// How long the old one is good at most.
        overlap: Span,
    },
    /// Write down that a credential was used.
    Use {
        /// Which one.
        grant: GrantId,
    },
    /// Take a grant back.
    Revoke {
        /// Which one.
        grant: GrantId,
    },
    /// Remove grants that expired long enough ago.
    PurgeGrants {
        /// Which ones, as far as they have expired.
        grants: Vec<GrantId>,
    },
    /// Write down that these holds have expired, as far as they have.
    Expire {
        /// The holds.
        holds: Vec<HoldId>,
    },
    /// Fold what is due on these scopes, and tell what follows from it.
    Tidy {
        /// The scopes.
        scopes: Vec<Scope>,
    },
    /// Take jobs to work on.
    Lease(LeaseAsk),
    /// Say that jobs are still worked on.
    Heartbeat {
        /// Which ones.
        beats: Vec<Beat>,
    },
    /// End leases.
    Finish {
        /// Which ones, and how.
        items: Vec<Finish>,
    },
    /// Do something to jobs.
    Act {
        /// What.
        act: Act,
        /// To which ones.
        jobs: Vec<JobId>,
    },
    /// Set up or change a queue.
    DefineQueue {
        /// Which one.
        queue: Queue,
        /// What.
        config: QueueConfig,
    },
    /// Register or change a schedule.
    DefineSchedule {
        /// Which one.
        schedule: ScheduleName,
        /// What.
        spec: ScheduleSpec,
    },
    /// Remove a schedule.
    RemoveSchedule {
        /// Which one.
        schedule: ScheduleName,
    },
    /// Stop a schedule, or let it begin anew; what else is set for it stays.
    PauseSchedule {
        /// Which one.
        schedule: ScheduleName,
        /// Stop.
        paused: bool,
    },
    /// Enqueue the job of a schedule now.
    RunSchedule {
        /// Which one.
        schedule: ScheduleName,
    },
    /// Enqueue what is due of a schedule.
    Tick {
        /// Which one.
        schedule: ScheduleName,
    },
    /// Stop leasing from a queue, or begin again; what else is set for it stays.
    PauseQueue {
        /// Which one.
        queue: Queue,
        /// Stop.
        paused: bool,
    },
}

/// What can be done to jobs, by somebody who does not work on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Give them up. One that runs is told, and ends as cancelled when its worker lets go of it.
    Cancel,
    /// Try dead and cancelled ones again from the first attempt, and those between attempts at once.
    Retry,
    /// Dead ones are not wanted any more.
    Discard,
    /// Put them in another queue; dead ones are tried again there.
    Move {
        /// Which queue.
        queue: Queue,
    },
    /// Change how those that wait are ranked.
    Edit {
        /// The priority, where it is to change.
        priority: Option<i16>,
        /// So long from now, where it is to change.
        delay: Option<Span>,
    },
    /// Take back leases that have lapsed.
    Rescue,
    /// Look again whether their budget admits another attempt.
    Resume,
    /// Remove finished ones whose time is over.
    Forget,
    /// Look again whether their flow key admits another lease.
    Unbar,
}

/// Charges, redemptions and jobs: all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Command {
    /// What it costs, and where.
    pub charges: Vec<Charge>,
    /// What becomes of the charges.
    pub settle: Settle,
    /// The grants it uses up.
    pub redeem: Vec<Redemption>,
    /// The work it starts.
    pub jobs: Vec<JobSpec>,
}

/// Units to be charged to a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    /// Where.
    pub scope: Scope,
    /// How many.
    pub amount: i64,
    /// Limits that apply beside the registered ones.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// What to do with a commit beyond or after the hold, where no budget says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cover: Option<Cover>,
    /// The budget that is registered with the charge, where the scope has none or another that was registered so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Arc<Budget>>,
}

impl Charge {
    /// `amount` units on a scope with a registered budget.
    pub fn new(scope: Scope, amount: i64) -> Charge {
        Charge { scope, amount, limits: Vec::new(), cover: None, default: None }
    }

    /// The same charge under limits of the caller's.
    pub fn within(self, limits: impl IntoIterator<Item = Limit>) -> Charge {
        Charge { limits: limits.into_iter().collect(), ..self }
    }

    /// The same charge, with the budget to be registered where nobody has defined one.
    pub fn or_define(self, budget: Arc<Budget>) -> Charge {
        Charge { default: Some(budget), ..self }
    }
}

/// What becomes of a command's charges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// They are spent at once.
    #[default]
    Now,
    /// They are held, and the caller settles.
    Hold {
        /// For how long; the budget's default if not said.
        ttl: Option<Span>,
    },
    /// They are held as long as the command's first job lives, and its end settles them.
    Job,
}

/// A grant to be used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redemption {
    /// What it must permit.
    pub purpose: Purpose,
    /// Whom.
    pub subject: Subject,
    /// Which grant.
    pub grant: GrantId,
    /// The digest of the secret presented.
    pub digest: TokenDigest,
}

impl Redemption {
    /// Reads the token; a malformed one is refused here, in the same words as a used one.
    pub fn new(purpose: Purpose, subject: Subject, token: &str) -> Result<Redemption, Refusal> {
        match Token::parse(token) {
            Ok(token) => Ok(Redemption { purpose, subject, grant: token.id(), digest: token.digest() }),
            Err(fault) => Err(Refusal::Refused(vec![Violation::Grant { purpose, fault }])),
        }
    }
}

/// A grant to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mint {
    /// Its id; drawn anew by a repeated request, and then not used.
    #[serde(skip)]
    pub id: GrantId,
    /// The digest of its secret; likewise.
    #[serde(skip)]
    pub digest: TokenDigest,
    /// What it permits.
    pub purpose: Purpose,
    /// Whom.
    pub subject: Subject,
    /// What its redeemer is told.
    pub payload: Payload,
    /// For how long.
    pub ttl: Span,
}

/// What a hold really cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actual {
    /// What was held.
    #[default]
    Held,
    /// So much, on the hold's only charge.
    Amount(i64),
    /// So much on each; a charge that is not named cost what was held.
    Each(Vec<(Scope, i64)>),
}

impl From<i64> for Actual {
    fn from(amount: i64) -> Actual {
        Actual::Amount(amount)
    }
}

impl Request {
    /// The request with an idempotency key.
    pub fn with_key(self, key: IdempotencyKey) -> Request {
        Request { idempotency_key: Some(key), ..self }
    }

    /// The request in a context.
    pub fn in_context(self, context: Context) -> Request {
        Request { context, ..self }
    }

    /// The key that it is remembered by.
    pub fn key(&self) -> Option<Cow<'_, IdempotencyKey>> {
        let key = self.idempotency_key.as_ref()?;
        match self.part {
            Some(Part { number: number @ 1.., .. }) => Some(Cow::Owned(key.of_part(number))),
            _ => Some(Cow::Borrowed(key)),
        }
    }

    /// The digest of what is asked, without who asks or why.
    pub fn fingerprint(&self) -> Fingerprint {
        self.part.map_or_else(|| Fingerprint::of(&self.op), |part| part.whole)
    }

    /// Refuses what no state of the world would make right.
    pub fn check(&self) -> Result<(), Invalid> {
        self.context.check()?;
        if self.dry_run && (self.op.is_of_jobs() || self.op.is_of_schedules()) {
            return Err(Invalid::new("dry_run", "is not possible with work on jobs"));
        }
        if let Some(key) = &self.idempotency_key {
            key.check_own()?;
            if self.op.is_of_jobs() && !self.op.is_act_of_callers() {
                return Err(Invalid::new("idempotency_key", "is not taken here: fences make it safe to repeat"));
            }
        }
        if self.if_match.is_some() && !self.op.defines() {
            return Err(Invalid::new("if_match", "is taken only where something is defined or removed"));
        }
        self.op.scopes().try_for_each(Scope::check_own)?;
        match &self.op {
            Op::Submit(command) => command.check(),
            Op::Commit { actual, .. } => match actual {
                Actual::Held => Ok(()),
                Actual::Amount(amount) => not_negative("actual", *amount),
                Actual::Each(each) if each.len() > CHARGES_MAX => {
                    Err(Invalid::new("actuals", format!("has more than {CHARGES_MAX} entries")))
                }
                Actual::Each(each) => each.iter().try_for_each(|(_, amount)| not_negative("actuals.amount", *amount)),
            },
            Op::Extend { by, .. } => ttl("by_ms", *by, TTL_MAX),
            Op::Credit { amount, .. } => not_negative("amount", *amount),
            Op::Define { budget, .. } if budget.by_default => {
                Err(Invalid::new("by_default", "is for budgets that charges bring along: who defines one means it"))
            }
            Op::Define { budget, .. } => budget.check(),
            Op::Mint(mint) => mint.check(),
            Op::Rotate { mint, .. } => mint.check(),
            Op::Use { grant } if !is_credential(*grant) => Err(Invalid::new("grant", "is no credential")),
            Op::Use { .. } => Ok(()),
            Op::Expire { holds } => sweep_size("holds", holds.len()),
            Op::PurgeGrants { grants } => sweep_size("grants", grants.len()),
            Op::Tidy { scopes } => sweep_size("scopes", scopes.len()),
            Op::Release { .. } | Op::Freeze { .. } | Op::Unfreeze { .. } | Op::Revoke { .. } => Ok(()),
            Op::PauseQueue { .. } => Ok(()),
            Op::DefineQueue { config, .. } => config.check(),
            Op::DefineSchedule { spec, .. } => spec.check(),
            Op::PauseSchedule { .. } | Op::RemoveSchedule { .. } | Op::RunSchedule { .. } | Op::Tick { .. } => Ok(()),
            Op::Lease(ask) => ask.check(),
            Op::Heartbeat { beats } => check_items("beats", beats.len()),
            // What is wrong with one is told for that one.
            Op::Finish { items } => check_items("items", items.len()),
            Op::Act { act, jobs } => {
                check_items("jobs", jobs.len())?;
                act.check()
            }
        }
    }
}

impl Op {
    /// Work on jobs that are there, which is answered job by job.
    pub fn is_of_jobs(&self) -> bool {
        matches!(self, Op::Lease(_) | Op::Heartbeat { .. } | Op::Finish { .. } | Op::Act { .. })
    }

    /// Something done to jobs because somebody wants it, and not because it is due.
    pub fn is_act_of_callers(&self) -> bool {
        let Op::Act { act, .. } = self else { return false };
        matches!(act, Act::Cancel | Act::Retry | Act::Discard | Act::Move { .. } | Act::Edit { .. })
    }

    /// Work on a schedule.
    pub fn is_of_schedules(&self) -> bool {
        self.schedule().is_some()
    }

    /// Whether it says what something is to be, as a whole, or that it is not to be any more.
    pub fn defines(&self) -> bool {
        matches!(
            self,
            Op::Define { .. } | Op::DefineQueue { .. } | Op::DefineSchedule { .. } | Op::RemoveSchedule { .. }
        )
    }

    /// The schedule it is about.
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

    /// The scopes it names.
    fn scopes(&self) -> Box<dyn Iterator<Item = &Scope> + '_> {
        match self {
            Op::Submit(command) => Box::new(command.charges.iter().map(|charge| &charge.scope)),
            Op::Define { scope, .. } | Op::Credit { scope, .. } | Op::Freeze { scope } | Op::Unfreeze { scope } => {
                Box::new(std::iter::once(scope))
            }
            _ => Box::new(std::iter::empty()),
        }
    }
}

impl Act {
    /// Refuses what no state of the world would make right, whichever jobs it is done to.
    pub fn check(&self) -> Result<(), Invalid> {
        let Act::Edit { priority, delay } = self else { return Ok(()) };
        priority.map_or(Ok(()), |priority| check_priority("priority", priority))?;
        delay.map_or(Ok(()), |delay| check_delay("delay_ms", delay))
    }
}

impl Mint {
    fn check(&self) -> Result<(), Invalid> {
        // Credentials may be good for ever, and are known by their ids.
        if is_credential(self.id) && self.purpose.is_internal() {
            return ttl("expires_in_ms", self.ttl.min(GRANT_TTL_MAX), GRANT_TTL_MAX);
        }
        self.purpose.check_own()?;
        ttl("ttl_ms", self.ttl, GRANT_TTL_MAX)
    }
}

impl Command {
    fn check(&self) -> Result<(), Invalid> {
        if self.charges.is_empty() && self.redeem.is_empty() && self.jobs.is_empty() {
            return Err(Invalid::new("charges", "must not be empty without a redemption or a job"));
        }
        for (field, count, most) in [
            ("charges", self.charges.len(), CHARGES_MAX),
            ("redeem", self.redeem.len(), REDEMPTIONS_MAX),
            ("jobs", self.jobs.len(), JOBS_MAX),
        ] {
            if count > most {
                return Err(Invalid::new(field, format!("has {count} entries; at most {most} are allowed")));
            }
        }
        for charge in &self.charges {
            not_negative("charges.amount", charge.amount)?;
            if charge.limits.len() > LIMITS_MAX {
                return Err(Invalid::new("charges.limits", format!("has more than {LIMITS_MAX} entries")));
            }
            charge.limits.iter().try_for_each(Limit::check)?;
            charge.default.as_deref().map_or(Ok(()), check_default)?;
        }
        self.redeem.iter().try_for_each(|redemption| redemption.purpose.check_own())?;
        for job in &self.jobs {
            job.check(self.redeem.len())?;
        }
        match &self.settle {
            Settle::Hold { .. } if self.charges.is_empty() => {
                Err(Invalid::new("charges", "must not be empty: there is nothing to hold"))
            }
            Settle::Hold { ttl: Some(span) } => ttl("ttl_ms", *span, Span::from_micros(i64::MAX)),
            Settle::Job if self.jobs.is_empty() => {
                Err(Invalid::new("jobs", "must not be empty: no job would settle the hold"))
            }
            Settle::Job if self.charges.is_empty() => {
                Err(Invalid::new("charges", "must not be empty: there is nothing for the job to settle"))
            }
            _ => Ok(()),
        }
    }
}

/// A budget that a charge brings along.
fn check_default(budget: &Budget) -> Result<(), Invalid> {
    if !budget.by_default || budget.parent.is_some() {
        return Err(Invalid::new("charges.default", "must be marked as a default, and have no parent"));
    }
    budget.check()
}

fn not_negative(field: &'static str, amount: i64) -> Result<(), Invalid> {
    if amount < 0 { Err(Invalid::new(field, "must not be negative")) } else { Ok(()) }
}

fn ttl(field: &'static str, span: Span, most: Span) -> Result<(), Invalid> {
    if span < TTL_MIN {
        return Err(Invalid::new(field, "must be at least 1"));
    }
    // A span that saturated cannot be represented as an instant.
    if span > most || Time::from_micros(0).after(span) == Time::NEVER {
        return Err(Invalid::new(field, format!("must be at most {}", most.millis())));
    }
    Ok(())
}

fn sweep_size(field: &'static str, count: usize) -> Result<(), Invalid> {
    if count > SWEEP_MAX {
        return Err(Invalid::new(field, format!("has more than {SWEEP_MAX} entries")));
    }
    Ok(())
}
