//! Reports on the wire: what was checked, what jobs cost and hold.

#[cfg(feature = "library")]
use bursar::{Cost, HeldSum, Report};
use bursar_core::name::{JobKind, Queue, Scope};
#[cfg(feature = "library")]
use bursar_core::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /v1/verify` answers.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct VerifyAnswer {
    pub ok: bool,
    pub checked: CheckedAnswer,
    pub violations: Vec<String>,
}

/// How much was checked.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CheckedAnswer {
    pub scopes: u64,
    pub holds: u64,
    pub jobs: u64,
}

#[cfg(feature = "library")]
impl From<&Report> for VerifyAnswer {
    fn from(report: &Report) -> VerifyAnswer {
        VerifyAnswer {
            ok: report.is_ok(),
            checked: CheckedAnswer { scopes: report.scopes, holds: report.holds, jobs: report.jobs },
            violations: report.violations.clone(),
        }
    }
}

/// What jobs cost on a day.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DayCostAnswer {
    /// In UTC.
    pub day: String,
    pub queue: Queue,
    pub kind: JobKind,
    pub scope: Scope,
    pub amount: i64,
}

/// What the holds of jobs set aside now.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HeldAnswer {
    pub queue: Queue,
    pub kind: JobKind,
    /// The unit of the budgets it is held on; empty where they name none.
    pub unit: String,
    /// On all scopes of the unit together.
    pub amount: i64,
}

#[cfg(feature = "library")]
impl From<HeldSum> for HeldAnswer {
    fn from(held: HeldSum) -> HeldAnswer {
        let HeldSum { queue, kind, unit, amount } = held;
        HeldAnswer { queue, kind, unit, amount }
    }
}

/// Microseconds in a day.
#[cfg(feature = "library")]
const DAY: i64 = 86_400_000_000;

#[cfg(feature = "library")]
impl From<&Cost> for DayCostAnswer {
    fn from(cost: &Cost) -> DayCostAnswer {
        let day = Time::from_micros(cost.day.saturating_mul(DAY)).to_string();
        DayCostAnswer {
            day: day.split('T').next().unwrap_or_default().to_owned(),
            queue: cost.queue.clone(),
            kind: cost.kind.clone(),
            scope: cost.scope.clone(),
            amount: cost.amount,
        }
    }
}
