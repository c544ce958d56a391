//! Budgets on the wire.

#[cfg(feature = "library")]
use bursar::{BalanceView, BudgetView};
use bursar_core::budget::{Budget, Cover, HoldPolicy};
use bursar_core::context::Actor;
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::refusal::Invalid;
#[cfg(feature = "library")]
use bursar_core::scope::Freeze;
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::flat;
use crate::millis;
#[cfg(feature = "library")]
use crate::stamp;
use crate::window::{LimitBody, WindowFields, limits};

/// What is registered on a scope: the body of `PUT /v1/budgets/{scope}`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetBody {
    pub unit: String,
    pub parent: Option<Scope>,
    pub limits: Vec<LimitBody>,
    pub hold: HoldPolicyBody,
    pub trip: Option<LimitBody>,
    pub thresholds: Vec<u32>,
    pub shadow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How holds on a budget live.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HoldPolicyBody {
    pub ttl_ms_min: i64,
    /// `null`: the server-wide default.
    pub ttl_ms: Option<i64>,
    pub ttl_ms_max: i64,
    pub life_ms_max: Option<i64>,
    pub late: Cover,
    pub overrun: Cover,
}

impl Default for HoldPolicyBody {
    fn default() -> HoldPolicyBody {
        HoldPolicyBody::from(&HoldPolicy::default())
    }
}

impl From<&HoldPolicy> for HoldPolicyBody {
    fn from(policy: &HoldPolicy) -> HoldPolicyBody {
        HoldPolicyBody {
            ttl_ms_min: policy.ttl_min.millis(),
            ttl_ms: policy.ttl.map(Span::millis),
            ttl_ms_max: policy.ttl_max.millis(),
            life_ms_max: policy.life_max.map(Span::millis),
            late: policy.late,
            overrun: policy.overrun,
        }
    }
}

impl TryFrom<HoldPolicyBody> for HoldPolicy {
    type Error = Invalid;

    fn try_from(body: HoldPolicyBody) -> Result<HoldPolicy, Invalid> {
        Ok(HoldPolicy {
            ttl_min: millis("hold.ttl_ms_min", body.ttl_ms_min)?,
            ttl: body.ttl_ms.map(|ttl| millis("hold.ttl_ms", ttl)).transpose()?,
            ttl_max: millis("hold.ttl_ms_max", body.ttl_ms_max)?,
            life_max: body.life_ms_max.map(|life| millis("hold.life_ms_max", life)).transpose()?,
            late: body.late,
            overrun: body.overrun,
        })
    }
}

impl From<&Budget> for BudgetBody {
    fn from(budget: &Budget) -> BudgetBody {
        BudgetBody {
            unit: budget.unit.clone(),
            parent: budget.parent.clone(),
            limits: budget.limits.iter().map(LimitBody::from).collect(),
            hold: HoldPolicyBody::from(&budget.hold),
            trip: budget.trip.as_ref().map(LimitBody::from),
            thresholds: budget.thresholds.clone(),
            shadow: false,
            reason: None,
        }
    }
}

impl TryFrom<BudgetBody> for Budget {
    type Error = Invalid;

    fn try_from(body: BudgetBody) -> Result<Budget, Invalid> {
        // Taking the wish and enforcing all the same would be worse than saying no.
        if body.shadow {
            return Err(Invalid::new("shadow", "is not supported by this build: leave it out or say false"));
        }
        Ok(Budget {
            unit: body.unit,
            parent: body.parent,
            limits: limits(body.limits)?,
            hold: HoldPolicy::try_from(body.hold)?,
            trip: body.trip.map(TryInto::try_into).transpose()?,
            thresholds: body.thresholds,
            by_default: false,
        })
    }
}

/// Why, for the journal.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReasonBody {
    pub reason: Option<String>,
}

/// Units to be given back.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreditBody {
    pub amount: i64,
    /// Dates the credit like this hold.
    #[serde(default)]
    pub hold: Option<HoldId>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// Units posted in a time.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SpentAnswer {
    pub scope: Scope,
    /// `null`: from the beginning.
    pub from: Option<String>,
    pub to: Option<String>,
    pub spent: i64,
}

