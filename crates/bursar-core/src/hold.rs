//! Holds: units set aside on one or more scopes until committed, released or expired.
//!
//! A hold keeps the ancestors its scopes had when it was placed, and settling goes to these, even if a budget was moved
//! since. A hold is expired from the instant of its expiry on, even before maintenance records it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::{Cover, Limit};
use crate::id::{BatchId, BlobId, HoldId, JobId};
use crate::mutant::Mutant;
use crate::name::{Scope, Tenant};
use crate::refusal::Refusal;
use crate::time::{Span, Time};

/// The row of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its id.
    pub id: HoldId,
    /// The tenant it belongs to.
    pub tenant: Tenant,
    /// The state last written; see [`Hold::state_at`].
    pub state: HoldState,
    /// When it was placed, which decides the window that its held part counts in.
    pub placed_at: Time,
    /// When it expires; `NEVER` while a job owns it.
    pub expires_at: Time,
    /// The latest expiry that extensions can reach.
    pub life_until: Time,
    /// What happens to a commit after expiry.
    pub late: Cover,
    /// What happens to a commit above the held amount.
    pub overrun: Cover,
    /// The job whose end settles it.
    pub job: Option<JobId>,
    /// Its charges, each with its ancestors.
    pub charges: Vec<HeldCharge>,
    /// The number of its events so far.
    pub version: u64,
    /// The last transaction with an event of the hold.
    pub last: Option<BatchId>,
    /// What its commit posted beyond the held units, if anything.
    pub beyond: Option<Uncovered>,
    /// What its expiry does. Stored after the fields above, which are version 1 of the row.
    #[serde(skip)]
    pub on_expiry: OnExpiry,
    /// When it was committed, released or recorded as expired. `None` in rows that ended before this was stored.
    #[serde(skip)]
    pub ended_at: Option<Time>,
    /// The blob whose bytes it pays for.
    #[serde(skip)]
    pub blob: Option<BlobId>,
}

/// What the expiry of a hold does to its units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// They are freed.
    #[default]
    Release,
    /// This many of each charge are posted at the instant of expiry, the others are freed. A later commit corrects them
    /// to the actual units.
    Charge(i64),
}

impl OnExpiry {
    /// Returns the units of each charge that the expiry posts.
    pub fn units(self) -> i64 {
        match self {
            OnExpiry::Release => 0,
            OnExpiry::Charge(amount) => amount,
        }
    }

    pub(crate) fn is_release(&self) -> bool {
        *self == OnExpiry::Release
    }

    pub(crate) fn posts_nothing(&self) -> bool {
        self.units() == 0
    }
}

/// What a commit posted beyond a hold: an overrun, or what a late commit added to the charge at expiry. It counts for the
/// instant of the commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncovered {
    /// The instant of the commit.
    pub at: Time,
    /// The units not credited yet, by scope. Empty for the late commit of a hold whose expiry posted nothing: all of its
    /// units are beyond the hold.
    pub left: BTreeMap<Scope, i64>,
}

/// A time to live or an extension that the policies of budgets changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClampedTtl {
    /// What the request asked for.
    pub requested: Span,
    /// What the hold got.
    pub granted: Span,
}

impl ClampedTtl {
    /// Returns the two if they differ.
    pub(crate) fn of(requested: Span, granted: Span) -> Option<ClampedTtl> {
        (requested != granted).then_some(ClampedTtl { requested, granted })
    }

    /// Returns the code of the warning, `ttl_lowered` or `ttl_raised`.
    pub fn warning(&self) -> &'static str {
        if self.granted < self.requested { "ttl_lowered" } else { "ttl_raised" }
    }
}

impl std::fmt::Display for ClampedTtl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ClampedTtl { requested, granted } = self;
        if granted < requested {
            write!(f, "{requested} were requested; the hold got {granted}, the most that its budgets allow")
        } else {
            write!(f, "{requested} were requested; the hold got {granted}, the least that its budgets allow")
        }
    }
}

/// One charge of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCharge {
    /// The scope that the caller named.
    pub scope: Scope,
    /// The units held.
    pub amount: i64,
    /// The actual units, once the hold is committed.
    pub actual: Option<i64>,
    /// The ancestors of the scope when the hold was placed, which settling uses.
    pub ancestors: Vec<Scope>,
    /// The limits that the caller gave in addition to those of the budget.
    pub limits: Vec<Limit>,
}

