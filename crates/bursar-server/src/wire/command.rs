//! Commands on the wire: `POST /v1/commands`.

use bursar::{
    Charge, Charged, Command, CommandId, Context, Error, Invalid, JobId, Left, Payload, Placed, Purpose, Receipt,
    Redemption, Scope, Settle, Subject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::job::JobBody;
use crate::wire::window::{LimitBody, WindowFields, limits};
use crate::wire::{millis, stamp};

/// What a command asks for. It has tokens in it, so it is never printed.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommandBody {
    charges: Vec<ChargeBody>,
    settle: SettleWord,
    #[schemars(range(min = 0))]
    ttl_ms: Option<i64>,
    redeem: Vec<RedeemBody>,
    jobs: Vec<JobBody>,
    context: ContextBody,
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChargeBody {
    scope: Scope,
    #[schemars(range(min = 0))]
    amount: i64,
    #[serde(default)]
    limits: Vec<LimitBody>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SettleWord {
    #[default]
    Now,
    Hold,
    Job,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RedeemBody {
    purpose: Purpose,
    subject: Subject,
    token: String,
}

/// Circumstances that reach the journal.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextBody {
    correlation_id: Option<String>,
    reason: Option<String>,
}

impl CommandBody {
    /// A command of charges alone, which are held.
    pub fn hold(charges: Vec<ChargeBody>, ttl_ms: Option<i64>, context: ContextBody, dry_run: bool) -> CommandBody {
        CommandBody { charges, settle: SettleWord::Hold, ttl_ms, context, dry_run, ..CommandBody::default() }
    }

    /// The command, the context it is asked in, and whether it is only tried.
    pub fn into_command(self, context: Context) -> Result<(Command, Context, bool), Error> {
        let settle = match (self.settle, self.ttl_ms) {
            (SettleWord::Hold, ttl) => Settle::Hold { ttl: ttl.map(|ttl| millis("ttl_ms", ttl)).transpose()? },
            (_, Some(_)) => return Err(Invalid::new("ttl_ms", "needs \"settle\": \"hold\"").into()),
            (SettleWord::Now, None) => Settle::Now,
            (SettleWord::Job, None) => Settle::Job,
        };
        let charge = |body: ChargeBody| Ok(Charge::new(body.scope, body.amount).within(limits(body.limits)?));
        let redeem = |body: RedeemBody| Ok(Redemption::new(body.purpose, body.subject, &body.token)?);
        let command = Command {
            charges: self.charges.into_iter().map(charge).collect::<Result<_, Error>>()?,
            settle,
            redeem: self.redeem.into_iter().map(redeem).collect::<Result<_, Error>>()?,
            jobs: self.jobs.into_iter().map(TryInto::try_into).collect::<Result<_, Error>>()?,
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
#[derive(Serialize, JsonSchema)]
pub struct CommandAnswer {
    pub id: CommandId,
    pub replayed: bool,
    pub dry_run: bool,
    pub hold: Option<PlacedAnswer>,
    posted: Vec<ChargeAnswer>,
    grants: Vec<RedeemedAnswer>,
    jobs: Vec<EnqueuedAnswer>,
}

#[derive(Serialize, JsonSchema)]
pub struct PlacedAnswer {
    pub id: bursar::HoldId,
    state: &'static str,
    expires_at: Option<String>,
    charges: Vec<ChargeAnswer>,
}

#[derive(Serialize, JsonSchema)]
struct RedeemedAnswer {
    purpose: Purpose,
    payload: Option<Payload>,
}

#[derive(Serialize, JsonSchema)]
pub struct EnqueuedAnswer {
    pub id: JobId,
    pub created: bool,
}

/// A charge with what its limits left afterwards.
#[derive(Serialize, JsonSchema)]
pub struct ChargeAnswer {
    scope: Scope,
    amount: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    ancestors: Vec<Scope>,
    balances: Vec<LeftAnswer>,
}

/// What a limit left.
#[derive(Serialize, JsonSchema)]
struct LeftAnswer {
    /// Where it is not the charged scope but an ancestor.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<Scope>,
    #[serde(flatten)]
    window: WindowFields,
    limit: i64,
    remaining: i64,
}

impl CommandAnswer {
    /// The answer to a command that was done or tried.
    pub fn of(receipt: &Receipt, dry_run: bool) -> CommandAnswer {
        let done = &receipt.done;
        let redeemed = |grant: &bursar::Redeemed| RedeemedAnswer {
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
            jobs: done.jobs.iter().map(|job| EnqueuedAnswer { id: job.id, created: job.created }).collect(),
        }
    }
}

impl From<&Placed> for PlacedAnswer {
    fn from(placed: &Placed) -> PlacedAnswer {
        PlacedAnswer {
            id: placed.id,
            state: bursar::HoldState::Held.as_str(),
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
