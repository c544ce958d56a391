//! apalis on SQLite, with every commit durable.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteStorage, queries};
use peer_measure::{Ask, Label, Peer, Progress, Work};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use crate::{QUEUE, VERSION, Workers};

const TAKEN_AT_ONCE: usize = 1_000;
const PUSHED_AT_ONCE: u64 = 5_000;

type Listener = apalis_sqlite::callback::HookCallbackListener;

pub(crate) struct Sqlite {
    pool: SqlitePool,
    started: AtomicU64,
    /// Set if a commit wakes the worker; the first worker takes it.
    listener: Mutex<Option<Listener>>,
}

impl Sqlite {
    pub(crate) async fn open(ask: &Ask) -> Sqlite {
        let options = SqliteConnectOptions::from_str(&ask.database).expect("the URL is one of SQLite");
        let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        let options = options.synchronous(SqliteSynchronous::Full);
        // apalis turns fsync off on the connection that installs its tables, so that one is used for nothing else.
        let installer = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone());
        let installer = installer.await.expect("the file opens");
        SqliteStorage::setup(&installer).await.expect("apalis installs");
        installer.close().await;
        let (pool, listener) = if ask.work == Work::Latency {
            // Its connections use SQLite's default, synchronous=FULL, and the WAL mode set above.
            let (pool, listener) = SqliteStorage::connect_with_callback(&ask.database).expect("the file opens");
            (pool, Some(listener))
        } else {
            (SqlitePoolOptions::new().connect_with(options).await.expect("the file opens"), None)
        };
        let synced = sqlx::query_scalar::<_, i64>("PRAGMA synchronous").fetch_one(&pool).await.expect("the setting can be read");
        assert_eq!(synced, 2, "commits are not durable");
        Sqlite { pool, started: AtomicU64::new(0), listener: Mutex::new(listener) }
    }

    fn storage(&self, taken_at_once: usize) -> SqliteStorage<u64> {
        SqliteStorage::new(&self.pool).with_config(Config::default().queue(QUEUE).batch_size(taken_at_once))
    }
}

impl Peer for Sqlite {
    type Worker = Workers;

    fn label(&self, work: Work) -> Label {
        let settings = match work {
            Work::Drain => format!("batch_size {TAKEN_AT_ONCE}, WAL, synchronous FULL"),
            Work::EnqueueBulk => format!("push_tasks({PUSHED_AT_ONCE}) per transaction, WAL, synchronous FULL"),
            Work::Enqueue => "WAL, synchronous FULL".to_owned(),
            Work::Latency => "connect_with_callback, WAL, synchronous FULL".to_owned(),
        };
        Label { peer: "apalis-sqlite", version: VERSION, engine: "sqlite", settings }
    }

    async fn enqueue_bulk(&self, jobs: u64) {
        for from in (0..jobs).step_by(PUSHED_AT_ONCE as usize) {
            let tasks = (from..(from + PUSHED_AT_ONCE).min(jobs))
                .map(|n| TaskBuilder::new(serde_json::to_vec(&n).expect("a number is JSON")).build());
            let tasks: Vec<_> = tasks.collect();
            let mut transaction = self.pool.begin().await.expect("a transaction begins");
            queries::push_tasks(&mut *transaction, QUEUE, &tasks).await.expect("tasks are pushed");
            transaction.commit().await.expect("the tasks are committed");
        }
    }

    async fn enqueue(&self) {
        let mut connection = self.pool.acquire().await.expect("a connection is free");
        let task = TaskBuilder::new(b"1".to_vec()).build();
        queries::push_tasks(&mut *connection, QUEUE, &[task]).await.expect("a task is pushed");
    }

    async fn start(&self, progress: Arc<Progress>) -> Workers {
        let name = format!("worker-{}", self.started.fetch_add(1, Ordering::SeqCst));
        let handler = move |_: u64| {
            progress.handed(1);
            std::future::ready(())
        };
        let mut workers = Workers::new();
        let signal = workers.signal();
        if let Some(listener) = self.listener.lock().expect("the lock is not poisoned").take() {
            let worker = WorkerBuilder::new(name).backend(self.storage(10).with_callback(listener)).build(handler);
            workers.running.spawn(async move { worker.run_until(signal).await.expect("a worker runs") });
        } else {
            let worker = WorkerBuilder::new(name).backend(self.storage(TAKEN_AT_ONCE)).build(handler);
            workers.running.spawn(async move { worker.run_until(signal).await.expect("a worker runs") });
        }
        workers
    }

    async fn stop(&self, workers: Workers) {
        workers.stop().await;
    }

    async fn unfinished(&self) -> u64 {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM Jobs WHERE status <> 'Done'");
        count.fetch_one(&self.pool).await.expect("tasks are counted").unsigned_abs()
    }

    async fn rest(&self) {
        for statement in ["ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"] {
            sqlx::query(statement).execute(&self.pool).await.expect("SQLite runs the statement");
        }
    }
}
