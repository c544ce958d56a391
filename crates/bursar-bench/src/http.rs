//! The server over HTTP, beside a bare route: each in a process of its own, asked by the same callers in the same bytes.

mod bare;
mod client;
mod process;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

pub use bare::{BARE, serve_bare};

use crate::engine::{Database, Home};
use crate::error::BenchError;
use crate::http::client::{Connection, request};
use crate::http::process::Process;
use crate::load::Round;
use crate::plan::{Baseline, Effort, Measurement, Work};
use crate::report::Measured;
use crate::subject::AMPLE;

/// The operator of a database that is gone when the bench ends, on a port that only this machine reaches.
const OPERATOR: &str = "the operator of a database that a bench made";
/// Who asks shows a token that stands in the database, as callers do.
const NOBODY: &str = "nobody asks a bare route who it is";
/// Jobs in one request where nothing is measured.
const BULK: usize = 1_000;
/// Connections that set things up.
const HANDS: usize = 50;
/// The first round is not counted: it warms up, and tells how many jobs a round needs.
const WARM_UP: Duration = Duration::from_millis(500);
/// Jobs that are made for one round at most; a round that used them up ends there.
const JOBS_MAX: usize = 300_000;

/// Measures one line.
pub(crate) async fn measure(home: &mut Home, line: &Measurement, effort: Effort) -> Result<Measured, BenchError> {
    let mut served = Served::open(home, line).await?;
    let idle_mb = served.process.memory_mb("VmRSS")?;
    served.set_up().await?;
    let mut bare = match line.baseline {
        Baseline::None => None,
        _ => Some(Bare::open().await?),
    };
    let time = effort.time.min(WARM_UP);
    served.prepare(time).await?;
    let warm = served.round(time).await?;
    served.rate = warm.round.per_second();
    if let Some(bare) = &mut bare {
        same_size(&warm, &bare.round(&served, time).await?)?;
    }
    let mut measured = Measured { idle_mb: Some(idle_mb), ..Measured::default() };
    for _ in 0..effort.rounds {
        measured.fsyncs_ms.push(home.fsync_ms().await?);
        served.prepare(effort.time).await?;
        measured.rounds.push(served.round(effort.time).await?.round);
        if let Some(bare) = &mut bare {
            measured.baseline.push(bare.round(&served, effort.time).await?.round);
        }
    }
    measured.rss_mb = served.process.memory_mb("VmHWM")?;
    home.remove(served.close().await?).await?;
    Ok(measured)
}

/// `bursar serve` on a database of its own.
struct Served {
    process: Process,
    database: Database,
    work: Work,
    callers: usize,
    scopes: usize,
    /// What those who are measured show.
    token: String,
    /// Operations a second, as far as is known.
    rate: f64,
    /// Jobs that wait.
    waiting: usize,
}

/// What a round came to, and the bytes of an answer to each of its requests.
struct Asked {
    round: Round,
    answer_bytes: Vec<usize>,
}

impl Served {
    async fn open(home: &mut Home, line: &Measurement) -> Result<Served, BenchError> {
        let database = home.database().await?;
        let args = ["serve", "--listen", "127.0.0.1:0", "--database", &database.url()].map(str::to_owned);
        let process = Process::start(&args, Some(OPERATOR)).await?;
        let work = line.work.ok_or_else(|| BenchError::Failed("no work was said".into()))?;
        let (callers, scopes, token) = (line.callers, line.scopes, String::new());
        Ok(Served { process, database, work, callers, scopes, token, rate: 0.0, waiting: 0 })
    }

