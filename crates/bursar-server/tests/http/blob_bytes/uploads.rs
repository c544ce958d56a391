//! Uploads: raw, as a form, checked, and charged.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{DAY, Site, bytes, got, head, hex, on_engines, repr_digest, sha256, text};

on_engines!(
    the_same_bytes_are_stored_once,
    a_form_is_stored,
    digests_and_lengths_are_checked,
    names_types_and_metadata_are_checked,
    storage_is_a_budget,
    a_blob_may_be_too_large,
);

const OCTETS: [(&str, &str); 1] = [("Content-Type", "application/octet-stream")];

async fn the_same_bytes_are_stored_once(site: Site) {
    let body = bytes(1, 100_000);
    let path = "/v1/blobs?namespace=media&filename=a%20b.txt&metadata=%7B%22k%22%3A1%7D";
    let first = site.send("POST", path, &[("Content-Type", "text/plain")], &body).await.is(201);
    let blob = first.head.json();
    let id = text(&blob, "id").to_owned();
    assert_eq!(first.header("location"), Some(format!("/v1/blobs/{id}").as_str()));
    let expected = json!({
        "id": id, "namespace": "media", "state": "live", "filename": "a b.txt", "content_type": "text/plain",
        "size": 100_000, "sha256": hex(&sha256(&body)), "metadata": { "k": 1 }, "backend": "local",
        "created_at": blob["created_at"], "created_by": blob["created_by"], "deleted_at": null, "jobs": 0,
        "references": [],
    });
    assert_eq!(blob, expected);
    assert_eq!(blob["created_by"]["kind"], "user");
    let meta = site.call("GET", &format!("/v1/blobs/{id}/meta"), Value::Null).await.is(200).json();
    assert_eq!(meta, expected);
    assert_eq!(site.download(&id).await, body);

    // The same bytes find the same blob, also if their length is not announced.
    let again = site.send("POST", path, &[("Content-Type", "text/plain")], &body).await.is(200);
    assert_eq!((again.head.json(), again.header("location")), (expected.clone(), None));
    let mut stream = TcpStream::connect(site.server.address).await.unwrap();
    let start = head("POST", path, Some(&site.user), &[("Transfer-Encoding", "chunked")]);
    stream.write_all(format!("{start}\r\n").as_bytes()).await.unwrap();
    for piece in body.chunks(30_000) {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await.unwrap();
        stream.write_all(piece).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(got(stream, "POST").await.is(200).head.json(), expected);
    // Another namespace has its own blobs, and a deleted blob is not found.
    let other = site.send("POST", "/v1/blobs", &[], &body).await.is(201).head.json();
    assert_eq!((&other["namespace"], &other["content_type"]), (&json!("default"), &json!("application/octet-stream")));
    assert_ne!(other["id"], blob["id"]);
    site.call("DELETE", &format!("/v1/blobs/{id}"), Value::Null).await.is(204);
    let new = site.send("POST", path, &OCTETS, &body).await.is(201).head.json();
    assert_ne!(new["id"], blob["id"]);
    site.stop().await;
}

/// Returns a form: texts, then a file with its headers.
fn form(fields: &[(&str, &str)], file: Option<(&str, &[u8])>) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, value) in fields {
        form.extend(format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
    }
    if let Some((head, bytes)) = file {
        form.extend(format!("--XX\r\nContent-Disposition: form-data; name=\"file\"{head}\r\n\r\n").bytes());
        form.extend(bytes);
        form.extend(b"\r\n");
    }
    form.extend(b"--XX--\r\n");
    form
}

