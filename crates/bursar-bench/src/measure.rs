//! Measuring: line by line, with alternating rounds of Bursar and the baseline.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::engine::DatabaseHost;
use crate::error::BenchError;
use crate::http;
use crate::limit::Limit;
use crate::load::Round;
use crate::machine::{Machine, peak_mb, reset_peak};
use crate::meter::App;
use crate::plan::{Baseline, Bench, Effort, HISTORY_SHORT, Keys, Measurement, Options, Work};
use crate::postgres::Server;
use crate::report::{Line, Measured};
use crate::snapshot::Snapshot;
use crate::sqlite::Folder;
use crate::subject::Subject;
use crate::textbook::{CONNECTIONS_MAX, Textbook};

/// Output of a run.
#[derive(Clone, Debug)]
pub enum Told {
    /// A description of the machine or of an engine.
    Place(String),
    /// A result.
    Line(Box<Line>),
    /// A note about the results.
    Note(String),
}

/// Receives the output.
type Sink<'a> = &'a mut dyn FnMut(Told);

/// Runs the measurements and removes their databases, even when interrupted. It creates its own runtime, as a program that
/// embeds Bursar would.
pub fn run(options: &Options, output: Sink<'_>) -> Result<(), BenchError> {
    options.check()?;
    let (options, ignored) = options.fit();
    ignored.into_iter().for_each(|note| output(Told::Note(note)));
    let options = &options;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = StopSignals::new()?;
        output(Told::Place(Machine::describe().to_string()));
        match options.database.as_deref() {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                measure_all(DatabaseHost::Postgres(Server::at(url)), options, &mut stop, output).await
            }
            Some(url) => measure_all(DatabaseHost::Sqlite(Folder::new(Some(url))?), options, &mut stop, output).await,
            None if options.through.is_some() => match Server::throwaway().await? {
                Some(server) => measure_all(DatabaseHost::Postgres(server), options, &mut stop, output).await,
                None => Err(BenchError::Failed("PostgreSQL is not installed or does not start".into())),
            },
            None => {
                measure_all(DatabaseHost::Sqlite(Folder::new(None)?), options, &mut stop, output).await?;
                match Server::throwaway().await? {
                    Some(server) => measure_all(DatabaseHost::Postgres(server), options, &mut stop, output).await,
                    None => {
                        let missing = "PostgreSQL is not installed or does not start; only SQLite was measured";
                        output(Told::Note(missing.into()));
                        Ok(())
                    }
                }
            }
        }
    })
}

/// Termination signals, which are recorded from the start.
struct StopSignals([Signal; 2]);

impl StopSignals {
    fn new() -> Result<StopSignals, BenchError> {
        Ok(StopSignals([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]))
    }

    async fn received(&mut self) -> BenchError {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => BenchError::Interrupted,
            _ = terminate.recv() => BenchError::Interrupted,
        }
    }
}

async fn measure_all(
    mut home: DatabaseHost,
    options: &Options,
    stop: &mut StopSignals,
    output: Sink<'_>,
) -> Result<(), BenchError> {
    let done = tokio::select! {
        done = measure_each(&mut home, options, output) => done,
        interrupted = stop.received() => Err(interrupted),
    };
    let closed = home.close().await;
    match done {
        // Its message says that the databases were removed.
        Err(BenchError::Interrupted) => closed.and(done),
        _ => done.and(closed),
    }
}

async fn measure_each(home: &mut DatabaseHost, options: &Options, output: Sink<'_>) -> Result<(), BenchError> {
    let fsync = home.fsync_ms().await?;
    let synced = match fsync > 0.0 {
        true => format!("one fsync takes {fsync:.2} ms"),
        false => "one fsync takes no measurable time".to_owned(),
    };
    output(Told::Place(format!("{}; {synced}", home.describe().await?)));
    let lines = options.plan();
    if lines.iter().any(|line| line.baseline == Baseline::Textbook && line.callers > CONNECTIONS_MAX) {
        let capped = format!("the callers of the textbook design share at most {CONNECTIONS_MAX} connections");
        output(Told::Note(capped));
    }
    for mut line in lines {
        if line.baseline == Baseline::Files && line.work == Some(Work::GetSmall) && !http::blobs::nginx_is_installed() {
            output(Told::Note("nginx is not installed: downloads are measured without a baseline".into()));
            line.baseline = Baseline::None;
        }
        let measured = match line.bench {
            Bench::Http => http::measure(home, &line, options.effort()).await?,
            Bench::Blob => http::blobs::measure(home, &line, options.effort()).await?,
            _ => measure(home, &line, options.effort()).await?,
        };
        if let Some(idle) = measured.idle_mb {
            let memory = format!("the server uses {idle:.0} MB idle and at most {:.0} MB under load", measured.rss_mb);
            output(Told::Note(memory));
        }
        if measured.baseline_busy > 0 {
            let busy = format!(
                "{} operations of the textbook design failed because the database was busy",
                measured.baseline_busy
            );
            output(Told::Note(busy));
        }
        let result = Line::new(home.engine(), &line, &measured);
        if let Some(after) = result.baseline_history_rows {
            let before = result.history_rows;
            let grew =
                format!("the history of the textbook design grew from {before} to {after} rows during the measurement");
            output(Told::Note(grew));
        }
        output(Told::Line(Box::new(result)));
    }
    Ok(())
}

