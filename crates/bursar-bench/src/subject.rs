//! Bursar under measurement, through its public API and with its defaults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::meter::SliceSettings;
use bursar::{Budget, Bursar, IdSource, JobKind, JobSpec, Limit, Payload, Queue, Scope, Time};
use tokio::task::JoinSet;

use crate::engine::{Database, DatabaseHost};
use crate::error::BenchError;
use crate::history;
use crate::jobs;
use crate::load::{Round, closed_loop};
use crate::meter::App;
use crate::plan::{Bench, Keys, Measurement};

/// Bursar on a temporary database with defined scopes.
pub(crate) struct Subject {
    pub(crate) bursar: Bursar,
    pub(crate) database: Database,
    bench: Bench,
    callers: usize,
    /// Jobs per round, for benches with a fixed number.
    jobs: usize,
    /// Whether the worker runs in a child process.
    child_process: bool,
    scopes: Arc<[Scope]>,
    /// The metered application.
    app: Option<App>,
    /// Grant tokens for the next round.
    tokens: Arc<Tokens>,
    /// Operations per second so far.
    rate: f64,
}

/// A limit that admits everything.
pub(crate) const AMPLE_LIMIT: i64 = 1 << 50;
/// The time to live of holds, longer than a measurement.
const TTL: Duration = Duration::from_secs(300);
const GRANT_TTL: Duration = Duration::from_secs(24 * 3_600);
/// Tokens in one buffer, because they count as memory of the measured process.
#[derive(Default)]
struct Tokens {
    text: String,
    ends: Vec<usize>,
}

impl Tokens {
    /// Adds one of `of` tokens.
    fn push(&mut self, token: &str, of: usize) {
        if self.ends.is_empty() {
            self.text.reserve(of * token.len());
            self.ends.reserve(of);
        }
        self.text.push_str(token);
        self.ends.push(self.text.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, number: usize) -> &str {
        let from = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[from..self.ends[number]]
    }
}

/// The purpose and the subject of grants.
const PURPOSE: &str = "upload";
const SESSION: &str = "session-7";
/// The most grants minted for one round; a round that runs out of them ends.
const GRANTS_MAX: usize = 300_000;
/// The length of the first round, which is not counted. It also shows how many grants a round needs.
const WARM_UP: Duration = Duration::from_millis(300);

impl Subject {
    /// Opens Bursar, defines scopes and generates history. Random ids depend on the seed.
    pub(crate) async fn open(home: &mut DatabaseHost, line: &Measurement, seed: u64) -> Result<Subject, BenchError> {
        let database = home.database().await?;
        let (url, postgres) = home.connection(&database, line.through);
        let mut options = Bursar::options(&url).postgres(postgres);
        if line.keys == Keys::Random {
            options = options.ids(Arc::new(Mutex::new(ScatteredIds::new(seed))));
        }
        let bursar = options.open().await?;
        let names: Result<Arc<[Scope]>, _> =
            (0..line.scopes).map(|number| Scope::new(format!("agent:{number:06}"))).collect();
        let (bench, callers, jobs, scopes) = (line.bench, line.callers, line.jobs.unwrap_or(0), names?);
        let (child_process, tokens, app) = (line.child_process, Arc::default(), None);
        let mut subject =
            Subject { bursar, database, bench, callers, jobs, child_process, scopes, app, tokens, rate: 0.0 };
        if matches!(bench, Bench::Meter | Bench::MeterSlices) {
            let slices = (bench == Bench::MeterSlices).then(SliceSettings::default);
            subject.app = Some(App::open(Some(&subject.bursar), slices).await?);
            return Ok(subject);
        }
        if bench.is_on_jobs() {
            jobs::fill(&subject.bursar, &subject.database, line.history, line.backlog).await?;
            return Ok(subject);
        }
        let (bursar, scopes) = (subject.bursar.clone(), subject.scopes.clone());
        each(subject.scopes.len(), move |number| {
            let (bursar, scope) = (bursar.clone(), scopes[number].clone());
            async move {
                let month = Limit::new(AMPLE_LIMIT, "month".parse()?);
                Ok(bursar.ledger().define(&scope, Budget::new([month])).await?)
            }
        })
        .await?;
        history::fill(&subject.bursar, &subject.database, &subject.scopes, line.history, line.keys).await?;
        Ok(subject)
    }

