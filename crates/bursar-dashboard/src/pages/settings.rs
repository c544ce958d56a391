//! Settings and health of the server, and what the visitor may do.

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::{Bytes, Request};
use maud::html;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::view::{badge, form};
use crate::visit::{Act, Visit};

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/settings", get(show)).route("/settings/verify", post(verify))
}

async fn show(visit: Visit) -> Result<Response, Failure> {
    let request = Request::get("/readyz").body(Bytes::new()).map_err(|_| Failure::NoPage)?;
    let ready = visit.api.call(request, visit.caller).await.status().is_success();
    let facts = visit.api.facts().await;
    let who = &visit.who;
    let body = html! {
        (head_of(&visit, &[], &html! { "Settings and health" }, &html! {}, &html! {}))
        div.cols {
            section.card {
                div.card-head {
                    h2 { "Server" }
                    span.meta { @if ready { (badge::badge("ok", "ready")) } @else { (badge::badge("bad", "not ready")) } }
                }
                div.card-body {
                    dl.kv { @for (name, value) in &facts { dt { (name) } dd { (value) } } }
                    @if visit.may("verify") {
                        p.muted { "The check compares every balance with its holds and postings. It reads the whole database." }
                        (form::button(&visit, "/settings/verify", "Check all balances", ""))
                    }
                }
            }
            section.card {
                div.card-head { h2 { "You" } }
                div.card-body {
                    dl.kv {
                        dt { "Name" } dd { (who.name) }
                        dt { "Role" } dd { span.tag.is-role { (who.role.name()) } }
                        dt { "Tenant" } dd { (who.tenant) }
                        dt { "May" } dd { @for action in &who.actions { code { (action) } " " } }
                    }
                }
            }
        }
    };
    Ok(shell::page(&visit, "Settings and health", &Live::Still, &body))
}

async fn verify(act: Act) -> Result<Response, Failure> {
    let report = act.visit.client.verify().await?.into_inner();
    let checked = format!(
        "{} scopes, {} holds and {} jobs checked",
        report.checked.scopes, report.checked.holds, report.checked.jobs
    );
    Ok(match report.violations.as_slice() {
        [] => act.visit.done("/settings", format!("All balances are right: {checked}.")),
        found => act.visit.go("/settings", &crate::visit::Flash::Failed(format!("{checked}: {}", found.join("; ")))),
    })
}
