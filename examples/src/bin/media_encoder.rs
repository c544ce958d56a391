//! A worker over HTTP that reads the blob of its job, stores another, and reports what that cost.
//!
//! It reads the server's URL from `BURSAR_SERVER` and the token from `BURSAR_TOKEN`. It works until `SIGTERM`.

use bursar_client::{BlobId, Client, HandlerError, JobContext, Progress, Upload};
use bursar_examples::Failure;
use serde::{Deserialize, Serialize};

/// The payload of a job: the video to encode.
#[derive(Deserialize)]
struct Order {
    source: BlobId,
}

/// The result of a job.
#[derive(Serialize)]
struct Encoded {
    encoded: BlobId,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = Client::new(&std::env::var("BURSAR_SERVER")?)?.token(std::env::var("BURSAR_TOKEN")?);
    let worker = client.worker().queue("media").concurrency(2).on("video.encode", encode);
    let report = worker.run_until_terminated().await?;
    println!("{} encoded, {} failed", report.completed, report.failed);
    Ok(())
}

/// Encodes a video. A job runs at least once; the same bytes are stored once.
async fn encode(order: Order, context: JobContext) -> Result<Encoded, HandlerError> {
    let blobs = context.blobs();
    let source = blobs.get(order.source).await?.bytes().await?;
    context.progress(Progress::percent(50.0).message("encoding")).await?;
    let upload =
        Upload { namespace: Some("media".try_into()?), filename: Some("encoded.bin".into()), ..Upload::default() };
    // The job refers to what it stores, from the transaction that completes it on.
    let encoded = blobs.put_bytes(upload, squeeze(&source)).await?;
    context.usage(7 * i64::try_from(source.len().div_ceil(4096))?)?;
    Ok(Encoded { encoded: encoded.id })
}

/// Stands for an encoder: replaces runs of a byte by their length and the byte.
fn squeeze(bytes: &[u8]) -> Vec<u8> {
    let mut squeezed = Vec::new();
    for run in bytes.chunk_by(|one, next| one == next) {
        for part in run.chunks(255) {
            squeezed.extend([part.len() as u8, part[0]]);
        }
    }
    squeezed
}
