//! Blobs without their bytes: records, namespaces, references, and who reaches what.

use std::time::Duration;

use bursar::{Backend, BlobId, BlobSpec, Bursar, Context, Namespace, Payload, Sha256Digest, Tenant};
use serde_json::{Value, json};

use crate::client::Response;
use crate::test_server::{TestServer, on_both_engines};

on_both_engines!(
    blobs_are_listed_shown_deleted_and_restored,
    names_of_the_application_keep_a_blob,
    namespaces_have_rules_and_an_etag,
    jobs_and_commands_keep_the_blobs_they_name,
    a_command_with_an_unknown_blob_has_no_effect,
    a_stale_fence_references_nothing,
    workers_reach_only_their_namespaces,
    workers_name_only_blobs_of_their_namespaces,
    roles_read_and_write_blobs,
);

/// The tenant of most tests.
const TENANT: &str = "acme";
/// Longer than these tests take.
const LONG: Duration = Duration::from_secs(3_600);
/// A blob that never existed.
const NEVER: &str = "blob_01j9zq3v4w5x6y7z8abcdefghj";

fn of_tenant(server: &TestServer, tenant: &str) -> Bursar {
    server.bursar.in_context(Context::of(Tenant::new(tenant).unwrap()))
}

/// Records a blob whose bytes are stored. Two with the same number have the same bytes.
async fn stored(server: &TestServer, tenant: &str, namespace: &str, number: u32) -> BlobId {
    let bursar = of_tenant(server, tenant);
    let spec = BlobSpec {
        filename: Some("a.png".into()),
        content_type: "image/png".into(),
        metadata: Payload::new(r#"{"k":1}"#).unwrap(),
        ..BlobSpec::new(Namespace::new(namespace).unwrap(), Backend::new("local").unwrap())
    };
    let started = bursar.blob_records().start(spec, LONG, None).await.unwrap();
    let mut digest = [7; 32];
    digest[..4].copy_from_slice(&number.to_be_bytes());
    bursar.blob_records().store(started.blob, 10, Sha256Digest(digest)).await.unwrap().blob
}

/// Lets blobs of a namespace be collected as soon as nothing needs them.
async fn collected_at_once(server: &TestServer, admin: &str, namespace: &str) {
    let rules = json!({ "grace_ms": 0, "unreferenced_ms": 0 });
    server.call_as(admin, "PUT", &format!("/v1/namespaces/{namespace}"), rules).await.is(200);
}

/// Returns whether a blob would be collected now. If so, it is doomed.
async fn is_collected(server: &TestServer, blob: BlobId) -> bool {
    of_tenant(server, TENANT).blob_records().doom(vec![blob]).await.unwrap() == 1
}

/// Returns what a response says, without what differs from request to request and without an id.
fn said(answer: &Response, id: &str) -> (u16, Value) {
    let mut body: Value = serde_json::from_str(&answer.text.replace(id, "ID")).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("request_id");
    }
    (answer.status, body)
}

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

