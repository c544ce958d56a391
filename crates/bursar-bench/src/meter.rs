//! A small application with or without the meter, and callers with persistent connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bursar::meter::{Meter, SliceSettings};
use bursar::{Bursar, Limit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::error::BenchError;
use crate::jobs::TIMEOUT;
use crate::load::Round;
use crate::subject::AMPLE_LIMIT;

/// A running application with one route.
pub(crate) struct App {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl App {
    /// Starts the application; with a Bursar, each request is charged to its caller first, in a transaction or from a slice in memory.
    pub(crate) async fn open(bursar: Option<&Bursar>, slices: Option<SliceSettings>) -> Result<App, BenchError> {
        let mut app = Router::new().route("/word", get(|| async { "word" }));
        if let Some(bursar) = bursar {
            let quota = vec![Limit::new(AMPLE_LIMIT, "hour".parse()?)];
            let meter = Meter::builder(bursar.clone()).set(|settings| {
                settings.quota = quota;
                settings.slices = slices;
            });
            let meter = meter.build();
            app = app.layer(meter.map_err(|error| BenchError::Failed(error.to_string()))?.layer());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(async move {
            // The task ends when it is aborted.
            let _ = axum::serve(listener, app).await;
        });
        Ok(App { address, serving })
    }

    /// Runs a round of callers that send as different agents, round-robin.
    pub(crate) async fn round(&self, callers: usize, agents: usize, time: Duration) -> Result<Round, BenchError> {
        let requests: Arc<[String]> = (0..agents.max(1)).map(request).collect();
        let mut streams = Vec::with_capacity(callers);
        for _ in 0..callers {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (caller, stream) in streams.into_iter().enumerate() {
            let requests = requests.clone();
            tasks.spawn(async move {
                let (mut connection, mut waited) = (Connection { stream, buffer: Vec::new() }, Vec::new());
                let mut sent = Instant::now();
                for number in (caller..).step_by(callers) {
                    if !waited.is_empty() && sent.duration_since(begun) >= time {
                        break;
                    }
                    connection.send(&requests[number % requests.len()]).await?;
                    let answered = Instant::now();
                    waited.push(answered.duration_since(sent));
                    sent = answered;
                }
                Ok::<_, BenchError>(waited)
            });
        }
        let mut waited = Vec::new();
        while let Some(caller) = tasks.join_next().await {
            waited.extend(caller??);
        }
        let (done, took) = (waited.len(), begun.elapsed());
        Ok(Round::of(waited, done, took))
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns a request of an agent in wire format.
fn request(agent: usize) -> String {
    format!("GET /word HTTP/1.1\r\nHost: localhost\r\nX-Agent-Id: {agent:064x}\r\n\r\n")
}

/// A persistent connection.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Sends a request and waits for the expected answer.
    async fn send(&mut self, request: &str) -> Result<(), BenchError> {
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        loop {
            let read = timeout(TIMEOUT, self.stream.read_buf(&mut self.buffer)).await;
            if read.map_err(|_| BenchError::Failed("the application did not answer in time".into()))?? == 0 {
                return Err(BenchError::Failed("the application closed the connection".into()));
            }
            if self.buffer.ends_with(b"\r\n\r\nword") {
                break;
            }
        }
        if self.buffer.starts_with(b"HTTP/1.1 200 ") {
            return Ok(());
        }
        Err(BenchError::Failed(format!("the application answered {}", String::from_utf8_lossy(&self.buffer))))
    }
}
