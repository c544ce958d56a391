//! Resumable uploads by the tus protocol.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{DAY, Got, Site, bytes, head, on_engines, text};

on_engines!(
    an_upload_goes_on_where_it_broke,
    the_protocol_is_followed,
    an_upload_is_cancelled_or_forgotten,
    the_same_bytes_are_found,
);

const VERSION: (&str, &str) = ("Tus-Resumable", "1.0.0");
const PART: (&str, &str) = ("Content-Type", "application/offset+octet-stream");
const UPLOADS: &str = "/v1/blobs/uploads";

/// Begins an upload; returns its path.
async fn begin(site: &Site, length: usize, metadata: &str) -> String {
    let length = length.to_string();
    let headers = [VERSION, ("Upload-Length", length.as_str()), ("Upload-Metadata", metadata)];
    let begun = site.send("POST", UPLOADS, &headers, b"").await.is(201);
    assert_eq!(begun.header("tus-resumable"), Some("1.0.0"));
    begun.header("location").unwrap().strip_prefix("http://bursar.example").unwrap().to_owned()
}

async fn patch(site: &Site, path: &str, offset: usize, bytes: &[u8]) -> Got {
    site.send("PATCH", path, &[VERSION, PART, ("Upload-Offset", &offset.to_string())], bytes).await
}

/// Returns how far an upload has come.
async fn offset(site: &Site, path: &str) -> usize {
    let told = site.send("HEAD", path, &[VERSION], b"").await.is(200);
    assert_eq!(told.header("cache-control"), Some("no-store"));
    told.header("upload-offset").unwrap().parse().unwrap()
}

async fn an_upload_goes_on_where_it_broke(site: Site) {
    let body = bytes(1, 3_000_000);
    // filename "a b.bin", filetype "application/x-thing", namespace "media", metadata {"k":1}
    let metadata = "filename YSBiLmJpbg==,filetype YXBwbGljYXRpb24veC10aGluZw==,namespace bWVkaWE=,\
                    metadata eyJrIjoxfQ==,relativePath bnVsbA==,is_confidential";
    let path = begin(&site, body.len(), metadata).await;
    assert_eq!(offset(&site, &path).await, 0);
    let told = patch(&site, &path, 0, &body[..1_000_000]).await.is(204);
    assert_eq!((told.header("upload-offset"), told.header("bursar-blob")), (Some("1000000"), None));
    // The connection breaks in the middle of a part. What has arrived is kept.
    let mut stream = TcpStream::connect(site.server.address).await.unwrap();
    let headers = [VERSION, PART, ("Upload-Offset", "1000000"), ("Content-Length", "2000000")];
    let start = head("PATCH", &path, Some(&site.user), &headers);
    stream.write_all(format!("{start}\r\n").as_bytes()).await.unwrap();
    stream.write_all(&body[1_000_000..1_700_000]).await.unwrap();
    drop(stream);
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    let reached = loop {
        let reached = offset(&site, &path).await;
        if reached > 1_000_000 {
            break reached;
        }
        assert!(tokio::time::Instant::now() < until, "the broken part is not kept");
        tokio::task::yield_now().await;
    };
    assert!(reached <= 1_700_000, "{reached}");
    // Another position is refused; the right one is told.
    for wrong in [0, reached - 1, reached + 1] {
        assert_eq!(patch(&site, &path, wrong, b"x").await.is(409).problem(), "conflict");
    }
    let id = path.rsplit('/').next().unwrap();
    site.send("GET", &format!("/v1/blobs/{id}"), &[], b"").await.is(404);
    let done = loop {
        // The broken request may still be ending.
        let done = patch(&site, &path, reached, &body[reached..]).await;
        if done.head.status != 409 {
            break done.is(204);
        }
        assert!(tokio::time::Instant::now() < until, "the upload stays locked: {done:?}");
    };
    assert_eq!((done.header("upload-offset"), done.header("bursar-blob")), (Some("3000000"), Some(id)));
    assert!(site.download(id).await == body);
    let blob = site.call("GET", &format!("/v1/blobs/{id}/meta"), Value::Null).await.is(200).json();
    for (field, expected) in [
        ("namespace", json!("media")),
        ("filename", json!("a b.bin")),
        ("content_type", json!("application/x-thing")),
        ("metadata", json!({ "k": 1 })),
        ("state", json!("live")),
    ] {
        assert_eq!(blob[field], expected, "{field}");
    }
    // A completed upload tells so, takes no more, and has left no parts.
    assert_eq!(offset(&site, &path).await, 3_000_000);
    patch(&site, &path, 3_000_000, b"x").await.is(409);
    assert_eq!(site.files().len(), 1, "{:?}", site.files());
    site.stop().await;
}