async fn blobs_are_listed_shown_deleted_and_restored(server: TestServer) {
    let user = server.key(TENANT, "user").await;
    let call = async |method: &str, path: &str, body: Value| server.call_as(&user, method, path, body).await;
    let mut made = Vec::new();
    for number in 0..5 {
        let namespace = if number % 2 == 0 { "even" } else { "odd" };
        made.push(stored(&server, TENANT, namespace, number).await.to_string());
    }
    let list = async |query: &str| call("GET", &format!("/v1/blobs?{query}"), Value::Null).await.is(200).json();
    assert_eq!(ids(&list("").await), made);
    let page = list("limit=2").await;
    assert_eq!(ids(&page), made[..2]);
    let next = page["next"].as_str().unwrap().to_owned();
    assert_eq!(ids(&list(&format!("cursor={next}")).await), made[2..]);
    assert_eq!(ids(&list("namespace=odd").await), [made[1].clone(), made[3].clone()]);
    let page = list("namespace=even&order=newest&limit=2").await;
    assert_eq!(ids(&page), [made[4].clone(), made[2].clone()]);
    let next = page["next"].as_str().unwrap().to_owned();
    assert_eq!(ids(&list(&format!("namespace=even&order=newest&cursor={next}")).await), made[..1]);
    assert_eq!(ids(&list("namespace=none").await), [""; 0]);
    assert_eq!(call("GET", "/v1/blobs?cursor=x", Value::Null).await.is(400).json()["field"], "cursor");

    let id = &made[0];
    let meta = async || call("GET", &format!("/v1/blobs/{id}/meta"), Value::Null).await.is(200).json();
    let mut expected = json!({
        "id": id, "namespace": "even", "state": "live", "filename": "a.png", "content_type": "image/png", "size": 10,
        "sha256": format!("00000000{}", "07".repeat(28)), "metadata": { "k": 1 }, "backend": "local",
        "created_by": { "kind": "system" }, "deleted_at": null, "jobs": 0, "references": [],
    });
    let shown = meta().await;
    expected["created_at"] = shown["created_at"].clone();
    assert_eq!(shown, expected);
    assert!(shown["created_at"].as_str().unwrap().starts_with("20"), "{shown}");

    let path = format!("/v1/blobs/{id}?reason=replaced");
    for _ in 0..2 {
        call("DELETE", &path, Value::Null).await.is(204);
        let shown = meta().await;
        assert_eq!((&shown["state"], shown["deleted_at"].is_string()), (&json!("deleted"), true));
    }
    // A list has what can be read, unless it asks for more.
    assert_eq!(ids(&list("").await), made[1..]);
    assert_eq!(ids(&list("state=deleted").await), made[..1]);
    assert_eq!(ids(&list("state=all&limit=2").await), made[..2]);
    assert_eq!(ids(&list("state=pending").await), [""; 0]);
    assert_eq!(call("GET", "/v1/blobs?state=doomed", Value::Null).await.is(400).json()["field"], "state");
    let page = list("limit=1").await;
    assert_eq!(ids(&page), made[1..2], "a deleted blob takes no room on a page");
    assert_eq!(call("PUT", &format!("/v1/blobs/{id}/references/a"), json!({})).await.is(404).problem(), "not-found");
    for _ in 0..2 {
        let restored = call("POST", &format!("/v1/blobs/{id}/restore"), json!({})).await.is(200).json();
        assert_eq!(restored, expected);
    }
    let admin = server.key(TENANT, "admin").await;
    let path = format!("/v1/journal?stream={id}&limit=1000");
    let events = server.call_as(&admin, "GET", &path, Value::Null).await.is(200).json()["items"].clone();
    let kinds: Vec<&str> = events.as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["blob.started", "blob.stored", "blob.deleted", "blob.restored"]);
    assert_eq!((&events[2]["reason"], &events[2]["data"]["blob"]), (&json!("replaced"), &json!(id)));
    assert_eq!(events[0]["data"]["namespace"], "even");

    for (method, path) in [("GET", "meta"), ("POST", "restore"), ("PUT", "references/a"), ("DELETE", "references/a")] {
        let body = if method == "GET" || method == "DELETE" { Value::Null } else { json!({}) };
        let unknown = call(method, &format!("/v1/blobs/{NEVER}/{path}"), body).await.is(404);
        assert_eq!(
            (unknown.problem().as_str(), &unknown.json()["id"]),
            ("not-found", &json!(NEVER)),
            "{method} {path}"
        );
    }
    call("DELETE", &format!("/v1/blobs/{NEVER}"), Value::Null).await.is(404);
    assert_eq!(call("GET", "/v1/blobs/blob_1/meta", Value::Null).await.is(400).problem(), "invalid");
    server.stop().await;
}

