//! Bursar as it is measured: through its public face, with its defaults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{Budget, Bursar, IdSource, JobKind, JobSpec, Limit, Payload, Queue, Scope, Time};
use tokio::task::JoinSet;

use crate::engine::{Database, Home};
use crate::error::BenchError;
use crate::history;
use crate::jobs;
use crate::load::{Round, closed_loop};
use crate::meter::Site;
use crate::plan::{Bench, Keys, Measurement};

/// Bursar on a database of its own, with its scopes registered.
pub(crate) struct Subject {
    pub(crate) bursar: Bursar,
    pub(crate) database: Database,
    bench: Bench,
    callers: usize,
    /// Jobs of a round, where that is not a matter of time.
    jobs: usize,
    /// Whether the worker has a process of its own.
    apart: bool,
    scopes: Arc<[Scope]>,
    /// The application that it meters.
    site: Option<Site>,
    /// Tokens of grants for the round to come.
    tokens: Arc<Tokens>,
    /// Operations a second, as far as is known.
    rate: f64,
}

/// What a limit is set to, so that it admits everything.
pub(crate) const AMPLE: i64 = 1 << 50;
/// A hold outlives the measurement of its line.
const TTL: Duration = Duration::from_secs(300);
const GRANT_TTL: Duration = Duration::from_secs(24 * 3_600);
/// Tokens, one after the other: what the callers keep counts as memory of the process.
#[derive(Default)]
struct Tokens {
    text: String,
    ends: Vec<usize>,
}

impl Tokens {
    /// Adds one of so many.
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

/// What the grants permit, and whom.
const PURPOSE: &str = "upload";
const SESSION: &str = "session-7";
/// Grants that are made for one round at most; a round that used them up ends there.
const GRANTS_MAX: usize = 300_000;
/// The first round is not counted: it warms up, and tells how many grants a round needs.
const WARM_UP: Duration = Duration::from_millis(300);

impl Subject {
    /// Opens it, registers its scopes and gives it a past. Ids that are made at random depend on the seed.
    pub(crate) async fn open(home: &mut Home, line: &Measurement, seed: u64) -> Result<Subject, BenchError> {
        let database = home.database().await?;
        let mut options = Bursar::options(&database.url());
        if line.keys == Keys::Random {
            options = options.ids(Arc::new(Mutex::new(Scattered::new(seed))));
        }
        let bursar = options.open().await?;
        let names: Result<Arc<[Scope]>, _> =
            (0..line.scopes).map(|number| Scope::new(format!("agent:{number:06}"))).collect();
        let (bench, callers, jobs, scopes) = (line.bench, line.callers, line.jobs.unwrap_or(0), names?);
        let (apart, tokens, site) = (line.apart, Arc::default(), None);
        let mut subject = Subject { bursar, database, bench, callers, jobs, apart, scopes, site, tokens, rate: 0.0 };
        if bench == Bench::Meter {
            subject.site = Some(Site::open(Some(&subject.bursar)).await?);
            return Ok(subject);
        }
        if bench.is_of_jobs() {
            jobs::fill(&subject.bursar, &subject.database, line.history, line.backlog).await?;
            return Ok(subject);
        }
        let (bursar, scopes) = (subject.bursar.clone(), subject.scopes.clone());
        each(subject.scopes.len(), move |number| {
            let (bursar, scope) = (bursar.clone(), scopes[number].clone());
            async move {
                let month = Limit::new(AMPLE, "month".parse()?);
                Ok(bursar.ledger().define(&scope, Budget::new([month])).await?)
            }
        })
        .await?;
        history::fill(&subject.bursar, &subject.database, &subject.scopes, line.history, line.keys).await?;
        Ok(subject)
    }

