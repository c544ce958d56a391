//! Runs the HTTP server on an open database, for `bursar serve` and `bursar dev`.

use std::io::Write;
use std::net::SocketAddr;

use bursar::Bursar;
use bursar_server::{Server, Settings, StartError};
use bursar_wire::problem::{Kind, Problem};
use tokio::signal::unix::{SignalKind, signal};

use crate::memory_release;
use crate::output::Output;

/// Serves until the process receives SIGTERM or SIGINT. Calls `ready` with the address once the server listens.
pub(crate) async fn run(
    bursar: &Bursar,
    listen: SocketAddr,
    settings: Settings,
    out: Output,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Problem> {
    let failed = |error: std::io::Error| {
        Problem::new(Kind::Internal, format!("the signal handlers cannot be installed: {error}"))
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let server = Server::bind(bursar.clone(), listen, settings).await.map_err(start_problem)?;
    let address = server.address();
    // Printed before the address, so that a program that has read the address can already read the token.
    if let Some(token) = server.operator_token() {
        out.note(&format!("operator token, created at this first start and not shown again:\n  {token}"));
    }
    // A parent process reads this line to learn the port, so it is flushed at once.
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "listening on http://{address}").and_then(|()| stdout.flush());
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "server listening");
    ready(address);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("server shutting down, draining requests in flight");
    };
    let releasing = tokio::spawn(memory_release::run());
    server.run(stop).await;
    releasing.abort();
    tracing::info!("server stopped");
    Ok(())
}

/// Describes why an address cannot be listened on, and what helps.
fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> String {
    let (what, todo) = match error.kind() {
        std::io::ErrorKind::AddrInUse => (
            "another program listens there".to_owned(),
            "stop it, or choose another port with --listen; port 0 picks a free one",
        ),
        std::io::ErrorKind::AddrNotAvailable => (
            "this machine does not have that address".to_owned(),
            "choose one that it has with --listen, such as 127.0.0.1:7440",
        ),
        std::io::ErrorKind::PermissionDenied => {
            ("this user may not use that port".to_owned(), "choose a port above 1023 with --listen")
        }
        _ => (error.to_string(), "choose another address with --listen"),
    };
    format!("the server cannot listen on {address}: {what}; nothing was started; {todo}")
}

/// Returns the problem of a server that did not start.
pub(crate) fn start_problem(error: StartError) -> Problem {
    match error {
        StartError::Bursar(error) => error.into(),
        StartError::Listen(address, error) => Problem::new(Kind::Conflict, cannot_listen(address, &error)),
        other => Problem::invalid("listen".into(), other.to_string()),
    }
}