async fn names_of_the_application_keep_a_blob(server: TestServer) {
    let admin = server.key(TENANT, "admin").await;
    collected_at_once(&server, &admin, "media").await;
    let blob = stored(&server, TENANT, "media", 1).await;
    let meta = format!("/v1/blobs/{blob}/meta");
    let reference = |name: &str| format!("/v1/blobs/{blob}/references/{name}");
    // A name can have any visible character, also a slash.
    let path = reference("post:42%2Fa%20b%C3%A4");
    for _ in 0..2 {
        server.call_as(&admin, "PUT", &path, json!({ "reason": "published" })).await.is(204);
        let shown = server.call_as(&admin, "GET", &meta, Value::Null).await.is(200).json();
        assert_eq!(shown["references"], json!(["post:42/a bä"]));
    }
    assert!(!is_collected(&server, blob).await);
    server.call_as(&admin, "DELETE", &reference("other"), Value::Null).await.is(204);
    assert!(!is_collected(&server, blob).await, "another name refers to it");
    assert_eq!(server.call_as(&admin, "PUT", &reference("%00"), json!({})).await.is(400).problem(), "invalid");
    for _ in 0..2 {
        server.call_as(&admin, "DELETE", &path, Value::Null).await.is(204);
    }
    assert!(is_collected(&server, blob).await);
    let shown = server.call_as(&admin, "GET", &meta, Value::Null).await.is(200).json();
    assert_eq!((&shown["state"], &shown["references"]), (&json!("doomed"), &json!([])));
    server.call_as(&admin, "PUT", &path, json!({})).await.is(404);
    server.stop().await;
}

async fn namespaces_have_rules_and_an_etag(server: TestServer) {
    let admin = server.key(TENANT, "admin").await;
    let call = async |method: &str, path: &str, body: Value| server.call_as(&admin, method, path, body).await;
    let place = "/v1/namespaces/media";
    let first = call("GET", place, Value::Null).await.is(200);
    let default = json!({
        "name": "media", "bytes_max": 5_i64 << 40, "charge": null, "grace_ms": 604_800_000, "unreferenced_ms": null,
    });
    assert_eq!(first.json(), default, "a namespace that was never configured has the default rules");
    assert_eq!(call("GET", "/v1/namespaces", Value::Null).await.is(200).json()["items"], json!([]));

    let tag = first.header("etag").unwrap().to_owned();
    let rules = json!({ "bytes_max": 1_000, "grace": "1d", "unreferenced_ms": 5_000, "reason": "cheaper" });
    let matching = [("If-Match", tag.as_str())];
    let changed = server.call_with(&admin, &matching, "PUT", place, rules.clone()).await.is(200);
    let expected = json!({
        "name": "media", "bytes_max": 1_000, "charge": null, "grace_ms": 86_400_000, "unreferenced_ms": 5_000,
    });
    assert_eq!(changed.json(), expected);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    let late = server.call_with(&admin, &matching, "PUT", place, rules).await.is(412);
    assert_eq!(late.problem(), "changed");
    // An answer can be changed and sent back.
    let mut back = changed.json();
    back["bytes_max"] = json!(2_000);
    assert_eq!(call("PUT", place, back).await.is(200).json()["bytes_max"], 2_000);
    call("PUT", "/v1/namespaces/other", json!({})).await.is(200);
    let page = call("GET", "/v1/namespaces?limit=1", Value::Null).await.is(200).json();
    assert_eq!((&page["items"][0]["name"], &page["next"]), (&json!("media"), &json!("media")));
    let page = call("GET", "/v1/namespaces?cursor=media", Value::Null).await.is(200).json();
    assert_eq!((&page["items"][0]["name"], page["items"].as_array().unwrap().len()), (&json!("other"), 1));

    for (body, field) in [
        (json!({ "bytes_max": 0 }), "bytes_max"),
        (json!({ "bytes_max": (5_i64 << 40) + 1 }), "bytes_max"),
        (json!({ "grace_ms": -1 }), "grace_ms"),
        (json!({ "unreferenced": "11y" }), "unreferenced"),
        (json!({ "unreferenced_ms": 3_661_i64 * 86_400_000 }), "unreferenced_ms"),
        (json!({ "charg": "disk" }), "charg"),
    ] {
        assert_eq!(call("PUT", place, body.clone()).await.is(400).json()["field"], field, "{body}");
    }
    // Stored bytes are charged to a budget with lifetime limits.
    let charge = json!({ "charge": "disk" });
    assert_eq!(call("PUT", place, charge.clone()).await.is(404).problem(), "unknown-scope");
    for (window, status) in [("day", 400), ("lifetime", 200)] {
        let limits = json!({ "limits": [{ "amount": 1_000, "window": window }] });
        call("PUT", "/v1/budgets/disk", limits).await.is(200);
        call("PUT", place, charge.clone()).await.is(status);
    }
    assert_eq!(call("GET", place, Value::Null).await.is(200).json()["charge"], "disk");
    server.stop().await;
}

