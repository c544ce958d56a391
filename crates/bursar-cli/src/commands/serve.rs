//! `bursar serve`.

use bursar_blobs::Blobs;
use bursar_wire::problem::Problem;
use clap::Args;

use crate::args::GlobalArgs;
use crate::config::{Flags, load};
use crate::exit::Exit;
use crate::log;
use crate::output::Output;
use crate::server;
use crate::sqlite_file::prepare_folder;

/// The settings of the server.
#[derive(Args)]
#[command(after_help = "\
Every setting can be given in the configuration file, in the environment or as a flag; flags take precedence. Secrets are \
given in the environment or in files. `bursar config check` shows each value and its origin. All settings: \
docs/configuration.md.")]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: Flags,
}

/// Serves until the process receives SIGTERM or SIGINT.
pub(crate) async fn run(args: Serve, global: GlobalArgs) -> Result<Exit, Problem> {
    let flags = args.flags.with("database", global.database.as_deref());
    let loaded = load(global.config.as_deref(), &flags)?;
    let config = loaded.config;
    log::start(&config.log);
    if !loaded.unknown.is_empty() {
        tracing::warn!(variables = loaded.unknown.join(", "), "unknown BURSAR_ environment variables ignored");
    }
    if !loaded.ignored.is_empty() {
        tracing::warn!(variables = loaded.ignored.join(", "), "invalid OpenTelemetry environment variables ignored");
    }
    let settings = config.server(config.database.url())?;
    prepare_folder(config.database.url())?;
    let bursar = config.options(config.database.url())?.open().await?;
    if let Some(blobs) = settings.blobs.clone() {
        tokio::spawn(probe(blobs));
    }
    let served = server::run(&bursar, config.listen, settings, Output::new(global.json), |_| {}).await;
    bursar.close().await;
    served?;
    Ok(Exit::Done)
}

/// Tries the storage for blobs, and logs what it can do. A server whose storage fails serves everything but bytes.
async fn probe(blobs: Blobs) {
    let backend = blobs.backends().primary();
    let place = backend.place().to_owned();
    if !backend.exists() {
        tracing::info!(place, "storage for blobs: the first upload creates the directory");
        return;
    }
    match blobs.abilities().await {
        Ok(abilities) => tracing::info!(place, abilities = abilities.names().join(", "), "storage for blobs ready"),
        Err(error) => tracing::warn!(place, %error, "the storage for blobs cannot be used"),
    }
}