/// A budget as it stands: the answer of `GET /v1/budgets/{scope}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BudgetAnswer {
    pub scope: Scope,
    /// Missing for a scope that only requests have limited.
    #[serde(flatten)]
    pub budget: Option<BudgetBody>,
    pub frozen: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze: Option<FreezeAnswer>,
    pub balances: Vec<BalanceAnswer>,
}

impl<'de> Deserialize<'de> for BudgetAnswer {
    fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<BudgetAnswer, D::Error> {
        #[derive(Deserialize)]
        struct Own {
            scope: Scope,
            frozen: bool,
            freeze: Option<FreezeAnswer>,
            balances: Vec<BalanceAnswer>,
        }
        let (own, budget) = flat::split(de, &["scope", "frozen", "freeze", "balances"], "unit")?;
        let Own { scope, frozen, freeze, balances } = own;
        Ok(BudgetAnswer { scope, budget, frozen, freeze, balances })
    }
}

/// Why a scope is frozen.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum FreezeAnswer {
    Order {
        actor: ActorAnswer,
        reason: Option<String>,
    },
    Trip {
        #[serde(flatten)]
        window: WindowFields,
        until: Option<String>,
    },
}

/// What is posted and held in a window.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct BalanceAnswer {
    #[serde(flatten)]
    pub window: WindowFields,
    pub start: Option<String>,
    pub end: Option<String>,
    pub limit: Option<i64>,
    pub posted: i64,
    pub held: i64,
    pub remaining: Option<i64>,
}

#[cfg(feature = "library")]
impl From<&BudgetView> for BudgetAnswer {
    fn from(view: &BudgetView) -> BudgetAnswer {
        let freeze = view.frozen.as_ref().map(|freeze| match freeze {
            Freeze::Order { actor, reason } => {
                FreezeAnswer::Order { actor: ActorAnswer::from(actor), reason: reason.clone() }
            }
            Freeze::Trip { window, until } => {
                FreezeAnswer::Trip { window: window.into(), until: until.and_then(stamp) }
            }
        });
        BudgetAnswer {
            scope: view.scope.clone(),
            budget: view.budget.as_ref().map(BudgetBody::from),
            frozen: freeze.is_some(),
            freeze,
            balances: view.balances.iter().map(BalanceAnswer::from).collect(),
        }
    }
}

#[cfg(feature = "library")]
impl From<&BalanceView> for BalanceAnswer {
    fn from(view: &BalanceView) -> BalanceAnswer {
        BalanceAnswer {
            window: WindowFields::from(&view.window),
            start: view.start.and_then(stamp),
            end: view.end.and_then(stamp),
            limit: view.limit,
            posted: view.posted,
            held: view.held,
            remaining: view.remaining,
        }
    }
}

/// Who asked for something.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ActorAnswer {
    pub kind: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl From<&Actor> for ActorAnswer {
    fn from(actor: &Actor) -> ActorAnswer {
        let (kind, id) = match actor {
            Actor::System => ("system", None),
            Actor::User(id) => ("user", Some(id)),
            Actor::Job(id) => ("job", Some(id)),
            Actor::Worker(id) => ("worker", Some(id)),
            Actor::Agent(id) => ("agent", Some(id)),
            Actor::Anonymous => ("anonymous", None),
        };
        ActorAnswer { kind: kind.into(), id: id.cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_of_the_specification_reads_back() {
        let json = r#"{ "unit": "micro_usd", "parent": "org:acme",
            "limits": [ { "amount": 1000000, "window": "month", "zone": "Europe/Berlin" },
                        { "amount": 50000,   "window": "rolling", "length_ms": 3600000 } ],
            "hold": { "ttl_ms_min": 5000, "ttl_ms": 60000, "ttl_ms_max": 300000, "life_ms_max": null,
                      "late": "charge", "overrun": "charge" },
            "trip": { "amount": 200000, "window": "day", "zone": "UTC" }, "thresholds": [50, 80, 100],
            "shadow": false, "reason": "autumn plan" }"#;
        let body: BudgetBody = serde_json::from_str(json).unwrap();
        let budget = Budget::try_from(body).unwrap();
        let mut expected: serde_json::Value = serde_json::from_str(json).unwrap();
        expected.as_object_mut().unwrap().remove("reason");
        assert_eq!(serde_json::to_value(BudgetBody::from(&budget)).unwrap(), expected);
    }
}
