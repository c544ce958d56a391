//! The notation in which people read and write durations, windows, amounts and times.
//!
//! The command line, strings over HTTP, error texts and displays all use it, so a text that one of them shows can be
//! given to another. Stored rows, fingerprints and JSON numbers do not: their forms are fixed.
//!
//! | what | examples | where |
//! | --- | --- | --- |
//! | a duration | `500ms`, `45s`, `10m`, `1h30m`, `7d` | [`Span`](crate::time::Span): [`FromStr`](std::str::FromStr), [`Display`](std::fmt::Display) |
//! | a window | `lifetime`, `month@Europe/Berlin`, `week@UTC:sunday`, `rolling:1h`, `bucket:500000:10000/h` | [`Window`](crate::window::Window): the same, and [`Window::of_limit`](crate::window::Window::of_limit) |
//! | an amount | `25usd`, `1.5k`, `2M`, `10.50`; shown as `$25.00`, `1,250 tokens` | [`Unit`] |
//! | a limit | `25usd:month@Europe/Berlin`, `500k:bucket:10k/h` | [`Limit::parse`](crate::budget::Limit::parse) |
//! | a time, written | `2026-11-15`, `2026-11-15T10:00:00Z`, `now`, `-7d` | [`moment`] |
//! | a time, shown | `in 14 days (2026-12-01 00:00 Europe/Berlin)`, `3 min ago` | [`relative`], [`relative_in`] |
//!
//! Nothing here uses floating point: an amount that is not a whole number of smallest units is refused.

mod amount;
mod duration;
mod limit;
mod moment;
mod relative;
mod unit;
mod window;

pub use amount::Amount;
pub use moment::moment;
pub use relative::{about, relative, relative_in};
pub use unit::Unit;

/// Quotes text from a caller for an error, cut to a length that fits a line.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(64).collect();
    format!("{shown:?}")
}

/// Parses a run of ASCII digits; `None` if there is none, or if it is too large.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}
