//! `bursar schedule`.

use serde_json::{Value, json};

use crate::workdir::{Workdir, is_time, text};

#[test]
fn a_schedule_is_set_paused_resumed_run_and_removed() {
    let dir = Workdir::ready();
    let args = ["schedule", "set", "morning", "--cron", "30 7 * * MON-FRI", "--zone", "Europe/Berlin", "--queue", "q"];
    let more = ["--kind", "report", "--payload", r#"{"n":7}"#, "--missed", "all", "--overlap", "skip", "--tag", "t"];
    let set = dir.json(&[&args[..], &more[..]].concat());
    let fields = ["name", "cron", "zone", "queue", "kind", "payload", "missed", "overlap", "paused", "tags"];
    let expected =
        json!(["morning", "30 7 * * MON-FRI", "Europe/Berlin", "q", "report", { "n": 7 }, "all", "skip", false, ["t"]]);
    assert_eq!(Value::from_iter(fields.map(|field| set[field].clone())), expected);
    assert!(is_time(&set["next_at"]));
    assert_eq!((&set["last_tick"], &set["last_job"]), (&json!(null), &json!(null)));
    // Settings that are not given stay as they are.
    let next = set["next_at"].clone();
    let set = dir.json(&["schedule", "set", "morning", "--priority", "-3", "--delay-ms", "1"]);
    assert_eq!(
        (&set["kind"], &set["priority"], &set["delay_ms"], &set["next_at"]),
        (&json!("report"), &json!(-3), &json!(1), &next)
    );

    let paused = dir.json(&["schedule", "pause", "morning", "--reason", "holidays"]);
    assert_eq!((&paused["paused"], &paused["next_at"]), (&json!(true), &json!(null)));
    let ran = dir.json(&["schedule", "run", "morning"]);
    let job = dir.json(&["job", "show", text(&ran["job"])]);
    assert_eq!((&job["kind"], &job["payload"]), (&json!("report"), &json!({ "n": 7 })));
    let refused = dir.problem(5, &["schedule", "run", "morning"]);
    assert_eq!(refused["type"], "/problems/conflict");
    let resumed = dir.json(&["schedule", "resume", "morning"]);
    assert_eq!((&resumed["paused"], &resumed["next_at"], &resumed["last_job"]), (&json!(false), &next, &ran["job"]));
    assert!(is_time(&resumed["last_tick"]));

    dir.json(&["schedule", "set", "nightly", "--cron", "@daily", "--queue", "q", "--kind", "clean"]);
    let page = dir.json(&["schedule", "list", "--most", "1"]);
    assert_eq!((&page["items"][0]["name"], &page["next"]), (&json!("morning"), &json!("morning")));
    let rest = dir.json(&["schedule", "list", "--after", "morning"]);
    assert_eq!((&rest["items"][0]["name"], &rest["next"]), (&json!("nightly"), &json!(null)));
    let text_output = dir.run(&["schedule", "list"]).exits(0);
    assert!(text_output.out.contains("30 7 * * MON-FRI"), "{}", text_output.out);
    let text_output = dir.run(&["schedule", "show", "nightly"]).exits(0);
    assert!(text_output.out.contains("missed     one"), "{}", text_output.out);

    let events = dir.json(&["journal", "list"]);
    let events = events["items"].as_array().unwrap();
    let defined = events.iter().find(|event| event["reason"] == "holidays").unwrap();
    let stream = json!({ "kind": "schedule", "id": "morning" });
    assert_eq!((&defined["kind"], &defined["stream"]), (&json!("schedule.defined"), &stream));
    assert_eq!((&defined["data"]["spec"]["cron"], &defined["data"]["spec"]["paused"]), (&expected[1], &json!(true)));
    let ticked = events.iter().find(|event| event["kind"] == "schedule.ticked").unwrap();
    assert_eq!(ticked["data"]["job"], ran["job"]);

    assert_eq!(dir.json(&["schedule", "remove", "morning"]), json!({ "name": "morning", "removed": true }));
    for act in ["show", "pause", "resume", "run", "remove"] {
        assert_eq!(dir.problem(4, &["schedule", act, "morning"])["type"], "/problems/not-found");
    }
    assert_eq!(dir.json(&["verify"])["ok"], true);
}

#[test]
fn invalid_schedules_are_rejected_and_not_stored() {
    let dir = Workdir::ready();
    let set = ["schedule", "set", "s", "--queue", "q", "--kind", "work"];
    for wrong in [
        ["--cron", "0 0 30 2 *"],
        ["--cron", "every day"],
        ["--zone", "Mars/Olympus"],
        ["--missed", "some"],
        ["--overlap", "some"],
        ["--payload", "{"],
    ] {
        dir.run(&[&set[..], &wrong[..], &["--json"]].concat()).exits(2);
    }
    assert_eq!(dir.problem(2, &set)["field"], "cron");
    let wrong = dir.file("wrong.json", r#"{ "cron": "@daily", "queue": "q", "kind": "work", "zon": "UTC" }"#);
    assert_eq!(dir.problem(2, &["schedule", "set", "s", "--file", wrong.to_str().unwrap()])["field"], "zon");
    let cron = [&set[..], &["--cron", "@daily", "--priority", "2000"]].concat();
    assert_eq!(dir.problem(2, &cron)["field"], "priority");
    assert_eq!(dir.json(&["schedule", "list"]), json!({ "items": [], "next": null }));

    let good = r#"{ "cron": "@daily", "queue": "q", "kind": "work", "paused": true, "retry": { "max_attempts": 2 } }"#;
    let file = dir.file("good.json", good);
    let set = dir.json(&["schedule", "set", "s", "--file", file.to_str().unwrap()]);
    assert_eq!((&set["paused"], &set["retry"]["max_attempts"], &set["zone"]), (&json!(true), &json!(2), &json!("UTC")));
}
