//! `bursar command` and `bursar grant`.

use serde_json::{Value, json};

use crate::workdir::{Finished, Workdir, is_time, text};

#[test]
fn a_command_holds_redeems_and_enqueues_once() {
    let dir = Workdir::ready();
    let budget = r#"{ "unit": "micro_usd", "limits": [ { "amount": 1000, "window": "week", "week_start": "sunday" } ],
        "hold": { "ttl_ms": 30000 }, "thresholds": [50] }"#;
    let file = dir.file("budget.json", budget);
    let defined = dir.json(&["budget", "define", "agent", "--file", file.to_str().unwrap()]);
    assert_eq!(defined["limits"][0]["week_start"], "sunday");
    let minted = dir.json(&["grant", "mint", "upload", "s7", "--ttl-ms", "60000", "--payload", r#"{"asset":7}"#]);
    let body = json!({
        "charges": [{ "scope": "agent", "amount": 400 }], "settle": "job",
        "redeem": [{ "purpose": "upload", "subject": "s7", "token": minted["token"] }],
        "jobs": [{ "queue": "media", "kind": "video", "payload_from_grant": true, "delay_ms": 1500, "tags": ["trial"] }],
        "context": { "correlation_id": "c-1", "reason": "demo" },
    })
    .to_string();
    let submit =
        |extra: &[&str], body: &str| dir.run_with(&[&["command", "submit", "-", "--json"], extra].concat(), body);
    let read = |ran: Finished| -> Value { serde_json::from_str(&ran.exits(0).out).unwrap() };

    let tried = read(submit(&["--dry-run"], &body));
    assert_eq!((&tried["dry_run"], &tried["jobs"], tried.get("id")), (&json!(true), &json!([]), None));
    assert_eq!(dir.json(&["grant", "list"])["items"][0]["state"], "open");

    let done = read(submit(&["--key", "k"], &body));
    assert_eq!(done["grants"], json!([{ "purpose": "upload", "payload": { "asset": 7 } }]));
    assert_eq!((&done["hold"]["expires_at"], &done["replayed"]), (&Value::Null, &json!(false)));
    let again = read(submit(&["--key", "k"], &body));
    assert_eq!((&again["id"], &again["replayed"], &again["jobs"]), (&done["id"], &json!(true), &done["jobs"]));
    let other = body.replace(r#""amount":400"#, r#""amount":401"#);
    assert_ne!(other, body);
    assert_eq!(submit(&["--key", "k"], &other).exits(5).problem()["type"], "/problems/conflict");
    assert_eq!(submit(&[], &body).exits(3).problem()["violations"][0]["kind"], "grant");

    let job = dir.json(&["job", "show", text(&done["jobs"][0]["id"])]);
    assert_eq!((&job["payload"], &job["hold"]), (&json!({ "asset": 7 }), &done["hold"]["id"]));
    let hold = text(&done["hold"]["id"]).to_owned();
    assert_eq!(dir.problem(5, &["hold", "release", &hold])["type"], "/problems/conflict");
    let events = dir.json(&["journal", "list", "--stream", text(&done["id"])]);
    let events = events["items"].as_array().unwrap();
    assert_eq!(events.len(), 3);
    let by_kind = dir.json(&["journal", "list", "--stream", &format!("job:{}", text(&done["jobs"][0]["id"]))]);
    assert_eq!(by_kind["items"][0]["kind"], "job.enqueued");
    assert!(events.iter().all(|event| event["correlation_id"] == "c-1" && event["reason"] == "demo"));
    assert_eq!(dir.json(&["grant", "list"])["items"][0]["state"], "redeemed");
}

#[test]
fn a_token_is_redeemed_once_and_a_revoked_one_never() {
    let dir = Workdir::ready();
    let mint = || dir.json(&["grant", "mint", "upload", "s7", "--ttl-ms", "60000", "--payload", "[1]"]);
    let (first, second) = (mint(), mint());
    assert!(text(&first["id"]).starts_with("grant_") && is_time(&first["expires_at"]));
    let redeem = |token: &Value| dir.run_with(&["grant", "redeem", "upload", "s7", "-"], &format!("{}\n", text(token)));
    assert_eq!(redeem(&first["token"]).exits(0).out, "[1]\n");
    let refused = redeem(&first["token"]).exits(3);
    assert!(refused.err.contains("not valid for upload") && refused.err.contains("hint: "), "{}", refused.err);
    dir.run(&["grant", "revoke", text(&second["id"])]).exits(0);
    redeem(&second["token"]).exits(3);
    dir.run(&["grant", "revoke", text(&first["id"])]).exits(5);
    // One millisecond passes before the next process starts.
    dir.json(&["grant", "mint", "upload", "s8", "--ttl-ms", "1"]);
    assert_eq!(dir.json(&["grant", "purge"])["purged_count"], 1);
    let listed = dir.run(&["grant", "list", "--json"]).exits(0);
    assert!(!listed.out.contains("bgr_") && !listed.out.contains("digest"), "{}", listed.out);
    let page = dir.json(&["grant", "list", "--most", "1"]);
    assert_eq!(dir.json(&["grant", "list", "--after", text(&page["next"])])["items"].as_array().unwrap().len(), 1);
}
