//! apalis on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage, queries};
use peer_measure::{Ask, Label, Peer, Progress, Work};
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::{QUEUE, VERSION, Workers};

/// Jobs that a worker fetches and acknowledges at once, and jobs per push.
const TAKEN_AT_ONCE: usize = 1_000;
const PUSHED_AT_ONCE: u64 = 5_000;
const WORKERS: usize = 2;

pub(crate) struct Postgres {
    pool: PgPool,
    /// Workers started so far: a name cannot be reused while its last worker counts as alive.
    started: AtomicU64,
    wakes: bool,
}

impl Postgres {
    pub(crate) async fn open(ask: &Ask) -> Postgres {
        let connections = u32::try_from(ask.callers).expect("callers are few").max(10) + 4;
        let pool = PgPoolOptions::new().max_connections(connections).min_connections(connections);
        // A liveness check before each use would double the round trips.
        let pool = pool.test_before_acquire(false);
        let pool = pool.connect(&ask.database).await.expect("the database answers");
        PostgresStorage::setup(&pool).await.expect("apalis installs");
        Postgres { pool, started: AtomicU64::new(0), wakes: ask.work == Work::Latency }
    }

    fn storage(&self, taken_at_once: usize) -> PostgresStorage<u64> {
        PostgresStorage::new(&self.pool).with_config(Config::default().queue(QUEUE).batch_size(taken_at_once))
    }
}

impl Peer for Postgres {
    type Worker = Workers;

    fn label(&self, work: Work) -> Label {
        let settings = match work {
            Work::Drain => format!("{WORKERS} workers, batch_size {TAKEN_AT_ONCE}"),
            Work::EnqueueBulk => format!("push_tasks({PUSHED_AT_ONCE})"),
            Work::Enqueue => "one connection per caller".to_owned(),
            Work::Latency => "with_pubsub".to_owned(),
        };
        Label { peer: "apalis-postgres", version: VERSION, engine: "postgres", settings }
    }

    async fn enqueue_bulk(&self, jobs: u64) {
        let mut connection = self.pool.acquire().await.expect("a connection is free");
        for from in (0..jobs).step_by(PUSHED_AT_ONCE as usize) {
            let tasks = (from..(from + PUSHED_AT_ONCE).min(jobs))
                .map(|n| TaskBuilder::new(serde_json::to_vec(&n).expect("a number is JSON")).build());
            let push = queries::push_tasks(&mut *connection, QUEUE, tasks.collect());
            push.await.expect("tasks are pushed");
        }
    }

    async fn enqueue(&self) {
        // One autocommitted statement; `push` would use a transaction.
        let mut connection = self.pool.acquire().await.expect("a connection is free");
        let task = TaskBuilder::new(b"1".to_vec()).build();
        queries::push_tasks(&mut *connection, QUEUE, vec![task]).await.expect("a task is pushed");
    }

    async fn start(&self, progress: Arc<Progress>) -> Workers {
        let mut workers = Workers::new();
        for _ in 0..if self.wakes { 1 } else { WORKERS } {
            let name = format!("worker-{}", self.started.fetch_add(1, Ordering::SeqCst));
            let progress = Arc::clone(&progress);
            let handler = move |_: u64| {
                progress.handed(1);
                std::future::ready(())
            };
            let signal = workers.signal();
            if self.wakes {
                let backend = self.storage(10).with_pubsub();
                let worker = WorkerBuilder::new(name).backend(backend).build(handler);
                workers.running.spawn(async move { worker.run_until(signal).await.expect("a worker runs") });
            } else {
                let worker = WorkerBuilder::new(name).backend(self.storage(TAKEN_AT_ONCE)).build(handler);
                workers.running.spawn(async move { worker.run_until(signal).await.expect("a worker runs") });
            }
        }
        if self.wakes {
            // The worker starts to listen some time later, without a signal.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        workers
    }

    async fn stop(&self, workers: Workers) {
        workers.stop().await;
    }

    async fn unfinished(&self) -> u64 {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'");
        count.fetch_one(&self.pool).await.expect("tasks are counted").unsigned_abs()
    }

    async fn rest(&self) {
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            sqlx::query(statement).execute(&self.pool).await.expect("the server runs the statement");
        }
    }
}
