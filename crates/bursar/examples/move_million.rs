//! Fills a SQLite database with commands, each with a job and a hold, and brings the jobs into every state. Then moves it to a
//! throwaway PostgreSQL server, and back with `follow`. Prints times and sizes. `proof/move/run` runs it.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use bursar::sqlx::{Connection, PgConnection};
use bursar::{
    Act, Budget, Bursar, End, Finish, FlowKey, JobError, JobFilter, JobId, JobKind, JobSpec, LeaseRequest, Limit,
    MoveReport, MoveStep, Payload, Queue, QueueConfig, Span, Usage, Window, WorkerName, sqlx,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The callers that submit commands at once.
const CALLERS: usize = 500;
/// The scopes that are charged.
const SCOPES: usize = 1_000;
/// The jobs that one call leases and finishes.
const LEASED: u32 = 1_000;

/// The queues, each with its share of the commands in percent, and what becomes of its jobs.
const QUEUES: [(&str, usize); 7] =
    [("succeed", 60), ("die", 5), ("cancel", 5), ("lease", 5), ("later", 5), ("park", 3), ("wait", 17)];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let commands: usize = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    let folder = tempfile::tempdir()?;
    let first = folder.path().join("first.db");
    let (from, back) = (url(&first), folder.path().join("back.db"));
    let began = Instant::now();
    let bursar = Bursar::options(&from).upkeep(None).open().await?;
    fill(&bursar, commands).await?;
    advance(&bursar).await?;
    bursar.close().await;
    println!("filled with {commands} commands in {:.0?}: {}", began.elapsed(), mib(std::fs::metadata(&first)?.len()));

    let server = bursar_testkit::fresh_database();
    let report = relocate(&from, &server, false).await?;
    for table in report.summaries.0.tables.iter().filter(|table| table.rows > 0) {
        println!("  {}: {} rows {:?}", table.table, table.rows, table.states);
    }
    let mut conn = PgConnection::connect(&server).await?;
    let bytes: i64 = sqlx::query_scalar("SELECT pg_database_size(current_database())").fetch_one(&mut conn).await?;
    conn.close().await?;
    println!("  the database of the server has {}", mib(bytes.unsigned_abs()));
    relocate(&server, &url(&back), true).await?;
    println!("  the file has {}", mib(std::fs::metadata(&back)?.len()));
    Ok(())
}

fn url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

async fn relocate(from: &str, to: &str, follow: bool) -> Result<MoveReport, Box<dyn Error>> {
    let began = Instant::now();
    let note = move |step: &MoveStep| {
        if !matches!(step, MoveStep::Copying { .. } | MoveStep::Copied { .. }) {
            println!("  {:6.1} s {step:?}", began.elapsed().as_secs_f64());
        }
    };
    let engine = |url: &str| if url.starts_with("sqlite") { "SQLite" } else { "PostgreSQL" };
    println!("{} to {}{}", engine(from), engine(to), if follow { ", with follow" } else { "" });
    let report = Bursar::relocate(from, to, follow, Arc::new(note)).await?;
    if !report.complete {
        return Err(format!("{:?} {:?}", report.differences, report.reports).into());
    }
    let rows: u64 = report.summaries.0.tables.iter().map(|table| table.rows).sum();
    println!("  {rows} rows in {:.1?}, pause {:?}", began.elapsed(), report.pause);
    Ok(report)
}

/// Submits the commands: each holds units of a scope until its job ends, under an idempotency key.
async fn fill(bursar: &Bursar, commands: usize) -> Result<(), Box<dyn Error>> {
    bursar.queues().define("wait", QueueConfig { key_concurrency: Some(1), ..QueueConfig::default() }).await?;
    for scope in 0..SCOPES {
        // The units of `tight` scopes are held once, so that no attempt after the first one fits.
        let jobs = (commands / 100 + SCOPES - 1 - scope) / SCOPES * QUEUES[5].1;
        let held_once = i64::try_from(jobs)?.max(1) * 10;
        for (name, limit) in [("team", i64::MAX / 2), ("tight", held_once)] {
            let budget = Budget::new([Limit::new(limit, Window::Lifetime)]);
            bursar.ledger().define(format!("{name}:{scope}"), budget).await?;
        }
    }
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let bursar = bursar.clone();
        callers.spawn(async move {
            for number in (caller..commands).step_by(CALLERS) {
                submit(&bursar, number).await?;
            }
            Ok::<(), bursar::Error>(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok(())
}

async fn submit(bursar: &Bursar, number: usize) -> Result<(), bursar::Error> {
    let (mut share, mut queue) = (number % 100, "wait");
    for (name, percent) in QUEUES {
        if share < percent {
            queue = name;
            break;
        }
        share -= percent;
    }
    let spec = JobSpec::new(Queue::try_from(queue)?, JobKind::try_from("work")?, Payload::default());
    let spec = match queue {
        "later" => JobSpec { delay: Span::from_days(1), ..spec },
        "wait" => JobSpec { key: Some(FlowKey::try_from(format!("customer-{}", number % 5_000))?), ..spec },
        _ => spec,
    };
    let scope = format!("{}:{}", if queue == "park" { "tight" } else { "team" }, number / 100 % SCOPES);
    let command = bursar.command().charge(scope, 10).settle_with_job().job(spec).key(format!("order-{number}"));
    command.submit().await.map(drop)
}

/// Brings the jobs of each queue into the state after which it is named.
async fn advance(bursar: &Bursar) -> Result<(), Box<dyn Error>> {
    let jobs = bursar.jobs();
    for queue in ["succeed", "die", "lease", "park"] {
        loop {
            let (queues, worker) = (vec![Queue::try_from(queue)?], WorkerName::try_from("crew")?);
            let lease = Some(Span::from_secs(43_200));
            let ask = LeaseRequest { queues, kinds: Vec::new(), capacity: LEASED, lease, worker };
            let leased = jobs.lease(ask).await?.jobs;
            if leased.is_empty() {
                break;
            }
            let Some(end) = ending(queue) else { continue };
            let items = leased.iter().map(|job| Finish { job: job.id, fence: job.life.fence, end: end.clone() });
            for finished in jobs.finish_all(items.collect()).await? {
                finished?;
            }
        }
    }
    let filter = JobFilter { queue: Some(Queue::try_from("cancel")?), ..JobFilter::default() };
    let mut after = None;
    loop {
        let ids: Vec<JobId> = jobs.list(&filter, after, LEASED as usize).await?.iter().map(|job| job.id).collect();
        let Some(last) = ids.last() else { return Ok(()) };
        after = Some(*last);
        for cancelled in jobs.act(Act::Cancel, &ids).await? {
            cancelled?;
        }
    }
}

/// Returns how the leases of a queue's jobs end; `None` if they do not.
fn ending(queue: &str) -> Option<End> {
    let fail = |retryable: bool| {
        let error = JobError { kind: "broken".into(), message: "it is broken".into() };
        // The units are those of the hold, so that none are left for another attempt.
        End::Fail { error, retryable, retry_after: None, usage: Some(vec![Usage { scope: None, amount: 10 }]) }
    };
    match queue {
        "succeed" => {
            let usage = Some(vec![Usage { scope: None, amount: 7 }]);
            Some(End::Complete { result: Payload::default(), usage, blobs: Vec::new() })
        }
        "die" => Some(fail(false)),
        "park" => Some(fail(true)),
        _ => None,
    }
}
