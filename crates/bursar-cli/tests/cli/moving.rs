//! `bursar move`.

use crate::workdir::{Workdir, text};

#[test]
fn a_database_moves_to_postgres_and_back() {
    let dir = Workdir::ready();
    dir.run(&["dev", "--tour"]).exits(0);
    let (first, back) = ("sqlite://bursar-data/bursar.db", "sqlite://back.db");
    let server = bursar_testkit::fresh_database();
    let moved = dir.json(&["move", "--from", first, "--to", &server]);
    assert_eq!(
        (&moved["complete"], &moved["position"], &moved["passes"]),
        (&true.into(), &8.into(), &1.into()),
        "{moved}"
    );
    assert_eq!(moved["differences"], serde_json::json!([]));
    assert!(moved["tables"].as_array().unwrap().iter().all(|table| table["equal"] == true), "{moved}");
    let list = |url: &str| dir.json(&["journal", "list", "--database", url]);
    assert_eq!(list(&server), list(first));

    let moved = dir.run(&["move", "--follow", "--from", &server, "--to", back]).exits(0);
    assert!(moved.out.contains("up to position 8") && moved.out.contains("writes were refused for"), "{}", moved.out);
    assert!(moved.err.contains("the source is read-only, up to position 8"), "{}", moved.err);
    assert_eq!(list(back), list(first));
    // The source of the move tells where its contents are.
    let problem = dir.problem(1, &["budget", "list", "--database", &server]);
    assert!(text(&problem["detail"]).contains("was moved to sqlite://"), "{problem}");
    let abandoned = dir.json(&["move", "--abandon", "--from", &server, "--to", back]);
    assert_eq!(abandoned["position"], 8);
    dir.run(&["verify", "--database", &server]).exits(0);
    let problem = dir.problem(1, &["verify", "--database", back]);
    assert!(text(&problem["detail"]).contains("was abandoned; postgres://"), "{problem}");
    // It is not damaged, so there is nothing to repair.
    let doctor = dir.run(&["doctor", "--fix", "--component", "database", "--database", back]).exits(1);
    assert!(doctor.out.contains("was abandoned") && !doctor.out.contains("what to do"), "{}", doctor.out);
    assert!(!dir.0.path().join("back.db.rebuilt").exists());
}

#[test]
fn a_move_through_a_pooler_names_the_url_that_it_needs() {
    let dir = Workdir::ready();
    let pooled = bursar_testkit::pooler().url(&bursar_testkit::fresh_database());
    let refused = dir.problem(1, &["move", "--from", "sqlite://bursar-data/bursar.db", "--to", &pooled]);
    let detail = text(&refused["detail"]);
    assert!(detail.contains("a pooler") && detail.contains("directly, as `bursar move` must"), "{detail}");
}

#[test]
fn moves_that_cannot_begin_are_refused() {
    let dir = Workdir::ready();
    let first = "sqlite://bursar-data/bursar.db";
    dir.run(&["dev", "--tour"]).exits(0);
    dir.problem(1, &["move", "--from", "sqlite://none.db", "--to", "sqlite://other.db"]);
    dir.problem(1, &["move", "--from", first, "--to", "sqlite://no/such/folder.db"]);
    dir.problem(1, &["move", "--from", first, "--to", "sqlite::memory:"]);
    dir.problem(2, &["move", "--from", first, "--to", "nonsense"]);
    dir.run(&["move", "--from", first]).exits(2);
    let same = dir.problem(1, &["move", "--from", first, "--to", "sqlite:bursar-data/bursar.db"]);
    assert!(text(&same["detail"]).contains("both the source and the target"), "{same}");
    dir.json(&["migrate", "--database", "sqlite://used.db"]);
    dir.json(&["budget", "define", "a", "--limit", "10:lifetime", "--database", "sqlite://used.db"]);
    let used = dir.problem(1, &["move", "--from", first, "--to", "sqlite://used.db"]);
    assert!(text(&used["detail"]).contains("is not empty; nothing was changed"), "{used}");
    let swapped = dir.problem(1, &["move", "--from", &bursar_testkit::fresh_database(), "--to", first]);
    assert!(text(&swapped["detail"]).contains("exchange --from and --to"), "{swapped}");
    let nothing = dir.problem(1, &["move", "--abandon", "--from", first]);
    assert!(text(&nothing["detail"]).contains("was not moved"), "{nothing}");
    dir.run(&["verify"]).exits(0);
}