    /// Runs the first round, which is not counted.
    pub(crate) async fn warm_up(&mut self, time: Duration) -> Result<(), BenchError> {
        if self.bench == Bench::Latency {
            // An idle system has been used before: its tables and its log are not empty.
            jobs::fill(&self.bursar, &self.database, jobs::WARM_JOBS, 0).await?;
        }
        if self.jobs > 0 {
            let jobs = std::mem::replace(&mut self.jobs, jobs::warm_up(self.bench));
            self.prepare(time).await?;
            self.round(time).await?;
            self.jobs = jobs;
            return Ok(());
        }
        self.mint(2_000.max(self.callers * 10)).await?;
        self.round(time.min(WARM_UP)).await.map(drop)
    }

    /// Prepares the jobs or grants for a round of this length.
    pub(crate) async fn prepare(&mut self, time: Duration) -> Result<(), BenchError> {
        if matches!(self.bench, Bench::Drain | Bench::DrainWorker) {
            jobs::enqueue_bulk(&self.bursar, 1, self.jobs).await?;
        }
        if self.bench.is_on_jobs() {
            return jobs::checkpoint(&self.database).await;
        }
        let needed = (self.rate * time.as_secs_f64() * 1.3) as usize + 2 * self.callers;
        self.mint(needed.min(GRANTS_MAX)).await
    }

    /// Runs one round.
    pub(crate) async fn round(&mut self, time: Duration) -> Result<Round, BenchError> {
        let (bursar, jobs) = (&self.bursar, self.jobs);
        match self.bench {
            Bench::EnqueueBulk => jobs::enqueue_bulk(bursar, self.callers, jobs).await,
            Bench::Drain => jobs::drain(bursar, self.callers, jobs).await,
            Bench::DrainWorker => jobs::drain_by_worker(bursar, self.callers, jobs).await,
            Bench::Latency => jobs::latency(bursar, &self.database, self.child_process, jobs).await,
            Bench::Command | Bench::Hold | Bench::Settle | Bench::Enqueue => self.closed_loop_round(time).await,
            Bench::Http | Bench::Blob => Err(BenchError::Failed("the server is measured in a child process".into())),
            Bench::Meter | Bench::MeterSlices => {
                let app =
                    self.app.as_ref().ok_or_else(|| BenchError::Failed("the application is not running".into()))?;
                app.round(self.callers, self.scopes.len(), time).await
            }
        }
    }

    /// Runs a round of closed-loop callers.
    async fn closed_loop_round(&mut self, time: Duration) -> Result<Round, BenchError> {
        let most = if self.bench == Bench::Command { self.tokens.len() } else { usize::MAX };
        let (bench, bursar, scopes, tokens) =
            (self.bench, self.bursar.clone(), self.scopes.clone(), self.tokens.clone());
        let operation = move |number: usize| {
            let (bursar, scopes, tokens) = (bursar.clone(), scopes.clone(), tokens.clone());
            async move {
                let scope = || &scopes[number % scopes.len()];
                match bench {
                    Bench::Command => command(&bursar, scope(), tokens.get(number)).await,
                    Bench::Hold => hold(&bursar, scope()).await,
                    Bench::Settle => settle(&bursar, scope()).await,
                    _ => jobs::enqueue(&bursar).await,
                }
            }
        };
        let round = closed_loop(self.callers, time, most, operation).await?;
        self.rate = self.rate.max(round.per_second());
        self.tokens = Arc::default();
        Ok(round)
    }

