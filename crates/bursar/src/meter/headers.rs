//! The response headers that report what is left of a caller's quota.

use bursar_core::time::{Span, Time};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::meter::standing::{LimitStanding, Standing};

/// The amount of the tightest limit.
pub const QUOTA_LIMIT: HeaderName = HeaderName::from_static("x-quota-limit");
/// The units left of the tightest limit.
pub const QUOTA_REMAINING: HeaderName = HeaderName::from_static("x-quota-remaining");
/// When the tightest limit is fully available again, in seconds since 1970.
pub const QUOTA_RESET: HeaderName = HeaderName::from_static("x-quota-reset");
/// What is left of each limit, as in draft-ietf-httpapi-ratelimit-headers.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The limits themselves, as in the same draft.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

impl Standing {
    /// Adds the quota headers to those of a response. Adds none if the quota has no limits.
    pub fn tell(&self, headers: &mut HeaderMap) {
        let Some(tightest) = self.tightest() else { return };
        headers.insert(QUOTA_LIMIT, HeaderValue::from(tightest.limit));
        headers.insert(QUOTA_REMAINING, HeaderValue::from(tightest.remaining.max(0)));
        if let Some(reset) = tightest.reset_at {
            headers.insert(QUOTA_RESET, HeaderValue::from(unix_seconds(reset)));
        }
        let list = |item: fn(&LimitStanding) -> String| {
            let items: Vec<String> = self.limits.iter().map(item).collect();
            HeaderValue::from_str(&items.join(", "))
        };
        if let (Ok(policy), Ok(left)) = (list(policy), list(left)) {
            headers.insert(RATE_LIMIT_POLICY, policy);
            headers.insert(RATE_LIMIT, left);
        }
    }
}

/// Returns an instant in whole seconds since 1970, rounded up.
pub fn unix_seconds(time: Time) -> i64 {
    time.micros().div_euclid(1_000_000) + i64::from(time.micros().rem_euclid(1_000_000) != 0)
}

/// Renders a limit: its name, its amount and the seconds of its window.
fn policy(limit: &LimitStanding) -> String {
    let window = limit.length().map(|length| format!(";w={}", seconds(length))).unwrap_or_default();
    format!("{};q={}{window}", name(limit), integer(limit.limit))
}

/// Renders what is left of a limit, and in how many seconds it is fully available again.
fn left(limit: &LimitStanding) -> String {
    let reset = limit.reset_at.map(|reset| format!(";t={}", seconds(reset.since(limit.at)))).unwrap_or_default();
    format!("{};r={}{reset}", name(limit), integer(limit.remaining))
}

/// Returns the name of a limit as a structured-field string: its window. The windows of a budget are distinct, and none
/// contains a quote.
fn name(limit: &LimitStanding) -> String {
    format!("\"{}\"", limit.window)
}

/// Clamps a number to the integers of structured fields, which have at most fifteen digits.
fn integer(number: i64) -> i64 {
    number.clamp(0, 999_999_999_999_999)
}

/// Returns whole seconds, rounded up so that waiting that long is enough.
pub(crate) fn seconds(span: Span) -> i64 {
    integer(span.micros().div_euclid(1_000_000) + i64::from(span.micros() % 1_000_000 != 0))
}
