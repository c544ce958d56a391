//! The access log: routes, ids and principals, but no secrets and no payloads.

use serde_json::{Value, json};

use crate::process::Process;

const OPERATOR: &str = "the operator's token, which is in no log";

#[test]
fn requests_are_logged_without_secrets_and_payloads() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let env = [
        ("BURSAR_OPERATOR_TOKEN", OPERATOR),
        ("BURSAR_LOG_FORMAT", "json"),
        ("BURSAR_LOG_LEVEL", "info,bursar_server=debug,bursar=debug"),
    ];
    let server = Process::start(&url, &env);
    let body = json!({ "queue": "q", "kind": "k", "payload": { "password": "swordfish" }, "metadata": "marlin" });
    let (status, made) = server.request(OPERATOR, "POST", "/v1/jobs", body);
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.request(OPERATOR, "GET", &format!("/v1/jobs/{id}"), Value::Null).0, 200);
    assert_eq!(server.request("a token that is not good at all, it is not", "GET", "/v1/jobs", Value::Null).0, 401);
    let refused = json!({ "charges": [{ "scope": "nothing", "amount": 1 }] });
    assert_eq!(server.request(OPERATOR, "POST", "/v1/commands", refused).0, 404);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    for secret in [OPERATOR, "swordfish", "marlin", "not good at all"] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("one JSON object per line")).collect();
    let answered: Vec<&Value> = lines.iter().filter(|line| line["target"] == "bursar_server::access").collect();
    let logged: Vec<(&str, &str, u64, &str)> = answered
        .iter()
        .map(|line| {
            let (span, fields) = (&line["span"], &line["fields"]);
            assert_eq!(span["name"], "request", "{line}");
            assert_eq!(span["request_id"].as_str().map(str::len), Some(32), "{line}");
            assert_eq!(span["trace_id"].as_str().map(str::len), Some(32), "{line}");
            assert!(fields["duration_ms"].as_f64().unwrap() > 0.0, "{line}");
            let text = |name: &str| span[name].as_str().unwrap_or("-");
            (text("method"), text("route"), fields["status"].as_u64().unwrap(), text("principal"))
        })
        .collect();
    assert_eq!(
        logged,
        [
            ("POST", "/v1/jobs", 201, "operator"),
            ("GET", "/v1/jobs/{id}", 200, "operator"),
            ("GET", "/v1/jobs", 401, "-"),
            ("POST", "/v1/commands", 404, "operator"),
        ]
    );
}
