//! The ledger: budgets, holds and spend.

use std::time::Duration;

use bursar_core::answer::{Answer, Settled};
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

/// Budgets, holds and spend. From [`Bursar::ledger`].
#[derive(Clone, Copy)]
pub struct Ledger<'a>(pub(crate) &'a Bursar);

/// How often a scope is read anew because it was posted to meanwhile.
const READS_MAX: usize = 20;

/// A budget, or a scope without one, as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetView {
    /// Which one.
    pub scope: Scope,
    /// What is registered on it.
    pub budget: Option<Budget>,
    /// Why it refuses new spend, if it does.
    pub frozen: Option<Freeze>,
    /// What is posted and held in each of its windows.
    pub balances: Vec<BalanceView>,
}

/// What is posted and held in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceView {
    /// Which one.
    pub window: Window,
    /// From when it counts, if it is a calendar window.
    pub start: Option<Time>,
    /// When it turns, if it is a calendar window.
    pub end: Option<Time>,
    /// The registered limit over it.
    pub limit: Option<i64>,
    /// Units posted.
    pub posted: i64,
    /// Units held.
    pub held: i64,
    /// What the limit leaves; not told of a window that has ended, in a zone that this build does not know.
    pub remaining: Option<i64>,
}

impl Ledger<'_> {
    /// Registers or changes a budget.
    pub async fn define<S: TryInto<Scope, Error = Invalid>>(&self, scope: S, budget: Budget) -> Result<(), Error> {
        self.0.execute(Op::Define { scope: scope.try_into()?, budget }).await.map(drop)
    }

    /// A budget as it stands now. Takes no lock.
    pub async fn budget<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<Option<BudgetView>, Error> {
        let scope = scope.try_into()?;
        let row = self.0.inner.store.scope(&(self.0.context.tenant.clone(), scope.clone())).await?;
        Ok(row.filter(|row| row.version > 0).map(|row| view(scope, &row)))
    }

    /// Budgets whose scopes begin with `prefix`, after a scope, at most `limit`.
    pub async fn budgets(&self, prefix: &str, after: Option<&Scope>, limit: usize) -> Result<Vec<BudgetView>, Error> {
        let found = self.0.inner.store.list_scopes(&self.0.context.tenant, prefix, after, limit.min(1_000)).await?;
        Ok(found.into_iter().map(|(scope, row)| view(scope, &row)).collect())
    }

    /// What is left of each limit registered on a scope. Takes no lock.
    pub async fn remaining<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<Vec<BalanceView>, Error> {
        let scope = scope.try_into()?;
        let found = self.budget(&scope).await?.ok_or_else(|| Refusal::UnknownScope { scope: scope.clone() })?;
        let limited = found.balances.into_iter().filter(|balance| balance.limit.is_some());
        let told = limited.map(|balance| match &balance.window {
            Window::Calendar { zone, .. } if balance.remaining.is_none() => {
                Err(Refusal::UnknownZone { scope: scope.clone(), zone: zone.clone() }.into())
            }
            _ => Ok(balance),
        });
        told.collect()
    }

    /// The units posted on a scope in `[from, to)`; from [`Time::MIN`] on, ever. Takes no lock.
    ///
    /// Single postings are kept for [`Rules::postings_kept`](crate::Rules::postings_kept). What is older cannot be told
    /// apart any more, so that a `from` or, where that is `Time::MIN`, a `to` before then is invalid.
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
        self.still_kept("from", from).await?;
        Ok(spent)
    }

    /// All that was ever posted, but for what came later.
    async fn spent_until(&self, key: &ScopeKey, to: Time) -> Result<i64, Error> {
        let store = &self.0.inner.store;
        for _ in 0..READS_MAX {
            let Some(row) = store.scope(key).await? else { return Ok(0) };
            let ever = row.balances.first().map_or(0, Balance::spent);
            // Nothing is posted for an instant that the scope has not seen.
            if row.seen < to {
                return Ok(ever);
            }
            let later = store.spent(key, to, Time::NEVER).await?;
            // What is posted between the two would count in one of them only.
            if store.scope(key).await?.is_some_and(|again| again.postings == row.postings) {
                self.still_kept("to", to).await?;
                return Ok(ever - later);
            }
        }
        Err(StoreError::Busy("the scope is posted to all the time".into()).into())
    }

    /// Refuses an instant before which postings may be rolled up. To be asked after they were read: what is still kept
    /// now was kept then.
    async fn still_kept(&self, field: &'static str, at: Time) -> Result<(), Error> {
        let kept = self.0.inner.rules.postings_kept;
        let since = self.0.now().await?.before(kept);
        if at < since {
            return Err(
                Invalid::new(field, format!("is before {since}: older postings are not kept one by one")).into()
            );
        }
        Ok(())
    }

    /// Refuses new spend on a scope until it is unfrozen.
    pub async fn freeze<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<(), Error> {
        self.0.execute(Op::Freeze { scope: scope.try_into()? }).await.map(drop)
    }

    /// Admits spend again.
    pub async fn unfreeze<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<(), Error> {
        self.0.execute(Op::Unfreeze { scope: scope.try_into()? }).await.map(drop)
    }

    /// Sets units aside on a scope with a budget.
    pub async fn hold<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        amount: i64,
        ttl: Duration,
    ) -> Result<Held, Error> {
        Ok(self.0.command().charge(scope, amount).hold_for(ttl).submit_held().await?.0)
    }

    /// Takes the handle of a hold that was placed before.
    pub async fn held(&self, id: HoldId) -> Result<Held, Error> {
        let hold = self.find(id).await?.ok_or(Refusal::UnknownHold { hold: id })?;
        Ok(Held::new(self.0.clone(), id, hold.expires_at))
    }

    /// A hold as it is stored; see [`Hold::state_at`].
    pub async fn find(&self, id: HoldId) -> Result<Option<Hold>, Error> {
        let found = self.0.inner.store.hold(id).await?;
        Ok(found.filter(|hold| hold.tenant == self.0.context.tenant))
    }

    /// Live holds on a scope, soonest to expire first, at most `limit`. The next page begins `after` the expiry and the id
    /// of the last one. What has expired and is not swept yet is among them: see [`Hold::state_at`].
    pub async fn live<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        after: Option<(Time, HoldId)>,
        limit: usize,
    ) -> Result<Vec<Hold>, Error> {
        let key = (self.0.context.tenant.clone(), scope.try_into()?);
        Ok(self.0.inner.store.list_live_holds(&key, after, limit.min(1_000)).await?)
    }

    /// Posts what a hold really cost.
    pub async fn commit(&self, hold: HoldId, actual: impl Into<Actual>) -> Result<Settled, Error> {
        settle(self.0, Op::Commit { hold, actual: actual.into() }).await
    }

    /// Frees what a hold set aside.
    pub async fn release(&self, hold: HoldId, reason: impl Into<String>) -> Result<Settled, Error> {
        settle(&self.0.because(reason), Op::Release { hold }).await
    }

    /// Puts off a hold's expiry; returns when it expires.
    pub async fn extend(&self, hold: HoldId, by: Duration) -> Result<Time, Error> {
        match self.0.execute(Op::Extend { hold, by: Span::from(by) }).await? {
            Answer::Extended { expires_at, .. } => Ok(expires_at),
            other => Err(unexpected(&other)),
        }
    }

    /// Spends at once.
    pub async fn post<S: TryInto<Scope, Error = Invalid>>(&self, scope: S, amount: i64) -> Result<Vec<Charged>, Error> {
        Ok(self.0.command().charge(scope, amount).submit().await?.done.posted)
    }

    /// Gives units back; dated like `hold` where one is named. Never refused for lack of anything.
    pub async fn credit<S: TryInto<Scope, Error = Invalid>>(
        &self,
        scope: S,
        amount: i64,
        hold: Option<HoldId>,
    ) -> Result<Charged, Error> {
        match self.0.execute(Op::Credit { scope: scope.try_into()?, amount, hold }).await? {
            Answer::Credited(charged) => Ok(charged),
            other => Err(unexpected(&other)),
        }
    }

    /// Spends `amount` if no more than `limit` units are spent in the window with it. Nothing needs registering.
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

    /// The same within the caller's own PostgreSQL transaction.
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

/// A refusal for lack of units is an answer here.
fn admitted(submitted: Result<Receipt, Error>) -> Result<Option<Receipt>, Error> {
    match submitted {
        Ok(receipt) => Ok(Some(receipt)),
        Err(Error::Refused(Refusal::Refused(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

fn view(scope: Scope, row: &ScopeState) -> BudgetView {
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
    BudgetView { scope, frozen: row.frozen_at(row.seen).cloned(), balances: balances.collect(), budget }
}
