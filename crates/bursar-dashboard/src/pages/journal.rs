//! The journal: newest events first, with filters in the URL.

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use bursar_client::JournalQuery;
use bursar_core::event::Event;
use bursar_core::time::{Span, Time};
use bursar_wire::event::EventAnswer;
use maud::{Markup, html};
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::view::{badge, form, json, list, time};
use crate::visit::Visit;

/// Events that a page searches.
const PAGE: usize = 200;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/journal", get(show))
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    kind: String,
    /// The first and the last day, in UTC.
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    cursor: Option<u64>,
    #[serde(default)]
    follow: Option<String>,
}

async fn show(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let query = JournalQuery {
        stream: text(&filter.stream),
        kind: text(&filter.kind),
        limit: Some(PAGE),
        newest: true,
        before: filter.cursor,
        from: start_of(&filter.from)?.map(|day| day.to_string()),
        to: start_of(&filter.to)?.map(|day| day.after(Span::from_days(1)).to_string()),
        ..JournalQuery::default()
    };
    let page = visit.client.journal().read(&query).await?.into_inner();
    let following = filter.follow.is_some();
    let follow = list::with_query(&visit, "follow", if following { None } else { Some("1") });
    let acts = html! { a.toggle href=(follow) role="button" aria-pressed=(if following { "true" } else { "false" }) { "Follow" } };
    let body = html! {
        (head_of(&visit, &[], &html! { "Journal" }, &html! { "Newest first" }, &acts))
        section.card {
            form.filters method="get" {
                @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
                (form::field("stream", "Object", &filter.stream, "scope:acme/research, job_…, hold_…"))
                (kinds(&filter.kind))
                (day("from", "From", &filter.from))
                (day("to", "To, included", &filter.to))
                div.acts { button.btn.is-primary { "Search" } a.btn.is-quiet href=(visit.url("/journal")) { "Clear" } }
            }
            @if !following { button.news type="button" data-news="events" hidden {} }
            div data-live #journal { (rows(&visit, &page.items)) }
            (list::pager(&visit, page.items.len(), "events", page.next.as_deref()))
        }
    };
    let live = if following { Live::Replace("journal".to_owned()) } else { Live::Announce("journal".to_owned()) };
    Ok(shell::page(&visit, "Journal", &live, &body))
}

/// Returns the beginning of a day in UTC; `None` if no day is given.
fn start_of(day: &str) -> Result<Option<Time>, Failure> {
    match day.trim() {
        "" => Ok(None),
        day => Ok(Some(format!("{day}T00:00:00Z").parse()?)),
    }
}

fn day(name: &str, label: &str, value: &str) -> Markup {
    html! {
        div.field.is-day { label for={ "f-" (name) } { (label) } input id={ "f-" (name) } type="date" name=(name) value=(value); }
    }
}

/// Shows all kinds of events, and groups of them.
fn kinds(chosen: &str) -> Markup {
    let group = |kind: &'static str| kind.split('.').next().unwrap_or_default();
    let mut groups: Vec<&str> = Event::KINDS.iter().map(|kind| group(kind)).collect();
    groups.dedup();
    let known = chosen.is_empty() || groups.contains(&chosen) || Event::KINDS.contains(&chosen);
    html! {
        div.field {
            label for="f-kind" { "Kind" }
            select #f-kind name="kind" {
                option value="" { "any kind" }
                @if !known { option value=(chosen) selected { (chosen) } }
                @for name in groups {
                    optgroup label=(name) {
                        option value=(name) selected[name == chosen] { "all of " (name) }
                        @for kind in Event::KINDS.iter().filter(|kind| group(kind) == name) { option value=(kind) selected[*kind == chosen] { (kind) } }
                    }
                }
            }
        }
    }
}

fn rows(visit: &Visit, events: &[EventAnswer]) -> Markup {
    if events.is_empty() {
        return list::empty(
            "No events here",
            "Nothing in this part of the journal matches. The next page searches further back.",
            None,
        );
    }
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Events" {
            table.table.stacks {
                thead { tr { th.num scope="col" { "Position" } th scope="col" { "Event" } th scope="col" { "Object" } th scope="col" { "By" } th scope="col" { "Reason" } th.num scope="col" { "When" } th scope="col" { span.sr-only { "Data" } } } }
                tbody {
                    @for event in events {
                        tr {
                            td.num { (event.position) }
                            td { (badge::event_kind(&event.kind)) " " (badge::event_detail(event)) }
                            td.clip { (object(visit, event)) }
                            td { (event.actor.id.as_deref().unwrap_or(&event.actor.kind)) }
                            td.clip.muted { (event.reason.as_deref().unwrap_or_default()) }
                            td.num { (time::relative(event.at.as_deref(), visit.now)) }
                            td { details.disclosure { summary.btn.is-small.is-quiet { "Data" } (json::value_block(&event.data)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Shows the object of an event, as a link if it has a page.
fn object(visit: &Visit, event: &EventAnswer) -> Markup {
    let id = event.stream.id.as_str();
    let encoded = crate::visit::encoded(id);
    let path = match event.stream.kind.as_ref() {
        "job" => format!("/jobs/{encoded}"),
        "scope" => format!("/budgets/{encoded}"),
        "queue" => format!("/queues/{encoded}"),
        _ => return list::plain_id(id),
    };
    list::id(&visit.url(&path), id)
}
