//! What operators do: collect, look for orphans, move; and a server without storage.

use bursar_server::{Settings, route_list};
use serde_json::{Value, json};

use super::{DAY, Site, bytes, local, on_engines, text};
use crate::test_server::{Engine, OPERATOR};

on_engines!(
    what_nothing_needs_is_collected,
    orphans_are_found_and_removed,
    only_operators_do_upkeep,
    a_server_without_storage_says_so,
);

async fn what_nothing_needs_is_collected(site: Site) {
    site.server
        .call_as(&site.admin, "PUT", "/v1/namespaces/brief", json!({ "unreferenced": "1h", "grace_ms": 0 }))
        .await
        .is(200);
    let kept = site.upload("namespace=media", "text/plain", b"kept").await;
    let deleted = site.upload("namespace=media", "text/plain", b"deleted").await;
    let named = site.upload("namespace=brief", "text/plain", b"named").await;
    site.upload("namespace=brief", "text/plain", b"unnamed").await;
    site.call("PUT", &format!("/v1/blobs/{}/references/post:1", text(&named, "id")), json!({})).await.is(204);
    site.call("DELETE", &format!("/v1/blobs/{}", text(&deleted, "id")), Value::Null).await.is(204);
    let report = |due: u64, collected: u64, bytes: u64, dry_run: bool| json!({ "dry_run": dry_run, "due": due, "collected": collected, "bytes": bytes, "failed": 0, "more": false });
    assert_eq!(site.collect(false).await, report(0, 0, 0, false));
    site.wait(DAY);
    // A dry run, which is the default, changes nothing.
    assert_eq!(site.collect(true).await, report(1, 0, 7, true));
    for limit in [0, 1_001] {
        let answer = site.server.call_as(OPERATOR, "POST", "/v1/blobs/gc", json!({ "limit": limit })).await.is(400);
        assert_eq!(answer.json()["field"], "limit");
    }
    let plain = site.server.call_as(OPERATOR, "POST", "/v1/blobs/gc", json!({})).await.is(200).json();
    assert_eq!(plain, report(1, 0, 7, true));
    assert_eq!(site.files().len(), 4);
    assert_eq!(site.collect(false).await, report(1, 1, 7, false));
    assert_eq!(site.files().len(), 3);
    site.wait(6 * DAY);
    let limited = json!({ "dry_run": false, "limit": 1 });
    let limited = site.server.call_as(OPERATOR, "POST", "/v1/blobs/gc", limited).await.is(200).json();
    assert_eq!((&limited["collected"], &limited["more"]), (&json!(1), &json!(true)));
    assert_eq!(site.collect(false).await["due"], 0);
    site.call("GET", &format!("/v1/blobs/{}/meta", text(&deleted, "id")), Value::Null).await.is(404);
    for (blob, body) in [(&kept, "kept"), (&named, "named")] {
        assert_eq!(site.download(text(blob, "id")).await, body.as_bytes());
    }
    site.stop().await;
}

async fn orphans_are_found_and_removed(site: Site) {
    let blob = site.upload("namespace=media", "text/plain", b"with a record").await;
    let lost = site.upload("namespace=media", "text/plain", b"its bytes get lost").await;
    let folder = site.server.folder().join("blobs/objects");
    let file = |id: &str| folder.join(&id[id.len() - 2..]).join(id);
    let write = |id: &str, end: &str| {
        let file = file(id);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(format!("{}{end}", file.display()), b"orphan").unwrap();
    };
    // An object without a record, what a crash left half-written, and a file that Bursar did not write.
    write("blob_01j9zq3v4w5x6y7z8abcdefghj", "");
    write("blob_01j9zq3v4w5x6y7z8abcdefghj", "#1");
    write(text(&blob, "id"), "#1");
    std::fs::write(folder.join("notes.txt"), b"of the operator").unwrap();
    std::fs::remove_file(file(text(&lost, "id"))).unwrap();
    let scan = async |remove: bool| {
        let body = json!({ "remove": remove });
        site.server.call_as(OPERATOR, "POST", "/v1/blobs/orphans", body).await.is(200).json()
    };
    for remove in [false, true] {
        let found = scan(remove).await;
        assert_eq!((&found["orphans_total"], &found["orphan_bytes"]), (&json!(3), &json!(18)), "{found}");
        assert_eq!((&found["deleted"], &found["blobs"]), (&json!(if remove { 3 } else { 0 }), &json!(2)));
        assert_eq!((&found["missing"], &found["missing_total"]), (&json!([lost["id"]]), &json!(1)));
        let paths: Vec<&str> = found["orphans"].as_array().unwrap().iter().map(|orphan| text(orphan, "path")).collect();
        assert!(paths.iter().all(|path| path.starts_with("objects/") && !path.contains("notes")), "{paths:?}");
    }
    assert_eq!(scan(false).await["orphans_total"], 0);
    assert!(folder.join("notes.txt").exists());
    assert_eq!(site.download(text(&blob, "id")).await, b"with a record");
    // Missing bytes are a fault of the installation, about which a caller learns no more than that.
    let failed = site.send("GET", &format!("/v1/blobs/{}", text(&lost, "id")), &[], b"").await.is(500);
    assert_eq!(failed.problem(), "internal");
    site.stop().await;
}

