//! The JSON shapes of the HTTP API: request bodies, answers and problems.
//!
//! The server, its clients and the command line share these types. A type whose name ends in `Body` is sent in a request; one that
//! ends in `Answer` is returned. The crate depends on `bursar-core` only; the server turns types of the engine into answers.
//!
//! All shapes follow the same conventions:
//!
//! - Names are `snake_case`.
//! - Times are RFC 3339 strings in UTC with microseconds; `null` means "never".
//! - Durations are integers in milliseconds and end in `_ms`.
//! - Amounts are integers, counted in the unit of the budget.
//! - Ids have a prefix that names their type, such as `job_`.
//! - A request with an unknown field is rejected, and the problem names the field.

#![expect(missing_docs, reason = "fields such as `queue`, `kind` and `id` need no text of their own")]

pub mod budget;
pub mod bulk;
pub mod command;
pub mod credential;
pub mod event;
mod flat;
pub mod grant;
pub mod hold;
pub mod job;
mod list;
pub mod meter;
pub mod problem;
pub mod queue;
pub mod report;
pub mod role;
pub mod schedule;
mod strict;
pub mod window;
pub mod worker_calls;

use bursar_core::name::given;
use bursar_core::refusal::Invalid;
use bursar_core::time::{Span, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// One page of a list.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// The cursor of the next page; `null` on the last page.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page. If it is full, `next` is the cursor of its last item.
    pub fn of(items: Vec<T>, full: bool, cursor: impl Fn(&T) -> String) -> Page<T> {
        let next = if full { items.last().map(cursor) } else { None };
        Page { items, next }
    }
}

/// Parses a request body; the problem names the field that is wrong.
pub fn read<T: DeserializeOwned>(json: &str) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = given(|| strict::read(&mut reader).and_then(|read| reader.end().map(|()| read)));
    read.map_err(|error| {
        let detail = in_words(&error.to_string());
        Problem::invalid(field_in(&detail).unwrap_or("body").to_owned(), detail)
    })
}

/// Replaces the names of Rust's types in an error message of serde.
fn in_words(detail: &str) -> String {
    let types = ["i8", "i16", "i32", "i64", "i128", "u8", "u16", "u32", "u64", "u128", "usize"];
    let Some((before, after)) = detail.split_once(", expected ") else { return detail.to_owned() };
    let (name, rest) = after.split_at(after.find(|sign: char| !sign.is_alphanumeric()).unwrap_or(after.len()));
    match name {
        _ if types.contains(&name) => format!("{before}, expected a whole number{rest}"),
        "f32" | "f64" => format!("{before}, expected a number{rest}"),
        _ => detail.replace("expected a sequence", "expected a list").replace("expected a map", "expected an object"),
    }
}

/// Returns the field that an error message of serde names, if it names one.
pub fn field_in(detail: &str) -> Option<&str> {
    let known = ["unknown field `", "missing field `", "duplicate field `", "too many in field `"];
    let at = known.into_iter().find_map(|words| detail.find(words).map(|at| at + words.len()))?;
    detail[at..].split('`').next()
}

/// Formats a time; returns `None` for [`Time::NEVER`].
pub fn stamp(time: Time) -> Option<String> {
    (time != Time::NEVER).then(|| time.to_string())
}

/// Converts a number of milliseconds from a request; a negative number is refused.
pub fn millis(field: &'static str, millis: i64) -> Result<Span, Invalid> {
    match u64::try_from(millis) {
        Ok(millis) => Ok(Span::from_millis(millis)),
        Err(_) => Err(Invalid::new(field, "must not be negative")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandBody;

    #[test]
    fn an_unknown_or_missing_field_is_named() {
        for (json, field) in [
            (r#"{ "chargs": [] }"#, "chargs"),
            (r#"{ "charges": [ { "scope": "a", "amount": 1, "limts": [] } ] }"#, "limts"),
            (r#"{ "charges": [ { "amount": 1 } ] }"#, "scope"),
            (r#"{ "jobs": [ { "queue": "q", "kind": "k", "delay": 1 } ] }"#, "delay"),
            (r#"{ "context": { "tenant": "other" } }"#, "tenant"),
            ("[", "body"),
        ] {
            let problem = read::<CommandBody>(json).err().expect(json);
            assert_eq!(problem.field.as_deref(), Some(field), "{json}: {}", problem.detail);
        }
    }

    #[test]
    fn a_wrong_type_is_described_without_the_names_of_rust() {
        for (json, words) in [
            (r#"{ "charges": [ { "scope": "a", "amount": "1" } ] }"#, "expected a whole number at line 1"),
            (r#"{ "charges": [ { "scope": "a", "amount": 1.5 } ] }"#, "expected a whole number at line 1"),
            (r#"{ "ttl_ms": "x" }"#, "expected a whole number at line 1"),
            (r#"{ "charges": 5 }"#, "expected a list at line 1"),
        ] {
            let detail = read::<CommandBody>(json).err().expect(json).detail;
            assert!(detail.contains(words), "{json}: {detail}");
        }
    }
}
