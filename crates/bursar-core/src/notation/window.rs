//! Windows: `lifetime`, `month@Europe/Berlin`, `week@UTC:sunday`, `rolling:1h`, `bucket:500000:10000/h`.
//!
//! Lengths without a unit are milliseconds (`rolling:3600000`, `bucket:100:10:1000`). Stored rows have this form, so it
//! is accepted, but it is never shown.

use std::fmt;
use std::str::FromStr;

use super::duration::UNITS as DURATIONS;
use super::{Unit, digits, quoted};
use crate::refusal::Invalid;
use crate::time::Span;
use crate::window::{CalendarUnit, DAYS, UNITS, Weekday, Window, Zone};

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Lifetime => f.write_str("lifetime"),
            Window::Rolling { length } => write!(f, "rolling:{length}"),
            Window::Bucket { capacity, refill, length } => write!(f, "bucket:{capacity}:{refill}/{}", per(*length)),
            Window::Calendar { unit, zone, week_start } => {
                write!(f, "{}@{}", UNITS[*unit as usize].1, zone.as_str())?;
                match (unit, week_start) {
                    (CalendarUnit::Week, day) if *day != Weekday::Monday => {
                        write!(f, ":{}", DAYS[*day as usize].1)
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Writes the period of a refill: `h` for `1h`.
fn per(length: Span) -> String {
    let whole = DURATIONS.iter().find(|unit| Span::from_millis(unit.1) == length);
    whole.map_or_else(|| length.to_string(), |(unit, _)| (*unit).to_owned())
}

impl FromStr for Window {
    type Err = Invalid;

    /// Parses the notation; a calendar unit without a zone is in UTC.
    fn from_str(text: &str) -> Result<Window, Invalid> {
        known(read(text, None, &Unit::default())?)
    }
}

impl Window {
    /// Parses the window of a limit of `amount`. The capacity of a bucket is the amount and may be left out:
    /// `bucket:10000/h`.
    pub fn of_limit(amount: i64, text: &str) -> Result<Window, Invalid> {
        Window::of_limit_in(amount, text, &Unit::default())
    }

    /// Does the same with the capacity and the refill of a bucket written in `unit`.
    pub(super) fn of_limit_in(amount: i64, text: &str, unit: &Unit) -> Result<Window, Invalid> {
        let window = known(read(text, Some(amount), unit)?)?;
        match window {
            Window::Bucket { capacity, .. } if capacity != amount => Err(Invalid::new(
                "window",
                format!("{} has another capacity than the limit's amount: leave the capacity out", quoted(text)),
            )),
            window => Ok(window),
        }
    }

    /// Writes the window for people who read amounts in `unit`. If it has decimals, the amounts of a bucket are written in it, as
    /// [`Limit::parse`](crate::budget::Limit::parse) takes them: `bucket:0.50usd:0.01usd/h`.
    pub fn format_in(&self, unit: &Unit) -> String {
        match self {
            Window::Bucket { capacity, refill, length } if unit.decimals > 0 => {
                let [capacity, refill] = [*capacity, *refill].map(|amount| unit.format_typed(amount));
                format!("bucket:{capacity}:{refill}/{}", per(*length))
            }
            window => window.to_string(),
        }
    }

    /// Reads a stored window, whose zone this build may not know.
    pub(crate) fn read_stored(text: &str) -> Result<Window, Invalid> {
        read(text, None, &Unit::default())
    }
}

/// Refuses a zone that this build does not know, and corrects the case of its name.
fn known(window: Window) -> Result<Window, Invalid> {
    match window {
        Window::Calendar { unit, zone, week_start } => {
            Ok(Window::Calendar { unit, zone: Zone::new(zone.as_str())?, week_start })
        }
        other => Ok(other),
    }
}

/// Parses a window without checking that this build knows the zone; `amount` is the capacity of a bucket without one.
fn read(text: &str, amount: Option<i64>, unit: &Unit) -> Result<Window, Invalid> {
    if text == "lifetime" {
        return Ok(Window::Lifetime);
    }
    if let Some(given) = text.strip_prefix("rolling:") {
        return length(given).and_then(Window::rolling).map_err(|error| of_window(text, &error));
    }
    if let Some(rest) = text.strip_prefix("bucket:") {
        return bucket(rest, amount, unit).ok_or_else(|| unknown(text))?.map_err(|error| of_window(text, &error));
    }
    let (name, rest) = text.split_once('@').unwrap_or((text, "UTC"));
    let calendar = UNITS.iter().find(|known| known.1 == name).ok_or_else(|| unknown(text))?.0;
    let (zone, week_start) = match rest.split_once(':') {
        Some((zone, day)) if calendar == CalendarUnit::Week => (zone, day.parse()?),
        Some(_) => return Err(unknown(text)),
        None => (rest, Weekday::Monday),
    };
    Ok(Window::Calendar { unit: calendar, zone: Zone::stored(zone), week_start })
}

/// Parses `[CAPACITY:]REFILL/PERIOD`, or `[CAPACITY:]REFILL:MS`; `None` if it has another form.
fn bucket(text: &str, amount: Option<i64>, unit: &Unit) -> Option<Result<Window, Invalid>> {
    let (left, period) = text.split_once('/').or_else(|| text.rsplit_once(':'))?;
    let (capacity, refill) = match left.split_once(':') {
        Some((capacity, refill)) => (Some(capacity), refill),
        None => (None, left),
    };
    if capacity.is_none() && amount.is_none() || refill.contains(':') {
        return None;
    }
    let parsed = || {
        let capacity = capacity.map_or(Ok(amount.unwrap_or_default()), |capacity| unit.parse(capacity))?;
        // `/h` is short for `/1h`.
        let short = DURATIONS.iter().find(|known| text.contains('/') && known.0 == period);
        let length = short.map_or_else(|| length(period), |known| Ok(Span::from_millis(known.1)))?;
        Window::bucket(capacity, unit.parse(refill)?, length)
    };
    Some(parsed())
}

/// Parses a duration; a bare number is milliseconds, as in stored rows.
fn length(text: &str) -> Result<Span, Invalid> {
    digits(text).map_or_else(|| text.parse(), |millis| Ok(Span::from_millis(millis)))
}

fn of_window(text: &str, error: &Invalid) -> Invalid {
    let part = if error.field == "length_ms" { "its length" } else { error.field.as_ref() };
    Invalid::new("window", format!("{} is refused: {part} {}", quoted(text), error.problem))
}

fn unknown(text: &str) -> Invalid {
    Invalid::new(
        "window",
        format!(
            "{} is not one of lifetime, hour, day, week, month, year (with @ZONE: month@Europe/Berlin), rolling:LENGTH (rolling:1h), bucket:CAPACITY:REFILL/PERIOD (bucket:500000:10000/h)",
            quoted(text)
        ),
    )
}
