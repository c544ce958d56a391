//! Jobs for callers and workers, queues, schedules, dead jobs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    a_completed_job_settles_its_hold,
    the_next_lease_carries_the_checkpoint,
    an_edit_can_be_guarded_by_if_match,
    a_waiting_worker_is_woken_by_a_new_job,
    many_jobs_are_reported_together,
    an_invalid_job_prevents_the_whole_bulk,
    an_invalid_edit_fails_whatever_jobs_it_selects,
    keys_are_used_where_the_document_lists_them,
    workers_are_limited_by_their_capabilities,
    jobs_can_be_operated,
    dead_jobs_are_grouped_by_error_and_retried_as_a_group,
    a_page_of_queues_has_their_figures_and_series,
    queues_and_schedules_are_managed
);

const DIGITS: &str = "00000000000000000000000000";

async fn enqueue(server: &TestServer, queue: &str, kind: &str) -> String {
    let job = server.call("POST", "/v1/jobs", json!({ "queue": queue, "kind": kind })).await.is(201);
    let id = job.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(job.header("location"), Some(format!("/v1/jobs/{id}").as_str()));
    id
}

async fn held(server: &TestServer, query: &str) -> Vec<Value> {
    let page = server.call("GET", &format!("/v1/held{query}"), Value::Null).await.is(200).json();
    page["items"].as_array().unwrap().clone()
}

async fn a_completed_job_settles_its_hold(server: TestServer) {
    let budget = json!({ "unit": "cent", "limits": [{ "amount": 100, "window": "lifetime" }] });
    server.call("PUT", "/v1/budgets/room", budget).await.is(200);
    let body = json!({ "charges": [{ "scope": "room", "amount": 60 }], "settle": "job",
                       "jobs": [{ "queue": "media", "kind": "video", "idempotency_key": "gen-7", "max_attempts": 3 }] });
    let id =
        server.call("POST", "/v1/commands", body).await.is(201).json()["jobs"][0]["id"].as_str().unwrap().to_owned();
    let twin =
        server.call("POST", "/v1/jobs", json!({ "queue": "media", "kind": "video", "idempotency_key": "gen-7" })).await;
    assert_eq!(twin.is(200).json(), json!({ "id": id, "created": false }));
    let expected = json!({ "queue": "media", "kind": "video", "unit": "cent", "amount": 60 });
    let page = server.call("GET", "/v1/held?queue=media&limit=1", Value::Null).await.is(200).json();
    assert_eq!(page, json!({ "items": [expected], "next": "[\"media\",\"video\",\"cent\"]" }));
    assert_eq!(held(&server, "?cursor=%5B%22media%22,%22video%22,%22cent%22%5D").await, Vec::<Value>::new());
    assert_eq!(held(&server, "?queue=other").await, Vec::<Value>::new());
    for wrong in ["media", "%5B%22media%22,%22video%22,%22%5Cu0000%22%5D"] {
        let path = format!("/v1/held?cursor={wrong}");
        assert_eq!(server.call("GET", &path, Value::Null).await.is(400).problem(), "invalid");
    }
    let worker = server.worker("default", json!({ "queues": ["media"], "kinds": ["video"] })).await;
    let lease = json!({ "queues": ["media"], "capacity": 10, "lease_ms": 30_000 });
    let leased = server.call_as(&worker, "POST", "/v1/jobs/lease", lease.clone()).await.is(200).json();
    let job = &leased["jobs"][0];
    assert_eq!(
        (job["id"].as_str(), &job["attempt"], &job["idempotency_key"]),
        (Some(id.as_str()), &json!(1), &json!("gen-7"))
    );
    assert!(job["hold"].is_string() && job["lease"]["expires_at"].is_string());
    assert_eq!(job["held"], json!([{ "scope": "room", "amount": 60 }]), "a worker learns what its job may spend");
    let fence = job["lease"]["fence"].as_u64().unwrap();
    let beat = json!({ "fence": fence, "progress": { "percent": 40.0 } });
    let beaten = server.call_as(&worker, "POST", &format!("/v1/jobs/{id}/heartbeat"), beat).await.is(200).json();
    assert_eq!(beaten["order"], "continue");
    let failed = json!({ "fence": fence, "error": { "kind": "timeout", "message": "no answer" }, "retry_after_ms": 0,
                         "usage": [{ "amount": 10 }] });
    let failed = server.call_as(&worker, "POST", &format!("/v1/jobs/{id}/fail"), failed).await.is(200).json();
    assert_eq!(failed["cost"][0]["amount"], 10);
    let leased = server.call_as(&worker, "POST", "/v1/jobs/lease", lease).await.is(200).json();
    let second = leased["jobs"][0]["lease"]["fence"].as_u64().unwrap();
    let stale =
        server.call_as(&worker, "POST", &format!("/v1/jobs/{id}/complete"), json!({ "fence": fence })).await.is(409);
    assert_eq!(stale.problem(), "lease-lost");
    let done = json!({ "fence": second, "result": { "url": "u" }, "usage": [{ "amount": 25 }] });
    let path = format!("/v1/jobs/{id}/complete");
    let first = server.call_as(&worker, "POST", &path, done.clone()).await.is(200).json();
    assert_eq!(first["state"], "succeeded");
    assert_eq!(
        server.call_as(&worker, "POST", &path, done).await.is(200).json(),
        first,
        "a repeated report gets the same answer"
    );
    assert_eq!(server.call("GET", "/v1/budgets/room/spent", Value::Null).await.json()["spent"], 35);
    let job = server.call("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json();
    assert_eq!(
        (&job["state"], &job["result"]["url"], &job["cost"][0]["amount"]),
        (&json!("succeeded"), &json!("u"), &json!(35))
    );
    let events = server.call("GET", &format!("/v1/jobs/{id}/events?limit=100"), Value::Null).await.is(200).json();
    let kinds: Vec<&str> = events["items"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"job.succeeded"), Some(&"job.enqueued")));
    let day = job["enqueued_at"].as_str().unwrap().split('T').next().unwrap();
    let costs = server.call("GET", &format!("/v1/costs?from={day}&to={day}"), Value::Null).await.is(200).json();
    let page = server.call("GET", &format!("/v1/costs?from={day}&limit=1"), Value::Null).await.is(200).json();
    assert_eq!(page["next"], json!([day, "media", "video", "room"]).to_string());
    let rest = format!("/v1/costs?from={day}&cursor=%5B%22{day}%22,%22media%22,%22video%22,%22room%22%5D");
    assert_eq!(server.call("GET", &rest, Value::Null).await.is(200).json()["items"], json!([]));
    for wrong in ["media", "%5B%22today%22,%22media%22,%22video%22,%22room%22%5D"] {
        let path = format!("/v1/costs?from={day}&cursor={wrong}");
        assert_eq!(server.call("GET", &path, Value::Null).await.is(400).problem(), "invalid");
    }
    let sum: i64 = costs["items"].as_array().unwrap().iter().map(|cost| cost["amount"].as_i64().unwrap()).sum();
    assert_eq!(sum, 35);
    assert_eq!(held(&server, "").await, Vec::<Value>::new(), "the hold is settled");
    assert_eq!(server.call("GET", "/v1/verify", Value::Null).await.is(200).json()["ok"], true);
    server.stop().await;
}

