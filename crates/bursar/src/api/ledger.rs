//! The ledger: budgets, holds and postings.

use std::time::Duration;

use bursar_core::answer::{Answer, Credited, Settled};
use bursar_core::budget::{Budget, Limit};
use bursar_core::event::Charged;
use bursar_core::hold::Hold;
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::refusal::{Invalid, Refusal};
use bursar_core::request::{Actual, Op};
use bursar_core::scope::{Balance, Freeze, ScopeState};
use bursar_core::state::ScopeKey;
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::StoreError;
use sqlx::PgConnection;

use crate::api::command::Receipt;
use crate::api::held::{Held, settle, unexpected};
use crate::api::instance::Bursar;
use crate::error::Error;

/// Budgets, holds and postings. From [`Bursar::ledger`].
#[derive(Clone, Copy)]
pub struct Ledger<'a>(pub(crate) &'a Bursar);

/// The most reads of a scope until two in a row see the same postings.
const READS_MAX: usize = 20;

/// The current state of a scope and its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetView {
    /// The scope.
    pub scope: Scope,
    /// The budget of the scope; `None` if it has none.
    pub budget: Option<Budget>,
    /// Why the scope is frozen; `None` if it is not.
    pub frozen: Option<Freeze>,
    /// The balance of each of its windows.
    pub balances: Vec<BalanceView>,
}

/// The units posted and held in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceView {
    /// The window.
    pub window: Window,
    /// When the window started; only for calendar windows.
    pub start: Option<Time>,
    /// When the window ends and the balance resets; only for calendar windows.
    pub end: Option<Time>,
    /// The limit that the budget sets over the window.
    pub limit: Option<i64>,
    /// Units posted.
    pub posted: i64,
    /// Units held.
    pub held: i64,
    /// The units that the limit leaves. `None` without a limit, or if the window has ended and this build does not know
    /// its time zone.
    pub remaining: Option<i64>,
}

