//! A server that restarts, hangs, becomes read-only or is out of connections, a network that stalls, and connections that lead nowhere.
//!
//! Each fault ends in `Busy`, `Unavailable` or an unknown outcome. Afterwards the store goes on by itself, and retries with their keys are
//! executed once.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::request::{Charge, Command, Op, Request};
use bursar_pg_cluster::Pooler;
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, PostgresOptions, PostgresStore, RequestOutcome, StoreError};
use bursar_testkit::{Cluster, fresh_database};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::support::{define, key, scope, scope_key, setup};

const TIMEOUT: Duration = Duration::from_secs(120);

/// Short timeouts, so that a hanging server is noticed soon.
pub(crate) fn options() -> PostgresOptions {
    let short = Duration::from_secs(2);
    PostgresOptions { connect_within: short, answer_within: short, ..PostgresOptions::default() }
}

/// A store, and how many postings it was asked for.
pub(crate) struct World {
    pub(crate) store: PostgresStore,
    asked: u32,
}

impl World {
    pub(crate) async fn open(url: &str, options: PostgresOptions) -> World {
        let store = PostgresStore::open(url, setup(1), options).await.unwrap();
        define(&store, &["room"], 1_000).await;
        World { store, asked: 0 }
    }

    /// Posts one unit under a key of its own.
    fn request(&self) -> Arc<Request> {
        let command = Command { charges: vec![Charge::new(scope("room"), 1)], ..Command::default() };
        Arc::new(Request::from(Op::Submit(command)).with_key(key(&format!("posting-{}", self.asked))))
    }

    /// Makes one attempt. Returns whether it was answered; otherwise it failed in an expected way.
    pub(crate) async fn attempt(&self) -> bool {
        let request = [self.request()];
        let commit = self.store.commit_requests(&request, LockPolicy::Skip);
        match timeout(TIMEOUT, commit).await.unwrap().map(|mut outcomes| outcomes.remove(0)) {
            Ok(RequestOutcome::Answered(answer)) => answer.map(|_| true).unwrap(),
            Ok(RequestOutcome::Again | RequestOutcome::Blocked(_)) => false,
            Ok(RequestOutcome::Failed(error)) => expected(&error),
            Err(error) => expected(&error),
        }
    }

    /// Makes one attempt, and goes on to the next posting if it was answered.
    pub(crate) async fn attempt_counted(&mut self) -> bool {
        let answered = self.attempt().await;
        self.asked += u32::from(answered);
        answered
    }

