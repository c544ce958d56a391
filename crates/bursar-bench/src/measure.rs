//! Measuring: one line after the other, both sides in turn.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::engine::Home;
use crate::error::BenchError;
use crate::http;
use crate::limit::Limit;
use crate::load::Round;
use crate::machine::{Machine, peak_mb, reset_peak};
use crate::meter::Site;
use crate::plan::{Baseline, Bench, Effort, HISTORY_SHORT, Keys, Measurement, Options};
use crate::postgres::Server;
use crate::report::{Line, Measured};
use crate::snapshot::Snapshot;
use crate::sqlite::Folder;
use crate::subject::Subject;
use crate::textbook::{CONNECTIONS_MAX, Textbook};

/// What a run tells as it goes.
#[derive(Clone, Debug)]
pub enum Told {
    /// What the figures are measured on: the machine, then each engine.
    Place(String),
    /// A figure.
    Line(Box<Line>),
    /// Something to know beside the figures.
    Note(String),
}

/// Whom to tell.
type Tell<'a> = &'a mut dyn FnMut(Told);

/// Measures what was asked for, and removes what it made; also when it is interrupted. Takes a runtime of its own, as a
/// program that embeds Bursar has.
pub fn run(options: &Options, tell: Tell<'_>) -> Result<(), BenchError> {
    options.check()?;
    let (options, ignored) = options.fit();
    ignored.into_iter().for_each(|note| tell(Told::Note(note)));
    let options = &options;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        tell(Told::Place(Machine::describe().to_string()));
        match options.database.as_deref() {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                measure_all(Home::Postgres(Server::at(url)), options, &mut stop, tell).await
            }
            Some(url) => measure_all(Home::Sqlite(Folder::new(Some(url))?), options, &mut stop, tell).await,
            None => {
                measure_all(Home::Sqlite(Folder::new(None)?), options, &mut stop, tell).await?;
                match Server::throwaway().await? {
                    Some(server) => measure_all(Home::Postgres(server), options, &mut stop, tell).await,
                    None => {
                        let missing = "PostgreSQL is not installed here or does not start: only SQLite was measured";
                        tell(Told::Note(missing.into()));
                        Ok(())
                    }
                }
            }
        }
    })
}

/// Signals to stop, which are noticed also while nobody looks.
struct Stop([Signal; 2]);

impl Stop {
    fn new() -> Result<Stop, BenchError> {
        Ok(Stop([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]))
    }

    async fn told(&mut self) -> BenchError {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => BenchError::Interrupted,
            _ = terminate.recv() => BenchError::Interrupted,
        }
    }
}

async fn measure_all(mut home: Home, options: &Options, stop: &mut Stop, tell: Tell<'_>) -> Result<(), BenchError> {
    let done = tokio::select! {
        done = measure_each(&mut home, options, tell) => done,
        interrupted = stop.told() => Err(interrupted),
    };
    let closed = home.close().await;
    done.and(closed)
}

async fn measure_each(home: &mut Home, options: &Options, tell: Tell<'_>) -> Result<(), BenchError> {
    let fsync = home.fsync_ms().await?;
    let synced = match fsync > 0.0 {
        true => format!("one fsync takes {fsync:.2} ms"),
        false => "one fsync takes no time that can be told".to_owned(),
    };
    tell(Told::Place(format!("{}; {synced}", home.describe().await?)));
    let lines = options.plan();
    if lines.iter().any(|line| line.baseline == Baseline::Textbook && line.callers > CONNECTIONS_MAX) {
        let capped = format!("the textbook design has {CONNECTIONS_MAX} connections at most, which its callers share");
        tell(Told::Note(capped));
    }
    for line in lines {
        let measured = match line.bench {
            Bench::Http => http::measure(home, &line, options.effort()).await?,
            _ => measure(home, &line, options.effort()).await?,
        };
        if let Some(idle) = measured.idle_mb {
            let memory = format!("the server has {idle:.0} MB idle, and {:.0} MB at most under load", measured.rss_mb);
            tell(Told::Note(memory));
        }
        if measured.baseline_busy > 0 {
            let busy = format!("{} operations of the textbook design failed: database is busy", measured.baseline_busy);
            tell(Told::Note(busy));
        }
        let told = Line::new(home.engine(), &line, &measured);
        if let Some(after) = told.baseline_history_rows {
            let before = told.history_rows;
            let grew = format!("the history of the textbook design grew from {before} to {after} rows by what it did");
            tell(Told::Note(grew));
        }
        tell(Told::Line(Box::new(told)));
    }
    Ok(())
}

