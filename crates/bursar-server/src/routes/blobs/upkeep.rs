//! What operators do with the bytes of blobs: collect, look for orphans, move to another backend.

use axum::http::Method;
use bursar_blobs::ORPHAN_AGE;
use serde_json::json;

use super::storage;
use crate::call::{Input, NoFields};
use crate::convert::blob_problem;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::{RetrySafety, Route};
use crate::wire::problem::Problem;
use crate::wire::upload::{GcAnswer, GcBody, OrphanAnswer, OrphansAnswer, OrphansBody, RelocateAnswer, RelocateBody};

pub(super) fn routes() -> Vec<Route> {
    let manage = Action::BlobsManage;
    let repeatable = RetrySafety::Repeatable;
    vec![
        Route::new(Method::POST, "/v1/blobs/gc", manage, "Collect blobs that nothing needs any more", collect)
            .retry_safety(repeatable)
            .waits()
            .example(json!({ "dry_run": true })),
        Route::new(Method::POST, "/v1/blobs/orphans", manage, "Compare the storage backends with the records", orphans)
            .retry_safety(repeatable)
            .waits()
            .example(json!({ "remove": false })),
        Route::new(Method::POST, "/v1/blobs/move", manage, "Move the bytes of some blobs to another backend", relocate)
            .retry_safety(repeatable)
            .waits()
            .example(json!({ "to": "s3" })),
    ]
}

/// The most blobs that one request collects or moves.
const BLOBS_MAX: usize = 1_000;
/// How many blobs a request moves unless it says otherwise.
const MOVED_DEFAULT: usize = 100;

fn blobs_at_most(limit: Option<usize>, default: usize) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(default);
    let invalid = || Problem::invalid("limit".into(), format!("limit must be from 1 to {BLOBS_MAX}"));
    (1..=BLOBS_MAX).contains(&limit).then_some(limit).ok_or_else(invalid)
}

async fn collect(input: Input<(), NoFields, GcBody>) -> Result<Reply<GcAnswer>, Problem> {
    let GcBody { dry_run, limit } = input.body;
    let limit = blobs_at_most(limit, BLOBS_MAX)?;
    let report = storage(&input.call)?.collect(&input.call.bursar(), limit, dry_run).await.map_err(blob_problem)?;
    input.call.app.metrics.blobs.collected(report.collected);
    let (due, collected, bytes) = (report.due, report.collected, report.bytes);
    Ok(Reply::new(GcAnswer { dry_run, due, collected, bytes, failed: report.failed, more: report.more }))
}

async fn orphans(input: Input<(), NoFields, OrphansBody>) -> Result<Reply<OrphansAnswer>, Problem> {
    let bursar = input.call.bursar();
    let scanned = storage(&input.call)?.orphans(&bursar, ORPHAN_AGE, input.body.remove).await;
    let report = scanned.map_err(blob_problem)?;
    let orphan =
        |orphan: bursar_blobs::Orphan| OrphanAnswer { backend: orphan.backend, path: orphan.path, bytes: orphan.bytes };
    Ok(Reply::new(OrphansAnswer {
        objects: report.objects,
        blobs: report.blobs,
        orphans: report.orphans.into_iter().map(orphan).collect(),
        orphans_total: report.orphans_total,
        orphan_bytes: report.orphan_bytes,
        deleted: report.deleted,
        missing: report.missing,
        missing_total: report.missing_total,
    }))
}

async fn relocate(input: Input<(), NoFields, RelocateBody>) -> Result<Reply<RelocateAnswer>, Problem> {
    let RelocateBody { to, after, limit } = input.body;
    let blobs = storage(&input.call)?;
    if blobs.backends().named(to.as_str()).is_none() {
        return Err(Problem::invalid("to".into(), format!("the backend `{to}` is not configured")));
    }
    let limit = blobs_at_most(limit, MOVED_DEFAULT)?;
    let moved = blobs.move_some(&input.call.bursar(), &to, after, limit).await;
    let (report, next) = moved.map_err(blob_problem)?;
    let (moved, bytes, there) = (report.moved, report.bytes, report.there);
    Ok(Reply::new(RelocateAnswer { moved, bytes, there, failed: report.failed, next }))
}
