//! Budgets and holds, from placing to settling.

use serde_json::json;

use crate::place::{Place, is_time, text};

#[test]
fn a_hold_is_placed_shown_extended_committed_and_told_in_json() {
    let place = Place::ready();
    let define = ["budget", "define", "room:sales", "--limit", "1000000:month@Europe/Berlin", "--unit", "micro_usd"];
    place.json(&[&define[..], &["--limit", "100000:rolling:3600000", "--reason", "autumn plan"]].concat());

    let placed = place.json(&["hold", "place", "room:sales=50000", "--ttl-ms", "60000"]);
    let hold = &placed["hold"];
    assert_eq!((&hold["state"], &placed["replayed"]), (&json!("held"), &json!(false)));
    assert!(text(&placed["id"]).starts_with("cmd_") && is_time(&hold["expires_at"]));
    let month = json!({ "window": "month", "zone": "Europe/Berlin", "limit": 1_000_000, "remaining": 950_000 });
    assert_eq!(hold["charges"][0]["balances"][0], month);

    let id = text(&hold["id"]);
    assert_eq!(place.json(&["hold", "show", id])["state"], "held");
    assert_eq!(place.json(&["hold", "list", "room:sales"])["items"][0]["id"], id);
    assert!(is_time(&place.json(&["hold", "extend", id, "--by-ms", "1000"])["expires_at"]));

    let settled = place.json(&["hold", "commit", id, "--actual", "42000", "--key", "settle-1"]);
    let expected = (&json!("committed"), &json!(false), &json!(0), &json!([]));
    assert_eq!((&settled["state"], &settled["late"], &settled["overrun"], &settled["warnings"]), expected);
    assert_eq!(settled["charges"][0]["balances"][0]["remaining"], 958_000);
    assert_eq!(place.json(&["hold", "commit", id, "--actual", "42000", "--key", "settle-1"]), settled);

    let budget = place.json(&["budget", "show", "room:sales"]);
    assert_eq!(budget["limits"][1], json!({ "amount": 100_000, "window": "rolling", "length_ms": 3_600_000 }));
    assert_eq!(
        (&budget["hold"]["ttl_ms_min"], &budget["hold"]["ttl_ms"]),
        (&json!(5_000), &json!(null)),
        "it sets none"
    );
    let month = budget["balances"].as_array().unwrap().iter().find(|balance| balance["window"] == "month").unwrap();
    assert_eq!((&month["posted"], &month["held"], &month["remaining"]), (&json!(42_000), &json!(0), &json!(958_000)));
    assert!(is_time(&month["start"]) && is_time(&month["end"]));

    let history = place.json(&["hold", "history", id]);
    let kinds: Vec<&str> = history["items"].as_array().unwrap().iter().map(|event| text(&event["kind"])).collect();
    assert_eq!(kinds, ["hold.committed", "hold.extended", "hold.placed"]);
    let spent = place.json(&["budget", "spent", "room:sales"]);
    assert_eq!(spent["spent"], 42_000);
    assert_eq!(place.json(&["budget", "credit", "room:sales", "2000", "--hold", id])["amount"], 2_000);
    assert_eq!(place.json(&["budget", "history", "room:sales"])["items"][0]["kind"], "spend.credited");
}

#[test]
fn a_hold_that_expired_is_charged_or_refused_as_its_policy_says_and_swept_once() {
    let place = Place::ready();
    for (scope, late) in [("charging", "charge"), ("refusing", "refuse")] {
        place.json(&["budget", "define", scope, "--limit", "100:day", "--ttl-min", "1", "--late", late]);
    }
    // One millisecond is over before another process has started.
    let placed =
        |scope: &str| place.json(&["hold", "place", &format!("{scope}=30"), "--ttl-ms", "1"])["hold"]["id"].clone();
    let (charging, refusing) = (placed("charging"), placed("refusing"));
    assert_eq!(place.json(&["hold", "show", text(&charging)])["state"], "expired");
    let settled = place.json(&["hold", "commit", text(&charging)]);
    assert_eq!((&settled["late"], &settled["warnings"]), (&json!(true), &json!(["committed_after_expiry"])));
    let problem = place.problem(3, &["hold", "commit", text(&refusing)]);
    assert_eq!(problem["type"], "/problems/refused");
    assert_eq!(place.json(&["sweep"])["expired_count"], 1);
    assert_eq!(place.json(&["sweep", "--most", "10"])["expired_count"], 0);
    assert_eq!(place.problem(5, &["hold", "extend", text(&refusing), "--by-ms", "5"])["type"], "/problems/conflict");
}

#[test]
fn live_holds_are_listed_page_by_page() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "100:day"]).ends(0);
    let placed: Vec<_> = (0..5).map(|_| place.json(&["hold", "place", "a=1"])["hold"]["id"].clone()).collect();
    let (mut seen, mut after) = (Vec::new(), Vec::new());
    for length in [2, 2, 1] {
        let page = place.json(
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
    place.run(&["hold", "list", "a", "--after", "yesterday"]).ends(2);
}

#[test]
fn a_frozen_scope_refuses_until_it_is_unfrozen() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "10:bucket:1:1000"]).ends(0);
    let frozen = place.json(&["budget", "freeze", "a", "--reason", "audit"]);
    assert_eq!((&frozen["frozen"], &frozen["freeze"]["reason"]), (&json!(true), &json!("audit")));
    assert_eq!(place.problem(3, &["post", "a=1"])["violations"], json!([{ "kind": "frozen", "scope": "a" }]));
    assert_eq!(place.json(&["budget", "unfreeze", "a"])["frozen"], false);
    assert_eq!(place.json(&["post", "a=1"])["posted"][0]["amount"], 1);
    assert_eq!(place.problem(4, &["budget", "freeze", "b"])["type"], "/problems/unknown-scope");
}

#[test]
fn tenants_are_apart() {
    let place = Place::ready();
    place.run(&["--tenant", "red", "budget", "define", "a", "--limit", "10:day"]).ends(0);
    let placed = place.json(&["--tenant", "red", "hold", "place", "a=1"]);
    let id = text(&placed["hold"]["id"]);
    place.run(&["--tenant", "red", "hold", "show", id]).ends(0);
    for args in [["hold", "show", id], ["hold", "commit", id], ["budget", "show", "a"]] {
        place.run(&args).ends(4);
        place.run(&[&["--tenant", "blue"], &args[..]].concat()).ends(4);
    }
    assert_eq!(place.json(&["journal", "list"])["items"], json!([]));
    assert_eq!(place.json(&["--tenant", "red", "journal", "list"])["items"].as_array().unwrap().len(), 2);
}
