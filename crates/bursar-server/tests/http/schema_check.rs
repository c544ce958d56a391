//! Checks every response of every test against the OpenAPI document.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::client::Response;

/// Panics if a response does not match the document.
pub(crate) fn check(method: &str, path: &str, answer: &Response) {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document = DOCUMENT.get_or_init(bursar_server::document);
    // `HEAD` is answered as `GET`, without a body.
    let head = method == "HEAD";
    let responses = responses_of(document, if head { "GET" } else { method }, path);
    let response = responses.and_then(|listed| listed.get(&answer.status.to_string()));
    let problem = &document["components"]["schemas"]["Problem"];
    // Unknown paths and methods are not in the document, and get a problem.
    let unknown_route = responses.is_none() && matches!(answer.status, 404 | 405);
    assert!(response.is_some() || unknown_route, "{method} {path}: the document does not list {}", answer.status);
    let response = response.map(|response| match response["$ref"].as_str() {
        Some(to) => document.pointer(to.trim_start_matches('#')).expect("a reference that resolves"),
        None => response,
    });
    if head {
        assert_eq!(answer.text, "", "{method} {path}: a body");
        return;
    }
    let Some(content) = response.map_or(Some(("application/problem+json", problem)), content) else {
        assert_eq!(answer.text, "", "{method} {path}: the document lists no body");
        return;
    };
    let (media, schema) = content;
    if media == "*/*" {
        // The bytes of a blob have its type.
        assert!(answer.header("content-type").is_some(), "{method} {path}: {answer:?}");
        return;
    }
    assert_eq!(answer.header("content-type"), Some(media), "{method} {path}: {answer:?}");
    if media.ends_with("json")
        && let Err(fault) = check_value(document, schema, &answer.json())
    {
        panic!("{method} {path}: {fault}: {}", answer.text);
    }
}

/// Returns the responses of the route that matches a path.
fn responses_of<'a>(document: &'a Value, method: &str, path: &str) -> Option<&'a Map<String, Value>> {
    let path = path.split('?').next().unwrap_or_default();
    let takes = |known: &str| {
        let (known, given) = (known.split('/'), path.split('/'));
        known.clone().count() == given.clone().count()
            && known.zip(given).all(|(known, given)| known.starts_with('{') || known == given)
    };
    let paths = document["paths"].as_object().unwrap();
    // A literal path takes precedence over one with a parameter.
    let mut found: Vec<_> = paths.iter().filter(|(known, _)| takes(known)).collect();
    found.sort_by_key(|(known, _)| known.matches('{').count());
    found.first()?.1.get(method.to_lowercase())?["responses"].as_object()
}

fn content(response: &Value) -> Option<(&str, &Value)> {
    let (media, content) = response.get("content")?.as_object()?.iter().next()?;
    Some((media, content.get("schema").unwrap_or(&Value::Bool(true))))
}

/// Checks a value against a schema. An unknown keyword is an error, so that nothing is left unchecked.
fn check_value(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Value::Object(keywords) = schema else {
        return if schema == &Value::Bool(true) { Ok(()) } else { Err(format!("{value}: the schema allows no value")) };
    };
    for (keyword, expected) in keywords {
        let right = match keyword.as_str() {
            "$ref" => {
                let path = expected.as_str().unwrap().trim_start_matches('#');
                check_value(document, document.pointer(path).expect("a reference that resolves"), value)?;
                true
            }
            "type" => match expected {
                Value::Array(types) => types.iter().any(|one| has_type(value, one)),
                one => has_type(value, one),
            },
            "enum" => expected.as_array().unwrap().contains(value),
            "const" => expected == value,
            "anyOf" | "oneOf" => {
                expected.as_array().unwrap().iter().any(|one| check_value(document, one, value).is_ok())
            }
            "allOf" => expected.as_array().unwrap().iter().all(|one| check_value(document, one, value).is_ok()),
            "required" => expected.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
            "properties" => {
                for (name, of) in expected.as_object().unwrap() {
                    value
                        .get(name)
                        .map_or(Ok(()), |value| check_value(document, of, value))
                        .map_err(|at| format!("{name}: {at}"))?;
                }
                true
            }
            "additionalProperties" => value.as_object().is_none_or(|fields| {
                let known = |name: &str| keywords.get("properties").is_some_and(|known| known.get(name).is_some());
                fields
                    .iter()
                    .filter(|(name, _)| !known(name))
                    .all(|(_, value)| check_value(document, expected, value).is_ok())
            }),
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    check_value(document, expected, item)?;
                }
                true
            }
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= expected.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= expected.as_u64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= expected.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 <= expected.as_u64().unwrap()),
            "minimum" => value.as_f64().is_none_or(|number| number >= expected.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= expected.as_f64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| matches(expected.as_str().unwrap(), text)),
            "title" | "description" | "default" | "examples" | "format" | "$schema" => true,
            other => return Err(format!("unknown schema keyword {other:?}")),
        };
        if !right {
            return Err(format!("{value} is not {keyword} {expected}"));
        }
    }
    Ok(())
}

fn has_type(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

/// Matches text against one of the patterns that responses use: those of ids, names and digests.
fn matches(pattern: &str, text: &str) -> bool {
    if pattern.starts_with("^[^") {
        return !text.chars().any(char::is_control);
    }
    if pattern == DIGEST {
        return text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let prefix = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix(ID_DIGITS)).expect("the pattern of an id");
    let digits = text.strip_prefix(prefix).unwrap_or_default();
    digits.len() == 26 && digits.starts_with(|first| matches!(first, '0'..='7')) && digits.bytes().all(is_digit)
}

const DIGEST: &str = "^[0-9a-fA-F]{64}$";
const ID_DIGITS: &str = "[0-7][0-9a-hjkmnp-tv-z]{25}$";

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'z') && !b"ilou".contains(&byte)
}

#[test]
fn the_schema_check_finds_mismatches() {
    let document = bursar_server::document();
    let check_value =
        |name: &str, value: Value| check_value(&document, &document["components"]["schemas"][name], &value);
    let charge = serde_json::json!({ "scope": "a", "amount": 1, "balances": [] });
    assert_eq!(check_value("ChargeAnswer", charge.clone()), Ok(()));
    for (name, value) in [("amount", Value::from("1")), ("scope", Value::from("")), ("balances", Value::Null)] {
        let mut wrong = charge.clone();
        wrong[name] = value;
        assert!(check_value("ChargeAnswer", wrong).is_err(), "{name}");
    }
    assert!(check_value("ChargeAnswer", serde_json::json!({ "scope": "a", "amount": 1 })).is_err());
    assert!(check_value("Problem", serde_json::json!({ "title": "x" })).is_err());
    let job = format!("^job_{ID_DIGITS}");
    assert!(matches(&job, "job_01j9zq3v4w5x6y7z8abcdefghj"));
    for wrong in ["hold_01j9zq3v4w5x6y7z8abcdefghj", "job_01j9zq3v4w5x6y7z8abcdefghi", "job_81j9zq3v4w5x6y7z8abcdefghj"]
    {
        assert!(!matches(&job, wrong), "{wrong}");
    }
}
