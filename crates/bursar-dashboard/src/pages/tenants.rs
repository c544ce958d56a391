//! The tenants of the installation, for operators.

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use maud::html;
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::view::list;
use crate::visit::{Visit, encoded};

/// Tenants on a page.
const PAGE: usize = 200;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/tenants", get(show))
}

#[derive(Deserialize)]
struct PageQuery {
    #[serde(default)]
    cursor: Option<String>,
}

async fn show(visit: Visit, Query(query): Query<PageQuery>) -> Result<Response, Failure> {
    visit.require("tenants.read")?;
    let page = visit.client.tenants().list(query.cursor.as_deref(), PAGE).await?.into_inner();
    let current = visit.tenant.as_ref().unwrap_or(&visit.who.tenant);
    let body = html! {
        (head_of(&visit, &[], &html! { "Tenants" }, &html! { "Those that have budgets, by name" }, &html! {}))
        section.card {
            @if page.items.is_empty() {
                (list::empty("No tenants yet", "A tenant is listed as soon as it has a budget, or has charged one.", None))
            } @else {
                div.table-wrap {
                    table.table {
                        thead { tr { th scope="col" { "Tenant" } th scope="col" { span.sr-only { "Pages" } } } }
                        tbody { @for tenant in &page.items {
                            @let query = format!("?tenant={}", encoded(tenant.name.as_str()));
                            tr {
                                th scope="row" {
                                    a href={ "/" (query) } aria-current=[(tenant.name == *current).then_some("true")] { (tenant.name) }
                                    @if tenant.name == *current { " " span.tag { "shown now" } }
                                }
                                td { div.acts {
                                    @for (path, label) in [("/budgets", "Budgets"), ("/jobs", "Jobs"), ("/tokens", "Tokens")] {
                                        a.btn.is-small href={ (path) (query) } { (label) }
                                    }
                                } }
                            }
                        } }
                    }
                }
            }
            (list::pager(&visit, page.items.len(), "tenants", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Tenants", &Live::Still, &body))
}
