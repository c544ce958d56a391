//! Collects blobs that nothing needs any more, in the background. Every node does it; the database decides.

use std::sync::Arc;
use std::time::Duration;

use crate::app::App;

/// How long to wait between two collections.
const INTERVAL: Duration = Duration::from_secs(60);
/// The most blobs that one step collects.
const STEP: usize = 200;

/// Collects until it is aborted.
pub(crate) async fn run(app: Arc<App>) {
    let Some(blobs) = app.blobs.clone() else { return };
    loop {
        tokio::time::sleep(INTERVAL).await;
        loop {
            match blobs.collect(&app.bursar, STEP, false).await {
                Ok(report) if report.more && report.collected > 0 => continue,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "collecting blobs failed, retrying");
                    break;
                }
            }
        }
    }
}
