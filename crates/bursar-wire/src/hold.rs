//! Holds: `/v1/holds`.

use bursar_core::answer::Settled;
use bursar_core::bounds::TTL_MAX;
use bursar_core::hold::{ClampedTtl, Hold, HoldState, OnExpiry};
use bursar_core::id::{HoldId, JobId};
use bursar_core::name::Scope;
use bursar_core::refusal::Invalid;
use bursar_core::request::Actual;
use bursar_core::time::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::command::{ChargeAnswer, ChargeBody, ContextBody, charges};
use crate::stamp;

/// A hold to place.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldBody {
    /// The units to hold.
    pub charges: Vec<ChargeBody>,
    /// The time to live of the hold, in milliseconds; default: the budget's setting.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub ttl_ms: Option<i64>,
    /// What the expiry of the hold does; default: it frees the units.
    #[serde(default)]
    pub on_expiry: Option<OnExpiryBody>,
    /// What the journal records with the hold.
    #[serde(default)]
    pub context: ContextBody,
    /// Check the hold without placing it.
    #[serde(default)]
    pub dry_run: bool,
}

/// What the expiry of a hold does: it posts units, so that spend does not vanish with a process that died. A commit after
/// the expiry corrects them to the actual units.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnExpiryBody {
    /// The units of each charge to post at the instant of expiry; at most as many as it holds.
    #[schemars(range(min = 0))]
    pub charge: i64,
}

impl OnExpiryBody {
    /// Returns the body for what a hold does at its expiry; `None` if it frees its units.
    pub fn of(on_expiry: OnExpiry) -> Option<OnExpiryBody> {
        match on_expiry {
            OnExpiry::Release => None,
            OnExpiry::Charge(charge) => Some(OnExpiryBody { charge }),
        }
    }
}

/// The units that were spent: `actual`, or `actuals`, or neither to commit exactly the held units.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommitBody {
    /// The units spent, for a hold with one charge.
    #[schemars(range(min = 0))]
    pub actual: Option<i64>,
    /// The units spent on each scope, for a hold with several charges.
    pub actuals: Vec<ActualBody>,
}

/// The units spent on one scope of a hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActualBody {
    pub scope: Scope,
    /// The units spent.
    #[schemars(range(min = 0))]
    pub amount: i64,
}

/// An extension of a hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendBody {
    /// How much later the hold expires, in milliseconds.
    #[schemars(range(min = 0, max = TTL_MAX.millis()))]
    pub by_ms: i64,
}

/// A hold that was extended.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ExtendedAnswer {
    pub id: HoldId,
    /// The new time of expiry.
    pub expires_at: Option<String>,
    /// `ttl_lowered` if the hold was extended by less than requested; else empty.
    #[serde(default)]
    pub warnings: Vec<Cow<'static, str>>,
    /// The requested extension and the one that the budgets allow; missing if they are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clamped: Option<ClampedAnswer>,
}

/// A time to live or an extension that the policies of budgets changed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ClampedAnswer {
    /// What was requested, in milliseconds.
    pub requested_ms: i64,
    /// What the hold got, in milliseconds.
    pub granted_ms: i64,
}

impl From<&ClampedTtl> for ClampedAnswer {
    fn from(clamped: &ClampedTtl) -> ClampedAnswer {
        ClampedAnswer { requested_ms: clamped.requested.millis(), granted_ms: clamped.granted.millis() }
    }
}

/// Says what was changed, in a sentence for people.
impl std::fmt::Display for ClampedAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let span = |millis: i64| Span::from_millis(millis.max(0).unsigned_abs());
        ClampedTtl { requested: span(self.requested_ms), granted: span(self.granted_ms) }.fmt(f)
    }
}

/// The current state of a hold: the answer of `GET /v1/holds/{id}`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HoldAnswer {
    pub id: HoldId,
    pub state: HoldState,
    pub placed_at: Option<String>,
    /// When the hold expires; `null` if it lasts until its job ends.
    pub expires_at: Option<String>,
    /// The units that the expiry posts; missing if it frees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiryBody>,
    /// The job that settles the hold, if it belongs to one.
    pub job: Option<JobId>,
    /// The charges of the hold.
    pub charges: Vec<HeldChargeAnswer>,
}

/// One charge of a hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HeldChargeAnswer {
    pub scope: Scope,
    /// The units held.
    pub amount: i64,
    /// The units committed; `null` until the hold is committed.
    pub actual: Option<i64>,
    /// The ancestors of the scope, which hold the same units.
    pub ancestors: Vec<Scope>,
}

impl HoldAnswer {
    /// Returns the hold at an instant. A hold past its expiry is reported as expired even before maintenance has swept it.
    pub fn at(hold: &Hold, now: Time) -> HoldAnswer {
        let charge = |charge: &_| {
            let bursar_core::hold::HeldCharge { scope, amount, actual, ancestors, .. } = charge;
            HeldChargeAnswer { scope: scope.clone(), amount: *amount, actual: *actual, ancestors: ancestors.clone() }
        };
        HoldAnswer {
            id: hold.id,
            state: hold.state_at(now),
            placed_at: stamp(hold.placed_at),
            expires_at: stamp(hold.expires_at),
            on_expiry: OnExpiryBody::of(hold.on_expiry),
            job: hold.job,
            charges: hold.charges.iter().map(charge).collect(),
        }
    }
}

/// A hold that was committed or released.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SettledAnswer {
    pub id: HoldId,
    pub state: HoldState,
    /// The hold was committed after its expiry.
    pub late: bool,
    /// The units committed above the held amount.
    pub overrun: i64,
    /// `committed_after_expiry`, `overrun`, both or none.
    pub warnings: Vec<Cow<'static, str>>,
    /// The charges, with what each limit leaves.
    pub charges: Vec<ChargeAnswer>,
}

impl From<&Settled> for SettledAnswer {
    fn from(settled: &Settled) -> SettledAnswer {
        SettledAnswer {
            id: settled.hold,
            state: settled.state,
            late: settled.late,
            overrun: settled.overrun,
            warnings: settled.warnings().into_iter().map(Cow::from).collect(),
            charges: charges(&settled.charges),
        }
    }
}

/// Combines `actual` and `actuals` of a request; at most one of them may be given.
pub fn actual(actual: Option<i64>, actuals: Vec<(Scope, i64)>) -> Result<Actual, Invalid> {
    match (actual, actuals.is_empty()) {
        (Some(_), false) => {
            Err(Invalid::new("actual", "must be either one amount or one amount for each scope, not both"))
        }
        (Some(amount), true) => Ok(Actual::Amount(amount)),
        (None, false) => Ok(Actual::Each(actuals)),
        (None, true) => Ok(Actual::Held),
    }
}