async fn jobs_and_commands_keep_the_blobs_they_name(server: TestServer) {
    let admin = server.key(TENANT, "admin").await;
    let call = async |method: &str, path: &str, body: Value| server.call_as(&admin, method, path, body).await;
    collected_at_once(&server, &admin, "media").await;
    let mut blobs = Vec::new();
    for number in 0..5 {
        blobs.push(stored(&server, TENANT, "media", number).await);
    }
    let [used, named, made, bulk, free] = blobs[..] else { unreachable!() };

    let body = json!({ "queue": "q", "kind": "k", "blobs": [used, used] });
    let job = call("POST", "/v1/jobs", body).await.is(201).json()["id"].as_str().unwrap().to_owned();
    assert!(!is_collected(&server, used).await);
    let jobs_of = async |blob: BlobId| {
        call("GET", &format!("/v1/blobs/{blob}/meta"), Value::Null).await.is(200).json()["jobs"].clone()
    };
    assert_eq!(jobs_of(used).await, 1, "a blob that is named twice is referred to once");

    let command = json!({
        "references": [{ "blob": named, "by": "post:1" }],
        "jobs": [{ "queue": "other", "kind": "k", "blobs": [used] }],
    });
    let checked = json!({ "references": [{ "blob": named, "by": "post:2" }], "dry_run": true });
    call("POST", "/v1/commands", checked).await.is(200);
    let key = [("Idempotency-Key", "once")];
    for _ in 0..2 {
        server.call_with(&admin, &key, "POST", "/v1/commands", command.clone()).await.is(201);
    }
    let meta = call("GET", &format!("/v1/blobs/{named}/meta"), Value::Null).await.is(200).json();
    assert_eq!((&meta["references"], &meta["jobs"]), (&json!(["post:1"]), &json!(0)));
    assert_eq!(jobs_of(used).await, 2);
    assert!(!is_collected(&server, named).await);
    let many =
        json!({ "jobs": [{ "queue": "other", "kind": "k", "blobs": [bulk] }, { "queue": "other", "kind": "k" }] });
    call("POST", "/v1/jobs/bulk", many).await.is(200);
    assert!(!is_collected(&server, bulk).await);

    let lease = json!({ "queues": ["q"] });
    let leased = call("POST", "/v1/jobs/lease", lease).await.is(200).json()["jobs"][0].clone();
    assert_eq!(leased["blobs"], json!([used]), "a worker learns which blobs its job uses");
    let done = json!({ "fence": leased["lease"]["fence"], "blobs": [made, used] });
    for _ in 0..2 {
        call("POST", &format!("/v1/jobs/{job}/complete"), done.clone()).await.is(200);
    }
    let shown = call("GET", &format!("/v1/jobs/{job}"), Value::Null).await.is(200).json();
    assert_eq!((&shown["state"], &shown["blobs"]), (&json!("succeeded"), &json!([used, made])));
    assert!(!is_collected(&server, made).await);
    // A deleted blob is kept too, as long as something refers to it.
    call("DELETE", &format!("/v1/blobs/{made}"), Value::Null).await.is(204);
    assert!(!is_collected(&server, made).await);
    assert!(is_collected(&server, free).await, "nothing refers to it");
    assert_eq!(call("GET", "/v1/jobs?queue=q", Value::Null).await.is(200).json()["items"][0]["blobs"], shown["blobs"]);
    server.stop().await;
}

