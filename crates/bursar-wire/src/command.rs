//! Commands: `POST /v1/commands`.

use bursar_core::answer::{Enqueued, Placed, Redeemed};
use bursar_core::context::Context;
use bursar_core::event::{Charged, Left};
use bursar_core::hold::{HoldState, OnExpiry};
use bursar_core::id::{CommandId, HoldId, JobId};
use bursar_core::job::JobSpec;
use bursar_core::name::{Purpose, Scope, Subject};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use bursar_core::request::{Charge, Command, Redemption, Settle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::blob::ReferenceBody;
use crate::budget::WouldRefuseAnswer;
use crate::hold::{ClampedAnswer, HoldBody, OnExpiryBody};
use crate::job::JobBody;
use crate::window::{LimitBody, WindowFields, limits};
use crate::{millis, stamp};

/// Charges, redemptions and jobs that are executed together or not at all.
// It contains tokens: no `Debug`, so that it cannot reach a log.
#[derive(Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommandBody {
    /// The units to charge.
    pub charges: Vec<ChargeBody>,
    /// When the charges are settled; default: `now`, which spends the units at once.
    pub settle: SettleWord,
    /// The time to live of the hold, in milliseconds; only with `"settle": "hold"`. Default: the budget's setting.
    #[schemars(range(min = 0))]
    pub ttl_ms: Option<i64>,
    /// What the expiry of the hold does; only with `"settle": "hold"`. Default: it frees the units.
    pub on_expiry: Option<OnExpiryBody>,
    /// The grants to redeem.
    pub redeem: Vec<RedeemBody>,
    /// The jobs to enqueue.
    pub jobs: Vec<JobBody>,
    /// References of the application to blobs, which keep them from being collected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceBody>,
    /// What the journal records with the command.
    pub context: ContextBody,
    /// Check the command without executing it.
    pub dry_run: bool,
}

/// Units to charge to a scope.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChargeBody {
    pub scope: Scope,
    /// The units to charge.
    #[schemars(range(min = 0))]
    pub amount: i64,
    /// Limits that this charge must fit, in addition to those of the scope's budget.
    #[serde(default)]
    pub limits: Vec<LimitBody>,
}

/// When charges are settled.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettleWord {
    /// The units are posted at once.
    #[default]
    Now,
    /// The units are held until the hold is committed, released or expired.
    Hold,
    /// The units are held until the command's job ends. The command has one job.
    Job,
}

/// A grant to redeem.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedeemBody {
    pub purpose: Purpose,
    /// The subject that the grant was made for.
    pub subject: Subject,
    /// The token of the grant.
    pub token: String,
}

/// What the journal records with a command.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextBody {
    /// An id of the caller's own that connects entries of the journal.
    pub correlation_id: Option<String>,
    /// Why the command is submitted.
    pub reason: Option<String>,
}

impl ChargeBody {
    /// A charge that must fit the limits of the scope's budget.
    pub fn new(scope: Scope, amount: i64) -> ChargeBody {
        ChargeBody { scope, amount, limits: Vec::new() }
    }
}

impl CommandBody {
    /// A command that places a hold and does nothing else.
    pub fn hold(body: HoldBody) -> CommandBody {
        let HoldBody { charges, ttl_ms, on_expiry, context, dry_run } = body;
        CommandBody { charges, settle: SettleWord::Hold, ttl_ms, on_expiry, context, dry_run, ..CommandBody::default() }
    }

    /// Returns the command, its context and whether it is a dry run. `context` supplies what the body leaves out.
    pub fn into_command(self, context: Context) -> Result<(Command, Context, bool), Refusal> {
        let settle = match (self.settle, self.ttl_ms) {
            (SettleWord::Hold, ttl) => Settle::Hold { ttl: ttl.map(|ttl| millis("ttl_ms", ttl)).transpose()? },
            (_, Some(_)) => return Err(Invalid::new("ttl_ms", "needs \"settle\": \"hold\"").into()),
            (SettleWord::Now, None) => Settle::Now,
            (SettleWord::Job, None) => Settle::Job,
        };
        let charge = |(index, body): (usize, ChargeBody)| {
            let limits = limits(body.limits).map_err(|invalid| invalid.of_entry("charges", index))?;
            Ok(Charge::new(body.scope, body.amount).within(limits))
        };
        let job = |(index, body): (usize, JobBody)| {
            JobSpec::try_from(body).map_err(|invalid| invalid.of_entry("jobs", index))
        };
        let redeem = |body: RedeemBody| Redemption::new(body.purpose, body.subject, &body.token);
        let command = Command {
            charges: self.charges.into_iter().enumerate().map(charge).collect::<Result<_, Invalid>>()?,
            settle,
            on_expiry: self.on_expiry.map_or(OnExpiry::Release, |on_expiry| OnExpiry::Charge(on_expiry.charge)),
            redeem: self.redeem.into_iter().map(redeem).collect::<Result<_, Refusal>>()?,
            jobs: self.jobs.into_iter().enumerate().map(job).collect::<Result<_, Invalid>>()?,
            references: self.references.into_iter().map(Into::into).collect(),
        };
        let ContextBody { correlation_id, reason } = self.context;
        let context = Context {
            correlation_id: correlation_id.or(context.correlation_id),
            reason: reason.or(context.reason),
            ..context
        };
        Ok((command, context, self.dry_run))
    }
}