async fn the_protocol_is_followed(site: Site) {
    let about = site.send_as(None, "OPTIONS", UPLOADS, &[], b"").await.is(204);
    for (name, value) in [
        ("tus-resumable", "1.0.0"),
        ("tus-version", "1.0.0"),
        ("tus-extension", "creation,termination"),
        ("tus-max-size", "5497558138880"),
    ] {
        assert_eq!(about.header(name), Some(value), "{name}");
    }
    let path = begin(&site, 10, "").await;
    // Without the version, or with another one.
    for headers in [&[][..], &[("Tus-Resumable", "0.2.2")]] {
        for (method, path) in [("POST", UPLOADS), ("HEAD", &path), ("PATCH", &path), ("DELETE", &path)] {
            let refused = site.send(method, path, headers, b"").await.is(412);
            assert_eq!(refused.header("tus-version"), Some("1.0.0"), "{method}");
        }
    }
    for (headers, field) in [
        (&[VERSION][..], "upload-length"),
        (&[VERSION, ("Upload-Length", "-1")], "upload-length"),
        (&[VERSION, ("Upload-Length", "ten")], "upload-length"),
        (&[VERSION, ("Upload-Length", "1"), ("Upload-Metadata", "filename !")], "upload-metadata"),
        (&[VERSION, ("Upload-Length", "1"), ("Upload-Metadata", "filename Li4veA==")], "filename"),
    ] {
        assert_eq!(site.send("POST", UPLOADS, headers, b"").await.is(400).fault().1, field, "{headers:?}");
    }
    let media = [VERSION, ("Upload-Offset", "0"), ("Content-Type", "text/plain")];
    assert_eq!(site.send("PATCH", &path, &media, b"x").await.is(415).problem(), "unsupported-media-type");
    let refused = site.send("PATCH", &path, &[VERSION, PART], b"x").await.is(400);
    assert_eq!(refused.fault().1, "upload-offset");
    assert_eq!(refused.header("tus-resumable"), Some("1.0.0"), "problems have it too");
    // More bytes than announced are refused, and nothing of them is kept.
    assert_eq!(patch(&site, &path, 0, b"0123456789a").await.is(400).fault().1, "body");
    assert_eq!(offset(&site, &path).await, 0);
    // A type that lies ends the upload.
    let png = begin(&site, 4, "filetype aW1hZ2UvcG5n").await;
    assert_eq!(patch(&site, &png, 0, b"text").await.is(415).problem(), "unsupported-media-type");
    site.send("HEAD", &png, &[VERSION], b"").await.is(404);
    // An empty upload is complete at once.
    let headers = [VERSION, ("Upload-Length", "0")];
    let empty = site.send("POST", UPLOADS, &headers, b"").await.is(201);
    assert_eq!(empty.header("upload-offset"), Some("0"));
    let id = empty.header("bursar-blob").unwrap();
    assert_eq!(site.download(id).await, b"");
    site.stop().await;
}

async fn an_upload_is_cancelled_or_forgotten(site: Site) {
    let path = begin(&site, 10, "").await;
    patch(&site, &path, 0, b"01234").await.is(204);
    site.send("DELETE", &path, &[VERSION], b"").await.is(204);
    site.send("HEAD", &path, &[VERSION], b"").await.is(404);
    patch(&site, &path, 5, b"56789").await.is(404);
    site.assert_nothing_stored().await;
    // Every part gives an upload another day.
    let path = begin(&site, 10, "").await;
    patch(&site, &path, 0, b"01234").await.is(204);
    site.wait(DAY - std::time::Duration::from_secs(1));
    patch(&site, &path, 5, b"5").await.is(204);
    site.wait(DAY - std::time::Duration::from_secs(1));
    assert_eq!(site.collect(false).await["collected"], 1, "the cancelled one");
    assert_eq!(offset(&site, &path).await, 6);
    site.wait(std::time::Duration::from_secs(2));
    assert_eq!(site.collect(false).await["collected"], 1);
    site.send("HEAD", &path, &[VERSION], b"").await.is(404);
    site.assert_nothing_stored().await;
    site.stop().await;
}

async fn the_same_bytes_are_found(site: Site) {
    let blob = site.upload("namespace=media", "text/plain", b"0123456789").await;
    let path = begin(&site, 10, "namespace bWVkaWE=").await;
    let done = patch(&site, &path, 0, b"0123456789").await.is(204);
    assert_eq!(done.header("bursar-blob"), Some(text(&blob, "id")));
    assert_eq!(site.collect(false).await["collected"], 1);
    assert_eq!(site.download(text(&blob, "id")).await, b"0123456789");
    site.stop().await;
}
