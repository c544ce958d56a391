//! Bodies of metered requests and responses: bytes are counted as they arrive, costs settled when the response is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::meter::settle::{Settlement, StreamedBytes};

pin_project! {
    /// The body of a metered request, unchanged. If its size was not known in advance, its bytes are counted.
    #[derive(Debug)]
    pub struct CountedBody<B> {
        #[pin]
        body: B,
        counter: ByteCounter,
    }
}

/// Counts the bytes of a body. The count ends when the body is dropped, even if it was not read to its end.
#[derive(Debug, Default)]
struct ByteCounter(Option<StreamedBytes>);

impl Drop for ByteCounter {
    fn drop(&mut self) {
        if let Some(streamed) = &self.0 {
            streamed.end();
        }
    }
}

impl<B> CountedBody<B> {
    pub(crate) fn new(body: B, streamed: Option<StreamedBytes>) -> CountedBody<B> {
        CountedBody { body, counter: ByteCounter(streamed) }
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = this.body.poll_frame(cx);
        if let Some(streamed) = &this.counter.0 {
            match &polled {
                Poll::Ready(Some(Ok(frame))) => streamed.add(frame.data_ref().map_or(0, Buf::remaining)),
                Poll::Ready(Some(Err(_)) | None) => streamed.end(),
                Poll::Pending => {}
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pin_project! {
    /// The body of a metered response: the handler's, or a problem from the meter itself.
    pub struct MeteredBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = InnerProjected]
    enum Inner<B> {
        Handler { #[pin] body: B, settlement: Option<Settlement> },
        Own { text: Option<Bytes> },
    }
}

impl<B> MeteredBody<B> {
    /// Returns the handler's body, with the settlement to run when it has been sent.
    pub(crate) fn of_handler(body: B, settlement: Option<Settlement>) -> MeteredBody<B> {
        MeteredBody { inner: Inner::Handler { body, settlement } }
    }

    /// Returns a body with a text of the meter.
    pub(crate) fn own(text: Bytes) -> MeteredBody<B> {
        MeteredBody { inner: Inner::Own { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for MeteredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().inner.project() {
            InnerProjected::Handler { body, settlement } => {
                let polled = body.poll_frame(cx);
                if let Poll::Ready(None) = &polled
                    && let Some(settlement) = settlement.take()
                {
                    settlement.settle_in_background();
                }
                polled
            }
            InnerProjected::Own { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            // A server may stop polling a body that says it has ended, and the settlement would count as abandoned.
            Inner::Handler { body, settlement } => settlement.is_none() && body.is_end_stream(),
            Inner::Own { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Handler { body, .. } => body.size_hint(),
            Inner::Own { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}
