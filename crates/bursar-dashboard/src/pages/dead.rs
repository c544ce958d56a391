//! Dead jobs, grouped by error.

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use bursar_client::JobQuery;
use maud::html;
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::pages::jobs::rows;
use crate::shell::{self, Live, head_of};
use crate::view::{form, list};
use crate::visit::Visit;

/// Jobs on a page.
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
    let queue = Some(filter.queue.trim()).filter(|queue| !queue.is_empty()).map(TryInto::try_into).transpose()?;
    let query = JobQuery { queue, cursor: filter.cursor, limit: Some(PAGE), ..JobQuery::default() };
    let page = visit.client.dead().list(&query).await?.into_inner();
    let body = html! {
        (head_of(&visit, &[], &html! { "Dead jobs" }, &html! { "Jobs whose last attempt failed" }, &html! {}))
        section.card {
            form.filters method="get" {
                @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
                (form::field("queue", "Queue", &filter.queue, "media"))
                div.acts { button.btn { "Filter" } }
            }
            div data-live #dead {
                @if page.items.is_empty() { (list::empty("No dead jobs", "Every job has succeeded, or still has attempts left.", None)) }
                @else { (rows(&visit, &page.items, false)) }
            }
            (list::pager(&visit, page.items.len(), "jobs", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Dead jobs", &Live::Replace("journal".to_owned()), &body))
}
