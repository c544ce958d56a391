//! `bursar completions`.

use bursar_wire::problem::Problem;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output::Output;

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
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "bursar", &mut script);
    Output::new(false).script(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
