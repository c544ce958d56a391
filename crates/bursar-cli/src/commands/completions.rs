//! `bursar completions`.

use bursar_wire::problem::Problem;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;

/// The shell to complete for.
#[derive(Args)]
#[command(after_help = "\
Example: bursar completions bash > ~/.local/share/bash-completion/completions/bursar")]
pub(crate) struct Completions {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints a script that completes the given command line.
pub(crate) fn run(args: &Completions, command: &mut Command) -> Result<Exit, Problem> {
    clap_complete::generate(args.shell, command, "bursar", &mut std::io::stdout());
    Ok(Exit::Done)
}