    /// Posts, and retries with the same key until it is answered.
    pub(crate) async fn post(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.attempt().await {
            assert!(Instant::now() < deadline, "the store did not recover");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.asked += 1;
    }

    /// Posts until an attempt fails. A server applies a change soon after it was told to, so that some may succeed before.
    pub(crate) async fn post_until_it_fails(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        while self.attempt_counted().await {
            assert!(Instant::now() < deadline, "the fault had no effect");
        }
    }

    /// Asserts that every posting was executed once.
    pub(crate) async fn finish(self) {
        let room = self.store.scope(&scope_key("room")).await.unwrap().unwrap();
        assert_eq!(room.balances[0].posted, i64::from(self.asked));
        assert_eq!(self.store.verify().await.unwrap().violations, Vec::<String>::new());
        self.store.close().await;
    }
}

/// Panics if the error is not one that a fault may end in.
fn expected(error: &StoreError) -> bool {
    let transient = matches!(
        error,
        StoreError::Busy(_) | StoreError::UnknownOutcome(_) | StoreError::Unavailable { permanent: false, .. }
    );
    assert!(transient, "{error:?}");
    false
}

pub(crate) async fn execute(url: &str, sql: String) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_or_hangs_is_used_again() {
    let cluster = Cluster::start(false);
    let pooler = Pooler::start(&cluster, 3, Duration::from_secs(60));
    for pooled in [false, true] {
        let direct = cluster.fresh_database();
        let url = if pooled { pooler.url(&direct) } else { direct };
        let mut world = World::open(&url, PostgresOptions { pooled, ..options() }).await;
        world.post().await;
        for _ in 0..2 {
            cluster.crash_and_restart();
            world.post().await;
        }
        let paused = cluster.pause();
        assert!(!world.attempt().await, "a stopped server answers nothing");
        drop(paused);
        world.post().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_was_read_only_is_written_again() {
    let cluster = Cluster::start(false);
    let url = cluster.fresh_database();
    let mut world = World::open(&url, options()).await;
    let set = async |value: &str| {
        // The setting itself can be changed while it is on.
        execute(&url, format!("ALTER SYSTEM SET default_transaction_read_only = {value}")).await;
        execute(&url, "SELECT pg_reload_conf()".into()).await;
    };
    world.post().await;
    set("on").await;
    world.post_until_it_fails().await;
    assert!(world.store.ready().await.is_err(), "a store that cannot write is not ready");
    set("off").await;
    world.post().await;
    world.finish().await;
}

/// As after a failover: a connection leads to a server that has become a standby, a new one leads to the primary.
#[tokio::test]
async fn connections_to_a_read_only_server_are_replaced() {
    let url = fresh_database();
    let database = url.rsplit('/').next().unwrap();
    let mut world = World::open(&url, options()).await;
    world.post().await;
    // The setting is that of new connections, which replace the ended ones.
    let set = format!("ALTER DATABASE {database} SET default_transaction_read_only");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    execute(&url, format!("{set} = on; {end}")).await;
    world.post_until_it_fails().await;
    // Reads fill the pool with connections that stay read-only.
    let reads = (0..8).map(|_| async { world.store.scope(&scope_key("room")).await.unwrap() });
    futures_util::future::join_all(reads).await;
    execute(&url.replace(database, "postgres"), format!("{set} = off")).await;
    for _ in 0..4 {
        world.post().await;
    }
    world.finish().await;
}

#[tokio::test]
async fn a_server_without_free_connections_is_used_again() {
    let url = fresh_database();
    let database = url.rsplit('/').next().unwrap();
    // A limit does not apply to a superuser.
    let user = format!("app_{database}");
    execute(&url, format!("CREATE ROLE {user} LOGIN; GRANT CREATE ON DATABASE {database} TO {user}")).await;
    let mut world = World::open(&url.replace("postgres@", &format!("{user}@")), options()).await;
    world.post().await;
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'");
    execute(&url, format!("ALTER ROLE {user} CONNECTION LIMIT 0; {end}")).await;
    world.post_until_it_fails().await;
    execute(&url, format!("ALTER ROLE {user} CONNECTION LIMIT -1")).await;
    world.post().await;
    world.finish().await;
}

/// What a network does with bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Up,
    /// Bytes wait.
    Stalled,
    /// Bytes of the connections that were opened before the cut with this number wait for ever. No connection is closed.
    Cut(u32),
}

/// Forwards between clients and a server.
async fn network(server: String) -> (u16, watch::Sender<Network>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (set, state) = watch::channel(Network::Up);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(&server).await else { continue };
            let ((read, write), (back, forth)) = (client.into_split(), server.into_split());
            let opened = *state.borrow();
            tokio::spawn(carry(read, forth, opened, state.clone()));
            tokio::spawn(carry(back, write, opened, state.clone()));
        }
    });
    (port, set)
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    opened: Network,
    mut state: watch::Receiver<Network>,
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let passes = |state: &Network| match state {
            Network::Up => true,
            Network::Stalled => false,
            Network::Cut(_) => opened == *state,
        };
        if state.wait_for(passes).await.is_err() || to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_network_that_stalls_ends_no_request_wrongly() {
    let url = fresh_database();
    let server = url.split(['@', '/']).nth(3).unwrap().to_owned();
    let (port, network) = network(server.clone()).await;
    let mut world = World::open(&url.replace(&server, &format!("127.0.0.1:{port}")), options()).await;
    for _ in 0..2 {
        world.post().await;
        network.send(Network::Stalled).unwrap();
        assert!(!world.attempt().await, "no answer arrives");
        network.send(Network::Up).unwrap();
        world.post().await;
    }
    world.finish().await;
}

/// As after a power loss or a partition: connections are not closed, but nothing arrives on them any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_lead_nowhere_are_replaced() {
    let url = fresh_database();
    let server = url.split(['@', '/']).nth(3).unwrap().to_owned();
    let (port, network) = network(server.clone()).await;
    let mut world = World::open(&url.replace(&server, &format!("127.0.0.1:{port}")), options()).await;
    for cut in 1..=2 {
        world.post().await;
        // Readers keep all connections in use when the network is cut. Each ends with a read that began after it.
        let (store, is_cut) = (&world.store, || *network.borrow() == Network::Cut(cut));
        let read = async || {
            let mut began_after = false;
            while store.scope(&scope_key("room")).await.map_err(|error| expected(&error)).is_err() || !began_after {
                began_after = is_cut();
            }
        };
        let readers = futures_util::future::join_all((0..16).map(|_| read()));
        let cut_now = async {
            tokio::task::yield_now().await;
            network.send(Network::Cut(cut)).unwrap();
        };
        timeout(TIMEOUT, futures_util::future::join(readers, cut_now)).await.expect("every read ends");
        world.post().await;
    }
    // Closing waits for every connection, so none is stuck.
    timeout(TIMEOUT, world.finish()).await.expect("the store closes");
}
