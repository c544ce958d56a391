//! Every example does what it claims: run as a process, it ends with status 0.

use std::collections::BTreeSet;
use std::process::Command;

/// Those that need nothing but SQLite.
const EXAMPLES: [(&str, &str); 9] = [
    ("agent_fleet", env!("CARGO_BIN_EXE_agent_fleet")),
    ("api_quota", env!("CARGO_BIN_EXE_api_quota")),
    ("first_steps", env!("CARGO_BIN_EXE_first_steps")),
    ("fleet_worker", env!("CARGO_BIN_EXE_fleet_worker")),
    ("media_worker", env!("CARGO_BIN_EXE_media_worker")),
    ("metered_api", env!("CARGO_BIN_EXE_metered_api")),
    ("own_rows_sqlite", env!("CARGO_BIN_EXE_own_rows_sqlite")),
    ("seat_booking", env!("CARGO_BIN_EXE_seat_booking")),
    ("upload_grant", env!("CARGO_BIN_EXE_upload_grant")),
];

/// Those that need a PostgreSQL, whose address they take as their first argument.
const ON_POSTGRES: [(&str, &str); 1] = [("own_rows_postgres", env!("CARGO_BIN_EXE_own_rows_postgres"))];

#[test]
fn examples_on_sqlite_do_what_they_claim() {
    for (name, program) in EXAMPLES {
        let output = Command::new(program).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn examples_on_postgres_do_what_they_claim() {
    let url = bursar_testkit::fresh_database();
    // The second time the tables are there, and what was spent the first time is.
    for (name, program) in ON_POSTGRES.into_iter().chain(ON_POSTGRES) {
        let output = Command::new(program).arg(&url).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_example_on_postgres_says_what_it_needs() {
    for (name, program) in ON_POSTGRES {
        let output = Command::new(program).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("usage: "), "{name}: {said}");
    }
}

#[test]
fn no_example_is_left_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = files.map(|file| file.trim_end_matches(".rs").to_owned()).collect();
    let known = EXAMPLES.iter().chain(&ON_POSTGRES).map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, known);
}
