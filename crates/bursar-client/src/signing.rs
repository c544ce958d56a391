//! A transport that signs every request that it sends (RFC 9421).

use std::time::SystemTime;

use bursar_core::refusal::Invalid;
use bursar_signatures::Signer;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response};

use crate::client::Client;
use crate::http::Http;
use crate::transport::{Body, Transport, TransportError};

/// The most bytes of an upload that is signed. Its digest is part of the signature, so it is read before it is sent.
const UPLOAD_BYTES_MAX: usize = 64 << 20;

/// Signs the requests that another transport sends. Each attempt of a call gets a signature of its own, because a signature is accepted
/// once.
#[derive(Clone, Debug)]
pub struct Signing<T> {
    inner: T,
    signer: Signer,
}

impl<T> Signing<T> {
    /// Signs what `inner` sends.
    pub fn new(inner: T, signer: Signer) -> Signing<T> {
        Signing { inner, signer }
    }
}

impl Client {
    /// A client of the server at a URL that signs every request. Uploads of up to 64 MiB are read into memory to be signed; larger ones
    /// fail.
    pub fn signed(url: &str, signer: Signer) -> Result<Client, Invalid> {
        Client::over(Signing::new(Http::new(), signer), url)
    }
}

impl<T: Transport + Clone> Transport for Signing<T> {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        match signed(&self.signer, request) {
            Ok(request) => self.inner.send(request),
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }

    fn send_stream(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let Signing { inner, signer } = self.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = Limited::new(body, UPLOAD_BYTES_MAX).collect().await;
            let body = body.map_err(|source| TransportError { sent: false, source })?.to_bytes();
            let request = signed(&signer, Request::from_parts(head, body))?;
            inner.send_stream(request.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync())).await
        }
        .boxed()
    }
}

fn signed(signer: &Signer, mut request: Request<Bytes>) -> Result<Request<Bytes>, TransportError> {
    #[expect(clippy::disallowed_methods, reason = "a signature has the time at which it was made")]
    let now = SystemTime::now();
    let signing = signer.sign(&mut request, now);
    signing.map_err(|error| TransportError { sent: false, source: error.into() })?;
    Ok(request)
}
