//! The `bursar` binary: a command-line client, an HTTP server and maintenance tools.
//!
//! Data goes to standard output, as tables or, with `--json`, in the wire shapes. Notes, progress and errors go to
//! standard error. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 not found, 5 conflict, 6 unavailable for now,
//! 7 not permitted.

mod args;
mod bulk;
mod cli;
mod commands;
mod config;
mod context;
mod demo;
mod examples;
mod exit;
mod in_process;
mod input;
mod log;
mod memory_release;
mod moment;
mod other_words;
mod output;
mod pg_dump;
mod progress;
mod quoting;
mod server;
mod sqlite_file;
mod suggest;
mod target;
mod units;
mod version;
mod view;

use bursar_wire::problem::{Kind, Problem};

use crate::cli::Cli;
use crate::output::Output;

/// A batch allocates thousands of small, short-lived rows; mimalloc is faster at that than the system allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return exit::report_usage(&error).into(),
    };
    let out = Output::new(cli.global.json);
    // A server uses all cores; any other command makes a few calls in sequence.
    let mut runtime = match cli.command.is_server() {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out.problem(&Problem::new(Kind::Internal, format!("the async runtime did not start: {error}")));
            return exit::for_problem(Kind::Internal).into();
        }
    };
    match runtime.block_on(cli.run()) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            out.problem(&problem);
            exit::for_problem(problem.kind).into()
        }
    }
}
