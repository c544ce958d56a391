//! Several real processes on one SQLite file: fair turns, opening at once, and dying at any moment.
//!
//! This program runs itself again as those processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cases;
mod child;

use std::process::ExitCode;

const CASES: [(&str, fn()); 3] = [
    ("writers_back_to_back_have_equal_shares", cases::equal_shares),
    ("processes_that_open_a_new_file_at_once_all_open_it", cases::opened_at_once),
    ("nothing_acknowledged_is_lost_when_the_writer_is_killed", cases::killed),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("child", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        child::live(rest);
        return ExitCode::SUCCESS;
    }
    bursar_testkit::run_cases(&args, &CASES)
}
