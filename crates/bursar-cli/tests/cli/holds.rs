//! `bursar budget` and `bursar hold`.

use serde_json::{Value, json};

use crate::workdir::{Workdir, is_time, text};

#[test]
fn a_hold_is_placed_shown_extended_and_committed() {
    let dir = Workdir::ready();
    let define = ["budget", "define", "room:sales", "--limit", "1000000:month@Europe/Berlin", "--unit", "micro_usd"];
    dir.json(&[&define[..], &["--limit", "100000:rolling:3600000", "--reason", "autumn plan"]].concat());

    let placed = dir.json(&["hold", "place", "room:sales=50000", "--ttl-ms", "60000"]);
    let hold = &placed["hold"];
    assert_eq!((&hold["state"], &placed["replayed"]), (&json!("held"), &json!(false)));
    assert!(text(&placed["id"]).starts_with("cmd_") && is_time(&hold["expires_at"]));
    let month = json!({ "window": "month", "zone": "Europe/Berlin", "limit": 1_000_000, "remaining": 950_000 });
    assert_eq!(hold["charges"][0]["balances"][0], month);

    let id = text(&hold["id"]);
    assert_eq!(dir.json(&["hold", "show", id])["state"], "held");
    assert_eq!(dir.json(&["hold", "list", "room:sales"])["items"][0]["id"], id);
    assert!(is_time(&dir.json(&["hold", "extend", id, "--by-ms", "1000"])["expires_at"]));

    let settled = dir.json(&["hold", "commit", id, "--actual", "42000", "--key", "settle-1"]);
    let expected = (&json!("committed"), &json!(false), &json!(0), &json!([]));
    assert_eq!((&settled["state"], &settled["late"], &settled["overrun"], &settled["warnings"]), expected);
    assert_eq!(settled["charges"][0]["balances"][0]["remaining"], 958_000);
    assert_eq!(dir.json(&["hold", "commit", id, "--actual", "42000", "--key", "settle-1"]), settled);

    let budget = dir.json(&["budget", "show", "room:sales"]);
    assert_eq!(budget["limits"][1], json!({ "amount": 100_000, "window": "rolling", "length_ms": 3_600_000 }));
    assert_eq!(
        (&budget["hold"]["ttl_ms_min"], &budget["hold"]["ttl_ms"]),
        (&json!(5_000), &json!(null)),
        "the budget sets no ttl"
    );
    let month = budget["balances"].as_array().unwrap().iter().find(|balance| balance["window"] == "month").unwrap();
    assert_eq!((&month["posted"], &month["held"], &month["remaining"]), (&json!(42_000), &json!(0), &json!(958_000)));
    assert!(is_time(&month["start"]) && is_time(&month["end"]));

    let history = dir.json(&["hold", "history", id]);
    let kinds: Vec<&str> = history["items"].as_array().unwrap().iter().map(|event| text(&event["kind"])).collect();
    assert_eq!(kinds, ["hold.committed", "hold.extended", "hold.placed"]);
    let spent = dir.json(&["budget", "spent", "room:sales"]);
    assert_eq!(spent["spent"], 42_000);
    assert_eq!(dir.json(&["budget", "credit", "room:sales", "2000", "--hold", id])["amount"], 2_000);
    assert_eq!(dir.json(&["budget", "history", "room:sales"])["items"][0]["kind"], "spend.credited");
}

#[test]
fn a_late_commit_follows_its_policy_and_expiry_is_recorded_once() {
    let dir = Workdir::ready();
    for (scope, late) in [("charging", "charge"), ("refusing", "refuse")] {
        dir.json(&["budget", "define", scope, "--limit", "100:day", "--ttl-min", "1ms", "--late", late]);
    }
    // One millisecond passes before the next process starts.
    let placed =
        |scope: &str| dir.json(&["hold", "place", &format!("{scope}=30"), "--ttl-ms", "1"])["hold"]["id"].clone();
    let (charging, refusing) = (placed("charging"), placed("refusing"));
    assert_eq!(dir.json(&["hold", "show", text(&charging)])["state"], "expired");
    let settled = dir.json(&["hold", "commit", text(&charging)]);
    assert_eq!((&settled["late"], &settled["warnings"]), (&json!(true), &json!(["committed_after_expiry"])));
    let problem = dir.problem(3, &["hold", "commit", text(&refusing)]);
    assert_eq!(problem["type"], "/problems/refused");
    assert_eq!(dir.json(&["sweep"])["expired_count"], 1);
    assert_eq!(dir.json(&["sweep", "--most", "10"])["expired_count"], 0);
    assert_eq!(dir.problem(5, &["hold", "extend", text(&refusing), "--by-ms", "5"])["type"], "/problems/conflict");
}

