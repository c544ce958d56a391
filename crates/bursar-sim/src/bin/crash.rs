//! Kills processes and servers under load, and checks what became of what they were told. See `docs/crash.md`.

use std::process::ExitCode;

use bursar_core::mutant::Mutant;
use bursar_sim::crash::{self, Engine, Plan, PowerPlan};
use bursar_sim::sim::mutation::is_of_the_disk;
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
    /// Instead: SQLite on a disk that forgets what was not synced, with so many power losses
    #[arg(long, value_name = "LOSSES")]
    power: Option<u64>,
    /// A fault that the power losses must find: synchronous-off or synchronous-normal
    #[arg(long, requires = "power", value_parser = fault_of_the_disk)]
    mutant: Option<Mutant>,
}

fn fault_of_the_disk(name: &str) -> Result<Mutant, &'static str> {
    let fault = Mutant::named(name).ok_or("there is no such fault")?;
    if is_of_the_disk(fault) { Ok(fault) } else { Err("no power loss shows this fault") }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = crash::child(&args) {
        return code;
    }
    let Args { engine, rounds, processes, seed, power, mutant } = Args::parse();
    if let Some(losses) = power {
        return lose_power(&PowerPlan { losses, seed, mutant });
    }
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

fn lose_power(plan: &PowerPlan) -> ExitCode {
    match crash::lose_power(plan, |tally| println!("{tally}")) {
        Ok(tally) => {
            tally.findings.iter().take(20).for_each(|finding| println!("  {finding}"));
            if tally.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("the check could not be run: {error}");
            ExitCode::FAILURE
        }
    }
}
