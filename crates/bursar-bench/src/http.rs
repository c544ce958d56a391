//! The server over HTTP, compared with bare routes: each runs in a child process and receives the same requests.

mod bare;
pub(crate) mod blobs;
mod client;
mod process;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

pub use bare::{BARE_SERVER_ARGS, serve_bare};

use crate::engine::{Database, DatabaseHost};
use crate::error::BenchError;
use crate::http::client::{Connection, request};
use crate::http::process::Process;
use crate::load::Round;
use crate::plan::{Baseline, Effort, Measurement, Work};
use crate::report::Measured;
use crate::subject::AMPLE_LIMIT;

/// The operator token of a temporary server that listens on a local port only.
const OPERATOR: &str = "the operator token of a temporary bench server";
/// The token sent to bare routes, which do not check it.
const UNCHECKED_TOKEN: &str = "a token that bare routes do not check";
/// Jobs per request in setup.
const BULK: usize = 1_000;
/// Connections used for setup.
const SETUP_CONNECTIONS: usize = 50;
/// The length of the first round, which is not counted. It also shows how many jobs a round needs.
const WARM_UP: Duration = Duration::from_millis(500);
/// The most jobs prepared for one round; a round that runs out of them ends.
const JOBS_MAX: usize = 300_000;

/// Measures one line.
pub(crate) async fn measure(
    home: &mut DatabaseHost,
    line: &Measurement,
    effort: Effort,
) -> Result<Measured, BenchError> {
    let mut server = Server::open(home, line).await?;
    let idle_mb = server.process.memory_mb("VmRSS")?;
    server.set_up().await?;
    let mut bare = match line.baseline {
        Baseline::None => None,
        _ => Some(Bare::open().await?),
    };
    let time = effort.time.min(WARM_UP);
    server.prepare(time).await?;
    let warm = server.round(time).await?;
    server.rate = warm.round.per_second();
    if let Some(bare) = &mut bare {
        same_size(&warm, &bare.round(&server, time).await?)?;
    }
    let mut measured = Measured { idle_mb: Some(idle_mb), ..Measured::default() };
    for _ in 0..effort.rounds {
        measured.fsyncs_ms.push(home.fsync_ms().await?);
        server.prepare(effort.time).await?;
        measured.rounds.push(server.round(effort.time).await?.round);
        if let Some(bare) = &mut bare {
            measured.baseline.push(bare.round(&server, effort.time).await?.round);
        }
    }
    measured.rss_mb = server.process.memory_mb("VmHWM")?;
    home.remove(server.close().await?).await?;
    Ok(measured)
}

/// `bursar serve` on a temporary database.
struct Server {
    process: Process,
    database: Database,
    work: Work,
    callers: usize,
    scopes: usize,
    /// The token of the measured callers.
    token: String,
    /// Operations per second so far.
    rate: f64,
    /// Waiting jobs.
    waiting: usize,
}

/// The figures of a round, and the size of the answer to each kind of request.
struct HttpRound {
    round: Round,
    answer_bytes: Vec<usize>,
}

impl Server {
    async fn open(home: &mut DatabaseHost, line: &Measurement) -> Result<Server, BenchError> {
        let database = home.database().await?;
        let args = ["serve", "--listen", "127.0.0.1:0", "--database", &database.url()].map(str::to_owned);
        let process = Process::start(&args, Some(OPERATOR)).await?;
        let work = line.work.ok_or_else(|| BenchError::Failed("the http bench needs a work".into()))?;
        let (callers, scopes, token) = (line.callers, line.scopes, String::new());
        Ok(Server { process, database, work, callers, scopes, token, rate: 0.0, waiting: 0 })
    }

