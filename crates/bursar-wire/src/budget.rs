//! Budgets: `/v1/budgets`.

use bursar_core::answer::Credited;
use bursar_core::bounds::UNIT_DECIMALS_MAX;
use bursar_core::budget::{Budget, Cover, HoldPolicy, Limit, Short, WouldRefuse};
use bursar_core::context::Actor;
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::notation::Unit;
use bursar_core::refusal::Invalid;
use bursar_core::scope::Freeze;
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::activity::RefusalsAnswer;
use crate::command::ChargeAnswer;
use crate::window::{LimitBody, WindowFields, limits};
use crate::{flat, millis, stamp};

/// The definition of a budget: the body of `PUT /v1/budgets/{scope}`. It replaces the whole definition.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetBody {
    /// The name of the unit, for display, such as `usd` or `tokens`. Once the budget has spend or holds, its unit and decimals cannot be
    /// changed.
    pub unit: String,
    /// The symbol that is shown before amounts, such as `$`; default: that of `usd`, `eur` or `gbp`, else none.
    pub unit_symbol: Option<String>,
    /// The decimals of the unit, from 0 to 12. Amounts are whole numbers of its smallest part: with 6 decimals, 25000000
    /// is shown as 25.00. Default: 6 for `usd`, `eur` and `gbp`, else 0.
    #[schemars(range(min = 0, max = UNIT_DECIMALS_MAX))]
    pub unit_decimals: Option<u8>,
    /// The parent budget. Every charge to this scope is charged to the parent as well, and must fit its limits.
    pub parent: Option<Scope>,
    /// The limits, at least one. A charge must fit all of them.
    pub limits: Vec<LimitBody>,
    /// The rules for holds on this scope.
    pub hold: HoldPolicyBody,
    /// The scope freezes automatically when posted units exceed this limit.
    pub trip: Option<LimitBody>,
    /// Percentages of each limit, from 1 to 1000. An event is recorded when posted units reach one.
    pub thresholds: Vec<u32>,
    /// Whether the budget is only tried out: its limits and its trip refuse nothing, and what they would have refused is recorded as
    /// `budget.would_refuse`. Limits given in a request, other budgets of a chain and an explicit freeze refuse as usual.
    pub shadow: bool,
    /// Why the budget is changed; recorded in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The rules for holds on a budget.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HoldPolicyBody {
    /// The shortest time to live of a hold, in milliseconds.
    pub ttl_ms_min: i64,
    /// The time to live of a hold that requests none, in milliseconds; `null`: the server's default.
    pub ttl_ms: Option<i64>,
    /// The longest time to live of a hold, in milliseconds; longer requests are lowered to it, with a warning in the answer.
    /// `null`: the server's default, one hour unless it is configured.
    pub ttl_ms_max: Option<i64>,
    /// The longest time from placing a hold to its expiry over all extensions, in milliseconds; `null`: no bound.
    pub life_ms_max: Option<i64>,
    /// Whether a commit after expiry is charged or refused.
    pub late: Cover,
    /// Whether a commit above the held amount is charged or refused.
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
            ttl_ms_max: policy.ttl_max.map(Span::millis),
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
            ttl_max: body.ttl_ms_max.map(|ttl| millis("hold.ttl_ms_max", ttl)).transpose()?,
            life_max: body.life_ms_max.map(|life| millis("hold.life_ms_max", life)).transpose()?,
            late: body.late,
            overrun: body.overrun,
        })
    }
}

impl BudgetBody {
    /// Returns the unit, which formats and parses the amounts of this budget.
    pub fn display_unit(&self) -> Unit {
        Unit::of(&self.unit, self.unit_symbol.as_deref(), self.unit_decimals)
    }
}

impl From<&Budget> for BudgetBody {
    fn from(budget: &Budget) -> BudgetBody {
        let Unit { name: unit, symbol: unit_symbol, decimals } = budget.display_unit();
        BudgetBody {
            unit,
            unit_symbol,
            unit_decimals: Some(decimals),
            parent: budget.parent.clone(),
            limits: budget.limits.iter().map(LimitBody::from).collect(),
            hold: HoldPolicyBody::from(&budget.hold),
            trip: budget.trip.as_ref().map(LimitBody::from),
            thresholds: budget.thresholds.clone(),
            shadow: budget.shadow,
            reason: None,
        }
    }
}