async fn the_next_lease_carries_the_checkpoint(server: TestServer) {
    let id = enqueue(&server, "q", "k").await;
    let lease = async || {
        let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
        (leased["jobs"][0]["lease"]["fence"].clone(), leased["jobs"][0]["checkpoint"].clone())
    };
    let path = |act: &str| format!("/v1/jobs/{id}/{act}");
    let (first, none) = lease().await;
    assert_eq!(none, Value::Null);
    let report = json!({ "fence": first, "percent": 40, "checkpoint": { "frame": 1_200 } });
    server.call("POST", &path("progress"), report).await.is(200);
    let beat = json!({ "fence": first, "progress": { "percent": 60 } });
    server.call("POST", &path("heartbeat"), beat).await.is(200);
    let shown = server.call("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json();
    assert_eq!((&shown["checkpoint"], &shown["progress"]["percent"]), (&json!({ "frame": 1_200 }), &json!(60.0)));
    let events = server.call("GET", &format!("/v1/jobs/{id}/events"), Value::Null).await.is(200).json();
    let kinds: Vec<_> = events["items"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "job.checkpointed").count(), 1, "routine progress is no event");
    server.call("POST", &path("return"), json!({ "fence": first })).await.is(200);
    let lost = json!({ "fence": first, "checkpoint": { "frame": 7 } });
    assert_eq!(server.call("POST", &path("progress"), lost).await.is(409).problem(), "lease-lost");
    let (second, carried) = lease().await;
    assert_eq!(carried, json!({ "frame": 1_200 }), "a lost lease stores no checkpoint");
    let many = json!({ "items": [{ "id": id, "fence": second, "checkpoint": null }] });
    server.call("POST", "/v1/jobs/progress", many).await.is(200);
    server.call("POST", &path("return"), json!({ "fence": second })).await.is(200);
    assert_eq!(lease().await.1, Value::Null, "null removes it");
    server.stop().await;
}

