//! `bursar job`, `bursar queue` and `bursar dead`.

use serde_json::{Value, json};

use crate::workdir::{Workdir, is_time, text};

fn enqueue(dir: &Workdir, args: &[&str]) -> String {
    let answer = dir.json(&[&["job", "enqueue"], args].concat());
    assert_eq!(answer["jobs"][0]["created"], true);
    text(&answer["jobs"][0]["id"]).to_owned()
}

/// Leases one job; returns its id and its fence.
fn lease(dir: &Workdir, queue: &str) -> (String, String) {
    let leased = dir.json(&["job", "lease", queue]);
    let job = &leased["jobs"][0];
    (text(&job["id"]).to_owned(), job["lease"]["fence"].to_string())
}

#[test]
fn a_job_is_enqueued_leased_and_completed() {
    let dir = Workdir::ready();
    let args =
        ["media", "video.cut", "--payload", r#"{"n":7}"#, "--key", "cut-7", "--tag", "trial", "--priority", "-3"];
    let id = enqueue(&dir, &args);
    let again = dir.json(&[&["job", "enqueue"], &args[..]].concat());
    assert_eq!(again["jobs"][0], json!({ "id": id, "created": false }));

    let shown = dir.json(&["job", "show", &id]);
    let expected = json!(["queued", "media", "video.cut", { "n": 7 }, "cut-7", ["trial"], -3, 0]);
    let fields = ["state", "queue", "kind", "payload", "idempotency_key", "tags", "priority", "attempts"];
    assert_eq!(Value::from_iter(fields.map(|field| shown[field].clone())), expected);

    let leased = dir.json(&["job", "lease", "media", "--kind", "video.*", "--worker", "w1"]);
    let job = &leased["jobs"][0];
    assert_eq!((&job["id"], &job["attempt"], &job["lease"]["fence"]), (&json!(id), &json!(1), &json!(1)));
    assert!(is_time(&job["lease"]["expires_at"]));
    let renewed = dir.json(&["job", "heartbeat", &id, "--fence", "1"]);
    assert_eq!(renewed["order"], "continue");
    let report = ["job", "progress", &id, "--fence", "1", "--percent", "40", "--message", "cutting", "--checkpoint"];
    assert_eq!(dir.json(&[&report[..], &[r#"{"frame":7}"#]].concat())["order"], "continue");
    dir.run(&["job", "progress", &id, "--fence", "1"]).exits(2);
    let text_output = dir.run(&["job", "show", &id]).exits(0);
    assert!(text_output.out.contains("progress  40 % cutting, "), "{}", text_output.out);
    assert!(text_output.out.contains(r#"checkpoint {"frame":7}"#), "{}", text_output.out);
    let lost = dir.problem(5, &["job", "complete", &id, "--fence", "2"]);
    assert_eq!((&lost["type"], &lost["state"]), (&json!("/problems/lease-lost"), &json!("leased")));
    let done = dir.json(&["job", "complete", &id, "--fence", "1", "--result", "[1]"]);
    assert_eq!((&done["state"], &done["cost"]), (&json!("succeeded"), &json!([])));

    let shown = dir.json(&["job", "show", &id]);
    assert_eq!((&shown["result"], &shown["history"][0]["end"]), (&json!([1]), &json!("succeeded")));
    let events = dir.json(&["job", "events", &id]);
    let kinds: Vec<&str> = events["items"].as_array().unwrap().iter().map(|event| text(&event["kind"])).collect();
    assert_eq!(kinds, ["job.succeeded", "job.checkpointed", "job.leased", "job.enqueued"]);
    assert_eq!(
        (&events["items"][1]["data"]["checkpoint"]["frame"], &events["items"][2]["data"]["worker"]),
        (&json!(7), &json!("w1"))
    );
    let text_output = dir.run(&["job", "show", &id]).exits(0);
    assert!(text_output.out.contains("attempt 1 by w1, began "), "{}", text_output.out);
    dir.problem(4, &["job", "show", "job_00000000000000000000000000"]);
}

#[test]
fn dead_jobs_are_grouped_inspected_retried_and_moved() {
    let dir = Workdir::ready();
    let mut dead = Vec::new();
    for (number, error) in [("1", "timeout"), ("2", "timeout"), ("3", "rejected")] {
        enqueue(&dir, &["q", "work"]);
        let (id, fence) = lease(&dir, "q");
        let message = format!("after {number} s");
        dir.json(&["job", "fail", &id, "--fence", &fence, "--error", error, "--message", &message, "--for-good"]);
        dead.push(id);
    }
    let groups = dir.json(&["dead", "groups"]);
    let groups = groups["items"].as_array().unwrap();
    let group = groups.iter().find(|group| group["error"]["kind"] == "timeout").unwrap();
    assert_eq!((&group["queue"], &group["kind"], &group["count"]), (&json!("q"), &json!("work"), &json!(2)));
    let ended = |id: &str| dir.json(&["job", "show", id])["run_at"].clone();
    assert_eq!((&group["first_at"], &group["last_at"]), (&ended(&dead[0]), &ended(&dead[1])));
    let fingerprint = text(&group["error"]["fingerprint"]);
    let shown = dir.run(&["dead", "groups", "--queue", "q"]).exits(0).out;
    let columns = shown.lines().next().unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(columns, ["COUNT", "QUEUE", "KIND", "ERROR", "FIRST", "LAST", "FINGERPRINT"]);
    assert!(shown.contains("timeout: after 2 s") && shown.contains(fingerprint), "{shown}");
    assert_eq!(dir.json(&["dead", "groups", "--queue", "other"])["items"], json!([]));
    let listed = dir.json(&["dead", "list", "--fingerprint", fingerprint, "--queue", "q"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(dir.json(&["dead", "show", &dead[2]])["history"][0]["error"]["kind"], "rejected");

    // A dry run changes nothing, and without a terminal --yes is required.
    let tried = dir.json(&["dead", "retry", "--fingerprint", fingerprint, "--dry-run"]);
    assert_eq!(tried, json!({ "matched": 2, "done": 0, "refused": 0, "dry_run": true }));
    assert_eq!(dir.problem(2, &["dead", "retry", "--fingerprint", fingerprint])["field"], "yes");
    assert_eq!(dir.problem(2, &["dead", "retry"])["field"], "jobs");
    let done = dir.json(&["dead", "retry", "--fingerprint", fingerprint, "--yes", "--reason", "service restored"]);
    assert_eq!((&done["matched"], &done["done"]), (&json!(2), &json!(2)));
    assert_eq!(dir.json(&["job", "show", &dead[0]])["state"], "queued");
    assert_eq!(dir.json(&["job", "events", &dead[0]])["items"][0]["reason"], "service restored");
    dir.problem(5, &["dead", "show", &dead[0]]);

    let moved = dir.json(&["dead", "move", "--to", "other", &dead[2]]);
    assert_eq!(moved["items"][0]["state"], "queued");
    assert_eq!(lease(&dir, "other").0, dead[2]);
    dir.problem(5, &["dead", "discard", &dead[2]]);
}

#[test]
fn many_jobs_are_enqueued_edited_and_cancelled() {
    let dir = Workdir::ready();
    let jobs: Vec<Value> = (0..1_200).map(|n| json!({ "queue": "bulk", "kind": "work", "payload": n })).collect();
    let file = dir.file("jobs.json", &json!({ "jobs": jobs }).to_string());
    let enqueued = dir.json(&["job", "enqueue", "--file", file.to_str().unwrap()]);
    assert_eq!(enqueued["jobs"].as_array().unwrap().len(), 1_200);
    let page = dir.json(&["job", "list", "--queue", "bulk", "--most", "2"]);
    let next = text(&page["next"]);
    let rest = dir.json(&["job", "list", "--queue", "bulk", "--state", "queued", "--after", next, "--most", "1"]);
    assert_eq!(rest["items"][0]["payload"], 2);
    let first = text(&page["items"][0]["id"]);
    assert_eq!(dir.json(&["job", "edit", first, "--delay-ms", "60000"])["items"][0]["state"], "scheduled");
    dir.problem(2, &["job", "edit", first, "--priority", "2000"]);

    let ran = dir.run(&["job", "cancel", "--queue", "bulk", "--yes", "--json"]).exits(0);
    let done: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&done["matched"], &done["done"]), (&json!(1_200), &json!(1_200)));
    assert!(ran.err.contains("500 of 1200 jobs cancelled"), "{}", ran.err);
    let queue = dir.json(&["queue", "show", "bulk"]);
    assert_eq!(queue["figures"]["states"]["cancelled"], 1_200);
}

#[test]
fn a_queue_is_set_paused_and_resumed() {
    let dir = Workdir::ready();
    dir.json(&["queue", "set", "q", "--concurrency", "2", "--rate", "5/1000", "--lease-ms", "5000"]);
    let set = dir.json(&["queue", "set", "q", "--rate", "none", "--max-attempts", "3"]);
    let fields = (&set["concurrency"], &set["rate"], &set["lease_ms"], &set["retry"]["max_attempts"]);
    assert_eq!(fields, (&json!(2), &json!(null), &json!(5_000), &json!(3)));
    enqueue(&dir, &["q", "work"]);
    assert_eq!(dir.json(&["queue", "pause", "q"])["paused"], true);
    assert_eq!(dir.json(&["job", "lease", "q"])["jobs"], json!([]));
    let listed = dir.json(&["queue", "list"]);
    assert_eq!((&listed["items"][0]["name"], &listed["items"][0]["concurrency"]), (&json!("q"), &json!(2)));
    assert_eq!(dir.json(&["queue", "resume", "q"])["paused"], false);
    let (id, fence) = lease(&dir, "q");
    assert_eq!(dir.json(&["job", "return", &id, "--fence", &fence])["state"], "queued");
    let (id, fence) = lease(&dir, "q");
    let snoozed = dir.json(&["job", "snooze", &id, "--fence", &fence, "--delay-ms", "60000"]);
    assert_eq!(snoozed["state"], "scheduled");

    let set = dir.json(&["queue", "set", "q", "--keep-succeeded", "6h", "--keep-dead", "none"]);
    assert_eq!((&set["retention"]["succeeded_ms"], &set["retention"]["dead_ms"]), (&json!(21_600_000), &json!(null)));
    let shown = dir.run(&["queue", "show", "q"]).exits(0).out;
    assert!(shown.contains("keep succeeded   6h") && shown.contains("keep dead        for ever"), "{shown}");

    let file = dir.file("queue.json", r#"{ "retry": { "backoff": "fixed", "delay_ms": 7 }, "key_concurrency": 1 }"#);
    let set = dir.json(&["queue", "set", "q", "--file", file.to_str().unwrap()]);
    assert_eq!((&set["concurrency"], &set["key_concurrency"]), (&json!(null), &json!(1)));
    assert_eq!(set["retry"], json!({ "max_attempts": 5, "backoff": "fixed", "delay_ms": 7 }));
    let wrong = dir.file("wrong.json", r#"{ "leas_ms": 7 }"#);
    assert_eq!(dir.problem(2, &["queue", "set", "q", "--file", wrong.to_str().unwrap()])["field"], "leas_ms");
    assert_eq!(dir.problem(2, &["queue", "set", "q", "--lease-ms", "1"])["field"], "lease_ms");
}

#[test]
fn completing_a_job_settles_its_actual_cost() {
    let dir = Workdir::ready();
    dir.json(&["budget", "define", "team", "--limit", "100:lifetime"]);
    let body = json!({ "charges": [{ "scope": "team", "amount": 40 }], "settle": "job",
                       "jobs": [{ "queue": "q", "kind": "work" }] });
    let file = dir.file("command.json", &body.to_string());
    dir.json(&["command", "submit", file.to_str().unwrap()]);
    let (id, fence) = lease(&dir, "q");
    let done = dir.json(&["job", "complete", &id, "--fence", &fence, "--usage", "25"]);
    assert_eq!(done["cost"], json!([{ "scope": "team", "amount": 25 }]));
    assert_eq!(dir.json(&["job", "show", &id])["cost"], json!([{ "scope": "team", "amount": 25 }]));
    assert_eq!(dir.json(&["budget", "show", "team"])["balances"][0]["posted"], 25);
}

#[test]
fn a_job_is_enqueued_with_its_hold_in_one_command() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "org", "--limit", "1usd:day"]).exits(0);
    let enqueue = ["job", "enqueue", "media", "encode", "--charge", "org=0.40usd", "--key", "order-7"];
    let done = dir.json(&enqueue);
    let job = text(&done["jobs"][0]["id"]);
    assert_eq!(dir.json(&["job", "show", job])["hold"], done["hold"]["id"]);
    // The job's key finds the job and its hold.
    let again = dir.json(&enqueue);
    assert_eq!((&again["jobs"][0]["created"], &again["hold"]["id"]), (&json!(false), &done["hold"]["id"]));
    let told = dir.run(&enqueue).exits(0).out;
    assert!(told.contains("is held until its job ends") && !told.contains("REMAINING"), "{told}");
    // Nothing is enqueued that its budget does not admit.
    let refused = dir.run(&["job", "enqueue", "media", "encode", "--charge", "org=0.61usd"]).exits(3);
    assert!(refused.err.contains("org has $0.60 left of $1.00"), "{}", refused.err);
    let unknown = dir.run(&["job", "enqueue", "media", "encode", "--charge", "orgg=1"]).exits(4);
    assert!(unknown.err.contains("did you mean org?"), "{}", unknown.err);
    assert_eq!(dir.json(&["job", "list"])["items"].as_array().unwrap().len(), 1);
    dir.json(&["job", "lease", "--queue", "media"]);
    let ended = dir.run(&["job", "complete", job, "--fence", "1", "--usage", "0.25usd"]).exits(0).out;
    assert!(ended.contains("$0.25 on org"), "{ended}");
    assert_eq!(dir.json(&["budget", "show", "org"])["balances"][0]["remaining"], 750_000);
    dir.run(&["job", "enqueue", "--file", "jobs.json", "--charge", "org=1"]).exits(2);
}

#[test]
fn a_fence_that_the_job_never_had_is_not_taken_for_a_lost_lease() {
    let dir = Workdir::ready();
    let job = enqueue(&dir, &["q", "work"]);
    dir.json(&["job", "lease", "--queue", "q", "--worker", "ada"]);
    for report in [
        &["heartbeat"][..],
        &["progress", "--percent", "1"],
        &["complete"],
        &["return"],
        &["snooze", "--delay", "1m"],
        &["fail", "--error", "e"],
    ] {
        let ran = dir.run(&[&["job"], report, &[&job, "--fence", "99"]].concat()).exits(5);
        assert!(ran.err.contains("never had a lease with the fence 99: its current one has 1, by ada"), "{}", ran.err);
        assert!(!ran.err.contains("stop working"), "{}", ran.err);
    }
    dir.run(&["job", "return", &job, "--fence", "1"]).exits(0);
    dir.json(&["job", "lease", "--queue", "q"]);
    let lost = dir.run(&["job", "complete", &job, "--fence", "1"]).exits(5);
    assert!(lost.err.contains("no longer current") && lost.err.contains("stop working on the job"), "{}", lost.err);
}
