//! Cron expressions: the instants at which a schedule ticks.
//!
//! `text.rs` parses an expression into a pattern, and `pattern.rs` finds its next match on a clock that never changes.
//! [`Cron::next`] applies the pattern to the clocks of a time zone: it goes from one change of the clocks to the next,
//! and in between uses the pattern.

mod pattern;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cron::pattern::Pattern;
use crate::refusal::Invalid;
use crate::time::Time;
use crate::window::Zone;

/// A cron expression. It keeps its text, and two are equal if their texts are.
///
/// It has five fields, or six with seconds first; without seconds it ticks at second 0.
///
/// | field | values |
/// | --- | --- |
/// | second | 0 to 59 |
/// | minute | 0 to 59 |
/// | hour | 0 to 23 |
/// | day of month | 1 to 31, `L` for the last day of the month |
/// | month | 1 to 12, `JAN` to `DEC` |
/// | day of week | 0 to 7 (0 and 7 are Sunday), `SUN` to `SAT` |
///
/// A field is `*`, a value, a range `10-30`, a step `*/5`, `10-30/5` or `5/15` (from 5 to the end of the field), or a
/// list of these with commas. Names are accepted in any case, short (`jan`) or full (`january`). A range of weekdays
/// may wrap around: `FRI-MON` is Friday, Saturday, Sunday and Monday. Ranges of other fields must ascend.
///
/// Instead of the fields: `@hourly`, `@daily` or `@midnight`, `@weekly`, `@monthly`, `@yearly` or `@annually`.
///
/// **Two fields for the day.** If both the day of month and the day of week are restricted, a day matches if either
/// does: `0 0 1,15 * MON` ticks on the 1st, on the 15th and on every Monday. A field that begins with `*`, such as
/// `*/2`, does not count as restricted; then both must match.
///
/// **Daylight saving time.** A fixed time of day ticks once a day. If the clocks skip it, it ticks at the first instant
/// after the gap, once for everything in the gap; if it occurs twice, it ticks the first time. An expression that runs
/// all day follows the clocks instead: it ticks in both of the repeated hours, and skips what lies in a gap. An
/// expression runs all day if its hour field has a `*` or a step and names more than one hour, or names all of them.
///
/// An expression that no date ever matches, such as one for 30 February, is refused.
#[derive(Clone)]
pub struct Cron {
    text: Arc<str>,
    pattern: Pattern,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Cron {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cron".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "examples": ["30 7 * * MON-FRI"] })
    }
}

impl Cron {
    /// Parses an expression.
    pub fn new(text: impl AsRef<str>) -> Result<Cron, Invalid> {
        let text = text.as_ref();
        Ok(Cron { text: text.into(), pattern: text::read(text)? })
    }

    /// Returns the expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the first tick after `after` in `zone`.
    ///
    /// `None` if there is none before the end of the calendar (the year 9999), or if this build does not know the zone;
    /// [`Zone::check`] distinguishes the two.
    pub fn next(&self, zone: &Zone, after: Time) -> Option<Time> {
        self.next_in(&zone.look_up()?, after)
    }

    /// Returns the first `limit` ticks in `(after, until]` in `zone`, in order. Empty if this build does not know the
    /// zone.
    pub fn ticks(&self, zone: &Zone, after: Time, until: Time, limit: usize) -> Vec<Time> {
        let Some(zone) = zone.look_up() else { return Vec::new() };
        let mut ticks = Vec::new();
        let mut last = after;
        while ticks.len() < limit {
            match self.next_in(&zone, last) {
                Some(tick) if tick <= until => ticks.push(tick),
                _ => break,
            }
            last = ticks[ticks.len() - 1];
        }
        ticks
    }

    /// Goes from one change of the clocks to the next. In between the offset is constant, and the pattern finds the
    /// next match directly.
    fn next_in(&self, zone: &TimeZone, after: Time) -> Option<Time> {
        let second = after.micros().div_euclid(1_000_000) + 1;
        let mut from = Timestamp::from_second(second.max(Timestamp::MIN.as_second())).ok()?;
        loop {
            let offset = zone.to_offset(from);
            let shown = offset.to_datetime(from);
            let since = if self.pattern.runs_all_day() { shown } else { reached(zone, from) };
            let found = self.pattern.first_from(since)?;
            let change = zone.following(from).next().map(|change| change.timestamp());
            match change {
                Some(change) if found >= offset.to_datetime(change) => from = change,
                _ => {
                    // A match before the time shown lies in a gap, which ended at `from`.
                    let tick = offset.to_timestamp(found.max(shown)).ok()?;
                    return Some(Time::from_micros(tick.as_microsecond()));
                }
            }
        }
    }
}

/// Returns the first clock time that the zone's clocks have neither shown nor skipped before the instant `from`. After
/// the clocks were set back it is later than the time they show.
fn reached(zone: &TimeZone, from: Timestamp) -> DateTime {
    // No change has ever set clocks back by more than a day.
    let recent = from.checked_sub(48.hours()).unwrap_or(Timestamp::MIN);
    let changes = zone.preceding(from).map(|change| change.timestamp()).take_while(|change| *change > recent);
    changes.map(|change| reached_at(zone, change)).fold(reached_at(zone, from), DateTime::max)
}

/// Returns the clock time at the instant by the offset that was valid right before it.
fn reached_at(zone: &TimeZone, at: Timestamp) -> DateTime {
    let before = at.checked_sub(1.second()).unwrap_or(at);
    zone.to_offset(before).to_datetime(at)
}

impl PartialEq for Cron {
    fn eq(&self, other: &Cron) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

impl Hash for Cron {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}

impl FromStr for Cron {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Cron, Invalid> {
        Cron::new(text)
    }
}

impl Serialize for Cron {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        ser.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Cron, D::Error> {
        Cron::new(<std::borrow::Cow<'de, str>>::deserialize(de)?).map_err(D::Error::custom)
    }
}
