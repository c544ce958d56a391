//! Commands: charges, redemptions and jobs in one transaction.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome, Submitted};
use bursar_core::budget::{Budget, Cover, Limit};
use bursar_core::event::{Charged, Entry};
use bursar_core::hold::OnExpiry;
use bursar_core::id::CommandId;
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, Purpose, Scope, Subject};
use bursar_core::refusal::Invalid;
#[cfg(feature = "meter")]
use bursar_core::request::Fingerprint;
use bursar_core::request::{Charge, CheckedRequest, Command, Op, Part, Redemption, Request, Settle};
use bursar_core::time::Span;
use sqlx::PgConnection;

use crate::api::held::Held;
use crate::api::instance::{Backend, Bursar, no_transactions};
use crate::erasure;
use crate::error::Error;

/// Builds a command: charges, redemptions and jobs that are committed in one transaction, or not at all. An invalid
/// argument is reported by the call that submits the command.
#[must_use = "a command does nothing until it is submitted"]
pub struct CommandBuilder {
    bursar: Bursar,
    command: Command,
    key: Option<IdempotencyKey>,
    part: Option<Part>,
    dry_run: bool,
    /// The first invalid argument.
    error: Option<Error>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The id of the command.
    pub command: CommandId,
    /// Whether this is the stored answer to an earlier command with the same idempotency key.
    pub replayed: bool,
    /// The hold, the postings, the redeemed grants and the jobs. Empty if the request was not a command.
    pub done: Submitted,
    /// The journal entry, for [`Bursar::announce`].
    pub(crate) entry: Option<Arc<Entry>>,
}

impl CommandBuilder {
    pub(crate) fn new(bursar: Bursar) -> CommandBuilder {
        CommandBuilder { bursar, command: Command::default(), key: None, part: None, dry_run: false, error: None }
    }

    /// Applies a valid argument, or keeps the error for the submission.
    fn with<T, E: Into<Error>>(mut self, argument: Result<T, E>, apply: impl FnOnce(&mut Self, T)) -> Self {
        match argument {
            Ok(argument) => apply(&mut self, argument),
            Err(error) => drop(self.error.get_or_insert(error.into())),
        }
        self
    }

    /// Charges `amount` units to a scope and its ancestors. The command is refused if the scope has no budget.
    pub fn charge(self, scope: impl TryInto<Scope, Error = Invalid>, amount: i64) -> Self {
        self.with(scope.try_into(), |this, scope| this.command.charges.push(Charge::new(scope, amount)))
    }

    /// Charges a scope under these limits, in addition to those of its budget. The scope needs no budget.
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

    /// Charges a scope, and registers `default` as its budget in the same transaction if none was defined for it. See
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

    /// Makes the hold refuse late commits and overruns. Use this if nothing is spent before the commit. Call it after the
    /// charges were added: it applies to those.
    pub fn refusing_late(mut self) -> Self {
        for charge in &mut self.command.charges {
            charge.cover = Some(Cover::Refuse);
        }
        self
    }

    /// Holds the charges for `ttl` instead of posting them; the caller commits or releases the hold. The budgets' hold
    /// policies clamp `ttl`. Zero is invalid.
    pub fn hold_for(mut self, ttl: Duration) -> Self {
        self.command.settle = Settle::Hold { ttl: Some(Span::from(ttl)) };
        // A hold with a time to live of zero would get the default one.
        if ttl.as_micros() == 0 {
            self.error.get_or_insert(Invalid::new("ttl_ms", "must be at least 1").into());
        }
        self
    }

    /// Holds the charges for the budget's default time to live; the caller commits or releases the hold.
    pub fn hold(mut self) -> Self {
        self.command.settle = Settle::Hold { ttl: None };
        self
    }

    /// Makes the expiry of the hold post `amount` units of each charge, instead of freeing all of them. So spend does not
    /// vanish with a process that died. A commit after the expiry corrects the units to the actual ones.
    pub fn charge_on_expiry(mut self, amount: i64) -> Self {
        self.command.on_expiry = OnExpiry::Charge(amount);
        self
    }

    /// Holds the charges until the command's job ends; its end settles the hold. The command must have one job.
    pub fn settle_with_job(mut self) -> Self {
        self.command.settle = Settle::Job;
        self
    }

