//! Links: addresses for people without a token.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, TENANT, bytes, hex, on_engines, sha256, text};
use crate::test_server::OPERATOR;

on_engines!(
    links_open_one_blob_until_they_are_revoked,
    links_end_with_their_time,
    a_link_is_no_other_credential,
    links_are_listed_without_their_addresses,
);

const MINUTE: Duration = Duration::from_secs(60);

/// Creates a link; returns its id, and its path.
async fn link(site: &Site, blob: &Value, body: Value) -> (String, String) {
    let path = format!("/v1/blobs/{}/link", text(blob, "id"));
    let made = site.call("POST", &path, body).await.is(201);
    let link = made.json();
    assert_eq!(made.header("location"), Some(format!("/v1/links/{}", text(&link, "id")).as_str()));
    let url = text(&link, "url").strip_prefix("http://localhost").unwrap();
    (text(&link, "id").to_owned(), url.to_owned())
}

async fn links_open_one_blob_until_they_are_revoked(site: Site) {
    let body = bytes(1, 10_000);
    let blob = site.upload("namespace=media&filename=a.txt", "text/plain", &body).await;
    let (id, path) = link(&site, &blob, json!({})).await;
    let (_, other) = link(&site, &blob, json!({})).await;
    assert_ne!(path, other);
    let get = async |path: &str, headers: &[(&str, &str)]| site.send_as(None, "GET", path, headers, b"").await;
    // It is served as to a caller with a token, and its address stays out of other pages.
    let opened = get(&path, &[]).await.is(200);
    assert!(opened.bytes == body);
    assert_eq!(opened.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(opened.header("content-disposition"), Some("inline; filename=\"a.txt\""));
    assert_eq!(opened.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(get(&path, &[("Range", "bytes=1-2")]).await.is(206).bytes, body[1..3]);
    get(&path, &[("If-None-Match", &format!("\"{}\"", hex(&sha256(&body))))]).await.is(304);
    assert_eq!(get(&path, &[("Range", "bytes=10000-")]).await.is(416).header("content-range"), Some("bytes */10000"));
    site.send_as(None, "HEAD", &path, &[], b"").await.is(200);
    // It allows nothing else.
    site.send_as(None, "PUT", &path, &[], b"x").await.is(404);
    site.send_as(None, "DELETE", &path, &[], b"").await.is(405);
    // Links to a deleted blob are dead until it is restored.
    let place = format!("/v1/blobs/{}", text(&blob, "id"));
    site.call("DELETE", &place, Value::Null).await.is(204);
    let dead = get(&path, &[]).await.is(404);
    assert!(!dead.head.text.contains(text(&blob, "id")), "{dead:?}");
    site.call("POST", &format!("{place}/restore"), json!({})).await.is(200);
    get(&path, &[]).await.is(200);
    // Revoking one leaves the other.
    let foreign = site.server.key("globex", "admin").await;
    site.server.call_as(&foreign, "DELETE", &format!("/v1/links/{id}"), Value::Null).await.is(404);
    for _ in 0..2 {
        site.call("DELETE", &format!("/v1/links/{id}"), Value::Null).await.is(204);
    }
    assert_eq!(get(&path, &[]).await.is(404).problem(), "not-found");
    get(&other, &[]).await.is(200);
    site.stop().await;
}

async fn links_end_with_their_time(site: Site) {
    let blob = site.upload("", "text/plain", b"for a while").await;
    let (_, hour) = link(&site, &blob, json!({})).await;
    let (_, minute) = link(&site, &blob, json!({ "expires_in_ms": 60_000 })).await;
    let opens = async |path: &str| site.send_as(None, "GET", path, &[], b"").await.head.status;
    assert_eq!((opens(&minute).await, opens(&hour).await), (200, 200));
    site.wait(MINUTE - Duration::from_millis(1));
    assert_eq!((opens(&minute).await, opens(&hour).await), (200, 200));
    site.wait(Duration::from_millis(1));
    assert_eq!((opens(&minute).await, opens(&hour).await), (404, 200));
    site.wait(59 * MINUTE);
    assert_eq!((opens(&minute).await, opens(&hour).await), (404, 404));
    let path = format!("/v1/blobs/{}/link", text(&blob, "id"));
    for wrong in [0, 999, 604_800_001_u64] {
        let refused = site.call("POST", &path, json!({ "expires_in_ms": wrong })).await.is(400);
        assert_eq!(refused.json()["field"], "expires_in_ms");
    }
    site.stop().await;
}

async fn a_link_is_no_other_credential(site: Site) {
    let blob = site.upload("", "text/plain", b"one blob").await;
    let (_, path) = link(&site, &blob, json!({})).await;
    let token = path.rsplit('/').next().unwrap();
    // As a bearer it is as good as none.
    for place in ["/v1/whoami", "/v1/blobs"] {
        let refused = site.server.call_as(token, "GET", place, Value::Null).await.is(401);
        assert_eq!(refused.problem(), "unauthorized");
    }
    let worker = [("X-Worker-Token", token)];
    site.send_as(None, "GET", "/v1/blobs", &worker, b"").await.is(401);
    // Other credentials open no link.
    let blobs = json!({ "blobs": { "read": ["*"], "write": ["*"] } });
    let worker = site.server.worker(TENANT, blobs).await;
    let mut wrong = token.to_owned();
    let last = wrong.pop().unwrap();
    wrong.push(if last == 'a' { 'b' } else { 'a' });
    for other in [worker.as_str(), &site.user, &site.admin, OPERATOR, "nonsense", "blk_", &wrong] {
        for method in ["GET", "PUT"] {
            let refused = site.send_as(None, method, &format!("/l/{other}"), &[], b"").await.is(404);
            assert!(!refused.head.text.contains(other), "the answer does not repeat a secret: {refused:?}");
        }
    }
    // The key of a link is not one of the API keys, and the other way round.
    let keys = site.server.call_as(&site.admin, "GET", "/v1/keys", Value::Null).await.is(200).json();
    let keys: Vec<&str> = keys["items"].as_array().unwrap().iter().map(|key| text(key, "id")).collect();
    let links = site.call("GET", "/v1/links", Value::Null).await.is(200).json();
    let id = text(&links["items"][0], "id");
    assert!(!keys.contains(&id), "{keys:?}");
    site.server.call_as(&site.admin, "DELETE", &format!("/v1/keys/{id}"), Value::Null).await.is(404);
    site.call("DELETE", &format!("/v1/links/{}", keys[0]), Value::Null).await.is(404);
    site.send_as(None, "GET", &path, &[], b"").await.is(200);
    site.stop().await;
}

async fn links_are_listed_without_their_addresses(site: Site) {
    let blob = site.upload("", "text/plain", b"listed").await;
    let (first, path) = link(&site, &blob, json!({ "expires_in_ms": 60_000 })).await;
    let (second, _) = link(&site, &blob, json!({})).await;
    let (third, _) = link(&site, &blob, json!({})).await;
    site.call("DELETE", &format!("/v1/links/{second}"), Value::Null).await.is(204);
    site.wait(MINUTE);
    let list = async |query: &str| site.call("GET", &format!("/v1/links{query}"), Value::Null).await.is(200);
    let page = list("").await;
    assert!(!page.text.contains(path.rsplit('/').next().unwrap()), "{}", page.text);
    let page = page.json();
    let items: Vec<(&str, &str)> =
        page["items"].as_array().unwrap().iter().map(|link| (text(link, "id"), text(link, "state"))).collect();
    assert_eq!(items, [(first.as_str(), "expired"), (&second, "revoked"), (&third, "good")]);
    assert!(page["items"].as_array().unwrap().iter().all(|link| link["blob"] == blob["id"] && link["act"] == "read"));
    let page = list("?limit=2").await.json();
    let next = text(&page, "next").to_owned();
    assert_eq!(list(&format!("?cursor={next}")).await.json()["items"][0]["id"], third.as_str());
    // A repeated request makes no second link, and does not tell the address again.
    let place = format!("/v1/blobs/{}/link", text(&blob, "id"));
    let key = [("Idempotency-Key", "once")];
    let made = site.server.call_with(&site.user, &key, "POST", &place, json!({})).await.is(201).json();
    let again = site.server.call_with(&site.user, &key, "POST", &place, json!({})).await.is(201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!((&again.json()["id"], &again.json()["url"]), (&made["id"], &Value::Null));
    site.stop().await;
}
