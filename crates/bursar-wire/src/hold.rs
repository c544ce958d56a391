//! Holds on the wire.

use bursar_core::answer::Settled;
use bursar_core::bounds::TTL_MAX;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{HoldId, JobId};
use bursar_core::name::Scope;
use bursar_core::refusal::Invalid;
use bursar_core::request::Actual;
use bursar_core::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::command::{ChargeAnswer, ChargeBody, ContextBody, charges};
use crate::stamp;

/// A command of charges alone.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldBody {
    pub charges: Vec<ChargeBody>,
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub ttl_ms: Option<i64>,
    #[serde(default)]
    pub context: ContextBody,
    #[serde(default)]
    pub dry_run: bool,
}

/// What a hold really cost: one amount, or one for each scope; what was held unless it is said.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommitBody {
    #[schemars(range(min = 0))]
    pub actual: Option<i64>,
    pub actuals: Vec<ActualBody>,
}

/// What was spent on a scope.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActualBody {
    pub scope: Scope,
    #[schemars(range(min = 0))]
    pub amount: i64,
}

/// How much longer a hold is to live.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendBody {
    #[schemars(range(min = 0, max = TTL_MAX.millis()))]
    pub by_ms: i64,
}

/// A hold that lives longer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ExtendedAnswer {
    pub id: HoldId,
    pub expires_at: Option<String>,
}

/// A hold as it stands: the answer of `GET /v1/holds/{id}`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HoldAnswer {
    pub id: HoldId,
    pub state: HoldState,
    pub placed_at: Option<String>,
    pub expires_at: Option<String>,
    pub job: Option<JobId>,
    pub charges: Vec<HeldChargeAnswer>,
}

/// What is held on a scope.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HeldChargeAnswer {
    pub scope: Scope,
    pub amount: i64,
    pub actual: Option<i64>,
    pub ancestors: Vec<Scope>,
}

impl HoldAnswer {
    /// The hold at an instant: it is expired as soon as its time is over, swept or not.
    pub fn at(hold: &Hold, now: Time) -> HoldAnswer {
        let charge = |charge: &_| {
            let bursar_core::hold::HeldCharge { scope, amount, actual, ancestors, .. } = charge;
            HeldChargeAnswer { scope: scope.clone(), amount: *amount, actual: *actual, ancestors: ancestors.clone() }
        };
        HoldAnswer {
            id: hold.id,
            state: hold.state_at(now),
            placed_at: stamp(hold.placed_at),
            expires_at: stamp(hold.expires_at),
            job: hold.job,
            charges: hold.charges.iter().map(charge).collect(),
        }
    }
}

/// A hold that was settled.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SettledAnswer {
    pub id: HoldId,
    pub state: HoldState,
    pub late: bool,
    pub overrun: i64,
    pub warnings: Vec<Cow<'static, str>>,
    pub charges: Vec<ChargeAnswer>,
}

impl From<&Settled> for SettledAnswer {
    fn from(settled: &Settled) -> SettledAnswer {
        SettledAnswer {
            id: settled.hold,
            state: settled.state,
            late: settled.late,
            overrun: settled.overrun,
            warnings: settled.warnings().into_iter().map(Cow::from).collect(),
            charges: charges(&settled.charges),
        }
    }
}

/// What a hold really cost, from `actual` for its only charge or `actuals` for each.
pub fn actual(actual: Option<i64>, actuals: Vec<(Scope, i64)>) -> Result<Actual, Invalid> {
    match (actual, actuals.is_empty()) {
        (Some(_), false) => Err(Invalid::new("actual", "is either one amount or SCOPE=AMOUNT for each charge")),
        (Some(amount), true) => Ok(Actual::Amount(amount)),
        (None, false) => Ok(Actual::Each(actuals)),
        (None, true) => Ok(Actual::Held),
    }
}
