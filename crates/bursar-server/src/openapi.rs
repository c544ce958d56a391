//! The OpenAPI 3.1 document, made from the list of routes.

mod answers;
mod examples;

use bursar::bounds::NAME_BYTES_MAX;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::principal::table::{Action, Allowed, Role};
use crate::route::Repeats;
use crate::route::{Described, Route};
use crate::routes;
use crate::wire::problem::Problem;

/// The document.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for route in routes::all() {
        let operation = operation(&route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    let problem = Problem::json_schema(&mut schemas);
    let mut components = schemas.take_definitions(true);
    components.insert("Problem".into(), problem.into());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bursar",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Hold budget, redeem a grant and start durable work in one transaction. Errors are problem \
                documents (RFC 9457). Every write takes `Idempotency-Key`. Where a route does not list it, it is not looked at: \
                its description says what makes a repetition safe instead.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": answers::components(),
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "worker": { "type": "apiKey", "in": "header", "name": "X-Worker-Token" },
            },
        },
    })
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let Described { at, query, body, answers } = (route.described)(schemas);
    let mut parameters = Vec::new();
    if let (Some(schema), Some(name)) = (at, part(route.path)) {
        let example = examples::part(route.path);
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema, "example": example }));
    }
    parameters.extend(queried(route, &query));
    parameters.extend(headers(route));
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "tags": [tag(route.path)],
        "x-bursar-action": route.action.name(),
        "x-bursar-roles": roles(route.action),
        "responses": answers::responses(route, answers),
    });
    if let Some(words) = repeated(route) {
        operation["description"] = words.into();
    }
    if route.action != Action::Public {
        operation["security"] = json!([{ "bearer": [] }, { "worker": [] }]);
    } else {
        operation["security"] = json!([]);
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if route.takes_body() {
        let mut content = json!({ "schema": &body });
        if let Some(example) = &route.example {
            content["example"] = example.clone();
        }
        // Without a body all is taken for not said, which is right where nothing has to be.
        let required = schema_of(&body, schemas).get("required").is_some();
        operation["requestBody"] = json!({ "required": required, "content": { "application/json": content } });
    }
    operation
}

/// What a schema says itself, or where it refers to.
fn schema_of<'a>(schema: &'a Schema, schemas: &'a SchemaGenerator) -> &'a Value {
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    named.and_then(|name| schemas.definitions().get(name)).unwrap_or(schema.as_value())
}

/// The fields of a query, each a parameter.
fn queried(route: &Route, query: &Schema) -> Vec<Value> {
    let required = query.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let fields = query.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let required = required.iter().any(|field| *field == *name);
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let example = examples::field(route.path, &name);
        let mut parameter =
            json!({ "name": name, "in": "query", "required": required, "schema": schema, "example": example });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        parameter
    };
    fields.into_iter().map(parameter).collect()
}

/// What a name in a header looks like: it neither begins nor ends with a blank, as these are no part of a header.
const PRINTABLE: &str = "^[!-~]([ -~]*[!-~])?$";

fn headers(route: &Route) -> Vec<Value> {
    let header = |name: &str, description: &str, pattern: &str, most: usize| {
        json!({ "name": name, "in": "header", "required": false, "description": description,
                "schema": { "type": "string", "pattern": pattern, "maxLength": most }, "example": examples::header(name) })
    };
    let mut headers = Vec::new();
    if route.action != Action::Public {
        headers.push(header("Bursar-Tenant", "For whom the operator acts", PRINTABLE, NAME_BYTES_MAX));
    }
    if route.is_keyed() {
        headers.push(header(
            "Idempotency-Key",
            "Makes a repetition have one effect and one answer",
            PRINTABLE,
            NAME_BYTES_MAX,
        ));
    }
    if route.edits {
        headers.push(header(
            "If-Match",
            "Only if it is as it was read: the ETag of an answer; `*` if there is anything",
            "^(\\*|\"[0-9a-f]{32}\")$",
            34,
        ));
    }
    if route.path == "/v1/events" {
        headers.push(header("Last-Event-ID", "The last event that was seen", "^[0-9]+$", 19));
    }
    headers
}

/// How a route is repeated safely that has no key.
fn repeated(route: &Route) -> Option<&'static str> {
    match route.repeats {
        Repeats::Key => None,
        Repeats::Fence if route.waits => {
            Some("Safe to ask again: what was leased by an answer that was lost lapses, and is leased anew.")
        }
        Repeats::Fence => {
            Some("Safe to repeat without a key: the same report of the same fence is answered in the same way.")
        }
    }
}

/// The changing part of a path.
fn part(path: &str) -> Option<&str> {
    path.split_once('{')?.1.split_once('}').map(|(name, _)| name)
}

fn tag(path: &str) -> &str {
    path.trim_start_matches("/v1/")
        .trim_start_matches('/')
        .split('/')
        .next()
        .filter(|tag| !tag.is_empty())
        .unwrap_or("page")
}

fn operation_id(route: &Route) -> String {
    let words = route.path.trim_start_matches("/v1").split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    std::iter::once(route.method.as_str().to_lowercase()).chain(words.map(str::to_owned)).collect::<Vec<_>>().join("_")
}

fn roles(action: Action) -> Vec<&'static str> {
    Role::ALL.into_iter().filter(|role| action.allows(*role) != Allowed::No).map(Role::name).collect()
}
