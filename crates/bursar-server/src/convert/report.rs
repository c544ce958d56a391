//! The integrity check, what jobs cost and hold, and which errors dead jobs have.

use bursar::{Cost, DeadGroup, HeldSum, Report, Time};

use crate::wire::job::ErrorAnswer;
use crate::wire::report::{CheckedAnswer, DayCostAnswer, DeadGroupAnswer, HeldAnswer, VerifyAnswer};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Returns the result of the integrity check.
pub fn verify_answer(report: &Report) -> VerifyAnswer {
    VerifyAnswer {
        ok: report.is_ok(),
        checked: CheckedAnswer { scopes: report.scopes, holds: report.holds, jobs: report.jobs },
        violations: report.violations.clone(),
    }
}

/// Returns the units charged for jobs on one day.
pub fn day_cost_answer(cost: &Cost) -> DayCostAnswer {
    let day = Time::from_micros(cost.day.saturating_mul(MICROS_PER_DAY)).to_string();
    DayCostAnswer {
        day: day.split('T').next().unwrap_or_default().to_owned(),
        queue: cost.queue.clone(),
        kind: cost.kind.clone(),
        scope: cost.scope.clone(),
        amount: cost.amount,
    }
}

/// Returns the units that the holds of jobs set aside.
pub fn held_answer(held: HeldSum) -> HeldAnswer {
    let HeldSum { queue, kind, unit, amount } = held;
    HeldAnswer { queue, kind, unit, amount }
}

/// Returns a group of dead jobs.
pub fn dead_group_answer(group: DeadGroup) -> DeadGroupAnswer {
    let DeadGroup { queue, kind, count, error, first_at, last_at, .. } = group;
    let (first_at, last_at) = (first_at.to_string(), last_at.to_string());
    DeadGroupAnswer { queue, kind, count, error: ErrorAnswer::from(&error), first_at, last_at }
}
