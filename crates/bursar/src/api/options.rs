//! The options for opening Bursar.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_core::decide::Rules;
use bursar_core::id::IdSource;
use bursar_store::{Clock, PostgresOptions, PostgresStore, Setup, SqliteStore, Store, StoreError};

use super::instance::{Backend, BackgroundOptions, Bursar, Parts};
use crate::engine::EngineOptions;
use crate::error::Error;
use crate::ids::RandomIds;
use crate::maintenance;
use crate::wakeup::watcher::POLL_EVERY;

/// The most requests of a batch on PostgreSQL.
const POSTGRES_BATCH_MAX: usize = 500;

/// The options for opening a database. From [`Bursar::options`].
pub struct Options {
    url: String,
    rules: Rules,
    clock: Option<Arc<dyn Clock>>,
    ids: Option<Arc<Mutex<dyn IdSource + Send>>>,
    migrate: bool,
    read_only: bool,
    engine: EngineOptions,
    background: BackgroundOptions,
    postgres: PostgresOptions,
}

impl Options {
    pub(super) fn new(url: &str) -> Options {
        Options {
            url: url.to_owned(),
            rules: Rules::default(),
            clock: None,
            ids: None,
            migrate: true,
            read_only: false,
            engine: EngineOptions {
                queue: Options::QUEUE,
                batch: Options::BATCH,
                committers: 0,
                lock_timeout: Options::PATIENCE,
            },
            background: BackgroundOptions {
                upkeep: Some(Options::UPKEEP),
                rescue: Options::RESCUE,
                poll: POLL_EVERY,
                listen: true,
            },
            postgres: PostgresOptions::default(),
        }
    }

    /// Default of [`Options::queue`].
    pub const QUEUE: usize = 20_000;
    /// Default of [`Options::batch`]; PostgreSQL uses at most half as many.
    pub const BATCH: usize = 1_000;
    /// Default of [`Options::lanes`].
    pub const LANES: usize = 2;
    /// Default of [`Options::patience`].
    pub const PATIENCE: Duration = Duration::from_secs(10);
    /// Default of [`Options::upkeep`].
    pub const UPKEEP: Duration = maintenance::SWEEP_EVERY;
    /// Default of [`Options::rescue`].
    pub const RESCUE: Duration = maintenance::RESCUE_EVERY;

    /// Sets the rules that decisions depend on. All processes on one database must use the same.
    pub fn rules(self, rules: Rules) -> Options {
        Options { rules, ..self }
    }

    /// Uses this clock instead of the machine's (SQLite) or the database's (PostgreSQL).
    pub fn clock(self, clock: Arc<dyn Clock>) -> Options {
        Options { clock: Some(clock), ..self }
    }

    /// Uses this source of ids instead of random ones.
    pub fn ids(self, ids: Arc<Mutex<dyn IdSource + Send>>) -> Options {
        Options { ids: Some(ids), ..self }
    }

    /// Sets whether to create or upgrade the tables when opening. If not, opening a database that needs it fails.
    pub fn migrate(self, migrate: bool) -> Options {
        Options { migrate, ..self }
    }

    /// Sets whether to open a SQLite file for reading only. Reading then needs no permission to write the file or its folder, every
    /// write fails, and the tables are not migrated. Has no effect on PostgreSQL, where the permissions of the user decide. Turn
    /// maintenance off as well ([`Options::upkeep`]).
    pub fn read_only(self, read_only: bool) -> Options {
        Options { read_only, ..self }
    }

    /// Sets how often background maintenance sweeps holds and tidies scopes; `None` for no maintenance at all.
    pub fn upkeep(mut self, every: Option<Duration>) -> Options {
        self.background.upkeep = every;
        self
    }

    /// Sets the most requests that may wait for a commit. Further ones fail with [`Error::Overloaded`].
    pub fn queue(mut self, requests: usize) -> Options {
        self.engine.queue = requests;
        self
    }

    /// Sets the most requests in a batch, which share one transaction.
    pub fn batch(mut self, requests: usize) -> Options {
        self.engine.batch = requests.max(1);
        self
    }

    /// Sets how many batches commit at the same time on PostgreSQL. SQLite has one writer.
    pub fn lanes(mut self, lanes: usize) -> Options {
        self.engine.committers = lanes;
        self
    }

