//! What the doctor names and repairs.

use crate::place::{Place, text};

#[test]
fn doctor_names_what_is_wrong_and_fixes_what_follows_from_the_journal() {
    let place = Place::ready();
    place.run(&["dev", "--no-serve"]).ends(0);
    let healthy = place.json(&["doctor"]);
    let components: Vec<&str> =
        healthy["findings"].as_array().unwrap().iter().map(|finding| text(&finding["component"])).collect();
    assert_eq!(components, ["database", "clock", "journal", "balances"]);

    // Rows that disagree, and rows that cannot be read.
    for damage in ["UPDATE bursar_postings SET amount = 1", "UPDATE bursar_scopes SET state = x'00'"] {
        place.database().execute(damage, []).unwrap();
        let sick = place.run(&["doctor"]).ends(1);
        assert!(sick.out.contains("balances  WRONG") && sick.out.contains("doctor --fix"), "{}", sick.out);
        place.run(&["doctor", "--component", "clock"]).ends(0);
        assert_eq!(place.json(&["doctor", "--fix"])["rebuilt"], 8);
        place.run(&["verify"]).ends(0);
    }

    // A clock that jumped far forward once.
    place.database().execute("UPDATE bursar_journal SET at = at + 86400000000 WHERE position = 8", []).unwrap();
    let clock = place.run(&["doctor", "--component", "clock"]).ends(1);
    assert!(clock.out.contains("after the clock") && clock.out.contains("--fix"), "{}", clock.out);
    place.database().execute("UPDATE bursar_journal SET at = at - 86400000000 WHERE position = 8", []).unwrap();
    place.run(&["doctor"]).ends(0);

    // A journal that cannot be read is not rebuilt from.
    place.database().execute("UPDATE bursar_journal SET entries = '?' WHERE position = 4", []).unwrap();
    place.database().execute("UPDATE bursar_postings SET amount = 1", []).unwrap();
    let lost = place.run(&["doctor", "--fix"]).ends(1);
    assert!(lost.out.contains("journal   WRONG") && !lost.out.contains("rebuilt"), "{}", lost.out);
}

#[test]
fn doctor_sets_back_a_journal_that_is_ahead_of_the_clock() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "100:day"]).ends(0);
    place.run(&["post", "a=1"]).ends(0);
    place.run(&["post", "a=2"]).ends(0);
    place.database().execute("UPDATE bursar_journal SET at = at + 86400000000 WHERE position = 3", []).unwrap();
    let fixed = place.run(&["doctor", "--component", "clock", "--fix"]).ends(1);
    assert!(fixed.out.contains("bursar.db.rebuilt was made from the 3 events"), "{}", fixed.out);
    let again = place.run(&["doctor", "--fix"]).ends(1);
    assert!(again.out.contains("is there already"), "what was made is not made again: {}", again.out);
    let database = place.0.path().join("bursar-data/bursar.db");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", database.display()));
    }
    std::fs::rename(format!("{}.rebuilt", database.display()), &database).unwrap();
    place.run(&["doctor"]).ends(0);
    assert_eq!(place.json(&["budget", "show", "a"])["balances"][1]["remaining"], 97);
}

#[test]
fn doctor_names_a_file_that_is_damaged_or_missing_and_the_way_back() {
    let place = Place::empty();
    let missing = place.run(&["doctor"]).ends(6);
    assert!(missing.out.contains("bursar-data/bursar.db") && missing.out.contains("bursar migrate"), "{}", missing.out);
    let garbage = place.file("garbage.db", &"this is not a database ".repeat(100));
    let url = format!("sqlite://{}", garbage.display());
    let damaged = place.run(&["--database", &url, "doctor", "--fix"]).ends(6);
    assert!(damaged.out.contains("garbage.db") && damaged.out.contains("backup"), "{}", damaged.out);
    assert_eq!(
        std::fs::read_to_string(&garbage).unwrap(),
        "this is not a database ".repeat(100),
        "nothing overwritten"
    );

    // Damage in the middle of a file that was good.
    place.run(&["dev", "--no-serve"]).ends(0);
    place.database().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = place.0.path().join("bursar-data/bursar.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let damaged = place.run(&["doctor"]).ends(6);
    assert!(damaged.out.contains("WRONG") && damaged.out.contains("backup"), "{}", damaged.out);
    place.run(&["hold", "place", "a=1", "--limit", "1:day"]).ends(6);
}

#[test]
fn doctor_makes_a_new_file_from_the_journal_of_a_damaged_one() {
    let place = Place::ready();
    place.run(&["dev", "--no-serve"]).ends(0);
    let budgets = spent(&place);
    let path = place.0.path().join("bursar-data/bursar.db");
    let spoil = |table: &str| {
        let conn = place.database();
        conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let page: u32 = conn.query_row(sql, [table], |row| row.get(0)).unwrap();
        drop(conn);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[(page as usize - 1) * 4096..][..200].fill(0xff);
        std::fs::write(&path, &bytes).unwrap();
        bytes
    };
    let damaged = spoil("bursar_holds");
    assert!(place.run(&["doctor"]).ends(6).out.contains("--fix"));
    let fixed = place.run(&["doctor", "--fix"]).ends(6);
    assert!(fixed.out.contains("rebuilt from 8 events"), "{}", fixed.out);
    assert_eq!(std::fs::read(&path).unwrap(), damaged, "the damaged file is only read");
    let anew = path.with_file_name("bursar.db.rebuilt");
    std::fs::rename(&anew, &path).unwrap();
    place.run(&["doctor"]).ends(0);
    assert_eq!(spent(&place), budgets);

    // Without its journal nothing is made.
    spoil("bursar_journal");
    let lost = place.run(&["doctor", "--fix"]).ends(6);
    assert!(lost.out.contains("backup") && !lost.out.contains("rebuilt from"), "{}", lost.out);
    assert!(!anew.exists());
}

/// What is posted and held everywhere, but in buckets: what they say changes with time.
fn spent(place: &Place) -> Vec<String> {
    let budgets = place.json(&["budget", "list"]);
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
