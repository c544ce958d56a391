//! The interface between the client and the network.

use std::error::Error as StdError;

pub use bytes::Bytes;
pub use hyper::{Request, Response};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;

/// The body of an answer, or of an upload.
pub type Body = UnsyncBoxBody<Bytes, TransportError>;

/// Sends requests to a server over the network or in the same process. It makes one attempt; the client retries.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request; returns when the headers of the answer have arrived.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>>;

    /// Sends a request whose body is read while it is sent: an upload. A transport that is not used for uploads need not support it.
    fn send_stream(&self, _: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let source = "this transport does not support uploads".into();
        std::future::ready(Err(TransportError { sent: false, source })).boxed()
    }
}

/// The answer is missing or incomplete.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct TransportError {
    /// Whether the request may have reached the server.
    pub sent: bool,
    /// What went wrong.
    pub source: Box<dyn StdError + Send + Sync>,
}