async fn a_form_is_stored(site: Site) {
    let media = [("Content-Type", "multipart/form-data; boundary=XX")];
    let body = bytes(2, 70_000);
    let fields = [("namespace", "media"), ("filename", "chosen.bin"), ("metadata", "[1,2]")];
    let file = "; filename=\"sent.bin\"\r\nContent-Type: application/x-thing";
    let sent = form(&fields, Some((file, &body)));
    let blob = site.send("POST", "/v1/blobs", &media, &sent).await.is(201).head.json();
    for (field, expected) in [
        ("namespace", json!("media")),
        ("filename", json!("chosen.bin")),
        ("content_type", json!("application/x-thing")),
        ("metadata", json!([1, 2])),
        ("size", json!(70_000)),
        ("sha256", json!(hex(&sha256(&body)))),
    ] {
        assert_eq!(blob[field], expected, "{field}");
    }
    assert_eq!(site.download(text(&blob, "id")).await, body);
    let sent = form(&[], Some((file, b"other")));
    let blob = site.send("POST", "/v1/blobs?namespace=media", &media, &sent).await.is(201).head.json();
    assert_eq!((&blob["filename"], &blob["namespace"]), (&json!("sent.bin"), &json!("media")));

    let long = "x".repeat(70_000);
    for (media, sent, status, field) in [
        ("multipart/form-data; boundary=XX", form(&fields, None), 400, "file"),
        ("multipart/form-data; boundary=XX", form(&[("colour", "red")], None), 400, "colour"),
        ("multipart/form-data; boundary=XX", form(&[("metadata", "{")], Some((file, b"x"))), 400, "metadata"),
        ("multipart/form-data; boundary=XX", form(&[("metadata", &long)], Some((file, b"x"))), 413, ""),
        ("multipart/form-data; boundary=XX", b"nonsense".to_vec(), 400, "body"),
        ("multipart/form-data; boundary=XX", form(&[], Some((file, b"x")))[..90].to_vec(), 400, "body"),
        ("multipart/form-data", form(&[], Some((file, b"x"))), 400, "content-type"),
    ] {
        let refused = site.send("POST", "/v1/blobs", &[("Content-Type", media)], &sent).await.is(status);
        assert_eq!(refused.fault().1, field, "{refused:?}");
    }
    site.stop().await;
}

async fn digests_and_lengths_are_checked(site: Site) {
    let body = bytes(3, 5_000);
    let send = async |digest: &str, body: &[u8]| {
        site.send("POST", "/v1/blobs?namespace=media", &[("Repr-Digest", digest)], body).await
    };
    let (right, wrong) = (repr_digest(&body), repr_digest(b"other"));
    let refused = send(&wrong, &body).await.is(400);
    assert_eq!(refused.fault(), ("invalid".into(), "sha256".into()));
    for malformed in ["sha-256=abc", "sha-256=:abc:", "sha-256=:AAAA:", "nonsense"] {
        assert_eq!(send(malformed, &body).await.is(400).fault(), ("invalid".into(), "repr-digest".into()));
    }
    site.assert_nothing_stored().await;
    send(&format!("md5=:AAAA:, {right}"), &body).await.is(201);
    send(&right, &body).await.is(200);
    send("md5=:AAAA:", &bytes(4, 10)).await.is(201);
    site.stop().await;
}

async fn names_types_and_metadata_are_checked(site: Site) {
    let png = b"\x89PNG\r\n\x1a\n and more".to_vec();
    let html = b"<!DOCTYPE html><script>alert(1)</script>".to_vec();
    for (path, media, body, status, fault) in [
        ("/v1/blobs?filename=..%2Fx", "text/plain", &html, 400, ("invalid", "filename")),
        ("/v1/blobs?filename=a%00b", "text/plain", &html, 400, ("invalid", "filename")),
        ("/v1/blobs?namespace=..%2Fx%0a", "text/plain", &html, 400, ("invalid", "namespace")),
        ("/v1/blobs?metadata=%7B", "text/plain", &html, 400, ("invalid", "metadata")),
        ("/v1/blobs?colour=red", "text/plain", &html, 400, ("invalid", "colour")),
        ("/v1/blobs", "image/png", &html, 415, ("unsupported-media-type", "")),
        ("/v1/blobs", "image/jpeg", &png, 415, ("unsupported-media-type", "")),
    ] {
        let refused = site.send("POST", path, &[("Content-Type", media)], body).await.is(status);
        assert_eq!(refused.fault(), (fault.0.to_owned(), fault.1.to_owned()), "{path} {media}");
    }
    site.assert_nothing_stored().await;
    let blob = site.upload("namespace=a", "image/png", &png).await;
    assert_eq!(blob["content_type"], "image/png");
    // Bytes without a claim are stored as they are.
    site.upload("namespace=b", "application/octet-stream", &html).await;
    site.stop().await;
}

