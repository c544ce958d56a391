//! Runs simulated worlds, or hunts faults in them, and tells what came of it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bursar_core::mutant::Mutant;
use bursar_sim::sim::mutation::{hunt, hunted_elsewhere};
use bursar_sim::sim::{Failure, Summary, run};
use clap::Parser;

/// Worlds in which a fault is hunted at most.
const HUNTED_MAX: u64 = 400;

/// Runs simulated worlds: real engines over a made-up database, network and clock. A seed makes a run, to the event.
#[derive(Parser)]
struct Args {
    /// The first seed; else 0.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one after the other; else one if a seed is given, and 100 if not.
    #[arg(long)]
    seeds: Option<u64>,
    /// Requests that are decided in each run.
    #[arg(long, default_value_t = 2_000)]
    commands: u64,
    /// Goes on with further seeds for so long, instead of a number of seeds.
    #[arg(long, conflicts_with = "seeds")]
    minutes: Option<f64>,
    /// With this fault turned on.
    #[arg(long, value_parser = |name: &str| Mutant::named(name).ok_or("there is no such fault"))]
    mutant: Option<Mutant>,
    /// Hunts every fault there is.
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
            tell_failure(seed, &args, failure);
            total.tell(began.elapsed());
            return ExitCode::FAILURE;
        }
    }
    total.tell(began.elapsed());
    ExitCode::SUCCESS
}

#[expect(clippy::disallowed_methods, reason = "how fast it runs is told in real time; no world knows of it")]
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

    fn tell(&self, took: Duration) {
        let a_minute = self.decided as f64 / took.as_secs_f64() * 60.0;
        println!("worlds          {}", self.runs);
        println!("commands        {} decided: {} refused, {} repeated", self.decided, self.refused, self.replayed);
        println!("transactions    {} with an effect", self.batches);
        println!("crashes         {}", self.crashes);
        println!("virtual time    {:.1} s", self.millis as f64 / 1_000.0);
        println!("real time       {:.1} s, {a_minute:.0} commands a minute", took.as_secs_f64());
        println!("digest          {:016x}", self.digest);
    }
}

fn tell_failure(seed: u64, args: &Args, failure: &Failure) {
    let mutant = args.mutant.map(|mutant| format!(" --mutant {}", mutant.name())).unwrap_or_default();
    println!("FAILED          {}", failure.check);
    println!("seed            {seed} (again: sim --seed {seed} --commands {}{mutant})", args.commands);
    println!("step            {}", failure.step);
    println!("what            {}", failure.what);
    println!("before");
    failure.last.iter().for_each(|line| println!("  {line}"));
    println!();
}

/// Hunts every fault; a table in the form of documents, and a failure if one survives.
fn hunt_all(commands: u64) -> ExitCode {
    let mut survivors = 0;
    println!("| fault | what it does | caught by | seed | step |\n| --- | --- | --- | --- | --- |");
    for mutant in Mutant::ALL.iter().copied() {
        let (name, about) = (mutant.name(), mutant.about().trim());
        if let Some(hunter) = hunted_elsewhere(mutant) {
            println!("| `{name}` | {about} | {hunter} | | |");
            continue;
        }
        match hunt(mutant, HUNTED_MAX, commands).caught {
            Some((seed, failure)) => println!("| `{name}` | {about} | {} | {seed} | {} |", failure.check, failure.step),
            None => {
                survivors += 1;
                println!("| `{name}` | {about} | SURVIVED {HUNTED_MAX} worlds | | |");
            }
        }
    }
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
