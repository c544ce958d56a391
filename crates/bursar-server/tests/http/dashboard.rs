//! The routes that the dashboard reads, and its pages as a browser without scripts sees them.

use serde_json::{Value, json};

use crate::client::{Response, request, send};
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    whoami_lists_what_a_token_may_do,
    activity_sums_spend_by_minute,
    a_series_adds_up_to_what_is_posted,
    lists_can_begin_with_the_newest,
    pages_need_a_session_and_show_what_it_may_see,
    a_form_needs_the_token_of_its_session,
);

const NULL: Value = Value::Null;

async fn budget(server: &TestServer, scope: &str, amount: i64) {
    let body = json!({ "unit": "usd", "limits": [{ "amount": amount, "window": "day" }] });
    server.call("PUT", &format!("/v1/budgets/{scope}"), body).await.is(200);
}

async fn spend(server: &TestServer, scope: &str, amount: i64) {
    let body = json!({ "charges": [{ "scope": scope, "amount": amount }] });
    server.call("POST", "/v1/commands", body).await.is(201);
}

/// Sends a request as a browser does: with a cookie, and a form as its body.
async fn browse(server: &TestServer, token: &str, method: &str, path: &str, form: Option<&str>) -> Response {
    let cookie = format!("bursar_session={token}");
    let mut headers = vec![("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "same-origin")];
    if form.is_some() {
        headers.push(("Content-Type", "application/x-www-form-urlencoded"));
    }
    send(server.address, request(method, path, &headers, form).as_bytes()).await
}

async fn whoami_lists_what_a_token_may_do(server: TestServer) {
    let operator = server.call("GET", "/v1/whoami", NULL).await.is(200).json();
    assert_eq!((&operator["role"], &operator["tenant"]), (&json!("operator"), &json!("default")));
    let viewer = server.key("acme", "viewer").await;
    let viewer = server.call_as(&viewer, "GET", "/v1/whoami", NULL).await.is(200).json();
    assert_eq!((&viewer["role"], &viewer["tenant"]), (&json!("viewer"), &json!("acme")));
    let actions: Vec<&str> = viewer["actions"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(actions.contains(&"budgets.read") && !actions.contains(&"budgets.write"), "{actions:?}");
    server.call_as("bak_wrong", "GET", "/v1/whoami", NULL).await.is(401);
    server.stop().await;
}

async fn activity_sums_spend_by_minute(server: TestServer) {
    for (scope, amount) in [("a", 5), ("b", 7), ("a", 6)] {
        budget(&server, scope, 1_000).await;
        spend(&server, scope, amount).await;
    }
    let held = json!({ "charges": [{ "scope": "b", "amount": 1 }] });
    let held = server.call("POST", "/v1/holds", held).await.is(201).json();
    let commit = format!("/v1/holds/{}/commit", held["hold"]["id"].as_str().unwrap());
    server.call("POST", &commit, json!({ "actual": 4 })).await.is(200);
    let activity = server.call("GET", "/v1/activity", NULL).await.is(200).json();
    let sum = |scope: &str| {
        let of = activity["scopes"].as_array().unwrap().iter().find(|known| known["scope"] == scope).unwrap();
        of["spent"].as_array().unwrap().iter().filter_map(Value::as_i64).sum::<i64>()
    };
    assert_eq!((sum("a"), sum("b")), (11, 11), "{activity}");
    let notable = &activity["notable"][0];
    assert_eq!((&notable["kind"], &notable["data"]["overrun"]), (&json!("hold.committed"), &json!(3)), "{activity}");
    // What happens after the first request is added as it happens.
    spend(&server, "a", 100).await;
    let later = async {
        loop {
            let activity = server.call("GET", "/v1/activity", NULL).await.is(200).json();
            let spent =
                activity["scopes"][0]["spent"].as_array().unwrap().iter().filter_map(Value::as_i64).sum::<i64>();
            if spent == 111 {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), later).await.expect("the spend is added");
    let other = server.key("other", "viewer").await;
    let other = server.call_as(&other, "GET", "/v1/activity", NULL).await.is(200).json();
    assert_eq!((&other["scopes"], &other["notable"]), (&json!([]), &json!([])), "tenants are isolated");
    server.stop().await;
}

async fn a_series_adds_up_to_what_is_posted(server: TestServer) {
    budget(&server, "a", 1_000).await;
    spend(&server, "a", 5).await;
    spend(&server, "a", 6).await;
    let series = server.call("GET", "/v1/budgets/a/series?steps=4", NULL).await.is(200).json();
    let steps = series["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 4);
    // The last step ends now, which the spend is before.
    assert_eq!(steps.iter().filter_map(|step| step["spent"].as_i64()).sum::<i64>(), 11, "{series}");
    assert!(steps.windows(2).all(|pair| pair[0]["to"] == pair[1]["from"]), "{series}");
    let bad =
        [("steps=0", "steps"), ("steps=121", "steps"), ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to")];
    for (query, field) in bad {
        let refused = server.call("GET", &format!("/v1/budgets/a/series?{query}"), NULL).await.is(400);
        assert_eq!(refused.json()["field"], field, "{query}");
    }
    server.stop().await;
}

async fn lists_can_begin_with_the_newest(server: TestServer) {
    for number in 0..5 {
        let job = json!({ "queue": "q", "kind": "k", "payload": number });
        server.call("POST", "/v1/jobs", job).await.is(201);
    }
    let payloads =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|job| job["payload"].clone()).collect::<Vec<_>>();
    let first = server.call("GET", "/v1/jobs?order=newest&limit=3", NULL).await.is(200).json();
    assert_eq!(payloads(&first), [4, 3, 2]);
    let next = format!("/v1/jobs?order=newest&limit=3&cursor={}", first["next"].as_str().unwrap());
    assert_eq!(payloads(&server.call("GET", &next, NULL).await.is(200).json()), [1, 0]);
    let positions = |page: &Value| {
        page["items"].as_array().unwrap().iter().map(|event| event["position"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let oldest = server.call("GET", "/v1/journal?kind=job", NULL).await.is(200).json();
    let mut expected = positions(&oldest);
    expected.reverse();
    let mut path = "/v1/journal?order=newest&limit=2&kind=job".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = server.call("GET", &path, NULL).await.is(200).json();
        seen.extend(positions(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/journal?order=newest&limit=2&kind=job&cursor={next}");
    }
    assert_eq!(seen, expected, "every event once, newest first");
    server.call("GET", "/v1/journal?order=newest&after=1", NULL).await.is(400);
    // A page goes on until something is found.
    let many: Vec<Value> = (0..1_000).map(|_| json!({ "queue": "many", "kind": "k" })).collect();
    server.call("POST", "/v1/jobs/bulk", json!({ "jobs": many })).await.is(200);
    server.call("PUT", "/v1/queues/last", json!({})).await.is(200);
    let last = server.call("GET", "/v1/journal?stream=queue:last&limit=1", NULL).await.is(200).json();
    assert_eq!(last["items"][0]["kind"], "queue.defined");
    server.stop().await;
}

async fn pages_need_a_session_and_show_what_it_may_see(server: TestServer) {
    budget(&server, "team", 5_000_000).await;
    let without = send(server.address, request("GET", "/budgets?x=1", &[], None).as_bytes()).await.is(303);
    assert_eq!(without.header("location"), Some("/login?next=%2Fbudgets%3Fx%3D1"));
    let form_type = [("Content-Type", "application/x-www-form-urlencoded")];
    let wrong = request("POST", "/login", &form_type, Some("token=bop_wrong&next=%2F"));
    let wrong = send(server.address, wrong.as_bytes()).await.is(200);
    assert!(wrong.header("set-cookie").is_none() && wrong.text.contains("not valid"), "{wrong:?}");
    let form = format!("token={OPERATOR}&next=//evil.example");
    let signed_in = request("POST", "/login", &form_type, Some(&form));
    let signed_in = send(server.address, signed_in.as_bytes()).await.is(303);
    assert_eq!(signed_in.header("location"), Some("/"), "the way leads to this site only");
    let cookie = signed_in.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    for path in ["/", "/budgets", "/budgets/team", "/jobs", "/queues", "/workers", "/schedules", "/dead", "/grants"] {
        let page = browse(&server, OPERATOR, "GET", path, None).await.is(200);
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!page.text.contains("style=\"") && !page.text.contains("onclick="), "{path}");
    }
    let shown = browse(&server, OPERATOR, "GET", "/budgets/team", None).await.is(200);
    assert!(shown.text.contains("$5.00") && shown.text.contains("Freeze"), "{}", shown.text);
    let viewer = server.key("default", "viewer").await;
    let shown = browse(&server, &viewer, "GET", "/budgets/team", None).await.is(200);
    assert!(shown.text.contains("$5.00") && !shown.text.contains("Freeze"), "a viewer sees no acts");
    browse(&server, &viewer, "GET", "/tokens", None).await.is(403);
    let other = server.key("acme", "admin").await;
    browse(&server, &other, "GET", "/budgets/team", None).await.is(404);
    browse(&server, OPERATOR, "GET", "/jobs/nonsense", None).await.is(400);
    server.stop().await;
}

async fn a_form_needs_the_token_of_its_session(server: TestServer) {
    budget(&server, "team", 5_000_000).await;
    let page = browse(&server, OPERATOR, "GET", "/budgets/team", None).await.is(200);
    let form = page.text.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let frozen = async || server.call("GET", "/v1/budgets/team", NULL).await.is(200).json()["frozen"].clone();
    for body in ["reason=x".to_owned(), "form=0123&reason=x".to_owned()] {
        browse(&server, OPERATOR, "POST", "/budgets/team/freeze", Some(&body)).await.is(403);
    }
    let viewer = server.key("default", "viewer").await;
    browse(&server, &viewer, "POST", "/budgets/team/freeze", Some(&format!("form={form}"))).await.is(403);
    assert_eq!(frozen().await, false, "nothing was changed");
    let body = format!("form={form}&reason=audit");
    browse(&server, OPERATOR, "POST", "/budgets/team/freeze", Some(&body)).await.is(303);
    assert_eq!(frozen().await, true);
    let journal = server.call("GET", "/v1/journal?kind=budget.frozen", NULL).await.is(200).json();
    let event = &journal["items"][0];
    assert_eq!((&event["reason"], &event["actor"]["id"]), (&json!("audit"), &json!("operator")), "{journal}");
    server.stop().await;
}
