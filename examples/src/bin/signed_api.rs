//! An API whose callers sign their requests, so that nobody can spend another's quota.

use axum::Router;
use axum::routing::post;
use bursar::Bursar;
use bursar::meter::{AgentKey, Meter, Signed};
use bursar_client::{Bytes, Http, Request, Signer, Signing, Transport, new_seed};
use bursar_examples::Failure;
use tokio::net::TcpListener;

/// A meter that accepts signed requests only. `host` is the name under which callers know the API.
fn meter(bursar: Bursar, host: &str, alice: AgentKey) -> Result<Meter, Failure> {
    let meter = Meter::builder(bursar).set(|settings| {
        settings.signed = Signed::Required;
        settings.signatures.authorities = vec![host.to_owned()];
        settings.signatures.agents.insert("alice".to_owned(), vec![alice]);
    });
    Ok(meter.build()?)
}

/// Sends a signed request and returns the status of the answer.
async fn vote(signer: Signer, url: &str, vote: &'static str) -> Result<u16, Failure> {
    let http = Signing::new(Http::new(), signer);
    let answer = http.send(Request::post(url).body(Bytes::from(vote))?).await?;
    Ok(answer.status().as_u16())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let host = listener.local_addr()?.to_string();
    let bursar = Bursar::open("sqlite::memory:").await?;
    // The private key stays with the agent; the API knows the public one.
    let alice = Signer::from_seed(&new_seed()?)?.named("alice")?;
    let meter = meter(bursar.clone(), &host, AgentKey::from(alice.public_key()))?;
    let app = Router::new().route("/votes", post(|| async { "counted" })).layer(meter.layer());
    tokio::spawn(axum::serve(listener, app).into_future());

    let url = format!("http://{host}/votes");
    assert_eq!(vote(alice.clone(), &url, "for a").await?, 200);
    assert_eq!(vote(alice, &url, "for a").await?, 200, "the same request, signed anew");
    let posing = Signer::from_seed(&new_seed()?)?.named("alice")?;
    assert_eq!(vote(posing, &url, "for b").await?, 401);
    // A key that is not registered is a caller of its own.
    let other = Signer::from_seed(&new_seed()?)?;
    assert_eq!(vote(other, &url, "for b").await?, 200);

    assert_eq!(bursar.ledger().remaining("agent:alice").await?[0].remaining, Some(9_998));
    bursar.close().await;
    Ok(())
}
