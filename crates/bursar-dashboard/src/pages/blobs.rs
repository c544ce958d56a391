//! Blobs, by namespace and state, newest first.

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use bursar_client::{BlobQuery, Namespace};
use bursar_wire::blob::{BlobAnswer, BlobListWord};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::suggested::PUT_BLOB;
use crate::view::{badge, bytes, form, list, time};
use crate::visit::Visit;

/// Blobs on a page.
const PAGE: usize = 100;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/blobs", get(show))
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    state: BlobListWord,
    #[serde(default)]
    cursor: Option<String>,
}

async fn show(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let named = Some(filter.namespace.trim()).filter(|name| !name.is_empty());
    let namespace = named.map(Namespace::new).transpose()?;
    let query = BlobQuery {
        namespace,
        state: filter.state,
        newest_first: true,
        cursor: filter.cursor.clone(),
        limit: Some(PAGE),
    };
    let page = visit.client.blobs().list(&query).await?.into_inner();
    let chosen = named.is_some() || filter.state != BlobListWord::default() || filter.cursor.is_some();
    let body = html! {
        (head_of(&visit, &[], &html! { "Blobs" }, &html! { "Files that jobs use and make, newest first" }, &html! {}))
        section.card {
            (filters(&visit, &filter))
            button.news type="button" data-news="blobs" data-one="blob" hidden {}
            div data-live #blobs {
                @if !page.items.is_empty() { (table(&visit, &page.items)) }
                @else if chosen { (list::empty("No blobs", "No blob matches. Choose another namespace or state.", None)) }
                @else { (list::empty("No blobs", "A blob is a file that a job uses or makes.", Some(PUT_BLOB))) }
            }
            (list::pager(&visit, page.items.len(), "blobs", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Blobs", &Live::Announce("journal".to_owned()), &body))
}

fn filters(visit: &Visit, filter: &Filter) -> Markup {
    let states = [
        (BlobListWord::Live, "live"),
        (BlobListWord::Deleted, "deleted"),
        (BlobListWord::Pending, "being uploaded"),
        (BlobListWord::All, "any state"),
    ];
    html! {
        form.filters method="get" action="/blobs" {
            @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
            fieldset.field.is-full {
                legend.sr-only { "State" }
                div.chips {
                    @for (state, word) in states {
                        label.chip { input type="radio" name="state" value=(state.as_str()) checked[filter.state == state]; span { (word) } }
                    }
                }
            }
            (form::field("namespace", "Namespace", &filter.namespace, "media"))
            div.acts { button.btn.is-primary { "Filter" } a.btn.is-quiet href=(visit.url("/blobs")) { "Clear" } }
        }
    }
}

/// Shows blobs as rows.
pub(crate) fn table(visit: &Visit, blobs: &[BlobAnswer]) -> Markup {
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Blobs" {
            table.table.stacks {
                thead { tr {
                    th scope="col" { "Blob" } th scope="col" { "State" } th scope="col" { "Namespace" } th scope="col" { "Type" }
                    th.num scope="col" { "Size" } th scope="col" { "References" } th.num scope="col" { "Created" }
                } }
                tbody { @for blob in blobs {
                    tr {
                        th.lead-half scope="row" { (name(visit, blob)) }
                        td.at-end { (badge::blob(blob.state)) }
                        td data-label="namespace" { (blob.namespace) }
                        td data-label="type" { (blob.content_type) }
                        td.num data-label="size" { (bytes::size(blob.size)) }
                        td data-label="references" { (references(blob)) }
                        td.num data-label="created" { (time::relative(blob.created_at.as_deref(), visit.now)) }
                    }
                } }
            }
        }
    }
}

/// Shows the file name of a blob, or its id, as a link to its page.
pub(crate) fn name(visit: &Visit, blob: &BlobAnswer) -> Markup {
    let (id, path) = (blob.id.to_string(), visit.url(&format!("/blobs/{}", blob.id)));
    match &blob.filename {
        Some(filename) => html! { a href=(path) title=(id) { (filename) } },
        None => list::id(&path, &id),
    }
}

/// Tells how many references a blob has.
fn references(blob: &BlobAnswer) -> Markup {
    let counted = |count: u64, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let names = blob.references.len() as u64;
    html! {
        @match (blob.jobs, names) {
            (0, 0) => span.muted { "none" },
            (jobs, 0) => { (counted(jobs, "job", "jobs")) }
            (0, names) => { (counted(names, "name", "names")) }
            (jobs, names) => { (counted(jobs, "job", "jobs")) ", " (counted(names, "name", "names")) }
        }
    }
}
