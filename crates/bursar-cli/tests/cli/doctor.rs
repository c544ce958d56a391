//! `bursar doctor`.

use crate::workdir::{Workdir, text};

/// Returns whether a component has failed.
fn failed(report: &str, component: &str) -> bool {
    report.lines().any(|line| line.starts_with(component) && line.contains("FAILED"))
}

#[test]
fn doctor_reports_damage_and_rebuilds_tables_from_the_journal() {
    let dir = Workdir::ready();
    dir.run(&["dev", "--tour"]).exits(0);
    let healthy = dir.json(&["doctor"]);
    let components: Vec<&str> =
        healthy["findings"].as_array().unwrap().iter().map(|finding| text(&finding["component"])).collect();
    assert_eq!(components, ["database", "clock", "journal", "balances", "retention", "blobs", "port"]);

    // Rows that disagree, and rows that do not parse.
    for damage in ["UPDATE bursar_postings SET amount = 1", "UPDATE bursar_scopes SET state = x'00'"] {
        dir.database().execute(damage, []).unwrap();
        let damaged = dir.run(&["doctor"]).exits(1);
        assert!(failed(&damaged.out, "balances") && damaged.out.contains("doctor --fix"), "{}", damaged.out);
        dir.run(&["doctor", "--component", "clock"]).exits(0);
        assert_eq!(dir.json(&["doctor", "--fix"])["rebuilt"], 8);
        dir.run(&["verify"]).exits(0);
    }

    // A clock that had jumped ahead.
    dir.database().execute("UPDATE bursar_journal SET at = at + 86400000000 WHERE position = 8", []).unwrap();
    let clock = dir.run(&["doctor", "--component", "clock"]).exits(1);
    assert!(clock.out.contains("ahead of the clock") && clock.out.contains("--fix"), "{}", clock.out);
    dir.database().execute("UPDATE bursar_journal SET at = at - 86400000000 WHERE position = 8", []).unwrap();
    dir.run(&["doctor"]).exits(0);

    // An unreadable journal is not used for a rebuild.
    dir.database().execute("UPDATE bursar_journal SET entries = '?' WHERE position = 4", []).unwrap();
    dir.database().execute("UPDATE bursar_postings SET amount = 1", []).unwrap();
    let lost = dir.run(&["doctor", "--fix"]).exits(1);
    assert!(failed(&lost.out, "journal") && !lost.out.contains("rebuilt from"), "{}", lost.out);
}

#[test]
fn doctor_moves_back_a_journal_ahead_of_the_clock() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "100:day"]).exits(0);
    dir.run(&["post", "a=1"]).exits(0);
    dir.run(&["post", "a=2"]).exits(0);
    dir.database().execute("UPDATE bursar_journal SET at = at + 86400000000 WHERE position = 3", []).unwrap();
    let fixed = dir.run(&["doctor", "--component", "clock", "--fix"]).exits(1);
    assert!(fixed.out.contains("bursar.db.rebuilt was written from the 3 events"), "{}", fixed.out);
    let again = dir.run(&["doctor", "--fix"]).exits(1);
    assert!(again.out.contains("already exists"), "an existing file is not overwritten: {}", again.out);
    let database = dir.0.path().join("bursar-data/bursar.db");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", database.display()));
    }
    std::fs::rename(format!("{}.rebuilt", database.display()), &database).unwrap();
    dir.run(&["doctor"]).exits(0);
    assert_eq!(dir.json(&["budget", "show", "a"])["balances"][0]["remaining"], 97);
}

#[test]
fn doctor_reports_damaged_and_missing_files_with_recovery_steps() {
    let dir = Workdir::empty();
    let missing = dir.run(&["doctor"]).exits(1);
    assert!(missing.out.contains("bursar-data/bursar.db") && missing.out.contains("bursar migrate"), "{}", missing.out);
    let garbage = dir.file("garbage.db", &"this is not a database ".repeat(100));
    let url = format!("sqlite://{}", garbage.display());
    let damaged = dir.run(&["--database", &url, "doctor", "--fix"]).exits(1);
    assert!(damaged.out.contains("garbage.db") && damaged.out.contains("backup"), "{}", damaged.out);
    assert_eq!(
        std::fs::read_to_string(&garbage).unwrap(),
        "this is not a database ".repeat(100),
        "the file is unchanged"
    );

    // Damage in the middle of a valid file.
    dir.run(&["dev", "--tour"]).exits(0);
    dir.database().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = dir.0.path().join("bursar-data/bursar.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let damaged = dir.run(&["doctor"]).exits(1);
    assert!(damaged.out.contains("FAILED") && damaged.out.contains("backup"), "{}", damaged.out);
    dir.run(&["hold", "place", "a=1", "--limit", "1:day"]).exits(1);
}

#[test]
fn doctor_writes_a_new_file_from_the_journal_of_a_damaged_one() {
    let dir = Workdir::ready();
    dir.run(&["dev", "--tour"]).exits(0);
    let budgets = spent(&dir);
    let path = dir.0.path().join("bursar-data/bursar.db");
    let damage = |table: &str| {
        let conn = dir.database();
        conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let page: u32 = conn.query_row(sql, [table], |row| row.get(0)).unwrap();
        drop(conn);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[(page as usize - 1) * 4096..][..200].fill(0xff);
        std::fs::write(&path, &bytes).unwrap();
        bytes
    };
    let damaged = damage("bursar_holds");
    assert!(dir.run(&["doctor"]).exits(1).out.contains("--fix"));
    let fixed = dir.run(&["doctor", "--fix"]).exits(1);
    assert!(fixed.out.contains("rebuilt from 8 events"), "{}", fixed.out);
    assert_eq!(std::fs::read(&path).unwrap(), damaged, "the damaged file is unchanged");
    let rebuilt = path.with_file_name("bursar.db.rebuilt");
    std::fs::rename(&rebuilt, &path).unwrap();
    dir.run(&["doctor"]).exits(0);
    assert_eq!(spent(&dir), budgets);

    // Without a readable journal no file is written.
    damage("bursar_journal");
    let lost = dir.run(&["doctor", "--fix"]).exits(1);
    assert!(lost.out.contains("backup") && !lost.out.contains("rebuilt from"), "{}", lost.out);
    assert!(lost.out.contains("no new file was written: "), "{}", lost.out);
    assert!(!rebuilt.exists());
}

/// Returns the posted and held amounts of all budgets, except buckets, whose balances change with time.
fn spent(dir: &Workdir) -> Vec<String> {
    let budgets = dir.json(&["budget", "list"]);
    let budgets = budgets["items"].as_array().expect("a list");
    let of_one = |budget: &serde_json::Value| {
        let balances =
            budget["balances"].as_array().expect("a list").iter().filter(|balance| balance["window"] != "bucket");
        balances.map(|balance| format!("{} {} {}", budget["scope"], balance["posted"], balance["held"])).collect()
    };
    let spent: Vec<String> = budgets.iter().flat_map(|budget| -> Vec<String> { of_one(budget) }).collect();
    assert!(!spent.is_empty());
    spent
}
