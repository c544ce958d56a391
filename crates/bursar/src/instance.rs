//! Opening, asking and closing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::context::{Actor, Context};
use bursar_core::decide::Rules;
use bursar_core::id::IdSource;
use bursar_core::job::JobState;
use bursar_core::name::Tenant;
use bursar_core::refusal::Invalid;
use bursar_core::request::Request;
use bursar_core::time::{Span, Time};
use bursar_store::sqlite::{salvage, set_clock_back};
use bursar_store::{Clock, Health, PostgresOptions, PostgresStore, Report, Setup, SqliteStore, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;

use crate::command::CommandBuilder;
use crate::credentials::Credentials;
use crate::engine::{Counters, Engine, Load, Vitals};
use crate::error::Error;
use crate::feed::{Feed, Notices};
use crate::grants::Grants;
use crate::hub::{self, Hub};
use crate::ids::RandomIds;
use crate::jobs::Jobs;
use crate::journal::Journal;
use crate::ledger::Ledger;
use crate::queues::Queues;
use crate::resumer::Resumer;
use crate::schedules::Schedules;
use crate::tending::{self, Tended};
use crate::{ticking, upkeep};

/// Bursar on one database. Cheap to clone; clones share everything but the context they act in.
#[derive(Clone)]
pub struct Bursar {
    pub(crate) inner: Arc<Inner>,
    pub(crate) context: Context,
}

pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) feed: Feed,
    pub(crate) hub: Arc<Hub>,
    pub(crate) resumer: Arc<Resumer>,
    pub(crate) rules: Rules,
    /// Turns of reservations on PostgreSQL, each of which takes a connection.
    turns: Semaphore,
    patience: Duration,
    ids: Arc<Mutex<dyn IdSource + Send>>,
    upkeep: Mutex<Option<JoinHandle<()>>>,
    /// Where it was opened: what must be done outside any runtime is done there.
    pub(crate) runtime: Handle,
}

/// Reservations that have a connection at once: half of the store's, so that the lanes always find one.
const TURNS: usize = 4;

/// The engine beneath, for what only one of them can do.
pub(crate) enum Backend {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
    /// A store from elsewhere, in whose transactions no caller's own can take part.
    Other,
}

/// How to open Bursar.
pub struct Options {
    url: String,
    rules: Rules,
    clock: Option<Arc<dyn Clock>>,
    ids: Option<Arc<Mutex<dyn IdSource + Send>>>,
    migrate: bool,
    upkeep: Option<Duration>,
    load: Load,
    postgres: PostgresOptions,
}

impl Bursar {
    /// Opens `sqlite://PATH`, `sqlite::memory:` or `postgres://…`, prepares its tables and starts what runs in the
    /// background. Needs a tokio runtime to live in.
    pub async fn open(url: &str) -> Result<Bursar, Error> {
        Bursar::options(url).open().await
    }

    /// The same with other than the default settings.
    pub fn options(url: &str) -> Options {
        Options {
            url: url.to_owned(),
            rules: Rules::default(),
            clock: None,
            ids: None,
            migrate: true,
            upkeep: Some(Options::UPKEEP),
            load: Load {
                queue: Options::QUEUE,
                batch: Options::BATCH,
                lanes: 0,
                patience: Options::PATIENCE,
                bell_every: hub::BELL_EVERY,
                listen: true,
                rescue: Options::RESCUE,
            },
            postgres: PostgresOptions::default(),
        }
    }

    /// The same Bursar, acting in another context.
    pub fn in_context(&self, context: Context) -> Bursar {
        Bursar { inner: self.inner.clone(), context }
    }

    /// The same Bursar, acting for a tenant.
    pub fn tenant<T>(&self, tenant: T) -> Result<Bursar, Error>
    where
        T: TryInto<Tenant, Error = Invalid>,
    {
        Ok(self.in_context(Context { tenant: tenant.try_into()?, ..self.context.clone() }))
    }

    /// The same Bursar, acting on behalf of somebody.
    pub fn by(&self, actor: Actor) -> Bursar {
        self.in_context(self.context.clone().by(actor))
    }

    /// The same Bursar, with a reason for the journal.
    pub fn because(&self, reason: impl Into<String>) -> Bursar {
        self.in_context(self.context.clone().because(reason))
    }

    /// Begins a command: charges, redemptions and jobs, all or nothing.
    pub fn command(&self) -> CommandBuilder {
        CommandBuilder::new(self.clone())
    }

