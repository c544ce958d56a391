//! Jobs, queues and dead letters, from enqueueing to the last retry.

use serde_json::{Value, json};

use crate::place::{Place, is_time, text};

fn enqueue(place: &Place, args: &[&str]) -> String {
    let answer = place.json(&[&["job", "enqueue"], args].concat());
    assert_eq!(answer["jobs"][0]["created"], true);
    text(&answer["jobs"][0]["id"]).to_owned()
}

/// Leases one job and says its id and its fence.
fn lease(place: &Place, queue: &str) -> (String, String) {
    let leased = place.json(&["job", "lease", queue]);
    let job = &leased["jobs"][0];
    (text(&job["id"]).to_owned(), job["lease"]["fence"].to_string())
}

#[test]
fn a_job_is_enqueued_leased_completed_and_told_in_json() {
    let place = Place::ready();
    let args =
        ["media", "video.cut", "--payload", r#"{"n":7}"#, "--key", "cut-7", "--tag", "trial", "--priority", "-3"];
    let id = enqueue(&place, &args);
    let again = place.json(&[&["job", "enqueue"], &args[..]].concat());
    assert_eq!(again["jobs"][0], json!({ "id": id, "created": false }));

    let shown = place.json(&["job", "show", &id]);
    let expected = json!(["queued", "media", "video.cut", { "n": 7 }, "cut-7", ["trial"], -3, 0]);
    let fields = ["state", "queue", "kind", "payload", "idempotency_key", "tags", "priority", "attempts"];
    assert_eq!(Value::from_iter(fields.map(|field| shown[field].clone())), expected);

    let leased = place.json(&["job", "lease", "media", "--kind", "video.*", "--worker", "w1"]);
    let job = &leased["jobs"][0];
    assert_eq!((&job["id"], &job["attempt"], &job["lease"]["fence"]), (&json!(id), &json!(1), &json!(1)));
    assert!(is_time(&job["lease"]["expires_at"]));
    let beaten = place.json(&["job", "heartbeat", &id, "--fence", "1"]);
    assert_eq!(beaten["order"], "continue");
    let lost = place.problem(5, &["job", "complete", &id, "--fence", "2"]);
    assert_eq!((&lost["type"], &lost["state"]), (&json!("/problems/lease-lost"), &json!("leased")));
    let done = place.json(&["job", "complete", &id, "--fence", "1", "--result", "[1]"]);
    assert_eq!((&done["state"], &done["cost"]), (&json!("succeeded"), &json!([])));

    let shown = place.json(&["job", "show", &id]);
    assert_eq!((&shown["result"], &shown["history"][0]["end"]), (&json!([1]), &json!("succeeded")));
    let events = place.json(&["job", "events", &id]);
    let kinds: Vec<&str> = events["items"].as_array().unwrap().iter().map(|event| text(&event["kind"])).collect();
    assert_eq!(kinds, ["job.succeeded", "job.leased", "job.enqueued"]);
    assert_eq!(events["items"][1]["data"]["worker"], "w1");
    let people = place.run(&["job", "show", &id]).ends(0);
    assert!(people.out.contains("attempt 1 by w1"), "{}", people.out);
    place.problem(4, &["job", "show", "job_00000000000000000000000000"]);
}

#[test]
fn dead_letters_are_grouped_inspected_retried_moved_and_discarded() {
    let place = Place::ready();
    let mut dead = Vec::new();
    for (number, error) in [("1", "timeout"), ("2", "timeout"), ("3", "rejected")] {
        enqueue(&place, &["q", "work"]);
        let (id, fence) = lease(&place, "q");
        let message = format!("after {number} s");
        place.json(&["job", "fail", &id, "--fence", &fence, "--error", error, "--message", &message, "--for-good"]);
        dead.push(id);
    }
    let groups = place.json(&["dead", "groups"]);
    let groups = groups["items"].as_array().unwrap();
    assert_eq!((&groups[0]["kind"], &groups[0]["count"]), (&json!("timeout"), &json!(2)));
    assert_eq!((&groups[0]["first"], &groups[0]["last"]), (&json!(dead[0]), &json!(dead[1])));
    let fingerprint = text(&groups[0]["fingerprint"]);
    let listed = place.json(&["dead", "list", "--fingerprint", fingerprint, "--queue", "q"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(place.json(&["dead", "show", &dead[2]])["history"][0]["error"]["kind"], "rejected");

    // A look changes nothing, and nobody is asked who cannot answer.
    let tried = place.json(&["dead", "retry", "--fingerprint", fingerprint, "--dry-run"]);
    assert_eq!(tried, json!({ "matched": 2, "done": 0, "refused": 0, "dry_run": true }));
    assert_eq!(place.problem(2, &["dead", "retry", "--fingerprint", fingerprint])["field"], "yes");
    assert_eq!(place.problem(2, &["dead", "retry"])["field"], "jobs");
    let done = place.json(&["dead", "retry", "--fingerprint", fingerprint, "--yes", "--reason", "it is up again"]);
    assert_eq!((&done["matched"], &done["done"]), (&json!(2), &json!(2)));
    assert_eq!(place.json(&["job", "show", &dead[0]])["state"], "queued");
    assert_eq!(place.json(&["job", "events", &dead[0]])["items"][0]["reason"], "it is up again");
    place.problem(5, &["dead", "show", &dead[0]]);

    let moved = place.json(&["dead", "move", "--to", "other", &dead[2]]);
    assert_eq!(moved["items"][0]["state"], "queued");
    assert_eq!(lease(&place, "other").0, dead[2]);
    place.problem(5, &["dead", "discard", &dead[2]]);
}

#[test]
fn many_jobs_are_enqueued_edited_and_cancelled_at_once() {
    let place = Place::ready();
    let jobs: Vec<Value> = (0..1_200).map(|n| json!({ "queue": "bulk", "kind": "work", "payload": n })).collect();
    let file = place.file("jobs.json", &json!({ "jobs": jobs }).to_string());
    let enqueued = place.json(&["job", "enqueue", "--file", file.to_str().unwrap()]);
    assert_eq!(enqueued["jobs"].as_array().unwrap().len(), 1_200);
    let page = place.json(&["job", "list", "--queue", "bulk", "--most", "2"]);
    let next = text(&page["next"]);
    let rest = place.json(&["job", "list", "--queue", "bulk", "--state", "queued", "--after", next, "--most", "1"]);
    assert_eq!(rest["items"][0]["payload"], 2);
    let first = text(&page["items"][0]["id"]);
    assert_eq!(place.json(&["job", "edit", first, "--delay-ms", "60000"])["items"][0]["state"], "scheduled");
    place.problem(2, &["job", "edit", first, "--priority", "2000"]);

    let ran = place.run(&["job", "cancel", "--queue", "bulk", "--yes", "--json"]).ends(0);
    let done: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&done["matched"], &done["done"]), (&json!(1_200), &json!(1_200)));
    assert!(ran.err.contains("500 of 1200 jobs cancelled"), "{}", ran.err);
    let queue = place.json(&["queue", "show", "bulk"]);
    assert_eq!(queue["figures"]["states"]["cancelled"], 1_200);
}

#[test]
fn a_queue_is_set_paused_and_resumed() {
    let place = Place::ready();
    place.json(&["queue", "set", "q", "--concurrency", "2", "--rate", "5/1000", "--lease-ms", "5000"]);
    let set = place.json(&["queue", "set", "q", "--rate", "none", "--max-attempts", "3"]);
    let fields = (&set["concurrency"], &set["rate"], &set["lease_ms"], &set["retry"]["max_attempts"]);
    assert_eq!(fields, (&json!(2), &json!(null), &json!(5_000), &json!(3)));
    enqueue(&place, &["q", "work"]);
    assert_eq!(place.json(&["queue", "pause", "q"])["paused"], true);
    assert_eq!(place.json(&["job", "lease", "q"])["jobs"], json!([]));
    let listed = place.json(&["queue", "list"]);
    assert_eq!((&listed["items"][0]["name"], &listed["items"][0]["concurrency"]), (&json!("q"), &json!(2)));
    assert_eq!(place.json(&["queue", "resume", "q"])["paused"], false);
    let (id, fence) = lease(&place, "q");
    assert_eq!(place.json(&["job", "return", &id, "--fence", &fence])["state"], "queued");
    let (id, fence) = lease(&place, "q");
    let put_off = place.json(&["job", "snooze", &id, "--fence", &fence, "--delay-ms", "60000"]);
    assert_eq!(put_off["state"], "scheduled");

    let file = place.file("queue.json", r#"{ "retry": { "backoff": "fixed", "delay_ms": 7 }, "key_concurrency": 1 }"#);
    let set = place.json(&["queue", "set", "q", "--file", file.to_str().unwrap()]);
    assert_eq!((&set["concurrency"], &set["key_concurrency"]), (&json!(null), &json!(1)));
    assert_eq!(set["retry"], json!({ "max_attempts": 5, "backoff": "fixed", "delay_ms": 7 }));
    let wrong = place.file("wrong.json", r#"{ "leas_ms": 7 }"#);
    assert_eq!(place.problem(2, &["queue", "set", "q", "--file", wrong.to_str().unwrap()])["field"], "leas_ms");
    assert_eq!(place.problem(2, &["queue", "set", "q", "--lease-ms", "1"])["field"], "lease_ms");
}

#[test]
fn what_a_job_cost_is_settled_with_its_end() {
    let place = Place::ready();
    place.json(&["budget", "define", "team", "--limit", "100:lifetime"]);
    let body = json!({ "charges": [{ "scope": "team", "amount": 40 }], "settle": "job",
                       "jobs": [{ "queue": "q", "kind": "work" }] });
    let file = place.file("command.json", &body.to_string());
    place.json(&["command", "submit", file.to_str().unwrap()]);
    let (id, fence) = lease(&place, "q");
    let done = place.json(&["job", "complete", &id, "--fence", &fence, "--usage", "25"]);
    assert_eq!(done["cost"], json!([{ "scope": "team", "amount": 25 }]));
    assert_eq!(place.json(&["job", "show", &id])["cost"], json!([{ "scope": "team", "amount": 25 }]));
    assert_eq!(place.json(&["budget", "show", "team"])["balances"][0]["posted"], 25);
}
