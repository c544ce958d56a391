//! An API that meters its callers: each has 10,000 units per hour, and each operation has its own price.

use std::net::SocketAddr;

use axum::extract::Extension;
use axum::http::Method;
use axum::routing::{get, post};
use axum::{Router, response::IntoResponse};
use bursar::meter::{ActualCost, Caller, CostModel, Count, Meter, Operation};
use bursar::{Bursar, Limit};
use bursar_examples::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The prices: an assertion costs 10 plus 1 per KiB, a vote 1, a query 5 plus 1 per lens, a summary an estimated 50.
fn costs() -> Result<CostModel, Failure> {
    Ok(CostModel::default()
        .operation(Operation::new("assert", Method::POST, "/claims", 10)?.per_kib(1))
        .operation(Operation::new("vote", Method::POST, "/claims/{id}/vote", 1)?)
        .operation(Operation::new("query", Method::GET, "/claims", 5)?.extra("lens", 1, Count::Query("lens".into())))
        .operation(Operation::new("summary", Method::POST, "/summary", 50)?.two_phase()))
}

/// The API, behind its meter.
fn app(meter: &Meter) -> Router {
    Router::new()
        .route("/claims", post(|| async { "asserted" }).get(|| async { "[]" }))
        .route("/claims/{id}/vote", post(|| async { "counted" }))
        .route("/summary", post(summary))
        .route("/livez", get(|| async { "ok" }))
        .layer(meter.layer())
}

/// Calls a model and reports the real cost: 50 units are held, 12 are charged.
async fn summary() -> impl IntoResponse {
    let tokens = 12;
    (Extension(ActualCost::of(tokens)), "a summary")
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    let meter = Meter::builder(bursar.clone()).costs(costs()?).build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, app(&meter)).into_future());

    let agent = "0a".repeat(32);
    for (method, path, left) in [
        ("POST", "/claims", "9990"),
        ("POST", "/claims/7/vote", "9989"),
        ("GET", "/claims?lens=trust,recency", "9982"),
        ("POST", "/summary", "9970"),
    ] {
        let answer = send(address, method, path, &agent).await?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&format!("x-quota-remaining: {left}\r\n")), "{answer}");
    }
    // Health checks are free. An invalid caller id is answered with 400.
    assert!(!send(address, "GET", "/livez", &agent).await?.contains("x-quota-limit"));
    assert!(send(address, "GET", "/claims", "me").await?.starts_with("HTTP/1.1 400"));

    // A quota is a budget. One caller can have a different limit from the others.
    let caller = Caller::new(&agent)?;
    assert_eq!(bursar.ledger().remaining(caller.scope()).await?[0].remaining, Some(9_970));
    meter.set_limit(&caller, [Limit::new(32, "hour".parse()?)]).await?;
    let over = send(address, "GET", "/claims", &agent).await?;
    assert!(over.starts_with("HTTP/1.1 429") && over.contains("retry-after: "), "{over}");
    assert_eq!(meter.status(&caller).await?.limits[0].used(), 30);

    bursar.close().await;
    Ok(())
}

/// Sends a request and returns the raw response.
async fn send(address: SocketAddr, method: &str, path: &str, agent: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Agent-Id: {agent}\r\nContent-Length: 0");
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
