//! The shapes of the wire: what requests and answers look like as JSON, here and on the network.
//!
//! Names are those of the specification. Times are RFC 3339 in UTC with microseconds, durations are integers in `_ms`,
//! ids have their prefix. A field that is not known is refused with its name.

#![expect(missing_docs, reason = "the shapes say what they are; their fields are named as on the wire")]

mod bounded;
pub mod budget;
pub mod command;
pub mod credential;
pub mod event;
mod flat;
pub mod grant;
pub mod hold;
pub mod job;
pub mod meter;
mod objects;
pub mod problem;
pub mod queue;
pub mod report;
pub mod role;
pub mod schedule;
pub mod window;
pub mod work;

use bursar_core::name::given;
use bursar_core::refusal::Invalid;
use bursar_core::time::{Span, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// A page of a list.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// What was found.
    pub items: Vec<T>,
    /// Where the next page begins; `null` at the end.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A page; the last item of a full one says where the next begins.
    pub fn of(items: Vec<T>, full: bool, cursor: impl Fn(&T) -> String) -> Page<T> {
        let next = if full { items.last().map(cursor) } else { None };
        Page { items, next }
    }
}

/// Reads a body; what is wrong with it is told with the name of the field.
pub fn read<T: DeserializeOwned>(json: &str) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = given(|| objects::read(&mut reader).and_then(|read| reader.end().map(|()| read)));
    read.map_err(|error| {
        let detail = error.to_string();
        Problem::invalid(field_in(&detail).unwrap_or("body").to_owned(), detail)
    })
}

/// The field that serde complains of, where it names one.
pub fn field_in(detail: &str) -> Option<&str> {
    let known = ["unknown field `", "missing field `", "duplicate field `", "too many in field `"];
    let at = known.into_iter().find_map(|words| detail.find(words).map(|at| at + words.len()))?;
    detail[at..].split('`').next()
}

/// A time on the wire; `None` for what never happens.
pub fn stamp(time: Time) -> Option<String> {
    (time != Time::NEVER).then(|| time.to_string())
}

/// A duration from the wire.
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
    fn fields_that_are_not_known_are_refused_with_their_name() {
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
}