async fn an_edit_can_be_guarded_by_if_match(server: TestServer) {
    let id = enqueue(&server, "q", "k").await;
    let path = format!("/v1/jobs/{id}");
    let tag = async || {
        let shown = server.call("GET", &path, Value::Null).await.is(200);
        shown.header("etag").expect("the answer has an ETag").to_owned()
    };
    let edit = async |tag: &str, priority: i16| {
        server.call_with(OPERATOR, &[("If-Match", tag)], "PATCH", &path, json!({ "priority": priority })).await
    };
    let first = tag().await;
    assert_eq!(tag().await, first, "reading changes nothing");
    edit(&first, 5).await.is(200);
    assert_eq!(edit(&first, 6).await.is(412).problem(), "changed");
    let second = tag().await;
    assert_ne!(second, first);
    edit(&second, 7).await.is(200);
    edit("*", 8).await.is(200);
    let shown = server.call("GET", &path, Value::Null).await.is(200).json();
    assert_eq!(shown["priority"], 8);
    // What others do with the job counts too, but not the heartbeats of its worker.
    let waiting = tag().await;
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    assert_eq!(edit(&waiting, 9).await.is(412).problem(), "changed");
    let running = tag().await;
    let beat = json!({ "fence": leased["jobs"][0]["lease"]["fence"], "progress": { "percent": 1 } });
    server.call("POST", &format!("{path}/heartbeat"), beat).await.is(200);
    assert_eq!(tag().await, running);
    let other = format!("/v1/jobs/{}", "job_00000000000000000000000007");
    let unknown = server.call_with(OPERATOR, &[("If-Match", "*")], "PATCH", &other, json!({ "priority": 1 })).await;
    assert_eq!(unknown.is(404).problem(), "not-found");
    let many = json!({ "ids": [id], "priority": 1 });
    server.call_with(OPERATOR, &[("If-Match", &running)], "POST", "/v1/jobs/edit", many).await.is(400);
    server.stop().await;
}

/// A wake that is lost is made up for once in a second. These are not lost.
async fn a_waiting_worker_is_woken_by_a_new_job(server: TestServer) {
    let mut delays = Vec::new();
    for _ in 0..9 {
        let waiting = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "wait_ms": 60_000 }));
        let enqueueing = async {
            while !server.call("GET", "/metrics", Value::Null).await.is(200).text.contains("bursar_lease_waiters 1\n") {
            }
            (tokio::time::Instant::now(), enqueue(&server, "q", "k").await)
        };
        let (leased, (began, id)) = tokio::join!(waiting, enqueueing);
        delays.push(began.elapsed());
        assert_eq!(leased.is(200).json()["jobs"][0]["id"], id);
    }
    delays.sort();
    assert!(delays[4] < Duration::from_millis(500), "{delays:?}");
    let none = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "wait_ms": 50 })).await.is(200).json();
    assert_eq!(none["jobs"], json!([]));
    let long = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "wait_ms": 60_001 })).await.is(400);
    assert_eq!(long.json()["field"], "wait_ms");
    server.stop().await;
}