/// Sends the head of an upload only; returns the first line of the answer.
async fn announced(site: &Site, path: &str, length: usize) -> String {
    let mut stream = TcpStream::connect(site.server.address).await.unwrap();
    let length = length.to_string();
    let headers = [("Content-Length", length.as_str()), ("Expect", "100-continue")];
    let head = head("POST", path, Some(&site.user), &headers);
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; 1 << 12];
    let read = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

async fn storage_is_a_budget(site: Site) {
    let admin =
        async |method: &str, path: &str, body: Value| site.server.call_as(&site.admin, method, path, body).await;
    let limits = json!({ "limits": [{ "amount": 1_000, "window": "lifetime" }] });
    admin("PUT", "/v1/budgets/disk", limits).await.is(200);
    admin("PUT", "/v1/namespaces/media", json!({ "charge": "disk" })).await.is(200);
    let spent = async || {
        let budget = admin("GET", "/v1/budgets/disk", Value::Null).await.is(200).json();
        (budget["balances"][0]["posted"].clone(), budget["balances"][0]["held"].clone())
    };
    let blob = site.upload("namespace=media", "text/plain", &bytes(1, 600)).await;
    assert_eq!(spent().await, (json!(600), json!(0)));
    // What does not fit is refused before a byte of the body is read.
    let path = "/v1/blobs?namespace=media";
    let answer = announced(&site, path, 401).await;
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.contains("/problems/refused"), "{answer}");
    assert!(answer.contains("disk"), "the budget is named: {answer}");
    assert!(announced(&site, path, 400).await.starts_with("HTTP/1.1 100 "));
    let refused = site.send("POST", path, &OCTETS, &bytes(2, 500)).await.is(409);
    assert_eq!(refused.head.json()["violations"][0]["scope"], "disk");
    // The same bytes cost nothing, although they would not fit twice.
    let mut stream = TcpStream::connect(site.server.address).await.unwrap();
    let start = head("POST", path, Some(&site.user), &[("Transfer-Encoding", "chunked")]);
    stream.write_all(format!("{start}\r\n1f4\r\n").as_bytes()).await.unwrap();
    stream.write_all(&bytes(2, 500)).await.unwrap();
    stream.write_all(b"\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(got(stream, "POST").await.is(409).problem(), "refused");
    // Collection gives the units back.
    site.call("DELETE", &format!("/v1/blobs/{}", text(&blob, "id")), Value::Null).await.is(204);
    assert_eq!(spent().await.0, json!(600));
    site.wait(8 * DAY);
    site.collect(false).await;
    assert_eq!(spent().await, (json!(0), json!(0)));
    site.upload("namespace=media", "text/plain", &bytes(3, 1_000)).await;
    assert_eq!(spent().await, (json!(1_000), json!(0)));
    site.stop().await;
}

async fn a_blob_may_be_too_large(site: Site) {
    let rules = json!({ "bytes_max": 1_000 });
    site.server.call_as(&site.admin, "PUT", "/v1/namespaces/small", rules).await.is(200);
    let path = "/v1/blobs?namespace=small";
    let answer = announced(&site, path, 1_001).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("/problems/too-large"), "{answer}");
    let sent = super::uploads::form(&[], Some(("", &bytes(1, 1_001))));
    let media = [("Content-Type", "multipart/form-data; boundary=XX")];
    assert_eq!(site.send("POST", path, &media, &sent).await.is(413).problem(), "too-large");
    let body = json!({ "namespace": "small", "size": 1_001, "sha256": "0a".repeat(32) });
    site.call("POST", "/v1/blobs/presign", body).await.is(413);
    let tus = [("Tus-Resumable", "1.0.0"), ("Upload-Length", "1001"), ("Upload-Metadata", "namespace c21hbGw=")];
    site.send("POST", "/v1/blobs/uploads", &tus, b"").await.is(413);
    site.assert_nothing_stored().await;
    site.upload("namespace=small", "text/plain", &bytes(1, 1_000)).await;
    site.stop().await;
}
