//! Erasing the payloads of jobs and grants.

use serde_json::{Value, json};

use crate::test_server::{TestServer, on_both_engines};

on_both_engines!(payloads_are_erased);

async fn payloads_are_erased(server: TestServer) {
    let erased = json!({ "$bursar": "payload erased" });
    let job = async |tag: &str| {
        let body = json!({ "queue": "q", "kind": "k", "payload": { "name": "Ada" }, "tags": [tag] });
        server.call("POST", "/v1/jobs", body).await.is(201).json()["id"].as_str().unwrap().to_owned()
    };
    let ids = [job("customer:7").await, job("customer:7").await, job("customer:8").await];
    let get = async |id: &str| server.call("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json();
    let path = |act: &str| format!("/v1/jobs/{}/{act}", ids[0]);
    let refused = server.call("POST", &path("erase"), json!({})).await.is(409);
    assert!(refused.json()["detail"].as_str().unwrap().contains("cancel it first"), "{refused:?}");
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    let done = json!({ "fence": leased["jobs"][0]["lease"]["fence"], "result": { "for": "Ada" } });
    server.call("POST", &path("complete"), done).await.is(200);
    for (role, status) in [("viewer", 403), ("user", 403), ("admin", 404)] {
        let key = server.key("acme", role).await;
        server.call_as(&key, "POST", &path("erase"), json!({})).await.is(status);
    }
    assert_eq!(get(&ids[0]).await["payload"], json!({ "name": "Ada" }));
    for _ in 0..2 {
        server.call("POST", &path("erase"), json!({ "reason": "they asked for it" })).await.is(200);
    }
    let gone = get(&ids[0]).await;
    assert_eq!((&gone["payload"], &gone["result"], &gone["acts"]), (&erased, &erased, &json!([])));

    // By filter: the job that still waits is refused.
    server.call("POST", "/v1/jobs/cancel", json!({ "ids": [ids[1]] })).await.is(200);
    let waiting = job("customer:7").await;
    let all = json!({ "filter": { "tag": "customer:7" } });
    let acted = server.call("POST", "/v1/jobs/erase", all).await.is(200).json();
    assert_eq!(acted, json!({ "matched": 3, "done": 2, "refused": 1, "next": null }));
    assert_eq!(get(&ids[1]).await["payload"], erased);
    for id in [&ids[2], &waiting] {
        assert_eq!(get(id).await["payload"], json!({ "name": "Ada" }));
    }
    let retried = server.call("POST", &format!("/v1/jobs/{}/retry", ids[1]), json!({})).await.is(409);
    assert!(retried.json()["detail"].as_str().unwrap().contains("erased"));

    let mint = json!({ "purpose": "upload", "subject": "s", "payload": { "name": "Eve" }, "ttl_ms": 60_000 });
    let grant = server.call("POST", "/v1/grants", mint).await.is(201).json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/grants/{grant}");
    let open = server.call("POST", &format!("{path}/erase"), json!({})).await.is(409);
    assert!(open.json()["detail"].as_str().unwrap().contains("revoke it"), "{open:?}");
    server.call("DELETE", &path, Value::Null).await.is(204);
    server.call("POST", &format!("{path}/erase"), json!({})).await.is(204);
    assert_eq!(server.call("GET", &path, Value::Null).await.is(200).json()["payload"], erased);
    let journal = server.call("GET", "/v1/journal?limit=1000", Value::Null).await.is(200).text;
    assert_eq!((journal.matches("Ada").count(), journal.matches("Eve").count()), (2, 0), "those of the other jobs");
    assert_eq!(journal.matches("job.erased").count(), 2);
    assert_eq!(journal.matches("they asked for it").count(), 1, "the second call changed nothing");
    server.stop().await;
}
