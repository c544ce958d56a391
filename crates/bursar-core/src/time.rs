//! Instants and lengths of time, in whole microseconds.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refusal::Invalid;

/// An instant: microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The beginning of time, before every instant that is stored.
    pub const MIN: Time = Time(i64::MIN);
    /// The end of time: what never happens is due then.
    pub const NEVER: Time = Time(i64::MAX);

    /// The instant `micros` microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// Microseconds since 1970.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// This instant and `span` later; `NEVER` when that cannot be represented.
    pub const fn after(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// This instant less `span`; `MIN` when that cannot be represented.
    pub const fn before(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

/// A number of microseconds. In compact forms the end and the beginning of time are 0 and 1, as rows are full of them.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        if ser.is_human_readable() {
            return ser.serialize_i64(self.0);
        }
        let folded = ((self.0 << 1) ^ (self.0 >> 63)) as u64;
        ser.serialize_u64(folded.wrapping_add(2))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Time, D::Error> {
        if de.is_human_readable() {
            return i64::deserialize(de).map(Time);
        }
        let folded = u64::deserialize(de)?.wrapping_sub(2);
        Ok(Time((folded >> 1) as i64 ^ -((folded & 1) as i64)))
    }
}

/// RFC 3339 in UTC with microseconds, or `never`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(stamp) => write!(f, "{stamp:.6}"),
            Err(_) => f.write_str("never"),
        }
    }
}

/// Reads RFC 3339 with any offset; what is finer than a microsecond is cut off.
impl std::str::FromStr for Time {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Time, Invalid> {
        let stamp = text.parse().ok().map(jiff::Timestamp::as_microsecond);
        // What is later than can be shown is no instant that anybody means.
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
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A span of `micros` microseconds; a negative number is no time at all.
    pub const fn from_micros(micros: i64) -> Span {
        Span(if micros < 0 { 0 } else { micros })
    }

    /// A span of `millis` milliseconds, cut at what can be represented.
    pub const fn from_millis(millis: u64) -> Span {
        if millis > (i64::MAX / 1_000) as u64 { Span(i64::MAX) } else { Span(millis as i64 * 1_000) }
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span::from_millis(secs.saturating_mul(1_000))
    }

    /// A span of `days` times 24 hours.
    pub const fn from_days(days: u64) -> Span {
        Span::from_secs(days.saturating_mul(86_400))
    }

    /// Microseconds.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Milliseconds, rounded up: waiting this long is long enough.
    pub const fn millis(self) -> i64 {
        self.0 / 1_000 + (self.0 % 1_000 > 0) as i64
    }
}

/// Cut at what can be represented (292,000 years).
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