async fn many_jobs_are_reported_together(server: TestServer) {
    let jobs: Vec<Value> = (0..30).map(|n| json!({ "queue": "q", "kind": "k", "payload": n })).collect();
    let bulk = server.call("POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await.is(200).json();
    assert_eq!(bulk["jobs"].as_array().unwrap().len(), 30);
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "capacity": 30 })).await.is(200).json();
    let item = |place: usize| {
        let job = &leased["jobs"][place];
        json!({ "id": job["id"], "fence": job["lease"]["fence"] })
    };
    let beats = json!({ "items": [item(0), { "id": format!("job_{DIGITS}"), "fence": 1 }] });
    let beaten = server.call("POST", "/v1/jobs/heartbeat", beats).await.is(200).json();
    assert_eq!(beaten["items"][0]["order"], "continue");
    assert_eq!(beaten["items"][1]["problem"]["type"], "/problems/not-found");
    let done =
        server.call("POST", "/v1/jobs/complete", json!({ "items": [item(0), item(1), item(0)] })).await.is(200).json();
    let states: Vec<&str> =
        done["items"].as_array().unwrap().iter().map(|item| item["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["succeeded"; 3]);
    let mut dead = item(2);
    (dead["error"], dead["retryable"]) = (json!({ "kind": "bad" }), json!(false));
    let failed = server.call("POST", "/v1/jobs/fail", json!({ "items": [dead] })).await.is(200).json();
    assert_eq!(failed["items"][0]["state"], "dead");
    let mut later = item(3);
    later["delay_ms"] = json!(60_000);
    let snoozed = server.call("POST", "/v1/jobs/snooze", json!({ "items": [later] })).await.is(200).json();
    assert_eq!(snoozed["items"][0]["state"], "scheduled");
    let back = json!({ "items": [item(4), item(5), item(0)] });
    let back = server.call("POST", "/v1/jobs/return", back).await.is(200).json();
    assert_eq!((&back["items"][0]["state"], &back["items"][1]["state"]), (&json!("queued"), &json!("queued")));
    assert_eq!(back["items"][2]["problem"]["type"], "/problems/lease-lost");
    let many: Vec<Value> = (0..1_001).map(|_| item(3)).collect();
    assert_eq!(
        server.call("POST", "/v1/jobs/complete", json!({ "items": many })).await.is(400).json()["field"],
        "items"
    );
    server.stop().await;
}

async fn an_invalid_job_prevents_the_whole_bulk(server: TestServer) {
    let mut jobs: Vec<Value> = (0..1_001).map(|n| json!({ "queue": "q", "kind": "k", "payload": n })).collect();
    jobs[1_000]["priority"] = json!(2_000);
    let refused = server.call("POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await.is(400);
    assert_eq!(refused.json()["field"], "jobs[1000].priority");
    let listed = server.call("GET", "/v1/jobs?queue=q", Value::Null).await.is(200).json();
    assert_eq!(listed["items"], json!([]), "no job of the first transaction is enqueued either");
    server.stop().await;
}

async fn an_invalid_edit_fails_whatever_jobs_it_selects(server: TestServer) {
    let edit = async |which: Value, dry_run: bool| {
        let mut body = json!({ "priority": 2_000, "dry_run": dry_run });
        body.as_object_mut().unwrap().extend(which.as_object().unwrap().clone());
        server.call("POST", "/v1/jobs/edit", body).await.is(400).json()["field"].clone()
    };
    for dry_run in [false, true] {
        assert_eq!(edit(json!({ "filter": { "queue": "empty" } }), dry_run).await, "priority");
        assert_eq!(edit(json!({ "ids": [format!("job_{DIGITS}")] }), dry_run).await, "priority");
        let many = json!({ "ids": vec![format!("job_{DIGITS}"); 1_001], "dry_run": dry_run });
        assert_eq!(server.call("POST", "/v1/jobs/cancel", many).await.is(400).json()["field"], "ids");
    }
    server.stop().await;
}

/// Every write accepts a key. Where the fence makes a retry safe the key is ignored, and the document describes that.
async fn keys_are_used_where_the_document_lists_them(server: TestServer) {
    for _ in 0..3 {
        enqueue(&server, "q", "k").await;
    }
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "capacity": 2 })).await.is(200).json();
    let keyed = async |path: String, body: Value| {
        let key = if path == "/v1/jobs" { "two" } else { "one" };
        server.call_with(crate::test_server::OPERATOR, &[("Idempotency-Key", key)], "POST", &path, body).await
    };
    // A route that ignores keys accepts any header; the others require a valid key.
    let odd = "k".repeat(300);
    let odd = [("Idempotency-Key", odd.as_str()), ("Idempotency-Key", "twice")];
    server
        .call_with(crate::test_server::OPERATOR, &odd, "POST", "/v1/jobs/lease", json!({ "queues": ["none"] }))
        .await
        .is(200);
    let job = json!({ "queue": "q", "kind": "k" });
    server.call_with(crate::test_server::OPERATOR, &odd, "POST", "/v1/jobs", job.clone()).await.is(400);
    // If-Match is refused where it is not supported.
    let any = [("If-Match", "*")];
    for (path, body) in [("/v1/jobs", job), ("/v1/jobs/lease", json!({ "queues": ["none"] }))] {
        let refused = server.call_with(crate::test_server::OPERATOR, &any, "POST", path, body).await.is(400);
        assert_eq!(refused.json()["field"], "if-match", "{path}");
    }
    for job in leased["jobs"].as_array().unwrap() {
        let path = format!("/v1/jobs/{}/complete", job["id"].as_str().unwrap());
        let done = keyed(path.clone(), json!({ "fence": job["lease"]["fence"] })).await.is(200);
        assert_eq!(done.json()["state"], "succeeded", "the key is ignored for reports");
        let again = keyed(path, json!({ "fence": job["lease"]["fence"] })).await.is(200);
        assert_eq!((again.json(), again.header("idempotent-replayed")), (done.json(), None));
    }
    let third = server.call("GET", "/v1/jobs?state=queued", Value::Null).await.is(200).json();
    let third = third["items"][0]["id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let cancelled = keyed(format!("/v1/jobs/{third}/cancel"), json!({})).await.is(200);
        assert_eq!(cancelled.json()["state"], "cancelled");
    }
    let discard = format!("/v1/jobs/{third}/discard");
    assert_eq!(keyed(discard, json!({})).await.is(409).problem(), "conflict", "the key belongs to another request");
    let first = keyed("/v1/jobs".into(), json!({ "queue": "q", "kind": "k" })).await.is(201);
    let again = keyed("/v1/jobs".into(), json!({ "queue": "q", "kind": "k" })).await;
    assert_eq!(
        (again.json()["id"].clone(), again.header("idempotent-replayed")),
        (first.json()["id"].clone(), Some("true"))
    );

    let document = bursar_server::document();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in
            operations.as_object().unwrap().iter().filter(|(method, _)| !["get", "options"].contains(&method.as_str()))
        {
            let parameters = operation["parameters"].as_array().unwrap();
            let listed = parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key");
            assert_eq!(
                listed,
                operation.get("description").is_none(),
                "{method} {path} describes what makes a retry safe"
            );
        }
    }
    server.stop().await;
}

