//! Checks of a server: whether it answers, is ready, accepts the token, and has matching balances.

use std::net::SocketAddr;
use std::time::Duration;

use bursar_client::{Client, Error};
use bursar_wire::problem::{Kind, Problem};

use super::{Component, Diagnosis, Doctor, Finding};
use crate::context::Context;
use crate::view::report;

/// How long to wait for a server on this machine.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks the server that the context calls. Returns the findings, and whether the server was reached.
pub(super) async fn examine(args: &Doctor, context: &Context, url: &str, has_token: bool) -> (Diagnosis, bool) {
    let mut diagnosis = Diagnosis { ok: true, findings: Vec::new(), rebuilt: None };
    let readiness = context.client.once().ready().await;
    let reached = readiness.is_ok() || is_bursar(readiness.as_ref().err());
    if args.selects(Component::Server) || !reached {
        diagnosis.add(server(readiness, url));
    }
    if !reached {
        return (diagnosis, reached);
    }
    let accepted = context.client.budgets().list("", None, 1).await;
    let readable = accepted.is_ok();
    if args.selects(Component::Token) || !readable {
        diagnosis.add(token(accepted.err().map(Problem::from), has_token));
    }
    if readable && args.selects(Component::Balances) {
        diagnosis.add(balances(context).await);
    }
    (diagnosis, reached)
}

/// Returns the state of a Bursar server on an address of this machine; `None` if another program listens there.
pub(super) async fn ready(address: SocketAddr) -> Option<String> {
    // A server on all addresses answers on this machine's own.
    let host = if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let client = Client::new(&format!("http://{host}:{}", address.port())).ok()?.once().within(LOCAL_TIMEOUT);
    match client.ready().await {
        Ok(_) => Some("it is ready".to_owned()),
        Err(error) if is_bursar(Some(&error)) => Some(format!("it is not ready: {error}")),
        Err(_) => None,
    }
}

/// Whether an answer comes from a Bursar server.
fn is_bursar(error: Option<&Error>) -> bool {
    error.is_none_or(|error| error.kind() == Some(Kind::NotReady))
}

fn server(readiness: Result<impl Sized, Error>, url: &str) -> Finding {
    match readiness {
        Ok(_) => Finding::good(Component::Server, format!("{url} is a Bursar server and ready")),
        Err(error) => {
            let todo = match &error {
                Error::Problem(problem) if problem.kind == Kind::NotReady => {
                    "look at the log of the server; on its machine, run `bursar doctor --database URL`"
                }
                Error::Unreachable { .. } => {
                    "start the server with `bursar serve`, or correct --server or BURSAR_SERVER"
                }
                _ => "correct --server or BURSAR_SERVER",
            };
            Finding::bad(Component::Server, error.to_string(), todo)
        }
    }
}

fn token(problem: Option<Problem>, has_token: bool) -> Finding {
    let Some(problem) = problem else {
        let how = if has_token { "the server accepts the token" } else { "the server needs no token" };
        return Finding::good(Component::Token, how);
    };
    match problem.kind {
        Kind::Unauthorized if has_token => Finding::bad(
            Component::Token,
            "the server does not accept the token: it is wrong, expired or revoked",
            "create another one with `bursar token create`, as an operator",
        ),
        Kind::Unauthorized => Finding::bad(
            Component::Token,
            "the server needs a token, and none was given",
            "set BURSAR_TOKEN or BURSAR_TOKEN_FILE, or pass --token",
        ),
        Kind::Forbidden => Finding::good(Component::Token, "the server accepts the token, which may not read budgets"),
        _ => Finding::bad(Component::Token, problem.detail, "look at the log of the server"),
    }
}

async fn balances(context: &Context) -> Finding {
    let todo = "run `bursar doctor --fix` on the database of the server";
    match context.client.verify().await {
        Ok(checked) if checked.ok => Finding::good(Component::Balances, report::describe(&checked)),
        Ok(checked) => Finding::bad(Component::Balances, checked.violations.join("; "), todo),
        Err(error) if error.kind() == Some(Kind::Forbidden) => {
            Finding::good(Component::Balances, "not checked: only an operator's token may verify them")
        }
        Err(error) => Finding::bad(Component::Balances, error.to_string(), todo),
    }
}
