//! Windows: the period over which a limit counts.
//!
//! A window is the lifetime of the scope, rolling, a token bucket, or a calendar unit in a time zone. How spend counts
//! in each is documented at [`Balance`](crate::scope::Balance), their text form in [`crate::notation`]; this module has
//! the calendar.
//!
//! # Calendar windows
//!
//! [`Window::calendar_bounds`] returns the window `[start, end)` around an instant, computed from the clocks of the
//! zone. Calendar windows neither overlap nor leave gaps: every instant lies in exactly one window, also where the clocks change. A day
//! starts with the first instant of its date, so it can have 23 or 25 hours. Zone data comes with the build. A window
//! that was stored by a build with newer data may name a zone that this build does not know; the window then has no
//! bounds, and requests that need it are refused instead of guessing.
//!
//! Calendar arithmetic exists only here and in [`crate::cron`].

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Weekday as CivilWeekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::bounds::{LENGTH_MAX, LENGTH_MIN};
use crate::bucket::clamp;
use crate::refusal::Invalid;
use crate::time::{Span, Time};

/// The period over which a limit counts.
///
/// Its text form is shown and parsed by [`crate::notation`]: `lifetime`, `rolling:1h`, `bucket:500000:10000/h` (capacity,
/// refill, period), `month@Europe/Berlin`, `week@UTC:sunday`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    /// All of the scope's past.
    Lifetime,
    /// The last `length`, ending now, exact to the microsecond.
    Rolling {
        /// How far back it reaches.
        length: Span,
    },
    /// A token bucket: starts full, refills evenly, never above its capacity.
    Bucket {
        /// Tokens when full; equal to the amount of the limit.
        capacity: i64,
        /// Tokens added in each `length`.
        refill: i64,
        /// The refill period.
        length: Span,
    },
    /// An hour, day, week, month or year in a time zone.
    Calendar {
        /// The length of the window.
        unit: CalendarUnit,
        /// The time zone.
        zone: Zone,
        /// The first day of a week; ignored for other units.
        week_start: Weekday,
    },
}

/// The length of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalendarUnit {
    /// From full hour to full hour.
    Hour,
    /// From midnight to midnight.
    Day,
    /// Seven days from the first day of the week.
    Week,
    /// From the first of the month.
    Month,
    /// From the first of January.
    Year,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names of the days say it")]
