//! Drives pgmq's functions in a bare loop, as an upper bound of what PostgreSQL can do for a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use peer_measure::{Ask, Label, Peer, Progress, Work, run};
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUEUE: &str = "work";
/// Messages per send, and per read and delete.
const SENT_AT_ONCE: u64 = 5_000;
const READ_AT_ONCE: i32 = 1_000;
const LOOPS: usize = 2;
/// The visibility timeout of a message, in seconds.
const HIDDEN_SECONDS: i32 = 600;

struct Pgmq {
    pool: PgPool,
    wakes: bool,
    keeps: bool,
}

struct Loops {
    stop: Arc<AtomicBool>,
    running: JoinSet<()>,
}

#[tokio::main]
async fn main() {
    let ask = Ask::parse();
    let connections = u32::try_from(ask.callers).expect("callers are few").max(8) + 4;
    let pool = PgPoolOptions::new().max_connections(connections).min_connections(connections);
    // A liveness check before each use would double the round trips.
    let pool = pool.test_before_acquire(false);
    let pool = pool.connect(&ask.database).await.expect("the database answers");
    pgmq::install::install_sql_from_embedded(&pool).await.expect("pgmq's SQL installs");
    sqlx::query("SELECT pgmq.create($1)").bind(QUEUE).execute(&pool).await.expect("a queue is made");
    let wakes = ask.work == Work::Latency;
    if wakes {
        // No throttling: each message notifies the listener.
        let notify = sqlx::query("SELECT pgmq.enable_notify_insert($1, 0)");
        notify.bind(QUEUE).execute(&pool).await.expect("the queue notifies");
    }
    run(Pgmq { pool, wakes, keeps: ask.finished > 0 }, &ask).await;
}

impl Peer for Pgmq {
    type Worker = Loops;

    fn label(&self, work: Work) -> Label {
        let done = if self.keeps { "archive" } else { "delete" };
        let settings = match work {
            Work::Drain => format!("{LOOPS} loops of read({READ_AT_ONCE}) and {done}"),
            Work::EnqueueBulk => format!("{LOOPS} loops of send_batch({SENT_AT_ONCE})"),
            Work::Enqueue => "one connection per caller".to_owned(),
            Work::Latency => "enable_notify_insert without throttle, LISTEN".to_owned(),
        };
        Label { peer: "pgmq", version: "1.11.1", engine: "postgres", settings }
    }

    async fn enqueue_bulk(&self, jobs: u64) {
        let mut sending = JoinSet::new();
        let share = jobs.div_ceil(LOOPS as u64);
        for from in (0..jobs).step_by(usize::try_from(share).expect("few jobs")) {
            let pool = self.pool.clone();
            let to = (from + share).min(jobs);
            sending.spawn(async move {
                for from in (from..to).step_by(SENT_AT_ONCE as usize) {
                    let messages = (from..(from + SENT_AT_ONCE).min(to)).map(|n| serde_json::json!({ "n": n }));
                    let send = sqlx::query("SELECT count(*) FROM pgmq.send_batch($1, $2)");
                    send.bind(QUEUE)
                        .bind(messages.collect::<Vec<_>>())
                        .execute(&pool)
                        .await
                        .expect("messages are sent");
                }
            });
        }
        sending.join_all().await;
    }

    async fn enqueue(&self) {
        let send = sqlx::query("SELECT pgmq.send($1, $2)").bind(QUEUE).bind(serde_json::json!({ "n": 1 }));
        send.execute(&self.pool).await.expect("a message is sent");
    }

    async fn start(&self, progress: Arc<Progress>) -> Loops {
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        for _ in 0..if self.wakes { 1 } else { LOOPS } {
            let mut listener = None;
            if self.wakes {
                let mut new = PgListener::connect_with(&self.pool).await.expect("a listener connects");
                new.listen(&format!("pgmq.q_{QUEUE}.INSERT")).await.expect("the listener listens");
                listener = Some(new);
            }
            let (pool, stop, progress) = (self.pool.clone(), Arc::clone(&stop), Arc::clone(&progress));
            running.spawn(take(pool, listener, self.keeps, stop, progress));
        }
        Loops { stop, running }
    }

    async fn stop(&self, loops: Loops) {
        loops.stop.store(true, Ordering::SeqCst);
        loops.running.join_all().await;
    }

    async fn unfinished(&self) -> u64 {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pgmq.q_work");
        count.fetch_one(&self.pool).await.expect("messages are counted").unsigned_abs()
    }

    async fn rest(&self) {
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            sqlx::query(statement).execute(&self.pool).await.expect("the server runs the statement");
        }
    }
}

async fn take(
    pool: PgPool,
    mut listener: Option<PgListener>,
    keeps: bool,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
) {
    let done = if keeps { "SELECT pgmq.archive($1, $2)" } else { "SELECT pgmq.delete($1, $2)" };
    let mut connection = pool.acquire().await.expect("a connection is free");
    while !stop.load(Ordering::SeqCst) {
        let read = sqlx::query_as::<_, (i64, serde_json::Value)>("SELECT msg_id, message FROM pgmq.read($1, $2, $3)");
        let read = read.bind(QUEUE).bind(HIDDEN_SECONDS).bind(READ_AT_ONCE).fetch_all(&mut *connection);
        let messages = read.await.expect("messages are read");
        progress.handed(messages.len() as u64);
        if !messages.is_empty() {
            let ids: Vec<i64> = messages.iter().map(|(id, _)| *id).collect();
            sqlx::query(done).bind(QUEUE).bind(ids).execute(&mut *connection).await.expect("messages are done");
            continue;
        }
        let wait = Duration::from_millis(100);
        match &mut listener {
            Some(listener) => drop(tokio::time::timeout(wait, listener.recv()).await),
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}
