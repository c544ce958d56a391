//! Signed uploads: to the server by a link, and to a bucket.

use std::time::Duration;

use bursar_blobs::Blobs;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{Got, Site, bytes, got, hex, on_engines, sha256, text};
use crate::test_server::Engine;

on_engines!(bytes_are_uploaded_by_a_link, a_signed_upload_must_bring_the_announced_bytes);

const HOUR: Duration = Duration::from_secs(3_600);

/// Returns the path of an address of the server.
fn path(url: &str) -> &str {
    url.strip_prefix("http://bursar.example").or_else(|| url.strip_prefix("http://localhost")).unwrap()
}

fn announced(bytes: &[u8]) -> Value {
    json!({ "namespace": "media", "filename": "a.bin", "metadata": { "k": 1 }, "size": bytes.len(),
            "sha256": hex(&sha256(bytes)) })
}

/// Begins a signed upload to the server; returns the id of its blob and the path of its link.
async fn begin(site: &Site, bytes: &[u8]) -> (String, String) {
    let signed = site.call("POST", "/v1/blobs/presign", announced(bytes)).await.is(200).json();
    let (blob, upload) = (&signed["blob"], &signed["upload"]);
    assert_eq!((&blob["state"], &blob["size"]), (&json!("pending"), &json!(bytes.len())));
    assert_eq!((&upload["method"], &upload["parts"]), (&json!("PUT"), &Value::Null));
    (text(blob, "id").to_owned(), path(text(upload, "url")).to_owned())
}

async fn commit(site: &Site, id: &str) -> crate::client::Response {
    site.call("POST", &format!("/v1/blobs/{id}/commit"), json!({})).await
}

async fn bytes_are_uploaded_by_a_link(site: Site) {
    let body = bytes(1, 1_200_000);
    let (id, link) = begin(&site, &body).await;
    assert_eq!(commit(&site, &id).await.is(409).problem(), "conflict");
    site.send("GET", &format!("/v1/blobs/{id}"), &[], b"").await.is(404);
    // The link needs no token, allows only the upload, and can be used again until the commit.
    let put = async |body: &[u8]| site.send_as(None, "PUT", &link, &[], body).await;
    site.send_as(None, "GET", &link, &[], b"").await.is(404);
    for _ in 0..2 {
        put(&body).await.is(204);
    }
    let blob = commit(&site, &id).await.is(200).json();
    assert_eq!(
        (&blob["state"], &blob["metadata"], &blob["filename"]),
        (&json!("live"), &json!({"k": 1}), &json!("a.bin"))
    );
    assert_eq!(commit(&site, &id).await.is(200).json(), blob, "a commit can be repeated");
    assert!(site.download(&id).await == body);
    put(&body).await.is(404);
    // The bytes are there now, so they need no upload.
    let again = site.call("POST", "/v1/blobs/presign", announced(&body)).await.is(200).json();
    assert_eq!((&again["blob"], &again["upload"]), (&blob, &Value::Null));
    // A link and its upload end with their time.
    let (id, link) = begin(&site, &bytes(2, 10)).await;
    site.wait(HOUR);
    site.send_as(None, "PUT", &link, &[], &bytes(2, 10)).await.is(404);
    site.wait(2 * HOUR);
    assert_eq!(site.collect(false).await["collected"], 1);
    assert_eq!(commit(&site, &id).await.is(404).problem(), "not-found");
    assert_eq!(site.files().len(), 1);
    site.stop().await;
}

async fn a_signed_upload_must_bring_the_announced_bytes(site: Site) {
    let body = bytes(1, 50_000);
    let (id, link) = begin(&site, &body).await;
    for (wrong, field) in [(bytes(2, 50_000), "sha256"), (bytes(1, 50_001), "body"), (bytes(1, 49_999), "body")] {
        let refused = site.send_as(None, "PUT", &link, &[], &wrong).await.is(400);
        assert_eq!(refused.fault(), ("invalid".to_owned(), field.to_owned()));
        commit(&site, &id).await.is(409);
    }
    assert_eq!(site.files(), [""; 0]);
    site.send_as(None, "PUT", &link, &[], &body).await.is(204);
    commit(&site, &id).await.is(200);
    for (body, field) in [
        (json!({ "size": -1, "sha256": "0a".repeat(32) }), "size"),
        (json!({ "size": 1, "sha256": "0a" }), "sha256"),
        (json!({ "size": 1 }), "sha256"),
        (json!({ "size": 1, "sha256": "0a".repeat(32), "expires_in_ms": 999 }), "expires_in_ms"),
        (json!({ "size": 1, "sha256": "0a".repeat(32), "expires_in_ms": 604_800_001 }), "expires_in_ms"),
        (json!({ "size": 1, "sha256": "0a".repeat(32), "filename": "../x" }), "filename"),
    ] {
        assert_eq!(site.call("POST", "/v1/blobs/presign", body.clone()).await.is(400).json()["field"], field, "{body}");
    }
    site.stop().await;
}

