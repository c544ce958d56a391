//! The worker program of the Rust SDK. `tests/workers/README.md` describes what it does.

use std::collections::HashSet;
use std::env;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_client::{Client, HandlerError, JobContext, Payload, Progress, Stop, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The interval at which a handler looks for its gate.
const GATE_INTERVAL: Duration = Duration::from_millis(20);

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let client = Client::new(&env::var("BURSAR_SERVER")?)?.token(env::var("BURSAR_TOKEN")?);
    let mut worker = client
        .worker()
        .name(env::var("WORKER_NAME")?)
        .queue(env::var("WORKER_QUEUE")?)
        .concurrency(env::var("WORKER_CONCURRENCY")?.parse()?);
    if let Ok(lease) = env::var("WORKER_LEASE_MS") {
        worker = worker.lease(Duration::from_millis(lease.parse()?));
    }
    if let Ok(grace) = env::var("WORKER_GRACE_MS") {
        worker = worker.grace(Duration::from_millis(grace.parse()?));
    }
    let report = with_handlers(worker).run_until_terminated().await?;
    println!("{report:?}");
    Ok(())
}

fn with_handlers(worker: Worker) -> Worker {
    let snoozed: Arc<Mutex<HashSet<String>>> = Arc::default();
    worker
        .on("echo", logged(async |payload: Value, _: JobContext| Ok(payload)))
        .on("context", logged(async |_: Value, context: JobContext| Ok(properties(&context))))
        .on("typed", logged(async |number: Number, _: JobContext| Ok(number)))
        .on(
            "spend",
            logged(async |spend: Spend, context: JobContext| {
                for units in spend.usage {
                    context.usage(units)?;
                }
                Ok(Value::Null)
            }),
        )
        .on("gate", logged(gate))
        .on(
            "block",
            logged(async |block: Block, context: JobContext| {
                tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(block.ms)));
                Ok(json!({ "attempt": context.attempt() }))
            }),
        )
        .on("poison", logged(async |_: Value, _: JobContext| Err::<Value, _>(HandlerError::retry("poison", "poison"))))
        .on(
            "fatal",
            logged(async |_: Value, _: JobContext| {
                Err::<Value, _>(HandlerError::non_retryable("fatal", "cannot succeed"))
            }),
        )
        .on(
            "later",
            logged(move |_: Value, context: JobContext| {
                let mut snoozed = snoozed.lock().unwrap_or_else(PoisonError::into_inner);
                let first = snoozed.insert(context.id().to_string());
                std::future::ready(match first {
                    true => Err(HandlerError::snooze(Duration::from_millis(1))),
                    false => Ok(json!({ "attempt": context.attempt() })),
                })
            }),
        )
        .on(
            "after",
            logged(async |_: Value, context: JobContext| match context.attempt() {
                1 => Err(HandlerError::retry_after(Duration::from_millis(1), "after", "come back")),
                attempt => Ok(json!({ "attempt": attempt })),
            }),
        )
        .on(
            "progress",
            logged(async |_: Value, context: JobContext| {
                let data = Payload::new(r#"{"step":1}"#)?;
                context.progress(Progress { data, ..Progress::percent(50.0).message("half") }).await?;
                Ok(Value::Null)
            }),
        )
        .on("resume", logged(resume))
        .on(
            "nested",
            logged(async |_: Value, context: JobContext| {
                context.progress(Progress::percent(10.0)).await?;
                context.usage(3)?;
                match context.attempt() {
                    1 => Err(HandlerError::retry("nested", "after spending")),
                    attempt => Ok(json!({ "attempt": attempt })),
                }
            }),
        )
}

#[derive(Deserialize, Serialize)]
struct Number {
    n: i64,
}

#[derive(Deserialize)]
struct Spend {
    usage: Vec<i64>,
}

#[derive(Deserialize)]
struct Block {
    ms: u64,
}

#[derive(Deserialize)]
struct Resume {
    attempts: u32,
}

#[derive(Deserialize)]
struct Gate {
    #[serde(default)]
    gates: Vec<Option<String>>,
    #[serde(default)]
    usage: Vec<Option<i64>>,
}

#[derive(Deserialize, Serialize)]
struct Reached {
    step: u32,
}

async fn resume(resume: Resume, context: JobContext) -> Result<Value, HandlerError> {
    let from = context.checkpoint_as::<Reached>()?.map(|reached| reached.step);
    let first = from.map_or(1, |step| step + 1);
    let checkpoint = Payload::of(&Reached { step: first })?;
    context.progress(Progress::percent(f64::from(first)).checkpoint(checkpoint)).await?;
    // A report without a checkpoint leaves the last one.
    context.progress(Progress::percent(f64::from(first) + 0.5)).await?;
    if context.attempt() < resume.attempts {
        return Err(HandlerError::retry_after(Duration::from_millis(1), "resume", "go on"));
    }
    Ok(json!({ "attempt": context.attempt(), "from": from }))
}

async fn gate(gate: Gate, context: JobContext) -> Result<Value, HandlerError> {
    let index = context.attempt() as usize - 1;
    if let Some(Some(units)) = gate.usage.get(index) {
        context.usage(*units)?;
    }
    if let Some(Some(name)) = gate.gates.get(index) {
        let file = Path::new(&env::var("WORKER_FOLDER")?).join(name);
        while context.stop().is_none() && !file.exists() {
            tokio::time::sleep(GATE_INTERVAL).await;
        }
    }
    let reason = match context.stop() {
        Some(Stop::Lost) => "lost",
        Some(Stop::Cancelled) => "cancelled",
        Some(Stop::Draining) => "draining",
        None => return Ok(json!({ "attempt": context.attempt() })),
    };
    log(&context, "stopped", Some(reason))?;
    match reason {
        "cancelled" => Err(HandlerError::retry("stopped", "stopped")),
        _ => Ok(json!({ "attempt": context.attempt() })),
    }
}

fn properties(context: &JobContext) -> Value {
    let job = context.job();
    let metadata: Value = serde_json::from_str(job.metadata.as_str()).unwrap_or_default();
    json!({
        "id": context.id().to_string(),
        "attempt": context.attempt(),
        "idempotency_key": context.idempotency_key().map(ToString::to_string),
        "key": job.key.as_ref().map(ToString::to_string),
        "tags": job.tags.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "metadata": metadata,
    })
}

/// Wraps a handler so that it logs its start and its end.
fn logged<P, R, F, Fut>(
    handler: F,
) -> impl Fn(P, JobContext) -> std::pin::Pin<Box<dyn Future<Output = Result<R, HandlerError>> + Send>> + Send + Sync + 'static
where
    P: Send + 'static,
    R: Send + 'static,
    F: Fn(P, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    move |payload, context| {
        let handler = handler.clone();
        Box::pin(async move {
            log(&context, "started", None)?;
            let result = handler(payload, context.clone()).await;
            log(&context, "finished", None)?;
            result
        })
    }
}

/// Appends a line to the log with one write.
fn log(context: &JobContext, event: &str, reason: Option<&str>) -> Result<(), HandlerError> {
    let mut line = json!({ "event": event, "job": context.id().to_string(), "attempt": context.attempt() });
    if let Some(reason) = reason {
        line["reason"] = reason.into();
    }
    let mut file = OpenOptions::new().append(true).create(true).open(env::var("WORKER_LOG")?)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}
