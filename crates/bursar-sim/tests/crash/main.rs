//! Short crash and power-loss tests; the program `crash` runs longer ones.
//!
//! This program runs itself again as the processes that are killed.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::ExitCode;
use std::time::Duration;

use bursar_core::mutant::Mutant;
use bursar_sim::crash::{self, Engine, Extras, Plan, PowerPlan, PowerTally, Run, Tally};
use rusqlite::Connection;

const CASES: [(&str, fn()); 7] = [
    ("killed_processes_lose_nothing_on_sqlite", killed_processes_lose_nothing_on_sqlite),
    ("killed_servers_lose_nothing_on_postgres", killed_servers_lose_nothing_on_postgres),
    ("retention_and_archive_lose_nothing_on_sqlite", retention_and_archive_lose_nothing_on_sqlite),
    ("retention_and_archive_lose_nothing_behind_a_pooler", retention_and_archive_lose_nothing_behind_a_pooler),
    ("a_deleted_row_is_found", a_deleted_row_is_found),
    ("power_loss_loses_nothing_on_sqlite", power_loss_loses_nothing_on_sqlite),
    ("unsynced_commits_are_found", unsynced_commits_are_found),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = crash::child(&args) {
        return code;
    }
    bursar_testkit::run_cases(&args, &CASES)
}

fn plan(engine: Engine, rounds: u64, seed: u64) -> Plan {
    Plan { engine, rounds, time: Duration::MAX, extras: Extras::default(), processes: 3, seed }
}

fn killed_processes_lose_nothing_on_sqlite() {
    let tally = crash::run(&plan(Engine::Sqlite, 8, 11), |_| {}).unwrap();
    assert_passed(&tally, 200);
    assert!(tally.refused > 20, "too few requests reach a limit: {tally}");
    assert!(tally.in_flight >= 12, "too few kills hit a request in flight: {tally}");
}

fn killed_servers_lose_nothing_on_postgres() {
    let tally = crash::run(&plan(Engine::Postgres, 3, 12), |_| {}).unwrap();
    assert_passed(&tally, 20);
    assert_eq!(tally.server_kills, 2, "{tally}");
    assert!(tally.in_flight >= 6, "too few kills hit a request in flight: {tally}");
}

fn retention_and_archive_lose_nothing_on_sqlite() {
    let extras = Extras { retention: true, archive: true, pooler: false };
    let tally = crash::run(&Plan { extras, ..plan(Engine::Sqlite, 4, 13) }, |_| {}).unwrap();
    assert_passed(&tally, 100);
    assert!(tally.segments > 4 && tally.removed > 40, "{tally}");
}

fn retention_and_archive_lose_nothing_behind_a_pooler() {
    let extras = Extras { retention: true, archive: true, pooler: true };
    let tally = crash::run(&Plan { extras, ..plan(Engine::Postgres, 2, 14) }, |_| {}).unwrap();
    assert_passed(&tally, 15);
    assert_eq!(tally.server_kills, 2, "{tally}");
    assert!(tally.segments > 0 && tally.removed > 0, "{tally}");
}

/// Asserts that nothing was found in a run with enough acknowledged requests, and no round without a kill in flight.
fn assert_passed(tally: &Tally, least: usize) {
    println!("{tally}");
    assert!(tally.findings.is_empty(), "{:#?}", tally.findings);
    assert!(tally.acknowledged >= least, "{tally}");
    assert_eq!((tally.idle, tally.rebuilt), (0, 1), "{tally}");
    let workers = [tally.leased, tally.completed, tally.rescued, tally.lost, tally.billed];
    assert!(workers.iter().all(|count| *count > 0), "a kind of lease end did not happen: {tally}");
}

/// Deletes rows that a faulty crash recovery could lose, one per run.
fn a_deleted_row_is_found() {
    let rows = [
        "DELETE FROM bursar_journal WHERE position = (SELECT max(position) FROM bursar_journal)",
        "DELETE FROM bursar_holds WHERE id = (SELECT max(id) FROM bursar_holds)",
        "DELETE FROM bursar_jobs WHERE id = (SELECT max(id) FROM bursar_jobs)",
        "DELETE FROM bursar_grants WHERE id = (SELECT max(id) FROM bursar_grants)",
        "DELETE FROM bursar_keys WHERE key = (SELECT max(key) FROM bursar_keys WHERE key LIKE 'r0-p%')",
        "DELETE FROM bursar_postings WHERE at = (SELECT max(at) FROM bursar_postings)",
    ];
    for (seed, row) in (20..).zip(rows) {
        let mut run = Run::new(&plan(Engine::Sqlite, 1, seed)).unwrap();
        let deleted = (0..7).any(|_| {
            run.load().unwrap();
            let file = run.url().trim_start_matches("sqlite://").to_owned();
            let deleted = Connection::open(file).unwrap().execute(row, []).unwrap();
            run.check().unwrap();
            // A round may leave no such row; then the check must pass, and the next round is tried.
            assert!(deleted > 0 || run.tally.findings.is_empty(), "{:#?}", run.tally.findings);
            deleted > 0
        });
        assert!(deleted, "no such row: {row}");
        if run.tally.findings.is_empty() {
            // The row was not acknowledged; a rebuild still finds the difference.
            run.replay().unwrap();
        }
        assert!(!run.tally.findings.is_empty(), "{row} was not found: {}", run.tally);
    }
}

fn lose_power(losses: u64, seed: u64, mutant: Option<Mutant>) -> PowerTally {
    let tally = crash::lose_power(&PowerPlan { losses, seed, mutant }, |_| {}).unwrap();
    println!("{tally}");
    tally
}

fn power_loss_loses_nothing_on_sqlite() {
    let tally = lose_power(120, 31, None);
    assert!(tally.findings.is_empty(), "{:#?}", tally.findings);
    assert!(tally.losses >= 120 && tally.acknowledged >= 300, "{tally}");
    assert!(tally.rebuilt >= 4, "{tally}");
}

/// Runs the same check with commits that are acknowledged before they are durable.
fn unsynced_commits_are_found() {
    for (seed, mutant) in [(41, Mutant::SynchronousOff), (42, Mutant::SynchronousNormal)] {
        let tally = lose_power(120, seed, Some(mutant));
        let lost = tally.findings.iter().any(|finding| finding.contains("it is lost"));
        assert!(lost, "{} was not found: {tally}", mutant.name());
    }
}
