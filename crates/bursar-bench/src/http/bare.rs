//! The baseline of the server: the same routes on axum, which parse the same JSON, answer with as many bytes, and do
//! nothing else.

use std::io::Write;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::error::BenchError;

/// The arguments of the child process. A program that receives them must call [`serve_bare`].
pub const BARE_SERVER_ARGS: [&str; 3] = ["bench", "http", "--bare"];

/// Serves bare routes until the process is killed, on a runtime like the server's.
pub fn serve_bare() -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let app = Router::new()
            .route("/v1/commands", post(command))
            .route("/v1/jobs/lease", post(lease))
            .route("/v1/jobs/{id}/complete", post(complete));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut out = std::io::stdout();
        writeln!(out, "listening on http://{}", listener.local_addr()?).and_then(|()| out.flush())?;
        axum::serve(axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true))), app).await?;
        Ok(())
    })
}

#[derive(Deserialize)]
struct Command {
    charges: Vec<Charge>,
    settle: String,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Charge {
    scope: String,
    amount: i64,
}

#[derive(Deserialize)]
struct Job {
    queue: String,
    kind: String,
    payload: String,
}

#[derive(Serialize)]
struct CommandResult {
    id: &'static str,
    replayed: bool,
    dry_run: bool,
    hold: Hold,
    posted: [i64; 0],
    grants: [i64; 0],
    jobs: Vec<EnqueuedJob>,
}

#[derive(Serialize)]
struct Hold {
    id: &'static str,
    state: &'static str,
    expires_at: Option<String>,
    charges: Vec<HeldCharge>,
}

#[derive(Serialize)]
struct HeldCharge {
    scope: String,
    amount: i64,
    balances: Vec<Balance>,
}

#[derive(Serialize)]
struct Balance {
    window: &'static str,
    zone: &'static str,
    limit: i64,
    remaining: i64,
}

#[derive(Serialize)]
struct EnqueuedJob {
    id: &'static str,
    created: bool,
}

const COMMAND: &str = "cmd_01j9zq3v4w5x6y7z8abcdefghj";
const HOLD: &str = "hold_01j9zq3v4w5x6y7z8abcdefghj";
const JOB: &str = "job_01j9zq3v4w5x6y7z8abcdefghj";
const LIMIT: i64 = crate::subject::AMPLE_LIMIT;

async fn command(Json(command): Json<Command>) -> (StatusCode, Json<CommandResult>) {
    let held = |Charge { scope, amount }: Charge| {
        let balance = Balance { window: "month", zone: "UTC", limit: LIMIT, remaining: LIMIT - amount };
        HeldCharge { scope, amount, balances: vec![balance] }
    };
    let enqueued = |job: &Job| EnqueuedJob { id: JOB, created: !job.queue.is_empty() && !job.kind.is_empty() };
    let hold = Hold {
        id: HOLD,
        state: if command.settle == "job" && command.jobs.iter().all(|job| !job.payload.is_empty()) {
            "held"
        } else {
            "none"
        },
        expires_at: None,
        charges: command.charges.into_iter().map(held).collect(),
    };
    let jobs = command.jobs.iter().map(enqueued).collect();
    let (posted, grants) = ([], []);
    (
        StatusCode::CREATED,
        Json(CommandResult { id: COMMAND, replayed: false, dry_run: false, hold, posted, grants, jobs }),
    )
}

#[derive(Deserialize)]
struct Lease {
    queues: Vec<String>,
    capacity: u32,
    lease_ms: i64,
}

#[derive(Serialize)]
struct LeasedJobs {
    jobs: Vec<Leased>,
}

#[derive(Serialize)]
struct Leased {
    id: &'static str,
    queue: String,
    kind: &'static str,
    payload: Payload,
    attempt: u32,
    max_attempts: Option<u32>,
    idempotency_key: Option<String>,
    hold: Option<String>,
    held: Vec<String>,
    key: Option<String>,
    tags: Vec<String>,
    blobs: Vec<String>,
    metadata: Option<Payload>,
    lease: LeaseInfo,
    checkpoint: Option<Payload>,
    traceparent: Option<String>,
}

#[derive(Serialize)]
struct Payload {
    n: i64,
}

#[derive(Serialize)]
struct LeaseInfo {
    fence: u32,
    worker: &'static str,
    since: &'static str,
    expires_at: &'static str,
}

async fn lease(Json(lease): Json<Lease>) -> Json<LeasedJobs> {
    let leased = |queue: String| Leased {
        id: JOB,
        queue,
        kind: "nothing",
        payload: Payload { n: lease.lease_ms.signum() },
        attempt: lease.capacity,
        max_attempts: None,
        idempotency_key: None,
        hold: None,
        held: Vec::new(),
        key: None,
        tags: Vec::new(),
        blobs: Vec::new(),
        metadata: None,
        lease: LeaseInfo {
            fence: 1,
            worker: "bench",
            since: "2026-01-01T00:00:00.000000Z",
            expires_at: "2026-01-01T00:05:00.000000Z",
        },
        checkpoint: None,
        traceparent: None,
    };
    Json(LeasedJobs { jobs: lease.queues.into_iter().map(leased).collect() })
}

#[derive(Deserialize)]
struct Complete {
    fence: u64,
}

#[derive(Serialize)]
struct Completed {
    id: String,
    state: &'static str,
    run_at: Option<String>,
    hold: Option<String>,
    cost: Vec<u64>,
    overrun: i64,
    warnings: [i64; 0],
}

async fn complete(Path(id): Path<String>, Json(complete): Json<Complete>) -> Json<Completed> {
    let cost = (1..complete.fence).collect();
    Json(Completed { id, state: "succeeded", run_at: None, hold: None, cost, overrun: 0, warnings: [] })
}
