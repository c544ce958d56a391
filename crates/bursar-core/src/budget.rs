//! Budgets: the limits, parent, hold policy and alerts defined for a scope.
//!
//! A charge is admitted only if every limit of the scope and of all its ancestors leaves room for it. Everything that
//! Bursar limits is built from this: a quota, a rate or a monthly spend cap is a budget with a certain window.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::bounds::{LIMITS_MAX, THRESHOLDS_MAX, TTL_MAX, TTL_MIN, WINDOWS_MAX};
use crate::name::Scope;
use crate::notation::Unit;
use crate::refusal::Invalid;
use crate::time::Span;
use crate::window::Window;

/// A limit: an amount of units over a window.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limit {
    /// The most units that may be posted and held in the window.
    pub amount: i64,
    /// The window it counts over.
    pub window: Window,
}

impl Limit {
    /// Creates a limit of `amount` units over `window`.
    pub fn new(amount: i64, window: Window) -> Limit {
        Limit { amount, window }
    }

    /// Creates a token bucket limit: `capacity` units at once, `refill` gained in each `length`.
    pub fn bucket(capacity: i64, refill: i64, length: impl Into<Span>) -> Result<Limit, Invalid> {
        Ok(Limit { amount: capacity, window: Window::bucket(capacity, refill, length)? })
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.amount < 0 {
            return Err(Invalid::new("amount", "must not be negative"));
        }
        self.window.check()?;
        match self.window {
            Window::Bucket { capacity, .. } if capacity != self.amount => {
                Err(Invalid::new("amount", "of a bucket must be its capacity"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses limits of which one is invalid.
pub(crate) fn check_limits(limits: &[Limit]) -> Result<(), Invalid> {
    limits
        .iter()
        .enumerate()
        .try_for_each(|(index, limit)| limit.check().map_err(|invalid| invalid.of_entry("limits", index)))
}

/// The policy for spend that a hold does not cover: an overrun or a late commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cover {
    /// Charge it in full and flag it, because it has been spent already.
    #[default]
    Charge,
    /// Refuse the commit, because nothing has been spent yet.
    Refuse,
}

impl Cover {
    pub(crate) fn charges(&self) -> bool {
        *self == Cover::Charge
    }
}

/// How long holds on a budget live, and what happens to spend that they do not cover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HoldPolicy {
    /// The shortest time to live; shorter requests are raised to it.
    pub ttl_min: Span,
    /// The time to live of a hold that requests none. Default: the installation's setting, clamped to this policy.
    pub ttl: Option<Span>,
    /// The longest time to live; longer requests are lowered to it. Default: the installation's setting, one hour unless
    /// it is changed.
    pub ttl_max: Option<Span>,
    /// The longest time from placement to expiry, extensions included.
    pub life_max: Option<Span>,
    /// What happens to a commit after expiry.
    pub late: Cover,
    /// What happens to a commit above the held amount.
    pub overrun: Cover,
}

impl Default for HoldPolicy {
    fn default() -> HoldPolicy {
        HoldPolicy {
            ttl_min: Span::from_secs(5),
            ttl: None,
            ttl_max: None,
            life_max: None,
            late: Cover::Charge,
            overrun: Cover::Charge,
        }
    }
}

impl HoldPolicy {
    /// Returns the longest time to live, given the installation's setting. A budget with a longer minimum or default of its
    /// own allows these.
    pub(crate) fn longest(&self, usual: Span) -> Span {
        self.ttl_max.unwrap_or_else(|| usual.max(self.ttl_min).max(self.ttl.unwrap_or(Span::ZERO)))
    }
}

/// A charge that a budget in shadow mode admitted, and would have refused otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldRefuse {
    /// The scope of the budget.
    pub scope: Scope,
    /// The units that were requested.
    pub requested: i64,
    /// The limit that they pass; `None` if the trip limit has frozen the scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<Short>,
}

/// A limit with too little left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Short {
    /// The window of the limit.
    pub window: Window,
    /// The limit.
    pub limit: i64,
    /// The units that it leaves.
    pub available: i64,
}

/// The definition of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// The name of the unit that amounts count, for display: `usd`, `tokens`.
    pub unit: String,
    /// The symbol of the unit. Default: that of a built-in unit such as `usd`, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_symbol: Option<String>,
    /// The decimals of the unit: amounts count its smallest part. Default: those of a built-in unit, or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_decimals: Option<u8>,
    /// The budget that receives every charge to this one as well.
    pub parent: Option<Scope>,
    /// The limits, all of which must leave room for a charge.
    pub limits: Vec<Limit>,
    /// The policy for holds.
    pub hold: HoldPolicy,
    /// A limit on posted spend that freezes the scope when it is passed.
    pub trip: Option<Limit>,
    /// Percentages of each limit at which posted spend causes an event.
    pub thresholds: Vec<u32>,
    /// Whether the budget is tried out: its limits and its trip refuse nothing, and what they would have refused is recorded
    /// ([`WouldRefuse`]). Limits that a caller gives, other budgets of a chain and a freeze by a caller refuse as usual.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// Whether a charge brought this budget as its default. A charge with a different default replaces it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
}

impl Budget {
    /// Creates a budget with these limits and the default policy.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Budget {
        Budget { limits: limits.into_iter().collect(), ..Budget::default() }
    }

    /// Returns the budget with a parent.
    pub fn under(self, parent: Scope) -> Budget {
        Budget { parent: Some(parent), ..self }
    }