async fn workers_are_limited_by_their_capabilities(server: TestServer) {
    let (video, audio) =
        (enqueue(&server, "media-1", "video.cut").await, enqueue(&server, "media-1", "audio.cut").await);
    enqueue(&server, "mail", "video.cut").await;
    let worker = server.worker("default", json!({ "queues": ["media-*"], "kinds": ["video.*"] })).await;
    let lease = |queue: &str, kinds: Value| json!({ "queues": [queue], "kinds": kinds, "capacity": 10 });
    let try_lease = async |body: Value| server.call_as(&worker, "POST", "/v1/jobs/lease", body).await;
    assert_eq!(try_lease(lease("mail", json!([]))).await.is(403).problem(), "forbidden");
    assert_eq!(try_lease(lease("media-1", json!(["audio.cut"]))).await.is(403).problem(), "forbidden");
    assert_eq!(try_lease(lease("media-1", json!(["*"]))).await.is(403).problem(), "forbidden");
    let leased = try_lease(lease("media-1", json!([]))).await.is(200).json();
    assert_eq!(leased["jobs"].as_array().unwrap().len(), 1, "only kinds in its capabilities are leased");
    assert_eq!(
        (leased["jobs"][0]["id"].as_str(), &leased["jobs"][0]["lease"]["worker"]),
        (Some(video.as_str()), &json!("encoder"))
    );
    // A worker may not report on another's job, even with the right fence.
    server.call("POST", "/v1/jobs/lease", lease("media-1", json!(["audio.*"]))).await.is(200);
    for verb in ["complete", "heartbeat", "return"] {
        let guessed = server.call_as(&worker, "POST", &format!("/v1/jobs/{audio}/{verb}"), json!({ "fence": 1 })).await;
        assert_eq!(guessed.is(403).problem(), "forbidden", "{verb}");
    }
    let both = json!({ "items": [{ "id": audio, "fence": 1 }, { "id": video, "fence": leased["jobs"][0]["lease"]["fence"] }] });
    let answers = server.call_as(&worker, "POST", "/v1/jobs/complete", both).await.is(200).json();
    assert_eq!(answers["items"][0]["problem"]["type"], "/problems/forbidden");
    assert_eq!(answers["items"][1]["state"], "succeeded");
    // X-Worker-Token works too; a worker may do nothing but work without further capabilities.
    let header = [("X-Worker-Token", worker.as_str()), ("Content-Type", "application/json")];
    let text =
        crate::client::request("POST", "/v1/jobs/lease", &header, Some(&lease("media-1", json!([])).to_string()));
    crate::client::send(server.address, text.as_bytes()).await.is(200);
    assert_eq!(
        server.call_as(&worker, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(403).problem(),
        "forbidden"
    );
    let useless = json!({ "name": "w", "capabilities": { "mutations": ["jobs.*", "grants.erase"] } });
    let refused = server.call("POST", "/v1/workers", useless).await.is(400).json();
    assert_eq!(refused["field"], "capabilities.mutations");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("grants.write")), "{refused}");
    let maker = server.worker("default", json!({ "mutations": ["jobs.*"] })).await;
    server.call_as(&maker, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    let spender = server.worker("default", json!({ "mutations": ["commands.submit"] })).await;
    let spend = json!({ "charges": [{ "scope": "s", "amount": 1, "limits": [{ "amount": 9, "window": "day" }] }] });
    server.call_as(&spender, "POST", "/v1/commands", spend.clone()).await.is(201);
    let smuggled = json!({ "charges": spend["charges"], "jobs": [{ "queue": "q", "kind": "k" }] });
    assert_eq!(server.call_as(&spender, "POST", "/v1/commands", smuggled).await.is(403).problem(), "forbidden");
    let nothing = server.worker("default", json!({})).await;
    assert_eq!(
        server.call_as(&nothing, "POST", "/v1/jobs/lease", lease("q", json!([]))).await.is(403).problem(),
        "forbidden"
    );
    server.stop().await;
}

