//! The OpenAPI 3.1 document, generated from the list of routes.

mod durations;
mod examples;
mod responses;

use bursar::bounds::NAME_BYTES_MAX;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::events::POSITION_DIGITS_MAX;
use crate::principal::permissions::{Action, Allowed, Role};
use crate::route::{RetrySafety, Route, RouteSchemas};
use crate::routes;
use crate::wire::problem::Problem;

/// Returns the OpenAPI document of all routes.
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
    components.values_mut().for_each(durations::add);
    for route in routes::all().iter().filter(|route| !route.ignored.is_empty()) {
        let body = paths[route.path][route.method.as_str().to_lowercase()]
            .pointer("/requestBody/content/application~1json/schema/$ref")
            .and_then(Value::as_str)
            .and_then(|path| path.rsplit('/').next());
        let mut fields = body.and_then(|name| components.get_mut(name)).and_then(|schema| schema.get_mut("properties"));
        for field in route.ignored {
            let fields = fields.as_deref_mut().expect("a body that ignores fields is an object with a name");
            fields[*field] = json!({ "description": "Ignored: a field of the answer, which may be sent back." });
        }
    }
    components.insert("Problem".into(), problem.into());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bursar",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Hold budget, redeem a grant and enqueue durable jobs in one transaction. Errors are problem \
                documents (RFC 9457). A write that lists the header `Idempotency-Key` returns its first answer again if it is \
                retried with the same key. Other writes ignore the header; their descriptions say why a retry is safe.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": responses::components(),
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "worker": { "type": "apiKey", "in": "header", "name": "X-Worker-Token" },
            },
        },
    })
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let RouteSchemas { path_parameters, query, body, response } = (route.schemas)(schemas);
    let mut parameters = Vec::new();
    for (place, (schema, name)) in path_parameters.into_iter().zip(path_parameter_names(route.path)).enumerate() {
        let example = if place == 0 { examples::path_parameter(route.path) } else { examples::second_parameter(name) };
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema, "example": example }));
    }
    parameters.extend(query_parameters(route, &query));
    parameters.extend(headers(route));
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "tags": [tag(route.path)],
        "x-bursar-action": route.action.name(),
        "x-bursar-roles": roles(route.action),
        "responses": responses::responses(route, response),
    });
    if let Some(text) = retry_description(route) {
        operation["description"] = text.into();
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
        // An empty body counts as `{}`, so a body is required only if the schema has required fields.
        let required = resolve(&body, schemas).get("required").is_some();
        let media = route.streams.unwrap_or("application/json");
        operation["requestBody"] = json!({ "required": required, "content": { media: content } });
        if !route.ignored.is_empty() {
            let fields: Vec<String> = route.ignored.iter().map(|field| format!("`{field}`")).collect();
            let text =
                "The answer of a `GET` can be changed and sent back: its read-only fields are accepted and ignored";
            operation["requestBody"]["description"] = format!("{text} ({}).", fields.join(", ")).into();
        }
    }
    operation
}

/// Returns a schema, or the one that it refers to.
fn resolve<'a>(schema: &'a Schema, schemas: &'a SchemaGenerator) -> &'a Value {
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    named.and_then(|name| schemas.definitions().get(name)).unwrap_or(schema.as_value())
}

/// Returns the fields of a query as OpenAPI parameters.
fn query_parameters(route: &Route, query: &Schema) -> Vec<Value> {
    let required = query.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let fields = query.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let required = required.iter().any(|field| *field == *name);
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let example = examples::query_parameter(route.path, &name);
        let mut parameter =
            json!({ "name": name, "in": "query", "required": required, "schema": schema, "example": example });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        parameter
    };
    fields.into_iter().map(parameter).collect()
}

/// Printable ASCII without leading or trailing blanks, which HTTP strips from header values.
const PRINTABLE: &str = "^[!-~]([ -~]*[!-~])?$";

fn headers(route: &Route) -> Vec<Value> {
    let header = |name: &str, description: &str, pattern: &str, most: usize| {
        json!({ "name": name, "in": "header", "required": false, "description": description,
                "schema": { "type": "string", "pattern": pattern, "maxLength": most }, "example": examples::header(name) })
    };
    let mut headers = Vec::new();
    if route.action != Action::Public {
        let description = "Operators only: the tenant to act for";
        headers.push(header("Bursar-Tenant", description, PRINTABLE, NAME_BYTES_MAX));
    }
    if route.is_keyed() {
        headers.push(header(
            "Idempotency-Key",
            "Key of this request: a retry with the same key returns the first answer and changes nothing",
            PRINTABLE,
            NAME_BYTES_MAX,
        ));
    }
    if route.takes_if_match {
        headers.push(header(
            "If-Match",
            "Apply the change only if the definition or the job still has this ETag; `*`: only if it exists",
            "^(\\*|\"[0-9a-f]{32}\")$",
            34,
        ));
    }
    if route.path == "/v1/events" {
        let description = "The position of the last event that was received; the stream resumes after it";
        headers.push(header("Last-Event-ID", description, "^[0-9]+$", POSITION_DIGITS_MAX));
    }
    headers
}

/// Returns why a write without an idempotency key is safe to retry.
fn retry_description(route: &Route) -> Option<&'static str> {
    match route.retry_safety {
        RetrySafety::Key => None,
        RetrySafety::Fence if route.waits => {
            Some("Safe to retry: if the response is lost, the leases in it expire and the jobs are leased again.")
        }
        RetrySafety::Bytes => Some("Safe to retry without a key: the same bytes are stored once."),
        RetrySafety::Repeatable => Some("Safe to retry without a key: repeating it changes nothing more."),
        RetrySafety::Fence => {
            Some("Safe to retry without a key: the same report with the same fence gets the same answer.")
        }
    }
}

/// Returns the names of the path parameters.
fn path_parameter_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
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