    /// Sets how long a request waits for rows that another transaction has locked, before it fails as busy
    /// ([`Error::is_busy`]).
    pub fn patience(mut self, patience: Duration) -> Options {
        self.engine.lock_timeout = patience;
        self
    }

    /// Sets how often maintenance searches for expired leases, for jobs whose budget may admit them again and for new
    /// schedules. The next tick of a known schedule has a timer of its own.
    pub fn rescue(mut self, every: Duration) -> Options {
        self.background.rescue = every.max(Duration::from_millis(1));
        self
    }

    /// Sets how often to poll for jobs that other processes enqueued while a worker waits. While notifications arrive, the
    /// interval is one second instead.
    pub fn poll(mut self, every: Duration) -> Options {
        self.background.poll = every.max(Duration::from_millis(1));
        self
    }

    /// Sets whether to listen for notifications of other processes while a worker waits. On SQLite, this watches the
    /// write-ahead log (Linux only; the runtime needs I/O enabled). On PostgreSQL, it uses `LISTEN` on a connection of its
    /// own and checks that notifications arrive. If they do not, it polls
    /// ([`Options::poll`]). Behind a pooler it listens on [`PostgresOptions::direct_url`]. This process always notifies the others.
    pub fn listen(mut self, listen: bool) -> Options {
        self.background.listen = listen;
        self
    }

    /// Sets the options for PostgreSQL.
    pub fn postgres(self, postgres: PostgresOptions) -> Options {
        Options { postgres, ..self }
    }

    /// Opens the database and starts the background tasks. Must be called in a tokio runtime, which must outlive the
    /// instance.
    pub async fn open(self) -> Result<Bursar, Error> {
        let ids = self.ids.unwrap_or_else(|| Arc::new(Mutex::new(RandomIds::default())));
        let setup = Setup { rules: self.rules.clone(), clock: self.clock, ids: ids.clone(), migrate: self.migrate };
        let mut engine = self.engine;
        let (backend, store): (Backend, Arc<dyn Store>) = match Location::parse(&self.url)? {
            Location::Memory => {
                let store = Arc::new(SqliteStore::in_memory(setup).await?);
                engine.committers = 1;
                (Backend::Sqlite(store.clone()), store)
            }
            Location::File(path) => {
                let store = match self.read_only {
                    true => SqliteStore::open_read_only(path, setup).await?,
                    false => SqliteStore::open(path, setup).await?,
                };
                let store = Arc::new(store);
                engine.committers = 1;
                (Backend::Sqlite(store.clone()), store)
            }
            Location::Postgres => {
                let store = Arc::new(PostgresStore::open(&self.url, setup, self.postgres).await?);
                engine.committers = if engine.committers == 0 { Options::LANES } else { engine.committers };
                // A larger batch holds its locks longer and keeps other nodes waiting.
                engine.batch = engine.batch.min(POSTGRES_BATCH_MAX);
                (Backend::Postgres(store.clone()), store)
            }
        };
        let (rules, background) = (self.rules, self.background);
        Ok(Bursar::start(Parts { backend, store, rules, ids, engine, background }))
    }

    /// Opens Bursar on a given store, such as a simulated one, instead of the URL. The store brings its own clock and must
    /// use the same rules.
    pub fn open_on(self, store: Arc<dyn Store>) -> Bursar {
        let ids = self.ids.unwrap_or_else(|| Arc::new(Mutex::new(RandomIds::default())));
        let (rules, engine, background) = (self.rules, self.engine, self.background);
        Bursar::start(Parts { backend: Backend::Other, store, rules, ids, engine, background })
    }
}

/// The location of a database.
pub(super) enum Location {
    Memory,
    File(PathBuf),
    Postgres,
}

impl Location {
    pub(super) fn parse(url: &str) -> Result<Location, StoreError> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Location::Postgres);
        }
        if url == "sqlite::memory:" {
            return Ok(Location::Memory);
        }
        match url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")) {
            Some(path) if !path.is_empty() => Ok(Location::File(path.into())),
            _ => Err(StoreError::BadUrl(without_password(url))),
        }
    }
}

/// Returns a database URL without its password.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}://…{}", &url[..scheme], &url[at..]),
        _ => url.chars().take(200).collect(),
    }
}
