//! [`Bursar`]: an open instance, through which everything else is reached.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::context::{Actor, Context};
use bursar_core::credential::before_all;
use bursar_core::decide::Rules;
use bursar_core::id::IdSource;
use bursar_core::name::{Name, Scope, Tenant};
use bursar_core::refusal::{Invalid, RefusalReason};
use bursar_core::request::Request;
use bursar_core::time::{Span, Time};
use bursar_store::sqlite::{archived_segments, is_part_of_move, salvage, set_clock_back};
use bursar_store::{Clock, Health, Overdue, PostgresStore, Report, Setup, SqliteStore, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;

use crate::api::blob_records::BlobRecords;
use crate::api::command::CommandBuilder;
use crate::api::credentials::Credentials;
use crate::api::grants::Grants;
use crate::api::jobs::Jobs;
use crate::api::journal::Journal;
use crate::api::ledger::Ledger;
use crate::api::options::Options;
use crate::api::queues::Queues;
use crate::api::schedules::Schedules;
use crate::archive::{self, ArchiveOptions, JournalReader};
use crate::engine::{Counters, Engine, EngineOptions, Vitals};
use crate::erasure::Erasure;
use crate::error::Error;
use crate::ids::RandomIds;
use crate::maintenance::{self, Removed, RemovedCounts, Swept, Tended};
use crate::observed::{Incidents, Observed, RefusalCount, WorkerSeen};
use crate::wakeup::{BudgetWaiters, Feed, LeaseWaiters, Notices};

/// An open instance of Bursar on one database. Clones are cheap and share everything but the context (tenant, actor,
/// reason) in which they make requests.
#[derive(Clone)]
pub struct Bursar {
    pub(crate) inner: Arc<Inner>,
    pub(crate) context: Context,
}

pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) journal: JournalReader,
    pub(crate) engine: Engine,
    pub(crate) feed: Feed,
    pub(crate) lease_waiters: Arc<LeaseWaiters>,
    pub(crate) budget_waiters: Arc<BudgetWaiters>,
    pub(crate) observed: Arc<Observed>,
    pub(crate) removed: RemovedCounts,
    pub(crate) rules: Rules,
    /// Permits for reservations on PostgreSQL, each of which takes a connection.
    reservations: Semaphore,
    lock_timeout: Duration,
    ids: Arc<Mutex<dyn IdSource + Send>>,
    maintenance: Mutex<Option<JoinHandle<()>>>,
    /// The runtime in which the instance was opened, and in which its background tasks run.
    pub(crate) runtime: Handle,
}

/// A name after which hardly any scope comes in the order of bytes, to find the next tenant. One that does costs one more look-up.
const LAST_SCOPE: &str = "\u{10ffff}";

/// The most reservations that have a connection at the same time: half of the store's, so that the committers always find one.
const RESERVATIONS_MAX: usize = 4;

/// The store by its type, for operations that only one database supports.
pub(crate) enum Backend {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
    /// A store that was passed in, which does not support callers' own transactions.
    Other,
}

impl Bursar {
    /// Opens `sqlite://PATH`, `sqlite::memory:` or `postgres://…` with the default options: creates or upgrades the tables
    /// and starts background maintenance. Must be called in a tokio runtime, which must outlive the instance.
    pub async fn open(url: &str) -> Result<Bursar, Error> {
        Bursar::options(url).open().await
    }

    /// Returns the options for opening a database; [`Options::open`] opens it.
    pub fn options(url: &str) -> Options {
        Options::new(url)
    }

    /// Returns a clone that makes requests in another context.
    pub fn in_context(&self, context: Context) -> Bursar {
        Bursar { inner: self.inner.clone(), context }
    }

    /// Returns a clone that makes requests for a tenant.
    pub fn tenant<T>(&self, tenant: T) -> Result<Bursar, Error>
    where
        T: TryInto<Tenant, Error = Invalid>,
    {
        Ok(self.in_context(Context { tenant: tenant.try_into()?, ..self.context.clone() }))
    }

    /// Returns a clone that makes requests on behalf of an actor.
    pub fn by(&self, actor: Actor) -> Bursar {
        self.in_context(self.context.clone().by(actor))
    }

    /// Returns a clone whose requests record a reason in the journal.
    pub fn because(&self, reason: impl Into<String>) -> Bursar {
        self.in_context(self.context.clone().because(reason))
    }