async fn jobs_can_be_operated(server: TestServer) {
    let (first, second) = (enqueue(&server, "q", "k").await, enqueue(&server, "q", "k").await);
    server.call("PATCH", &format!("/v1/jobs/{second}"), json!({ "priority": 9 })).await.is(200);
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    assert_eq!(leased["jobs"][0]["id"], second, "the higher priority is leased first");
    let fence = leased["jobs"][0]["lease"]["fence"].clone();
    let snoozed =
        server.call("POST", &format!("/v1/jobs/{second}/snooze"), json!({ "fence": fence, "delay_ms": 60_000 })).await;
    assert_eq!(snoozed.is(200).json()["state"], "scheduled");
    let cancelled =
        server.call("POST", &format!("/v1/jobs/{first}/cancel"), json!({ "reason": "typo" })).await.is(200).json();
    assert_eq!(cancelled["state"], "cancelled");
    let listed = server.call("GET", "/v1/jobs?queue=q&state=cancelled", Value::Null).await.is(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.call("GET", "/v1/jobs?state=lost", Value::Null).await.is(400).problem(), "invalid");
    server.call("POST", &format!("/v1/jobs/{first}/retry"), Value::Null).await.is(200);
    server.call("POST", &format!("/v1/jobs/{first}/move"), json!({ "queue": "other" })).await.is(200);
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["other"] })).await.is(200).json();
    let fence = leased["jobs"][0]["lease"]["fence"].clone();
    let fail = json!({ "fence": fence, "error": { "kind": "bad", "message": "wrong input" }, "retryable": false });
    server.call("POST", &format!("/v1/jobs/{first}/fail"), fail).await.is(200);
    let dead = server.call("GET", "/v1/dead?queue=other", Value::Null).await.is(200).json();
    let fingerprint = dead["items"][0]["error"]["fingerprint"].as_str().unwrap().to_owned();
    let moved = json!({ "filter": { "fingerprint": fingerprint }, "to": "q", "reason": "mended" });
    let acted = server.call("POST", "/v1/dead/move", moved).await.is(200).json();
    assert_eq!(acted, json!({ "matched": 1, "done": 1, "refused": 0, "next": null }));
    assert_eq!(
        server.call("POST", "/v1/dead/discard", json!({ "ids": [first] })).await.is(200).json()["refused"],
        1,
        "the job is not dead"
    );
    assert_eq!(server.call("POST", "/v1/dead/retry", json!({})).await.is(400).json()["field"], "filter");
    let whereto = json!({ "filter": { "queue": "q" } });
    assert_eq!(server.call("POST", "/v1/dead/move", whereto).await.is(400).json()["field"], "to");
    let nowhere = json!({ "filter": { "queue": "q" }, "to": "other" });
    assert_eq!(
        server.call("POST", "/v1/dead/retry", nowhere).await.is(400).json()["field"],
        "to",
        "retry takes no target queue"
    );
    let all = server.call("POST", "/v1/jobs/cancel", json!({ "filter": { "queue": "q" } })).await.is(200).json();
    assert_eq!(all["done"], 2);
    let missing = server.call("POST", &format!("/v1/jobs/job_{DIGITS}/cancel"), Value::Null).await.is(404);
    assert_eq!(missing.problem(), "not-found");
    let wrong = server.call("POST", &format!("/v1/jobs/{first}/discard"), Value::Null).await.is(409);
    assert_eq!((wrong.problem().as_str(), &wrong.json()["state"]), ("conflict", &json!("cancelled")));
    server.stop().await;
}

/// Enqueues a job that dies with an error.
async fn die(server: &TestServer, queue: &str, error: Value) -> String {
    let id = enqueue(server, queue, "k").await;
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": [queue] })).await.is(200).json();
    let fence = &leased["jobs"][0]["lease"]["fence"];
    let fail = json!({ "fence": fence, "error": error, "retryable": false });
    server.call("POST", &format!("/v1/jobs/{id}/fail"), fail).await.is(200);
    id
}

