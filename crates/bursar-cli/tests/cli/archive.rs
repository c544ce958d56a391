//! `bursar journal archive`, `unarchive`, `segments` and `verify`, and what else reads the archive of the journal.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar::{Budget, Bursar, Limit, ManualClock, Span, SystemClock, Window};
use sqlx::{Connection, PgConnection};

use crate::workdir::Workdir;

const SETTINGS: &str = "[journal]\narchive = \"archive\"\n";

/// Fills a database with events of the last year, and returns the last position.
fn fill(url: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(ManualClock::at(bursar::Clock::now(&SystemClock).before(Span::from_days(300))));
        let bursar = Bursar::options(url).clock(clock.clone()).upkeep(None).open().await.unwrap();
        bursar.ledger().define("room", Budget::new([Limit::new(1_000, Window::Lifetime)])).await.unwrap();
        for _ in 0..20 {
            bursar.ledger().post("room", 3).await.unwrap();
            clock.advance(Span::from_days(10));
        }
        let position = bursar.health().await.unwrap().position;
        bursar.close().await;
        position
    })
}

fn segment_files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.file_name().unwrap() != "bursar-probe").collect();
    files.sort();
    files
}

/// Archives, damages and restores a database. `empty` deletes the rows of its tables, `other` is where a backup is restored.
fn archive_and_restore(url: &str, empty: impl Fn(&str), other: &str) {
    let dir = Workdir::empty();
    let run = |args: &[&str]| dir.run(&[&["--database", url], args].concat());
    let json = |args: &[&str]| dir.json(&[&["--database", url], args].concat());
    let end = fill(url);
    let listed = json(&["journal", "list", "--after", "0"]);
    assert!(run(&["journal", "archive"]).exits(1).err.contains("journal.archive"));
    dir.file("bursar.toml", SETTINGS);
    let preview = json(&["journal", "archive", "--dry-run"]);
    assert_eq!((&preview["next"]["first"], &preview["next"]["last"]), (&1.into(), &(end - 1).into()), "{preview}");
    assert!(!dir.0.path().join("archive").exists(), "a dry run writes nothing");
    let done = run(&["journal", "archive"]).exits(0);
    assert!(done.out.contains(&format!("archived positions 1 to {} in 1 segment", end - 1)), "{}", done.out);
    assert!(run(&["journal", "archive"]).exits(0).out.contains("nothing is old enough"));
    let segments = json(&["journal", "segments"]);
    assert_eq!((&segments["items"][0]["first"], &segments["position"]), (&1.into(), &end.into()), "{segments}");
    assert_eq!(run(&["journal", "segments"]).exits(0).out.lines().count(), 2, "a header and a segment");
    let proof = run(&["journal", "verify"]).exits(0);
    assert!(proof.out.contains(&format!("positions 1 to {} are in 1 segment", end - 1)), "{}", proof.out);
    assert_eq!(json(&["journal", "list", "--after", "0"]), listed);
    let doctor = run(&["doctor", "--component", "archive"]).exits(0);
    assert!(doctor.out.contains(&format!("{} of {end} positions are archived", end - 1)), "{}", doctor.out);

    run(&["backup", "copy"]).exits(0);
    let balances = json(&["budget", "show", "room"]);
    empty(url);
    run(&["budget", "show", "room"]).exits(4);
    run(&["rebuild", "--yes"]).exits(0);
    assert_eq!(json(&["budget", "show", "room"]), balances);
    run(&["verify"]).exits(0);
    let restored = dir.run(&["restore", "copy", "--database", other]).exits(0);
    assert!(restored.out.contains(&format!("up to position {end}")), "{}", restored.out);
    dir.run(&["journal", "verify", "--database", other]).exits(0);
    assert_eq!(dir.json(&["rebuild", "--yes", "--database", other])["events"], end);
    assert_eq!(dir.json(&["budget", "show", "room", "--database", other]), balances);

    let file = segment_files(&dir.0.path().join("archive")).remove(0);
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    for args in [&["journal", "verify"][..], &["journal", "list", "--after", "0"], &["rebuild", "--yes"]] {
        let failed = run(args);
        assert!(failed.code != 0 && failed.err.contains(&name), "{args:?}: {} {}", failed.out, failed.err);
    }
    std::fs::remove_file(&file).unwrap();
    let gone = run(&["journal", "verify"]).exits(1);
    assert!(gone.err.contains(&name) && gone.err.contains("missing"), "{}", gone.err);
    let doctor = run(&["doctor", "--component", "archive"]).exits(1);
    assert!(doctor.out.contains(&name), "{}", doctor.out);
    assert_eq!(json(&["budget", "show", "room"]), balances, "everything else works");
}