pub enum Weekday {
    #[default]
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

pub(crate) const UNITS: [(CalendarUnit, &str); 5] = [
    (CalendarUnit::Hour, "hour"),
    (CalendarUnit::Day, "day"),
    (CalendarUnit::Week, "week"),
    (CalendarUnit::Month, "month"),
    (CalendarUnit::Year, "year"),
];

pub(crate) const DAYS: [(Weekday, &str, CivilWeekday); 7] = [
    (Weekday::Monday, "monday", CivilWeekday::Monday),
    (Weekday::Tuesday, "tuesday", CivilWeekday::Tuesday),
    (Weekday::Wednesday, "wednesday", CivilWeekday::Wednesday),
    (Weekday::Thursday, "thursday", CivilWeekday::Thursday),
    (Weekday::Friday, "friday", CivilWeekday::Friday),
    (Weekday::Saturday, "saturday", CivilWeekday::Saturday),
    (Weekday::Sunday, "sunday", CivilWeekday::Sunday),
];

/// An IANA time zone name. [`Zone::new`] accepts only zones that this build knows; a stored zone may be unknown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Zone(SmolStr);

/// Accepts any name: it was checked when it was first given. Whether this build knows the zone matters on use.
impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Zone, D::Error> {
        Ok(Zone(<std::borrow::Cow<'de, str>>::deserialize(de)?.into()))
    }
}

impl Zone {
    /// Looks a zone up by its IANA name, ignoring case.
    pub fn new(name: &str) -> Result<Zone, Invalid> {
        let given = Zone(name.into());
        let zone = given.look_up().ok_or_else(|| given.unknown())?;
        Ok(Zone(zone.iana_name().ok_or_else(|| given.unknown())?.into()))
    }

    /// Accepts a name as it was stored, whether or not this build knows the zone.
    pub(crate) fn stored(name: &str) -> Zone {
        Zone(name.into())
    }

    pub(crate) fn look_up(&self) -> Option<TimeZone> {
        if self.0 == "UTC" { Some(TimeZone::UTC) } else { TimeZone::get(&self.0).ok() }
    }

    /// Refuses a stored zone that this build does not know.
    pub fn check(&self) -> Result<(), Invalid> {
        self.look_up().map(drop).ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> Invalid {
        let shown: String = self.0.chars().take(64).collect();
        Invalid::new("zone", format!("{shown:?} is not a known IANA time zone"))
    }

    /// The names of all zones that this build knows, for suggestions.
    pub fn names() -> impl Iterator<Item = String> {
        jiff::tz::db().available().map(|name| name.to_string())
    }

    /// Coordinated universal time.
    pub fn utc() -> Zone {
        Zone(SmolStr::new_static("UTC"))
    }

    /// Its IANA name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Window {
    /// Creates a rolling window of `length`, in whole milliseconds.
    pub fn rolling(length: impl Into<Span>) -> Result<Window, Invalid> {
        let window = Window::Rolling { length: in_millis(length.into()) };
        window.check().map(|()| window)
    }

    /// Creates a token bucket of `capacity` that gains `refill` tokens in each `length`.
    pub fn bucket(capacity: i64, refill: i64, length: impl Into<Span>) -> Result<Window, Invalid> {
        let window = Window::Bucket { capacity, refill, length: in_millis(length.into()) };
        window.check().map(|()| window)
    }

    /// Refuses field values out of range, and zones that this build does not know.
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            Window::Bucket { capacity, .. } if *capacity < 0 => {
                Err(Invalid::new("amount", "of a bucket must not be negative"))
            }
            Window::Bucket { refill, .. } if *refill < 0 => Err(Invalid::new("refill", "must not be negative")),
            Window::Rolling { length } | Window::Bucket { length, .. } => check_length(*length),
            Window::Calendar { zone, .. } => zone.check(),
            Window::Lifetime => Ok(()),
        }
    }

    /// Creates a calendar window in `zone`, with weeks that start on Monday.
    pub fn calendar(unit: CalendarUnit, zone: Zone) -> Window {
        Window::Calendar { unit, zone, week_start: Weekday::Monday }
    }

    /// Creates a calendar window in UTC.
    pub fn utc(unit: CalendarUnit) -> Window {
        Window::calendar(unit, Zone::utc())
    }

    /// Returns how different two buckets are: first by the time to refill from empty, then by capacity.
    pub(crate) fn distance(&self, other: &Window) -> (i64, u64) {
        let full = |window: &Window| match window {
            Window::Bucket { capacity, refill, length } => {
                let micros = i128::from(length.micros()) * i128::from(*capacity) / i128::from((*refill).max(1));
                (clamp(micros), *capacity)
            }
            _ => (0, 0),
        };
        let ((time, capacity), (other_time, other_capacity)) = (full(self), full(other));
        (time.saturating_sub(other_time).saturating_abs(), capacity.abs_diff(other_capacity))
    }

    /// Returns how far back the window can reach at most, which says how long postings must be kept.
    pub(crate) fn reach(&self) -> Span {
        match self {
            Window::Lifetime | Window::Bucket { .. } => Span::ZERO,
            Window::Rolling { length } => *length,
            Window::Calendar { unit, .. } => Span::from_secs(match unit {
                CalendarUnit::Hour => 3_600,
                CalendarUnit::Day => 25 * 3_600,
                CalendarUnit::Week => 8 * 86_400,
                CalendarUnit::Month => 32 * 86_400,
                CalendarUnit::Year => 367 * 86_400,
            }),
        }
    }

    /// Returns the calendar window `[start, end)` that contains `now`; `None` for the other kinds of windows, and in a
    /// zone that this build does not know.
    ///
    /// A day starts with the first instant of its date in the zone, also where midnight does not exist or occurs twice.
    /// An hour starts at the full hour and at every change of the clocks, so the hour that is repeated in autumn is two
    /// windows.
    pub fn calendar_bounds(&self, now: Time) -> Option<(Time, Time)> {
        let Window::Calendar { unit, zone, week_start } = self else { return None };
        let zone = zone.look_up()?;
        let stamp = Timestamp::from_microsecond(now.micros()).unwrap_or(Timestamp::MAX);
        let local = stamp.to_zoned(zone.clone());
        let date = local.date();
        let (first, length) = match unit {
            CalendarUnit::Hour => return Some(hour_bounds(&local)),
            CalendarUnit::Day => (date, 1.day()),
            CalendarUnit::Week => {
                let back = date.weekday().since(DAYS[*week_start as usize].2);
                (add(date, -i64::from(back).days()), 7.days())
            }
            CalendarUnit::Month => (date.first_of_month(), 1.month()),
            CalendarUnit::Year => (date.first_of_year(), 1.year()),
        };
        let mut last = add(first, length);
        let (mut start, mut end) = (start_of(first, &zone), start_of(last, &zone));
        // If clocks are set back across midnight, they show the old date again after the new date has started.
        while end <= now && last < Date::MAX {
            last = add(last, length);
            (start, end) = (end, start_of(last, &zone));
        }
        Some((start, end))
    }
}

/// Rounds a length up to whole milliseconds, the unit in which lengths are written everywhere.
fn in_millis(length: Span) -> Span {
    Span::from_millis(length.millis().unsigned_abs())
}

fn check_length(length: Span) -> Result<(), Invalid> {
    if length < LENGTH_MIN || length > LENGTH_MAX {
        return Err(Invalid::new(
            "length_ms",
            format!("must be from {LENGTH_MIN} to {LENGTH_MAX} ({} to {})", LENGTH_MIN.millis(), LENGTH_MAX.millis()),
        ));
    }
    if length != in_millis(length) {
        return Err(Invalid::new("length_ms", "must be a whole number"));
    }
    Ok(())
}

fn add(date: Date, span: jiff::Span) -> Date {
    date.checked_add(span).unwrap_or(Date::MAX)
}

fn start_of(date: Date, zone: &TimeZone) -> Time {
    let start = date.to_zoned(zone.clone()).and_then(|zoned| zoned.start_of_day());
    start.map_or(Time::NEVER, |zoned| Time::from_micros(zoned.timestamp().as_microsecond()))
}

/// Returns the clock hour around an instant, cut where the zone's offset changes.
fn hour_bounds(local: &jiff::Zoned) -> (Time, Time) {
    const HOUR: i64 = 3_600_000_000;
    let (zone, at, offset) = (local.time_zone(), local.timestamp(), local.offset());
    let shift = i64::from(offset.seconds()) * 1_000_000;
    let start = (at.as_microsecond() + shift).div_euclid(HOUR) * HOUR - shift;
    let end = start + HOUR;
    let moment = 1.nanosecond();
    let before = |stamp: Timestamp| zone.to_offset(stamp.checked_sub(moment).unwrap_or(Timestamp::MIN));
    let since = zone
        .preceding(at.checked_add(moment).unwrap_or(Timestamp::MAX))
        .map(|change| change.timestamp())
        .take_while(|stamp| stamp.as_microsecond() > start)
        .find(|stamp| before(*stamp) != offset);
    let until = zone
        .following(at)
        .map(|change| change.timestamp())
        .take_while(|stamp| stamp.as_microsecond() < end)
        .find(|stamp| zone.to_offset(*stamp) != offset);
    let micros = |stamp: Option<Timestamp>, usual| Time::from_micros(stamp.map_or(usual, Timestamp::as_microsecond));
    (micros(since, start), micros(until, end))
}

impl FromStr for Weekday {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Weekday, Invalid> {
        DAYS.iter()
            .find(|known| known.1 == text)
            .map(|known| known.0)
            .ok_or_else(|| Invalid::new("week_start", "is not a day of the week in lower case"))
    }
}

/// The form of a window in JSON: lengths in milliseconds. It is part of the journal and of fingerprints, so it never
/// changes.
struct Stored<'a>(&'a Window);

