//! What was charged, and what that left.

use serde::{Deserialize, Serialize};

use crate::budget::Limit;
use crate::hold::HeldCharge;
use crate::name::Scope;
use crate::window::Window;

/// A charge with what its limits left afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    /// The scope that was named.
    pub scope: Scope,
    /// The units.
    pub amount: i64,
    /// The units it was committed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<i64>,
    /// Its ancestors, which are charged the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<Scope>,
    /// Limits the caller gave beside the registered ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// What each limit left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balances: Vec<Left>,
}

impl Charged {
    pub(crate) fn new(charge: HeldCharge, balances: Vec<Left>) -> Charged {
        let HeldCharge { scope, amount, actual, ancestors, limits } = charge;
        Charged { scope, amount, actual, ancestors, limits, balances }
    }

    /// The charge alone.
    pub(crate) fn charge(&self) -> HeldCharge {
        HeldCharge {
            scope: self.scope.clone(),
            amount: self.amount,
            actual: self.actual,
            ancestors: self.ancestors.clone(),
            limits: self.limits.clone(),
        }
    }

    /// The scopes it is charged to.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.scope).chain(&self.ancestors)
    }
}

/// What a limit left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// On which scope, where it is not the charged one but an ancestor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Over which window.
    pub window: Window,
    /// The limit.
    pub limit: i64,
    /// What was left.
    pub remaining: i64,
}
