//! `bursar bench`: what it prints, and what it refuses.

use serde_json::{Value, json};

use crate::place::{Place, text};

const SHORT: [&str; 10] = ["bench", "hold", "--callers", "2", "--scopes", "1", "--seconds", "0.1", "--rounds", "1"];

#[test]
fn a_line_of_json_for_each_measurement_and_a_table_for_people() {
    let place = Place::empty();
    let here = format!("sqlite://{}/bench.db", place.0.path().display());
    for url in [here, bursar_testkit::fresh_database()] {
        let args = [&SHORT[..], &["--database", &url]].concat();
        let ran = place.run(&[&args[..], &["--json"]].concat()).ends(0);
        let line: Value = serde_json::from_str(&ran.out).expect("one line of JSON");
        assert_eq!((&line["bench"], &line["callers"], &line["scopes"]), (&json!("hold"), &json!(2), &json!(1)));
        assert_eq!(line["engine"], if url.starts_with("sqlite") { "sqlite" } else { "postgres" });
        assert_eq!(line["baseline"], "bulk-insert");
        assert!(line["per_second"].as_f64().unwrap() > 0.0 && line["ratio"].as_f64().unwrap() > 0.0, "{line}");
        assert!(ran.err.contains("machine: ") && ran.err.contains("one fsync takes"), "{}", ran.err);

        let ran = place.run(&args).ends(0);
        for word in ["machine: ", "one fsync takes", "p99 ms", "bulk-insert", "ratio"] {
            assert!(ran.out.contains(word), "{word} is missing in\n{}", ran.out);
        }
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn what_cannot_be_measured_is_wrong_usage() {
    let place = Place::empty();
    for (args, word) in [
        (&["bench", "quick"][..], "command, hold, settle"),
        (&["bench", "--callers", "0"], "callers"),
        (&["bench", "--scopes", "0"], "scopes"),
        (&["bench", "--rounds", "0"], "rounds"),
        (&["bench", "--seconds", "-1"], "seconds"),
        (&["bench", "--seconds", "0"], "seconds"),
        (&["bench", "--seconds", "soon"], "soon"),
        (&["bench", "--history", "-5"], "-5"),
        (&["bench", "--baseline", "slow"], "textbook"),
        (&["bench", "--keys", "odd"], "random"),
        (&["bench", "--snapshot", "--baseline", "textbook"], "snapshot"),
        (&["bench", "--database", "sqlite::memory:"], "disk"),
        (&["bench", "--database", "mysql://user:secret@host/x"], "postgres://"),
        (&["bench", "--database", "sqlite://missing/folder/x.db"], "missing/folder"),
    ] {
        let problem = place.problem(2, args);
        let detail = text(&problem["detail"]);
        assert!(detail.contains(word) && !detail.contains("secret"), "{args:?}: {detail}");
    }
    assert_eq!(
        place.problem(6, &["bench", "--database", "postgres://127.0.0.1:1/none"])["type"],
        "/problems/unavailable"
    );
}

#[test]
fn both_engines_are_measured_in_places_of_their_own_whatever_the_environment_names() {
    let place = Place::empty();
    let environment = [("BURSAR_DATABASE", "postgres://127.0.0.1:1/production")];
    let args = [&SHORT[..], &["--baseline", "none", "--json"]].concat();
    let ran = place.run_in(&environment, &args, "").ends(0);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.iter().map(|line| text(&line["engine"])).collect::<Vec<_>>(), ["sqlite", "postgres"]);
    assert!(lines.iter().all(|line| line["baseline"].is_null() && line["ratio"].is_null()), "{}", ran.out);
    for setting in ["synchronous=FULL", "fsync=on", "synchronous_commit=on"] {
        assert!(ran.err.contains(setting), "{}", ran.err);
    }
}