    /// Registers budgets, and makes the token.
    async fn set_up(&mut self) -> Result<(), BenchError> {
        let (path, body) = match self.work {
            Work::Command => ("/v1/keys", r#"{"name":"bench","role":"user"}"#),
            Work::Lease => ("/v1/workers", r#"{"name":"bench","capabilities":{"queues":["work"],"kinds":["*"]}}"#),
        };
        let mut connection = Connection::open(self.process.address).await?;
        let made = connection.ask(&request("POST", path, OPERATOR, body)).await?;
        made.word("\"token\":\"")?.clone_into(&mut self.token);
        let budget = format!(r#"{{"limits":[{{"amount":{AMPLE},"window":"month"}}]}}"#);
        let define = |scope: usize| request("PUT", &format!("/v1/budgets/agent:{scope:06}"), OPERATOR, &budget);
        self.ask_each((0..self.scopes).map(define).collect()).await
    }

    /// Has jobs enqueued that a round of this length works on.
    async fn prepare(&mut self, time: Duration) -> Result<(), BenchError> {
        if self.work == Work::Command {
            return Ok(());
        }
        let needed = (self.rate * time.as_secs_f64() * 1.5) as usize + (5 * BULK).max(20 * self.callers);
        let missing = needed.min(JOBS_MAX).saturating_sub(self.waiting).div_ceil(BULK);
        let jobs = vec![r#"{"queue":"work","kind":"nothing","payload":{"n":1}}"#; BULK].join(",");
        let enqueue = request("POST", "/v1/jobs/bulk", OPERATOR, &format!(r#"{{"jobs":[{jobs}]}}"#));
        self.ask_each(vec![enqueue; missing]).await?;
        self.waiting += missing * BULK;
        Ok(())
    }

    async fn ask_each(&self, requests: Vec<String>) -> Result<(), BenchError> {
        let requests: Arc<[String]> = requests.into();
        let mut tasks = JoinSet::new();
        for hand in 0..HANDS.min(requests.len()) {
            let (requests, mut connection) = (requests.clone(), Connection::open(self.process.address).await?);
            tasks.spawn(async move {
                for request in requests.iter().skip(hand).step_by(HANDS) {
                    connection.ask(request).await?;
                }
                Ok::<_, BenchError>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    async fn round(&mut self, time: Duration) -> Result<Asked, BenchError> {
        let asked = self.ask_for(&self.process, &self.token, time).await?;
        self.waiting = self.waiting.saturating_sub(asked.round.done);
        Ok(asked)
    }

    /// A round of callers on connections that are kept.
    async fn ask_for(&self, process: &Process, token: &str, time: Duration) -> Result<Asked, BenchError> {
        let asks = Arc::new(match self.work {
            Work::Command => Asks::Commands((0..self.scopes).map(|scope| command(scope, token)).collect()),
            Work::Lease => Asks::Leases { token: token.to_owned(), lease: lease(token) },
        });
        let mut connections = Vec::with_capacity(self.callers);
        for _ in 0..self.callers {
            connections.push(Connection::open(process.address).await?);
        }
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (caller, mut connection) in connections.into_iter().enumerate() {
            let (asks, callers) = (asks.clone(), self.callers);
            tasks.spawn(async move {
                let (mut waited, mut bytes) = (Vec::new(), Vec::new());
                let mut asked = Instant::now();
                for number in (caller..).step_by(callers) {
                    let over = !waited.is_empty() && asked.duration_since(begun) >= time;
                    if over || !asks.ask(&mut connection, number, &mut bytes).await? {
                        break;
                    }
                    let answered = Instant::now();
                    waited.push(answered.duration_since(asked));
                    asked = answered;
                }
                Ok::<_, BenchError>((waited, bytes))
            });
        }
        let (mut waited, mut answer_bytes) = (Vec::new(), Vec::new());
        while let Some(caller) = tasks.join_next().await {
            let (times, bytes) = caller??;
            waited.extend(times);
            // Who found nothing left has nothing to say of it.
            answer_bytes = if bytes.is_empty() { answer_bytes } else { bytes };
        }
        let (done, took) = (waited.len(), begun.elapsed());
        if done == 0 {
            return Err(BenchError::Failed("nothing was answered in a whole round".into()));
        }
        Ok(Asked { round: Round::of(waited, done, took), answer_bytes })
    }

    /// Checks the books, and ends.
    async fn close(mut self) -> Result<Database, BenchError> {
        let mut connection = Connection::open(self.process.address).await?;
        let report = connection.ask_patiently(&request("GET", "/v1/verify", OPERATOR, "")).await?;
        if !report.text()?.starts_with(r#"{"ok":true,"#) {
            return Err(BenchError::NotClean(report.text()?.to_owned()));
        }
        self.process.end()?;
        Ok(self.database)
    }
}

/// The bare route.
struct Bare(Process);

impl Bare {
    async fn open() -> Result<Bare, BenchError> {
        Ok(Bare(Process::start(&BARE.map(str::to_owned), None).await?))
    }

    /// A round of the same callers, who ask the same.
    async fn round(&mut self, served: &Served, time: Duration) -> Result<Asked, BenchError> {
        served.ask_for(&self.0, NOBODY, time).await
    }
}

/// What callers ask for.
enum Asks {
    /// A command on each scope in turn.
    Commands(Vec<String>),
    /// A job, and its end.
    Leases { token: String, lease: String },
}

impl Asks {
    /// Asks once; `false` when there is nothing left to ask for. Tells how long the answers are.
    async fn ask(&self, to: &mut Connection, number: usize, bytes: &mut Vec<usize>) -> Result<bool, BenchError> {
        match self {
            Asks::Commands(commands) => {
                let answered = to.ask(&commands[number % commands.len()]).await?.len();
                bytes.clear();
                bytes.push(answered);
            }
            Asks::Leases { token, lease } => {
                let leased = to.ask(lease).await?;
                if leased.text()? == r#"{"jobs":[]}"# {
                    return Ok(false);
                }
                let leased_bytes = leased.len();
                let (id, fence) = (leased.word("\"id\":\"")?, leased.word("\"fence\":")?);
                let (path, body) = (format!("/v1/jobs/{id}/complete"), format!(r#"{{"fence":{fence}}}"#));
                let completed_bytes = to.ask(&request("POST", &path, token, &body)).await?.len();
                bytes.clear();
                bytes.extend([leased_bytes, completed_bytes]);
            }
        }
        Ok(true)
    }
}

/// A metered command: a hold that a job owns, the job, the journal.
fn command(scope: usize, token: &str) -> String {
    let body = format!(
        r#"{{"charges":[{{"scope":"agent:{scope:06}","amount":1}}],"settle":"job","jobs":[{{"queue":"media","kind":"video.generate","payload":"a red fox, running"}}]}}"#
    );
    request("POST", "/v1/commands", token, &body)
}

fn lease(token: &str) -> String {
    request("POST", "/v1/jobs/lease", token, r#"{"queues":["work"],"capacity":1,"lease_ms":300000}"#)
}

/// Both sides must say as much; a name that is a few letters longer is no matter.
fn same_size(served: &Asked, bare: &Asked) -> Result<(), BenchError> {
    let near = |(one, other): (&usize, &usize)| one.abs_diff(*other) <= 16;
    let same = served.answer_bytes.len() == bare.answer_bytes.len();
    if same && served.answer_bytes.iter().zip(&bare.answer_bytes).all(near) {
        return Ok(());
    }
    let (one, other) = (&served.answer_bytes, &bare.answer_bytes);
    Err(BenchError::Failed(format!("the server's answers have {one:?} bytes, those of the bare route {other:?}")))
}
