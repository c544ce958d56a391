//! `bursar bench`.

use bursar_bench::{BenchError, Line, Options, Told};
use bursar_wire::problem::{Kind, Problem};
use clap::Args;

use crate::args::{GlobalArgs, whole};
use crate::exit::Exit;
use crate::output::Output;

/// The arguments of `bursar bench`.
#[derive(Args)]
#[command(after_help = "\
Benchmarks run on SQLite in a temporary folder, and on a temporary PostgreSQL server if PostgreSQL is installed. With \
--database sqlite://PATH they create databases next to PATH, with postgres://… on that server; existing data is not touched, \
and everything created is removed. BURSAR_DATABASE and the configuration file are ignored, since they name a database in use. \
How to read the figures: docs/performance.md.")]
pub(crate) struct Bench {
    /// Benchmark: command, hold, settle; enqueue, enqueue-bulk, drain, drain-worker, latency (jobs); meter, meter-slices, http, blob (over HTTP)
    /// [default: the standard set]
    name: Option<bursar_bench::Bench>,
    /// Concurrent callers: leasing loops for drain, handlers of the worker for drain-worker, calls for enqueue-bulk
    #[arg(long, value_name = "N", value_parser = count)]
    callers: Option<usize>,
    /// Scopes that the callers charge in turn
    #[arg(long, value_name = "N", value_parser = count)]
    scopes: Option<usize>,
    /// Jobs per round, for benchmarks that are not timed by --seconds [default: 100000; 200 for latency]
    #[arg(long, value_name = "N", value_parser = count)]
    jobs: Option<usize>,
    /// Processes, for latency: 2 runs the worker in its own process
    #[arg(long, value_name = "N", value_parser = count)]
    processes: Option<usize>,
    /// Rows of history that exist before the measurement; finished jobs for job benchmarks
    #[arg(long, value_name = "N", value_parser = rows)]
    history: Option<u64>,
    /// Waiting jobs in addition to those of a round
    #[arg(long, value_name = "N", value_parser = rows)]
    backlog: Option<u64>,
    /// Order of the generated ids: time (as Bursar generates them) or random
    #[arg(long, value_name = "KIND")]
    keys: Option<bursar_bench::Keys>,
    /// Keep a database snapshot open while measuring
    #[arg(long)]
    snapshot: bool,
    /// What is between Bursar and a temporary PostgreSQL server: pooler (PgBouncer in transaction mode) or role (row-level security)
    #[arg(long, value_name = "KIND")]
    through: Option<bursar_bench::Through>,
    /// Duration of a round, in seconds
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = seconds)]
    seconds: Option<f64>,
    /// Number of rounds for Bursar and for the baseline; the median is printed
    #[arg(long, value_name = "N", value_parser = count)]
    rounds: Option<usize>,
    /// Baseline to compare with: bulk-insert, textbook, history-10k, empty, unmetered, axum, files, direct or none
    #[arg(long, value_name = "NAME")]
    baseline: Option<bursar_bench::Baseline>,
    /// Run as the worker of another measuring process
    #[arg(long, hide = true, value_name = "URL")]
    work_on: Option<String>,
    /// Run as the bare HTTP route that a server is compared with
    #[arg(long, hide = true)]
    bare: bool,
}

fn count(text: &str) -> Result<usize, String> {
    whole(text, 0..=usize::MAX)
}

fn rows(text: &str) -> Result<u64, String> {
    whole(text, 0..=u64::MAX)
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "must be a number of seconds, such as 2 or 0.5".to_owned())
}

/// Measures, and prints each figure as soon as it is available.
pub(crate) async fn run(args: Bench, global: &GlobalArgs) -> Result<Exit, Problem> {
    if let Some(url) = args.work_on {
        blocking(move || bursar_bench::work_apart(&url).map_err(problem)).await?;
        return Ok(Exit::Done);
    }
    if args.bare {
        blocking(|| bursar_bench::serve_bare().map_err(problem)).await?;
        return Ok(Exit::Done);
    }
    // BURSAR_DATABASE names a database in use, so only --database selects where to measure.
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
        through: args.through,
        seconds: args.seconds,
        rounds: args.rounds,
        baseline: args.baseline,
    };
    let (out, json) = (Output::new(global.json), global.json);
    if env!("BUILD_IS_OPTIMIZED") != "true" {
        out.note("this build is not fully optimized; measure one built with `cargo build --profile dist`");
    }
    let measure = move || {
        let (mut has_header, mut failed_write) = (false, None);
        let done = bursar_bench::run(&options, &mut |told| {
            let written = match told {
                Told::Line(line) if json => out.json_line(&*line),
                Told::Line(line) => {
                    let head = if has_header { String::new() } else { format!("{}\n", Line::head()) };
                    has_header = true;
                    out.text(&format!("{head}{}", line.row()))
                }
                Told::Place(text) if !json => {
                    has_header = false;
                    out.text(&text)
                }
                Told::Place(text) | Told::Note(text) => {
                    out.note(&text);
                    Ok(())
                }
            };
            failed_write = written.err().or(failed_write.take());
        });
        done.map_err(problem).and(failed_write.map_or(Ok(()), Err))
    };
    blocking(measure).await?;
    Ok(Exit::Done)
}

/// Runs work that starts its own runtime.
async fn blocking(work: impl FnOnce() -> Result<(), Problem> + Send + 'static) -> Result<(), Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(Kind::Internal, format!("the benchmark stopped: {error}")))?
}

fn problem(error: BenchError) -> Problem {
    match error {
        BenchError::Usage(detail) => Problem::invalid("arguments".into(), detail),
        BenchError::Bursar(error) => error.into(),
        BenchError::Postgres(error) => {
            let detail = format!("PostgreSQL: {error}; check the URL, and that the user may create databases");
            Problem::new(Kind::Unavailable, detail)
        }
        other => Problem::new(Kind::Internal, other.to_string()),
    }
}
