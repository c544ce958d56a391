//! Activity: `/v1/activity`.

use bursar_core::name::{Queue, Scope, WorkerName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::EventAnswer;

/// What happened lately in a tenant: the answer of `GET /v1/activity`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ActivityAnswer {
    /// The first minute of `scopes`. Activity before it is not known.
    pub since: Option<String>,
    /// The number of minutes in each list of `scopes`.
    pub minutes: usize,
    /// The scopes with the largest spend, at most 20.
    pub scopes: Vec<ScopeActivity>,
    /// The latest events that an operator may have to look at: thresholds, freezes, trips, overruns, late commits. Newest first.
    pub notable: Vec<EventAnswer>,
    /// When this server started. It counts refusals and sees workers from then on; other servers count their own.
    #[serde(default)]
    pub started_at: Option<String>,
    /// How often limits have refused charges since then, the latest refusal first, at most 100.
    #[serde(default)]
    pub refusals: Vec<RefusalsAnswer>,
    /// Workers that have asked this server for jobs within the last hour: first those that wait, at most 1,000.
    #[serde(default)]
    pub workers: Vec<WorkerSeenAnswer>,
}

/// How often a limit, or a freeze, has refused charges since the server started. Refusals are counted in memory and are not in the
/// journal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct RefusalsAnswer {
    /// The scope that refused: the one that was charged, or an ancestor of it.
    pub scope: Scope,
    /// The window of the limit, such as `month@Europe/Berlin`; `null` if the scope was frozen.
    pub window: Option<String>,
    /// The number of refused requests.
    pub count: u64,
    /// When the last one was refused.
    pub last_at: Option<String>,
}

/// A worker that has asked the server for jobs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct WorkerSeenAnswer {
    pub name: WorkerName,
    /// The queues it has asked for the last time.
    pub queues: Vec<Queue>,
    /// Whether it is waiting for jobs now.
    pub waiting: bool,
    /// When it has last asked for jobs, or stopped waiting for them.
    pub seen_at: Option<String>,
}

/// The spend of one scope, without that of its children.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ScopeActivity {
    pub scope: Scope,
    /// The units posted in each minute, oldest first; negative if more were credited.
    pub spent: Vec<i64>,
}
