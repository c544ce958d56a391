//! Finding anything by its id or name.

use axum::Router;
use axum::extract::Query;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::pages::budgets::INTERNAL;
use crate::shell::{self, Live, head_of};
use crate::view::list;
use crate::visit::{Visit, encoded};

/// Budgets that are searched for a part of their name. Beyond them, only the beginning of a name is found.
const SEARCHED: usize = 1_000;
/// Scopes and queues found.
const FOUND: usize = 10;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/search", get(show))
}

#[derive(Deserialize)]
struct SearchQuery {
    #[serde(default)]
    q: String,
    /// Only the list, for the dialog.
    #[serde(default)]
    part: Option<String>,
}

/// Something that was found: its path, its name, and what it is.
struct Hit {
    path: String,
    name: String,
    noun: &'static str,
}

async fn show(visit: Visit, Query(query): Query<SearchQuery>) -> Result<Response, Failure> {
    let hits = find(&visit, query.q.trim()).await?;
    if query.part.is_some() {
        return Ok(results(&visit, &hits).into_string().into_response());
    }
    if let [only] = hits.as_slice() {
        return Ok(Redirect::to(&visit.url(&only.path)).into_response());
    }
    let body = html! {
        (head_of(&visit, &[], &html! { "Find" }, &html! {}, &html! {}))
        section.card {
            form.filters method="get" {
                @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
                div.field.is-grow { label for="q" { "An id, or the beginning of a scope or queue" } input.mono #q name="q" value=(query.q) autofocus; }
                div.acts { button.btn.is-primary { "Find" } }
            }
            div.palette-list role="listbox" aria-label="Found" { (results(&visit, &hits)) }
            @if hits.is_empty() && !query.q.is_empty() { (list::empty("Nothing found", "No job has this id, and no budget or queue of this tenant is named like that.", None)) }
        }
    };
    Ok(shell::page(&visit, "Find", &Live::Still, &body))
}

fn results(visit: &Visit, hits: &[Hit]) -> Markup {
    html! {
        @for (at, hit) in hits.iter().enumerate() {
            a id={ "found-" (at) } role="option" href=(visit.url(&hit.path)) { (hit.name) span.where { (hit.noun) } }
        }
    }
}

async fn find(visit: &Visit, text: &str) -> Result<Vec<Hit>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut hits = Vec::new();
    if let Some(hit) = by_id(text) {
        hits.push(hit);
    }
    if visit.may("budgets.read")
        && let Ok(found) = visit.client.budgets().list("", None, SEARCHED).await
    {
        let scopes = found.into_inner().items.into_iter().map(|budget| budget.scope.to_string());
        let named = scopes.filter(|scope| scope.contains(text) && !scope.starts_with(INTERNAL));
        hits.extend(named.take(FOUND).map(|scope| Hit {
            path: format!("/budgets/{}", encoded(&scope)),
            name: scope,
            noun: "budget",
        }));
    }
    if visit.may("budgets.read")
        && hits.len() < FOUND
        && let Ok(found) = visit.client.budgets().list(text, None, FOUND).await
    {
        let scopes = found.into_inner().items.into_iter().map(|budget| budget.scope.to_string());
        let more: Vec<String> = scopes.filter(|scope| !hits.iter().any(|hit| hit.name == *scope)).collect();
        hits.extend(more.into_iter().map(|scope| Hit {
            path: format!("/budgets/{}", encoded(&scope)),
            name: scope,
            noun: "budget",
        }));
    }
    if visit.may("queues.read") {
        let queues = visit.client.queues().list(None, 100).await?.into_inner().items;
        let named = queues.into_iter().map(|queue| queue.name.to_string()).filter(|name| name.contains(text));
        hits.extend(named.take(FOUND).map(|name| Hit {
            path: format!("/queues/{}", encoded(&name)),
            name,
            noun: "queue",
        }));
    }
    // What begins with the text comes before what only contains it.
    hits.sort_by_key(|hit| !hit.name.starts_with(text));
    Ok(hits)
}

/// Returns the page of an id, which its prefix tells.
fn by_id(text: &str) -> Option<Hit> {
    let (prefix, _) = text.split_once('_').filter(|(_, rest)| rest.len() >= 20)?;
    let (path, noun) = match prefix {
        "job" => (format!("/jobs/{}", encoded(text)), "job"),
        "blob" => (format!("/blobs/{}", encoded(text)), "blob"),
        "hold" | "cmd" | "grant" | "tx" => (format!("/journal?stream={}", encoded(text)), "events"),
        _ => return None,
    };
    Some(Hit { path, name: text.to_owned(), noun })
}
