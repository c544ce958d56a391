//! Grants, without their tokens.

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::GrantId;
use maud::html;
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::suggested::MINT_GRANT;
use crate::view::{badge, form, list, time};
use crate::visit::{Act, Visit};

/// Grants on a page.
const PAGE: usize = 100;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/grants", get(show)).route("/grants/{id}/revoke", post(revoke))
}

#[derive(Deserialize)]
struct PageQuery {
    #[serde(default)]
    cursor: Option<String>,
}

async fn show(visit: Visit, Query(query): Query<PageQuery>) -> Result<Response, Failure> {
    let page = visit.client.grants().newest(query.cursor.as_deref(), PAGE).await?.into_inner();
    let body = html! {
        (head_of(&visit, &[], &html! { "Grants" }, &html! { "Tokens that can be redeemed once, newest first" }, &html! {}))
        section.card {
            div data-live #grants {
                @if page.items.is_empty() {
                    (list::empty("No grants", "A grant lets its holder do one thing once, such as an upload.", Some(MINT_GRANT)))
                } @else {
                    div.table-wrap tabindex="0" role="region" aria-label="Grants" {
                        table.table.stacks {
                            thead { tr { th scope="col" { "Grant" } th scope="col" { "State" } th scope="col" { "Purpose" } th scope="col" { "Subject" } th.num scope="col" { "Expires" } th scope="col" { span.sr-only { "Acts" } } } }
                            tbody {
                                @for grant in &page.items {
                                    tr {
                                        td.lead-half { (list::plain_id(&grant.id.to_string())) }
                                        td.at-end { (badge::of_word(&grant.state)) }
                                        td data-label="for" { (grant.purpose) }
                                        td data-label="subject" { (grant.subject) }
                                        td.num data-label="expires" { (time::relative(grant.expires_at.as_deref(), visit.now)) }
                                        td { div.acts {
                                            @if visit.may("grants.write") && grant.state == "open" {
                                                (form::with_reason(&visit, &format!("/grants/{}/revoke", grant.id), "Revoke", "is-small is-danger", &html! {}))
                                            }
                                        } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            (list::pager(&visit, page.items.len(), "grants", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Grants", &Live::Announce("journal".to_owned()), &body))
}

async fn revoke(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let id: GrantId = id.parse()?;
    act.visit.client.grants().revoke(id, act.field("reason")).await?;
    Ok(act.visit.done("/grants", "The grant is revoked; its token is refused from now on."))
}