    /// Budgets, holds and spend.
    pub fn ledger(&self) -> Ledger<'_> {
        Ledger(self)
    }

    /// One-time permissions.
    pub fn grants(&self) -> Grants<'_> {
        Grants(self)
    }

    /// What callers of a server show to say who they are.
    pub fn credentials(&self) -> Credentials<'_> {
        Credentials(self)
    }

    /// Durable work.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs(self)
    }

    /// What is set for queues, and their figures.
    pub fn queues(&self) -> Queues<'_> {
        Queues(self)
    }

    /// What enqueues jobs by the clock.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules(self)
    }

    /// What happened.
    pub fn journal(&self) -> Journal<'_> {
        Journal(self)
    }

    /// Listens to what happens in this process from now on.
    pub fn listen(&self) -> Notices {
        self.inner.feed.listen()
    }

    /// A number that changes after each commit of this process; for who wants to look again then, and not to keep what happened.
    pub fn watch_commits(&self) -> watch::Receiver<u64> {
        self.inner.feed.watch_commits()
    }

    /// Does any request, in the context it carries.
    pub async fn request(&self, request: Request) -> Result<Outcome, Error> {
        self.inner.engine.submit(request).await
    }

    /// What this instance has done so far.
    pub fn counters(&self) -> Counters {
        self.inner.hub.counters(self.inner.engine.counters())
    }

    /// How this instance is right now.
    pub fn vitals(&self) -> Vitals {
        self.inner.engine.vitals(self.inner.hub.waiters())
    }

    /// How many jobs are in each state, of all tenants together.
    pub async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, Error> {
        Ok(self.inner.store.job_counts().await?)
    }

    /// Checks that balances are what holds and postings say.
    pub async fn verify(&self) -> Result<Report, Error> {
        Ok(self.inner.store.verify().await?)
    }

    /// Makes a new SQLite database from the journal of a damaged one, which is only read; returns how many events it had.
    pub async fn salvage(damaged: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64, Error> {
        let ids = Arc::new(Mutex::new(RandomIds::default()));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        Ok(salvage(damaged.as_ref(), to.as_ref(), setup).await?)
    }

    /// Makes a new SQLite database from the journal of one whose clock had jumped ahead, which is only read, with its instants set back so
    /// that the last is not after `now`; returns how many events it had, and how far the last were moved.
    pub async fn set_clock_back(
        ahead: impl AsRef<Path>,
        to: impl AsRef<Path>,
        now: Time,
    ) -> Result<(u64, Span), Error> {
        let ids = Arc::new(Mutex::new(RandomIds::default()));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        Ok(set_clock_back(ahead.as_ref(), to.as_ref(), setup, now).await?)
    }

    /// Makes every table but the journal anew from the journal; returns how many events it applied.
    pub async fn rebuild(&self) -> Result<u64, Error> {
        Ok(self.inner.store.rebuild().await?)
    }

    /// The time the database goes by.
    pub async fn now(&self) -> Result<Time, Error> {
        // Every engine tells its time with what is due; asking for nothing costs nothing.
        Ok(self.inner.store.due_holds(0).await?.1)
    }

    /// Refuses where requests could not be done now, with the reason.
    pub async fn ready(&self) -> Result<(), Error> {
        Ok(self.inner.store.ready().await?)
    }

    /// Says how the database is.
    pub async fn health(&self) -> Result<Health, Error> {
        Ok(self.inner.store.health().await?)
    }

    /// Writes down which holds have expired. See [`upkeep::Swept`].
    pub async fn sweep(&self, most: usize) -> Result<upkeep::Swept, Error> {
        upkeep::sweep(&self.inner.store, &self.inner.engine, most).await
    }

    /// Tidies everything once: folds what is due on idle scopes, rolls up old postings, forgets old keys.
    pub async fn tidy(&self) -> Result<(), Error> {
        upkeep::tidy_all(&self.inner.store, &self.inner.engine).await
    }

    /// Looks after jobs once: takes back lapsed leases, wakes jobs whose budget admits them again, forgets finished ones whose
    /// time is over; at most so many of each.
    pub async fn tend(&self, most: usize) -> Result<Tended, Error> {
        tending::tend(&self.inner.store, &self.inner.engine, most).await
    }

    /// Ticks the schedules that are due, whoever's they are, at most so many; returns how many were. Each enqueues what it says
    /// of the ticks that have passed, those of one transaction at most: one that was stopped for long may be due again.
    pub async fn tick(&self, most: usize) -> Result<usize, Error> {
        ticking::tick(&self.inner.store, &self.inner.engine, most).await
    }

    /// Takes nothing more, does what was accepted, and stops what runs in the background.
    pub async fn close(self) {
        let upkeep = self.inner.upkeep.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(upkeep) = upkeep {
            upkeep.abort();
            let _ = upkeep.await;
        }
        self.inner.resumer.settled().await;
        self.inner.engine.close().await;
        self.inner.hub.close().await;
        self.inner.store.close().await;
    }

    /// Does a request in this context.
    pub(crate) async fn ask(&self, request: impl Into<Request>) -> Result<Answer, Error> {
        Ok(self.request(request.into().in_context(self.context.clone())).await?.answer)
    }

    pub(crate) fn next_id(&self) -> u128 {
        let now = bursar_store::SystemClock.now();
        self.inner.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next_id(now)
    }
}

