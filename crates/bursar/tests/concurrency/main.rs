//! The twelve concurrency cases, each on both databases, with tasks in one process and with several processes; on PostgreSQL also
//! through PgBouncer.
//!
//! This program starts itself as the members of a crew of processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod act;
mod cases;
mod crew;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::cases::CASES;
use crate::crew::{Crew, Engine, Kind, POOLED, World};

/// The number of processes or tasks in a crew.
const MEMBERS: usize = 4;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(["member", url, clock]) = args.iter().map(String::as_str).collect::<Vec<_>>().get(..3) {
        crew::serve(url, clock, args.iter().any(|arg| arg == POOLED));
        return ExitCode::SUCCESS;
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    let (mut passed, mut failed, mut filtered) = (0, Vec::new(), 0);
    for engine in [Engine::Sqlite, Engine::Postgres, Engine::PgBouncer] {
        for kind in [Kind::Tasks, Kind::Processes] {
            // The last case has a hundred thousand holds. They take the same path through the pooler as those of the other cases.
            let cases = if engine == Engine::PgBouncer { &CASES[..CASES.len() - 1] } else { CASES };
            for case in cases {
                let name = format!("{engine:?}::{kind:?}::{}", case.name).to_lowercase();
                if !name.contains(&filter.to_lowercase()) {
                    filtered += 1;
                    continue;
                }
                let done = catch_unwind(AssertUnwindSafe(|| {
                    let world = World::new(engine);
                    let crew = Crew::gather(kind, MEMBERS, &world);
                    (case.run)(&world, &crew);
                    crew.verified();
                }));
                println!("test {name} ... {}", if done.is_ok() { "ok" } else { "FAILED" });
                if done.is_ok() { passed += 1 } else { failed.push(name) }
            }
        }
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {} failed; 0 ignored; 0 measured; {filtered} filtered out",
        failed.len()
    );
    failed.iter().for_each(|name| println!("    {name}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