    /// Mints grants concurrently.
    async fn mint(&mut self, count: usize) -> Result<(), BenchError> {
        if self.bench != Bench::Command {
            return Ok(());
        }
        let tokens = Arc::new(Mutex::new(Tokens::default()));
        let (bursar, minted) = (self.bursar.clone(), tokens.clone());
        each(count, move |_| {
            let (bursar, minted) = (bursar.clone(), minted.clone());
            async move {
                let payload = Payload::of(&"asset-7")?;
                let grant = bursar.grants().mint(PURPOSE, SESSION, payload, GRANT_TTL).await?;
                let token = grant.token.ok_or_else(|| BenchError::Failed("a new grant has no token".into()))?;
                minted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(&token, count);
                Ok(())
            }
        })
        .await?;
        let tokens = std::mem::take(&mut *tokens.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        self.tokens = Arc::new(tokens);
        Ok(())
    }

    /// Runs `verify` and closes Bursar.
    pub(crate) async fn close(self) -> Result<Database, BenchError> {
        let report = self.bursar.verify().await?;
        if !report.is_ok() {
            return Err(BenchError::NotClean(report.violations.join("; ")));
        }
        Ok(self.into_database().await)
    }

    /// Closes Bursar and returns its database.
    pub(crate) async fn into_database(self) -> Database {
        self.bursar.close().await;
        self.database
    }
}

/// A metered command.
async fn command(bursar: &Bursar, scope: &Scope, token: &str) -> Result<(), BenchError> {
    let job = JobSpec::new(Queue::new("media")?, JobKind::new("video.generate")?, Payload::of(&"a red fox, running")?);
    let command = bursar.command().charge(scope, 1).settle_with_job();
    command.redeem(PURPOSE, SESSION, token).job(job).submit().await?;
    Ok(())
}

async fn hold(bursar: &Bursar, scope: &Scope) -> Result<(), BenchError> {
    bursar.command().charge(scope, 1).hold_for(TTL).submit().await?;
    Ok(())
}

async fn settle(bursar: &Bursar, scope: &Scope) -> Result<(), BenchError> {
    let (held, _) = bursar.command().charge(scope, 2).hold_for(TTL).submit_held().await?;
    held.commit(1).await.map_err(bursar::Error::from)?;
    Ok(())
}

/// Concurrent requests during setup.
const AT_ONCE: usize = 1_000;

/// Runs `work` for each number below `count`, concurrently.
async fn each<F>(count: usize, work: impl Fn(usize) -> F + Clone + Send + 'static) -> Result<(), BenchError>
where
    F: Future<Output = Result<(), BenchError>> + Send,
{
    let mut tasks = JoinSet::new();
    for first in 0..count.min(AT_ONCE) {
        let work = work.clone();
        tasks.spawn(async move {
            for number in (first..count).step_by(AT_ONCE) {
                work(number).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Random ids without any order, the same in every run.
pub(crate) struct ScatteredIds(u64);

impl ScatteredIds {
    pub(crate) fn new(seed: u64) -> ScatteredIds {
        ScatteredIds(seed << 48)
    }

    /// Returns the next number of splitmix64.
    fn next_number(&mut self) -> u128 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(z ^ (z >> 31))
    }
}

impl IdSource for ScatteredIds {
    fn next_id(&mut self, _: Time) -> u128 {
        self.next_number() << 64 | self.next_number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Baseline;
    use crate::sqlite::Folder;

    #[tokio::test(flavor = "multi_thread")]
    async fn violations_make_a_measurement_invalid() {
        let mut home = DatabaseHost::Sqlite(Folder::new(None).unwrap());
        let line = Measurement {
            bench: Bench::Hold,
            work: None,
            callers: 2,
            scopes: 1,
            jobs: None,
            child_process: false,
            history: 25,
            backlog: 0,
            keys: Keys::Time,
            snapshot: false,
            through: None,
            baseline: Baseline::None,
        };
        for tampered in [false, true] {
            let mut subject = Subject::open(&mut home, &line, 1).await.unwrap();
            assert!(subject.round(Duration::from_millis(500)).await.unwrap().done > 0);
            if tampered && let Database::Sqlite(file) = &subject.database {
                let (conn, sql) = (file.connect().unwrap(), "UPDATE bursar_live_charges SET amount = amount + 1");
                // The first charges of a scope are stored in its row.
                while conn.execute(sql, []).unwrap() == 0 {
                    subject.round(Duration::from_millis(50)).await.unwrap();
                }
            }
            match subject.close().await {
                Ok(_) => assert!(!tampered),
                Err(error) => assert!(tampered && matches!(error, BenchError::NotClean(_)), "{error}"),
            }
        }
    }
}
