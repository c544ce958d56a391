//! Backup and restore as they are asked for.

use crate::place::Place;

#[test]
fn a_backup_and_the_way_back() {
    let place = Place::ready();
    place.run(&["dev", "--no-serve"]).ends(0);
    let made = place.json(&["backup", "copy.db"]);
    assert_eq!((&made["verified"]["ok"], &made["position"]), (&true.into(), &8.into()), "{made}");
    // Nothing is replaced unless that is said.
    assert!(place.problem(5, &["backup", "copy.db"])["detail"].as_str().unwrap().contains("--force"));
    place.run(&["backup", "copy.db", "--force", "--no-verify"]).ends(0);
    assert!(place.problem(5, &["restore", "copy.db"])["detail"].as_str().unwrap().contains("--force"));
    let restored = place.json(&["restore", "copy.db", "--database", "sqlite://other.db"]);
    assert_eq!((&restored["verified"]["ok"], &restored["position"]), (&true.into(), &8.into()), "{restored}");
    let list = |args: &[&str]| place.json(&[&["journal", "list"], args].concat());
    assert_eq!(list(&["--database", "sqlite://other.db"]), list(&[]));
    let told = place.run(&["restore", "copy.db", "--force"]).ends(0);
    assert!(told.out.contains("up to position 8, verified: 3 scopes"), "{}", told.out);
}

#[test]
fn what_cannot_be_restored_is_told() {
    let place = Place::ready();
    place.file("not.db", "PGDMP and so on");
    assert!(place.problem(2, &["restore", "not.db", "--force"])["detail"].as_str().unwrap().contains("postgres://"));
    place.file("not.db", "hello");
    let told = place.problem(6, &["restore", "not.db", "--force"]);
    assert!(told["detail"].as_str().unwrap().contains("nothing was changed"), "{told}");
    place.problem(2, &["restore", "not.db", "--database", "postgres://127.0.0.1:1/none"]);
    place.problem(4, &["restore", "gone.db", "--force"]);
    place.problem(6, &["backup", "copy.db", "--database", "sqlite://gone.db"]);
    place.problem(2, &["backup", "copy.db", "--database", "sqlite::memory:"]);
    place.run(&["verify"]).ends(0);
}
