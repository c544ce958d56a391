//! Who reaches which blobs: tenants are apart, and workers reach their namespaces only.

use serde_json::{Value, json};

use super::{Got, Site, TENANT, bytes, hex, on_engines, sha256, text};

on_engines!(
    tenants_are_apart,
    workers_reach_only_the_bytes_of_their_namespaces,
    a_deleted_blob_is_read_by_the_job_that_uses_it,
);

const NEVER: &str = "blob_01j9zq3v4w5x6y7z8abcdefghj";

/// Returns what a response says, without what differs from request to request and without an id.
fn said(answer: &Got, id: &str) -> (u16, Value) {
    let mut body: Value = serde_json::from_str(&answer.head.text.replace(id, "ID")).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("request_id");
    }
    (answer.head.status, body)
}

async fn tenants_are_apart(site: Site) {
    let body = bytes(1, 2_000);
    let blob = site.upload("namespace=media", "text/plain", &body).await;
    let id = text(&blob, "id");
    let other = site.server.key("globex", "user").await;
    // The same bytes of another tenant are new, on every way in.
    let presign = json!({ "namespace": "media", "size": 2_000, "sha256": hex(&sha256(&body)) });
    let own = site.call("POST", "/v1/blobs/presign", presign.clone()).await.is(200).json();
    assert_eq!((&own["blob"]["id"], &own["upload"]), (&json!(id), &Value::Null));
    let theirs = site.server.call_as(&other, "POST", "/v1/blobs/presign", presign).await.is(200).json();
    assert_eq!((theirs["upload"].is_object(), &theirs["blob"]["state"]), (true, &json!("pending")));
    let path = "/v1/blobs?namespace=media";
    let stored = site.send_as(Some(&other), "POST", path, &[], &body).await.is(201).head.json();
    assert_ne!(stored["id"], blob["id"]);
    assert_eq!(site.download(id).await, body);
    // A blob of another tenant looks like one that never existed.
    let tus = [("Tus-Resumable", "1.0.0"), ("Upload-Offset", "0"), ("Content-Type", "application/offset+octet-stream")];
    for (method, path, headers) in [
        ("GET", "/v1/blobs/ID", &[][..]),
        ("GET", "/v1/blobs/ID", &[("If-None-Match", "*")]),
        ("GET", "/v1/blobs/ID", &[("Range", "bytes=9999-")]),
        ("HEAD", "/v1/blobs/ID", &[]),
        ("GET", "/v1/blobs/uploads/ID", &tus),
        ("HEAD", "/v1/blobs/uploads/ID", &tus),
        ("PATCH", "/v1/blobs/uploads/ID", &tus),
        ("DELETE", "/v1/blobs/uploads/ID", &tus),
    ] {
        let ask = async |id: &str| {
            let answer = site.send_as(Some(&other), method, &path.replace("ID", id), headers, b"").await;
            said(&answer, id)
        };
        let (foreign, missing) = (ask(id).await, ask(NEVER).await);
        assert_eq!((foreign.0, &foreign), (404, &missing), "{method} {path}");
    }
    for path in ["commit", "link"] {
        let ask = async |id: &str| {
            let answer =
                site.server.call_as(&other, "POST", &format!("/v1/blobs/{id}/{path}"), json!({})).await.is(404);
            answer.json()["detail"].as_str().unwrap().replace(id, "ID")
        };
        assert_eq!(ask(id).await, ask(NEVER).await, "{path}");
    }
    site.stop().await;
}

