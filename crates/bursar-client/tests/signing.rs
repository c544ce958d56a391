//! A client that signs its requests.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};

use bursar_client::{
    Body, Bytes, Client, CommandBody, Request, Response, Signer, Signing, Transport, TransportError,
    wire::problem::{Kind, Problem},
};
use bursar_signatures::{Checks, Head, VerifiedSignature, verify};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};

/// Records what is sent, and answers that the server is busy.
#[derive(Clone, Default)]
struct Busy(Arc<Mutex<Vec<Request<Bytes>>>>);

impl Transport for Busy {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        self.0.lock().unwrap().push(request);
        let problem = serde_json::to_vec(&Problem::new(Kind::Busy, "busy")).unwrap();
        let body = Full::new(Bytes::from(problem)).map_err(|never| match never {}).boxed_unsync();
        std::future::ready(Ok(Response::builder().status(503).body(body).unwrap())).boxed()
    }

    fn send_stream(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let busy = self.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            busy.send(Request::from_parts(head, body)).await
        }
        .boxed()
    }
}

fn signer() -> Signer {
    Signer::from_seed(&[7; 32]).unwrap().named("agent:bot").unwrap()
}

/// Verifies a request at the time at which it was signed.
fn verified(request: &Request<Bytes>) -> VerifiedSignature {
    let (head, body) = request.clone().into_parts();
    let input = head.headers["signature-input"].to_str().unwrap();
    let now = input.split_once("created=").unwrap().1.split(';').next().unwrap().parse().unwrap();
    let checks = Checks { now, window: 0, authorities: &["api.example:8443".to_owned()] };
    let found = verify(Head::of(&head), &checks).unwrap();
    assert_eq!((found.agent.as_str(), found.key), ("agent:bot", signer().public_key()));
    assert_eq!(found.digest.is_some(), !body.is_empty());
    assert!(found.digest.is_none_or(|digest| digest.is_of(&body)));
    found
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_a_signature_of_its_own() {
    let sent = Busy::default();
    let client = Client::over(Signing::new(sent.clone(), signer()), "http://api.example:8443/under").unwrap();
    client.commands().submit(&CommandBody::default()).await.unwrap_err();
    let attempts = sent.0.lock().unwrap().split_off(0);
    assert!(attempts.len() > 2, "{}", attempts.len());
    let nonces: std::collections::BTreeSet<String> = attempts.iter().map(|request| verified(request).nonce).collect();
    assert_eq!(nonces.len(), attempts.len(), "nonces differ");
    let key = |request: &Request<Bytes>| request.headers()["idempotency-key"].clone();
    assert!(attempts.iter().all(|request| key(request) == key(&attempts[0])), "one call has one idempotency key");

    // Reads and uploads.
    client.once().jobs().show("job_01j9zq3v4w5x6y7z8abcdefghj".parse().unwrap()).await.unwrap_err();
    client.once().blobs().put_bytes(&upload(), "the bytes").await.unwrap_err();
    for request in sent.0.lock().unwrap().iter() {
        verified(request);
    }
    assert_eq!(sent.0.lock().unwrap().len(), 2);
}

fn upload() -> bursar_client::Upload {
    bursar_client::Upload::default()
}

#[tokio::test]
async fn an_upload_that_is_too_large_to_be_signed_is_not_sent() {
    let sent = Busy::default();
    let client = Client::over(Signing::new(sent.clone(), signer()), "http://api.example").unwrap();
    let part = Bytes::from(vec![0; 1 << 20]);
    let parts = futures_util::stream::iter((0..65).map(move |_| Ok::<_, std::io::Error>(part.clone())));
    let error = client.blobs().put(&upload(), parts).await.unwrap_err();
    assert!(matches!(error, bursar_client::Error::Unreachable { .. }), "{error:?}");
    assert!(sent.0.lock().unwrap().is_empty());
}
