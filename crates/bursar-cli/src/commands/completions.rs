//! `bursar completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Exit;
use bursar_server::wire::problem::Problem;

/// For which shell.
#[derive(Args)]
#[command(after_help = "\
Such as: bursar completions bash > ~/.local/share/bash-completion/completions/bursar")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Prints what the shell needs.
pub(crate) fn run(args: &Completions) -> Result<Exit, Problem> {
    clap_complete::generate(args.shell, &mut Cli::command(), "bursar", &mut std::io::stdout());
    Ok(Exit::Done)
}
