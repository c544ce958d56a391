//! The OpenAPI document matches the server.

use std::collections::BTreeSet;

use bursar_server::{document, route_list};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::client::{request, send};
use crate::test_server::TestServer;

#[test]
fn the_openapi_document_matches_the_stored_one() {
    let known: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    assert!(document() == known, "docs/openapi.json is outdated; run `bursar openapi > docs/openapi.json`");
}

#[tokio::test]
async fn the_server_answers_exactly_the_documented_methods() {
    let server = TestServer::limited(bursar_server::Limits::default()).await;
    let answer = send(server.address, request("GET", "/v1/openapi.json", &[], None).as_bytes()).await.is(200);
    let served = answer.json();
    assert_eq!(served, document());
    let operations = operations(&served);
    let paths: BTreeSet<&str> = operations.iter().map(|(path, _, _)| *path).collect();
    for path in paths {
        let target = path.replace(['{', '}'], "");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let documented = operations.iter().any(|(at, with, _)| *at == path && with.eq_ignore_ascii_case(method));
            let status = send(server.address, request(method, &target, &[], None).as_bytes()).await.status;
            assert_eq!(status != 405, documented, "{method} {path}: {status}");
        }
    }
    let beside = send(server.address, request("GET", "/v1/nothing", &[], None).as_bytes()).await;
    assert_eq!(beside.status, 404, "a path that is not documented");
    let ids: BTreeSet<&str> =
        operations.iter().map(|(_, _, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len(), "operation ids are unique");
    server.stop().await;
}

#[test]
fn every_reference_resolves() {
    fn look(value: &Value, whole: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(path)) = fields.get("$ref") {
                    let found = path.strip_prefix('#').and_then(|path| whole.pointer(path));
                    assert!(found.is_some(), "{path} does not resolve");
                }
                fields.values().for_each(|value| look(value, whole));
            }
            Value::Array(items) => items.iter().for_each(|value| look(value, whole)),
            _ => {}
        }
    }
    let document = document();
    look(&document, &document);
}

#[test]
fn body_examples_are_valid() {
    for route in route_list() {
        assert_eq!(route.example_problem, None, "{} {}", route.method, route.path);
        assert_eq!(route.example.is_some(), route.takes_body && !route.streams, "{} {}", route.method, route.path);
    }
}

#[test]
fn the_http_reference_matches_the_document() {
    let known = include_str!("../../../../docs/http.md");
    assert!(
        bursar_server::reference() == known,
        "docs/http.md is outdated; run `bursar openapi --markdown > docs/http.md`"
    );
}

/// Returns the operations of the document with their paths and methods.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    all.collect()
}

#[tokio::test]
async fn parameter_examples_are_accepted() {
    let server = TestServer::limited(bursar_server::Limits::default()).await;
    let document = document();
    let mut tried = 0;
    for (path, method, operation) in operations(&document) {
        let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
        for parameter in &parameters {
            assert!(parameter.get("example").is_some(), "{method} {path} has no example of {}", parameter["name"]);
        }
        if method != "get" || path == "/v1/events" {
            continue;
        }
        let text = |parameter: &Value| match &parameter["example"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let of = |place: &str| parameters.iter().filter(|one| one["in"] == *place).collect::<Vec<_>>();
        let part = of("path").first().map(|part| text(part)).unwrap_or_default();
        let at = match path.split_once('{') {
            Some((before, rest)) => format!("{before}{part}{}", rest.split_once('}').unwrap().1),
            None => path.to_owned(),
        };
        // One optional parameter at a time, with the required ones.
        for wanted in of("query") {
            let chosen = of("query").into_iter().filter(|one| one["required"] == true || one["name"] == wanted["name"]);
            let query: Vec<String> = chosen
                .map(|one| {
                    format!("{}={}", one["name"].as_str().unwrap(), utf8_percent_encode(&text(one), NON_ALPHANUMERIC))
                })
                .collect();
            let target = format!("{at}?{}", query.join("&"));
            let answer = server.call("GET", &target, Value::Null).await;
            assert!(matches!(answer.status, 200 | 404), "{target}: {answer:?}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
    server.stop().await;
}

#[test]
fn every_route_lists_its_problems() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        let says = |status: &str| operation["responses"].get(status).is_some();
        let public = operation["x-bursar-action"] == "public";
        assert!(says("400") && says("503") && !says("default"), "{method} {path}");
        assert_eq!(says("401") && says("403") && says("429"), !public, "{method} {path}");
        assert_eq!(says("413"), operation.get("requestBody").is_some(), "{method} {path}");
        assert_eq!(says("504"), !["get", "options"].contains(&method), "{method} {path}");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let keyed = parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key");
        assert!(!keyed || says("409"), "{method} {path}: a key can conflict");
        let matched = parameters.iter().any(|parameter| parameter["name"] == "If-Match");
        assert!(!matched || says("412"), "{method} {path}");
    }
}

#[tokio::test]
async fn the_page_loads_nothing_from_other_hosts() {
    let server = TestServer::limited(bursar_server::Limits::default()).await;
    let page = send(server.address, request("GET", "/api", &[], None).as_bytes()).await.is(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text.contains("/v1/openapi.json") && page.text.contains("Content-Security-Policy"));
    for elsewhere in ["http://", "https://", "//cdn", "@import"] {
        assert!(!page.text.contains(elsewhere), "{elsewhere}");
    }
    // The style sheet and the icon are the dashboard's.
    let links: Vec<&str> =
        page.text.split("<link ").skip(1).filter_map(|link| link.split("href=\"").nth(1)?.split('"').next()).collect();
    assert_eq!(links.len(), 2, "{links:?}");
    for link in links {
        assert!(link.starts_with("/assets/"), "{link}");
        send(server.address, request("GET", link, &[], None).as_bytes()).await.is(200);
    }
    server.stop().await;
}