    /// Starts a command: charges, redemptions and jobs, all or nothing.
    pub fn command(&self) -> CommandBuilder {
        CommandBuilder::new(self.clone())
    }

    /// Returns the ledger: budgets, holds and postings.
    pub fn ledger(&self) -> Ledger<'_> {
        Ledger(self)
    }

    /// Returns the single-use grants.
    pub fn grants(&self) -> Grants<'_> {
        Grants(self)
    }

    /// Returns the records of blobs.
    pub fn blob_records(&self) -> BlobRecords<'_> {
        BlobRecords(self)
    }

    /// Returns the credentials of a server's callers.
    pub fn credentials(&self) -> Credentials<'_> {
        Credentials(self)
    }

    /// Returns the durable jobs.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs(self)
    }

    /// Returns the settings and figures of queues.
    pub fn queues(&self) -> Queues<'_> {
        Queues(self)
    }

    /// Returns the schedules, which enqueue recurring jobs.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules(self)
    }

    /// Returns the journal.
    pub fn journal(&self) -> Journal<'_> {
        Journal(self)
    }

    /// Listens to the events that this process commits from now on, of all tenants.
    pub fn listen(&self) -> Notices {
        self.inner.feed.listen()
    }

    /// Returns a watch on a number that changes after each commit of this process.
    pub fn watch_commits(&self) -> watch::Receiver<u64> {
        self.inner.feed.watch_commits()
    }

    /// Executes a request in the context that it carries. Returns when it is durable. A refused request changes nothing.
    pub async fn request(&self, request: Request) -> Result<Outcome, Error> {
        let Some(erasure) = Erasure::prepare(&*self.inner.store, &request).await? else {
            return self.inner.engine.submit(request).await;
        };
        let outcome = self.inner.engine.submit(request).await?;
        erasure.overwrite(&outcome.answer).await?;
        Ok(outcome)
    }

    /// Returns the counters of this instance since it was opened.
    pub fn counters(&self) -> Counters {
        self.inner.lease_waiters.counters(self.inner.engine.counters())
    }

    /// Returns the load of this instance: what is waiting, and the size and duration of its commits.
    pub fn vitals(&self) -> Vitals {
        self.inner.engine.vitals(self.inner.lease_waiters.count())
    }

    /// Returns how often limits and freezes have refused requests of this process and tenant since the instance was opened, the latest
    /// refusal first. Refusals change no row, so that other processes and the time before are not known. Requests in transactions of
    /// their callers do not count.
    pub fn refusals(&self) -> Vec<RefusalCount> {
        self.inner.observed.refusals(&self.context.tenant)
    }

    /// Returns a watch on a number that changes with each refusal that [`Bursar::refusals`] counts, of any tenant.
    pub fn watch_refusals(&self) -> watch::Receiver<u64> {
        self.inner.observed.watch_refusals()
    }

    /// Returns the workers of this tenant that have asked this process for jobs within the last hour: first those that wait.
    pub fn workers_seen(&self) -> Vec<WorkerSeen> {
        self.inner.observed.workers(&self.context.tenant)
    }

    /// Returns how long ago the instance was opened, which is when it began to count.
    pub fn open_for(&self) -> Duration {
        self.inner.observed.age()
    }

    /// Returns how many requests of this process were refused for each reason since the instance was opened, over all tenants. Dry runs
    /// and requests in transactions of their callers do not count.
    pub fn refusal_reasons(&self) -> Vec<(RefusalReason, u64)> {
        self.inner.observed.refusal_reasons()
    }

    /// Returns how often commits of this process were late or above their hold, and how often budgets were frozen, over all tenants.
    pub fn incidents(&self) -> Incidents {
        self.inner.observed.incidents()
    }

    /// Returns the tenants that have scopes, after a name and in order, at most `limit`. Each one is a look-up in an index, however many
    /// scopes it has. A tenant that only has jobs, schedules or tokens is not listed.
    pub async fn tenants(&self, after: Option<&Tenant>, limit: usize) -> Result<Vec<Tenant>, Error> {
        let last = Scope::stored(LAST_SCOPE)?;
        let mut tenants: Vec<Tenant> = Vec::new();
        let mut after = after.map(|tenant| (tenant.clone(), last.clone()));
        while tenants.len() < limit {
            let next = self.inner.store.list_scope_keys(after.as_ref(), 1).await?;
            let Some((tenant, scope)) = next.into_iter().next() else { break };
            if after.as_ref().is_none_or(|(before, _)| *before != tenant) {
                tenants.push(tenant.clone());
            }
            after = Some((tenant, scope.max(last.clone())));
        }
        Ok(tenants)
    }

    /// Returns whether this tenant has a scope, a queue, a schedule or a credential.
    pub async fn tenant_is_known(&self) -> Result<bool, Error> {
        let (store, tenant) = (&self.inner.store, &self.context.tenant);
        Ok(!store.list_scopes(tenant, "", None, 1).await?.is_empty()
            || !store.list_queues(tenant, None, 1).await?.is_empty()
            || !store.list_schedules(tenant, None, 1).await?.is_empty()
            || !store.list_grants(tenant, Some(before_all()), 1).await?.is_empty())
    }

    /// Verifies that the stored balances equal the sums of holds and postings.
    pub async fn verify(&self) -> Result<Report, Error> {
        Ok(self.inner.store.verify().await?)
    }

    /// Whether a SQLite file was moved to another database, or a move into it has not ended. Such a file is not damaged and cannot be
    /// opened.
    pub fn is_part_of_move(file: impl AsRef<Path>) -> bool {
        is_part_of_move(file.as_ref())
    }

    /// Creates a new SQLite database from the journal of a damaged one, which is only read; returns the number of events.
    ///
    /// `archive` is needed if rows of the journal are archived.
    pub async fn salvage(
        damaged: impl AsRef<Path>,
        to: impl AsRef<Path>,
        archive: Option<&ArchiveOptions>,
    ) -> Result<u64, Error> {
        let ids = Arc::new(Mutex::new(RandomIds::default()));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        let (rows, _feeding) = archive::feed(archived_segments(damaged.as_ref())?, archive)?;
        Ok(salvage(damaged.as_ref(), to.as_ref(), setup, rows).await?)
    }

    /// Creates a new SQLite database from the journal of one whose clock had jumped ahead, which is only read. Instants are set back so
    /// that the last is not after `now`. Returns the number of events and how far the last ones were moved.
    pub async fn set_clock_back(
        ahead: impl AsRef<Path>,
        to: impl AsRef<Path>,
        now: Time,
        archive: Option<&ArchiveOptions>,
    ) -> Result<(u64, Span), Error> {
        let ids = Arc::new(Mutex::new(RandomIds::default()));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        let (rows, _feeding) = archive::feed(archived_segments(ahead.as_ref())?, archive)?;
        Ok(set_clock_back(ahead.as_ref(), to.as_ref(), setup, now, rows).await?)
    }

    /// Rebuilds every table but the journal from the journal and its archive; returns the number of events.
    pub async fn rebuild(&self) -> Result<u64, Error> {
        Ok(self.inner.journal.rebuild().await?)
    }

    /// Returns the time by the clock that decisions use.
    pub async fn now(&self) -> Result<Time, Error> {
        Ok(self.inner.store.now().await?)
    }

    /// Fails, with the reason, if requests cannot be committed now.
    pub async fn ready(&self) -> Result<(), Error> {
        Ok(self.inner.store.ready().await?)
    }

    /// Returns the state of the database.
    pub async fn health(&self) -> Result<Health, Error> {
        Ok(self.inner.store.health().await?)
    }

    /// Records at most `limit` expired holds as expired.
    pub async fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        maintenance::sweep(&self.inner.store, &self.inner.engine, limit).await
    }

    /// Tidies all scopes once: updates the balances of idle scopes and rolls up old postings. Also deletes what was kept
    /// for long enough ([`Rules`]): idempotency keys, ended holds, expired grants, costs, queue figures and unused scopes.
    pub async fn tidy(&self) -> Result<(), Error> {
        maintenance::tidy_all(&self.inner).await
    }

    /// Returns how many rows this process has deleted because they were kept for long enough, over all tenants.
    pub fn removed(&self) -> Removed {
        self.inner.removed.get()
    }

    /// Counts rows of all tenants that should have been deleted at least `by` ago, at most a thousand of each kind. Any show that
    /// maintenance does not run, fails or does not keep up.
    pub async fn overdue(&self, by: Span) -> Result<Overdue, Error> {
        Ok(self.inner.store.overdue(by, maintenance::OVERDUE_MAX).await?)
    }

    /// Maintains jobs once, at most `limit` of each kind: takes back expired leases, resumes jobs whose budget admits them
    /// again, and deletes finished jobs whose retention is over.
    pub async fn tend(&self, limit: usize) -> Result<Tended, Error> {
        maintenance::tend(&self.inner.store, &self.inner.engine, &self.inner.removed, limit).await
    }

    /// Ticks at most `limit` due schedules, over all tenants, and returns how many. A schedule with more missed ticks than
    /// one transaction handles stays due.
    pub async fn tick(&self, limit: usize) -> Result<usize, Error> {
        maintenance::tick(&self.inner.store, &self.inner.engine, limit).await
    }

    /// Stops accepting requests, executes those already accepted, and stops the background tasks. Requests on clones then
    /// fail as closed.
    pub async fn close(self) {
        let maintenance = self.inner.maintenance.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(maintenance) = maintenance {
            maintenance.abort();
            let _ = maintenance.await;
        }
        self.inner.budget_waiters.finish().await;
        self.inner.engine.close().await;
        self.inner.lease_waiters.close().await;
        self.inner.store.close().await;
    }

    /// Executes a request in this context.
    pub(crate) async fn execute(&self, request: impl Into<Request>) -> Result<Answer, Error> {
        Ok(self.request(request.into().in_context(self.context.clone())).await?.answer)
    }

    pub(crate) fn next_id(&self) -> u128 {
        let now = bursar_store::SystemClock.now();
        self.inner.ids.lock().unwrap_or_else(PoisonError::into_inner).next_id(now)
    }
}

