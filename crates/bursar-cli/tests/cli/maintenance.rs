//! `bursar migrate` and `bursar rebuild`.

use rusqlite::Connection;

use crate::workdir::Workdir;

#[test]
fn printed_migrations_create_a_working_database() {
    let dir = Workdir::empty();
    let sql = dir.run(&["migrate", "--print"]).exits(0).out;
    assert!(!dir.0.path().join("bursar-data").exists(), "printing must not create a database");
    let path = dir.0.path().join("own.db");
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let url = format!("sqlite://{}", path.display());
    dir.run(&["--database", &url, "budget", "define", "a", "--limit", "1:lifetime"]).exits(0);
    dir.run(&["--database", &url, "migrate"]).exits(0);
    // BURSAR_DATABASE names the database unless --database does; USER is the actor.
    let environment = [("BURSAR_DATABASE", url.as_str()), ("USER", "ada")];
    dir.run_in(&environment, &["budget", "freeze", "a"], "").exits(0);
    let shown = dir.run_in(&environment, &["budget", "show", "a", "--json"], "").exits(0);
    assert!(shown.out.contains(r#""id": "ada""#), "{}", shown.out);
    dir.run_in(&environment, &["--database", "sqlite://other.db", "budget", "show", "a"], "").exits(1);
    Connection::open(&path).unwrap().execute("UPDATE bursar_meta SET value = '99'", []).unwrap();
    let newer = dir.run(&["--database", &url, "budget", "list"]).exits(1);
    assert!(newer.err.contains("newer bursar"), "{}", newer.err);
}

#[test]
fn rebuild_needs_confirmation_and_restores_the_same_tables() {
    let dir = Workdir::ready();
    dir.run(&["dev", "--tour"]).exits(0);
    let before = dir.json(&["budget", "show", "org:acme-1"]);
    let refused = dir.run(&["rebuild"]).exits(2);
    assert!(refused.err.contains("will be emptied") && refused.err.contains("--yes"), "{}", refused.err);
    dir.database().execute("DELETE FROM bursar_scopes", []).unwrap();
    dir.run(&["budget", "show", "org:acme-1"]).exits(4);
    assert_eq!(dir.json(&["rebuild", "--yes"])["events"], 8);
    assert_eq!(dir.json(&["budget", "show", "org:acme-1"]), before);
}
