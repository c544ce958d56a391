//! Checks of single values that several operations share.

use crate::bounds::{SWEEP_MAX, TTL_MIN};
use crate::refusal::Invalid;
use crate::time::{Span, Time};

pub(super) fn check_not_negative(field: &'static str, amount: i64) -> Result<(), Invalid> {
    if amount < 0 { Err(Invalid::new(field, "must not be negative")) } else { Ok(()) }
}

pub(super) fn check_ttl(field: &'static str, span: Span, most: Span) -> Result<(), Invalid> {
    if span < TTL_MIN {
        return Err(Invalid::new(field, format!("must be at least {}", in_millis(TTL_MIN))));
    }
    // A span that reaches beyond the last instant saturates, and would never expire.
    if span > most || Time::from_micros(0).after(span) == Time::NEVER {
        return Err(Invalid::new(field, format!("must be at most {}", in_millis(most))));
    }
    Ok(())
}

/// Writes a bound of a field that takes milliseconds or text: `1h (3600000 ms)`.
fn in_millis(span: Span) -> String {
    format!("{span} ({} ms)", span.millis())
}

pub(super) fn check_sweep_size(field: &'static str, count: usize) -> Result<(), Invalid> {
    if count > SWEEP_MAX {
        return Err(Invalid::new(field, format!("has more than {SWEEP_MAX} entries")));
    }
    Ok(())
}
