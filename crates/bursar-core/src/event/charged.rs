//! Charges as events record them.

use serde::{Deserialize, Serialize};

use crate::budget::Limit;
use crate::hold::HeldCharge;
use crate::name::Scope;
use crate::window::Window;

/// A charge, with what its limits left after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    /// The scope that the caller named.
    pub scope: Scope,
    /// The units charged, or held.
    pub amount: i64,
    /// The actual units, if the hold was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<i64>,
    /// The ancestors of the scope, which are charged the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<Scope>,
    /// The limits that the caller gave in addition to those of the budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// What each limit on the scope and its ancestors left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balances: Vec<Left>,
}

impl Charged {
    pub(crate) fn new(charge: HeldCharge, balances: Vec<Left>) -> Charged {
        let HeldCharge { scope, amount, actual, ancestors, limits } = charge;
        Charged { scope, amount, actual, ancestors, limits, balances }
    }

    /// Returns the charge without the balances.
    pub(crate) fn charge(&self) -> HeldCharge {
        HeldCharge {
            scope: self.scope.clone(),
            amount: self.amount,
            actual: self.actual,
            ancestors: self.ancestors.clone(),
            limits: self.limits.clone(),
        }
    }

    /// Returns the scopes that are charged: the named one, then its ancestors.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.scope).chain(&self.ancestors)
    }
}

/// What a limit left after a charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The ancestor that has the limit; `None` for the charged scope itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The window of the limit.
    pub window: Window,
    /// The amount of the limit.
    pub limit: i64,
    /// The units left.
    pub remaining: i64,
}
