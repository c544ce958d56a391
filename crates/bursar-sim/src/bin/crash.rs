//! Kills processes and servers under load, and checks what became of what they were told. See `docs/crash.md`.

use std::process::ExitCode;

use bursar_sim::crash::{self, Engine, Plan};
use clap::Parser;

/// Kills processes and servers under load, and checks that nothing acknowledged is lost and nothing done twice
#[derive(Parser)]
struct Args {
    /// What keeps the tables
    #[arg(long, value_enum, default_value = "sqlite")]
    engine: Engine,
    /// How often everybody is killed
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// Processes at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
    /// What chance follows from; moments of the machine itself do not repeat
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = crash::child(&args) {
        return code;
    }
    let Args { engine, rounds, processes, seed } = Args::parse();
    let plan = Plan { engine, rounds, processes: processes.into(), seed };
    match crash::run(&plan, |tally| println!("{tally}")) {
        Ok(tally) => {
            println!("{engine:?}, seed {seed}: {tally}");
            tally.findings.iter().for_each(|finding| println!("  {finding}"));
            if tally.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("the check could not be run: {error}");
            ExitCode::FAILURE
        }
    }
}
