//! A request body that a handler reads as it arrives, and that must not stand still.

use std::time::Duration;

use axum::body::Body;
use bursar_blobs::BodyStream;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

use crate::connection::MinPace;

/// The body arrives too slowly.
#[derive(Debug, thiserror::Error)]
#[error("the body arrived too slowly")]
pub(crate) struct TooSlow;

/// The connection ended before the body was complete.
#[derive(Debug, thiserror::Error)]
#[error("the connection ended before the body was complete")]
pub(crate) struct Incomplete;

/// How long the rest of a refused body is still received and discarded. A client that is cut off while it sends may never read the
/// answer.
const LINGER: Duration = Duration::from_secs(1);

/// What has not been read of a body; `None` at its end. When it is dropped, the rest is discarded for a while.
struct Rest(Option<Body>);

impl Drop for Rest {
    fn drop(&mut self) {
        let Some(mut rest) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(timeout(LINGER, async move { while let Some(Ok(_)) = rest.frame().await {} }));
        }
    }
}

/// Returns a body as a stream of bytes that fails if it is slower than the minimum pace.
pub(crate) fn paced(body: Body, pace: MinPace) -> BodyStream {
    let began = Instant::now();
    futures_util::stream::try_unfold((Rest(Some(body)), 0), move |(mut rest, mut received)| async move {
        loop {
            if pace.is_too_slow(received, began.elapsed()) {
                return Err(TooSlow.into());
            }
            let Some(body) = &mut rest.0 else { return Ok(None) };
            match timeout(pace.stall, body.frame()).await {
                Err(_) => return Err(TooSlow.into()),
                Ok(None) => {
                    rest.0.take();
                    return Ok(None);
                }
                Ok(Some(Err(_))) => {
                    rest.0.take();
                    return Err(Incomplete.into());
                }
                Ok(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    received += bytes.len();
                    return Ok(Some((bytes, (rest, received))));
                }
            }
        }
    })
    .boxed()
}
