//! One blob: what is known about it, what refers to it, its links and its bytes.

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bursar_client::{BlobId, Bytes, KeyId, Referrer, Request};
use bursar_wire::blob::{BlobAnswer, BlobStateWord};
use bursar_wire::upload::{LinkAct, LinkBody, LinkInfo};
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::view::{badge, bytes, form, json, list, time};
use crate::visit::{Act, Flash, Visit, encoded};

/// Links of the tenant among which those of the blob are looked for.
const LINKS: usize = 1_000;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/blobs/{id}", get(show))
        .route("/blobs/{id}/download", get(download))
        .route("/blobs/{id}/delete", post(delete))
        .route("/blobs/{id}/restore", post(restore))
        .route("/blobs/{id}/link", post(link))
        .route("/blobs/{id}/links/{link}/revoke", post(revoke))
        .route("/blobs/{id}/refer", post(refer))
        .route("/blobs/{id}/release", post(release))
}

async fn show(visit: Visit, Path(id): Path<String>) -> Result<Response, Failure> {
    let id: BlobId = id.parse()?;
    let blob = visit.client.blobs().meta(id).await?.into_inner();
    let links = match visit.may("blobs.write") {
        true => visit.client.blobs().links(None, LINKS).await?.into_inner().items,
        false => Vec::new(),
    };
    let links: Vec<LinkInfo> = links.into_iter().filter(|link| link.blob == id && link.act == LinkAct::Read).collect();
    let title = blob.filename.clone().unwrap_or_else(|| id.to_string());
    let body = html! {
        (head(&visit, &blob))
        div.cols.is-aside {
            div.stack {
                section.card data-live #about { div.card-head { h2 { "About" } } div.card-body { (about(&blob)) } }
                @if blob.metadata.as_str() != "null" {
                    section.card { div.card-head { h2 { "Metadata" } } (json::payload(&blob.metadata)) }
                }
            }
            div.stack {
                section.card data-live #references { (references(&visit, &blob)) }
                @if visit.may("blobs.write") { section.card data-live #links { (links_of(&visit, &blob, &links)) } }
            }
        }
    };
    Ok(shell::page(&visit, &title, &Live::Replace("journal".to_owned()), &body))
}

fn head(visit: &Visit, blob: &BlobAnswer) -> Markup {
    let (id, path) = (blob.id.to_string(), format!("/blobs/{}", blob.id));
    let title = html! { (blob.filename.as_deref().unwrap_or(&id)) (badge::blob(blob.state)) };
    let meta = html! { span.id { (id) (list::copy(&id)) } };
    let acts = html! {
        @if visit.may("journal.read") { a.btn.is-quiet href=(visit.url(&format!("/journal?stream={id}"))) { "Events" } }
        @if blob.state == BlobStateWord::Live {
            a.btn.is-primary href=(visit.url(&format!("{path}/download"))) { "Download" }
        }
        @if visit.may("blobs.write") {
            @if blob.state == BlobStateWord::Live {
                (form::with_reason(visit, &format!("{path}/delete"), "Delete", "is-danger", &html! {}))
            }
            @if blob.state == BlobStateWord::Deleted { (form::with_reason(visit, &format!("{path}/restore"), "Restore", "", &html! {})) }
        }
    };
    let namespace = format!("/blobs?namespace={}", encoded(blob.namespace.as_str()));
    head_of(visit, &[("/blobs", "Blobs"), (&namespace, blob.namespace.as_str())], &title, &meta, &acts)
}

fn about(blob: &BlobAnswer) -> Markup {
    let exact = |at: &Option<String>| at.as_deref().map(time::exact).unwrap_or_default();
    html! {
        dl.kv {
            dt { "Size" } dd { (bytes::size(blob.size)) @if let Some(size) = blob.size { " " span.quiet { "(" (size) " bytes)" } } }
            dt { "Type" } dd { code { (blob.content_type) } }
            @if let Some(digest) = &blob.sha256 { dt { "SHA-256" } dd { (list::plain_id(&digest.to_string())) } }
            dt { "Stored in" } dd { (blob.backend) }
            dt { "Created" } dd { (exact(&blob.created_at)) }
            dt { "Created by" } dd { (blob.created_by.kind) @if let Some(id) = &blob.created_by.id { " " (id) } }
            @if blob.deleted_at.is_some() { dt { "Deleted" } dd { (exact(&blob.deleted_at)) } }
        }
    }
}

fn references(visit: &Visit, blob: &BlobAnswer) -> Markup {
    let path = format!("/blobs/{}", blob.id);
    let may_refer = visit.may("blobs.write") && blob.state == BlobStateWord::Live;
    html! {
        div.card-head {
            h2 { "References" }
            @if may_refer { span.more { (form::in_menu(visit, &format!("{path}/refer"), "Refer to it", "is-small", &form::field("name", "Name", "", "post:42"))) } }
        }
        div.card-body {
            @if blob.jobs == 0 && blob.references.is_empty() {
                p.muted { "Nothing refers to this blob, so it may be collected if its namespace says so." }
            }
            dl.kv {
                @if blob.jobs > 0 { dt { "Jobs" } dd { (blob.jobs) @if blob.jobs == 1 { " job uses or made it" } @else { " jobs use or made it" } } }
                @for name in &blob.references {
                    dt { "Name" }
                    dd { div.acts {
                        code { (name) }
                        @if visit.may("blobs.write") {
                            form method="post" action=(visit.url(&format!("{path}/release"))) {
                                (form::token(visit))
                                input type="hidden" name="name" value=(name);
                                button.btn.is-small aria-label={ "Release " (name) } { "Release" }
                            }
                        }
                    } }
                }
            }
        }
    }
}

fn links_of(visit: &Visit, blob: &BlobAnswer, links: &[LinkInfo]) -> Markup {
    let path = format!("/blobs/{}", blob.id);
    let hours = form::field("hours", "Valid for hours", "1", "1");
    html! {
        div.card-head {
            h2 { "Links" } @if !links.is_empty() { span.meta { (links.len()) } }
            @if blob.state == BlobStateWord::Live { span.more { (form::in_menu(visit, &format!("{path}/link"), "Create a link", "is-small", &hours)) } }
        }
        @if links.is_empty() {
            div.card-body { p.muted { "A link lets people without a token download this blob until it expires." } }
        } @else {
            div.table-wrap tabindex="0" role="region" aria-label="Links" {
                table.table.stacks {
                    thead { tr { th scope="col" { "Link" } th scope="col" { "State" } th.num scope="col" { "Expires" } th scope="col" { span.sr-only { "Acts" } } } }
                    tbody { @for link in links {
                        tr {
                            td.lead-half { (list::plain_id(&link.id)) }
                            td.at-end { (badge::of_word(&link.state)) }
                            td.num data-label="expires" { (time::relative(link.expires_at.as_deref(), visit.now)) }
                            td { div.acts { @if link.state == "good" { (form::button(visit, &format!("{path}/links/{}/revoke", encoded(&link.id)), "Revoke", "is-small is-danger")) } } }
                        }
                    } }
                }
            }
        }
    }
}

/// Passes the bytes on, as a file to save: they never become a page of the dashboard.
async fn download(visit: Visit, Path(id): Path<String>, headers: HeaderMap) -> Result<Response, Failure> {
    let id: BlobId = id.parse()?;
    let filename = visit.client.blobs().meta(id).await?.into_inner().filename;
    let mut request =
        Request::get(format!("/v1/blobs/{id}")).header(header::AUTHORIZATION, format!("Bearer {}", visit.token()));
    if let Some(tenant) = &visit.tenant {
        request = request.header("bursar-tenant", tenant.as_str());
    }
    for name in [header::RANGE, header::IF_RANGE, header::IF_NONE_MATCH] {
        if let Some(value) = headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Bytes::new()).map_err(|_| Failure::NoPage)?;
    let mut response = visit.api.call(request, visit.caller).await.map(Body::new).into_response();
    if response.status().is_success() {
        let name = filename.map(|name| format!("; filename*=UTF-8''{}", encoded(&name))).unwrap_or_default();
        if let Ok(value) = HeaderValue::from_str(&format!("attachment{name}")) {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
        }
    }
    Ok(response)
}

async fn delete(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let id: BlobId = id.parse()?;
    let done = act.visit.client.blobs().delete(id, act.field("reason")).await;
    told(
        &act,
        id,
        done.map(drop).map_err(Failure::from),
        "The blob is deleted. It can be restored until it is collected.",
    )
}

async fn restore(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let id: BlobId = id.parse()?;
    let done = act.visit.client.blobs().restore(id, act.field("reason")).await;
    told(&act, id, done.map(drop).map_err(Failure::from), "The blob is restored.")
}

async fn link(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    const HOUR_MS: u64 = 3_600_000;
    let id: BlobId = id.parse()?;
    let path = format!("/blobs/{id}");
    let Some(Ok(hours)) = act.field("hours").map(str::parse::<u16>) else {
        return Ok(act.visit.go(&path, &Flash::Failed("The hours must be a whole number, such as 24.".to_owned())));
    };
    let body = LinkBody { expires_in_ms: Some(u64::from(hours) * HOUR_MS) };
    match act.visit.client.blobs().link(id, &body).await {
        Ok(link) => {
            let url = link.into_inner().url.unwrap_or_default();
            // The request came from inside of the process, so its address has no host that a browser reaches.
            let place = url.find("/l/").unwrap_or_default();
            let address = format!("{}{}", act.visit.origin, &url[place..]);
            Ok(act.visit.go(&path, &Flash::Link { address }))
        }
        Err(error) => act.visit.failed(&path, error.into()),
    }
}

async fn revoke(Path((id, link)): Path<(String, String)>, act: Act) -> Result<Response, Failure> {
    let (id, link): (BlobId, KeyId) = (id.parse()?, link.parse()?);
    let done = act.visit.client.blobs().revoke_link(link).await;
    told(&act, id, done.map(drop).map_err(Failure::from), "The link is revoked; its address is refused from now on.")
}

async fn refer(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let (id, name) = (id.parse()?, Referrer::new(act.field("name").unwrap_or_default())?);
    let done = act.visit.client.blobs().reference(id, &name, None).await;
    told(&act, id, done.map(drop).map_err(Failure::from), "The reference is made.")
}

async fn release(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let (id, name) = (id.parse()?, Referrer::new(act.field("name").unwrap_or_default())?);
    let done = act.visit.client.blobs().release(id, &name, None).await;
    told(&act, id, done.map(drop).map_err(Failure::from), "The reference is released.")
}

fn told(act: &Act, id: BlobId, done: Result<(), Failure>, text: &str) -> Result<Response, Failure> {
    let path = format!("/blobs/{id}");
    match done {
        Ok(()) => Ok(act.visit.done(&path, text)),
        Err(failure) => act.visit.failed(&path, failure),
    }
}
