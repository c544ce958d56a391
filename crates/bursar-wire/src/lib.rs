//! The JSON shapes of the HTTP API: request bodies, answers and problems.
//!
//! The server, its clients and the command line share these types. A type whose name ends in `Body` is sent in a request; one that
//! ends in `Answer` is returned. The crate depends on `bursar-core` only; the server turns types of the engine into answers.
//!
//! All shapes follow the same conventions:
//!
//! - Names are `snake_case`.
//! - Times are RFC 3339 strings in UTC with microseconds; `null` means "never".
//! - Durations are integers in milliseconds, in fields whose names have the part `_ms`. A request may leave this part out and give a
//!   duration as text instead: `"ttl": "10m"` for `"ttl_ms": 600000`. Giving both is an error. Answers have milliseconds.
//! - The window of a limit is its name with fields beside it, or the whole window as text: `"month@Europe/Berlin"`, `"rolling:1h"`.
//! - Amounts are integers, counted in the smallest part of the budget's unit: with 6 decimals, as `usd` has, $0.50 is 500000.
//! - Ids have a prefix that names their type, such as `job_`.
//! - A request with an unknown field is rejected, and the problem names the field.

#![expect(missing_docs, reason = "fields such as `queue`, `kind` and `id` need no text of their own")]

pub mod activity;
pub mod blob;
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
pub mod namespace;
pub mod problem;
pub mod queue;
pub mod report;
pub mod role;
pub mod schedule;
pub mod similar;
mod strict;
pub mod upload;
pub mod window;
pub mod worker_calls;

use bursar_core::name::given;
use bursar_core::refusal::Invalid;
use bursar_core::time::{Span, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

pub use crate::strict::duration_field;

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
    read_ignoring(json, &[])
}

/// Parses a request body, in which the fields of the whole object that `ignored` names may have any value: the read-only fields of an
/// answer that a caller sends back.
pub fn read_ignoring<T: DeserializeOwned>(json: &str, ignored: &'static [&'static str]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = given(|| strict::read(&mut reader, ignored).and_then(|read| reader.end().map(|()| read)));
    read.map_err(|error| {
        let detail = strict::in_plain_words(&error.to_string());
        Problem::invalid(field_in(&detail).unwrap_or("body").to_owned(), detail)
    })
}

/// Returns the path of the field that an error message of serde names, if it names one.
pub fn field_in(detail: &str) -> Option<&str> {
    detail[strict::field_at(detail)?..].split('`').next()
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
            (r#"{ "charges": [ { "scope": "a", "amount": 1, "limts": [] } ] }"#, "charges[0].limts"),
            (r#"{ "charges": [ { "amount": 1 } ] }"#, "charges[0].scope"),
            (
                r#"{ "jobs": [ { "queue": "q", "kind": "k" }, { "queue": "q", "kind": "k", "delay": 1 } ] }"#,
                "jobs[1].delay",
            ),
            (r#"{ "jobs": [ { "queue": "q", "kind": "k", "tags": ["a", 7] } ] }"#, "jobs[0].tags[1]"),
            (r#"{ "jobs": [ 7 ] }"#, "jobs[0]"),
            (r#"{ "context": { "tenant": "other" } }"#, "context.tenant"),
            ("[", "body"),
        ] {
            let problem = read::<CommandBody>(json).err().expect(json);
            assert_eq!(problem.field.as_deref(), Some(field), "{json}: {}", problem.detail);
        }
    }

    #[test]
    fn a_wrong_amount_is_answered_with_what_to_write() {
        for json in [
            r#"{ "charges": [ { "scope": "a", "amount": 0.5 } ] }"#,
            r#"{ "charges": [ { "scope": "a", "amount": "$0.50" } ] }"#,
            r#"{ "charges": [ { "scope": "a", "amount": 1, "limits": [ { "amount": "5usd", "window": "month" } ] } ] }"#,
        ] {
            let problem = read::<CommandBody>(json).err().expect(json);
            assert!(problem.detail.contains("$0.50 is 500000"), "{json}: {}", problem.detail);
            assert!(problem.field.as_deref().is_some_and(|field| field.ends_with("amount")), "{:?}", problem.field);
        }
        let problem = read::<CommandBody>(r#"{ "ttl_ms": 0.5 }"#).err().expect("a decimal");
        assert!(!problem.detail.contains("amounts"), "{}", problem.detail);
    }

    #[test]
    fn fields_of_an_answer_that_is_sent_back_are_ignored_and_others_are_not() {
        use crate::budget::{BudgetAnswer, BudgetBody};

        let read = |json| read_ignoring::<BudgetBody>(json, BudgetAnswer::READ_ONLY);
        let body = r#"{ "scope": "a", "frozen": false, "balances": [ { "posted": 1 } ], "unit": "usd", "limits": [] }"#;
        assert_eq!(read(body).unwrap().unit, "usd");
        for (json, field) in [
            (r#"{ "balance": [] }"#, "balance"),
            (r#"{ "hold": { "frozen": true } }"#, "hold.frozen"),
            (r#"{ "trip": { "scope": "a" } }"#, "trip.scope"),
        ] {
            assert_eq!(read(json).unwrap_err().field.as_deref(), Some(field), "{json}");
        }
    }
}
