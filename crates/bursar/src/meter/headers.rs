//! What a caller is told of its quota with each answer.

use bursar_core::time::{Span, Time};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::meter::standing::{LimitStanding, Standing};

/// The most of the tightest limit.
pub const QUOTA_LIMIT: HeaderName = HeaderName::from_static("x-quota-limit");
/// What is left of it.
pub const QUOTA_REMAINING: HeaderName = HeaderName::from_static("x-quota-remaining");
/// When all of it is there again, in seconds since 1970.
pub const QUOTA_RESET: HeaderName = HeaderName::from_static("x-quota-reset");
/// What is left of each limit: draft-ietf-httpapi-ratelimit-headers.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// What the limits are, as the same draft says it.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

impl Standing {
    /// Tells it in the headers of an answer.
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

/// An instant in whole seconds since 1970, not before it.
pub fn unix_seconds(time: Time) -> i64 {
    time.micros().div_euclid(1_000_000) + i64::from(time.micros().rem_euclid(1_000_000) != 0)
}

/// A policy: its name, how much, in how many seconds.
fn policy(limit: &LimitStanding) -> String {
    let window = limit.length().map(|length| format!(";w={}", seconds(length))).unwrap_or_default();
    format!("{};q={}{window}", name(limit), integer(limit.limit))
}

/// What is left of a policy, and in how many seconds all of it is there again.
fn left(limit: &LimitStanding) -> String {
    let reset = limit.reset_at.map(|reset| format!(";t={}", seconds(reset.since(limit.at)))).unwrap_or_default();
    format!("{};r={}{reset}", name(limit), integer(limit.remaining))
}

/// A string of structured fields. The windows of a budget all differ, so that each name is one limit's; none has a quote in it.
fn name(limit: &LimitStanding) -> String {
    format!("\"{}\"", limit.window)
}

/// Structured fields have integers of fifteen digits.
fn integer(number: i64) -> i64 {
    number.clamp(0, 999_999_999_999_999)
}

/// Whole seconds, rounded up: who waits that long has waited long enough.
pub(crate) fn seconds(span: Span) -> i64 {
    integer(span.micros().div_euclid(1_000_000) + i64::from(span.micros() % 1_000_000 != 0))
}
