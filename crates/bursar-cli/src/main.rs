//! `bursar`: budgets, holds, grants, commands and the journal from the command line.
//!
//! Data goes to standard output, as tables or with `--json` in the shapes of the wire; everything else goes to
//! standard error. The exit code says how it ended: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 not found,
//! 5 conflict, 6 unavailable.

mod args;
mod commands;
mod config;
mod exit;
mod log;
mod memory;
mod output;
mod place;
mod progress;
mod session;

use crate::args::{Cli, Verb};
use crate::output::Output;
use bursar_server::wire::problem::{Kind, Problem};

/// A batch is thousands of small rows that live for its time only, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return exit::of_usage(&error).into(),
    };
    let out = Output::new(cli.global.json);
    // A server uses all cores; a call asks one question.
    let mut runtime = match cli.command {
        Verb::Serve(_) | Verb::Dev(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out.problem(&Problem::new(Kind::Internal, format!("the runtime cannot be started: {error}")));
            return exit::of_problem(Kind::Internal).into();
        }
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            out.problem(&problem);
            exit::of_problem(problem.kind).into()
        }
    }
}
