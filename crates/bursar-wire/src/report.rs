//! Reports: the integrity check, what jobs cost and hold, and which errors dead jobs have.

use bursar_core::name::{JobKind, Queue, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::ErrorAnswer;

/// The result of the integrity check: the answer of `GET /v1/verify`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct VerifyAnswer {
    /// `true` if no violation was found.
    pub ok: bool,
    /// How many rows were checked.
    pub checked: CheckedAnswer,
    /// The violated invariants, one sentence each.
    pub violations: Vec<String>,
}

/// The number of rows that were checked.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CheckedAnswer {
    pub scopes: u64,
    pub holds: u64,
    pub jobs: u64,
}

/// The units charged for jobs on one day.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DayCostAnswer {
    /// The day in UTC, such as `2026-11-01`.
    pub day: String,
    pub queue: Queue,
    pub kind: JobKind,
    pub scope: Scope,
    /// The units charged.
    pub amount: i64,
}

/// The units that the holds of jobs set aside now.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HeldAnswer {
    pub queue: Queue,
    pub kind: JobKind,
    /// The unit of the budgets; empty if they name none.
    pub unit: String,
    /// The units held, summed over all scopes with this unit.
    pub amount: i64,
}

/// The dead jobs of a queue and kind that have the same error.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DeadGroupAnswer {
    pub queue: Queue,
    pub kind: JobKind,
    /// The number of dead jobs.
    pub count: i64,
    /// The error of the job that died last. Its fingerprint is that of all jobs of the group.
    pub error: ErrorAnswer,
    /// When the first of the jobs died.
    pub first_at: String,
    /// When the last of the jobs died.
    pub last_at: String,
}