impl Inner {
    /// A turn to use a connection for longer than a statement or two.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>, Error> {
        match tokio::time::timeout(self.patience, self.turns.acquire()).await {
            Ok(turn) => Ok(turn.map_err(|_| StoreError::Closed)?),
            Err(_) => Err(StoreError::Busy("other reservations took too long".into()).into()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.hub.shut();
        if let Some(upkeep) = self.upkeep.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            upkeep.abort();
        }
    }
}

impl Options {
    /// Requests that may wait, unless it is said.
    pub const QUEUE: usize = 20_000;
    /// Requests that share a commit at most, unless it is said; on PostgreSQL half as many.
    pub const BATCH: usize = 1_000;
    /// Batches at once on PostgreSQL, unless it is said.
    pub const LANES: usize = 2;
    /// How long a request waits for locked rows, unless it is said.
    pub const PATIENCE: Duration = Duration::from_secs(10);
    /// How often it is swept and tidied, unless it is said.
    pub const UPKEEP: Duration = upkeep::EVERY;
    /// How often lapsed leases are looked for, unless it is said.
    pub const RESCUE: Duration = upkeep::RESCUE;

    /// Sets rules of the whole installation.
    pub fn rules(self, rules: Rules) -> Options {
        Options { rules, ..self }
    }

