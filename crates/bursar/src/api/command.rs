//! Commands: charges, redemptions and jobs, in one transaction.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome, Submitted};
use bursar_core::budget::{Budget, Cover, Limit};
use bursar_core::event::{Charged, Entry};
use bursar_core::id::CommandId;
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, Purpose, Scope, Subject};
use bursar_core::refusal::Invalid;
use bursar_core::request::{Charge, CheckedRequest, Command, Op, Redemption, Request, Settle};
use bursar_core::time::Span;
use sqlx::PgConnection;

use crate::api::held::Held;
use crate::api::instance::{Backend, Bursar, no_transactions};
use crate::error::Error;

/// A command in the making. What is wrong with a part is told when it is submitted.
#[must_use = "a command does nothing until it is submitted"]
pub struct CommandBuilder {
    bursar: Bursar,
    command: Command,
    key: Option<IdempotencyKey>,
    dry_run: bool,
    wrong: Option<Error>,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The command.
    pub command: CommandId,
    /// It had been done before, under the same idempotency key.
    pub replayed: bool,
    /// What came of it.
    pub done: Submitted,
    pub(crate) entry: Option<Arc<Entry>>,
}

impl CommandBuilder {
    pub(crate) fn new(bursar: Bursar) -> CommandBuilder {
        CommandBuilder { bursar, command: Command::default(), key: None, dry_run: false, wrong: None }
    }

    fn with<T, E: Into<Error>>(mut self, part: Result<T, E>, take: impl FnOnce(&mut Self, T)) -> Self {
        match part {
            Ok(part) => take(&mut self, part),
            Err(error) => drop(self.wrong.get_or_insert(error.into())),
        }
        self
    }

    /// Charges a scope that has a budget.
    pub fn charge(self, scope: impl TryInto<Scope, Error = Invalid>, amount: i64) -> Self {
        self.with(scope.try_into(), |this, scope| this.command.charges.push(Charge::new(scope, amount)))
    }

    /// Charges a scope under limits given here, beside those of its budget if it has one.
    pub fn charge_within(
        self,
        scope: impl TryInto<Scope, Error = Invalid>,
        amount: i64,
        limits: impl IntoIterator<Item = Limit>,
    ) -> Self {
        self.with(scope.try_into(), |this, scope| {
            this.command.charges.push(Charge::new(scope, amount).within(limits));
        })
    }

    /// Charges a scope that may have no budget yet: `default` is registered with the charge where nobody has defined one. See
    /// [`Charge::default`].
    pub fn charge_or_define(
        self,
        scope: impl TryInto<Scope, Error = Invalid>,
        amount: i64,
        default: Arc<Budget>,
    ) -> Self {
        self.with(scope.try_into(), |this, scope| {
            this.command.charges.push(Charge::new(scope, amount).or_define(default));
        })
    }

    pub(crate) fn charge_raw(mut self, charge: Charge) -> Self {
        self.command.charges.push(charge);
        self
    }

    /// Refuses late commits and overruns of the hold: what it holds is not spent until it is committed.
    pub fn refusing_late(mut self) -> Self {
        for charge in &mut self.command.charges {
            charge.cover = Some(Cover::Refuse);
        }
        self
    }

    /// Holds the charges for so long; the caller settles.
    pub fn hold_for(mut self, ttl: Duration) -> Self {
        self.command.settle = Settle::Hold { ttl: Some(Span::from(ttl)) };
        // A duration of nothing is an error, not a wish for the default.
        if ttl.as_micros() == 0 {
            self.wrong.get_or_insert(Invalid::new("ttl_ms", "must be at least 1").into());
        }
        self
    }

    /// Holds the charges for as long as the budget says; the caller settles.
    pub fn hold(mut self) -> Self {
        self.command.settle = Settle::Hold { ttl: None };
        self
    }

    /// Holds the charges as long as the first job lives; its end settles them.
    pub fn settle_with_job(mut self) -> Self {
        self.command.settle = Settle::Job;
        self
    }

    /// Uses up a grant.
    pub fn redeem(
        self,
        purpose: impl TryInto<Purpose, Error = Invalid>,
        subject: impl TryInto<Subject, Error = Invalid>,
        token: &str,
    ) -> Self {
        let parts = purpose.try_into().and_then(|purpose| Ok((purpose, subject.try_into()?))).map_err(Error::from);
        let redemption = parts.and_then(|(purpose, subject)| Ok(Redemption::new(purpose, subject, token)?));
        self.with(redemption, |this, redemption| this.command.redeem.push(redemption))
    }