    /// The first round.
    pub(crate) async fn warm_up(&mut self, time: Duration) -> Result<(), BenchError> {
        if self.bench == Bench::Latency {
            // A system that is idle has not always been: its tables and its log have been written to.
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

    /// What a round of this length needs beforehand.
    pub(crate) async fn prepare(&mut self, time: Duration) -> Result<(), BenchError> {
        if matches!(self.bench, Bench::Drain | Bench::DrainWorker) {
            jobs::enqueue_bulk(&self.bursar, 1, self.jobs).await?;
        }
        if self.bench.is_of_jobs() {
            return jobs::rest(&self.database).await;
        }
        let needed = (self.rate * time.as_secs_f64() * 1.3) as usize + 2 * self.callers;
        self.mint(needed.min(GRANTS_MAX)).await
    }

    /// One round.
    pub(crate) async fn round(&mut self, time: Duration) -> Result<Round, BenchError> {
        let (bursar, jobs) = (&self.bursar, self.jobs);
        match self.bench {
            Bench::EnqueueBulk => jobs::enqueue_bulk(bursar, self.callers, jobs).await,
            Bench::Drain => jobs::drain(bursar, self.callers, jobs).await,
            Bench::DrainWorker => jobs::drain_by_worker(bursar, self.callers, jobs).await,
            Bench::Latency => jobs::latency(bursar, &self.database, self.apart, jobs).await,
            Bench::Command | Bench::Hold | Bench::Settle | Bench::Enqueue => self.asked(time).await,
            Bench::Http => Err(BenchError::Failed("the server is measured in a process of its own".into())),
            Bench::Meter => {
                let site = self.site.as_ref().ok_or_else(|| BenchError::Failed("there is no application".into()))?;
                site.round(self.callers, self.scopes.len(), time).await
            }
        }
    }

    /// A round of callers that ask, wait and ask again.
    async fn asked(&mut self, time: Duration) -> Result<Round, BenchError> {
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

    /// Makes grants, many at once.
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
                let token = grant.token.ok_or_else(|| BenchError::Failed("a new grant has a token".into()))?;
                minted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(&token, count);
                Ok(())
            }
        })
        .await?;
        let tokens = std::mem::take(&mut *tokens.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        self.tokens = Arc::new(tokens);
        Ok(())
    }

    /// Checks the books, and ends.
    pub(crate) async fn close(self) -> Result<Database, BenchError> {
        let report = self.bursar.verify().await?;
        if !report.is_ok() {
            return Err(BenchError::NotClean(report.violations.join("; ")));
        }
        Ok(self.leave().await)
    }

    /// Ends, and leaves the database to somebody else.
    pub(crate) async fn leave(self) -> Database {
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
    held.commit(1).await?;
    Ok(())
}

/// How many are asked for at once where nothing is measured.
const AT_ONCE: usize = 1_000;

/// Does something so many times, many at once.
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

/// Ids all over the place, the same in every run.
pub(crate) struct Scattered(u64);

impl Scattered {
    pub(crate) fn new(seed: u64) -> Scattered {
        Scattered(seed << 48)
    }

    /// The next number of splitmix64.
    fn next_number(&mut self) -> u128 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(z ^ (z >> 31))
    }
}

impl IdSource for Scattered {
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
    async fn books_that_do_not_balance_make_a_measurement_worth_nothing() {
        let mut home = Home::Sqlite(Folder::new(None).unwrap());
        let line = Measurement {
            bench: Bench::Hold,
            work: None,
            callers: 2,
            scopes: 1,
            jobs: None,
            apart: false,
            history: 25,
            backlog: 0,
            keys: Keys::Time,
            snapshot: false,
            baseline: Baseline::None,
        };
        for tampered in [false, true] {
            let mut subject = Subject::open(&mut home, &line, 1).await.unwrap();
            assert!(subject.round(Duration::from_millis(500)).await.unwrap().done > 0);
            if tampered && let Database::Sqlite(file) = &subject.database {
                let (conn, sql) = (file.connect().unwrap(), "UPDATE bursar_live_charges SET amount = amount + 1");
                // The first charges of a scope stand in its row.
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