impl HeldCharge {
    /// Returns the scopes that are charged: the named one, then its ancestors.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.scope).chain(&self.ancestors)
    }
}

/// Adds up the amounts of charges on each scope, ancestors included; refuses a sum that overflows.
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

/// The state of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// Its units are set aside.
    Held,
    /// The actual units are posted.
    Committed,
    /// Its units were freed.
    Released,
    /// It expired, which freed its units or posted some of them.
    Expired,
}

impl HoldState {
    /// Returns its name on the wire.
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
    /// Returns the state at `now`: a hold is expired from the instant of its expiry, even if the row does not say so.
    pub fn state_at(&self, now: Time) -> HoldState {
        if self.state == HoldState::Held && self.expires_at <= now { HoldState::Expired } else { self.state }
    }

    /// Returns the units it holds on each scope, ancestors included.
    pub fn totals(&self) -> BTreeMap<Scope, i64> {
        sums(self.charges.iter(), |charge| charge.amount).expect("the sums were checked when the hold was placed")
    }

    /// Returns the units that its expiry posts on each scope, ancestors included. Empty if it posts none.
    pub fn expiry_totals(&self) -> BTreeMap<Scope, i64> {
        let units = self.on_expiry.units();
        let charges = self.charges.iter().filter(|_| units != 0);
        sums(charges, |_| units).expect("at most as many units as the hold has are posted")
    }

    /// Returns whether its row can be deleted: it ended `kept` ago, and the job and the blob that it belongs to are gone. A
    /// dead job that is retried is charged as before, and the collection of a blob gives back what its holds charged.
    pub fn is_forgettable(&self, has_job: bool, has_blob: bool, kept: Span, now: Time) -> bool {
        let kept = if Mutant::ForgetEarly.on() { Span::ZERO } else { kept };
        let needed = has_job && !Mutant::ForgetOwned.on() || has_blob && !Mutant::ForgetPaying.on();
        self.state != HoldState::Held && !needed && self.ended_at.is_some_and(|ended| ended.after(kept) <= now)
    }

    /// Returns whether its row should have been deleted before an instant. The hold of a job or a blob is never overdue, because it may
    /// have become deletable only now, when its owner went.
    pub fn is_overdue(&self, kept: Span, before: Time) -> bool {
        self.is_forgettable(self.job.is_some(), self.blob.is_some(), kept, before)
    }

    /// Returns whether it was committed after its expiry.
    fn is_late(&self) -> bool {
        self.beyond.as_ref().is_some_and(|beyond| self.expires_at <= beyond.at)
    }

    /// Returns whether its commit was late and posted all of its units, because the expiry had posted none.
    pub(crate) fn is_beyond(&self) -> bool {
        self.is_late() && self.on_expiry.posts_nothing()
    }

    /// Returns the instant that the units posted within the hold count for: when it was placed, or its expiry if that
    /// posted them.
    pub(crate) fn covered_at(&self, now: Time) -> Time {
        let expired = self.is_late() || self.state_at(now) == HoldState::Expired;
        if expired && !self.on_expiry.posts_nothing() { self.expires_at } else { self.placed_at }
    }

    /// Splits a credit of `amount` units on one of its scopes by the instants of the spend it reverses: first what was
    /// posted at the commit, beyond the hold, then what the hold covered.
    pub(crate) fn credited(&self, scope: &Scope, amount: i64, now: Time) -> [(Time, i64); 2] {
        let beyond = match &self.beyond {
            _ if Mutant::CreditAtPlacing.on() => 0,
            None => 0,
            Some(_) if self.is_beyond() => amount,
            Some(beyond) => beyond.left.get(scope).copied().unwrap_or(0).min(amount),
        };
        let covered_at = self.covered_at(now);
        let at = self.beyond.as_ref().map_or(covered_at, |beyond| beyond.at);
        [(at, beyond), (covered_at, amount - beyond)]
    }

    /// Returns the expiry after an extension by `by`, at most `life_until`.
    pub(crate) fn extended(&self, by: Span) -> Time {
        self.expires_at.after(by).min(self.life_until)
    }
}
