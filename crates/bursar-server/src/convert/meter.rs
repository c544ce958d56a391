//! Quotas.

use bursar::Time;
use bursar::meter::{LimitStanding, Standing, unix_seconds};

use crate::wire::meter::{QuotaAnswer, QuotaCheckAnswer, QuotaLimitAnswer};
use crate::wire::window::WindowFields;

/// Returns the quota of a caller.
pub fn quota_answer(standing: &Standing) -> QuotaAnswer {
    QuotaAnswer {
        agent_id: standing.caller.name().to_owned(),
        scope: standing.caller.scope().clone(),
        tightest: standing.tightest().map(quota_limit_answer),
        limits: standing.limits.iter().map(quota_limit_answer).collect(),
    }
}

/// Returns the answer to a charge of `cost` units that was admitted.
pub fn quota_check_answer(standing: &Standing, cost: i64) -> QuotaCheckAnswer {
    QuotaCheckAnswer { admitted: true, cost, quota: quota_answer(standing) }
}

fn quota_limit_answer(limit: &LimitStanding) -> QuotaLimitAnswer {
    let seconds = |time: Option<Time>| time.map(unix_seconds);
    QuotaLimitAnswer {
        window: WindowFields::from(&limit.window),
        limit: limit.limit,
        used: limit.used(),
        remaining: limit.remaining.max(0),
        window_start: seconds(limit.window_start),
        reset_at: seconds(limit.reset_at),
    }
}
