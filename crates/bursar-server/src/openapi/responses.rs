//! The responses of a route in the OpenAPI document: success, and the problems it can return.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::principal::permissions::Action;
use crate::reply::{ANY, ResponseSpec};
use crate::route::Route;
use crate::wire::problem::Kind;

/// Returns every response of a route, by status.
pub(super) fn responses(route: &Route, spec: ResponseSpec) -> Value {
    let mut responses = Map::new();
    let mut success = json!({ "description": spec.status.canonical_reason().unwrap_or("done") });
    if !spec.media.is_empty() {
        let content = spec.schema.map_or(json!({}), |schema| json!({ "schema": schema }));
        success["content"] = json!({ spec.media: content });
    }
    if spec.media == ANY {
        responses.insert("206".into(), json!({ "description": "The range of bytes", "content": success["content"] }));
        responses.insert("302".into(), json!({ "description": "The bytes are at the address in `Location`" }));
        responses.insert("304".into(), json!({ "description": "The caller has these bytes already" }));
    }
    if spec.status == StatusCode::CREATED {
        // A dry run creates nothing, and a job's idempotency key may name an existing job.
        let description = "Nothing new was created";
        if !spec.media.is_empty() {
            responses.insert("200".into(), json!({ "description": description, "content": success["content"] }));
        }
        success["headers"] = json!({ "Location": { "schema": { "type": "string" } } });
    }
    responses.insert(spec.status.as_str().into(), success);
    for status in problem_statuses(route) {
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{status}") }));
    }
    responses.into()
}

/// Returns all problems by status, as components that routes refer to.
pub(super) fn components() -> Value {
    let mut statuses: Vec<u16> = Kind::ALL.iter().map(|kind| kind.status()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let problem = json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let component = |status: u16| {
        // A server answers `unavailable` instead of `unusable` (`Problem::redacted`).
        let kinds = Kind::ALL.iter().filter(|kind| kind.status() == status && **kind != Kind::Unusable);
        let words: Vec<String> = kinds.map(|kind| format!("`{}`: {}", kind.word(), kind.title())).collect();
        (status.to_string(), json!({ "description": words.join("; "), "content": problem }))
    };
    Value::Object(statuses.into_iter().map(component).collect())
}

/// Returns the statuses of the problems that a route can return.
fn problem_statuses(route: &Route) -> Vec<u16> {
    let writes = route.writes();
    // Leasing jobs cannot conflict with anything.
    let conflicts = route.is_keyed() || writes && (!route.waits || route.streams.is_some());
    let authenticated = route.action != Action::Public;
    // An event channel can name a job that does not exist.
    let listens = route.action == Action::EventsListen;
    // A charge or a definition can name a scope that has no budget, and a job a blob that does not exist.
    let names_others = writes
        && matches!(
            route.action,
            Action::CommandsSubmit | Action::BudgetsWrite | Action::NamespacesWrite | Action::JobsEnqueue
        )
        // The list of holds is that of a scope.
        || route.path == "/v1/holds";
    let cases = [
        (400, true),
        (401, authenticated),
        (403, authenticated),
        (404, route.path.contains('{') && !route.always_there || listens || names_others),
        (408, route.takes_body()),
        (409, conflicts),
        (412, route.takes_if_match),
        (413, route.takes_body()),
        (415, route.takes_body()),
        (429, authenticated),
        (500, true),
        (503, true),
        (504, writes),
    ];
    let statuses = cases.into_iter().filter(|(_, possible)| *possible).map(|(status, _)| status);
    statuses.chain(route.problems.iter().copied()).collect()
}
