//! Collects blobs that nothing needs any more, in the background. Every node does it; the database decides.

use std::sync::Arc;

use crate::app::App;

/// The most blobs that one step collects.
const STEP: usize = 200;

/// Collects until it is aborted.
pub(crate) async fn run(app: Arc<App>) {
    let Some(blobs) = app.blobs.clone() else { return };
    loop {
        tokio::time::sleep(app.limits.collection).await;
        loop {
            match blobs.collect(&app.bursar, STEP, false).await {
                Ok(report) => {
                    app.metrics.blobs.collected(report.collected);
                    if !report.more || report.collected == 0 {
                        break;
                    }
                }
                Err(error) => {
                    app.metrics.blobs.collection_failed();
                    tracing::warn!(%error, "collecting blobs failed, retrying");
                    break;
                }
            }
        }
    }
}