/// The baseline of a measurement.
enum BaselineRunner {
    None,
    Limit(Box<Limit>),
    Textbook(Textbook),
    Subject(Box<Subject>),
    Unmetered(App),
}

/// The seed of random ids, the same on both sides, which have separate databases.
const SEED: u64 = 1;

impl BaselineRunner {
    async fn open(
        home: &mut DatabaseHost,
        line: &Measurement,
        subject: &Subject,
    ) -> Result<BaselineRunner, BenchError> {
        Ok(match line.baseline {
            // The bare routes and plain files are measured in `http`.
            Baseline::None | Baseline::Axum | Baseline::Files => BaselineRunner::None,
            Baseline::BulkInsert => BaselineRunner::Limit(Box::new(Limit::open(home, subject, line).await?)),
            Baseline::Textbook => BaselineRunner::Textbook(Textbook::open(home, line).await?),
            Baseline::History10k => {
                let short = Measurement { history: HISTORY_SHORT, ..line.clone() };
                BaselineRunner::Subject(Box::new(Subject::open(home, &short, SEED).await?))
            }
            Baseline::Empty => {
                let (history, backlog, keys) = (0, 0, Keys::Time);
                let empty = Measurement { history, backlog, keys, ..line.clone() };
                BaselineRunner::Subject(Box::new(Subject::open(home, &empty, SEED).await?))
            }
            Baseline::Unmetered => BaselineRunner::Unmetered(App::open(None, None).await?),
            Baseline::Direct => {
                let direct = Measurement { through: None, ..line.clone() };
                BaselineRunner::Subject(Box::new(Subject::open(home, &direct, SEED).await?))
            }
        })
    }

    async fn close(self, home: &mut DatabaseHost) -> Result<(), BenchError> {
        let database = match self {
            BaselineRunner::None | BaselineRunner::Unmetered(_) => return Ok(()),
            BaselineRunner::Limit(limit) => limit.close().await?,
            BaselineRunner::Textbook(textbook) => textbook.close().await,
            BaselineRunner::Subject(subject) => subject.close().await?,
        };
        home.remove(database).await
    }
}

async fn measure(home: &mut DatabaseHost, line: &Measurement, effort: Effort) -> Result<Measured, BenchError> {
    let mut subject = Subject::open(home, line, SEED).await?;
    let mut baseline = BaselineRunner::open(home, line, &subject).await?;
    let snapshot = if line.snapshot { Some(Snapshot::hold(&subject.database).await?) } else { None };
    subject.warm_up(effort.time).await?;
    if let BaselineRunner::Subject(short) = &mut baseline {
        short.warm_up(effort.time).await?;
    }
    let mut measured = Measured::default();
    for _ in 0..effort.rounds {
        measured.fsyncs_ms.push(home.fsync_ms().await?);
        subject.prepare(effort.time).await?;
        if let BaselineRunner::Limit(limit) = &mut baseline {
            limit.mark().await?;
        }
        reset_peak();
        measured.rounds.push(subject.round(effort.time).await?);
        measured.rss_mb = measured.rss_mb.max(peak_mb());
        let (round, busy) = baseline_round(&mut baseline, line, effort).await?;
        measured.baseline.extend(round);
        measured.baseline_busy += busy;
    }
    if let Some(snapshot) = snapshot {
        snapshot.release().await?;
    }
    baseline.close(home).await?;
    home.remove(subject.close().await?).await?;
    Ok(measured)
}

/// Runs a round of the baseline; returns its figures and the number of failed operations.
async fn baseline_round(
    baseline: &mut BaselineRunner,
    line: &Measurement,
    effort: Effort,
) -> Result<(Option<Round>, usize), BenchError> {
    Ok(match baseline {
        BaselineRunner::None => (None, 0),
        BaselineRunner::Limit(limit) => (Some(limit.round(line.bench).await?), 0),
        BaselineRunner::Textbook(textbook) => {
            let (round, busy) = textbook.round(effort.time).await?;
            (Some(round), busy)
        }
        BaselineRunner::Subject(subject) => {
            subject.prepare(effort.time).await?;
            (Some(subject.round(effort.time).await?), 0)
        }
        BaselineRunner::Unmetered(app) => (Some(app.round(line.callers, line.scopes, effort.time).await?), 0),
    })
}
