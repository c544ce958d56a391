//! Several processes that work on the jobs of one database: they notice each other's jobs at once, and each job has one
//! worker at a time.
//!
//! This program starts itself as those processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod fenced;
mod member;
mod network;
mod process;
mod woken;

use std::process::ExitCode;

/// Lists the cases by the names of their functions.
macro_rules! cases {
    ($($noun:ident::$name:ident,)+) => {
        const CASES: &[(&str, fn())] = &[$((stringify!($name), $noun::$name),)+];
    };
}

cases! {
    woken::a_job_of_another_process_starts_at_once_on_sqlite,
    woken::a_job_of_another_process_starts_at_once_on_postgres,
    woken::a_job_of_another_process_starts_at_once_without_a_listener,
    woken::a_job_of_another_process_starts_at_once_without_notifications,
    woken::a_listener_reconnects_after_a_lost_connection,
    woken::parked_jobs_resume_when_another_process_frees_units,
    fenced::a_job_has_one_worker_at_a_time_on_sqlite,
    fenced::a_job_has_one_worker_at_a_time_on_postgres,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("member", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        member::live(rest);
        return ExitCode::SUCCESS;
    }
    bursar_testkit::run_cases(&args, CASES)
}
