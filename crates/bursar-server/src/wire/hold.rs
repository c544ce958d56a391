//! Holds on the wire.

use bursar::bounds::TTL_MAX;
use bursar::{Actual, Error, Hold, HoldId, Invalid, JobId, Scope, Settled, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::command::{ChargeAnswer, ChargeBody, ContextBody, charges};
use crate::wire::stamp;

/// A command of charges alone.
#[derive(Deserialize, JsonSchema)]
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
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommitBody {
    #[schemars(range(min = 0))]
    pub actual: Option<i64>,
    pub actuals: Vec<ActualBody>,
}

/// What was spent on a scope.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActualBody {
    pub scope: Scope,
    #[schemars(range(min = 0))]
    pub amount: i64,
}

/// How much longer a hold is to live.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendBody {
    #[schemars(range(min = 0, max = TTL_MAX.millis()))]
    pub by_ms: i64,
}

/// A hold that lives longer.
#[derive(Serialize, JsonSchema)]
pub struct ExtendedAnswer {
    pub id: HoldId,
    pub expires_at: Option<String>,
}

/// A hold as it stands: the answer of `GET /v1/holds/{id}`.
#[derive(Serialize, JsonSchema)]
pub struct HoldAnswer {
    pub id: HoldId,
    pub state: &'static str,
    pub placed_at: Option<String>,
    pub expires_at: Option<String>,
    pub job: Option<JobId>,
    pub charges: Vec<HeldChargeAnswer>,
}

/// What is held on a scope.
#[derive(Serialize, JsonSchema)]
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
            let bursar::HeldCharge { scope, amount, actual, ancestors, .. } = charge;
            HeldChargeAnswer { scope: scope.clone(), amount: *amount, actual: *actual, ancestors: ancestors.clone() }
        };
        HoldAnswer {
            id: hold.id,
            state: hold.state_at(now).as_str(),
            placed_at: stamp(hold.placed_at),
            expires_at: stamp(hold.expires_at),
            job: hold.job,
            charges: hold.charges.iter().map(charge).collect(),
        }
    }
}

/// A hold that was settled.
#[derive(Serialize, JsonSchema)]
pub struct SettledAnswer {
    id: HoldId,
    state: &'static str,
    late: bool,
    overrun: i64,
    warnings: Vec<&'static str>,
    charges: Vec<ChargeAnswer>,
}

impl From<&Settled> for SettledAnswer {
    fn from(settled: &Settled) -> SettledAnswer {
        SettledAnswer {
            id: settled.hold,
            state: settled.state.as_str(),
            late: settled.late,
            overrun: settled.overrun,
            warnings: settled.warnings(),
            charges: charges(&settled.charges),
        }
    }
}

/// What a hold really cost, from `actual` for its only charge or `actuals` for each.
pub fn actual(actual: Option<i64>, actuals: Vec<(Scope, i64)>) -> Result<Actual, Error> {
    match (actual, actuals.is_empty()) {
        (Some(_), false) => Err(Invalid::new("actual", "is either one amount or SCOPE=AMOUNT for each charge").into()),
        (Some(amount), true) => Ok(Actual::Amount(amount)),
        (None, false) => Ok(Actual::Each(actuals)),
        (None, true) => Ok(Actual::Held),
    }
}
