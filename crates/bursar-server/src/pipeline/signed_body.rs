//! The body of a signed request that a handler reads as a stream: it fails at its end if it is not the body that was signed.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bursar::meter::{BodyCheck, SignedRequest};
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// Returns a body that is checked while it is read, if its request is signed. A handler stores nothing of a body that fails.
pub(super) fn checked(body: Body, signed: &Option<SignedRequest>) -> Body {
    match signed {
        Some(signed) => Body::new(Checked { body, check: Some(signed.body_check()) }),
        None => body,
    }
}

struct Checked {
    body: Body,
    /// `None` at the end of the body.
    check: Option<BodyCheck>,
}

impl HttpBody for Checked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(data), Some(check)) = (frame.data_ref(), &mut this.check) {
                    check.add(data);
                }
            }
            Poll::Ready(None) => {
                if let Some(Err(error)) = this.check.take().map(BodyCheck::finish) {
                    return Poll::Ready(Some(Err(axum::Error::new(error))));
                }
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    /// Never before the check: a reader may stop at a body that says it has ended.
    fn is_end_stream(&self) -> bool {
        self.check.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