    /// Redeems a grant. The command is refused if the token is not valid for this purpose and subject.
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

    /// Enqueues a job.
    pub fn job(mut self, job: JobSpec) -> Self {
        self.command.jobs.push(job);
        self
    }

    /// Sets the idempotency key. A retry with the same key returns the first answer and changes nothing.
    pub fn key(self, key: impl TryInto<IdempotencyKey, Error = Invalid>) -> Self {
        self.with(key.try_into(), |this, key| this.key = Some(key))
    }

    /// Sets the idempotency key, and the digest that stands for the request in place of the command's own.
    #[cfg(feature = "meter")]
    pub(crate) fn key_of(mut self, key: IdempotencyKey, whole: Fingerprint) -> Self {
        self.key = Some(key);
        self.part = Some(Part { number: 0, whole, more: false });
        self
    }

    /// Decides the command and returns the answer, but writes nothing.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Returns the command as a request, or the first invalid argument.
    pub fn into_request(self) -> Result<Request, Error> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Request {
                context: self.bursar.context,
                idempotency_key: self.key,
                dry_run: self.dry_run,
                part: self.part,
                if_match: None,
                op: Op::Submit(self.command),
            }),
        }
    }

    /// Executes the command. Returns when it is durable. A refused command changes nothing.
    pub async fn submit(self) -> Result<Receipt, Error> {
        let bursar = self.bursar.clone();
        Ok(Receipt::from(bursar.request(self.into_request()?).await?))
    }

    /// Executes the command and returns its hold as a handle. Charges that would be posted at once are held, as by
    /// [`CommandBuilder::hold`].
    pub async fn submit_held(self) -> Result<(Held, Receipt), Error> {
        let bursar = self.bursar.clone();
        let command = if self.command.settle == Settle::Now { self.hold() } else { self };
        let receipt = command.submit().await?;
        let placed =
            receipt.done.hold.clone().ok_or_else(|| Error::Internal("a hold command placed no hold".into()))?;
        Ok((Held::new(bursar, placed.id, placed.expires_at, placed.clamped), receipt))
    }

    /// Executes the command in the caller's own PostgreSQL transaction, whose isolation level must be READ COMMITTED. The
    /// caller commits it and then passes the receipt to [`Bursar::announce`].
    pub async fn submit_in(self, conn: &mut PgConnection) -> Result<Receipt, Error> {
        let bursar = self.bursar.clone();
        Ok(Receipt::from(bursar.request_in(conn, &self.into_request()?).await?))
    }
}

impl Receipt {
    /// Returns the units that the tightest of a scope's own limits left after the command. Limits of ancestors do not
    /// count. Returns `None` if the command did not charge the scope, or the scope has no limits.
    pub fn remaining(&self, scope: &str) -> Option<i64> {
        let held = self.done.hold.iter().flat_map(|hold| &hold.charges);
        remaining(held.chain(&self.done.posted), scope)
    }
}

/// Returns what the tightest of a scope's own limits leaves.
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
    /// Executes a request in the caller's own PostgreSQL transaction, whose isolation level must be READ COMMITTED. The
    /// caller commits it.
    ///
    /// If an [`Op::Finish`] reports usage under a lost lease, the usage is charged in this transaction only, and a
    /// rollback undoes the charge. [`crate::Jobs::finish_in`] charges it outside as well.
    pub async fn request_in(&self, conn: &mut PgConnection, request: &Request) -> Result<Outcome, Error> {
        erasure::refuse(request)?;
        match &self.inner.backend {
            Backend::Postgres(store) => {
                let request = CheckedRequest::new(request.clone())?;
                Ok(store.commit_in(conn, &request).await??)
            }
            Backend::Sqlite(_) => Err(bursar_store::StoreError::WrongTransaction(
                "this Bursar uses SQLite: call `Bursar::transaction`".into(),
            )
            .into()),
            Backend::Other => Err(no_transactions().into()),
        }
    }

    /// Notifies listeners and waiting workers of this process about commands in the caller's own transaction. Call it
    /// after that transaction has committed.
    pub fn announce<'a>(&self, receipts: impl IntoIterator<Item = &'a Receipt>) {
        for entry in receipts.into_iter().filter_map(|receipt| receipt.entry.as_ref()) {
            self.inner.feed.publish(entry);
        }
    }
}
