//! Exit codes and input errors.

use serde_json::json;

use crate::workdir::{Workdir, text};

/// Help and usage errors are coloured on a terminal; CLICOLOR_FORCE has the same effect.
#[test]
fn no_color_disables_colours() {
    let dir = Workdir::ready();
    let forced = ("CLICOLOR_FORCE", "1");
    let bold = dir.run_in(&[forced], &["--help"], "").exits(0);
    assert!(bold.out.contains('\x1b'), "the help is coloured without NO_COLOR: {}", bold.out);
    for (code, args) in [
        (0, &["--help"][..]),
        (2, &["frobnicate"]),
        (0, &["budget", "list"]),
        (4, &["budget", "show", "a"]),
        (0, &["doctor"]),
    ] {
        let plain = dir.run_in(&[forced, ("NO_COLOR", "1")], args, "").exits(code);
        assert!(!plain.out.contains('\x1b') && !plain.err.contains('\x1b'), "{args:?}: {}{}", plain.out, plain.err);
    }
}

#[test]
fn every_exit_code_is_used_as_documented() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "10:day"]).exits(0);
    dir.run(&["--help"]).exits(0);
    let id = dir.json(&["hold", "place", "a=4"])["hold"]["id"].clone();
    let id = text(&id);
    let unknown = "hold_00000000000000000000000000";

    // 1: failed.
    assert_eq!(dir.database().execute("DELETE FROM bursar_holds", []).unwrap(), 1);
    let found = dir.run(&["verify", "--json"]).exits(1);
    assert!(found.out.contains("\"ok\": false") && found.out.contains("which does not exist"), "{}", found.out);
    dir.run(&["rebuild", "--yes"]).exits(0);
    dir.run(&["verify"]).exits(0);

    // 2: wrong usage.
    dir.run(&["budget"]).exits(2);
    assert_eq!(dir.problem(2, &["hold", "show", unknown, "--frobnicate"])["type"], "/problems/invalid");
    // 3: refused.
    let problem = dir.problem(3, &["hold", "place", "a=7"]);
    let violation = &problem["violations"][0];
    assert_eq!((&problem["type"], &problem["status"]), (&json!("/problems/refused"), &json!(409)));
    let seen = (&violation["kind"], &violation["window"], &violation["available"], &violation["possible"]);
    assert_eq!(seen, (&json!("limit"), &json!("day"), &json!(6), &json!(true)));
    assert!(violation["retry_after_ms"].as_i64().unwrap() > 0);
    // 4: not found.
    assert_eq!(dir.problem(4, &["hold", "show", unknown])["type"], "/problems/not-found");
    assert_eq!(dir.problem(4, &["hold", "release", unknown])["type"], "/problems/not-found");
    assert_eq!(dir.problem(4, &["hold", "place", "nowhere=1"])["type"], "/problems/unknown-scope");
    for args in [["budget", "show", "nowhere"], ["job", "show", "job_00000000000000000000000000"]] {
        dir.run(&args).exits(4);
    }
    // 5: conflict.
    dir.run(&["hold", "release", id, "--reason", "not needed"]).exits(0);
    let problem = dir.problem(5, &["hold", "commit", id]);
    assert_eq!((&problem["type"], &problem["state"]), (&json!("/problems/already-settled"), &json!("released")));
    dir.run(&["post", "a=1", "--key", "k"]).exits(0);
    dir.run(&["post", "a=1", "--key", "k"]).exits(0);
    assert_eq!(dir.problem(5, &["post", "a=2", "--key", "k"])["type"], "/problems/conflict");
    // 1 as well: a database that does not become usable by itself.
    let garbage = dir.file("garbage.db", &"this is not a database ".repeat(100));
    let empty = dir.file("empty.db", "");
    for path in ["missing/folder/x.db", garbage.to_str().unwrap(), empty.to_str().unwrap()] {
        let url = format!("sqlite://{path}");
        assert_eq!(dir.problem(1, &["--database", &url, "budget", "list"])["type"], "/problems/unusable", "{path}");
    }
    dir.run(&["--database", "sqlite://missing/folder/x.db", "migrate"]).exits(1);
    assert!(!dir.0.path().join("missing").exists(), "a mistyped path must not create a folder");
    // 6: unavailable, but a retry may succeed.
    let server = ["--server", "http://127.0.0.1:1", "--timeout", "100ms", "budget", "list"];
    assert_eq!(dir.problem(6, &server)["type"], "/problems/unavailable");
}

#[test]
fn invalid_input_is_rejected_by_field_and_changes_nothing() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "10:day"]).exits(0);
    let events = || dir.json(&["journal", "list"])["items"].as_array().unwrap().len();
    let before = events();
    for (args, word) in [
        (&["hold", "place", "a=-1"][..], "negative"),
        (&["hold", "place", "a=1", "--ttl-ms", "0"], "ttl_ms"),
        (&["hold", "place", "a=1", "--ttl-ms", "-5"], "-5"),
        (&["hold", "place", "a=1", "--ttl", "5"], "5m for minutes"),
        (&["hold", "place", "a=1", "--ttl", "1.5h"], "1h30m"),
        (&["hold", "place", "a=1usd"], "has no unit: write 1"),
        (&["budget", "define", "b", "--limit", "10.50:month"], "whole number"),
        (&["budget", "define", "b", "--limit", "5:day", "--threshold", "most"], "80%"),
        (&["budget", "list", "--most", "ten"], "a whole number from 1 to 1000"),
        (&["job", "enqueue", "q", "k", "--priority", "high"], "a whole number from -32768 to 32767"),
        (&["hold", "place", "a=1.5"], "is not a whole number"),
        (&["hold", "place", "a"], "SCOPE=AMOUNT"),
        (&["hold", "show", "hold_nonsense"], "hold_…"),
        (&["hold", "show", "job_00000000000000000000000000"], "hold_…"),
        (&["budget", "define", "b", "--limit", "5:day@Mars/Olympus"], "Mars/Olympus"),
        (&["budget", "define", "b", "--limit", "5:fortnight"], "fortnight"),
        (&["budget", "define", "b", "--limit", "-5:day"], "negative"),
        (&["budget", "define", "b", "--limit", "5:day", "--ttl", "400d"], "hold.ttl_ms"),
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
        let problem = dir.problem(2, args);
        let detail = text(&problem["detail"]);
        assert!(detail.contains(word), "{args:?}: {detail}");
        assert!(!detail.contains("secret"), "{detail}");
    }
    for (body, field) in [
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "setle": "now" }"#, "setle"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1, "limt": 3 } ] }"#, "charges[0].limt"),
        (r#"{ "charges": [ { "scope": "a", "amount": -1 } ] }"#, "charges[0].amount"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "settle": "hold", "ttl_ms": 0 }"#, "ttl_ms"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "ttl_ms": 5 }"#, "ttl_ms"),
        (
            r#"{ "charges": [ { "scope": "a", "amount": 1, "limits": [ { "amount": 1, "window": "day", "zone": "X" } ] } ] }"#,
            "charges[0].limits[0].zone",
        ),
        ("{}", "charges"),
        ("not json", "body"),
    ] {
        let problem = dir.run_with(&["command", "submit", "-", "--json"], body).exits(2).problem();
        assert_eq!(problem["field"], field, "{body}: {problem}");
    }
    // A malformed token gets the same answer as a used one.
    let problem = dir.problem(3, &["grant", "redeem", "upload", "s", "bgr_nonsense"]);
    assert_eq!(problem["violations"], json!([{ "kind": "grant", "purpose": "upload" }]));
    assert_eq!(events(), before);
}
