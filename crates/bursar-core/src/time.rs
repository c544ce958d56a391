//! Instants and lengths of time, in whole microseconds.
//!
//! This crate reads no clock: the store passes `now` with each batch. Arithmetic saturates instead of overflowing.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refusal::Invalid;

/// An instant: microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The earliest instant, before every instant that is stored.
    pub const MIN: Time = Time(i64::MIN);
    /// The latest instant, used for what never happens.
    pub const NEVER: Time = Time(i64::MAX);

    /// Returns the instant `micros` microseconds after 1970-01-01 UTC.
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// Returns the microseconds since 1970-01-01 UTC.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the instant `span` later; `NEVER` if that overflows.
    pub const fn after(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// Returns the instant `span` earlier; `MIN` if that overflows.
    pub const fn before(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

/// Writes microseconds. Compact encodings write `NEVER` and `MIN` as 0 and 1, because rows have many of them.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        if ser.is_human_readable() {
            return ser.serialize_i64(self.0);
        }
        let zigzag = ((self.0 << 1) ^ (self.0 >> 63)) as u64;
        ser.serialize_u64(zigzag.wrapping_add(2))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Time, D::Error> {
        if de.is_human_readable() {
            return i64::deserialize(de).map(Time);
        }
        let zigzag = u64::deserialize(de)?.wrapping_sub(2);
        Ok(Time((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)))
    }
}

/// Writes RFC 3339 in UTC with microseconds, or `never`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(stamp) => write!(f, "{stamp:.6}"),
            Err(_) => f.write_str("never"),
        }
    }
}

/// Parses RFC 3339 with any offset; digits below a microsecond are cut off.
impl std::str::FromStr for Time {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Time, Invalid> {
        let stamp = text.parse().ok().map(jiff::Timestamp::as_microsecond);
        // Refuses instants that cannot be written back.
        let shown = stamp.filter(|micros| jiff::Timestamp::from_microsecond(*micros).is_ok());
        shown.map(Time).ok_or_else(|| {
            let text: String = text.chars().take(64).collect();
            Invalid::new("time", format!("{text:?} is not RFC 3339, such as 2026-11-15T10:00:00Z"))
        })
    }
}

/// A length of time: microseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(i64);

impl Span {
    /// A span of zero.
    pub const ZERO: Span = Span(0);

    /// Returns a span of `micros` microseconds; zero if `micros` is negative.
    pub const fn from_micros(micros: i64) -> Span {
        Span(if micros < 0 { 0 } else { micros })
    }

    /// Returns a span of `millis` milliseconds; the longest span if that overflows.
    pub const fn from_millis(millis: u64) -> Span {
        if millis > (i64::MAX / 1_000) as u64 { Span(i64::MAX) } else { Span(millis as i64 * 1_000) }
    }

    /// Returns a span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span::from_millis(secs.saturating_mul(1_000))
    }

    /// Returns a span of `days` times 24 hours.
    pub const fn from_days(days: u64) -> Span {
        Span::from_secs(days.saturating_mul(86_400))
    }

    /// Returns the microseconds.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the milliseconds, rounded up so that waiting this long is enough.
    pub const fn millis(self) -> i64 {
        self.0 / 1_000 + (self.0 % 1_000 > 0) as i64
    }
}

/// Converts to the longest span (292,000 years) if the duration overflows.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        Duration::from_micros(span.0.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_print_as_rfc_3339_and_saturate() {
        assert_eq!(Time::from_micros(1).to_string(), "1970-01-01T00:00:00.000001Z");
        assert_eq!(Time::NEVER.to_string(), "never");
        assert_eq!("1970-01-01T01:00:00.000001+01:00".parse(), Ok(Time(1)));
        assert!("yesterday".parse::<Time>().is_err());
        assert_eq!(Time::NEVER.after(Span::from_secs(1)), Time::NEVER);
        assert_eq!(Span::from(Duration::MAX).micros(), i64::MAX);
        assert_eq!(Span::from_micros(1_001).millis(), 2);
    }
}
