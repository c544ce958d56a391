//! Quotas on the wire.

#[cfg(feature = "library")]
use bursar::meter::{LimitStanding, Standing, unix_seconds};
use bursar_core::budget::Limit;
use bursar_core::name::Scope;
use bursar_core::refusal::Invalid;
#[cfg(feature = "library")]
use bursar_core::time::Time;
use bursar_core::window::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::window::{LimitBody, WindowFields, limits};

/// How a caller stands with its quota. What is told beside `limits` is of the tightest of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct QuotaAnswer {
    pub agent_id: String,
    /// Its budget.
    pub scope: Scope,
    #[serde(flatten)]
    pub tightest: Option<QuotaLimitAnswer>,
    pub limits: Vec<QuotaLimitAnswer>,
}

/// How a caller stands with one limit.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct QuotaLimitAnswer {
    #[serde(flatten)]
    pub window: WindowFields,
    pub limit: i64,
    /// Units posted and held.
    pub used: i64,
    pub remaining: i64,
    /// Since when it counts, in seconds since 1970, if there is such an instant.
    pub window_start: Option<i64>,
    /// When all of it is there again if nothing more is spent, in seconds since 1970; `null` for never.
    pub reset_at: Option<i64>,
}

#[cfg(feature = "library")]
impl From<&Standing> for QuotaAnswer {
    fn from(standing: &Standing) -> QuotaAnswer {
        QuotaAnswer {
            agent_id: standing.caller.name().to_owned(),
            scope: standing.caller.scope().clone(),
            tightest: standing.tightest().map(QuotaLimitAnswer::from),
            limits: standing.limits.iter().map(QuotaLimitAnswer::from).collect(),
        }
    }
}

#[cfg(feature = "library")]
impl From<&LimitStanding> for QuotaLimitAnswer {
    fn from(limit: &LimitStanding) -> QuotaLimitAnswer {
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
}

/// Limits of one caller's own: the body of `POST /v1/meter/quota/limit`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaLimitBody {
    pub agent_id: String,
    /// So much in the window of the quota that everybody has …
    #[serde(default)]
    pub limit: Option<i64>,
    /// … or these limits.
    #[serde(default)]
    pub limits: Option<Vec<LimitBody>>,
    #[serde(default)]
    pub reason: Option<String>,
}

impl QuotaLimitBody {
    /// The limits that are meant, beside a quota.
    pub fn limits(&mut self, quota: &[Limit]) -> Result<Vec<Limit>, Problem> {
        match (self.limit, self.limits.take()) {
            (None, Some(bodies)) => Ok(limits(bodies)?),
            (Some(amount), None) => {
                let window = quota.first().map_or(Window::Lifetime, |limit| limit.window.clone());
                let window = match window {
                    Window::Bucket { refill, length, .. } => Window::bucket(amount, refill, length)?,
                    window => window,
                };
                Ok(vec![Limit::new(amount, window)])
            }
            _ => Err(Invalid::new("limit", "or limits must be given, one of them").into()),
        }
    }
}
