//! The HTTP reference (`docs/http.md`): the OpenAPI document rendered as Markdown.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::openapi::document;

/// Returns the HTTP reference in Markdown: every route by tag, then the shapes of bodies and responses.
pub fn reference() -> String {
    let document = document();
    let mut page = String::from(INTRODUCTION);
    let mut tags: Vec<&str> = Vec::new();
    let mut operations = Vec::new();
    for (path, methods) in fields(&document["paths"]) {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            if !tags.contains(&tag) {
                tags.push(tag);
            }
            operations.push((tag, path, method, operation));
        }
    }
    tags.sort_unstable();
    for tag in tags {
        let _ = write!(page, "\n## {tag}\n");
        for (_, path, method, operation) in operations.iter().filter(|(of, ..)| *of == tag) {
            operation_section(&mut page, path, method, operation);
        }
    }
    page.push_str(
        "\n## Schemas\n\nFields without *required* are optional in requests, and may be absent from responses.\n",
    );
    for (name, schema) in fields(&document["components"]["schemas"]) {
        shape_section(&mut page, name, schema);
    }
    page
}

const INTRODUCTION: &str = "\
# HTTP reference

Generated from [openapi.json](openapi.json) by `bursar openapi --markdown`. [server.md](server.md) explains authentication, roles and
problems. Every route except the public ones needs `Authorization: Bearer TOKEN`. Problems have the shape [Problem](#problem).
";

fn operation_section(page: &mut String, path: &str, method: &str, operation: &Value) {
    let text = |name: &str| operation[name].as_str().unwrap_or_default();
    let _ = write!(page, "\n### {} {path}\n\n{}.", method.to_uppercase(), text("summary"));
    if !text("description").is_empty() {
        let _ = write!(page, " {}", text("description"));
    }
    let roles: Vec<&str> =
        operation["x-bursar-roles"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match text("x-bursar-action") {
        "public" => page.push_str("\n\nPublic: no token needed.\n"),
        action => {
            let _ = write!(page, "\n\nAction `{action}`. Roles: {}.\n", roles.join(", "));
        }
    }
    let parameters = operation["parameters"].as_array();
    let parameters: Vec<&Value> =
        parameters.into_iter().flatten().filter(|one| one["name"] != "Bursar-Tenant").collect();
    if !parameters.is_empty() {
        page.push_str("\n| parameter | in | type | example | |\n| --- | --- | --- | --- | --- |\n");
    }
    for parameter in parameters {
        let text = |name: &str| parameter[name].as_str().unwrap_or_default();
        let required = if parameter["required"] == true { "*required* " } else { "" };
        let example = match &parameter["example"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let about = cell(text("description"));
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | `{example}` | {} |",
            text("name"),
            text("in"),
            kind(&parameter["schema"]),
            format!("{required}{about}").trim_end()
        );
    }
    if let Some(content) = operation.pointer("/requestBody/content/application~1json") {
        let about = operation.pointer("/requestBody/description").and_then(Value::as_str);
        let about = about.map(|about| format!(" {about}")).unwrap_or_default();
        let _ = write!(page, "\nBody: {}.{about}\n", kind(&content["schema"]));
        if let Some(example) = content.get("example") {
            let _ = write!(page, "\n```json\n{example:#}\n```\n");
        }
    }
    response_line(page, &operation["responses"]);
}

fn response_line(page: &mut String, responses: &Value) {
    let (mut successes, mut problems) = (Vec::new(), Vec::new());
    for (status, response) in fields(responses) {
        if response.get("$ref").is_some() {
            problems.push(status.as_str());
            continue;
        }
        let content = response["content"].as_object().and_then(|content| content.iter().next());
        let body = match content {
            Some((_, content)) if content.get("schema").is_some() => kind(&content["schema"]),
            Some((media, _)) => format!("`{media}`"),
            None => "no body".to_owned(),
        };
        successes.push(format!("{status} with {body}"));
    }
    let _ = write!(page, "\nResponses: {}. Problems: {}.\n", successes.join(", "), problems.join(", "));
}

fn shape_section(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n### {name}\n");
    if let Some(about) = schema["description"].as_str() {
        let _ = write!(page, "\n{about}\n");
    }
    let properties = fields(&schema["properties"]);
    let variants: Vec<&Value> = ["oneOf", "anyOf"].iter().flat_map(|word| schema[*word].as_array()).flatten().collect();
    if properties.is_empty() && variants.iter().all(|variant| fields(&variant["properties"]).is_empty()) {
        let _ = write!(page, "\n{}.\n", kind(schema));
        return;
    }
    if !properties.is_empty() {
        field_table(page, schema);
    }
    for variant in variants {
        let label = if properties.is_empty() { "Variant" } else { "Plus one of" };
        match fields(&variant["properties"]).is_empty() {
            true => drop(write!(page, "\n{label}: {}.\n", kind(variant))),
            false => {
                let _ = write!(page, "\n{label}:\n");
                field_table(page, variant);
            }
        }
    }
}

/// Writes the fields of a shape as a table.
fn field_table(page: &mut String, schema: &Value) {
    page.push_str("\n| field | type | |\n| --- | --- | --- |\n");
    let required = |name: &str| schema["required"].as_array().into_iter().flatten().any(|field| field == name);
    for (field, of) in fields(&schema["properties"]) {
        let must = if required(field) { "*required* " } else { "" };
        let about = cell(of["description"].as_str().unwrap_or_default());
        let _ = writeln!(page, "| `{field}` | {} | {} |", kind(of), format!("{must}{about}").trim_end());
    }
}

/// Returns the type of a value in a few words, with a link if it is a named shape.
fn kind(schema: &Value) -> String {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    for word in ["oneOf", "anyOf", "allOf"] {
        if let Some(parts) = schema[word].as_array() {
            return parts.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(name) => basic_type(name, schema),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(|name| basic_type(name, schema)).collect::<Vec<_>>().join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

fn basic_type(name: &str, schema: &Value) -> String {
    let (least, most) = (&schema["minimum"], &schema["maximum"]);
    match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "integer" | "number" => match (least, most) {
            (Value::Null, Value::Null) => name.to_owned(),
            (least, Value::Null) => format!("{name}, at least {least}"),
            (Value::Null, most) => format!("{name}, at most {most}"),
            (least, most) => format!("{name}, {least} to {most}"),
        },
        _ => name.to_owned(),
    }
}

fn fields(value: &Value) -> Vec<(&String, &Value)> {
    value.as_object().map(Map::iter).into_iter().flatten().collect()
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