/// What a subject is compared with.
enum Rival {
    None,
    Limit(Box<Limit>),
    Textbook(Textbook),
    Subject(Box<Subject>),
    Unmetered(Site),
}

/// Seeds of random ids: the same on both sides, where each has a database of its own.
const SEED: u64 = 1;

impl Rival {
    async fn open(home: &mut Home, line: &Measurement, subject: &Subject) -> Result<Rival, BenchError> {
        Ok(match line.baseline {
            // The bare route stands beside the server, which is no subject.
            Baseline::None | Baseline::Axum => Rival::None,
            Baseline::BulkInsert => Rival::Limit(Box::new(Limit::open(home, subject, line).await?)),
            Baseline::Textbook => Rival::Textbook(Textbook::open(home, line).await?),
            Baseline::History10k => {
                let short = Measurement { history: HISTORY_SHORT, ..line.clone() };
                Rival::Subject(Box::new(Subject::open(home, &short, SEED).await?))
            }
            Baseline::Empty => {
                let (history, backlog, keys) = (0, 0, Keys::Time);
                let empty = Measurement { history, backlog, keys, ..line.clone() };
                Rival::Subject(Box::new(Subject::open(home, &empty, SEED).await?))
            }
            Baseline::Unmetered => Rival::Unmetered(Site::open(None).await?),
        })
    }

    async fn close(self, home: &mut Home) -> Result<(), BenchError> {
        let database = match self {
            Rival::None | Rival::Unmetered(_) => return Ok(()),
            Rival::Limit(limit) => limit.close().await?,
            Rival::Textbook(textbook) => textbook.close().await,
            Rival::Subject(subject) => subject.close().await?,
        };
        home.remove(database).await
    }
}

async fn measure(home: &mut Home, line: &Measurement, effort: Effort) -> Result<Measured, BenchError> {
    let mut subject = Subject::open(home, line, SEED).await?;
    let mut rival = Rival::open(home, line, &subject).await?;
    let snapshot = if line.snapshot { Some(Snapshot::hold(&subject.database).await?) } else { None };
    subject.warm_up(effort.time).await?;
    if let Rival::Subject(short) = &mut rival {
        short.warm_up(effort.time).await?;
    }
    let mut measured = Measured::default();
    for _ in 0..effort.rounds {
        measured.fsyncs_ms.push(home.fsync_ms().await?);
        subject.prepare(effort.time).await?;
        if let Rival::Limit(limit) = &mut rival {
            limit.mark().await?;
        }
        reset_peak();
        measured.rounds.push(subject.round(effort.time).await?);
        measured.rss_mb = measured.rss_mb.max(peak_mb());
        let (round, busy) = rival_round(&mut rival, line, effort).await?;
        measured.baseline.extend(round);
        measured.baseline_busy += busy;
    }
    if let Some(snapshot) = snapshot {
        snapshot.release().await?;
    }
    rival.close(home).await?;
    home.remove(subject.close().await?).await?;
    Ok(measured)
}

/// A round of the other side, and how many of its operations failed.
async fn rival_round(
    rival: &mut Rival,
    line: &Measurement,
    effort: Effort,
) -> Result<(Option<Round>, usize), BenchError> {
    Ok(match rival {
        Rival::None => (None, 0),
        Rival::Limit(limit) => (Some(limit.round(line.bench).await?), 0),
        Rival::Textbook(textbook) => {
            let (round, busy) = textbook.round(effort.time).await?;
            (Some(round), busy)
        }
        Rival::Subject(subject) => {
            subject.prepare(effort.time).await?;
            (Some(subject.round(effort.time).await?), 0)
        }
        Rival::Unmetered(site) => (Some(site.round(line.callers, line.scopes, effort.time).await?), 0),
    })
}
