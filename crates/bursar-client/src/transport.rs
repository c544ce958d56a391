//! How a request gets to a server.

use std::error::Error as StdError;

pub use bytes::Bytes;
pub use hyper::{Request, Response};

use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, TransportError>;

/// Carries requests to a server: over the network, or to one in the same process. It tries once; the client tries again.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request; ready when the head of the answer is there.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>>;
}

/// No answer came, or it broke off.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct TransportError {
    /// The request may have reached the server.
    pub sent: bool,
    /// What went wrong.
    pub source: Box<dyn StdError + Send + Sync>,
}
