//! Drives awa with its queue storage, the default of a new installation.

use std::sync::Arc;
use std::time::Duration;

use awa::model::insert::params_with;
use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use clap::Parser;
use peer_measure::{Ask, Label, Peer, Progress, Work, run};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUEUE: &str = "work";
const SENT_AT_ONCE: u64 = 5_000;
const WORKERS: u32 = 512;

#[derive(Serialize, Deserialize, JobArgs)]
struct Nothing {
    n: u64,
}

struct Awa {
    pool: PgPool,
    store: QueueStorage,
}

#[tokio::main]
async fn main() {
    let ask = Ask::parse();
    let connections = u32::try_from(ask.callers).expect("callers are few").max(20) + 4;
    let pool = PgPoolOptions::new().max_connections(connections).min_connections(connections);
    // A liveness check before each use would double the round trips.
    let pool = pool.test_before_acquire(false);
    let pool = pool.connect(&ask.database).await.expect("the database answers");
    awa::migrations::run(&pool).await.expect("awa installs");
    let store = QueueStorage::new(QueueStorageConfig::default()).expect("the defaults are valid");
    let awa = Awa { pool, store };
    // The first worker of a new installation enables queue storage; jobs enqueued earlier would be stored elsewhere.
    let worker = awa.start(Arc::new(Progress::new(1))).await;
    awa.stop(worker).await;
    run(awa, &ask).await;
}

impl Peer for Awa {
    type Worker = Client;

    fn label(&self, work: Work) -> Label {
        let settings = match work {
            Work::Drain => format!("max_workers {WORKERS}, claim_batch_size 512, deadline off"),
            Work::EnqueueBulk => format!("enqueue_params_copy({SENT_AT_ONCE})"),
            Work::Enqueue => "one connection per caller".to_owned(),
            Work::Latency => "defaults, which listen".to_owned(),
        };
        Label { peer: "awa", version: "0.6.9", engine: "postgres", settings }
    }

    async fn enqueue_bulk(&self, jobs: u64) {
        for from in (0..jobs).step_by(SENT_AT_ONCE as usize) {
            let batch = (from..(from + SENT_AT_ONCE).min(jobs)).map(|n| params_with(&Nothing { n }, options()));
            let batch = batch.collect::<Result<Vec<_>, _>>().expect("jobs are valid");
            self.store.enqueue_params_copy(&self.pool, &batch).await.expect("jobs are enqueued");
        }
    }

    async fn enqueue(&self) {
        awa::insert_with(&self.pool, &Nothing { n: 1 }, options()).await.expect("a job is enqueued");
    }

    async fn start(&self, progress: Arc<Progress>) -> Client {
        let queue = QueueConfig { max_workers: WORKERS, deadline_duration: Duration::ZERO, ..QueueConfig::default() };
        let client = Client::builder(self.pool.clone()).queue(QUEUE, queue);
        let client = client.register::<Nothing, _, _>(move |_, _| {
            progress.handed(1);
            async { Ok(JobResult::Completed) }
        });
        let client = client.build().expect("a worker is built");
        client.start().await.expect("a worker starts");
        client
    }

    async fn stop(&self, client: Client) {
        client.shutdown(Duration::from_secs(5)).await;
    }

    async fn unfinished(&self) -> u64 {
        let counts = self.store.queue_counts(&self.pool, QUEUE).await.expect("jobs are counted");
        (counts.available + counts.running).unsigned_abs()
    }

    async fn rest(&self) {
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            sqlx::query(statement).execute(&self.pool).await.expect("the server runs the statement");
        }
    }
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.to_owned(), ..InsertOpts::default() }
}
