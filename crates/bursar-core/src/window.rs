//! Windows: over which stretch of time a limit counts.

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

/// The stretch of time over which a limit counts.
///
/// Its text form is what the journal, the CLI and violations show: `lifetime`, `rolling:3600000`,
/// `bucket:100:10:1000` (capacity, refill, milliseconds), `month@Europe/Berlin`, `week@UTC:sunday`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    /// Since ever.
    Lifetime,
    /// The last `length`, exact to the microsecond.
    Rolling {
        /// How far back it reaches.
        length: Span,
    },
    /// A token bucket: full at first, refilled evenly, never above its capacity.
    Bucket {
        /// What it holds when full; the limit's amount.
        capacity: i64,
        /// Units that return in each `length`.
        refill: i64,
        /// The time in which `refill` returns.
        length: Span,
    },
    /// An hour, day, week, month or year on the clocks of a zone.
    Calendar {
        /// Which of them.
        unit: CalendarUnit,
        /// Whose clocks.
        zone: Zone,
        /// The first day of a week.
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
    /// Seven days from the week's first.
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

const UNITS: [(CalendarUnit, &str); 5] = [
    (CalendarUnit::Hour, "hour"),
    (CalendarUnit::Day, "day"),
    (CalendarUnit::Week, "week"),
    (CalendarUnit::Month, "month"),
    (CalendarUnit::Year, "year"),
];

const DAYS: [(Weekday, &str, CivilWeekday); 7] = [
    (Weekday::Monday, "monday", CivilWeekday::Monday),
    (Weekday::Tuesday, "tuesday", CivilWeekday::Tuesday),
    (Weekday::Wednesday, "wednesday", CivilWeekday::Wednesday),
    (Weekday::Thursday, "thursday", CivilWeekday::Thursday),
    (Weekday::Friday, "friday", CivilWeekday::Friday),
    (Weekday::Saturday, "saturday", CivilWeekday::Saturday),
    (Weekday::Sunday, "sunday", CivilWeekday::Sunday),
];

/// An IANA time zone. One that was made here is known to this build; one that was stored may come from a newer one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Zone(SmolStr);

/// Trusted, as it was checked where people wrote it. Whether this build knows it is asked when it is used.
impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Zone, D::Error> {
        Ok(Zone(<std::borrow::Cow<'de, str>>::deserialize(de)?.into()))
    }
}

impl Zone {
    /// Looks the zone up by its IANA name.
    pub fn new(name: &str) -> Result<Zone, Invalid> {
        let asked = Zone(name.into());
        let zone = asked.look_up().ok_or_else(|| asked.unknown())?;
        Ok(Zone(zone.iana_name().ok_or_else(|| asked.unknown())?.into()))
    }

    pub(crate) fn look_up(&self) -> Option<TimeZone> {
        if self.0 == "UTC" { Some(TimeZone::UTC) } else { TimeZone::get(&self.0).ok() }
    }

    /// Refuses a zone that was stored and that this build does not know.
    pub fn check(&self) -> Result<(), Invalid> {
        self.look_up().map(drop).ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> Invalid {
        let shown: String = self.0.chars().take(64).collect();
        Invalid::new("zone", format!("{shown:?} is not a known IANA time zone"))
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
    /// The last `length`.
    pub fn rolling(length: impl Into<Span>) -> Result<Window, Invalid> {
        let window = Window::Rolling { length: in_millis(length.into()) };
        window.check().map(|()| window)
    }

    /// A token bucket of `capacity` that regains `refill` in each `length`.
    pub fn bucket(capacity: i64, refill: i64, length: impl Into<Span>) -> Result<Window, Invalid> {
        let window = Window::Bucket { capacity, refill, length: in_millis(length.into()) };
        window.check().map(|()| window)
    }

    /// Refuses what its fields allow and no window is.
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

    /// A calendar window on the clocks of `zone`.
    pub fn calendar(unit: CalendarUnit, zone: Zone) -> Window {
        Window::Calendar { unit, zone, week_start: Weekday::Monday }
    }

    /// A calendar window in UTC.
    pub fn utc(unit: CalendarUnit) -> Window {
        Window::calendar(unit, Zone::utc())
    }

    /// How little two buckets have in common: they differ in the time to refill, then in what they hold.
    pub(crate) fn unlikeness(&self, other: &Window) -> (i64, u64) {
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

    /// How far back it can reach at most.
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

    /// The calendar window `[start, end)` that `now` lies in; `None` for the other kinds, and in a zone that this build
    /// does not know.
    ///
    /// A day begins with the first instant of its date on the zone's clocks, also where midnight does not exist or comes
    /// twice. An hour begins with the full hour on the clock, and where the clocks are changed: the hour that autumn
    /// repeats is two windows. So each instant lies in exactly one window, and one ends where the next begins.
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
        // Clocks that are put back across midnight show the old date again after the new one has begun.
        while end <= now && last < Date::MAX {
            last = add(last, length);
            (start, end) = (end, start_of(last, &zone));
        }
        Some((start, end))
    }
}

/// Lengths are told in milliseconds everywhere; a finer one could not be told back.
fn in_millis(length: Span) -> Span {
    Span::from_millis(length.millis().unsigned_abs())
}

fn check_length(length: Span) -> Result<(), Invalid> {
    if length < LENGTH_MIN || length > LENGTH_MAX {
        return Err(Invalid::new(
            "length_ms",
            format!("must be from {} to {}", LENGTH_MIN.millis(), LENGTH_MAX.millis()),
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

/// The clock hour around an instant, counted from the zone's offset at that instant and cut where that changes.
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

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Lifetime => f.write_str("lifetime"),
            Window::Rolling { length } => write!(f, "rolling:{}", length.millis()),
            Window::Bucket { capacity, refill, length } => {
                write!(f, "bucket:{capacity}:{refill}:{}", length.millis())
            }
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

impl FromStr for Window {
    type Err = Invalid;

    /// Reads the text form; a calendar unit alone is in UTC.
    fn from_str(text: &str) -> Result<Window, Invalid> {
        let window = Window::read(text)?;
        match window {
            Window::Calendar { unit, zone, week_start } => {
                Ok(Window::Calendar { unit, zone: Zone::new(zone.as_str())?, week_start })
            }
            other => Ok(other),
        }
    }
}

impl Window {
    /// Reads the text form without asking whether this build knows the zone.
    fn read(text: &str) -> Result<Window, Invalid> {
        let bad = || {
            let shown: String = text.chars().take(64).collect();
            Invalid::new(
                "window",
                format!(
                    "{shown:?} is not one of lifetime, rolling:MS, bucket:CAPACITY:REFILL:MS, or hour, day, week, month, year with @ZONE"
                ),
            )
        };
        let millis = |part: &str| part.parse::<u64>().map(Span::from_millis).map_err(|_| bad());
        if text == "lifetime" {
            return Ok(Window::Lifetime);
        }
        if let Some(length) = text.strip_prefix("rolling:") {
            return Window::rolling(millis(length)?);
        }
        if let Some(rest) = text.strip_prefix("bucket:") {
            let parts: Vec<&str> = rest.split(':').collect();
            let [capacity, refill, length] = parts[..] else { return Err(bad()) };
            let number = |part: &str| part.parse::<i64>().map_err(|_| bad());
            return Window::bucket(number(capacity)?, number(refill)?, millis(length)?);
        }
        let (unit, rest) = text.split_once('@').unwrap_or((text, "UTC"));
        let unit = UNITS.iter().find(|known| known.1 == unit).ok_or_else(bad)?.0;
        let (zone, day) = match rest.split_once(':') {
            Some((zone, day)) if unit == CalendarUnit::Week => (zone, day.parse()?),
            Some(_) => return Err(bad()),
            None => (rest, Weekday::Monday),
        };
        Ok(Window::Calendar { unit, zone: Zone(zone.into()), week_start: day })
    }
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

/// The same in a compact form: used where bytes count more than readers.
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
            return ser.collect_str(self);
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
            return Window::read(&text).map_err(D::Error::custom);
        }
        Ok(match Compact::deserialize(de)? {
            Compact::Lifetime => Window::Lifetime,
            Compact::Rolling(length) => Window::Rolling { length },
            Compact::Bucket(capacity, refill, length) => Window::Bucket { capacity, refill, length },
            Compact::Calendar(unit, zone, week_start) => Window::Calendar { unit, zone, week_start },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(window: &str, now: &str) -> String {
        let now: Timestamp = now.parse().unwrap();
        let window: Window = window.parse().unwrap();
        let (start, end) = window.calendar_bounds(Time::from_micros(now.as_microsecond())).unwrap();
        let hours = (end.micros() - start.micros()) as f64 / 3_600e6;
        format!("{} {hours}h", start.to_string().replace(":00.000000Z", "Z"))
    }

    #[test]
    fn calendar_windows_follow_the_clocks_of_their_zone() {
        let cases = [
            // Plain.
            ("month", "2026-11-15T10:00:00Z", "2026-11-01T00:00Z 720h"),
            ("year", "2026-11-15T10:00:00Z", "2026-01-01T00:00Z 8760h"),
            ("week", "2026-11-15T10:00:00Z", "2026-11-09T00:00Z 168h"),
            ("week@UTC:sunday", "2026-11-15T10:00:00Z", "2026-11-15T00:00Z 168h"),
            ("hour", "2026-11-15T10:59:59.999999Z", "2026-11-15T10:00Z 1h"),
            // The first and the last instant of a window.
            ("day", "2026-11-15T00:00:00Z", "2026-11-15T00:00Z 24h"),
            ("day", "2026-11-14T23:59:59.999999Z", "2026-11-14T00:00Z 24h"),
            // Daylight saving: Berlin jumps on 2026-03-29 and falls back on 2026-10-25.
            ("day@Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00Z 23h"),
            ("day@Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00Z 25h"),
            ("week@Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-18T22:00Z 169h"),
            ("month@Europe/Berlin", "2026-10-25T12:00:00Z", "2026-09-30T22:00Z 745h"),
            // A zone whose clocks jump at midnight: the day has no 00:00.
            ("day@America/Havana", "2026-03-08T12:00:00Z", "2026-03-08T05:00Z 23h"),
            // A zone half an hour off, and one that shifts by half an hour.
            ("hour@Asia/Kolkata", "2026-11-15T10:10:00Z", "2026-11-15T09:30Z 1h"),
            ("day@Australia/Lord_Howe", "2026-04-04T20:00:00Z", "2026-04-04T13:00Z 24.5h"),
            // A zone that skipped a whole day.
            ("day@Pacific/Apia", "2011-12-30T11:00:00Z", "2011-12-30T10:00Z 24h"),
            // Month ends and leap days.
            ("month", "2028-02-29T23:59:59Z", "2028-02-01T00:00Z 696h"),
            ("month", "2027-02-28T23:59:59Z", "2027-02-01T00:00Z 672h"),
            ("year", "2028-02-29T00:00:00Z", "2028-01-01T00:00Z 8784h"),
            ("day", "2028-02-29T00:00:00Z", "2028-02-29T00:00Z 24h"),
            ("month@Pacific/Kiritimati", "2026-12-31T12:00:00Z", "2026-12-31T10:00Z 744h"),
        ];
        for (window, now, expected) in cases {
            assert_eq!(bounds(window, now), expected, "{window} at {now}");
        }
    }

    #[test]
    fn windows_tile_time_also_where_the_clocks_are_changed() {
        // Half an hour, whole hours, a skipped day, no change at all, and gaps and folds at midnight.
        let changes = [
            ("Australia/Lord_Howe", ["2026-04-04", "2026-10-03"]),
            ("Europe/Berlin", ["2026-03-29", "2026-10-25"]),
            ("America/New_York", ["2026-03-08", "2026-11-01"]),
            ("Pacific/Apia", ["2011-12-30", "2011-04-02"]),
            ("Asia/Kathmandu", ["2026-01-01", "1985-12-31"]),
            ("America/Sao_Paulo", ["2017-10-15", "2018-02-18"]),
            ("Africa/Cairo", ["2026-04-24", "2026-10-30"]),
            ("America/St_Johns", ["2010-03-14", "2010-11-07"]),
        ];
        for (zone, days) in changes {
            for unit in ["hour", "day", "week", "week@:sunday", "month", "year"] {
                let (unit, start) = unit.split_once('@').unwrap_or((unit, ""));
                let window: Window = format!("{unit}@{zone}{start}").parse().unwrap();
                for day in days {
                    tiles(&window, format!("{day}T00:00:00Z").parse().unwrap());
                }
            }
        }
    }

    /// From a day before to two days after: every instant lies in its window, all instants of a window have the same
    /// one, and the next begins where it ends. Looks at each quarter of an hour and at both sides of each boundary.
    fn tiles(window: &Window, day: Timestamp) {
        const QUARTER: i64 = 900_000_000;
        let first = day.as_microsecond() - 96 * QUARTER;
        let at = |micros| window.calendar_bounds(Time::from_micros(micros)).unwrap();
        let mut before = at(first);
        for quarter in 0..(4 * 96) {
            let now = first + quarter * QUARTER;
            for now in [now, now + QUARTER - 1] {
                let (start, end) = at(now);
                assert!(start.micros() <= now && now < end.micros(), "{window} at {now}: {start} {end}");
                assert!(
                    before == (start, end) || before.1 == start,
                    "{window} at {now}: {before:?} then {start} {end}"
                );
                assert_eq!(at(start.micros()), (start, end), "{window} at {now}: its first instant");
                assert_eq!(at(end.micros() - 1), (start, end), "{window} at {now}: its last instant");
                assert_eq!(at(end.micros()).0, end, "{window} at {now}: the next one");
                before = (start, end);
            }
        }
    }

    #[test]
    fn an_hour_is_cut_where_the_clocks_are_changed_by_half_of_one() {
        let cases = [
            // Lord Howe goes back from two to half past one at 15:00 UTC, and forth from two to half past two at 15:30.
            ("2026-04-04T14:59:59Z", "2026-04-04T14:00Z 1h"),
            ("2026-04-04T15:00:00Z", "2026-04-04T15:00Z 0.5h"),
            ("2026-04-04T15:30:00Z", "2026-04-04T15:30Z 1h"),
            ("2026-10-03T15:29:59Z", "2026-10-03T14:30Z 1h"),
            ("2026-10-03T15:30:00Z", "2026-10-03T15:30Z 0.5h"),
            ("2026-10-03T16:00:00Z", "2026-10-03T16:00Z 1h"),
        ];
        for (now, expected) in cases {
            assert_eq!(bounds("hour@Australia/Lord_Howe", now), expected, "{now}");
        }
    }

    #[test]
    fn windows_read_back_from_their_text_form() {
        for text in ["lifetime", "rolling:3600000", "bucket:100:10:1000", "month@Europe/Berlin", "week@UTC:sunday"] {
            assert_eq!(text.parse::<Window>().unwrap().to_string(), text);
        }
        assert_eq!("day".parse::<Window>().unwrap().to_string(), "day@UTC");
    }

    #[test]
    fn bad_windows_are_named() {
        let cases = [
            ("fortnight", "window"),
            ("rolling:0", "length_ms"),
            ("rolling:99999999999999", "length_ms"),
            ("rolling:-1", "window"),
            ("bucket:1:2", "window"),
            ("bucket:-1:2:3", "amount"),
            ("day@Mars/Olympus", "zone"),
            ("day@UTC:sunday", "window"),
            ("week@UTC:funday", "week_start"),
        ];
        for (text, field) in cases {
            assert_eq!(text.parse::<Window>().unwrap_err().field, field, "{text}");
        }
    }
}
