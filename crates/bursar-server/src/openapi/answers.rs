//! What a route answers: when all is well, and when it is not.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::principal::table::Action;
use crate::reply::Answered;
use crate::route::Route;
use crate::wire::problem::Kind;

/// Every answer of a route, by status.
pub(super) fn responses(route: &Route, answers: Answered) -> Value {
    let mut responses = Map::new();
    let mut good = json!({ "description": answers.status.canonical_reason().unwrap_or("done") });
    if !answers.media.is_empty() {
        let content = answers.schema.map_or(json!({}), |schema| json!({ "schema": schema }));
        good["content"] = json!({ answers.media: content });
    }
    if answers.status == StatusCode::CREATED {
        // A dry run makes nothing, and a key may name what is there already.
        responses.insert("200".into(), json!({ "description": "Nothing new was made", "content": good["content"] }));
        good["headers"] = json!({ "Location": { "schema": { "type": "string" } } });
    }
    responses.insert(answers.status.as_str().into(), good);
    for status in problems(route) {
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{status}") }));
    }
    responses.into()
}

/// The problems there are, by status, for routes to refer to.
pub(super) fn components() -> Value {
    let mut statuses: Vec<u16> = Kind::ALL.iter().map(|kind| kind.status()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let problem = json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let component = |status: u16| {
        let kinds = Kind::ALL.iter().filter(|kind| kind.status() == status);
        let words: Vec<String> = kinds.map(|kind| format!("`{}`: {}", kind.word(), kind.title())).collect();
        (status.to_string(), json!({ "description": words.join("; "), "content": problem }))
    };
    Value::Object(statuses.into_iter().map(component).collect())
}

/// The statuses with which a route says no.
fn problems(route: &Route) -> Vec<u16> {
    let writes = route.writes();
    // A lease is a question: there is nothing that it could be at odds with.
    let conflicts = route.is_keyed() || writes && !route.waits;
    let known = route.action != Action::Public;
    // A channel may be that of a job.
    let listens = route.action == Action::EventsListen;
    let cases = [
        (400, true),
        (401, known),
        (403, known),
        (404, route.path.contains('{') && !route.always_there || listens),
        (408, route.takes_body()),
        (409, conflicts),
        (412, route.edits),
        (413, route.takes_body()),
        (415, route.takes_body()),
        (429, known),
        (500, true),
        (503, true),
        (504, writes),
    ];
    cases.into_iter().filter(|(_, may)| *may).map(|(status, _)| status).collect()
}
