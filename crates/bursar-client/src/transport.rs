//! The interface between the client and the network.

use std::error::Error as StdError;

pub use bytes::Bytes;
pub use hyper::{Request, Response};

use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, TransportError>;

/// Sends requests to a server over the network or in the same process. It makes one attempt; the client retries.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request; returns when the headers of the answer have arrived.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>>;
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
