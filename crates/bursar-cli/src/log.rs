//! The log, on standard error.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::config::Log;

/// Starts the log. A second start in the same process has no effect.
pub(crate) fn start(log: &Log) {
    // The configuration has validated the filter; the fallback keeps the log alive if the two parsers ever differ.
    let filter = log.level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    // A failed write would be reported on standard error, which panics when that is full. Losing a log line must not
    // end a request.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let _ = match log.json {
        false => registry().with(lines.with_ansi(false).with_filter(filter)).try_init(),
        true => registry().with(lines.json().with_filter(filter)).try_init(),
    };
}