async fn a_command_with_an_unknown_blob_has_no_effect(server: TestServer) {
    let admin = server.key(TENANT, "admin").await;
    let call = async |method: &str, path: &str, body: Value| server.call_as(&admin, method, path, body).await;
    let limits = json!({ "limits": [{ "amount": 1_000, "window": "lifetime" }] });
    call("PUT", "/v1/budgets/room", limits).await.is(200);
    let deleted = stored(&server, TENANT, "media", 1).await;
    call("DELETE", &format!("/v1/blobs/{deleted}"), Value::Null).await.is(204);
    let elsewhere = stored(&server, "globex", "media", 2).await;
    for blob in [NEVER.to_owned(), deleted.to_string(), elsewhere.to_string()] {
        for part in [
            json!({ "references": [{ "blob": blob, "by": "post:1" }] }),
            json!({ "jobs": [{ "queue": "q", "kind": "k", "blobs": [blob] }] }),
        ] {
            let mut command = part;
            command["charges"] = json!([{ "scope": "room", "amount": 5 }]);
            let refused = call("POST", "/v1/commands", command).await.is(404);
            assert_eq!((refused.problem().as_str(), &refused.json()["id"]), ("not-found", &json!(blob)));
        }
        let job = json!({ "queue": "q", "kind": "k", "blobs": [blob] });
        let refused = call("POST", "/v1/jobs", job.clone()).await.is(404);
        assert_eq!(said(&refused, &blob).1["detail"], "there is no blob ID");
        call("POST", "/v1/jobs/bulk", json!({ "jobs": [{ "queue": "q", "kind": "k" }, job] })).await.is(404);
    }
    assert_eq!(call("GET", "/v1/jobs", Value::Null).await.is(200).json()["items"], json!([]));
    let room = call("GET", "/v1/budgets/room", Value::Null).await.is(200).json();
    assert_eq!(room["balances"][0]["posted"], 0, "{room}");

    let many: Vec<&str> = vec![NEVER; 101];
    let job = json!({ "queue": "q", "kind": "k", "blobs": many });
    assert_eq!(call("POST", "/v1/jobs", job.clone()).await.is(400).json()["field"], "blobs");
    let command = json!({ "jobs": [{ "queue": "q", "kind": "k" }, job] });
    assert_eq!(call("POST", "/v1/commands", command).await.is(400).json()["field"], "jobs[1].blobs");
    let references: Vec<Value> = (0..101).map(|n| json!({ "blob": NEVER, "by": format!("post:{n}") })).collect();
    let command = json!({ "references": references });
    assert_eq!(call("POST", "/v1/commands", command).await.is(400).json()["field"], "references");
    server.stop().await;
}

/// Leases a job of a queue; returns its id and fence.
async fn leased(server: &TestServer, worker: &str, queue: &str) -> (String, Value) {
    let lease = json!({ "queues": [queue], "lease_ms": LONG.as_millis() as u64 });
    let leased = server.call_as(worker, "POST", "/v1/jobs/lease", lease).await.is(200).json()["jobs"][0].clone();
    (leased["id"].as_str().unwrap().to_owned(), leased["lease"]["fence"].clone())
}