/// The result of a command.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CommandAnswer {
    /// The id of the command; missing if it was only checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CommandId>,
    /// The command was executed earlier under the same idempotency key; this is that result.
    pub replayed: bool,
    /// The command was only checked.
    pub dry_run: bool,
    /// The hold that was placed.
    pub hold: Option<PlacedAnswer>,
    /// The charges that were posted at once.
    pub posted: Vec<ChargeAnswer>,
    /// The grants that were redeemed.
    pub grants: Vec<RedeemedAnswer>,
    /// The jobs that were enqueued, in the order of the request; if the command was only checked, those that exist already.
    pub jobs: Vec<EnqueuedAnswer>,
    /// `ttl_lowered` or `ttl_raised` if the hold does not live as long as requested; `would_refuse` if `would_refuse` is not empty.
    #[serde(default)]
    pub warnings: Vec<Cow<'static, str>>,
    /// What budgets in shadow mode would have refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub would_refuse: Vec<WouldRefuseAnswer>,
}

/// A hold that was placed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct PlacedAnswer {
    /// The id of the hold; missing if the command was only checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<HoldId>,
    pub state: HoldState,
    /// When the hold expires; `null` if it lasts until its job ends.
    pub expires_at: Option<String>,
    /// The charges of the hold.
    pub charges: Vec<ChargeAnswer>,
    /// The requested time to live and the one that the budgets allow; missing if they are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clamped: Option<ClampedAnswer>,
}

/// A grant that a command redeemed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RedeemedAnswer {
    pub purpose: Purpose,
    /// The payload of the grant; `null` if it is no longer stored.
    pub payload: Option<Payload>,
}

impl From<&Redeemed> for RedeemedAnswer {
    fn from(grant: &Redeemed) -> RedeemedAnswer {
        RedeemedAnswer { purpose: grant.purpose.clone(), payload: grant.payload.clone() }
    }
}

/// A job that was enqueued.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EnqueuedAnswer {
    pub id: JobId,
    /// `false`: the queue already had a job with this idempotency key, and this is its id.
    pub created: bool,
}

impl From<Enqueued> for EnqueuedAnswer {
    fn from(Enqueued { id, created }: Enqueued) -> EnqueuedAnswer {
        EnqueuedAnswer { id, created }
    }
}

/// A charge, and what each limit leaves after it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ChargeAnswer {
    pub scope: Scope,
    /// The units charged or held.
    pub amount: i64,
    /// The units that were committed; missing while they are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<i64>,
    /// The ancestors of the scope, which were charged the same units.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<Scope>,
    /// What each limit leaves.
    pub balances: Vec<LeftAnswer>,
}

/// The units that a limit leaves after a charge.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeftAnswer {
    /// The ancestor that has the limit; missing if it is the charged scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    #[serde(flatten)]
    pub window: WindowFields,
    pub limit: i64,
    /// The units that are left.
    pub remaining: i64,
}

impl From<&Placed> for PlacedAnswer {
    fn from(placed: &Placed) -> PlacedAnswer {
        PlacedAnswer {
            id: Some(placed.id),
            state: HoldState::Held,
            expires_at: stamp(placed.expires_at),
            charges: charges(&placed.charges),
            clamped: placed.clamped.as_ref().map(ClampedAnswer::from),
        }
    }
}

impl From<&Charged> for ChargeAnswer {
    fn from(charged: &Charged) -> ChargeAnswer {
        let left = |left: &Left| LeftAnswer {
            scope: left.scope.clone(),
            window: WindowFields::from(&left.window),
            limit: left.limit,
            remaining: left.remaining,
        };
        ChargeAnswer {
            scope: charged.scope.clone(),
            amount: charged.amount,
            actual: charged.actual,
            ancestors: charged.ancestors.clone(),
            balances: charged.balances.iter().map(left).collect(),
        }
    }
}

/// Converts a list of charges.
pub fn charges(charged: &[Charged]) -> Vec<ChargeAnswer> {
    charged.iter().map(ChargeAnswer::from).collect()
}