    /// Returns the budget with a unit. A symbol and decimals that the unit has by default are not stored.
    pub fn counting(self, unit: &Unit) -> Budget {
        let usual = Unit::named(&unit.name);
        Budget {
            unit: unit.name.clone(),
            unit_symbol: unit.symbol.clone().filter(|symbol| usual.symbol.as_ref() != Some(symbol)),
            unit_decimals: (unit.decimals != usual.decimals).then_some(unit.decimals),
            ..self
        }
    }

    /// Returns the unit with its symbol and decimals, which formats and parses amounts.
    pub fn display_unit(&self) -> Unit {
        Unit::of(&self.unit, self.unit_symbol.as_deref(), self.unit_decimals)
    }

    /// Returns the budget marked as a charge's default.
    pub fn by_default(self) -> Budget {
        Budget { by_default: true, ..self }
    }

    /// Returns the windows of its limits and its trip limit.
    pub fn windows(&self) -> impl Iterator<Item = &Window> {
        self.limits.iter().chain(&self.trip).map(|limit| &limit.window)
    }

    /// Pairs each bucket that only `next` has with the most similar bucket that only `self` has, as `(old, new)`.
    ///
    /// The tokens missing from the old bucket are taken out of the new one, so that a new limit never starts refilled.
    pub(crate) fn replaced_buckets<'a>(&'a self, next: &'a Budget) -> Vec<(&'a Window, &'a Window)> {
        let only = |one: &'a Budget, other: &Budget| -> BTreeSet<&'a Window> {
            let gone = one.windows().filter(|window| !other.windows().any(|kept| kept == *window));
            gone.filter(|window| matches!(window, Window::Bucket { .. })).collect()
        };
        let (taken, brought) = (only(self, next), only(next, self));
        let nearest = |new: &Window| taken.iter().min_by_key(|old| new.distance(old)).copied();
        brought.iter().filter_map(|new| Some((nearest(new)?, *new))).collect()
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.display_unit().check()?;
        if self.limits.is_empty() {
            return Err(Invalid::new("limits", "must not be empty: a budget without a limit would be unlimited"));
        }
        if self.limits.len() > LIMITS_MAX {
            return Err(Invalid::new("limits", format!("has more than {LIMITS_MAX} entries")));
        }
        check_limits(&self.limits)?;
        if let Some(trip) = &self.trip {
            trip.check().map_err(|invalid| invalid.within("trip"))?;
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.limits.iter().find(|limit| !seen.insert(&limit.window)) {
            return Err(Invalid::new("limits", format!("names the window {} twice", twice.window)));
        }
        // Every scope has a lifetime balance anyway.
        let others = self.windows().filter(|w| **w != Window::Lifetime).collect::<BTreeSet<_>>().len();
        if others > WINDOWS_MAX {
            return Err(Invalid::new("limits", format!("names more than {WINDOWS_MAX} different windows")));
        }
        if self.thresholds.len() > THRESHOLDS_MAX || self.thresholds.iter().any(|p| *p == 0 || *p > 1_000) {
            return Err(Invalid::new(
                "thresholds",
                format!("must be at most {THRESHOLDS_MAX} percentages from 1 to 1000"),
            ));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.thresholds.iter().find(|percent| !seen.insert(**percent)) {
            return Err(Invalid::new("thresholds", format!("names {twice} twice")));
        }
        let HoldPolicy { ttl_min, ttl, ttl_max, life_max, .. } = self.hold;
        let ttl_max = ttl_max.unwrap_or(TTL_MAX);
        let within = ttl.is_none_or(|ttl| ttl_min <= ttl && ttl <= ttl_max);
        if !(TTL_MIN <= ttl_min && ttl_min <= ttl_max && ttl_max <= TTL_MAX && within) {
            return Err(Invalid::new("hold.ttl_ms", "must have 1 ≤ ttl_ms_min ≤ ttl_ms ≤ ttl_ms_max ≤ 30 days"));
        }
        if life_max.is_some_and(|life| life < ttl_min) {
            return Err(Invalid::new("hold.life_ms_max", "must not be below ttl_ms_min"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::NAME_BYTES_MAX;

    #[test]
    fn a_budget_stores_only_what_differs_from_its_built_in_unit() {
        let budget = Budget::new([Limit::new(1, Window::Lifetime)]);
        let usd = budget.clone().counting(&Unit::named("usd"));
        assert_eq!((usd.unit_symbol.as_deref(), usd.unit_decimals), (None, None));
        assert_eq!(usd.display_unit().format(25_000_000), "$25.00");
        let json = serde_json::to_string(&usd).unwrap();
        assert!(!json.contains("unit_"), "fingerprints of budgets without these fields stay the same: {json}");
        let cents = budget.clone().counting(&Unit::of("usd", None, Some(2)));
        assert_eq!(cents.display_unit().format(2_500), "$25.00");
        let stored: Budget = serde_json::from_str(&serde_json::to_string(&cents).unwrap()).unwrap();
        assert_eq!(stored, cents);
        let wrong = Budget { unit_decimals: Some(13), ..budget };
        assert_eq!(wrong.check().unwrap_err().field, "unit_decimals");
    }

    #[test]
    fn a_unit_is_empty_or_a_visible_name() {
        let budget = |unit: &str| Budget { unit: unit.into(), ..Budget::new([Limit::new(1, Window::Lifetime)]) };
        for good in ["", "micro_usd", "a token", "€", &"u".repeat(NAME_BYTES_MAX)] {
            assert_eq!(budget(good).check(), Ok(()), "{good:?}");
        }
        for bad in ["\0", "a\nb", &"u".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(budget(bad).check().unwrap_err().field, "unit", "{bad:?}");
        }
    }
}
