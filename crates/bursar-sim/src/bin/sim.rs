//! Runs simulated worlds, with or without a fault, and prints the results.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bursar_core::mutant::Mutant;
use bursar_sim::sim::mutation::{caught_elsewhere, hunt};
use bursar_sim::sim::{Failure, Summary, run};
use clap::Parser;

/// The most worlds to run per fault.
const WORLDS_MAX: u64 = 400;

/// Run simulated worlds: real engines over a simulated database, network and clock. A seed reproduces a run exactly
#[derive(Parser)]
struct Args {
    /// First seed [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Number of consecutive seeds [default: 1 with --seed, otherwise 100]
    #[arg(long)]
    seeds: Option<u64>,
    /// Requests to decide per world
    #[arg(long, default_value_t = 2_000)]
    commands: u64,
    /// Run further seeds for this many minutes, instead of a number of seeds
    #[arg(long, conflicts_with = "seeds")]
    minutes: Option<f64>,
    /// Turn this fault on
    #[arg(long, value_parser = |name: &str| Mutant::named(name).ok_or("unknown fault"))]
    mutant: Option<Mutant>,
    /// Run every fault until it is caught, and print a table
    #[arg(long)]
    mutants: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.mutants {
        return hunt_all(args.commands);
    }
    Mutant::switch(args.mutant);
    let began = now();
    let until = args.minutes.map(|minutes| began + Duration::from_secs_f64(minutes * 60.0));
    let seeds = args.seeds.unwrap_or(if args.seed.is_none() { 100 } else { 1 });
    let first = args.seed.unwrap_or(0);
    let mut total = Total::default();
    for seed in first.. {
        let over = match until {
            Some(until) => now() >= until,
            None => seed - first >= seeds,
        };
        if over {
            break;
        }
        let summary = run(seed, args.commands);
        total.add(&summary);
        if let Some(failure) = &summary.failure {
            print_failure(seed, &args, failure);
            total.print(began.elapsed());
            return ExitCode::FAILURE;
        }
    }
    total.print(began.elapsed());
    ExitCode::SUCCESS
}

#[expect(clippy::disallowed_methods, reason = "the speed is measured in real time; worlds use virtual time")]
fn now() -> Instant {
    Instant::now()
}

#[derive(Default)]
struct Total {
    runs: u64,
    decided: u64,
    refused: u64,
    replayed: u64,
    batches: u64,
    crashes: u64,
    millis: i64,
    digest: u64,
}

impl Total {
    fn add(&mut self, summary: &Summary) {
        self.runs += 1;
        self.decided += summary.decided;
        self.refused += summary.refused;
        self.replayed += summary.replayed;
        self.batches += summary.batches;
        self.crashes += summary.crashes;
        self.millis += summary.millis;
        self.digest = self.digest.rotate_left(5) ^ summary.digest;
    }

    fn print(&self, took: Duration) {
        let per_minute = self.decided as f64 / took.as_secs_f64() * 60.0;
        println!("worlds          {}", self.runs);
        println!("commands        {} decided: {} refused, {} replayed", self.decided, self.refused, self.replayed);
        println!("transactions    {} with effects", self.batches);
        println!("crashes         {}", self.crashes);
        println!("virtual time    {:.1} s", self.millis as f64 / 1_000.0);
        println!("real time       {:.1} s, {per_minute:.0} commands per minute", took.as_secs_f64());
        println!("digest          {:016x}", self.digest);
    }
}

fn print_failure(seed: u64, args: &Args, failure: &Failure) {
    let mutant = args.mutant.map(|mutant| format!(" --mutant {}", mutant.name())).unwrap_or_default();
    println!("FAILED          {}", failure.check);
    println!("seed            {seed} (reproduce: sim --seed {seed} --commands {}{mutant})", args.commands);
    println!("step            {}", failure.step);
    println!("what            {}", failure.what);
    println!("before");
    failure.last.iter().for_each(|line| println!("  {line}"));
    println!();
}

/// Runs every fault and prints a Markdown table; fails if a fault survives.
fn hunt_all(commands: u64) -> ExitCode {
    let mut survivors = 0;
    println!("| fault | what it does | caught by | seed | step |\n| --- | --- | --- | --- | --- |");
    for mutant in Mutant::ALL.iter().copied() {
        let (name, about) = (mutant.name(), mutant.about().trim());
        if let Some(test) = caught_elsewhere(mutant) {
            println!("| `{name}` | {about} | {test} | | |");
            continue;
        }
        match hunt(mutant, WORLDS_MAX, commands).caught {
            Some((seed, failure)) => println!("| `{name}` | {about} | {} | {seed} | {} |", failure.check, failure.step),
            None => {
                survivors += 1;
                println!("| `{name}` | {about} | SURVIVED {WORLDS_MAX} worlds | | |");
            }
        }
    }
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
