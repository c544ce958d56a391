//! Real processes that work on the jobs of one database: how they hear of new jobs, and that each job is one worker's at a time.
//!
//! This program runs itself again as those processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod fenced;
mod member;
mod network;
mod process;
mod woken;

use std::process::ExitCode;

/// Cases by the names of their functions.
macro_rules! cases {
    ($($noun:ident::$name:ident,)+) => {
        const CASES: &[(&str, fn())] = &[$((stringify!($name), $noun::$name),)+];
    };
}

cases! {
    woken::job_of_another_process_starts_at_once_on_sqlite,
    woken::job_of_another_process_starts_at_once_on_postgres,
    woken::job_of_another_process_starts_at_once_where_nobody_listens,
    woken::job_of_another_process_starts_at_once_where_nothing_is_heard,
    woken::who_listens_listens_again_when_its_connection_is_lost,
    woken::parked_jobs_go_on_when_another_process_frees_units,
    fenced::four_processes_have_each_job_one_at_a_time_on_sqlite,
    fenced::four_processes_have_each_job_one_at_a_time_on_postgres,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("member", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        member::live(rest);
        return ExitCode::SUCCESS;
    }
    bursar_testkit::run_cases(&args, CASES)
}
