//! Migrations and the rebuild.

use rusqlite::Connection;

use crate::place::Place;

#[test]
fn printed_migrations_make_a_database_that_works() {
    let place = Place::empty();
    let sql = place.run(&["migrate", "--print"]).ends(0).out;
    assert!(!place.0.path().join("bursar-data").exists(), "printing makes nothing");
    let path = place.0.path().join("own.db");
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let url = format!("sqlite://{}", path.display());
    place.run(&["--database", &url, "budget", "define", "a", "--limit", "1:lifetime"]).ends(0);
    place.run(&["--database", &url, "migrate"]).ends(0);
    // The environment names the database unless an option does, and says who asks.
    let environment = [("BURSAR_DATABASE", url.as_str()), ("USER", "ada")];
    place.run_in(&environment, &["budget", "freeze", "a"], "").ends(0);
    let shown = place.run_in(&environment, &["budget", "show", "a", "--json"], "").ends(0);
    assert!(shown.out.contains(r#""id": "ada""#), "{}", shown.out);
    place.run_in(&environment, &["--database", "sqlite://other.db", "budget", "show", "a"], "").ends(6);
    Connection::open(&path).unwrap().execute("UPDATE bursar_meta SET value = '99'", []).unwrap();
    let newer = place.run(&["--database", &url, "budget", "list"]).ends(6);
    assert!(newer.err.contains("newer bursar"), "{}", newer.err);
}

#[test]
fn rebuild_asks_first_and_gives_the_same_tables() {
    let place = Place::ready();
    place.run(&["dev", "--no-serve"]).ends(0);
    let before = place.json(&["budget", "show", "org:acme-1"]);
    let refused = place.run(&["rebuild"]).ends(2);
    assert!(refused.err.contains("will be emptied") && refused.err.contains("--yes"), "{}", refused.err);
    place.database().execute("DELETE FROM bursar_scopes", []).unwrap();
    place.run(&["budget", "show", "org:acme-1"]).ends(4);
    assert_eq!(place.json(&["rebuild", "--yes"])["events"], 8);
    assert_eq!(place.json(&["budget", "show", "org:acme-1"]), before);
}
