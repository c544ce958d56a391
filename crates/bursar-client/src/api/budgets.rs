//! `/v1/budgets`.

use bursar_core::name::Scope;
use bursar_wire::Page;
use bursar_wire::budget::{BudgetAnswer, BudgetBody, CreditBody, CreditedAnswer, SpendSeriesAnswer, SpentAnswer};
use bursar_wire::event::EventAnswer;

use crate::answered::Answered;
use crate::api::reason_body;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for budgets. From [`Client::budgets`].
#[derive(Clone, Copy, Debug)]
pub struct Budgets<'a>(&'a Client);

impl Client {
    /// The calls for budgets.
    pub fn budgets(&self) -> Budgets<'_> {
        Budgets(self)
    }
}

fn at(scope: &Scope) -> Path {
    Path::new("/v1/budgets").part(scope)
}

impl Budgets<'_> {
    /// Creates a budget or replaces its definition.
    pub async fn define(&self, scope: &Scope, budget: &BudgetBody) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.put(at(scope), budget).answer().await
    }

    /// Removes a budget. The server refuses while units are held on it, or while it is the parent of another budget.
    pub async fn remove(&self, scope: &Scope, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(at(scope).query("reason", reason)).done().await
    }

    /// Returns a budget with its balances.
    pub async fn show(&self, scope: &Scope) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.get(at(scope)).answer().await
    }

    /// Returns a budget as it was at a moment: a time in RFC 3339, or a position of the journal. `None` is now.
    pub async fn show_at(&self, scope: &Scope, moment: Option<&str>) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.get(at(scope).query("at", moment)).answer().await
    }

    /// Returns a page of the budgets whose scopes begin with `prefix`, in the order of their scopes.
    pub async fn list(
        &self,
        prefix: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<BudgetAnswer>>, Error> {
        let path = Path::new("/v1/budgets").query("prefix", Some(prefix).filter(|prefix| !prefix.is_empty()));
        self.0.get(path.query("cursor", cursor).query("limit", Some(limit))).answer().await
    }

    /// Returns the units posted from `from` on and before `to`, both in RFC 3339.
    pub async fn spent(
        &self,
        scope: &Scope,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Answered<SpentAnswer>, Error> {
        self.0.get(at(scope).then("spent").query("from", from).query("to", to)).answer().await
    }

    /// Returns the units posted in each of `steps` equal parts of a period, both ends in RFC 3339.
    pub async fn series(
        &self,
        scope: &Scope,
        from: &str,
        to: Option<&str>,
        steps: u32,
    ) -> Result<Answered<SpendSeriesAnswer>, Error> {
        let path = at(scope).then("series").query("from", Some(from)).query("to", to);
        self.0.get(path.query("steps", Some(steps))).answer().await
    }

    /// Returns a page of the events that changed a scope, newest first.
    pub async fn history(
        &self,
        scope: &Scope,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<EventAnswer>>, Error> {
        let path = at(scope).then("history").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Freezes a scope: it refuses new charges until it is unfrozen.
    pub async fn freeze(&self, scope: &Scope, reason: Option<&str>) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.post(at(scope).then("freeze"), &reason_body(reason)).answer().await
    }

    /// Unfreezes a scope.
    pub async fn unfreeze(&self, scope: &Scope, reason: Option<&str>) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.post(at(scope).then("unfreeze"), &reason_body(reason)).answer().await
    }

    /// Gives units back to a scope.
    pub async fn credit(&self, scope: &Scope, credit: &CreditBody) -> Result<Answered<CreditedAnswer>, Error> {
        self.0.post(at(scope).then("credits"), credit).answer().await
    }
}
