//! How calls end, and what is refused by name.

use serde_json::json;

use crate::place::{Place, text};

/// A terminal would have the help and the errors of usage in bold and in colour; what is forced is as on a terminal.
#[test]
fn nothing_is_in_colour_for_who_does_not_want_it() {
    let place = Place::ready();
    let forced = ("CLICOLOR_FORCE", "1");
    let bold = place.run_in(&[forced], &["--help"], "").ends(0);
    assert!(bold.out.contains('\x1b'), "it could be seen if it were in colour: {}", bold.out);
    for (code, args) in [
        (0, &["--help"][..]),
        (2, &["frobnicate"]),
        (0, &["budget", "list"]),
        (4, &["budget", "show", "a"]),
        (0, &["doctor"]),
    ] {
        let plain = place.run_in(&[forced, ("NO_COLOR", "1")], args, "").ends(code);
        assert!(!plain.out.contains('\x1b') && !plain.err.contains('\x1b'), "{args:?}: {}{}", plain.out, plain.err);
    }
}

#[test]
fn every_exit_code_is_used_as_documented() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "10:day"]).ends(0);
    place.run(&["--help"]).ends(0);
    let id = place.json(&["hold", "place", "a=4"])["hold"]["id"].clone();
    let id = text(&id);
    let nobody = "hold_00000000000000000000000000";

    // 1: something is wrong.
    assert_eq!(place.database().execute("DELETE FROM bursar_holds", []).unwrap(), 1);
    let found = place.run(&["verify", "--json"]).ends(1);
    assert!(found.out.contains("\"ok\": false") && found.out.contains("that is not there"), "{}", found.out);
    place.run(&["rebuild", "--yes"]).ends(0);
    place.run(&["verify"]).ends(0);

    // 2: asked in a wrong way.
    place.run(&["budget"]).ends(2);
    assert_eq!(place.problem(2, &["hold", "show", nobody, "--frobnicate"])["type"], "/problems/invalid");
    // 3: refused.
    let problem = place.problem(3, &["hold", "place", "a=7"]);
    let violation = &problem["violations"][0];
    assert_eq!((&problem["type"], &problem["status"]), (&json!("/problems/refused"), &json!(409)));
    let seen = (&violation["kind"], &violation["window"], &violation["available"], &violation["possible"]);
    assert_eq!(seen, (&json!("limit"), &json!("day"), &json!(6), &json!(true)));
    assert!(violation["retry_after_ms"].as_i64().unwrap() > 0);
    // 4: not found.
    assert_eq!(place.problem(4, &["hold", "show", nobody])["type"], "/problems/not-found");
    assert_eq!(place.problem(4, &["hold", "release", nobody])["type"], "/problems/not-found");
    assert_eq!(place.problem(4, &["hold", "place", "nowhere=1"])["type"], "/problems/unknown-scope");
    for args in [["budget", "show", "nowhere"], ["job", "show", "job_00000000000000000000000000"]] {
        place.run(&args).ends(4);
    }
    // 5: conflict.
    place.run(&["hold", "release", id, "--reason", "not needed"]).ends(0);
    let problem = place.problem(5, &["hold", "commit", id]);
    assert_eq!((&problem["type"], &problem["state"]), (&json!("/problems/already-settled"), &json!("released")));
    place.run(&["post", "a=1", "--key", "k"]).ends(0);
    place.run(&["post", "a=1", "--key", "k"]).ends(0);
    assert_eq!(place.problem(5, &["post", "a=2", "--key", "k"])["type"], "/problems/conflict");
    // 6: unavailable.
    let garbage = place.file("garbage.db", &"this is not a database ".repeat(100));
    let empty = place.file("empty.db", "");
    for path in ["missing/folder/x.db", garbage.to_str().unwrap(), empty.to_str().unwrap()] {
        let url = format!("sqlite://{path}");
        assert_eq!(
            place.problem(6, &["--database", &url, "budget", "list"])["type"],
            "/problems/unavailable",
            "{path}"
        );
    }
    place.run(&["--database", "sqlite://missing/folder/x.db", "migrate"]).ends(6);
    assert!(!place.0.path().join("missing").exists(), "a mistyped path makes no folder");
}

#[test]
fn bad_input_is_refused_by_name_and_changes_nothing() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "10:day"]).ends(0);
    let events = || place.json(&["journal", "list"])["items"].as_array().unwrap().len();
    let before = events();
    for (args, word) in [
        (&["hold", "place", "a=-1"][..], "negative"),
        (&["hold", "place", "a=1", "--ttl-ms", "0"], "ttl_ms"),
        (&["hold", "place", "a=1", "--ttl-ms", "-5"], "-5"),
        (&["hold", "place", "a=1.5"], "whole number"),
        (&["hold", "place", "a"], "SCOPE=AMOUNT"),
        (&["hold", "show", "hold_nonsense"], "hold_…"),
        (&["hold", "show", "job_00000000000000000000000000"], "hold_…"),
        (&["budget", "define", "b", "--limit", "5:day@Mars/Olympus"], "Mars/Olympus"),
        (&["budget", "define", "b", "--limit", "5:fortnight"], "fortnight"),
        (&["budget", "define", "b", "--limit", "-5:day"], "negative"),
        (&["budget", "define", "b", "--limit", "5:day", "--ttl", "999999999"], "hold.ttl_ms"),
        (&["budget", "define", "b"], "--limit"),
        (&["budget", "define", "b", "--file", "no-such-file"], "no-such-file"),
        (&["budget", "credit", "a", "-5"], "negative"),
        (&["budget", "spent", "a", "--from", "yesterday"], "RFC 3339"),
        (&["grant", "mint", "upload", "s", "--ttl-ms", "0"], "ttl_ms"),
        (&["grant", "mint", "upload", "s", "--ttl-ms", "1000", "--payload", "{"], "JSON"),
        (&["journal", "list", "--stream", "room"], "scope:NAME"),
        (&["--tenant", "", "budget", "list"], "tenant"),
        (&["--database", "mysql://user:secret@host/x", "budget", "list"], "sqlite://PATH"),
    ] {
        let problem = place.problem(2, args);
        let detail = text(&problem["detail"]);
        assert!(detail.contains(word), "{args:?}: {detail}");
        assert!(!detail.contains("secret"), "{detail}");
    }
    for (body, field) in [
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "setle": "now" }"#, "setle"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1, "limt": 3 } ] }"#, "limt"),
        (r#"{ "charges": [ { "scope": "a", "amount": -1 } ] }"#, "charges.amount"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "settle": "hold", "ttl_ms": 0 }"#, "ttl_ms"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "ttl_ms": 5 }"#, "ttl_ms"),
        (
            r#"{ "charges": [ { "scope": "a", "amount": 1, "limits": [ { "amount": 1, "window": "day", "zone": "X" } ] } ] }"#,
            "zone",
        ),
        ("{}", "charges"),
        ("not json", "body"),
    ] {
        let problem = place.run_with(&["command", "submit", "-", "--json"], body).ends(2).problem();
        assert_eq!(problem["field"], field, "{body}: {problem}");
    }
    let file = place.file("budget.json", r#"{ "limits": [ { "amount": 1, "window": "day" } ], "shadow": true }"#);
    assert_eq!(place.problem(2, &["budget", "define", "b", "--file", file.to_str().unwrap()])["field"], "shadow");
    // A malformed token is the same answer as a used one.
    let problem = place.problem(3, &["grant", "redeem", "upload", "s", "bgr_nonsense"]);
    assert_eq!(problem["violations"], json!([{ "kind": "grant", "purpose": "upload" }]));
    assert_eq!(events(), before);
}