async fn dead_jobs_are_grouped_by_error_and_retried_as_a_group(server: TestServer) {
    let groups = async |query: &str| {
        let found = server.call("GET", &format!("/v1/dead/groups{query}"), Value::Null).await.is(200).json();
        (found["items"].as_array().unwrap().clone(), found["next"].clone())
    };
    assert_eq!(groups("").await, (Vec::new(), Value::Null));
    let mut ids = Vec::new();
    for (queue, kind, message) in
        [("a", "timeout", "after 1 s"), ("a", "timeout", "after 2 s"), ("a", "bad", ""), ("b", "bad", "")]
    {
        ids.push(die(&server, queue, json!({ "kind": kind, "message": message })).await);
    }
    let (all, next) = groups("").await;
    assert_eq!((all.len(), next), (3, Value::Null));
    let group = all.iter().find(|group| group["count"] == 2).unwrap();
    assert_eq!((&group["queue"], &group["kind"]), (&json!("a"), &json!("k")));
    assert_eq!((&group["error"]["kind"], &group["error"]["message"]), (&json!("timeout"), &json!("after 2 s")));
    for (time, job) in [("first_at", &ids[0]), ("last_at", &ids[1])] {
        let job = server.call("GET", &format!("/v1/jobs/{job}"), Value::Null).await.is(200).json();
        assert_eq!(group[time], job["run_at"]);
    }
    let (first, cursor) = groups("?limit=2").await;
    assert_eq!(first, all[..2]);
    let cursor = cursor.as_str().unwrap().replace('[', "%5B").replace('"', "%22").replace(']', "%5D");
    assert_eq!(groups(&format!("?limit=2&cursor={cursor}")).await, (all[2..].to_vec(), Value::Null));
    assert_eq!(groups("?queue=b").await.0, all[2..]);
    for wrong in ["?cursor=x", "?cursor=%5B%22a%22,%22k%22,%22%5Cu0000%22%5D", "?limit=0", "?kind=k"] {
        server.call("GET", &format!("/v1/dead/groups{wrong}"), Value::Null).await.is(400);
    }

    // A queue, kind and fingerprint select the jobs of a group.
    let filter = json!({ "queue": "a", "kind": "k", "fingerprint": group["error"]["fingerprint"] });
    let act = async |act: &str, filter: &Value, dry_run: bool| {
        let body = json!({ "filter": filter, "dry_run": dry_run });
        server.call("POST", &format!("/v1/dead/{act}"), body).await.is(200).json()
    };
    assert_eq!(act("retry", &filter, true).await["matched"], 2);
    assert_eq!(groups("").await.0, all, "a dry run changes nothing");
    assert_eq!(act("retry", &filter, false).await["done"], 2);
    let (rest, _) = groups("").await;
    assert!(rest.len() == 2 && rest.iter().all(|group| group["error"]["kind"] == "bad"), "{rest:?}");
    let filter = json!({ "queue": "b", "fingerprint": rest[0]["error"]["fingerprint"] });
    assert_eq!(act("discard", &filter, false).await["done"], 1);
    assert_eq!(groups("").await.0, rest[..1], "the group of the other queue stays");

    // Readers of jobs may see the groups of their tenant; workers and monitors may not.
    for (role, status) in [("viewer", 200), ("user", 200), ("monitor", 403)] {
        let key = server.key("acme", role).await;
        let answer = server.call_as(&key, "GET", "/v1/dead/groups", Value::Null).await.is(status);
        if status == 200 {
            assert_eq!(answer.json()["items"], json!([]), "{role} of another tenant");
        }
    }
    server.stop().await;
}

