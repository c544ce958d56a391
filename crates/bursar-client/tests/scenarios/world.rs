//! A database, a server on it, and workers of either kind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bursar::{
    Backoff, Budget, Bursar, Job, JobId, JobSpec, JobState, Limit, ManualClock, Payload, Queue, QueueConfig, Retry,
    Span, Time, Window, Worker,
};
use bursar_blobs::{Backends, Blobs};
use bursar_client::Client;
use bursar_server::{Server, Settings, StartError};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The operator token of every test.
const OPERATOR: &str = "operator-token-for-tests-0123456789abcdef";

/// How a worker reaches its jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Via {
    InProcess,
    Http,
}

/// The database of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum On {
    Sqlite,
    Postgres,
    /// SQLite, with a clock that only the test advances.
    StoppedClock,
}

pub(crate) struct World {
    pub(crate) bursar: Bursar,
    pub(crate) blobs: Blobs,
    pub(crate) clock: Arc<ManualClock>,
    via: Via,
    on: On,
    url: String,
    address: SocketAddr,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    _folder: TempDir,
}

impl World {
    pub(crate) async fn new(via: Via, on: On) -> World {
        let folder = tempfile::tempdir().unwrap();
        let url = match on {
            On::Postgres => bursar_testkit::fresh_database(),
            On::Sqlite | On::StoppedClock => format!("sqlite://{}", folder.path().join("bursar.db").display()),
        };
        let clock = Arc::new(ManualClock::at(Time::from_micros(1_700_000_000_000_000)));
        let bursar = open(&url, on, &clock).await;
        let blobs = Blobs::new(Backends::local(folder.path().join("blobs")).unwrap());
        let address = "127.0.0.1:0".parse().unwrap();
        let mut world = World { bursar, blobs, clock, via, on, url, address, running: None, _folder: folder };
        world.serve().await;
        // Retries happen at once.
        let retry = Retry { backoff: Backoff::Fixed { delay: Span::ZERO }, max_attempts: 3 };
        world.bursar.queues().define("q", QueueConfig { retry, ..QueueConfig::default() }).await.unwrap();
        world.bursar.ledger().define("team", Budget::new([Limit::new(1_000, Window::Lifetime)])).await.unwrap();
        world
    }

    async fn serve(&mut self) {
        // Another process may use the port for a moment while the server is down.
        let mut tries = 0..100;
        let server = loop {
            let (operator_token, blobs) = (Some(OPERATOR.into()), Some(self.blobs.clone()));
            let settings = Settings { operator_token, blobs, ..Settings::default() };
            match Server::bind(self.bursar.clone(), self.address, settings).await {
                Ok(server) => break server,
                Err(StartError::Listen(..)) if tries.next().is_some() => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        self.address = server.address();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move { server.run(async move { drop(stopped.await) }).await });
        self.running = Some((stop, running));
    }

    /// Stops the server and closes the database.
    pub(crate) async fn stop(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        drop(stop);
        running.await.unwrap();
        self.bursar.clone().close().await;
    }

    /// Starts the server again on the same database and address.
    pub(crate) async fn start(&mut self) {
        self.bursar = open(&self.url, self.on, &self.clock).await;
        self.serve().await;
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address)).unwrap().token(OPERATOR)
    }

    /// Returns a worker for the queue of the tests.
    pub(crate) fn worker(&self) -> Worker {
        match self.via {
            Via::InProcess => self.bursar.worker().blobs(self.blobs.for_worker(&self.bursar)),
            Via::Http => self.client().worker(),
        }
        .queue("q")
    }

    /// Enqueues a job.
    pub(crate) async fn enqueue(&self, kind: &str, payload: &impl serde::Serialize) -> JobId {
        self.bursar.jobs().enqueue(spec(kind, payload)).await.unwrap().id
    }

    /// Enqueues a job with a hold on the scope `team`.
    pub(crate) async fn enqueue_held(&self, kind: &str, amount: i64) -> JobId {
        let command = self.bursar.command().charge("team", amount).settle_with_job().job(spec(kind, &()));
        command.submit().await.unwrap().done.jobs[0].id
    }

    pub(crate) async fn job(&self, id: JobId) -> Job {
        self.bursar.jobs().find(id).await.unwrap().unwrap()
    }

    /// Returns the posted and held units of the scope `team`.
    pub(crate) async fn balance(&self) -> (i64, i64) {
        let view = self.bursar.ledger().budget("team").await.unwrap().unwrap();
        (view.balances[0].posted, view.balances[0].held)
    }

    /// Waits until a job is in a state.
    pub(crate) async fn until(&self, id: JobId, state: JobState) -> Job {
        eventually(async || {
            let job = self.job(id).await;
            (job.life.state == state).then_some(job)
        })
        .await
    }
}

async fn open(url: &str, on: On, clock: &Arc<ManualClock>) -> Bursar {
    let options = match on {
        On::StoppedClock => Bursar::options(url).clock(clock.clone()).upkeep(None),
        On::Sqlite | On::Postgres => Bursar::options(url).rescue(Duration::from_millis(100)),
    };
    options.open().await.unwrap()
}

pub(crate) fn spec(kind: &str, payload: &impl serde::Serialize) -> JobSpec {
    JobSpec::new(Queue::new("q").unwrap(), kind.try_into().unwrap(), Payload::of(payload).unwrap())
}

/// Waits for a future; fails after two minutes.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), what).await.expect("no result within two minutes")
}

/// Polls until there is a result; fails after two minutes.
pub(crate) async fn eventually<T>(poll: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        loop {
            match poll().await {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    soon(found).await
}

/// Defines the tests of scenarios: those under `sqlite` and `stopped_clock` for both kinds of workers, those under `postgres` over HTTP.
macro_rules! for_every_worker {
    (sqlite: [$($sqlite:ident),*], postgres: [$($postgres:ident),*], stopped_clock: [$($stopped:ident),*]) => {
        mod in_process {
            use crate::world::{On, Via, World};
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $sqlite() {
                super::$sqlite(World::new(Via::InProcess, On::Sqlite).await).await;
            })*
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $stopped() {
                super::$stopped(World::new(Via::InProcess, On::StoppedClock).await).await;
            })*
        }
        mod over_http {
            use crate::world::{On, Via, World};
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $sqlite() {
                super::$sqlite(World::new(Via::Http, On::Sqlite).await).await;
            })*
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $stopped() {
                super::$stopped(World::new(Via::Http, On::StoppedClock).await).await;
            })*
            mod postgres {
                use super::*;
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $postgres() {
                    super::super::$postgres(World::new(Via::Http, On::Postgres).await).await;
                })*
            }
        }
    };
}
pub(crate) use for_every_worker;
