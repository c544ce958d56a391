//! The fields of request bodies that take a duration as text in the place of milliseconds.

use serde_json::{Map, Value, json};

use crate::wire::duration_field;

/// A duration such as `10m` or `1h30m`.
const PATTERN: &str = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";

/// Adds these fields to the schema of an object that refuses unknown fields, which every request body does.
pub(super) fn add(schema: &mut Value) {
    if schema["additionalProperties"] != false {
        return;
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object).cloned() else { return };
    let mut required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut one_of_each = Vec::new();
    let mut all = Map::new();
    for (name, of) in properties {
        let Some(short) = duration_field(&name) else {
            all.insert(name, of);
            continue;
        };
        let must = required.iter().any(|field| *field == *name);
        let mut text = text_for(&of);
        let end = if must { "; one of the two is required" } else { "" };
        text["description"] = format!("The same as `{name}`, as a duration such as `10m` or `1h30m`{end}.").into();
        if must {
            required.retain(|field| *field != *name);
            one_of_each.push(json!({ "anyOf": [{ "required": [&name] }, { "required": [&short] }] }));
        }
        all.insert(name, of);
        all.insert(short, text);
    }
    schema["properties"] = all.into();
    if let Some(object) = schema.as_object_mut().filter(|_| !one_of_each.is_empty()) {
        object.remove("required");
        if !required.is_empty() {
            object.insert("required".into(), required.into());
        }
        object.insert("allOf".into(), one_of_each.into());
    }
}

/// Returns the schema of the text for a number or a list of numbers.
fn text_for(of: &Value) -> Value {
    let types: Vec<&str> = match &of["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    };
    let text = json!({ "type": "string", "minLength": 2, "pattern": PATTERN });
    let mut schema = if types.contains(&"array") { json!({ "type": "array", "items": text }) } else { text };
    if types.contains(&"null") {
        schema["type"] = json!([schema["type"], "null"]);
    }
    schema
}
