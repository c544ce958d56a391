//! Dead jobs, grouped by error.

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use bursar_client::Queue;
use bursar_wire::report::DeadGroupAnswer;
use maud::{Markup, html};
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::view::{amount, form, list, time};
use crate::visit::{Visit, encoded};

/// Groups on a page.
const PAGE: usize = 100;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/dead", get(show))
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    queue: String,
    #[serde(default)]
    cursor: Option<String>,
}

async fn show(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let queue = Some(filter.queue.trim()).filter(|queue| !queue.is_empty()).map(Queue::new).transpose()?;
    let page = visit.client.dead().groups(queue.as_ref(), filter.cursor.as_deref(), PAGE).await?.into_inner();
    let body = html! {
        (head_of(&visit, &[], &html! { "Dead jobs" }, &html! { "Jobs whose last attempt failed, grouped by error" }, &html! {}))
        section.card {
            form.filters method="get" {
                @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
                (form::field("queue", "Queue", &filter.queue, "media"))
                div.acts { button.btn { "Filter" } }
            }
            div data-live #dead {
                @if page.items.is_empty() { (list::empty("No dead jobs", "Every job has succeeded, or still has attempts left.", None)) }
                @else { (table(&visit, &page.items)) }
            }
            (list::pager(&visit, page.items.len(), "groups", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Dead jobs", &Live::Replace("journal".to_owned()), &body))
}

fn table(visit: &Visit, groups: &[DeadGroupAnswer]) -> Markup {
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Groups" {
            table.table.stacks {
                thead { tr {
                    th scope="col" { "Error" } th scope="col" { "Kind" } th.num scope="col" { "Jobs" } th.num scope="col" { "First" }
                    th.num scope="col" { "Last" } th scope="col" { span.sr-only { "Acts" } }
                } }
                tbody { @for group in groups { (row(visit, group)) } }
            }
        }
    }
}

fn row(visit: &Visit, group: &DeadGroupAnswer) -> Markup {
    let (queue, kind, fingerprint) = (group.queue.as_str(), group.kind.as_str(), group.error.fingerprint.as_str());
    let query = [("state", "dead"), ("queue", queue), ("kind", kind), ("fingerprint", fingerprint)];
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    html! {
        tr.is-bad {
            td.lead.wide { a href=(visit.url(&format!("/jobs?{}", query.join("&")))) title=(group.error.message) { code.bad { (group.error.kind) ": " (group.error.message) } } }
            td data-label="kind" { (kind) " " span.quiet { "in " (queue) } }
            td.num data-label="jobs" { strong { (amount::count(group.count)) } }
            td.num data-label="first" { (time::relative(Some(&group.first_at), visit.now)) }
            td.num data-label="last" { (time::relative(Some(&group.last_at), visit.now)) }
            td {
                @if visit.may("jobs.operate") {
                    form.acts method="post" action=(visit.url("/jobs/-/preview")) {
                        (form::token(visit))
                        input type="hidden" name="back" value="/dead";
                        @for (name, value) in [("state", "dead"), ("queue", queue), ("kind", kind), ("fingerprint", fingerprint)] {
                            input type="hidden" name=(name) value=(value);
                        }
                        button.btn.is-small name="act" value="retry-all" { "Retry…" }
                        button.btn.is-small.is-danger name="act" value="discard-all" { "Discard…" }
                    }
                }
            }
        }
    }
}
