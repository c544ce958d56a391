//! A worker over HTTP: it renders videos and reports the real cost of each.
//!
//! It reads the server's URL from `BURSAR_SERVER` and the token from `BURSAR_TOKEN`. It works until `SIGTERM`, then finishes
//! the running jobs and returns those that were not started.

use std::time::Duration;

use bursar_client::{Client, HandlerError, JobContext, Progress};
use bursar_examples::Failure;
use serde::{Deserialize, Serialize};

/// The payload of a job: the scene to render.
#[derive(Deserialize)]
struct Scene {
    prompt: String,
    seconds: i64,
}

/// The result of a job.
#[derive(Serialize)]
struct Rendered {
    url: String,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = Client::new(&std::env::var("BURSAR_SERVER")?)?.token(std::env::var("BURSAR_TOKEN")?);
    let worker = client.worker().queue("media").concurrency(4).on("video.render", render);
    let report = worker.run_until_terminated().await?;
    println!("{} rendered, {} failed, {} handed back", report.completed, report.failed, report.returned);
    Ok(())
}

/// Renders a scene. A job runs at least once: pass its id to the provider as an idempotency key, so that it renders once.
async fn render(scene: Scene, context: JobContext) -> Result<Rendered, HandlerError> {
    for percent in [25.0, 50.0, 75.0] {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
            // The job is cancelled, the lease is lost or the worker drains.
            stop = context.stopped() => return Err(HandlerError::retry("stopped", format!("{stop:?}"))),
        }
        context.progress(Progress::percent(percent).message(format!("rendering {}", scene.prompt))).await?;
    }
    context.usage(scene.seconds * 700)?;
    Ok(Rendered { url: format!("https://videos.example/{}", context.id()) })
}
