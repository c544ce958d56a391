//! Kills processes and servers under load and checks the database afterwards. See `docs/crash.md`.

use std::process::ExitCode;
use std::time::Duration;

use bursar_core::mutant::Mutant;
use bursar_sim::crash::{self, Engine, Extras, Plan, PowerPlan};
use bursar_sim::sim::mutation::needs_power_loss;
use clap::Parser;

/// Kill processes and servers under load, and check that nothing acknowledged is lost and nothing is done twice
#[derive(Parser)]
struct Args {
    /// Database engine
    #[arg(long, value_enum, default_value = "sqlite")]
    engine: Engine,
    /// Rounds; each ends with every process killed
    #[arg(long, default_value_t = 200, conflicts_with = "minutes")]
    rounds: u64,
    /// Start rounds for this many minutes instead
    #[arg(long)]
    minutes: Option<u64>,
    /// Delete ended holds, expired grants and ended jobs after a fraction of a second
    #[arg(long)]
    retention: bool,
    /// Archive the journal after a fraction of a second
    #[arg(long)]
    archive: bool,
    /// Reach PostgreSQL through PgBouncer
    #[arg(long)]
    pooler: bool,
    /// Processes that run at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
    /// Seed of all random choices; the timing of the machine is not reproducible
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulate this many power losses instead, with SQLite on a file system that loses unsynced writes
    #[arg(long, value_name = "LOSSES")]
    power: Option<u64>,
    /// Fault that the power losses must find: synchronous-off or synchronous-normal
    #[arg(long, requires = "power", value_parser = power_loss_fault)]
    mutant: Option<Mutant>,
}

fn power_loss_fault(name: &str) -> Result<Mutant, &'static str> {
    let fault = Mutant::named(name).ok_or("unknown fault")?;
    if needs_power_loss(fault) { Ok(fault) } else { Err("a power loss cannot show this fault") }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = crash::child(&args) {
        return code;
    }
    let Args { engine, rounds, minutes, retention, archive, pooler, processes, seed, power, mutant } = Args::parse();
    if let Some(losses) = power {
        return lose_power(&PowerPlan { losses, seed, mutant });
    }
    let extras = Extras { retention, archive, pooler };
    let (rounds, time) = match minutes {
        Some(minutes) => (u64::MAX, Duration::from_secs(minutes * 60)),
        None => (rounds, Duration::MAX),
    };
    let plan = Plan { engine, rounds, time, extras, processes: processes.into(), seed };
    match crash::run(&plan, |tally| println!("{tally}")) {
        Ok(tally) => {
            println!("{engine:?}, seed {seed}: {tally}");
            tally.findings.iter().for_each(|finding| println!("  {finding}"));
            if tally.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("the check could not run: {error}");
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
            eprintln!("the check could not run: {error}");
            ExitCode::FAILURE
        }
    }
}
