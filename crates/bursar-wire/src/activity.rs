//! Activity: `/v1/activity`.

use bursar_core::name::Scope;
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
}

/// The spend of one scope, without that of its children.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ScopeActivity {
    pub scope: Scope,
    /// The units posted in each minute, oldest first; negative if more were credited.
    pub spent: Vec<i64>,
}
