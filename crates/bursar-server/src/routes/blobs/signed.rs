//! Signed uploads: the caller sends the bytes to the backend, and commits them.

use std::time::Duration;

use axum::http::Method;
use bursar::BlobId;
use bursar_blobs::{NewBlob, Target, UploadedPart};
use serde_json::json;

use super::links::{self, Claims};
use super::{bytes, reach, storage};
use crate::call::{Input, NoFields};
use crate::convert::blob_problem;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::{RetrySafety, Route};
use crate::wire::blob::BlobAnswer;
use crate::wire::problem::Problem;
use crate::wire::stamp;
use crate::wire::upload::{CommitBlobBody, LinkAct, PartTarget, PresignAnswer, PresignBody, UploadTarget};

pub(super) fn routes() -> Vec<Route> {
    let write = Action::BlobsWrite;
    vec![
        Route::new(
            Method::POST,
            "/v1/blobs/presign",
            write,
            "Sign an upload that goes to the storage backend",
            presign,
        )
        .retry_safety(RetrySafety::Bytes)
        .carries_payloads()
        .example(json!({ "namespace": "media", "filename": "cat.png", "content_type": "image/png", "size": 1024,
                             "sha256": "0a".repeat(32) })),
        Route::new(Method::POST, "/v1/blobs/{id}/commit", write, "Complete a signed upload", commit)
            .retry_safety(RetrySafety::Repeatable)
            .carries_payloads()
            .example(json!({})),
    ]
}

async fn presign(input: Input<(), NoFields, PresignBody>) -> Result<Reply<PresignAnswer>, Problem> {
    let (call, body) = (input.call, input.body);
    let ttl = links::ttl(body.expires_in_ms)?;
    let new = NewBlob {
        namespace: bytes::writable(&call, body.namespace)?,
        filename: body.filename,
        content_type: body.content_type,
        metadata: body.metadata,
        size: Some(body.size),
        digest: Some(body.sha256),
    };
    let bursar = call.bursar();
    let upload = storage(&call)?.sign_upload(&bursar, new, ttl).await.map_err(blob_problem)?;
    let expires_at = stamp(bursar.now().await?.after(Duration::into(ttl)));
    let target = |url, headers: Vec<(String, String)>, upload_id, parts| UploadTarget {
        method: "PUT".into(),
        url,
        headers: headers.into_iter().collect(),
        upload_id,
        parts,
        expires_at,
    };
    let upload_target = match upload.target {
        None => None,
        Some(Target::Request { url, headers }) => Some(target(Some(url), headers, None, None)),
        Some(Target::Parts { upload_id, parts }) => {
            let part = |part: bursar_blobs::SignedPart| PartTarget {
                number: part.number,
                offset: part.offset,
                size: part.size,
                url: part.url,
            };
            Some(target(None, Vec::new(), Some(upload_id), Some(parts.into_iter().map(part).collect())))
        }
        Some(Target::Server) => {
            let claims = Claims { blob: upload.blob.id, act: LinkAct::Upload };
            let link = links::issue(&call, claims, ttl).await?;
            Some(target(link.url, Vec::new(), None, None))
        }
    };
    Ok(Reply::new(PresignAnswer { blob: BlobAnswer::from(&upload.blob), upload: upload_target }))
}

async fn commit(input: Input<BlobId, NoFields, CommitBlobBody>) -> Result<Reply<BlobAnswer>, Problem> {
    reach::check_writable(&input.call, input.parameter).await?;
    let CommitBlobBody { upload_id, parts } = input.body;
    let parts = parts.into_iter().map(|part| UploadedPart { number: part.number, etag: part.etag }).collect();
    let parts = upload_id.map(|upload_id| (upload_id, parts));
    let committed = storage(&input.call)?.commit(&input.call.bursar(), input.parameter, parts).await;
    let committed = committed.map_err(blob_problem)?;
    input.call.app.metrics.blobs.uploaded(committed.found);
    Ok(Reply::new(BlobAnswer::from(&committed.blob)))
}
