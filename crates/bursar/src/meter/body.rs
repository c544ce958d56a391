//! Bodies on their way: counted as they come in, settled when they have gone out.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::meter::settle::{Settlement, Streamed};

pin_project! {
    /// The body of a metered request. It is the body as it came; one whose size nobody told is counted.
    #[derive(Debug)]
    pub struct CountedBody<B> {
        #[pin]
        body: B,
        counted: Counted,
    }
}

/// What has come of a body is over when the body is: also one that nobody reads to its end.
#[derive(Debug, Default)]
struct Counted(Option<Streamed>);

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(streamed) = &self.0 {
            streamed.end();
        }
    }
}

impl<B> CountedBody<B> {
    pub(crate) fn new(body: B, streamed: Option<Streamed>) -> CountedBody<B> {
        CountedBody { body, counted: Counted(streamed) }
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = this.body.poll_frame(cx);
        if let Some(streamed) = &this.counted.0 {
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
    /// The body of a metered answer: the handler's, or what the meter says itself.
    pub struct MeteredBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = InnerProjected]
    enum Inner<B> {
        Handlers { #[pin] body: B, settlement: Option<Settlement> },
        Own { text: Option<Bytes> },
    }
}

impl<B> MeteredBody<B> {
    /// The handler's, with what is to be settled when it has been sent.
    pub(crate) fn of_handler(body: B, settlement: Option<Settlement>) -> MeteredBody<B> {
        MeteredBody { inner: Inner::Handlers { body, settlement } }
    }

    pub(crate) fn own(text: Bytes) -> MeteredBody<B> {
        MeteredBody { inner: Inner::Own { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for MeteredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().inner.project() {
            InnerProjected::Handlers { body, settlement } => {
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
            // Whoever is told that it is over may not ask again, and what is to be settled would count as left behind.
            Inner::Handlers { body, settlement } => settlement.is_none() && body.is_end_stream(),
            Inner::Own { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Handlers { body, .. } => body.size_hint(),
            Inner::Own { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}
