//! Schedules, from the first definition to their removal.

use serde_json::{Value, json};

use crate::place::{Place, is_time, text};

#[test]
fn a_schedule_is_set_shown_listed_paused_resumed_run_and_removed() {
    let place = Place::ready();
    let args = ["schedule", "set", "morning", "--cron", "30 7 * * MON-FRI", "--zone", "Europe/Berlin", "--queue", "q"];
    let more = ["--kind", "report", "--payload", r#"{"n":7}"#, "--missed", "all", "--overlap", "skip", "--tag", "t"];
    let set = place.json(&[&args[..], &more[..]].concat());
    let fields = ["name", "cron", "zone", "queue", "kind", "payload", "missed", "overlap", "paused", "tags"];
    let expected =
        json!(["morning", "30 7 * * MON-FRI", "Europe/Berlin", "q", "report", { "n": 7 }, "all", "skip", false, ["t"]]);
    assert_eq!(Value::from_iter(fields.map(|field| set[field].clone())), expected);
    assert!(is_time(&set["next_at"]));
    assert_eq!((&set["last_tick"], &set["last_job"]), (&json!(null), &json!(null)));
    // What is not said stays as it is.
    let next = set["next_at"].clone();
    let set = place.json(&["schedule", "set", "morning", "--priority", "-3", "--delay-ms", "1"]);
    assert_eq!(
        (&set["kind"], &set["priority"], &set["delay_ms"], &set["next_at"]),
        (&json!("report"), &json!(-3), &json!(1), &next)
    );

    let paused = place.json(&["schedule", "pause", "morning", "--reason", "holidays"]);
    assert_eq!((&paused["paused"], &paused["next_at"]), (&json!(true), &json!(null)));
    let ran = place.json(&["schedule", "run", "morning"]);
    let job = place.json(&["job", "show", text(&ran["job"])]);
    assert_eq!((&job["kind"], &job["payload"]), (&json!("report"), &json!({ "n": 7 })));
    let refused = place.problem(5, &["schedule", "run", "morning"]);
    assert_eq!(refused["type"], "/problems/conflict");
    let resumed = place.json(&["schedule", "resume", "morning"]);
    assert_eq!((&resumed["paused"], &resumed["next_at"], &resumed["last_job"]), (&json!(false), &next, &ran["job"]));
    assert!(is_time(&resumed["last_tick"]));

    place.json(&["schedule", "set", "nightly", "--cron", "@daily", "--queue", "q", "--kind", "clean"]);
    let page = place.json(&["schedule", "list", "--most", "1"]);
    assert_eq!((&page["items"][0]["name"], &page["next"]), (&json!("morning"), &json!("morning")));
    let rest = place.json(&["schedule", "list", "--after", "morning"]);
    assert_eq!((&rest["items"][0]["name"], &rest["next"]), (&json!("nightly"), &json!(null)));
    let people = place.run(&["schedule", "list"]).ends(0);
    assert!(people.out.contains("30 7 * * MON-FRI"), "{}", people.out);
    let people = place.run(&["schedule", "show", "nightly"]).ends(0);
    assert!(people.out.contains("missed     one"), "{}", people.out);

    let events = place.json(&["journal", "list"]);
    let events = events["items"].as_array().unwrap();
    let defined = events.iter().find(|event| event["reason"] == "holidays").unwrap();
    let stream = json!({ "kind": "schedule", "id": "morning" });
    assert_eq!((&defined["kind"], &defined["stream"]), (&json!("schedule.defined"), &stream));
    assert_eq!((&defined["data"]["spec"]["cron"], &defined["data"]["spec"]["paused"]), (&expected[1], &json!(true)));
    let ticked = events.iter().find(|event| event["kind"] == "schedule.ticked").unwrap();
    assert_eq!(ticked["data"]["job"], ran["job"]);

    assert_eq!(place.json(&["schedule", "remove", "morning"]), json!({ "name": "morning", "removed": true }));
    for act in ["show", "pause", "resume", "run", "remove"] {
        assert_eq!(place.problem(4, &["schedule", act, "morning"])["type"], "/problems/not-found");
    }
    assert_eq!(place.json(&["verify"])["ok"], true);
}

#[test]
fn wrong_schedules_are_refused_and_nothing_is_there() {
    let place = Place::ready();
    let set = ["schedule", "set", "s", "--queue", "q", "--kind", "work"];
    for wrong in [
        ["--cron", "0 0 30 2 *"],
        ["--cron", "every day"],
        ["--zone", "Mars/Olympus"],
        ["--missed", "some"],
        ["--overlap", "some"],
        ["--payload", "{"],
    ] {
        place.run(&[&set[..], &wrong[..], &["--json"]].concat()).ends(2);
    }
    assert_eq!(place.problem(2, &set)["field"], "cron");
    let wrong = place.file("wrong.json", r#"{ "cron": "@daily", "queue": "q", "kind": "work", "zon": "UTC" }"#);
    assert_eq!(place.problem(2, &["schedule", "set", "s", "--file", wrong.to_str().unwrap()])["field"], "zon");
    let cron = [&set[..], &["--cron", "@daily", "--priority", "2000"]].concat();
    assert_eq!(place.problem(2, &cron)["field"], "jobs.priority");
    assert_eq!(place.json(&["schedule", "list"]), json!({ "items": [], "next": null }));

    let good = r#"{ "cron": "@daily", "queue": "q", "kind": "work", "paused": true, "retry": { "max_attempts": 2 } }"#;
    let file = place.file("good.json", good);
    let set = place.json(&["schedule", "set", "s", "--file", file.to_str().unwrap()]);
    assert_eq!((&set["paused"], &set["retry"]["max_attempts"], &set["zone"]), (&json!(true), &json!(2), &json!("UTC")));
}
