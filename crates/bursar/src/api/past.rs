//! The past: any row as it was at an earlier moment.

use bursar_core::blob::{Blob, NamespaceConfig};
use bursar_core::credential::is_credential;
use bursar_core::event::Stream;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BlobId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueConfig, Schedule};
use bursar_core::name::{Namespace, Queue, ScheduleName, Scope};
use bursar_core::refusal::Invalid;
use bursar_core::time::Time;
use bursar_store::memory::Tables;
use bursar_store::past::PAST_TRANSACTIONS_MAX;
use bursar_store::{Moment, StoreError, Wanted};

use crate::api::instance::Bursar;
use crate::api::ledger::{self, BudgetView};
use crate::error::Error;

/// The state at an earlier moment. From [`Bursar::past`].
///
/// A row is computed from its own events in the journal, also from those that are archived. The journal has no event for what follows
/// from time alone: of a job, that a lease was renewed and progress that was not a checkpoint; of a queue, its figures. A row that was
/// deleted since, for example by retention, is not found.
///
/// A call reads the row's events from the beginning, at most those of 10,000 transactions, and fails with `Invalid` if there are more.
#[derive(Clone, Copy)]
pub struct Past<'a> {
    bursar: &'a Bursar,
    moment: Moment,
    instant: Time,
}

impl Bursar {
    /// Returns the state at an earlier moment. Fails with `Invalid` if the moment has not come yet.
    pub async fn past(&self, moment: Moment) -> Result<Past<'_>, Error> {
        let instant = match moment {
            Moment::At(at) if at > self.now().await? => return Err(not_yet("is in the future".into())),
            Moment::At(at) => at,
            Moment::After(0) => Time::MIN,
            Moment::After(position) => match self.inner.journal.list(position - 1, 1).await?.first() {
                Some(row) => row.batch.at,
                None => {
                    let last = self.inner.store.health().await?.position;
                    return Err(not_yet(format!("is beyond the last position of the journal, {last}")));
                }
            },
        };
        Ok(Past { bursar: self, moment, instant })
    }
}

fn not_yet(problem: String) -> Error {
    Error::Refused(Invalid::new("at", problem).into())
}

impl Past<'_> {
    /// Returns the instant of the moment: for a position, when its event was decided.
    pub fn instant(&self) -> Time {
        self.instant
    }

    /// Returns a scope with its budget and its balances.
    pub async fn budget<S: TryInto<Scope, Error = Invalid>>(&self, scope: S) -> Result<Option<BudgetView>, Error> {
        let scope = scope.try_into()?;
        let key = (self.bursar.context.tenant.clone(), scope.clone());
        let Some(tables) = self.tables(Stream::Scope(key.0.clone(), scope.clone())).await? else { return Ok(None) };
        let row = tables.scope_at(&key, self.instant)?.filter(|row| row.version > 0);
        Ok(row.map(|row| ledger::view(scope, &row)))
    }

    /// Returns a hold. One that had expired by then, but was not swept, is still `Held`: see [`Hold::state_at`]. Its field `beyond` is as
    /// the commit set it, because credits are events of its scopes.
    pub async fn hold(&self, id: HoldId) -> Result<Option<Hold>, Error> {
        let tables = self.tables(Stream::Hold(id)).await?;
        Ok(tables.and_then(|mut tables| tables.holds.remove(&id)))
    }

    /// Returns a job.
    pub async fn job(&self, id: JobId) -> Result<Option<Job>, Error> {
        let tables = self.tables(Stream::Job(id)).await?;
        Ok(tables.and_then(|mut tables| tables.jobs.remove(&id)))
    }

    /// Returns a grant.
    pub async fn grant(&self, id: GrantId) -> Result<Option<Grant>, Error> {
        if is_credential(id) {
            return Ok(None);
        }
        let tables = self.tables(Stream::Grant(id)).await?;
        Ok(tables.and_then(|mut tables| tables.grants.remove(&id)))
    }

    /// Returns the settings of a queue; `None` if it had none.
    pub async fn queue<Q: TryInto<Queue, Error = Invalid>>(&self, queue: Q) -> Result<Option<QueueConfig>, Error> {
        let key = (self.bursar.context.tenant.clone(), queue.try_into()?);
        let tables = self.tables(Stream::Queue(key.0.clone(), key.1.clone())).await?;
        Ok(tables.and_then(|mut tables| tables.queues.remove(&key)).map(|row| row.config))
    }

    /// Returns a schedule.
    pub async fn schedule<S: TryInto<ScheduleName, Error = Invalid>>(
        &self,
        name: S,
    ) -> Result<Option<Schedule>, Error> {
        let key = (self.bursar.context.tenant.clone(), name.try_into()?);
        let tables = self.tables(Stream::Schedule(key.0.clone(), key.1.clone())).await?;
        Ok(tables.and_then(|mut tables| tables.schedules.remove(&key)))
    }

    /// Returns the rules of a namespace; `None` if it had none.
    pub async fn namespace<N: TryInto<Namespace, Error = Invalid>>(
        &self,
        name: N,
    ) -> Result<Option<NamespaceConfig>, Error> {
        let key = (self.bursar.context.tenant.clone(), name.try_into()?);
        let tables = self.tables(Stream::Namespace(key.0.clone(), key.1.clone())).await?;
        Ok(tables.and_then(|mut tables| tables.namespaces.remove(&key)).map(|row| row.config))
    }

    /// Returns the record of a blob.
    pub async fn blob(&self, id: BlobId) -> Result<Option<Blob>, Error> {
        let tables = self.tables(Stream::Blob(id)).await?;
        Ok(tables.and_then(|mut tables| tables.blobs.remove(&id)))
    }

    /// Reads the events of a stream and applies them. In the returned tables only the row of the stream is complete.
    async fn tables(&self, of: Stream) -> Result<Option<Tables>, Error> {
        if matches!(&of, Stream::Scope(_, scope) if scope.is_internal()) {
            return Err(Error::Refused(Invalid::new("scope", "is internal, and its past is not recorded").into()));
        }
        let journal = self.bursar.journal();
        let Some(last) = journal.last_batch(&of).await? else { return Ok(None) };
        let mut past = bursar_store::Past::new(of, last, self.moment);
        while let Some(wanted) = past.wanted() {
            match wanted {
                Wanted::Batch(_) if past.count() >= PAST_TRANSACTIONS_MAX => {
                    let problem = format!(
                        "more than {PAST_TRANSACTIONS_MAX} transactions have changed this row, which is too many to read; see its history"
                    );
                    return Err(Error::Refused(Invalid::new("at", problem).into()));
                }
                Wanted::Batch(id) => match self.bursar.inner.journal.batch(id).await? {
                    Some(row) => past.add(&row),
                    None => {
                        let problem = format!("transaction {id}, which a later one links, is missing");
                        return Err(StoreError::Corrupt { what: "journal", problem }.into());
                    }
                },
                Wanted::Hold(id) => past.follow(journal.last_batch(&Stream::Hold(id)).await?),
            }
        }
        Ok(past.replay()?)
    }
}