async fn a_stale_fence_references_nothing(server: TestServer) {
    let admin = server.key(TENANT, "admin").await;
    collected_at_once(&server, &admin, "media").await;
    let works = json!({ "queues": ["*"], "kinds": ["*"], "blobs": { "read": ["*"], "write": ["*"] } });
    let (first, second) = (server.worker(TENANT, works.clone()).await, server.worker(TENANT, works).await);
    let (stale, current) = (stored(&server, TENANT, "media", 1).await, stored(&server, TENANT, "media", 2).await);
    server.call_as(&admin, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    let (job, old) = leased(&server, &first, "q").await;
    let path = |act: &str| format!("/v1/jobs/{job}/{act}");
    server.call_as(&first, "POST", &path("return"), json!({ "fence": old })).await.is(200);
    let (_, fence) = leased(&server, &second, "q").await;
    assert_ne!(fence, old);
    // One by one and in a batch.
    let late = json!({ "fence": old, "blobs": [stale] });
    assert_eq!(server.call_as(&first, "POST", &path("complete"), late).await.is(409).problem(), "lease-lost");
    let late = json!({ "items": [{ "id": job, "fence": old, "blobs": [stale] }] });
    let answer = server.call_as(&first, "POST", "/v1/jobs/complete", late).await.is(200).json();
    assert_eq!(answer["items"][0]["problem"]["type"], "/problems/lease-lost");
    let meta = format!("/v1/blobs/{stale}/meta");
    assert_eq!(server.call_as(&admin, "GET", &meta, Value::Null).await.is(200).json()["jobs"], 0);
    let done = json!({ "fence": fence, "blobs": [current] });
    server.call_as(&second, "POST", &path("complete"), done).await.is(200);
    let shown = server.call_as(&admin, "GET", &format!("/v1/jobs/{job}"), Value::Null).await.is(200).json();
    assert_eq!(shown["blobs"], json!([current]));
    assert!(is_collected(&server, stale).await && !is_collected(&server, current).await);
    server.stop().await;
}

async fn workers_reach_only_their_namespaces(server: TestServer) {
    let reads = json!({ "blobs": { "read": ["in-*"], "write": ["out-*"] } });
    let (worker, bare) = (server.worker(TENANT, reads).await, server.worker(TENANT, json!({})).await);
    let input = stored(&server, TENANT, "in-a", 1).await.to_string();
    let output = stored(&server, TENANT, "out-a", 2).await.to_string();
    let other = stored(&server, TENANT, "secret", 3).await.to_string();
    let requests = [
        ("GET", "/meta", Value::Null),
        ("DELETE", "", Value::Null),
        ("POST", "/restore", json!({})),
        ("PUT", "/references/a", json!({})),
        ("DELETE", "/references/a", Value::Null),
    ];
    // What a worker does not reach looks like what does not exist.
    for (method, path, body) in &requests {
        let ask = async |token: &str, id: &str| {
            let answer = server.call_as(token, method, &format!("/v1/blobs/{id}{path}"), body.clone()).await;
            said(&answer, id)
        };
        let never = ask(&worker, NEVER).await;
        assert_eq!(never.0, 404);
        let reads = *method == "GET";
        for (token, id, reached) in [
            (&worker, &input, reads),
            (&worker, &output, !reads),
            (&worker, &other, false),
            (&bare, &input, false),
            (&bare, &output, false),
        ] {
            let answer = ask(token, id).await;
            match reached {
                true => assert!(answer.0 < 300, "{method} {path} {id}: {answer:?}"),
                false => assert_eq!(answer, never, "{method} {path} {id}"),
            }
        }
    }
    let list =
        async |token: &str, query: &str| server.call_as(token, "GET", &format!("/v1/blobs{query}"), Value::Null).await;
    assert_eq!(ids(&list(&worker, "?namespace=in-a").await.is(200).json()), [input]);
    assert_eq!(ids(&list(&worker, "?namespace=in-none").await.is(200).json()), [""; 0]);
    for query in ["", "?namespace=out-a", "?namespace=secret", "?namespace=none"] {
        assert_eq!(list(&worker, query).await.is(403).problem(), "forbidden", "{query}");
        list(&bare, query).await.is(403);
    }
    let every = server.worker(TENANT, json!({ "blobs": { "read": ["*"] } })).await;
    assert_eq!(ids(&list(&every, "").await.is(200).json()).len(), 3);
    server.call_as(&every, "GET", "/v1/namespaces", Value::Null).await.is(403);
    server.call_as(&every, "PUT", "/v1/namespaces/in-a", json!({})).await.is(403);
    server.stop().await;
}

async fn workers_name_only_blobs_of_their_namespaces(server: TestServer) {
    let admin = server.key(TENANT, "admin").await;
    let capabilities = json!({
        "queues": ["*"], "kinds": ["*"], "mutations": ["jobs.enqueue", "commands.submit"],
        "blobs": { "read": ["in"], "write": ["out"] },
    });
    let worker = server.worker(TENANT, capabilities).await;
    let call = async |method: &str, path: &str, body: Value| server.call_as(&worker, method, path, body).await;
    let [input, output, other] = [("in", 1), ("out", 2), ("secret", 3)];
    let input = stored(&server, TENANT, input.0, input.1).await;
    let output = stored(&server, TENANT, output.0, output.1).await;
    let other = stored(&server, TENANT, other.0, other.1).await;
    // The blobs of a new job must be readable, those of a reference writable.
    for (blob, uses, refers) in [(input, 201, 404), (output, 404, 201), (other, 404, 404)] {
        let job = json!({ "queue": "mine", "kind": "k", "blobs": [blob] });
        call("POST", "/v1/jobs", job.clone()).await.is(uses);
        call("POST", "/v1/jobs/bulk", json!({ "jobs": [job] })).await.is(if uses == 201 { 200 } else { uses });
        call("POST", "/v1/commands", json!({ "jobs": [job] })).await.is(uses);
        call("POST", "/v1/commands", json!({ "references": [{ "blob": blob, "by": "a" }] })).await.is(refers);
    }
    // So must those that a job made, apart from the ones that it uses.
    let job = json!({ "queue": "q", "kind": "k", "blobs": [input] });
    server.call_as(&admin, "POST", "/v1/jobs", job).await.is(201);
    let (job, fence) = leased(&server, &worker, "q").await;
    let complete = async |fence: &Value, blobs: Value| {
        call("POST", &format!("/v1/jobs/{job}/complete"), json!({ "fence": fence, "blobs": blobs })).await
    };
    let refused = said(&complete(&fence, json!([output, other])).await, &other.to_string());
    let never = said(&complete(&fence, json!([output, NEVER])).await, NEVER);
    assert_eq!((refused.0, &refused), (404, &never));
    let many = json!({ "items": [{ "id": job, "fence": fence, "blobs": [other] }] });
    let answer = call("POST", "/v1/jobs/complete", many).await.is(200).json();
    assert_eq!(answer["items"][0]["problem"]["type"], "/problems/not-found");
    // The fence is checked first.
    assert_eq!(complete(&json!(99), json!([other])).await.is(409).problem(), "lease-lost");
    let state = async || {
        let shown = server.call_as(&admin, "GET", &format!("/v1/jobs/{job}"), Value::Null).await.is(200).json();
        (shown["state"].clone(), shown["blobs"].clone())
    };
    assert_eq!(state().await, (json!("leased"), json!([input])));
    complete(&fence, json!([input, output])).await.is(200);
    assert_eq!(state().await, (json!("succeeded"), json!([input, output])));
    server.stop().await;
}

async fn roles_read_and_write_blobs(server: TestServer) {
    for (number, (role, reads, writes)) in [
        ("admin", true, true),
        ("user", true, true),
        ("agent", true, true),
        ("viewer", true, false),
        ("monitor", false, false),
    ]
    .into_iter()
    .enumerate()
    {
        let (token, blob) = (server.key(TENANT, role).await, stored(&server, TENANT, "media", number as u32).await);
        let status =
            async |method: &str, path: &str, body: Value| server.call_as(&token, method, path, body).await.status;
        let may = |allowed: bool, status: u16| if allowed { status } else { 403 };
        let at = |path: &str| format!("/v1/blobs/{blob}{path}");
        assert_eq!(status("GET", &at("/meta"), Value::Null).await, may(reads, 200), "{role}");
        assert_eq!(status("GET", "/v1/blobs", Value::Null).await, may(reads, 200), "{role}");
        assert_eq!(status("GET", "/v1/namespaces/media", Value::Null).await, may(reads, 200), "{role}");
        assert_eq!(status("PUT", &at("/references/a"), json!({})).await, may(writes, 204), "{role}");
        assert_eq!(status("DELETE", &at("/references/a"), Value::Null).await, may(writes, 204), "{role}");
        assert_eq!(status("DELETE", &at(""), Value::Null).await, may(writes, 204), "{role}");
        assert_eq!(status("POST", &at("/restore"), json!({})).await, may(writes, 200), "{role}");
        assert_eq!(status("PUT", "/v1/namespaces/media", json!({})).await, may(role == "admin", 200), "{role}");
    }
    server.stop().await;
}
