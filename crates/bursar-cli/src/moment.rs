//! Times as people read them: relative to now, with the exact one beside it.

use bursar::notation::{relative, relative_in};
use bursar::{Clock, SystemClock, Time, Zone};

/// Shows a time of an answer, such as `in 5 min (2026-11-17 17:20 UTC)`; `-` for none.
pub(crate) fn moment(time: Option<&String>) -> String {
    moment_in(time, None)
}

/// Shows a time in a zone, or in UTC.
pub(crate) fn moment_in(time: Option<&String>, zone: Option<&str>) -> String {
    let Some(text) = time else { return "-".to_owned() };
    let Ok(at) = text.parse::<Time>() else { return text.clone() };
    let zone = zone.and_then(|zone| Zone::new(zone).ok()).unwrap_or_else(Zone::utc);
    relative_in(to_second(at), SystemClock.now(), &zone)
}

/// Shows a time in seconds since 1970.
pub(crate) fn moment_of_seconds(seconds: Option<i64>, zone: Option<&str>) -> String {
    let time = seconds.map(|seconds| Time::from_micros(seconds.saturating_mul(1_000_000)).to_string());
    moment_in(time.as_ref(), zone)
}

/// Shows how long ago or ahead a time is, without the exact one.
pub(crate) fn distance(time: Option<&String>) -> String {
    let Some(text) = time else { return "-".to_owned() };
    text.parse::<Time>().map_or_else(|_| text.clone(), |at| relative(at, SystemClock.now()))
}

/// Drops the parts of a second, which would not be shown.
fn to_second(time: Time) -> Time {
    match time {
        Time::NEVER => time,
        time => Time::from_micros(time.micros().div_euclid(1_000_000).saturating_mul(1_000_000)),
    }
}
