//! Budgets.

use bursar_core::name::Scope;
use bursar_wire::Page;
use bursar_wire::budget::{BudgetAnswer, BudgetBody, CreditBody, SpentAnswer};
use bursar_wire::command::ChargeAnswer;
use bursar_wire::event::EventAnswer;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::faces::because;
use crate::path::Path;

/// Budgets: limits on scopes, and what is left of them.
#[derive(Clone, Copy, Debug)]
pub struct Budgets<'a>(&'a Client);

impl Client {
    /// Budgets.
    pub fn budgets(&self) -> Budgets<'_> {
        Budgets(self)
    }
}

fn at(scope: &Scope) -> Path {
    Path::new("/v1/budgets").part(scope)
}

impl Budgets<'_> {
    /// Creates or changes a budget, as a whole.
    pub async fn define(&self, scope: &Scope, budget: &BudgetBody) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.put(at(scope), budget).answer().await
    }

    /// A budget as it stands.
    pub async fn show(&self, scope: &Scope) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.get(at(scope)).answer().await
    }

    /// Budgets whose scopes begin so, a page of them after a cursor.
    pub async fn list(
        &self,
        prefix: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<BudgetAnswer>>, Error> {
        let path = Path::new("/v1/budgets").query("prefix", Some(prefix).filter(|prefix| !prefix.is_empty()));
        self.0.get(path.query("cursor", cursor).query("limit", Some(limit))).answer().await
    }

    /// Units posted from an instant on and before another, both RFC 3339.
    pub async fn spent(
        &self,
        scope: &Scope,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Answered<SpentAnswer>, Error> {
        self.0.get(at(scope).then("spent").query("from", from).query("to", to)).answer().await
    }

    /// What moved a scope, newest first.
    pub async fn history(
        &self,
        scope: &Scope,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<EventAnswer>>, Error> {
        let path = at(scope).then("history").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Refuses new spend until it is unfrozen.
    pub async fn freeze(&self, scope: &Scope, reason: Option<&str>) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.post(at(scope).then("freeze"), &because(reason)).answer().await
    }

    /// Admits spend again.
    pub async fn unfreeze(&self, scope: &Scope, reason: Option<&str>) -> Result<Answered<BudgetAnswer>, Error> {
        self.0.post(at(scope).then("unfreeze"), &because(reason)).answer().await
    }

    /// Gives units back.
    pub async fn credit(&self, scope: &Scope, credit: &CreditBody) -> Result<Answered<ChargeAnswer>, Error> {
        self.0.post(at(scope).then("credits"), credit).answer().await
    }
}