/// Sends a plain request to an absolute address.
async fn send(method: &str, url: &str, headers: &Value, body: &[u8]) -> Got {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let mut head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    if method == "PUT" {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    for (name, value) in headers.as_object().into_iter().flatten() {
        head += &format!("{name}: {}\r\n", value.as_str().unwrap());
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let _ = stream.write_all(body).await;
    got(stream, method).await
}

async fn bytes_are_uploaded_to_the_bucket(engine: Engine) {
    let site = Site::with_bucket(engine, false).await;
    let body = bytes(1, 200_000);
    let signed = site.call("POST", "/v1/blobs/presign", announced(&body)).await.is(200).json();
    let (id, upload) = (text(&signed["blob"], "id"), &signed["upload"]);
    assert_eq!((&signed["blob"]["backend"], &upload["method"]), (&json!("s3"), &json!("PUT")));
    let url = text(upload, "url");
    assert!(!url.contains("bursar.example") && url.contains("X-Amz-Signature="), "{url}");
    commit(&site, id).await.is(409);
    let answer = send("PUT", url, &upload["headers"], &body).await;
    assert_eq!(answer.head.status, 200, "{answer:?}");
    let blob = commit(&site, id).await.is(200).json();
    assert_eq!(blob["state"], "live");
    assert!(site.download(id).await == body, "the server reads it from the bucket");
    site.send("GET", &format!("/v1/blobs/{id}"), &[("Range", "bytes=5-9")], b"").await.is(206);
    // Other bytes than those announced never become live.
    let signed = site.call("POST", "/v1/blobs/presign", announced(&bytes(2, 500))).await.is(200).json();
    send("PUT", text(&signed["upload"], "url"), &signed["upload"]["headers"], &bytes(3, 500)).await;
    let refused = commit(&site, text(&signed["blob"], "id")).await;
    assert!(matches!(refused.status, 400 | 409), "{refused:?}");
    // A large upload goes in parts.
    let large = json!({ "size": 3_u64 << 30, "sha256": "0a".repeat(32) });
    let signed = site.call("POST", "/v1/blobs/presign", large).await.is(200).json();
    let parts = signed["upload"]["parts"].as_array().unwrap();
    assert_eq!((parts.len(), &signed["upload"]["url"]), (48, &Value::Null));
    assert_eq!((&parts[47]["number"], &parts[47]["offset"]), (&json!(48), &json!(47_u64 << 26)));
    assert!(signed["upload"]["upload_id"].is_string());
    site.stop().await;
}

/// The digest of an upload in parts is not that of its bytes, so the server reads them before it commits.
async fn an_upload_in_parts_is_committed(engine: Engine) {
    // No service takes shorter parts, except for the last.
    const PART: usize = 5 << 20;
    let site = Site::with_bucket_and(engine, false, |blobs| blobs.signing_parts(PART as u64, PART as u64)).await;
    // Uploads the parts of bytes that may be others than those announced, and returns the blob and what commits them.
    let upload = async |announced_bytes: &[u8], sent: &[u8]| {
        let signed = site.call("POST", "/v1/blobs/presign", announced(announced_bytes)).await.is(200).json();
        let mut done = Vec::new();
        for part in signed["upload"]["parts"].as_array().unwrap() {
            let (offset, size) = (part["offset"].as_u64().unwrap() as usize, part["size"].as_u64().unwrap() as usize);
            let answer = send("PUT", text(part, "url"), &part["headers"], &sent[offset..offset + size]).await;
            assert_eq!(answer.head.status, 200, "{answer:?}");
            done.push(json!({ "number": part["number"], "etag": answer.head.header("etag").unwrap() }));
        }
        // The order of the parts in a commit does not matter.
        done.reverse();
        let id = text(&signed["blob"], "id").to_owned();
        (id, json!({ "upload_id": signed["upload"]["upload_id"], "parts": done }))
    };
    let body = bytes(1, 2 * PART + 1_000);
    let (id, parts) = upload(&body, &body).await;
    let commit =
        async |id: &str, parts: &Value| site.call("POST", &format!("/v1/blobs/{id}/commit"), parts.clone()).await;
    assert_eq!(parts["parts"].as_array().unwrap().len(), 3);
    let blob = commit(&id, &parts).await.is(200).json();
    assert_eq!((&blob["state"], &blob["size"]), (&json!("live"), &json!(2 * PART + 1_000)));
    assert_eq!(blob["sha256"], hex(&sha256(&body)));
    assert_eq!(commit(&id, &parts).await.is(200).json(), blob, "a commit can be repeated");
    assert!(site.download(&id).await == body);
    // Other bytes than those announced never become live.
    let (id, parts) = upload(&bytes(2, PART + 1), &body).await;
    let refused = commit(&id, &parts).await;
    assert!(matches!(refused.status, 400 | 409), "{refused:?}");
    site.send("GET", &format!("/v1/blobs/{id}"), &[], b"").await.is(404);
    site.stop().await;
}

async fn downloads_are_redirected_to_the_bucket(engine: Engine) {
    let site = Site::with_bucket(engine, true).await;
    let body = bytes(1, 100_000);
    let blob = site.upload("filename=a.html", "text/html", &body).await;
    let path = format!("/v1/blobs/{}", text(&blob, "id"));
    let answer = site.send("GET", &path, &[], b"").await.is(302);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let found = send("GET", answer.header("location").unwrap(), &Value::Null, b"").await;
    assert_eq!((found.head.status, found.header("content-type")), (200, Some("text/html")));
    assert_eq!(found.header("content-disposition"), Some("attachment; filename=\"a.html\""));
    assert!(found.bytes == body);
    // Conditions are decided by the server.
    let tag = format!("\"{}\"", hex(&sha256(&body)));
    site.send("GET", &path, &[("If-None-Match", &tag)], b"").await.is(304);
    site.send("GET", &path, &[("Range", "bytes=200000-")], b"").await.is(416);
    site.send("HEAD", &path, &[], b"").await.is(200);
    // So do links; a blob of the directory is served by the server.
    let link = site.call("POST", &format!("{path}/link"), json!({})).await.is(201).json();
    site.send_as(None, "GET", self::path(text(&link, "url")), &[], b"").await.is(302);
    let moved = json!({ "to": "local" });
    site.server.call_as(crate::test_server::OPERATOR, "POST", "/v1/blobs/move", moved).await.is(200);
    assert!(site.download(text(&blob, "id")).await == body);
    site.stop().await;
}

/// A bucket that does not answer.
async fn a_bucket_that_is_gone_is_a_problem(engine: Engine) {
    let site = Site::with(engine, |folder| {
        let settings = bursar_blobs::S3Settings {
            bucket: "blobs".into(),
            // Nothing listens on this port.
            endpoint: Some("http://127.0.0.1:1".into()),
            access_key_id: "id".into(),
            secret_access_key: "secret".into(),
            ..bursar_blobs::S3Settings::default()
        };
        let backends = bursar_blobs::Backends::of(bursar_blobs::Backend::s3(&settings).unwrap());
        bursar_server::Settings { blobs: Some(Blobs::new(backends)), ..super::local(folder) }
    })
    .await;
    let refused = site.send("POST", "/v1/blobs", &[], b"bytes").await.is(503);
    assert_eq!(refused.problem(), "storage-unavailable");
    assert!(refused.header("retry-after").is_some());
    assert!(!refused.head.text.contains("127.0.0.1"), "the answer names no hosts: {refused:?}");
    site.assert_nothing_stored().await;
    site.stop().await;
}

mod buckets {
    use crate::test_server::Engine;

    macro_rules! cases {
        ($($name:ident: $case:ident on $engine:ident;)*) => {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$case(Engine::$engine).await;
            })*
        };
    }

    cases! {
        bytes_are_uploaded_to_the_bucket_on_sqlite: bytes_are_uploaded_to_the_bucket on Sqlite;
        bytes_are_uploaded_to_the_bucket_on_postgres: bytes_are_uploaded_to_the_bucket on Postgres;
        an_upload_in_parts_is_committed_on_sqlite: an_upload_in_parts_is_committed on Sqlite;
        downloads_are_redirected_on_sqlite: downloads_are_redirected_to_the_bucket on Sqlite;
        downloads_are_redirected_on_postgres: downloads_are_redirected_to_the_bucket on Postgres;
        a_bucket_that_is_gone_is_a_problem_on_sqlite: a_bucket_that_is_gone_is_a_problem on Sqlite;
    }
}