    /// Starts a job.
    pub fn job(mut self, job: JobSpec) -> Self {
        self.command.jobs.push(job);
        self
    }

    /// Makes a repetition have one effect and one answer.
    pub fn key(self, key: impl TryInto<IdempotencyKey, Error = Invalid>) -> Self {
        self.with(key.try_into(), |this, key| this.key = Some(key))
    }

    /// Decides and answers, but writes nothing.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// The request it comes to.
    pub fn into_request(self) -> Result<Request, Error> {
        match self.wrong {
            Some(error) => Err(error),
            None => Ok(Request {
                context: self.bursar.context,
                idempotency_key: self.key,
                dry_run: self.dry_run,
                part: None,
                if_match: None,
                op: Op::Submit(self.command),
            }),
        }
    }

    /// Does it; returns when it is durable.
    pub async fn submit(self) -> Result<Receipt, Error> {
        let bursar = self.bursar.clone();
        Ok(Receipt::from(bursar.request(self.into_request()?).await?))
    }

    /// Does it and takes the hold by its handle.
    pub async fn submit_held(self) -> Result<(Held, Receipt), Error> {
        let bursar = self.bursar.clone();
        let command = if self.command.settle == Settle::Now { self.hold() } else { self };
        let receipt = command.submit().await?;
        let placed =
            receipt.done.hold.clone().ok_or_else(|| Error::Internal("a hold command placed no hold".into()))?;
        Ok((Held::new(bursar, placed.id, placed.expires_at), receipt))
    }

    /// Does it in the caller's own PostgreSQL transaction (READ COMMITTED). The caller commits, then calls
    /// [`Bursar::announce`] with the receipt.
    pub async fn submit_in(self, conn: &mut PgConnection) -> Result<Receipt, Error> {
        let bursar = self.bursar.clone();
        Ok(Receipt::from(bursar.request_in(conn, &self.into_request()?).await?))
    }
}

/// What a command did, of what any request came to.
impl Receipt {
    /// What the tightest limit on a scope left after the command.
    pub fn remaining(&self, scope: &str) -> Option<i64> {
        let held = self.done.hold.iter().flat_map(|hold| &hold.charges);
        remaining(held.chain(&self.done.posted), scope)
    }
}

/// What the tightest limit on a scope left.
fn remaining<'a>(mut charges: impl Iterator<Item = &'a Charged>, scope: &str) -> Option<i64> {
    let charge = charges.find(|charge| charge.scope.as_str() == scope)?;
    charge.balances.iter().filter(|left| left.scope.is_none()).map(|left| left.remaining).min()
}

impl From<Outcome> for Receipt {
    fn from(outcome: Outcome) -> Receipt {
        let Outcome { command, replayed, answer, entry } = outcome;
        let done = match answer {
            Answer::Submitted(done) => done,
            _ => Submitted::default(),
        };
        Receipt { command, replayed, done, entry }
    }
}

impl Bursar {
    /// Does a request in the caller's own PostgreSQL transaction. Answers are as they are: where a [`Op::Finish`] is told that a lease is
    /// lost and what it spent is billed, the bill is in this transaction alone; [`crate::Jobs::finish_in`] sees to it.
    pub async fn request_in(&self, conn: &mut PgConnection, request: &Request) -> Result<Outcome, Error> {
        match &self.inner.backend {
            Backend::Postgres(store) => {
                let request = CheckedRequest::new(request.clone())?;
                Ok(store.commit_in(conn, &request).await??)
            }
            Backend::Sqlite(_) => Err(bursar_store::StoreError::WrongTransaction(
                "this Bursar keeps its tables in SQLite: use `Bursar::transaction`".into(),
            )
            .into()),
            Backend::Other => Err(no_transactions().into()),
        }
    }

    /// Tells listeners what was done in a transaction that has been committed.
    pub fn announce<'a>(&self, receipts: impl IntoIterator<Item = &'a Receipt>) {
        for entry in receipts.into_iter().filter_map(|receipt| receipt.entry.as_ref()) {
            self.inner.feed.publish(entry);
        }
    }
}
