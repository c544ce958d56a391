//! Holds on the wire.

use bursar::{Actual, Error, Hold, HoldId, Invalid, JobId, Scope, Settled, Time};
use serde::Serialize;

use crate::wire::command::{ChargeAnswer, charges};
use crate::wire::stamp;

/// A hold as it stands: the answer of `GET /v1/holds/{id}`.
#[derive(Serialize)]
pub(crate) struct HoldAnswer {
    pub(crate) id: HoldId,
    pub(crate) state: &'static str,
    pub(crate) placed_at: Option<String>,
    pub(crate) expires_at: Option<String>,
    pub(crate) job: Option<JobId>,
    pub(crate) charges: Vec<HeldChargeAnswer>,
}

/// What is held on a scope.
#[derive(Serialize)]
pub(crate) struct HeldChargeAnswer {
    pub(crate) scope: Scope,
    pub(crate) amount: i64,
    pub(crate) actual: Option<i64>,
    pub(crate) ancestors: Vec<Scope>,
}

impl HoldAnswer {
    /// The hold at an instant: it is expired as soon as its time is over, swept or not.
    pub(crate) fn at(hold: &Hold, now: Time) -> HoldAnswer {
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
#[derive(Serialize)]
pub(crate) struct SettledAnswer {
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
pub(crate) fn actual(actual: Option<i64>, actuals: Vec<(Scope, i64)>) -> Result<Actual, Error> {
    match (actual, actuals.is_empty()) {
        (Some(_), false) => Err(Invalid::new("actual", "is either one amount or SCOPE=AMOUNT for each charge").into()),
        (Some(amount), true) => Ok(Actual::Amount(amount)),
        (None, false) => Ok(Actual::Each(actuals)),
        (None, true) => Ok(Actual::Held),
    }
}