async fn workers_reach_only_the_bytes_of_their_namespaces(site: Site) {
    let worker = site.server.worker(TENANT, json!({ "blobs": { "read": ["in-*"], "write": ["out-*"] } })).await;
    let input = site.upload("namespace=in-a", "text/plain", b"input").await;
    let secret = site.upload("namespace=secret", "text/plain", b"secret").await;
    let output = site.upload("namespace=out-a", "text/plain", b"output").await;
    let send = async |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        site.send_as(Some(&worker), method, path, headers, body).await
    };
    let get = async |id: &str| said(&send("GET", &format!("/v1/blobs/{id}"), &[], b"").await, id);
    assert_eq!(get(text(&input, "id")).await.0, 200);
    let never = get(NEVER).await;
    assert_eq!(never.0, 404);
    for blob in [&secret, &output] {
        assert_eq!(get(text(blob, "id")).await, never);
    }
    // Uploads of every kind.
    send("POST", "/v1/blobs?namespace=out-b", &[], b"made").await.is(201);
    let tus = |namespace: &str| {
        use base64::Engine;
        format!("namespace {}", base64::prelude::BASE64_STANDARD.encode(namespace))
    };
    for (namespace, status) in [("in-a", 403), ("secret", 403), ("default", 403), ("out-a", 201)] {
        let path = format!("/v1/blobs?namespace={namespace}");
        let answer = send("POST", &path, &[], b"other").await.is(status);
        assert!(status != 403 || answer.problem() == "forbidden");
        let form = format!(
            "--XX\r\nContent-Disposition: form-data; name=\"namespace\"\r\n\r\n{namespace}\r\n\
             --XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nform\r\n--XX--\r\n"
        );
        let media = [("Content-Type", "multipart/form-data; boundary=XX")];
        send("POST", "/v1/blobs", &media, form.as_bytes()).await.is(status);
        let metadata = tus(namespace);
        let headers = [("Tus-Resumable", "1.0.0"), ("Upload-Length", "5"), ("Upload-Metadata", metadata.as_str())];
        send("POST", "/v1/blobs/uploads", &headers, b"").await.is(status);
        let body = json!({ "namespace": namespace, "size": 5, "sha256": hex(&sha256(namespace.as_bytes())) });
        let signed = site.server.call_as(&worker, "POST", "/v1/blobs/presign", body).await;
        assert_eq!(signed.status, if status == 403 { 403 } else { 200 }, "{namespace}");
    }
    // An upload in another namespace cannot be continued or committed.
    let headers = [("Tus-Resumable", "1.0.0"), ("Upload-Length", "5")];
    let begun = site.send("POST", "/v1/blobs/uploads", &headers, b"").await.is(201);
    let upload = begun.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    for method in ["GET", "DELETE"] {
        send(method, &format!("/v1/blobs/uploads/{upload}"), &headers[..1], b"").await.is(404);
    }
    site.server.call_as(&worker, "POST", &format!("/v1/blobs/{upload}/commit"), json!({})).await.is(404);
    // Links tell the ids of blobs.
    let link = async |blob: &Value| {
        let path = format!("/v1/blobs/{}/link", text(blob, "id"));
        site.server.call_as(&worker, "POST", &path, json!({})).await.status
    };
    assert_eq!((link(&input).await, link(&secret).await), (201, 404));
    site.server.call_as(&worker, "GET", "/v1/links", Value::Null).await.is(403);
    site.stop().await;
}

async fn a_deleted_blob_is_read_by_the_job_that_uses_it(site: Site) {
    let reads = json!({ "queues": ["*"], "kinds": ["*"], "blobs": { "read": ["in"], "write": ["out"] } });
    let worker = site.server.worker(TENANT, reads).await;
    let blob = site.upload("namespace=in", "text/plain", b"the input").await;
    let free = site.upload("namespace=in", "text/plain", b"no job needs this").await;
    let path = format!("/v1/blobs/{}", text(&blob, "id"));
    let job = json!({ "queue": "q", "kind": "k", "blobs": [blob["id"]] });
    site.call("POST", "/v1/jobs", job).await.is(201);
    for blob in [&blob, &free] {
        site.call("DELETE", &format!("/v1/blobs/{}", text(blob, "id")), Value::Null).await.is(204);
    }
    let lease = json!({ "queues": ["q"] });
    let leased = site.server.call_as(&worker, "POST", "/v1/jobs/lease", lease).await.is(200).json()["jobs"][0].clone();
    // Time passes, but the job keeps the bytes.
    site.wait(30 * super::DAY);
    assert_eq!(site.collect(false).await["collected"], 1);
    assert_eq!(leased["blobs"], json!([blob["id"]]));
    let read = site.send_as(Some(&worker), "GET", &path, &[], b"").await.is(200);
    assert_eq!(read.bytes, b"the input");
    let free = format!("/v1/blobs/{}", text(&free, "id"));
    site.send_as(Some(&worker), "GET", &free, &[], b"").await.is(404);
    site.send("GET", &path, &[], b"").await.is(404);
    site.call("POST", &format!("{path}/link"), json!({})).await.is(404);
    // The worker stores what it made; its report refers to it.
    let made = site.send_as(Some(&worker), "POST", "/v1/blobs?namespace=out", &[], b"made").await.is(201).head.json();
    assert_eq!(made["created_by"]["kind"], "worker");
    site.stop().await;
}
