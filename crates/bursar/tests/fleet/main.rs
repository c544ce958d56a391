//! Real processes that work on the jobs of one database: how they hear of new jobs, and that each job is one worker's at a time.
//!
//! This program runs itself again as those processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod fenced;
mod member;
mod network;
mod process;
mod woken;

use std::panic::catch_unwind;
use std::process::ExitCode;

const CASES: [(&str, fn()); 8] = [
    ("job_of_another_process_starts_at_once_on_sqlite", woken::on_sqlite),
    ("job_of_another_process_starts_at_once_on_postgres", woken::on_postgres),
    ("job_of_another_process_starts_at_once_where_nobody_listens", woken::without_listening),
    ("job_of_another_process_starts_at_once_where_nothing_is_heard", woken::through_a_pooler),
    ("who_listens_listens_again_when_its_connection_is_lost", woken::connection_lost),
    ("parked_jobs_go_on_when_another_process_frees_units", woken::parked),
    ("four_processes_have_each_job_one_at_a_time_on_sqlite", fenced::on_sqlite),
    ("four_processes_have_each_job_one_at_a_time_on_postgres", fenced::on_postgres),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("member", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        member::live(rest);
        return ExitCode::SUCCESS;
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    let mut failed = 0;
    for (name, run) in CASES.iter().filter(|(name, _)| name.contains(&filter)) {
        let done = catch_unwind(run);
        println!("test {name} ... {}", if done.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(done.is_err());
    }
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
