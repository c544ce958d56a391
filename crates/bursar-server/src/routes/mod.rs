//! The list of all routes, one file per resource. The router, the OpenAPI document and the permission tests are generated from it.

mod blobs;
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
mod namespaces;
mod problems;
mod queues;
mod schedules;
mod tenants;
mod tokens;
mod work;

use bursar::{Moment, Name};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::principal::permissions::Action;
use crate::route::Route;
use crate::wire::problem::Problem;

/// Returns every route.
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
        blobs::routes(),
        namespaces::routes(),
        tokens::routes(),
        tenants::routes(),
        meter::routes(),
        journal::routes(),
        health::routes(),
        problems::routes(),
    ];
    lists.into_iter().flatten().collect()
}

/// The public description of a route, for tests and tools.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    /// The HTTP method.
    pub method: String,
    /// The path, with its parameter in braces.
    pub path: &'static str,
    /// The action that the caller's role must allow.
    pub action: Action,
    /// An example of the body.
    pub example: Option<serde_json::Value>,
    /// Why the example is not a valid body; `None` if it is valid.
    pub example_problem: Option<String>,
    /// Whether requests have a body.
    pub takes_body: bool,
    /// Whether the body or the answer is bytes that are not JSON.
    pub streams: bool,
}

/// Returns the description of every route.
pub fn route_list() -> Vec<RouteInfo> {
    let info = |route: Route| RouteInfo {
        method: route.method.to_string(),
        path: route.path,
        action: route.action,
        example_problem: route.example.as_ref().and_then(|example| (route.check_body)(example).err()).map(|p| p.detail),
        takes_body: route.takes_body(),
        streams: route.streams.is_some(),
        example: route.example,
    };
    all().into_iter().map(info).collect()
}

/// The query of a list without filters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    pub(crate) cursor: Option<String>,
    /// Maximum number of items, from 1 to 1000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    pub(crate) limit: Option<usize>,
}

/// The order of a list.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListOrder {
    #[default]
    Oldest,
    Newest,
}

/// The query of a `DELETE`, which has no body.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonQuery {
    /// A reason that the journal records.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// The query of a `GET` of one resource, which may ask for its past.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PastQuery {
    /// Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
    /// now.
    #[serde(default)]
    pub(crate) at: Option<String>,
}

impl PastQuery {
    /// Returns the requested moment; `None` for now.
    pub(crate) fn moment(&self) -> Result<Option<Moment>, Problem> {
        let parse = |text: &String| match text.parse() {
            Ok(position) => Ok(Moment::After(position)),
            Err(_) => text.parse().map(Moment::At).map_err(|_| {
                Problem::invalid(
                    "at".into(),
                    "at must be a time such as 2026-11-15T10:00:00Z, or a position of the journal such as 1200",
                )
            }),
        };
        self.at.as_ref().map(parse).transpose()
    }

    /// Returns the problem of a resource that is not there, or was not at the requested moment.
    pub(crate) fn not_found(&self, what: impl std::fmt::Display) -> Problem {
        match &self.at {
            Some(at) => Problem::not_found(format_args!("{what} at {at}")),
            None => Problem::not_found(what),
        }
    }
}

/// Checks the requested page size.
pub(crate) fn page_size(limit: Option<usize>) -> Result<usize, Problem> {
    match limit.unwrap_or(PAGE_DEFAULT) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(Problem::invalid("limit".into(), format!("limit must be from 1 to {PAGE_MAX}"))),
    }
}

/// The detail of the problem for an invalid cursor.
pub(crate) const BAD_CURSOR: &str = "cursor must be the value of `next` from the previous page";

/// Parses a cursor that is a name. Stored names may predate the current rules for names, so only the rules for storage apply.
pub(crate) fn name_cursor<T: Name>(text: Option<&str>) -> Result<Option<T>, Problem> {
    let invalid = |_| Problem::invalid("cursor".into(), BAD_CURSOR);
    text.map(|text| T::stored(text).map_err(invalid)).transpose()
}

/// Parses a cursor.
pub(crate) fn cursor<T: std::str::FromStr>(text: Option<&str>) -> Result<Option<T>, Problem> {
    let parse = |text: &str| text.parse().map_err(|_| Problem::invalid("cursor".into(), BAD_CURSOR));
    text.map(parse).transpose()
}
