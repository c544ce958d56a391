//! The document is what the server does.

use std::collections::BTreeSet;

use bursar_server::{declared, document};
use serde_json::Value;

use crate::client::{request, send};
use crate::home::Home;

#[test]
fn the_document_is_the_one_that_was_looked_at() {
    let known: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    assert!(document() == known, "the document has changed: look at it, then `bursar openapi > docs/openapi.json`");
}

#[tokio::test]
async fn every_route_is_in_the_document_and_nothing_else() {
    let home = Home::limited(bursar_server::Limits::default()).await;
    let answer = send(home.address, request("GET", "/v1/openapi.json", &[], None).as_bytes()).await.is(200);
    let served = answer.json();
    assert_eq!(served, document());
    let paths = served["paths"].as_object().unwrap();
    let told: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let routed: BTreeSet<(String, String)> =
        declared().into_iter().map(|route| (route.method, route.path.to_owned())).collect();
    assert_eq!(told, routed);
    let ids: BTreeSet<&str> = paths
        .values()
        .flat_map(|methods| methods.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), told.len(), "names of operations are unique");
    home.stop().await;
}

#[test]
fn what_is_referred_to_is_there() {
    fn look(value: &Value, whole: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(path)) = fields.get("$ref") {
                    let found = path.strip_prefix('#').and_then(|path| whole.pointer(path));
                    assert!(found.is_some(), "{path} leads nowhere");
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
fn examples_are_there_and_are_read() {
    for route in declared() {
        assert_eq!(route.example_problem, None, "{} {}", route.method, route.path);
        assert_eq!(route.example.is_some(), route.takes_body, "{} {}", route.method, route.path);
    }
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let home = Home::limited(bursar_server::Limits::default()).await;
    let page = send(home.address, request("GET", "/", &[], None).as_bytes()).await.is(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text.contains("/v1/openapi.json") && page.text.contains("Content-Security-Policy"));
    for elsewhere in ["http://", "https://", "//cdn", "@import", "<link"] {
        assert!(!page.text.contains(elsewhere), "{elsewhere}");
    }
    home.stop().await;
}
