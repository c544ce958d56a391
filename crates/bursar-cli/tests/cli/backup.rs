//! `bursar backup` and `bursar restore`.

use crate::workdir::Workdir;

#[test]
fn a_backup_restores_the_same_journal() {
    let dir = Workdir::ready();
    dir.run(&["dev", "--tour"]).exits(0);
    let made = dir.json(&["backup", "copy.db"]);
    assert_eq!((&made["verified"]["ok"], &made["position"]), (&true.into(), &8.into()), "{made}");
    // Existing files are replaced only with --force.
    assert!(dir.problem(5, &["backup", "copy.db"])["detail"].as_str().unwrap().contains("--force"));
    dir.run(&["backup", "copy.db", "--force", "--no-verify"]).exits(0);
    assert!(dir.problem(5, &["restore", "copy.db"])["detail"].as_str().unwrap().contains("--force"));
    let restored = dir.json(&["restore", "copy.db", "--database", "sqlite://other.db"]);
    assert_eq!((&restored["verified"]["ok"], &restored["position"]), (&true.into(), &8.into()), "{restored}");
    let list = |args: &[&str]| dir.json(&[&["journal", "list"], args].concat());
    assert_eq!(list(&["--database", "sqlite://other.db"]), list(&[]));
    let restored = dir.run(&["restore", "copy.db", "--force"]).exits(0);
    assert!(restored.out.contains("up to position 8, verified: 3 scopes"), "{}", restored.out);
}

#[test]
fn files_that_cannot_be_restored_are_rejected() {
    let dir = Workdir::ready();
    dir.file("not.db", "PGDMP and so on");
    assert!(dir.problem(2, &["restore", "not.db", "--force"])["detail"].as_str().unwrap().contains("postgres://"));
    dir.file("not.db", "hello");
    let problem = dir.problem(1, &["restore", "not.db", "--force"]);
    assert!(problem["detail"].as_str().unwrap().contains("nothing was changed"), "{problem}");
    dir.problem(2, &["restore", "not.db", "--database", "postgres://127.0.0.1:1/none"]);
    let missing = dir.run(&["restore", "gone.db", "--force"]).exits(2);
    assert!(missing.err.contains("gone.db does not exist") && !missing.err.contains("tenant"), "{}", missing.err);
    dir.problem(1, &["backup", "copy.db", "--database", "sqlite://gone.db"]);
    dir.problem(2, &["backup", "copy.db", "--database", "sqlite::memory:"]);
    dir.run(&["verify"]).exits(0);
}
