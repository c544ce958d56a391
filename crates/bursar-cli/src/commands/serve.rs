//! `bursar serve`: everything over HTTP, until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;

use bursar::Bursar;
use bursar_server::wire::problem::{Kind, Problem};
use bursar_server::{Server, Settings, StartError};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Asked;
use crate::config::{Flags, load};
use crate::exit::Exit;
use crate::log;
use crate::memory;
use crate::output::Output;
use crate::session::make_default_folder;

/// How to serve.
#[derive(Args)]
#[command(after_help = "\
Every setting can be given in the configuration file, in the environment and as a flag, which wins; secrets as files, or in \
the environment. `bursar config check` shows what is set and by what; all of it is in docs/configuration.md.")]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: Flags,
}

/// Serves until it is told to stop.
pub(crate) async fn run(args: Serve, asked: Asked) -> Result<Exit, Problem> {
    let flags = args.flags.with("database", asked.database.as_deref());
    let loaded = load(asked.config.as_deref(), &flags)?;
    let config = loaded.config;
    log::start(&config.log);
    if !loaded.unknown.is_empty() {
        tracing::warn!(
            variables = loaded.unknown.join(", "),
            "the environment has what looks like settings and is none"
        );
    }
    let settings = config.server()?;
    make_default_folder(config.database.url())?;
    let bursar = config.options(config.database.url()).open().await?;
    let served = serve(&bursar, config.listen, settings, Output::new(asked.json), |_| {}).await;
    bursar.close().await;
    served
}

/// Serves on an open database until it is told to stop; `ready` is told where.
pub(crate) async fn serve(
    bursar: &Bursar,
    listen: SocketAddr,
    settings: Settings,
    out: Output,
    ready: impl FnOnce(SocketAddr),
) -> Result<Exit, Problem> {
    let failed = |error: std::io::Error| Problem::new(Kind::Internal, format!("signals cannot be heard: {error}"));
    let mut ended = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let server = Server::bind(bursar.clone(), listen, settings).await.map_err(told)?;
    let address = server.address();
    // Before it is told where to ask: whoever reads that line can read this one already.
    if let Some(token) = server.operator_token() {
        out.note(&format!("The operator's token, made at this first start and shown this once:\n  {token}"));
    }
    // Whoever started it reads this line to learn the port, so that it is written at once.
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "listening on http://{address}").and_then(|()| stdout.flush());
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
    ready(address);
    let stop = async move {
        tokio::select! {
            _ = ended.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("told to end: what was begun is done first");
    };
    let giving_back = tokio::spawn(memory::give_back());
    server.run(stop).await;
    giving_back.abort();
    tracing::info!("ended");
    Ok(Exit::Done)
}

fn told(error: StartError) -> Problem {
    match error {
        StartError::Bursar(error) => error.into(),
        StartError::Listen(..) => Problem::new(Kind::Unavailable, error.to_string()),
        other => Problem::invalid("listen".into(), other.to_string()),
    }
}
