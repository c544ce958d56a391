//! Commands on the wire: `POST /v1/commands`.

#[cfg(feature = "library")]
use bursar::Receipt;
use bursar_core::answer::{Enqueued, Placed};
use bursar_core::context::Context;
use bursar_core::event::{Charged, Left};
use bursar_core::hold::HoldState;
use bursar_core::id::{CommandId, JobId};
use bursar_core::name::{Purpose, Scope, Subject};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use bursar_core::request::{Charge, Command, Redemption, Settle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::JobBody;
use crate::window::{LimitBody, WindowFields, limits};
use crate::{millis, stamp};

/// What a command asks for. It has tokens in it, so it is never printed.
#[derive(Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommandBody {
    pub charges: Vec<ChargeBody>,
    pub settle: SettleWord,
    #[schemars(range(min = 0))]
    pub ttl_ms: Option<i64>,
    pub redeem: Vec<RedeemBody>,
    pub jobs: Vec<JobBody>,
    pub context: ContextBody,
    pub dry_run: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChargeBody {
    pub scope: Scope,
    #[schemars(range(min = 0))]
    pub amount: i64,
    #[serde(default)]
    pub limits: Vec<LimitBody>,
}

/// How charges are settled.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettleWord {
    #[default]
    Now,
    Hold,
    Job,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedeemBody {
    pub purpose: Purpose,
    pub subject: Subject,
    pub token: String,
}

/// Circumstances that reach the journal.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextBody {
    pub correlation_id: Option<String>,
    pub reason: Option<String>,
}

impl ChargeBody {
    /// So much on a scope, within the limits that are registered there.
    pub fn new(scope: Scope, amount: i64) -> ChargeBody {
        ChargeBody { scope, amount, limits: Vec::new() }
    }
}

impl CommandBody {
    /// A command of charges alone, which are held.
    pub fn hold(charges: Vec<ChargeBody>, ttl_ms: Option<i64>, context: ContextBody, dry_run: bool) -> CommandBody {
        CommandBody { charges, settle: SettleWord::Hold, ttl_ms, context, dry_run, ..CommandBody::default() }
    }

    /// The command, the context it is asked in, and whether it is only tried.
    pub fn into_command(self, context: Context) -> Result<(Command, Context, bool), Refusal> {
        let settle = match (self.settle, self.ttl_ms) {
            (SettleWord::Hold, ttl) => Settle::Hold { ttl: ttl.map(|ttl| millis("ttl_ms", ttl)).transpose()? },
            (_, Some(_)) => return Err(Invalid::new("ttl_ms", "needs \"settle\": \"hold\"").into()),
            (SettleWord::Now, None) => Settle::Now,
            (SettleWord::Job, None) => Settle::Job,
        };
        let charge =
            |body: ChargeBody| Ok::<_, Refusal>(Charge::new(body.scope, body.amount).within(limits(body.limits)?));
        let redeem = |body: RedeemBody| Redemption::new(body.purpose, body.subject, &body.token);
        let command = Command {
            charges: self.charges.into_iter().map(charge).collect::<Result<_, Refusal>>()?,
            settle,
            redeem: self.redeem.into_iter().map(redeem).collect::<Result<_, Refusal>>()?,
            jobs: self.jobs.into_iter().map(TryInto::try_into).collect::<Result<_, Invalid>>()?,
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

/// What a command did.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CommandAnswer {
    pub id: CommandId,
    pub replayed: bool,
    pub dry_run: bool,
    pub hold: Option<PlacedAnswer>,
    pub posted: Vec<ChargeAnswer>,
    pub grants: Vec<RedeemedAnswer>,
    pub jobs: Vec<EnqueuedAnswer>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct PlacedAnswer {
    pub id: bursar_core::id::HoldId,
    pub state: HoldState,
    pub expires_at: Option<String>,
    pub charges: Vec<ChargeAnswer>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RedeemedAnswer {
    pub purpose: Purpose,
    pub payload: Option<Payload>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EnqueuedAnswer {
    pub id: JobId,
    pub created: bool,
}

impl From<Enqueued> for EnqueuedAnswer {
    fn from(Enqueued { id, created }: Enqueued) -> EnqueuedAnswer {
        EnqueuedAnswer { id, created }
    }
}

/// A charge with what its limits left afterwards.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ChargeAnswer {
    pub scope: Scope,
    pub amount: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<Scope>,
    pub balances: Vec<LeftAnswer>,
}

/// What a limit left.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeftAnswer {
    /// Where it is not the charged scope but an ancestor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    #[serde(flatten)]
    pub window: WindowFields,
    pub limit: i64,
    pub remaining: i64,
}

#[cfg(feature = "library")]
impl CommandAnswer {
    /// The answer to a command that was done or tried.
    pub fn of(receipt: &Receipt, dry_run: bool) -> CommandAnswer {
        let done = &receipt.done;
        let redeemed = |grant: &bursar_core::answer::Redeemed| RedeemedAnswer {
            purpose: grant.purpose.clone(),
            payload: grant.payload.clone(),
        };
        CommandAnswer {
            id: receipt.command,
            replayed: receipt.replayed,
            dry_run,
            hold: done.hold.as_ref().map(PlacedAnswer::from),
            posted: charges(&done.posted),
            grants: done.grants.iter().map(redeemed).collect(),
            jobs: done.jobs.iter().copied().map(EnqueuedAnswer::from).collect(),
        }
    }
}

impl From<&Placed> for PlacedAnswer {
    fn from(placed: &Placed) -> PlacedAnswer {
        PlacedAnswer {
            id: placed.id,
            state: HoldState::Held,
            expires_at: stamp(placed.expires_at),
            charges: charges(&placed.charges),
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

/// Charges as they are answered.
pub fn charges(charged: &[Charged]) -> Vec<ChargeAnswer> {
    charged.iter().map(ChargeAnswer::from).collect()
}
