//! A request body that a handler reads as it arrives, and that must not stand still.

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

/// Returns a body as a stream of bytes that fails if it is slower than the minimum pace.
pub(crate) fn paced(body: Body, pace: MinPace) -> BodyStream {
    let began = Instant::now();
    futures_util::stream::try_unfold((body, 0), move |(mut body, mut received)| async move {
        loop {
            if pace.is_too_slow(received, began.elapsed()) {
                return Err(TooSlow.into());
            }
            match timeout(pace.stall, body.frame()).await {
                Err(_) => return Err(TooSlow.into()),
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(Incomplete.into()),
                Ok(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    received += bytes.len();
                    return Ok(Some((bytes, (body, received))));
                }
            }
        }
    })
    .boxed()
}