    /// Goes by this clock; on PostgreSQL instead of the database's.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Options {
        Options { clock: Some(clock), ..self }
    }

    /// Takes ids from here.
    pub fn ids(self, ids: Arc<Mutex<dyn IdSource + Send>>) -> Options {
        Options { ids: Some(ids), ..self }
    }

    /// Whether to prepare or upgrade the tables when opening; otherwise a database that is not ready is an error.
    pub fn migrate(self, migrate: bool) -> Options {
        Options { migrate, ..self }
    }

    /// How often to sweep and tidy in the background; `None` for never.
    pub fn upkeep(self, every: Option<Duration>) -> Options {
        Options { upkeep: every, ..self }
    }

    /// How many requests may wait before another is `overloaded`.
    pub fn queue(mut self, requests: usize) -> Options {
        self.load.queue = requests;
        self
    }

    /// How many requests share a commit at most.
    pub fn batch(mut self, requests: usize) -> Options {
        self.load.batch = requests.max(1);
        self
    }

    /// How many batches commit at once on PostgreSQL. SQLite has one writer.
    pub fn lanes(mut self, lanes: usize) -> Options {
        self.load.lanes = lanes;
        self
    }

    /// How long a request waits for rows that somebody else has locked, before it is `busy`.
    pub fn patience(mut self, patience: Duration) -> Options {
        self.load.patience = patience;
        self
    }

    /// How often to look for leases that have lapsed, for jobs whose budget may admit them again and for new schedules, where
    /// there is upkeep. The next tick of a schedule that is known is not waited for longer than it takes.
    pub fn rescue(mut self, every: Duration) -> Options {
        self.load.rescue = every.max(Duration::from_millis(1));
        self
    }

    /// How often to look whether another process has made jobs ready, while somebody waits for some. Where other processes are
    /// listened to, it is looked once a second.
    pub fn bell(mut self, every: Duration) -> Options {
        self.load.bell_every = every.max(Duration::from_millis(1));
        self
    }

    /// Whether to listen to other processes while somebody waits for jobs. On SQLite Linux tells when somebody writes to the file, for
    /// which the runtime must have its I/O turned on. On PostgreSQL it is by `LISTEN`, on a connection of its own; it is
    /// made sure that they are heard; where they are not, as through a pooler that pools transactions, jobs are looked for
    /// instead ([`Options::bell`]), which costs more statements. Other processes are told in any case.
    pub fn listen(mut self, listen: bool) -> Options {
        self.load.listen = listen;
        self
    }

    /// How to use PostgreSQL, where that is the database.
    pub fn postgres(self, postgres: PostgresOptions) -> Options {
        Options { postgres, ..self }
    }

    /// Opens it.
    pub async fn open(self) -> Result<Bursar, Error> {
        let ids = self.ids.unwrap_or_else(|| Arc::new(Mutex::new(RandomIds::default())));
        let setup = Setup { rules: self.rules.clone(), clock: self.clock, ids: ids.clone(), migrate: self.migrate };
        let mut load = self.load;
        let (backend, store): (Backend, Arc<dyn Store>) = match place(&self.url)? {
            Place::Memory => {
                let store = Arc::new(SqliteStore::in_memory(setup).await?);
                load.lanes = 1;
                (Backend::Sqlite(store.clone()), store)
            }
            Place::File(path) => {
                let store = Arc::new(SqliteStore::open(path, setup).await?);
                load.lanes = 1;
                (Backend::Sqlite(store.clone()), store)
            }
            Place::Postgres => {
                let store = Arc::new(PostgresStore::open(&self.url, setup, self.postgres).await?);
                load.lanes = if load.lanes == 0 { Options::LANES } else { load.lanes };
                // Each lane holds a lock for every key of its batch, and PostgreSQL plans for arrays of this size.
                load.batch = load.batch.min(500);
                (Backend::Postgres(store.clone()), store)
            }
        };
        Ok(start(Backing { backend, store, rules: self.rules, ids }, load, self.upkeep))
    }

    /// Opens it on a store from elsewhere, such as a simulated one, instead of the address. The store keeps the clock; it
    /// and this Bursar must have been given the same rules.
    pub fn open_on(self, store: Arc<dyn Store>) -> Bursar {
        let ids = self.ids.unwrap_or_else(|| Arc::new(Mutex::new(RandomIds::default())));
        start(Backing { backend: Backend::Other, store, rules: self.rules, ids }, self.load, self.upkeep)
    }
}

/// What an instance stands on.
struct Backing {
    backend: Backend,
    store: Arc<dyn Store>,
    rules: Rules,
    ids: Arc<Mutex<dyn IdSource + Send>>,
}

/// What a caller is told who brings a transaction of its own to a store from elsewhere.
pub(crate) fn no_transactions() -> StoreError {
    StoreError::WrongTransaction("this Bursar stands on a store that has no transactions of its callers".into())
}

/// Starts what runs in the background.
fn start(backing: Backing, load: Load, every: Option<Duration>) -> Bursar {
    let Backing { backend, store, rules, ids } = backing;
    let hub = Hub::new(store.clone(), load.bell_every, load.listen);
    let resumer = Arc::new(Resumer::default());
    let feed = Feed::new(hub.clone(), resumer.clone());
    let (patience, rescue) = (load.patience, load.rescue);
    let engine = Engine::start(store.clone(), feed.clone(), load);
    let (turns, upkeep) = (Semaphore::new(TURNS), Mutex::default());
    let runtime = Handle::current();
    let inner =
        Arc::new(Inner { backend, store, engine, feed, hub, resumer, rules, turns, patience, ids, upkeep, runtime });
    inner.resumer.begin(Arc::downgrade(&inner));
    if let Some(every) = every {
        let task = upkeep::spawn(Arc::downgrade(&inner), every, rescue);
        *inner.upkeep.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(task);
    }
    Bursar { inner, context: Context::default() }
}

enum Place {
    Memory,
    File(PathBuf),
    Postgres,
}

fn place(url: &str) -> Result<Place, StoreError> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Place::Postgres);
    }
    if url == "sqlite::memory:" {
        return Ok(Place::Memory);
    }
    match url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")) {
        Some(path) if !path.is_empty() => Ok(Place::File(path.into())),
        _ => Err(StoreError::BadUrl(without_password(url))),
    }
}

/// The address as it may be shown.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}://…{}", &url[..scheme], &url[at..]),
        _ => url.chars().take(200).collect(),
    }
}
