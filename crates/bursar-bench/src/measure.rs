//! Measuring: one line after the other, both sides in turn.

use crate::engine::Home;
use crate::error::BenchError;
use crate::limit::Limit;
use crate::machine::{Machine, peak_mb, reset_peak};
use crate::plan::{Baseline, Effort, Keys, Measurement, Options};
use crate::postgres::Server;
use crate::report::{Line, Measured};
use crate::sqlite::Folder;
use crate::subject::Subject;

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

/// Measures what was asked for. Takes a runtime of its own, as a program that embeds Bursar has.
pub fn run(options: &Options, tell: &mut dyn FnMut(Told)) -> Result<(), BenchError> {
    options.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        tell(Told::Place(Machine::describe().to_string()));
        match options.database.as_deref() {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                measure_all(Home::Postgres(Server::at(url)), options, tell).await
            }
            Some(url) => measure_all(Home::Sqlite(Folder::new(Some(url))?), options, tell).await,
            None => {
                measure_all(Home::Sqlite(Folder::new(None)?), options, tell).await?;
                match Server::throwaway()? {
                    Some(server) => measure_all(Home::Postgres(server), options, tell).await,
                    None => {
                        let missing = "PostgreSQL is not installed here: only SQLite was measured";
                        tell(Told::Note(missing.into()));
                        Ok(())
                    }
                }
            }
        }
    })
}

async fn measure_all(mut home: Home, options: &Options, tell: &mut dyn FnMut(Told)) -> Result<(), BenchError> {
    let done = measure_each(&mut home, options, tell).await;
    let closed = home.close().await;
    done.and(closed)
}

async fn measure_each(home: &mut Home, options: &Options, tell: &mut dyn FnMut(Told)) -> Result<(), BenchError> {
    let fsync = home.fsync_ms().await?;
    tell(Told::Place(format!("{}; one fsync takes {fsync:.2} ms", home.describe().await?)));
    for line in options.plan() {
        let measured = measure(home, &line, options.effort()).await?;
        tell(Told::Line(Box::new(Line::new(home.engine(), &line, &measured))));
    }
    Ok(())
}

/// What a subject is compared with.
enum Rival {
    None,
    Limit(Box<Limit>),
}

async fn measure(home: &mut Home, line: &Measurement, effort: Effort) -> Result<Measured, BenchError> {
    let mut subject = Subject::open(home, line, Keys::Time).await?;
    let mut rival = match line.baseline {
        Baseline::None => Rival::None,
        Baseline::BulkInsert => Rival::Limit(Box::new(Limit::open(home, &subject).await?)),
    };
    subject.warm_up(effort.time).await?;
    let fsync_ms = home.fsync_ms().await?;
    let (mut rounds, mut others, mut rss_mb) = (Vec::new(), Vec::new(), 0.0_f64);
    for _ in 0..effort.rounds {
        subject.prepare(effort.time).await?;
        if let Rival::Limit(limit) = &mut rival {
            limit.mark().await?;
        }
        reset_peak();
        rounds.push(subject.round(effort.time).await?);
        rss_mb = rss_mb.max(peak_mb());
        match &mut rival {
            Rival::None => {}
            Rival::Limit(limit) => others.push(limit.round(line.bench).await?),
        }
    }
    let baseline = match rival {
        Rival::None => None,
        Rival::Limit(limit) => {
            home.remove(limit.close().await?).await?;
            Some((line.baseline.as_str().to_owned(), others))
        }
    };
    home.remove(subject.close().await?).await?;
    Ok(Measured { rounds, baseline, fsync_ms, rss_mb })
}