impl TryFrom<BudgetBody> for Budget {
    type Error = Invalid;

    fn try_from(body: BudgetBody) -> Result<Budget, Invalid> {
        let budget = Budget {
            parent: body.parent,
            hold: HoldPolicy::try_from(body.hold)?,
            trip: body.trip.map(|trip| Limit::try_from(trip).map_err(|invalid| invalid.within("trip"))).transpose()?,
            thresholds: body.thresholds,
            shadow: body.shadow,
            ..Budget::new(limits(body.limits)?)
        };
        Ok(budget.counting(&Unit::of(&body.unit, body.unit_symbol.as_deref(), body.unit_decimals)))
    }
}

/// What a budget in shadow mode admitted, and would have refused otherwise.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WouldRefuseAnswer {
    /// A limit left too few units.
    Limit {
        scope: String,
        #[serde(flatten)]
        window: WindowFields,
        limit: i64,
        /// The units that the request needed.
        requested: i64,
        /// The units that were left.
        available: i64,
    },
    /// The trip limit had frozen the scope.
    Frozen {
        scope: String,
        /// The units that the request needed; 0 for the extension of a hold.
        requested: i64,
    },
}

impl From<&WouldRefuse> for WouldRefuseAnswer {
    fn from(shadowed: &WouldRefuse) -> WouldRefuseAnswer {
        let (scope, requested) = (shadowed.scope.to_string(), shadowed.requested);
        match &shadowed.short {
            Some(Short { window, limit, available }) => {
                let (window, limit, available) = (WindowFields::from(window), *limit, *available);
                WouldRefuseAnswer::Limit { scope, window, limit, requested, available }
            }
            None => WouldRefuseAnswer::Frozen { scope, requested },
        }
    }
}

/// A request whose only field is a reason.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReasonBody {
    /// Why the request is made; recorded in the journal.
    pub reason: Option<String>,
}

/// Units to give back to a scope.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreditBody {
    /// The units to give back. More than the scope has spent is credited too, with a warning in the answer.
    pub amount: i64,
    /// The hold that was charged too much. The credit counts at the time when the hold was placed; default: now.
    #[serde(default)]
    pub hold: Option<HoldId>,
    /// Why the units are given back; recorded in the journal.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A credit, and what each limit leaves after it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CreditedAnswer {
    #[serde(flatten)]
    pub charge: ChargeAnswer,
    /// The units credited above all that the scope has spent; its limits admit that much more than their amounts.
    #[serde(default)]
    pub excess: i64,
    /// `credit_exceeds_spend` if `excess` is above 0; else empty.
    #[serde(default)]
    pub warnings: Vec<Cow<'static, str>>,
}

impl From<&Credited> for CreditedAnswer {
    fn from(credited: &Credited) -> CreditedAnswer {
        CreditedAnswer {
            charge: ChargeAnswer::from(&credited.charge),
            excess: credited.excess,
            warnings: credited.warnings().into_iter().map(Cow::from).collect(),
        }
    }
}

/// The units posted on a scope in a period.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SpentAnswer {
    pub scope: Scope,
    /// The start of the period; `null`: since the first posting.
    pub from: Option<String>,
    /// The end of the period.
    pub to: Option<String>,
    /// The units posted in the period.
    pub spent: i64,
}

/// The units posted on a scope over time: the answer of `GET /v1/budgets/{scope}/series`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SpendSeriesAnswer {
    pub scope: Scope,
    /// The steps of the period, oldest first.
    pub steps: Vec<SpendStep>,
}

/// One step of a series.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SpendStep {
    /// The start of the step.
    pub from: Option<String>,
    /// The end of the step.
    pub to: Option<String>,
    /// The units posted in the step, negative if more were credited; `null` if adding them up took too long. The latest steps are
    /// added up first.
    pub spent: Option<i64>,
}

/// The current state of a budget: the answer of `GET /v1/budgets/{scope}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BudgetAnswer {
    pub scope: Scope,
    /// The definition. Its fields are missing if the scope has no budget and only requests have named limits for it.
    #[serde(flatten)]
    pub budget: Option<BudgetBody>,
    /// Whether the scope refuses new charges.
    pub frozen: bool,
    /// Why the scope is frozen; missing if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze: Option<FreezeAnswer>,
    /// The posted and held units of each window: first those that the budget limits, in the order of its limits' first use, then the
    /// others. Every scope has a balance over its `lifetime`, also without a limit over it.
    pub balances: Vec<BalanceAnswer>,
    /// How often its limits have refused charges since the server started; missing if none has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub refusals: Vec<RefusalsAnswer>,
}