/// Puts the archive of a database back, and moves the database to the other engine.
fn unarchive_and_move(url: &str, other: &str) {
    let dir = Workdir::empty();
    let run = |args: &[&str]| dir.run(&[&["--database", url], args].concat());
    let json = |args: &[&str]| dir.json(&[&["--database", url], args].concat());
    let end = fill(url);
    dir.file("bursar.toml", SETTINGS);
    let listed = json(&["journal", "list", "--after", "0"]);
    assert!(run(&["journal", "unarchive"]).exits(0).out.contains("nothing was archived"));
    run(&["journal", "archive"]).exits(0);
    let refused = dir.run(&["move", "--from", url, "--to", other]).exits(1);
    assert!(refused.err.contains("archive") && refused.err.contains("bursar journal unarchive"), "{}", refused.err);

    let file = segment_files(&dir.0.path().join("archive")).remove(0);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[1..]).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let damaged = run(&["journal", "unarchive"]).exits(1);
    assert!(damaged.err.contains(name), "{}", damaged.err);
    std::fs::write(&file, bytes).unwrap();
    run(&["journal", "verify"]).exits(0);

    let done = run(&["journal", "unarchive"]).exits(0);
    assert!(done.out.contains(&format!("positions 1 to {} are in the database again", end - 1)), "{}", done.out);
    assert!(file.exists(), "the file stays");
    dir.file("bursar.toml", "");
    assert_eq!(json(&["journal", "list", "--after", "0"]), listed, "no archive is needed");
    run(&["verify"]).exits(0);
    let moved = dir.run(&["move", "--from", url, "--to", other]).exits(0);
    assert!(moved.out.contains(&format!("up to position {end}")), "{}", moved.out);
    assert_eq!(dir.json(&["rebuild", "--yes", "--database", other])["events"], end);
}

#[test]
fn an_archived_sqlite_journal_is_put_back_and_moved() {
    let folder = tempfile::tempdir().unwrap();
    unarchive_and_move(
        &format!("sqlite://{}", folder.path().join("live.db").display()),
        &bursar_testkit::fresh_database(),
    );
}

#[test]
fn an_archived_postgres_journal_is_put_back_and_moved() {
    let folder = tempfile::tempdir().unwrap();
    unarchive_and_move(
        &bursar_testkit::fresh_database(),
        &format!("sqlite://{}", folder.path().join("laptop.db").display()),
    );
}

#[test]
fn a_sqlite_journal_is_archived_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    let empty = |url: &str| {
        let database = rusqlite::Connection::open(url.trim_start_matches("sqlite://")).unwrap();
        database.execute_batch("DELETE FROM bursar_scopes; DELETE FROM bursar_postings").unwrap();
    };
    archive_and_restore(&url("live.db"), empty, &url("other.db"));
}

#[test]
fn a_postgres_journal_is_archived_and_restored() {
    let (url, other) = (bursar_testkit::fresh_database(), bursar_testkit::fresh_database());
    let empty = |url: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut database = PgConnection::connect(url).await.unwrap();
            sqlx::raw_sql("DELETE FROM bursar.scopes; DELETE FROM bursar.postings")
                .execute(&mut database)
                .await
                .unwrap();
        });
    };
    archive_and_restore(&url, empty, &other);
}

#[test]
fn a_damaged_file_is_salvaged_with_its_archive() {
    let dir = Workdir::ready();
    let path = dir.0.path().join("bursar-data/bursar.db");
    let end = fill(&format!("sqlite://{}", path.display()));
    dir.file("bursar.toml", SETTINGS);
    dir.run(&["journal", "archive"]).exits(0);
    let listed = dir.json(&["journal", "list", "--after", "0"]);
    // A file whose version cannot be read is damaged; its journal can be read.
    dir.database().execute_batch("UPDATE bursar_meta SET value = 'damaged' WHERE key = 'schema'").unwrap();
    let fixed = dir.run(&["doctor", "--fix"]);
    assert!(fixed.code != 0 && fixed.out.contains(&format!("rebuilt from {end} events")), "{}", fixed.out);
    for name in ["bursar.db", "bursar.db-wal", "bursar.db-shm"] {
        let _ = std::fs::remove_file(path.with_file_name(name));
    }
    std::fs::rename(path.with_file_name("bursar.db.rebuilt"), &path).unwrap();
    dir.run(&["journal", "verify"]).exits(0);
    assert_eq!(dir.json(&["journal", "list", "--after", "0"]), listed);
    assert_eq!(dir.json(&["rebuild", "--yes"])["events"], end);
}
