//! Routes that need only the records of blobs: lists, metadata, deletion, references.

use axum::http::Method;
use bursar::page::{PageFill, PageItem};
use bursar::{BlobId, BlobOp, Namespace, Op, Referrer, page};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::reach;
use crate::call::{Call, Input, NoFields};
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::{NoContent, Reply};
use crate::route::Route;
use crate::routes::{ListOrder, PastQuery, ReasonQuery, cursor, page_size};
use crate::wire::Page;
use crate::wire::blob::{BlobAnswer, BlobListWord};
use crate::wire::budget::ReasonBody;
use crate::wire::problem::Problem;

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Action::BlobsRead, Action::BlobsWrite);
    let reference = "/v1/blobs/{id}/references/{name}";
    vec![
        Route::new(
            Method::GET,
            "/v1/blobs",
            read,
            "List blobs in the order they were created; without `state`, those that can be read",
            list,
        )
        .pages(),
        Route::new(Method::GET, "/v1/blobs/{id}/meta", read, "Get what is known about a blob", meta).carries_payloads(),
        Route::new(Method::DELETE, "/v1/blobs/{id}", write, "Delete a blob; it can be restored for a while", delete),
        Route::new(Method::POST, "/v1/blobs/{id}/restore", write, "Restore a deleted blob", restore)
            .carries_payloads()
            .example(json!({ "reason": "deleted by mistake" })),
        Route::new(Method::PUT, reference, write, "Keep a blob for something of the application, by name", refer)
            .example(json!({ "reason": "published" })),
        Route::new(Method::DELETE, reference, write, "End a reference of the application to a blob", release),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// The namespace of the blobs. Default: all.
    #[serde(default)]
    namespace: Option<Namespace>,
    /// Which blobs: `live`, `deleted`, `pending` or `all`. Default: `live`.
    #[serde(default)]
    state: BlobListWord,
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// The order of the blobs: `oldest` or `newest` first. Default: `oldest`.
    #[serde(default)]
    order: ListOrder,
    /// Maximum number of items, from 1 to 1000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

/// The most pages of records that one request reads. A page of a list may have fewer items than its limit, and a next page.
const READS_MAX: usize = 10;

async fn list(input: Input<(), ListQuery>) -> Result<Reply<Page<BlobAnswer>>, Problem> {
    let ListQuery { namespace, state, cursor: at, order, limit } = input.query;
    let (limit, mut mark, namespace) = (page_size(limit)?, cursor(at.as_deref())?, namespace.as_ref());
    reach::check_listed(&input.call, namespace)?;
    let bursar = input.call.bursar();
    let (mut items, mut fill) = (Vec::new(), PageFill::new(limit));
    for _ in 0..READS_MAX {
        let found = match order {
            ListOrder::Oldest => bursar.blob_records().list(namespace, mark, limit).await?,
            ListOrder::Newest => bursar.blob_records().newest(namespace, mark, limit).await?,
        };
        let more = page::is_full(&found, limit);
        for blob in &found {
            let answer = BlobAnswer::from(blob);
            mark = Some(blob.id);
            if !state.has(answer.state) {
                continue;
            }
            fill.add(blob.bytes());
            items.push(answer);
            if fill.is_full() {
                return Ok(Reply::new(Page { items, next: Some(blob.id.to_string()) }));
            }
        }
        if !more {
            return Ok(Reply::new(Page { items, next: None }));
        }
    }
    Ok(Reply::new(Page { items, next: mark.map(|id: BlobId| id.to_string()) }))
}

async fn meta(input: Input<BlobId, PastQuery>) -> Result<Reply<BlobAnswer>, Problem> {
    let blob = reach::readable(&input.call, input.parameter).await?;
    let Some(moment) = input.query.moment()? else { return Ok(Reply::new(BlobAnswer::from(&blob))) };
    let found = input.call.bursar().past(moment).await?.blob(blob.id).await?;
    let found = found.ok_or_else(|| input.query.not_found(format_args!("blob {}", blob.id)))?;
    Ok(Reply::new(BlobAnswer::from(&found)))
}

async fn delete(input: Input<BlobId, ReasonQuery>) -> Result<NoContent, Problem> {
    let blob = input.parameter;
    change(input.call.with_reason(input.query.reason), blob, BlobOp::Delete { blob }).await
}

async fn restore(input: Input<BlobId, NoFields, ReasonBody>) -> Result<Reply<BlobAnswer>, Problem> {
    let (call, blob) = (input.call.with_reason(input.body.reason), input.parameter);
    let NoContent { replayed } = change(call.clone(), blob, BlobOp::Restore { blob }).await?;
    let found = call.bursar().blob_records().find(blob).await?.ok_or_else(|| Problem::unknown_blob(blob))?;
    Ok(Reply::new(BlobAnswer::from(&found)).replayed(replayed))
}

async fn refer(input: Input<(BlobId, Referrer), NoFields, ReasonBody>) -> Result<NoContent, Problem> {
    let (blob, by) = input.parameter;
    change(input.call.with_reason(input.body.reason), blob, BlobOp::Reference { blob, by }).await
}

async fn release(input: Input<(BlobId, Referrer), ReasonQuery>) -> Result<NoContent, Problem> {
    let (blob, by) = input.parameter;
    change(input.call.with_reason(input.query.reason), blob, BlobOp::Release { blob, by }).await
}

/// Changes a blob that the caller reaches.
async fn change(call: Call, blob: BlobId, op: BlobOp) -> Result<NoContent, Problem> {
    reach::check_writable(&call, blob).await?;
    let outcome = call.run(Op::Blob(op)).await?;
    Ok(NoContent { replayed: outcome.replayed })
}