    /// Defines budgets and creates the callers' token.
    async fn set_up(&mut self) -> Result<(), BenchError> {
        let (path, body) = match self.work {
            Work::Command => ("/v1/keys", r#"{"name":"bench","role":"user"}"#),
            _ => ("/v1/workers", r#"{"name":"bench","capabilities":{"queues":["work"],"kinds":["*"]}}"#),
        };
        let mut connection = Connection::open(self.process.address).await?;
        let created = connection.send(&request("POST", path, OPERATOR, body)).await?;
        created.value("\"token\":\"")?.clone_into(&mut self.token);
        let budget = format!(r#"{{"limits":[{{"amount":{AMPLE_LIMIT},"window":"month"}}]}}"#);
        let define = |scope: usize| request("PUT", &format!("/v1/budgets/agent:{scope:06}"), OPERATOR, &budget);
        self.send_each((0..self.scopes).map(define).collect()).await
    }

    /// Enqueues enough jobs for a round of this length.
    async fn prepare(&mut self, time: Duration) -> Result<(), BenchError> {
        if self.work == Work::Command {
            return Ok(());
        }
        let needed = (self.rate * time.as_secs_f64() * 1.5) as usize + (5 * BULK).max(20 * self.callers);
        let missing = needed.min(JOBS_MAX).saturating_sub(self.waiting).div_ceil(BULK);
        let jobs = vec![r#"{"queue":"work","kind":"nothing","payload":{"n":1}}"#; BULK].join(",");
        let enqueue = request("POST", "/v1/jobs/bulk", OPERATOR, &format!(r#"{{"jobs":[{jobs}]}}"#));
        self.send_each(vec![enqueue; missing]).await?;
        self.waiting += missing * BULK;
        Ok(())
    }

    async fn send_each(&self, requests: Vec<String>) -> Result<(), BenchError> {
        let requests: Arc<[String]> = requests.into();
        let mut tasks = JoinSet::new();
        for first in 0..SETUP_CONNECTIONS.min(requests.len()) {
            let (requests, mut connection) = (requests.clone(), Connection::open(self.process.address).await?);
            tasks.spawn(async move {
                for request in requests.iter().skip(first).step_by(SETUP_CONNECTIONS) {
                    connection.send(request).await?;
                }
                Ok::<_, BenchError>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    async fn round(&mut self, time: Duration) -> Result<HttpRound, BenchError> {
        let round = self.run_round(&self.process, &self.token, time).await?;
        self.waiting = self.waiting.saturating_sub(round.round.done);
        Ok(round)
    }

    /// Runs a round of callers on persistent connections.
    async fn run_round(&self, process: &Process, token: &str, time: Duration) -> Result<HttpRound, BenchError> {
        let requests = Arc::new(match self.work {
            Work::Command => Requests::Commands((0..self.scopes).map(|scope| command(scope, token)).collect()),
            _ => Requests::Leases { token: token.to_owned(), lease: lease(token) },
        });
        let mut connections = Vec::with_capacity(self.callers);
        for _ in 0..self.callers {
            connections.push(Connection::open(process.address).await?);
        }
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (caller, mut connection) in connections.into_iter().enumerate() {
            let (requests, callers) = (requests.clone(), self.callers);
            tasks.spawn(async move {
                let (mut waited, mut bytes) = (Vec::new(), Vec::new());
                let mut sent = Instant::now();
                for number in (caller..).step_by(callers) {
                    let over = !waited.is_empty() && sent.duration_since(begun) >= time;
                    if over || !requests.send(&mut connection, number, &mut bytes).await? {
                        break;
                    }
                    let answered = Instant::now();
                    waited.push(answered.duration_since(sent));
                    sent = answered;
                }
                Ok::<_, BenchError>((waited, bytes))
            });
        }
        let (mut waited, mut answer_bytes) = (Vec::new(), Vec::new());
        while let Some(caller) = tasks.join_next().await {
            let (times, bytes) = caller??;
            waited.extend(times);
            // A caller that found no job left has no answer sizes.
            answer_bytes = if bytes.is_empty() { answer_bytes } else { bytes };
        }
        let (done, took) = (waited.len(), begun.elapsed());
        if done == 0 {
            return Err(BenchError::Failed("no request was answered in a whole round".into()));
        }
        Ok(HttpRound { round: Round::of(waited, done, took), answer_bytes })
    }

    /// Runs `verify` and ends the server.
    async fn close(mut self) -> Result<Database, BenchError> {
        verify(self.process.address).await?;
        self.process.end()?;
        Ok(self.database)
    }
}

/// Runs `verify` on a server.
async fn verify(address: SocketAddr) -> Result<(), BenchError> {
    let mut connection = Connection::open(address).await?;
    let report = connection.send_slow(&request("GET", "/v1/verify", OPERATOR, "")).await?;
    match report.text()?.starts_with(r#"{"ok":true,"#) {
        true => Ok(()),
        false => Err(BenchError::NotClean(report.text()?.to_owned())),
    }
}

/// The server of bare routes.
struct Bare(Process);

impl Bare {
    async fn open() -> Result<Bare, BenchError> {
        Ok(Bare(Process::start(&BARE_SERVER_ARGS.map(str::to_owned), None).await?))
    }

    /// Runs a round with the same callers and requests.
    async fn round(&mut self, server: &Server, time: Duration) -> Result<HttpRound, BenchError> {
        server.run_round(&self.0, UNCHECKED_TOKEN, time).await
    }
}

/// The requests of callers.
enum Requests {
    /// A command on each scope, round-robin.
    Commands(Vec<String>),
    /// A lease and its completion.
    Leases { token: String, lease: String },
}

impl Requests {
    /// Sends one operation and records the sizes of its answers; returns `false` when no job is left.
    async fn send(&self, to: &mut Connection, number: usize, bytes: &mut Vec<usize>) -> Result<bool, BenchError> {
        match self {
            Requests::Commands(commands) => {
                let answered = to.send(&commands[number % commands.len()]).await?.len();
                bytes.clear();
                bytes.push(answered);
            }
            Requests::Leases { token, lease } => {
                let leased = to.send(lease).await?;
                if leased.text()? == r#"{"jobs":[]}"# {
                    return Ok(false);
                }
                let leased_bytes = leased.len();
                let (id, fence) = (leased.value("\"id\":\"")?, leased.value("\"fence\":")?);
                let (path, body) = (format!("/v1/jobs/{id}/complete"), format!(r#"{{"fence":{fence}}}"#));
                let completed_bytes = to.send(&request("POST", &path, token, &body)).await?.len();
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

/// Checks that both sides answer with the same number of bytes, up to small differences in ids.
fn same_size(server: &HttpRound, bare: &HttpRound) -> Result<(), BenchError> {
    let similar = |(one, other): (&usize, &usize)| one.abs_diff(*other) <= 16;
    let same = server.answer_bytes.len() == bare.answer_bytes.len();
    if same && server.answer_bytes.iter().zip(&bare.answer_bytes).all(similar) {
        return Ok(());
    }
    let (one, other) = (&server.answer_bytes, &bare.answer_bytes);
    Err(BenchError::Failed(format!("the server's answers have {one:?} bytes, those of the bare routes {other:?}")))
}