impl Ledger<'_> {
    /// Defines the budget of a scope, or replaces it. What is posted and held stays.
    pub async fn define<S: TryInto<Scope, Error = Invalid>>(&self, scope: S, budget: Budget) -> Result<(), Error> {
        self.0.execute(Op::Define { scope: scope.try_into()?, budget }).await.map(drop)
    }

    /// Removes the budget of a scope. Refused with [`Refusal::BudgetInUse`] while units are held on it, or while it is the
    /// parent of another budget. What was spent stays recorded; new charges need limits of their own, or a new budget.
    pub async fn remove<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<(), Error> {
        self.0.execute(Op::RemoveBudget { scope: scope.try_into()? }).await.map(drop)
    }

    /// Returns the current state of a scope and its budget; `None` if the scope was never used. Takes no lock.
    pub async fn budget<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<Option<BudgetView>, Error> {
        let scope = scope.try_into()?;
        let row = self.0.inner.store.scope(&(self.0.context.tenant.clone(), scope.clone())).await?;
        Ok(row.filter(|row| row.version > 0).map(|row| view(scope, &row)))
    }

    /// Lists the scopes that begin with `prefix`, after a scope, in the order of names, at most `limit` (at most 1,000).
    /// Takes no lock.
    pub async fn budgets(&self, prefix: &str, after: Option<&Scope>, limit: usize) -> Result<Vec<BudgetView>, Error> {
        let found = self.0.inner.store.list_scopes(&self.0.context.tenant, prefix, after, limit.min(1_000)).await?;
        Ok(found.into_iter().map(|(scope, row)| view(scope, &row)).collect())
    }

    /// Returns the balances of the windows that a scope's budget limits. Fails if the scope is unknown, or if what a limit
    /// leaves cannot be computed because this build does not know its time zone. Takes no lock.
    pub async fn remaining<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<Vec<BalanceView>, Error> {
        let scope = scope.try_into()?;
        let found = self.budget(&scope).await?.ok_or_else(|| Refusal::UnknownScope { scope: scope.clone() })?;
        let limited = found.balances.into_iter().filter(|balance| balance.limit.is_some());
        let checked = limited.map(|balance| match &balance.window {
            Window::Calendar { zone, .. } if balance.remaining.is_none() => {
                Err(Refusal::UnknownZone { scope: scope.clone(), zone: zone.clone() }.into())
            }
            _ => Ok(balance),
        });
        checked.collect()
    }

    /// Returns the units posted on a scope in `[from, to)`; with [`Time::MIN`] as `from`, since its first use. Takes no
    /// lock.
    ///
    /// Single postings are kept for [`Rules::postings_kept`](crate::Rules::postings_kept); older ones are rolled up into
    /// one sum. So a `from` before that time is invalid, and so is a `to` before it if `from` is `Time::MIN`.
    pub async fn spent<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        from: Time,
        to: Time,
    ) -> Result<i64, Error> {
        let key = (self.0.context.tenant.clone(), scope.try_into()?);
        if from >= to {
            return Ok(0);
        }
        if from == Time::MIN {
            return self.spent_until(&key, to).await;
        }
        let spent = self.0.inner.store.spent(&key, from, to).await?;
        self.check_kept("from", from).await?;
        Ok(spent)
    }

    /// Returns the units posted before `to`: all that were ever posted, minus the later ones.
    async fn spent_until(&self, key: &ScopeKey, to: Time) -> Result<i64, Error> {
        let store = &self.0.inner.store;
        for _ in 0..READS_MAX {
            let Some(row) = store.scope(key).await? else { return Ok(0) };
            let total = row.balances.first().map_or(0, Balance::spent);
            // No posting is later than the instant to which the scope was last brought.
            if row.seen < to {
                return Ok(total);
            }
            let later = store.spent(key, to, Time::NEVER).await?;
            // A posting between the two reads would count in only one of them.
            if store.scope(key).await?.is_some_and(|again| again.postings == row.postings) {
                self.check_kept("to", to).await?;
                return Ok(total - later);
            }
        }
        Err(StoreError::Busy(format!("the scope changed during each of {READS_MAX} reads")).into())
    }

    /// Refuses an instant before which postings may be rolled up. Called after the read: postings that are kept now were
    /// kept then.
    async fn check_kept(&self, field: &'static str, at: Time) -> Result<(), Error> {
        let kept = self.0.inner.rules.postings_kept;
        let since = self.0.now().await?.before(kept);
        if at < since {
            return Err(
                Invalid::new(field, format!("is before {since}: older postings are not kept one by one")).into()
            );
        }
        Ok(())
    }

    /// Freezes a scope: new holds and postings on it are refused until it is unfrozen.
    pub async fn freeze<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<(), Error> {
        self.0.execute(Op::Freeze { scope: scope.try_into()? }).await.map(drop)
    }

    /// Unfreezes a scope.
    pub async fn unfreeze<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<(), Error> {
        self.0.execute(Op::Unfreeze { scope: scope.try_into()? }).await.map(drop)
    }

    /// Holds `amount` units on a scope, which must have a budget, for `ttl`, which the hold policies clamp. Returns the
    /// handle of the hold. Refused, with nothing changed, if a limit leaves less or a scope is frozen.
    pub async fn hold<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        amount: i64,
        ttl: Duration,
    ) -> Result<Held, Error> {
        Ok(self.0.command().charge(scope, amount).hold_for(ttl).submit_held().await?.0)
    }

    /// Returns a handle of an existing hold. Dropping the handle settles the hold, like any [`Held`].
    pub async fn held(&self, id: HoldId) -> Result<Held, Error> {
        let hold = self.find(id).await?.ok_or(Refusal::UnknownHold { hold: id })?;
        Ok(Held::new(self.0.clone(), id, hold.expires_at, None))
    }

    /// Returns a hold of this tenant as stored. A hold that has expired but was not swept yet is still stored as held:
    /// see [`Hold::state_at`].
    pub async fn find(&self, id: HoldId) -> Result<Option<Hold>, Error> {
        Ok(self.0.inner.store.hold(&self.0.context.tenant, id).await?)
    }

    /// Lists the live holds on a scope in the order of expiry, at most `limit` (at most 1,000). For the next page, pass the
    /// expiry and the id of the last hold as `after`. Holds that have expired but were not swept yet are included: see
    /// [`Hold::state_at`].
    pub async fn live<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        after: Option<(Time, HoldId)>,
        limit: usize,
    ) -> Result<Vec<Hold>, Error> {
        let key = (self.0.context.tenant.clone(), scope.try_into()?);
        Ok(self.0.inner.store.list_live_holds(&key, after, limit.min(1_000)).await?)
    }

    /// Commits a hold: posts the actual units and frees the rest; see [`Held::commit`].
    pub async fn commit(&self, hold: HoldId, actual: impl Into<Actual>) -> Result<Settled, Error> {
        settle(self.0, Op::Commit { hold, actual: actual.into() }).await
    }

    /// Releases a hold: frees all its units. `reason` is recorded in the journal.
    pub async fn release(&self, hold: HoldId, reason: impl Into<String>) -> Result<Settled, Error> {
        settle(&self.0.because(reason), Op::Release { hold }).await
    }

    /// Extends the expiry of a hold and returns the new one; see [`Held::extend`].
    pub async fn extend(&self, hold: HoldId, by: Duration) -> Result<Time, Error> {
        match self.0.execute(Op::Extend { hold, by: Span::from(by) }).await? {
            Answer::Extended { expires_at, .. } => Ok(expires_at),
            other => Err(unexpected(&other)),
        }
    }

    /// Posts `amount` units on a scope, which must have a budget, and returns the charge with what its limits left.
    /// Refused, with nothing changed, if a limit leaves less or a scope is frozen.
    pub async fn post<S: TryInto<Scope, Error = Invalid>>(&self, scope: S, amount: i64) -> Result<Vec<Charged>, Error> {
        Ok(self.0.command().charge(scope, amount).submit().await?.done.posted)
    }

    /// Credits units to a scope and its ancestors. With `hold`, the credit reverses the spend of that hold and counts for
    /// the same windows. No limit refuses a credit; [`Credited::excess`] says if more was credited than the scope has
    /// spent.
    pub async fn credit<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        amount: i64,
        hold: Option<HoldId>,
    ) -> Result<Credited, Error> {
        match self.0.execute(Op::Credit { scope: scope.try_into()?, amount, hold }).await? {
            Answer::Credited(credited) => Ok(credited),
            other => Err(unexpected(&other)),
        }
    }

    /// Posts `amount` units on a scope if at most `limit` units are then posted and held in the window. The scope needs no
    /// budget. Returns false, with nothing changed, if a limit or a freeze refuses it.
    pub async fn try_reserve<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        amount: i64,
        limit: i64,
        window: Window,
    ) -> Result<bool, Error> {
        admitted(self.0.command().charge_within(scope, amount, [Limit::new(limit, window)]).submit().await)
            .map(|r| r.is_some())
    }

    /// Does the same as [`Ledger::try_reserve`] in the caller's own PostgreSQL transaction. Returns `None` instead of false,
    /// and a receipt for [`Bursar::announce`] instead of true.
    pub async fn try_reserve_in<S: TryInto<Scope, Error = Invalid>>(
        &self,
        conn: &mut PgConnection,
        scope: S,
        amount: i64,
        limit: i64,
        window: Window,
    ) -> Result<Option<Receipt>, Error> {
        admitted(self.0.command().charge_within(scope, amount, [Limit::new(limit, window)]).submit_in(conn).await)
    }
}

