//! Times relative to now: `in 14 days (2026-12-01 00:00 Europe/Berlin)`, `3 min ago`.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::time::{Span, Time};
use crate::window::Zone;

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Writes roughly how long a span is, in one unit: `45 s`, `3 min`, `5 h`, `14 days`.
pub fn about(span: Span) -> String {
    let micros = span.micros();
    let rounded = |unit: i64| micros / unit + i64::from(micros % unit >= unit / 2);
    if micros < SECOND {
        format!("{} ms", span.millis())
    } else if micros < 90 * SECOND {
        format!("{} s", rounded(SECOND))
    } else if micros < 90 * MINUTE {
        format!("{} min", rounded(MINUTE))
    } else if micros < 48 * HOUR {
        format!("{} h", rounded(HOUR))
    } else {
        format!("{} days", rounded(DAY))
    }
}

/// Writes when `at` is, seen from `now`: `in 14 days`, `3 min ago`, `now`; `never` for [`Time::NEVER`].
pub fn relative(at: Time, now: Time) -> String {
    let (ahead, behind) = (at.since(now), now.since(at));
    if at == Time::NEVER {
        "never".to_owned()
    } else if ahead.max(behind).micros() < SECOND {
        "now".to_owned()
    } else if ahead > behind {
        format!("in {}", about(ahead))
    } else {
        format!("{} ago", about(behind))
    }
}

/// Writes when `at` is, and its date and time in a zone: `in 14 days (2026-12-01 00:00 Europe/Berlin)`. In a zone that
/// this build does not know, the time is in UTC.
pub fn relative_in(at: Time, now: Time, zone: &Zone) -> String {
    let Ok(stamp) = Timestamp::from_microsecond(at.micros()) else { return relative(at, now) };
    let (known, name) = match zone.look_up() {
        Some(known) => (known, zone.as_str()),
        None => (TimeZone::UTC, "UTC"),
    };
    let local = stamp.to_zoned(known);
    let seconds = if local.second() == 0 { "" } else { ":%S" };
    format!("{} ({} {name})", relative(at, now), local.strftime(&format!("%Y-%m-%d %H:%M{seconds}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_to_now() {
        let now: Time = "2026-11-17T00:00:00Z".parse().unwrap();
        let later = |millis| relative(now.after(Span::from_millis(millis)), now);
        let earlier = |millis| relative(now.before(Span::from_millis(millis)), now);
        assert_eq!(later(0), "now");
        assert_eq!(later(999), "now");
        assert_eq!(later(1_000), "in 1 s");
        assert_eq!(later(89_499), "in 89 s");
        assert_eq!(later(90_000), "in 2 min", "rounded to the nearest minute");
        assert_eq!(earlier(180_000), "3 min ago");
        assert_eq!(later(5 * 3_600_000), "in 5 h");
        assert_eq!(later(1_207_306_196), "in 14 days");
        assert_eq!(relative(Time::NEVER, now), "never");
        assert_eq!(about(Span::from_millis(500)), "500 ms");
    }

    #[test]
    fn a_reset_is_shown_in_the_zone_of_its_window() {
        let now: Time = "2026-11-17T00:00:00Z".parse().unwrap();
        let berlin = Zone::new("Europe/Berlin").unwrap();
        let reset = "2026-11-30T23:00:00Z".parse().unwrap();
        assert_eq!(relative_in(reset, now, &berlin), "in 14 days (2026-12-01 00:00 Europe/Berlin)");
        let odd = "2026-11-17T00:00:30Z".parse().unwrap();
        assert_eq!(relative_in(odd, now, &Zone::utc()), "in 30 s (2026-11-17 00:00:30 UTC)");
        assert_eq!(relative_in(Time::NEVER, now, &berlin), "never");
        let unknown: Zone = serde_json::from_str("\"Mars/Olympus\"").unwrap();
        assert_eq!(relative_in(odd, now, &unknown), "in 30 s (2026-11-17 00:00:30 UTC)");
    }
}
