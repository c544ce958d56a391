//! Downloads: conditions, ranges, and headers that keep a browser safe.

use super::{Site, bytes, hex, on_engines, repr_digest, sha256, text};

on_engines!(conditions_and_ranges_are_followed, an_empty_blob_is_served, answers_are_safe_in_a_browser);

async fn conditions_and_ranges_are_followed(site: Site) {
    let body = bytes(1, 300_000);
    let blob = site.upload("namespace=media&filename=a.bin", "application/x-thing", &body).await;
    let path = format!("/v1/blobs/{}", text(&blob, "id"));
    let tag = format!("\"{}\"", hex(&sha256(&body)));
    let weak = format!("W/{tag}");
    let several = format!("\"x\", {tag}");
    type Case<'a> = (&'a [(&'a str, &'a str)], u16, Option<std::ops::Range<usize>>);
    let cases: [Case<'_>; 17] = [
        (&[], 200, Some(0..300_000)),
        (&[("Range", "bytes=0-0")], 206, Some(0..1)),
        (&[("Range", "bytes=1000-200000")], 206, Some(1_000..200_001)),
        (&[("Range", "bytes=299999-")], 206, Some(299_999..300_000)),
        (&[("Range", "bytes=-5")], 206, Some(299_995..300_000)),
        (&[("Range", "bytes=5-999999999")], 206, Some(5..300_000)),
        (&[("Range", "bytes=300000-")], 416, None),
        (&[("Range", "bytes=0-1,5-6")], 200, Some(0..300_000)),
        (&[("Range", "lines=0-1")], 200, Some(0..300_000)),
        (&[("If-None-Match", &tag)], 304, None),
        (&[("If-None-Match", &weak), ("Range", "bytes=0-1")], 304, None),
        (&[("If-None-Match", "\"other\"")], 200, Some(0..300_000)),
        (&[("If-Match", &several)], 200, Some(0..300_000)),
        (&[("If-Match", "\"other\"")], 412, None),
        (&[("If-Match", "\"other\""), ("Range", "bytes=300000-")], 412, None),
        (&[("If-Range", &tag), ("Range", "bytes=1-2")], 206, Some(1..3)),
        (&[("If-Range", &weak), ("Range", "bytes=1-2")], 200, Some(0..300_000)),
    ];
    for (headers, status, range) in cases {
        let answer = site.send("GET", &path, headers, b"").await.is(status);
        match status {
            412 => assert_eq!(answer.problem(), "changed"),
            416 => {
                assert_eq!(answer.problem(), "range-not-satisfiable");
                assert_eq!(answer.header("content-range"), Some("bytes */300000"));
                assert_eq!(answer.head.json()["size"], 300_000);
            }
            _ => assert_eq!(answer.header("etag"), Some(tag.as_str())),
        }
        let Some(range) = range else {
            assert!(status >= 400 || answer.bytes.is_empty(), "{headers:?}");
            continue;
        };
        assert!(answer.bytes == body[range.clone()], "{headers:?}: other bytes");
        assert_eq!(answer.header("content-length"), Some(range.len().to_string().as_str()));
        assert_eq!(answer.header("repr-digest"), Some(repr_digest(&body).as_str()), "of the whole blob");
        assert_eq!(answer.header("accept-ranges"), Some("bytes"));
        assert_eq!(answer.header("content-type"), Some("application/x-thing"));
        let content_range = format!("bytes {}-{}/300000", range.start, range.end - 1);
        assert_eq!(answer.header("content-range"), (status == 206).then_some(content_range.as_str()), "{headers:?}");
        // `HEAD` tells the same without bytes, and has no ranges.
        let head = site.send("HEAD", &path, headers, b"").await.is(200);
        assert_eq!(head.header("content-length"), Some("300000"));
        assert_eq!((head.header("etag"), head.header("content-range")), (Some(tag.as_str()), None));
    }
    site.send("HEAD", &path, &[("If-None-Match", &tag)], b"").await.is(304);
    site.send("HEAD", &path, &[("If-Match", "\"other\"")], b"").await.is(412);
    site.send("GET", "/v1/blobs/blob_01j9zq3v4w5x6y7z8abcdefghj", &[], b"").await.is(404);
    site.send("GET", &format!("{path}?download=1"), &[], b"").await.is(400);
    site.stop().await;
}

async fn an_empty_blob_is_served(site: Site) {
    let blob = site.upload("filename=empty", "image/png", b"").await;
    assert_eq!(blob["size"], 0);
    let path = format!("/v1/blobs/{}", text(&blob, "id"));
    let answer = site.send("GET", &path, &[], b"").await.is(200);
    assert_eq!((answer.header("content-length"), answer.bytes.len()), (Some("0"), 0));
    assert_eq!(answer.header("repr-digest"), Some(repr_digest(b"").as_str()));
    let answer = site.send("GET", &path, &[("Range", "bytes=0-")], b"").await.is(416);
    assert_eq!(answer.header("content-range"), Some("bytes */0"));
    site.send("GET", &path, &[("Range", "bytes=-1")], b"").await.is(200);
    site.stop().await;
}

async fn answers_are_safe_in_a_browser(site: Site) {
    for (number, (media, name, disposition)) in [
        ("text/plain", "note.txt", "inline; filename=\"note.txt\""),
        ("text/html", "page.html", "attachment; filename=\"page.html\""),
        ("image/svg+xml", "a.svg", "attachment; filename=\"a.svg\""),
        ("text/xml", "a.xml", "attachment; filename=\"a.xml\""),
        (
            "application/x-thing",
            "R%C3%A9sum%C3%A9%20%221%22.bin",
            "attachment; filename=\"R_sum_ _1_.bin\"; filename*=UTF-8''R%C3%A9sum%C3%A9%20%221%22.bin",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let body = format!("<script>{number}</script>");
        let blob = site.upload(&format!("filename={name}"), media, body.as_bytes()).await;
        let path = format!("/v1/blobs/{}", text(&blob, "id"));
        for (method, headers, status) in
            [("GET", &[][..], 200), ("GET", &[("Range", "bytes=0-3")], 206), ("HEAD", &[], 200)]
        {
            let answer = site.send(method, &path, headers, b"").await.is(status);
            assert_eq!(answer.header("content-type"), Some(media));
            assert_eq!(answer.header("content-disposition"), Some(disposition));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
            assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
            let policy = answer.header("content-security-policy").unwrap();
            assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"), "{policy}");
        }
    }
    // Problems are never cached.
    let missing = site.send("GET", "/v1/blobs/blob_01j9zq3v4w5x6y7z8abcdefghj", &[], b"").await.is(404);
    assert_eq!(missing.header("cache-control"), Some("no-store"));
    site.stop().await;
}