impl Inner {
    /// Waits for the permit to use a connection for a reservation.
    pub(crate) async fn reservation_permit(&self) -> Result<SemaphorePermit<'_>, Error> {
        match tokio::time::timeout(self.lock_timeout, self.reservations.acquire()).await {
            Ok(permit) => Ok(permit.map_err(|_| StoreError::Closed)?),
            Err(_) => Err(StoreError::Busy("too many reservations are running".into()).into()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lease_waiters.stop();
        if let Some(maintenance) = self.maintenance.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            maintenance.abort();
        }
    }
}

/// The parts from which an instance is started.
pub(super) struct Parts {
    pub(super) backend: Backend,
    pub(super) store: Arc<dyn Store>,
    pub(super) rules: Rules,
    pub(super) ids: Arc<Mutex<dyn IdSource + Send>>,
    pub(super) engine: EngineOptions,
    pub(super) background: BackgroundOptions,
    pub(super) archive: Option<ArchiveOptions>,
}

/// The options of the background tasks.
#[derive(Clone, Debug)]
pub(super) struct BackgroundOptions {
    /// How often holds are swept and scopes tidied; `None` for no maintenance at all.
    pub(super) upkeep: Option<Duration>,
    /// How often expired leases are searched.
    pub(super) rescue: Duration,
    /// How often the change counter is polled while workers wait.
    pub(super) poll: Duration,
    /// Whether to listen for notifications of other processes.
    pub(super) listen: bool,
}

