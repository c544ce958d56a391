//! Several processes on one SQLite file: fair shares of the write lock, concurrent opening, and kills.
//!
//! The test program starts itself as these processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cases;
mod child;

use std::process::ExitCode;

const CASES: [(&str, fn()); 3] = [
    ("writers_back_to_back_have_equal_shares", cases::equal_shares),
    ("processes_can_open_a_new_file_at_the_same_time", cases::opened_at_once),
    ("no_acknowledged_commit_is_lost_when_a_writer_is_killed", cases::killed),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("child", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        child::run(rest);
        return ExitCode::SUCCESS;
    }
    bursar_testkit::run_cases(&args, &CASES)
}