async fn a_page_of_queues_has_their_figures_and_series(server: TestServer) {
    die(&server, "a", json!({ "kind": "bad" })).await;
    for _ in 0..3 {
        enqueue(&server, "b", "k").await;
    }
    let get = async |path: &str| server.call("GET", path, Value::Null).await;
    let page = get("/v1/queues?minutes=30").await.is(200).json();
    for (place, name) in ["a", "b"].iter().enumerate() {
        let queue = get(&format!("/v1/queues/{name}?minutes=30")).await.is(200).json();
        assert_eq!(page["items"][place], queue, "a page has what a single queue has");
    }
    assert_eq!(page["items"][1]["figures"]["states"]["queued"], 3);
    assert_eq!(page["items"][0]["figures"]["over_ms"], 30 * 60_000);
    assert_eq!(page["items"][0]["figures"].get("series"), None, "only on request");

    let page = get("/v1/queues?minutes=30&series=true").await.is(200).json();
    let queue = get("/v1/queues/a?minutes=30&series=true").await.is(200).json();
    for (figures, sums) in [
        (&page["items"][0]["figures"], [1, 0, 0, 1, 1]),
        (&page["items"][1]["figures"], [3, 0, 0, 0, 0]),
        (&queue["figures"], [1, 0, 0, 1, 1]),
    ] {
        let series = &figures["series"];
        assert_eq!(series["step_ms"], 60_000);
        assert!(series["from"].as_str().unwrap().contains(":00"), "{series}");
        for (name, sum) in ["enqueued", "succeeded", "cancelled", "dead", "failed_attempts"].iter().zip(sums) {
            let counts: Vec<i64> = serde_json::from_value(series[name].clone()).unwrap();
            assert_eq!((counts.len(), counts.iter().sum::<i64>()), (30, sum), "{name}");
            assert_eq!(figures[name], sum, "{name}");
            assert_eq!(counts[..28].iter().sum::<i64>(), 0, "the last minutes are at the end");
        }
    }
    for wrong in ["?minutes=0", "?minutes=1441", "?series=maybe", "?limit=101&minutes=1440"] {
        get(&format!("/v1/queues{wrong}")).await.is(400);
    }
    get("/v1/queues?limit=100&minutes=1440&series=true").await.is(200);
    server.stop().await;
}

async fn queues_and_schedules_are_managed(server: TestServer) {
    let made = server.call("PUT", "/v1/queues/q", json!({ "concurrency": 3 })).await.is(200);
    assert_eq!(made.json()["concurrency"], 3);
    let tag = made.header("etag").unwrap().to_owned();
    server.call("POST", "/v1/queues/q/pause", json!({ "reason": "down" })).await.is(200);
    let stale =
        server.call_with(crate::test_server::OPERATOR, &[("If-Match", &tag)], "PUT", "/v1/queues/q", json!({})).await;
    assert_eq!(stale.is(412).problem(), "changed");
    enqueue(&server, "q", "k").await;
    let none = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    assert_eq!(none["jobs"], json!([]), "the queue is paused");
    let queue = server.call("GET", "/v1/queues/q?minutes=5", Value::Null).await.is(200).json();
    assert_eq!((&queue["paused"], &queue["figures"]["states"]["queued"]), (&json!(true), &json!(1)));
    server.call("POST", "/v1/queues/q/resume", Value::Null).await.is(200);
    assert_eq!(server.call("GET", "/v1/queues", Value::Null).await.is(200).json()["items"][0]["name"], "q");
    assert_eq!(server.call("PUT", "/v1/queues/q", json!({ "lease_ms": 1 })).await.is(400).problem(), "invalid");

    let spec = json!({ "cron": "30 7 * * MON-FRI", "zone": "Europe/Berlin", "queue": "q", "kind": "report" });
    let made = server.call("PUT", "/v1/schedules/morning", spec.clone()).await.is(200);
    assert!(made.json()["next_at"].is_string());
    let ran = server.call("POST", "/v1/schedules/morning/run", Value::Null).await.is(201);
    server.call("GET", ran.header("location").unwrap(), Value::Null).await.is(200);
    let paused = server.call("POST", "/v1/schedules/morning/pause", Value::Null).await.is(200).json();
    assert_eq!((&paused["paused"], &paused["next_at"]), (&json!(true), &Value::Null));
    server.call("POST", "/v1/schedules/morning/resume", Value::Null).await.is(200);
    assert_eq!(
        server.call("GET", "/v1/schedules", Value::Null).await.is(200).json()["items"].as_array().unwrap().len(),
        1
    );
    let bad = {
        let mut bad = spec;
        bad["zone"] = json!("Mars/Olympus");
        bad
    };
    assert_eq!(server.call("PUT", "/v1/schedules/x", bad).await.is(400).json()["field"], "zone");
    server.call("DELETE", "/v1/schedules/morning", Value::Null).await.is(204);
    assert_eq!(server.call("GET", "/v1/schedules/morning", Value::Null).await.is(404).problem(), "not-found");
    assert_eq!(server.call("DELETE", "/v1/schedules/morning", Value::Null).await.is(404).problem(), "not-found");
    let journal = server.call("GET", "/v1/journal?kind=schedule.removed", Value::Null).await.is(200).json();
    assert_eq!(journal["items"][0]["data"]["schedule"], "morning");
    assert_eq!(journal["items"][0]["actor"], json!({ "kind": "user", "id": "operator" }));
    server.stop().await;
}
