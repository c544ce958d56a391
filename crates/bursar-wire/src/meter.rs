//! Quotas of metered callers: `/v1/meter`.

use bursar_core::budget::Limit;
use bursar_core::name::Scope;
use bursar_core::refusal::Invalid;
use bursar_core::window::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::window::{LimitBody, WindowFields, limits};

/// The quota of a caller. The fields other than `agent_id`, `scope` and `limits` describe the limit that leaves the fewest units.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct QuotaAnswer {
    /// The id of the caller.
    pub agent_id: String,
    /// The scope that is charged for the caller.
    pub scope: Scope,
    /// The limit that leaves the fewest units.
    #[serde(flatten)]
    pub tightest: Option<QuotaLimitAnswer>,
    /// All limits of the caller.
    pub limits: Vec<QuotaLimitAnswer>,
}

/// One limit of a quota.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct QuotaLimitAnswer {
    #[serde(flatten)]
    pub window: WindowFields,
    pub limit: i64,
    /// The units posted and held.
    pub used: i64,
    /// The units that are left.
    pub remaining: i64,
    /// The start of the window, in seconds since 1970; `null` if the window has no start.
    pub window_start: Option<i64>,
    /// When the whole limit is available again if nothing more is spent, in seconds since 1970; `null`: never.
    pub reset_at: Option<i64>,
}

/// Limits for one caller: the body of `POST /v1/meter/quota/limit`. Either `limit` or `limits` is required.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaLimitBody {
    /// The id of the caller.
    pub agent_id: String,
    /// The units per window; the window is that of the default quota.
    #[serde(default)]
    pub limit: Option<i64>,
    /// Limits with windows of their own.
    #[serde(default)]
    pub limits: Option<Vec<LimitBody>>,
    /// Why the limits are changed; recorded in the journal.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A charge to the quota of a caller: the body of `POST /v1/meter/check`. Either `cost` or `operation` is required.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaCheckBody {
    /// The id of the caller.
    pub agent_id: String,
    /// The units to charge.
    #[serde(default)]
    pub cost: Option<i64>,
    /// The request that the caller makes of your API. The prices of the server's configuration tell what it costs.
    #[serde(default)]
    pub operation: Option<MeteredOperationBody>,
}

/// A request of a caller, as far as its price depends on it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeteredOperationBody {
    /// The HTTP method, such as `POST`.
    pub method: String,
    /// The path, with its query if a price depends on it: `/claims?lens=trust`.
    pub path: String,
    /// The size of the payload in bytes.
    #[serde(default)]
    pub payload_bytes: u64,
}

/// The quota of a caller after a charge that was admitted. A charge that is not admitted is answered with the problem
/// `quota-exceeded`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct QuotaCheckAnswer {
    /// Whether the quota admits the charge. It is always `true`; a refusal is a problem.
    pub admitted: bool,
    /// The units charged; 0 if the path of the operation costs nothing.
    pub cost: i64,
    #[serde(flatten)]
    pub quota: QuotaAnswer,
}

impl QuotaLimitBody {
    /// Returns the requested limits. `quota` is the default quota, whose first window `limit` uses.
    pub fn limits(&mut self, quota: &[Limit]) -> Result<Vec<Limit>, Problem> {
        match (self.limit, self.limits.take()) {
            (None, Some(bodies)) => Ok(limits(bodies)?),
            (Some(amount), None) if amount < 0 => Err(Invalid::new("limit", "must not be negative").into()),
            (Some(amount), None) => {
                let window = quota.first().map_or(Window::Lifetime, |limit| limit.window.clone());
                let window = match window {
                    Window::Bucket { refill, length, .. } => Window::bucket(amount, refill, length)?,
                    window => window,
                };
                Ok(vec![Limit::new(amount, window)])
            }
            _ => Err(Invalid::new("limit", "or limits must be given, and not both").into()),
        }
    }
}
