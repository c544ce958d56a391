//! The list of routes, one file a resource. From it come the router, the document and the test of who may do what.

mod budgets;
mod commands;
mod costs;
mod dead;
mod grants;
mod health;
mod holds;
mod jobs;
mod journal;
mod meter;
mod queues;
mod schedules;
mod tokens;
mod work;

use bursar::Name;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::principal::table::Action;
use crate::route::Route;
use crate::wire::problem::Problem;

/// Every route there is.
pub(crate) fn all() -> Vec<Route> {
    let lists = [
        budgets::routes(),
        commands::routes(),
        holds::routes(),
        grants::routes(),
        jobs::routes(),
        work::routes(),
        dead::routes(),
        costs::routes(),
        queues::routes(),
        schedules::routes(),
        tokens::routes(),
        meter::routes(),
        journal::routes(),
        health::routes(),
    ];
    lists.into_iter().flatten().collect()
}

/// A route as tests and documents know it.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its method.
    pub method: String,
    /// Its path, with the part that changes in braces.
    pub path: &'static str,
    /// What it is to who asks for it.
    pub action: Action,
    /// An example of its body.
    pub example: Option<serde_json::Value>,
    /// What is wrong with the example, if something is.
    pub example_problem: Option<String>,
    /// It takes a body.
    pub takes_body: bool,
}

/// Every route there is, as tests and documents know it.
pub fn declared() -> Vec<Declared> {
    let declared = |route: Route| Declared {
        method: route.method.to_string(),
        path: route.path,
        action: route.action,
        example_problem: route.example.as_ref().and_then(|example| (route.readable)(example).err()).map(|p| p.detail),
        takes_body: route.takes_body(),
        example: route.example,
    };
    all().into_iter().map(declared).collect()
}

/// Which page of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// Where the page begins, as `next` of the last one said.
    #[serde(default)]
    pub(crate) cursor: Option<String>,
    /// So many at most, from 1 to 1000.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    pub(crate) limit: Option<usize>,
}

/// Why, for the journal, where there is no body to say it in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyQuery {
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// So many on a page.
pub(crate) fn page_size(limit: Option<usize>) -> Result<usize, Problem> {
    match limit.unwrap_or(PAGE_DEFAULT) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(Problem::invalid("limit".into(), format!("limit must be from 1 to {PAGE_MAX}"))),
    }
}

/// Reads a cursor that is a name, as a list has told it: it may be older than what names may hold now.
pub(crate) fn name_cursor<T: Name>(text: Option<&str>) -> Result<Option<T>, Problem> {
    let wrong = |_| Problem::invalid("cursor".into(), "cursor is not one that a list has told");
    text.map(|text| T::stored(text).map_err(wrong)).transpose()
}

/// Reads a cursor.
pub(crate) fn cursor<T: std::str::FromStr>(text: Option<&str>) -> Result<Option<T>, Problem> {
    let read = |text: &str| {
        text.parse().map_err(|_| Problem::invalid("cursor".into(), "cursor is not one that a list has told"))
    };
    text.map(read).transpose()
}
