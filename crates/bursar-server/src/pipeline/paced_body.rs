//! A request body that a handler reads as it arrives, and that must not stand still.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
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

/// What has not been read of a body. When it is dropped, the rest is discarded for a while.
struct Rest {
    /// `None` at the end of the body.
    body: Option<Body>,
    /// The client sends nothing before it is told to (`Expect: 100-continue`), which the first read does.
    awaited: bool,
}

impl Drop for Rest {
    fn drop(&mut self) {
        let Some(mut rest) = self.body.take().filter(|_| !self.awaited) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(timeout(LINGER, async move { while let Some(Ok(_)) = rest.frame().await {} }));
        }
    }
}

/// Returns a body as a stream of bytes that fails if it is slower than the minimum pace. `headers` are those of its request.
pub(crate) fn paced(body: Body, headers: &HeaderMap, pace: MinPace) -> BodyStream {
    let began = Instant::now();
    let awaited =
        headers.get(header::EXPECT).is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let rest = Rest { body: Some(body), awaited };
    futures_util::stream::try_unfold((rest, 0), move |(mut rest, mut received)| async move {
        rest.awaited = false;
        loop {
            if pace.is_too_slow(received, began.elapsed()) {
                return Err(TooSlow.into());
            }
            let Some(body) = &mut rest.body else { return Ok(None) };
            match timeout(pace.stall, body.frame()).await {
                Err(_) => return Err(TooSlow.into()),
                Ok(None) => {
                    rest.body.take();
                    return Ok(None);
                }
                Ok(Some(Err(_))) => {
                    rest.body.take();
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