impl BudgetAnswer {
    /// The fields that are not part of the definition. A `PUT` accepts them and ignores them, so that an answer can be changed and sent back.
    pub const READ_ONLY: &[&str] = &["scope", "frozen", "freeze", "balances", "refusals"];

    /// Returns the unit of the balances; one without a name if the scope has no budget.
    pub fn display_unit(&self) -> Unit {
        self.budget.as_ref().map(BudgetBody::display_unit).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for BudgetAnswer {
    fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<BudgetAnswer, D::Error> {
        #[derive(Deserialize)]
        struct Own {
            scope: Scope,
            frozen: bool,
            freeze: Option<FreezeAnswer>,
            balances: Vec<BalanceAnswer>,
            #[serde(default)]
            refusals: Vec<RefusalsAnswer>,
        }
        let (own, budget) = flat::split(de, BudgetAnswer::READ_ONLY, "unit")?;
        let Own { scope, frozen, freeze, balances, refusals } = own;
        Ok(BudgetAnswer { scope, budget, frozen, freeze, balances, refusals })
    }
}

/// Why a scope is frozen.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum FreezeAnswer {
    /// A request froze the scope.
    Order {
        /// The caller that froze it.
        actor: ActorAnswer,
        /// The reason that the caller gave.
        reason: Option<String>,
    },
    /// Posted units exceeded the trip limit.
    Trip {
        /// The window of the trip limit.
        #[serde(flatten)]
        window: WindowFields,
        /// When the window ends and the scope unfreezes; `null` for a lifetime or rolling window, which has no end.
        until: Option<String>,
    },
}

impl From<&Freeze> for FreezeAnswer {
    fn from(freeze: &Freeze) -> FreezeAnswer {
        match freeze {
            Freeze::Order { actor, reason } => {
                FreezeAnswer::Order { actor: ActorAnswer::from(actor), reason: reason.clone() }
            }
            Freeze::Trip { window, until } => {
                FreezeAnswer::Trip { window: window.into(), until: until.and_then(stamp) }
            }
        }
    }
}

/// The posted and held units of one window.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct BalanceAnswer {
    #[serde(flatten)]
    pub window: WindowFields,
    /// The start of a calendar window; `null` for other windows.
    pub start: Option<String>,
    /// The end of a calendar window; `null` for other windows.
    pub end: Option<String>,
    /// The limit of the budget; `null` if the budget has no limit over this window.
    pub limit: Option<i64>,
    /// The units spent.
    pub posted: i64,
    /// The units set aside by holds.
    pub held: i64,
    /// The units that are left; `null` without a limit, or if the window has ended and this build does not know its time zone.
    pub remaining: Option<i64>,
    /// The unit of the amounts; one without a name if the scope has no budget.
    #[serde(default)]
    pub unit: Unit,
}

/// The caller of a request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ActorAnswer {
    /// `system`, `user`, `job`, `worker`, `agent` or `anonymous`.
    pub kind: Cow<'static, str>,
    /// The id of the caller; missing for `system` and `anonymous`.
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
    fn a_budget_is_the_same_after_a_round_trip() {
        let json = r#"{ "unit": "credit", "unit_symbol": "cr", "unit_decimals": 2, "parent": "org:acme",
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

    #[test]
    fn an_answer_has_the_symbol_and_decimals_of_a_built_in_unit() {
        let body: BudgetBody =
            serde_json::from_str(r#"{ "unit": "usd", "limits": [{ "amount": 25000000, "window": "month" }] }"#)
                .unwrap();
        let budget = Budget::try_from(body).unwrap();
        let shown = BudgetBody::from(&budget);
        assert_eq!((shown.unit_symbol.as_deref(), shown.unit_decimals), (Some("$"), Some(6)));
        assert_eq!(shown.display_unit().format(shown.limits[0].amount), "$25.00");
        assert_eq!(Budget::try_from(shown).unwrap(), budget, "an answer that is sent back changes nothing");
    }
}
