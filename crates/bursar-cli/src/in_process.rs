//! A client transport that calls the server's routes inside this process.

use bursar_client::{Body, Bytes, Request, Response, Transport, TransportError};
use bursar_server::Local;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};

/// The server's routes over a database that this process has open.
pub(crate) struct InProcess(Local);

impl InProcess {
    pub(crate) fn new(routes: Local) -> InProcess {
        InProcess(routes)
    }
}

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        self.send_stream(request.map(|bytes| Full::new(bytes).map_err(|never| match never {}).boxed_unsync()))
    }

    fn send_stream(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let local = self.0.clone();
        async move {
            let response = local.answer(request).await;
            let broken = |error| TransportError { sent: true, source: Box::new(error) };
            Ok(response.map(|body| body.map_err(broken).boxed_unsync()))
        }
        .boxed()
    }
}
