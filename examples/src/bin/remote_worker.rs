//! A worker over HTTP: it renders videos for whoever enqueues them, and says what each really cost.
//!
//! It takes the address of a server from `BURSAR_SERVER` and its token from `BURSAR_TOKEN`, and works until it is told to end
//! (`SIGTERM`): what runs comes to its end, what was not begun is handed back.

use std::time::Duration;

use bursar_client::{Client, HandlerError, JobContext, Progress};
use bursar_examples::Failure;
use serde::{Deserialize, Serialize};

/// What is to be rendered.
#[derive(Deserialize)]
struct Scene {
    prompt: String,
    seconds: i64,
}

/// What came of it.
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

/// Renders a scene. It runs at least once: the provider gets the job's id as its key, so that it renders once.
async fn render(scene: Scene, context: JobContext) -> Result<Rendered, HandlerError> {
    for percent in [25.0, 50.0, 75.0] {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
            // The job is cancelled, the lease is lost or the worker ends.
            stop = context.stopped() => return Err(HandlerError::retry("stopped", format!("{stop:?}"))),
        }
        context.progress(Progress::percent(percent).message(format!("rendering {}", scene.prompt))).await?;
    }
    context.usage(scene.seconds * 700)?;
    Ok(Rendered { url: format!("https://videos.example/{}", context.id()) })
}
