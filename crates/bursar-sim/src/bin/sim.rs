//! Runs simulated worlds and tells what came of them.

use clap::Parser;

#[derive(Parser)]
struct Args {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Requests decided in each run.
    #[arg(long, default_value_t = 2_000)]
    commands: u64,
}

fn main() {
    let args = Args::parse();
    let (mut decided, mut refused, mut replayed, mut crashes) = (0, 0, 0, 0);
    for seed in args.seed..args.seed + args.seeds {
        let summary = bursar_sim::sim::run(seed, args.commands);
        decided += summary.decided;
        refused += summary.refused;
        replayed += summary.replayed;
        crashes += summary.crashes;
        if let Some(failure) = summary.failure {
            println!("seed {seed} step {} check {}: {}", failure.step, failure.check, failure.what);
            for line in &failure.last { println!("  {line}"); }
            std::process::exit(1);
        }
    }
    println!("{decided} decided, {refused} refused, {replayed} replayed, {crashes} crashes");
}
