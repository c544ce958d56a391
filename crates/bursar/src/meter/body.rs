//! Bodies of metered requests and responses: bytes are counted as they arrive, costs settled when the response is sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::meter::settle::{Settlement, StreamedBytes};

pin_project! {
    /// The body of a metered request, unchanged. If its size was not known in advance, its bytes are counted. The body of a signed request
    /// has been read, because its digest was checked.
    #[derive(Debug)]
    pub struct CountedBody<B> {
        #[pin]
        content: Content<B>,
        counter: ByteCounter,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = ContentProjected]
    enum Content<B> {
        Streamed { #[pin] body: B },
        Read { body: ReadBody },
    }
}

/// A body that has been read.
#[derive(Debug, Default)]
pub(crate) struct ReadBody {
    parts: VecDeque<Bytes>,
    bytes: u64,
}

impl ReadBody {
    pub(crate) fn add(&mut self, part: Bytes) {
        self.bytes += part.len() as u64;
        self.parts.push_back(part);
    }

    /// Returns the bytes that are left.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn next(&mut self) -> Option<Bytes> {
        let part = self.parts.pop_front()?;
        self.bytes -= part.len() as u64;
        Some(part)
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
    pub(crate) fn streamed(body: B) -> CountedBody<B> {
        CountedBody { content: Content::Streamed { body }, counter: ByteCounter(None) }
    }

    pub(crate) fn read(body: ReadBody) -> CountedBody<B> {
        CountedBody { content: Content::Read { body }, counter: ByteCounter(None) }
    }

    pub(crate) fn counted(mut self, streamed: StreamedBytes) -> CountedBody<B> {
        self.counter.0 = Some(streamed);
        self
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let polled = match this.content.project() {
            ContentProjected::Streamed { body } => body.poll_frame(cx).map_ok(as_bytes),
            ContentProjected::Read { body } => Poll::Ready(body.next().map(|part| Ok(Frame::data(part)))),
        };
        if let Some(streamed) = &this.counter.0 {
            match &polled {
                Poll::Ready(Some(Ok(frame))) => streamed.add(frame.data_ref().map_or(0, Bytes::len)),
                Poll::Ready(Some(Err(_)) | None) => streamed.end(),
                Poll::Pending => {}
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Streamed { body } => body.is_end_stream(),
            Content::Read { body } => body.parts.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Streamed { body } => body.size_hint(),
            Content::Read { body } => SizeHint::with_exact(body.bytes),
        }
    }
}

/// Converts the data of a frame; `Bytes` are not copied.
pub(crate) fn as_bytes<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
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