/// Turns a refusal by a limit or a freeze into `None`.
fn admitted(submitted: Result<Receipt, Error>) -> Result<Option<Receipt>, Error> {
    match submitted {
        Ok(receipt) => Ok(Some(receipt)),
        Err(Error::Refused(Refusal::Refused(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn view(scope: Scope, row: &ScopeState) -> BudgetView {
    let budget = row.budget.as_deref().cloned();
    let balances = row.balances.iter().map(|balance| {
        let limits = budget.iter().flat_map(|budget| &budget.limits);
        let limit = limits.filter(|limit| limit.window == balance.window).map(|limit| limit.amount).next();
        let calendar = matches!(balance.window, Window::Calendar { .. });
        BalanceView {
            window: balance.window.clone(),
            start: calendar.then_some(balance.since),
            end: calendar.then_some(balance.until),
            limit,
            posted: balance.spent(),
            held: balance.held,
            remaining: limit.filter(|_| row.seen < balance.until).map(|limit| balance.remaining(limit)),
        }
    });
    let mut balances: Vec<BalanceView> = balances.collect();
    // Every scope has a lifetime balance, also where no limit counts over it. What is limited comes first.
    balances.sort_by_key(|balance| balance.limit.is_none());
    BudgetView { scope, frozen: row.frozen_at(row.seen).cloned(), balances, budget }
}