async fn only_operators_do_upkeep(site: Site) {
    for path in ["gc", "orphans", "move"] {
        let body = if path == "move" { json!({ "to": "local" }) } else { json!({}) };
        for token in [&site.admin, &site.user] {
            site.server.call_as(token, "POST", &format!("/v1/blobs/{path}"), body.clone()).await.is(403);
        }
        site.server.call_as(OPERATOR, "POST", &format!("/v1/blobs/{path}"), body).await.is(200);
    }
    let unknown = site.server.call_as(OPERATOR, "POST", "/v1/blobs/move", json!({ "to": "tape" })).await.is(400);
    assert_eq!(unknown.json()["field"], "to");
    site.stop().await;
}

async fn a_server_without_storage_says_so(site: Site) {
    site.stop().await;
    let site = Site::with(Engine::Sqlite, |folder| Settings { blobs: None, ..local(folder) }).await;
    let tus = [("Tus-Resumable", "1.0.0"), ("Upload-Length", "1")];
    for (token, method, path) in [
        (&site.user, "POST", "/v1/blobs"),
        (&site.user, "POST", "/v1/blobs?namespace=media"),
        (&site.user, "POST", "/v1/blobs/uploads"),
    ] {
        let refused = site.send_as(Some(token), method, path, &tus, b"bytes").await.is(503);
        assert_eq!(refused.problem(), "storage-unavailable", "{path}");
        assert!(refused.head.json()["hint"].as_str().unwrap().contains("blobs.directory"), "{refused:?}");
    }
    // Every route with a JSON body that needs bytes.
    let needs = ["/v1/blobs/presign", "/v1/blobs/gc", "/v1/blobs/orphans", "/v1/blobs/move"];
    for route in route_list().into_iter().filter(|route| needs.contains(&route.path)) {
        let body = crate::permissions::body(&route);
        let refused = site.server.call_as(OPERATOR, "POST", route.path, body).await.is(503);
        assert_eq!(refused.problem(), "storage-unavailable", "{}", route.path);
    }
    // Records need none.
    site.call("GET", "/v1/blobs", Value::Null).await.is(200);
    site.server.call_as(&site.admin, "PUT", "/v1/namespaces/media", json!({})).await.is(200);
    site.stop().await;
}

async fn blobs_move_between_backends(engine: Engine) {
    let site = Site::with_bucket(engine, false).await;
    let mut blobs = Vec::new();
    for seed in 0..3 {
        blobs.push((site.upload("", "text/plain", &bytes(seed, 5_000)).await, seed));
    }
    let step = async |body: Value| site.server.call_as(OPERATOR, "POST", "/v1/blobs/move", body).await.is(200).json();
    let first = step(json!({ "to": "local", "limit": 2 })).await;
    assert_eq!(first, json!({ "moved": 2, "bytes": 10_000, "there": 0, "failed": 0, "next": blobs[1].0["id"] }));
    let second = step(json!({ "to": "local", "after": first["next"] })).await;
    assert_eq!((&second["moved"], &second["there"]), (&json!(1), &json!(0)));
    let end = step(json!({ "to": "local", "after": second["next"] })).await;
    assert_eq!((&end["moved"], &end["next"]), (&json!(0), &Value::Null));
    assert_eq!(step(json!({ "to": "local" })).await["there"], 3);
    for (blob, seed) in &blobs {
        let id = text(blob, "id");
        let meta = site.call("GET", &format!("/v1/blobs/{id}/meta"), Value::Null).await.is(200).json();
        assert_eq!(meta["backend"], "local");
        assert!(site.download(id).await == bytes(*seed, 5_000));
    }
    assert_eq!(site.files().len(), 3);
    let found = site.server.call_as(OPERATOR, "POST", "/v1/blobs/orphans", json!({})).await.is(200).json();
    assert_eq!((&found["objects"], &found["missing_total"]), (&json!(3), &json!(0)));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_move_between_backends_on_sqlite() {
    blobs_move_between_backends(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_move_between_backends_on_postgres() {
    blobs_move_between_backends(Engine::Postgres).await;
}
