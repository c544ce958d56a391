//! The log: who asked for what, known by its id; never what is a secret or somebody's data.

use serde_json::{Value, json};

use crate::process::Process;

const OPERATOR: &str = "the operator's token, which is in no log";

#[test]
fn requests_are_logged_by_route_and_id_and_without_what_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let env = [
        ("BURSAR_OPERATOR_TOKEN", OPERATOR),
        ("BURSAR_LOG_FORMAT", "json"),
        ("BURSAR_LOG_LEVEL", "info,bursar_server=debug,bursar=debug"),
    ];
    let server = Process::start(&url, &env);
    let body = json!({ "queue": "q", "kind": "k", "payload": { "password": "swordfish" }, "metadata": "marlin" });
    let (status, made) = server.ask(OPERATOR, "POST", "/v1/jobs", body);
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.ask(OPERATOR, "GET", &format!("/v1/jobs/{id}"), Value::Null).0, 200);
    assert_eq!(server.ask("a token that is not good at all, it is not", "GET", "/v1/jobs", Value::Null).0, 401);
    let refused = json!({ "charges": [{ "scope": "nothing", "amount": 1 }] });
    assert_eq!(server.ask(OPERATOR, "POST", "/v1/commands", refused).0, 409);
    let (code, told) = server.end();
    assert_eq!(code, Some(0));
    for secret in [OPERATOR, "swordfish", "marlin", "not good at all"] {
        assert!(!told.contains(secret), "{secret} is in the log:\n{told}");
    }
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    let answered: Vec<&Value> = lines.iter().filter(|line| line["target"] == "bursar_server::access").collect();
    let told: Vec<(&str, &str, u64, &str)> = answered
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
        told,
        [
            ("POST", "/v1/jobs", 201, "operator"),
            ("GET", "/v1/jobs/{id}", 200, "operator"),
            ("GET", "/v1/jobs", 401, "-"),
            ("POST", "/v1/commands", 409, "operator"),
        ]
    );
}
