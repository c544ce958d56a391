//! `bursar bench`: how fast it is here, beside what the engine itself can do.

use bursar_bench::{BenchError, Line, Options, Told};
use clap::Args;

use crate::args::Asked;
use crate::exit::Exit;
use crate::output::Output;
use bursar_server::wire::problem::{Kind, Problem};

/// What to measure.
#[derive(Args)]
#[command(after_help = "\
Both engines are measured in places of their own: SQLite in a temporary folder, PostgreSQL on a throwaway server if it \
is installed. With --database sqlite://PATH databases are made beside PATH, with postgres://… on that server; what is \
there already is left alone, and all that was made is removed. BURSAR_DATABASE and the configuration file are not looked at: \
they name a database that is used. How to read the figures: docs/performance.md.")]
pub(crate) struct Bench {
    /// command, hold or settle; of jobs enqueue, enqueue-bulk, drain, drain-worker or latency; over HTTP meter or http; the
    /// standard set unless said
    name: Option<bursar_bench::Bench>,
    /// Callers at once; loops that drain, handlers of a worker that does, calls that enqueue in bulk
    #[arg(long, value_name = "N")]
    callers: Option<usize>,
    /// Scopes they charge in turn
    #[arg(long, value_name = "N")]
    scopes: Option<usize>,
    /// Jobs of a round, where it does not take seconds: 100,000, or 200 of which the latency is measured
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Processes that the latency is measured over: with 2 the worker has one of its own
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// Rows of history; in benches of jobs finished jobs that are kept
    #[arg(long, value_name = "N")]
    history: Option<u64>,
    /// Jobs that wait behind those of a round
    #[arg(long, value_name = "N")]
    backlog: Option<u64>,
    /// How ids are made: time (as Bursar makes them) or random
    #[arg(long, value_name = "KIND")]
    keys: Option<bursar_bench::Keys>,
    /// While somebody else holds a snapshot open
    #[arg(long)]
    snapshot: bool,
    /// Seconds of a round
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Rounds of each side; the median is told
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// What to compare with: bulk-insert, textbook, history-10k, empty, unmetered, axum or none
    #[arg(long, value_name = "NAME")]
    baseline: Option<bursar_bench::Baseline>,
    /// Is the worker of another process that measures
    #[arg(long, hide = true, value_name = "URL")]
    work_on: Option<String>,
    /// Is the bare route that the server of another process is compared with
    #[arg(long, hide = true)]
    bare: bool,
}

/// Measures, and tells each figure when it is there.
pub(crate) async fn run(args: Bench, global: &Asked) -> Result<Exit, Problem> {
    if let Some(url) = args.work_on {
        blocking(move || bursar_bench::work_apart(&url).map_err(problem)).await?;
        return Ok(Exit::Done);
    }
    if args.bare {
        blocking(|| bursar_bench::serve_bare().map_err(problem)).await?;
        return Ok(Exit::Done);
    }
    // The database of the environment is one that is used: it is measured on only when that is asked for here.
    let options = Options {
        bench: args.name,
        database: global.database.clone(),
        callers: args.callers,
        scopes: args.scopes,
        jobs: args.jobs,
        processes: args.processes,
        history: args.history,
        backlog: args.backlog,
        keys: args.keys,
        snapshot: args.snapshot,
        seconds: args.seconds,
        rounds: args.rounds,
        baseline: args.baseline,
    };
    let (out, json) = (Output::new(global.json), global.json);
    let measure = move || {
        let (mut headed, mut unwritten) = (false, None);
        let done = bursar_bench::run(&options, &mut |told| {
            let written = match told {
                Told::Line(line) if json => out.line(&*line),
                Told::Line(line) => {
                    let head = if headed { String::new() } else { format!("{}\n", Line::head()) };
                    headed = true;
                    out.say(&format!("{head}{}", line.row()))
                }
                Told::Place(text) if !json => {
                    headed = false;
                    out.say(&text)
                }
                Told::Place(text) | Told::Note(text) => {
                    out.note(&text);
                    Ok(())
                }
            };
            unwritten = written.err().or(unwritten.take());
        });
        done.map_err(problem).and(unwritten.map_or(Ok(()), Err))
    };
    blocking(measure).await?;
    Ok(Exit::Done)
}

/// What takes a runtime of its own.
async fn blocking(work: impl FnOnce() -> Result<(), Problem> + Send + 'static) -> Result<(), Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(Kind::Internal, format!("the measurement stopped: {error}")))?
}

fn problem(error: BenchError) -> Problem {
    match error {
        BenchError::Usage(detail) => Problem::invalid("arguments".into(), detail),
        BenchError::Bursar(error) => error.into(),
        BenchError::Postgres(error) => {
            let detail =
                format!("unavailable: PostgreSQL: {error}; check the address, and that this user may make databases");
            Problem::new(Kind::Unavailable, detail)
        }
        other => Problem::new(Kind::Internal, other.to_string()),
    }
}
