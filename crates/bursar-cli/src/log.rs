//! The log, on standard error.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::config::Log;

/// Starts the log. A second start in one process keeps the first.
pub(crate) fn start(log: &Log) {
    // What is set has been read before; what cannot be read would be told there.
    let wanted = log.level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    // Who cannot write to the log would say so on standard error, and panic where that is full: nobody's request ends for a line.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let _ = match log.json {
        false => registry().with(lines.with_ansi(false).with_filter(wanted)).try_init(),
        true => registry().with(lines.json().with_filter(wanted)).try_init(),
    };
}