impl fmt::Display for Stored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Window::Rolling { length } => write!(f, "rolling:{}", length.millis()),
            Window::Bucket { capacity, refill, length } => {
                write!(f, "bucket:{capacity}:{refill}:{}", length.millis())
            }
            Window::Lifetime | Window::Calendar { .. } => self.0.fmt(f),
        }
    }
}

/// The form of a window in compact (binary) encodings.
#[derive(Serialize, Deserialize)]
enum Compact {
    Lifetime,
    Rolling(Span),
    Bucket(i64, i64, Span),
    Calendar(CalendarUnit, Zone, Weekday),
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        if ser.is_human_readable() {
            return ser.collect_str(&Stored(self));
        }
        match self {
            Window::Lifetime => Compact::Lifetime,
            Window::Rolling { length } => Compact::Rolling(*length),
            Window::Bucket { capacity, refill, length } => Compact::Bucket(*capacity, *refill, *length),
            Window::Calendar { unit, zone, week_start } => Compact::Calendar(*unit, zone.clone(), *week_start),
        }
        .serialize(ser)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Window, D::Error> {
        if de.is_human_readable() {
            let text = <std::borrow::Cow<'de, str>>::deserialize(de)?;
            return Window::read_stored(&text).map_err(D::Error::custom);
        }
        Ok(match Compact::deserialize(de)? {
            Compact::Lifetime => Window::Lifetime,
            Compact::Rolling(length) => Window::Rolling { length },
            Compact::Bucket(capacity, refill, length) => Window::Bucket { capacity, refill, length },
            Compact::Calendar(unit, zone, week_start) => Window::Calendar { unit, zone, week_start },
        })
    }
}