impl Bursar {
    /// Starts the engine and the background tasks.
    pub(super) fn start(parts: Parts) -> Bursar {
        let Parts { backend, store, rules, ids, engine, background, archive } = parts;
        let journal = JournalReader::new(store.clone(), archive);
        let lease_waiters = LeaseWaiters::new(store.clone(), background.poll, background.listen);
        let budget_waiters = Arc::new(BudgetWaiters::default());
        let observed = Observed::new();
        let feed = Feed::new(lease_waiters.clone(), budget_waiters.clone(), observed.clone());
        let lock_timeout = engine.lock_timeout;
        let engine = Engine::start(store.clone(), feed.clone(), observed.clone(), engine);
        let inner = Arc::new(Inner {
            backend,
            store,
            journal,
            engine,
            feed,
            lease_waiters,
            budget_waiters,
            observed,
            removed: RemovedCounts::default(),
            rules,
            reservations: Semaphore::new(RESERVATIONS_MAX),
            lock_timeout,
            ids,
            maintenance: Mutex::default(),
            runtime: Handle::current(),
        });
        inner.budget_waiters.set_instance(Arc::downgrade(&inner));
        if let Some(every) = background.upkeep {
            let task = maintenance::spawn(Arc::downgrade(&inner), every, background.rescue);
            *inner.maintenance.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
        Bursar { inner, context: Context::default() }
    }
}

/// The error of a caller's own transaction on a store that does not support it.
pub(crate) fn no_transactions() -> StoreError {
    StoreError::WrongTransaction("this store does not support transactions of its callers".into())
}
