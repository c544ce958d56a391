//! Holds: units set aside on one or more scopes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::{Cover, Limit};
use crate::id::{BatchId, HoldId, JobId};
use crate::mutant::Mutant;
use crate::name::{Scope, Tenant};
use crate::refusal::Refusal;
use crate::time::{Span, Time};

/// A hold as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its id.
    pub id: HoldId,
    /// Whose it is.
    pub tenant: Tenant,
    /// The state last written; see [`Hold::state_at`].
    pub state: HoldState,
    /// When it was placed: the window its held part belongs to.
    pub placed_at: Time,
    /// When it expires; `NEVER` while a job owns it.
    pub expires_at: Time,
    /// Expiry can be put off to here at most.
    pub life_until: Time,
    /// What to do with a commit after expiry.
    pub late: Cover,
    /// What to do with a commit above the held amount.
    pub overrun: Cover,
    /// The job whose end settles it.
    pub job: Option<JobId>,
    /// The charges as they were asked for, each with its ancestors.
    pub charges: Vec<HeldCharge>,
    /// Events of this hold so far.
    pub version: u64,
    /// The last transaction with an event of this hold.
    pub last: Option<BatchId>,
    /// What its units did not cover when it was committed, where there is such.
    pub beyond: Option<Beyond>,
}

/// What was committed above the units of a hold, or after its expiry: it counts for the instant of the commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beyond {
    /// The instant of the commit.
    pub at: Time,
    /// How much of it is not credited yet, on each scope. Empty for a late commit, which is beyond the hold as a whole.
    pub left: BTreeMap<Scope, i64>,
}

/// One charge of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCharge {
    /// The scope that was named.
    pub scope: Scope,
    /// The units held.
    pub amount: i64,
    /// The units it was committed with.
    pub actual: Option<i64>,
    /// Its ancestors when the hold was placed; settling follows these.
    pub ancestors: Vec<Scope>,
    /// Limits the caller gave beside the registered ones.
    pub limits: Vec<Limit>,
}

impl HeldCharge {
    /// The scopes it is charged to: the named one, then its ancestors.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.scope).chain(&self.ancestors)
    }
}

/// Adds up what charges come to on each scope, ancestors included; refused when a sum cannot be represented.
pub(crate) fn sums<'a>(
    charges: impl Iterator<Item = &'a HeldCharge>,
    amount: impl Fn(&HeldCharge) -> i64,
) -> Result<BTreeMap<Scope, i64>, Refusal> {
    let mut sums = BTreeMap::new();
    for charge in charges {
        for scope in charge.scopes() {
            let sum: &mut i64 = sums.entry(scope.clone()).or_insert(0);
            *sum = sum.checked_add(amount(charge)).ok_or_else(|| Refusal::Overflow { scope: scope.clone() })?;
        }
    }
    Ok(sums)
}

/// Where a hold is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// Its units are set aside.
    Held,
    /// The actual units are posted.
    Committed,
    /// Its units are free again.
    Released,
    /// Its time ran out.
    Expired,
}

impl HoldState {
    /// The word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            HoldState::Held => "held",
            HoldState::Committed => "committed",
            HoldState::Released => "released",
            HoldState::Expired => "expired",
        }
    }
}

impl std::fmt::Display for HoldState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Hold {
    /// The state that follows from time: a hold is expired the instant its time is over, swept or not.
    pub fn state_at(&self, now: Time) -> HoldState {
        if self.state == HoldState::Held && self.expires_at <= now { HoldState::Expired } else { self.state }
    }

    /// What it holds on each scope, ancestors included.
    pub fn totals(&self) -> BTreeMap<Scope, i64> {
        sums(self.charges.iter(), |charge| charge.amount).expect("it was checked when the hold was placed")
    }

    /// The instants that a credit of `amount` units on one of its scopes counts for: those of the spend it takes back,
    /// the latest first. It takes back what went beyond the hold before what the hold covered.
    pub(crate) fn credited(&self, scope: &Scope, amount: i64) -> [(Time, i64); 2] {
        let beyond = match &self.beyond {
            _ if Mutant::CreditAtPlacing.on() => 0,
            None => 0,
            Some(beyond) if self.expires_at <= beyond.at => amount,
            Some(beyond) => beyond.left.get(scope).copied().unwrap_or(0).min(amount),
        };
        let at = self.beyond.as_ref().map_or(self.placed_at, |beyond| beyond.at);
        [(at, beyond), (self.placed_at, amount - beyond)]
    }

    /// How much longer than now it may live at most, when extended.
    pub(crate) fn extended(&self, by: Span) -> Time {
        self.expires_at.after(by).min(self.life_until)
    }
}
