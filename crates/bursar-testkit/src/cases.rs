//! A small test harness for test programs with their own `main`, which run themselves again as child processes.

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test and its name.
pub type Case = (&'static str, fn());

/// Runs the cases whose names contain the first argument and prints their results as the standard harness does.
pub fn run_cases(args: &[String], cases: &[Case]) -> ExitCode {
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    let mut failed = 0;
    for (name, run) in cases.iter().filter(|(name, _)| name.contains(&filter)) {
        let done = catch_unwind(run);
        println!("test {name} ... {}", if done.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(done.is_err());
    }
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