#[test]
fn live_holds_are_listed_in_pages() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "100:day"]).exits(0);
    let placed: Vec<_> = (0..5).map(|_| dir.json(&["hold", "place", "a=1"])["hold"]["id"].clone()).collect();
    let (mut seen, mut after) = (Vec::new(), Vec::new());
    for length in [2, 2, 1] {
        let page = dir.json(
            &[&["hold", "list", "a", "--most", "2"][..], &after.iter().map(String::as_str).collect::<Vec<_>>()]
                .concat(),
        );
        let items = page["items"].as_array().unwrap();
        assert_eq!(items.len(), length);
        seen.extend(items.iter().map(|hold| hold["id"].clone()));
        match &page["next"] {
            serde_json::Value::String(next) => after = vec!["--after".to_owned(), next.clone()],
            next => assert!(next.is_null() && length == 1, "{next}"),
        }
    }
    assert_eq!(seen, placed);
    dir.run(&["hold", "list", "a", "--after", "yesterday"]).exits(2);
}

#[test]
fn a_frozen_scope_refuses_until_it_is_unfrozen() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "10:bucket:1:1000"]).exits(0);
    let frozen = dir.json(&["budget", "freeze", "a", "--reason", "audit"]);
    assert_eq!((&frozen["frozen"], &frozen["freeze"]["reason"]), (&json!(true), &json!("audit")));
    assert_eq!(dir.problem(3, &["post", "a=1"])["violations"], json!([{ "kind": "frozen", "scope": "a" }]));
    assert_eq!(dir.json(&["budget", "unfreeze", "a"])["frozen"], false);
    assert_eq!(dir.json(&["post", "a=1"])["posted"][0]["amount"], 1);
    assert_eq!(dir.problem(4, &["budget", "freeze", "b"])["type"], "/problems/unknown-scope");
}

#[test]
fn tenants_are_isolated() {
    let dir = Workdir::ready();
    dir.run(&["--tenant", "red", "budget", "define", "a", "--limit", "10:day"]).exits(0);
    let placed = dir.json(&["--tenant", "red", "hold", "place", "a=1"]);
    let id = text(&placed["hold"]["id"]);
    dir.run(&["--tenant", "red", "hold", "show", id]).exits(0);
    for args in [["hold", "show", id], ["hold", "commit", id], ["budget", "show", "a"]] {
        dir.run(&args).exits(4);
        dir.run(&[&["--tenant", "blue"], &args[..]].concat()).exits(4);
    }
    assert_eq!(dir.json(&["journal", "list"])["items"], json!([]));
    assert_eq!(dir.json(&["--tenant", "red", "journal", "list"])["items"].as_array().unwrap().len(), 2);
}

#[test]
fn a_budget_in_shadow_mode_admits_and_records() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "agent", "--limit", "10:day", "--shadow"]).exits(0);
    assert_eq!(dir.json(&["budget", "show", "agent"])["shadow"], true);
    let body = json!({ "charges": [{ "scope": "agent", "amount": 25 }] }).to_string();
    let spent = dir.run_with(&["command", "submit", "-", "--json"], &body).exits(0);
    let spent: Value = serde_json::from_str(&spent.out).unwrap();
    assert_eq!(spent["warnings"], json!(["would_refuse"]));
    let would_refuse = json!([{ "kind": "limit", "scope": "agent", "window": "day", "zone": "UTC", "limit": 10, "requested": 25, "available": 10 }]);
    assert_eq!(spent["would_refuse"], would_refuse);
    let held = dir.run(&["hold", "place", "agent=5"]).exits(0);
    assert!(held.out.contains("would have refused"), "{}", held.out);
    let listed = dir.run(&["budget", "list"]).exits(0);
    assert!(listed.out.lines().any(|line| line.contains("agent") && line.ends_with("shadow")), "{}", listed.out);
    let shown = dir.run(&["budget", "show", "agent"]).exits(0).out;
    let look = shown.split('`').nth(1).expect("a command");
    let recorded = dir.run(&look.split(' ').skip(1).collect::<Vec<_>>()).exits(0);
    assert_eq!(recorded.out.matches("would have refused").count(), 2, "{}", recorded.out);

    dir.run(&["budget", "define", "agent", "--limit", "10:day"]).exits(0);
    dir.run(&["hold", "place", "agent=1"]).exits(3);
}
