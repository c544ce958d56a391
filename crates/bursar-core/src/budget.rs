//! Budgets: what is registered on a scope.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::bounds::{LIMITS_MAX, NAME_BYTES_MAX, THRESHOLDS_MAX, TTL_MAX, TTL_MIN, WINDOWS_MAX};
use crate::name::{Scope, check_visible};
use crate::refusal::Invalid;
use crate::time::Span;
use crate::window::Window;

/// An amount of units over a window.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limit {
    /// The most that may be posted and held in the window.
    pub amount: i64,
    /// The stretch of time it counts over.
    pub window: Window,
}

impl Limit {
    /// `amount` units over `window`.
    pub fn new(amount: i64, window: Window) -> Limit {
        Limit { amount, window }
    }

    /// A token bucket: `capacity` at once, `refill` regained in each `length`.
    pub fn bucket(capacity: i64, refill: i64, length: impl Into<Span>) -> Result<Limit, Invalid> {
        Ok(Limit { amount: capacity, window: Window::bucket(capacity, refill, length)? })
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.amount < 0 {
            return Err(Invalid::new("limits.amount", "must not be negative"));
        }
        self.window.check()?;
        match self.window {
            Window::Bucket { capacity, .. } if capacity != self.amount => {
                Err(Invalid::new("limits.amount", "of a bucket must be its capacity"))
            }
            _ => Ok(()),
        }
    }
}

/// What to do with spend that its hold does not cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cover {
    /// Charge it in full and flag it: the money is gone already.
    #[default]
    Charge,
    /// Refuse it: nothing has been spent yet.
    Refuse,
}

impl Cover {
    pub(crate) fn charges(&self) -> bool {
        *self == Cover::Charge
    }
}

/// How holds on a budget live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HoldPolicy {
    /// The least time to live.
    pub ttl_min: Span,
    /// The time to live of a hold that asks for none; not set: the server-wide one, within the least and the most.
    pub ttl: Option<Span>,
    /// The most time to live.
    pub ttl_max: Span,
    /// The most time from placing to expiry over all extensions.
    pub life_max: Option<Span>,
    /// A commit after expiry.
    pub late: Cover,
    /// A commit above the held amount.
    pub overrun: Cover,
}

impl Default for HoldPolicy {
    fn default() -> HoldPolicy {
        HoldPolicy {
            ttl_min: Span::from_secs(5),
            ttl: None,
            ttl_max: Span::from_secs(300),
            life_max: None,
            late: Cover::Charge,
            overrun: Cover::Charge,
        }
    }
}

/// A scope with its registered limits, hold policy, alerts and optional parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// What the amounts count, for people: `micro_usd`.
    pub unit: String,
    /// The budget that every charge to this one is charged to as well.
    pub parent: Option<Scope>,
    /// All of them must admit.
    pub limits: Vec<Limit>,
    /// How holds live.
    pub hold: HoldPolicy,
    /// Freezes the scope by itself when posted spend passes it.
    pub trip: Option<Limit>,
    /// Percentages of posted spend, for each limit, that are told when crossed.
    pub thresholds: Vec<u32>,
    /// Nobody defined it: a charge brought it along, and one that brings another replaces it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
}

impl Budget {
    /// A budget with these limits and the default policy.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Budget {
        Budget { limits: limits.into_iter().collect(), ..Budget::default() }
    }

    /// The same budget under a parent.
    pub fn under(self, parent: Scope) -> Budget {
        Budget { parent: Some(parent), ..self }
    }

    /// The same budget, for charges to bring along where nobody has defined one.
    pub fn by_default(self) -> Budget {
        Budget { by_default: true, ..self }
    }

    /// The windows it keeps balances for.
    pub fn windows(&self) -> impl Iterator<Item = &Window> {
        self.limits.iter().chain(&self.trip).map(|limit| &limit.window)
    }

    /// The buckets that `next` brings, each with the one that it takes away and that is most like it: what was taken out
    /// of that is taken out of the new one too, so that no change of limits fills a bucket.
    pub(crate) fn replaced_buckets<'a>(&'a self, next: &'a Budget) -> Vec<(&'a Window, &'a Window)> {
        let only = |one: &'a Budget, other: &Budget| -> BTreeSet<&'a Window> {
            let gone = one.windows().filter(|window| !other.windows().any(|kept| kept == *window));
            gone.filter(|window| matches!(window, Window::Bucket { .. })).collect()
        };
        let (taken, brought) = (only(self, next), only(next, self));
        let nearest = |new: &Window| taken.iter().min_by_key(|old| new.unlikeness(old)).copied();
        brought.iter().filter_map(|new| Some((nearest(new)?, *new))).collect()
    }

    /// Whether a unit can be one.
    pub fn check_unit(unit: &str) -> Result<(), Invalid> {
        if unit.len() > NAME_BYTES_MAX {
            return Err(Invalid::new("unit", format!("is longer than {NAME_BYTES_MAX} bytes")));
        }
        if unit.chars().any(char::is_control) {
            return Err(Invalid::new("unit", "must not contain control characters"));
        }
        check_visible("unit", unit)
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        Budget::check_unit(&self.unit)?;
        if self.limits.is_empty() {
            return Err(Invalid::new("limits", "must not be empty: a budget without a limit would be unlimited"));
        }
        if self.limits.len() > LIMITS_MAX {
            return Err(Invalid::new("limits", format!("has more than {LIMITS_MAX} entries")));
        }
        for limit in self.limits.iter().chain(&self.trip) {
            limit.check()?;
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.limits.iter().find(|limit| !seen.insert(&limit.window)) {
            return Err(Invalid::new("limits", format!("names the window {} twice", twice.window)));
        }
        // The lifetime balance is kept by every scope anyway.
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

    #[test]
    fn a_unit_is_a_name_or_nothing() {
        let budget = |unit: &str| Budget { unit: unit.into(), ..Budget::new([Limit::new(1, Window::Lifetime)]) };
        for good in ["", "micro_usd", "a token", "€", &"u".repeat(NAME_BYTES_MAX)] {
            assert_eq!(budget(good).check(), Ok(()), "{good:?}");
        }
        for bad in ["\0", "a\nb", &"u".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(budget(bad).check().unwrap_err().field, "unit", "{bad:?}");
        }
    }
}
