//! Parsing cron expressions, with errors that name the field and the mistake.

use crate::bounds::CRON_BYTES_MAX;
use crate::cron::pattern::{Pattern, Set};
use crate::refusal::Invalid;

const SHAPE: &str = "five fields (minute, hour, day of month, month, day of week), or six with seconds first";

/// Names for common expressions.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Parses an expression.
pub(super) fn read(text: &str) -> Result<Pattern, Invalid> {
    if text.len() > CRON_BYTES_MAX {
        return Err(invalid(format!("has {} bytes; at most {CRON_BYTES_MAX} are allowed", text.len())));
    }
    let written: Vec<&str> = text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
    let pattern = match written[..] {
        [nickname] if nickname.starts_with('@') => return read(expand(nickname)?),
        [minute, hour, day, month, weekday] => pattern(["0", minute, hour, day, month, weekday])?,
        [second, minute, hour, day, month, weekday] => pattern([second, minute, hour, day, month, weekday])?,
        [] => return Err(invalid(format!("must not be empty: write {SHAPE}"))),
        [_] => return Err(invalid(format!("has 1 field: write {SHAPE}"))),
        _ => return Err(invalid(format!("has {} fields: write {SHAPE}", written.len()))),
    };
    if pattern.matches_nothing() {
        return Err(invalid(format!("{text:?} never occurs: none of its months has any of its days")));
    }
    Ok(pattern)
}

fn invalid(problem: String) -> Invalid {
    Invalid::new("cron", problem)
}

fn expand(nickname: &str) -> Result<&'static str, Invalid> {
    if let Some(known) = NICKNAMES.iter().find(|known| known.0.eq_ignore_ascii_case(nickname)) {
        return Ok(known.1);
    }
    let known = NICKNAMES.map(|known| known.0).join(", ");
    Err(invalid(if nickname.eq_ignore_ascii_case("@reboot") {
        format!("{nickname:?} is not supported, because a schedule is not tied to one machine: use one of {known}")
    } else {
        format!("{nickname:?} is not one of {known}")
    }))
}

fn pattern([second, minute, hour, day, month, weekday]: [&str; 6]) -> Result<Pattern, Invalid> {
    let (days, last_day) = DAY.read_days(day)?;
    Ok(Pattern {
        seconds: SECOND.read(second)?,
        minutes: MINUTE.read(minute)?,
        hours: HOUR.read(hour)?,
        days,
        last_day,
        months: MONTH.read(month)?,
        weekdays: WEEKDAY.read(weekday)?,
        either: !day.starts_with('*') && !weekday.starts_with('*'),
        stepped: hour.contains(['*', '/']),
    })
}

/// A field of an expression and its range of values.
struct Field {
    name: &'static str,
    /// The allowed values, for error messages.
    values: &'static str,
    first: u8,
    last: u8,
    /// Names of the values, from `first` on. The first three letters are enough.
    names: &'static [&'static str],
    /// Whether ranges may wrap around, and `last + 1` means `first`.
    round: bool,
}

const SECOND: Field = Field { name: "second", values: "0 to 59", first: 0, last: 59, names: &[], round: false };
const MINUTE: Field = Field { name: "minute", ..SECOND };
const HOUR: Field = Field { name: "hour", values: "0 to 23", last: 23, ..SECOND };
const DAY: Field = Field { name: "day of month", values: "1 to 31, L for the last day", first: 1, last: 31, ..SECOND };
const MONTH: Field = Field {
    name: "month",
    values: "1 to 12, JAN to DEC",
    first: 1,
    last: 12,
    names: &[
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ],
    round: false,
};
const WEEKDAY: Field = Field {
    name: "day of week",
    values: "0 to 7 (0 and 7 are Sunday), SUN to SAT",
    first: 0,
    last: 6,
    names: &["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"],
    round: true,
};

impl Field {
    fn read(&self, text: &str) -> Result<Set, Invalid> {
        let mut set = Set::default();
        for item in text.split(',') {
            self.read_item(item, &mut set)?;
        }
        Ok(set)
    }

    /// Parses days of the month, and whether the last day is among them.
    fn read_days(&self, text: &str) -> Result<(Set, bool), Invalid> {
        let (mut set, mut last) = (Set::default(), false);
        for item in text.split(',') {
            if item.eq_ignore_ascii_case("l") {
                last = true;
            } else {
                self.read_item(item, &mut set)?;
            }
        }
        Ok((set, last))
    }

    /// Parses one item of a list and adds its values.
    fn read_item(&self, item: &str, set: &mut Set) -> Result<(), Invalid> {
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(self.read_step(item, step)?)),
            None => (item, None),
        };
        let (from, to) = match base.split_once('-') {
            _ if base == "*" => (self.first, self.last),
            Some((from, to)) => self.read_range(item, from, to)?,
            None => {
                let value = self.read_value(item, base)?;
                // 7 is Sunday too: a step that starts there continues through the week after it.
                let value = if value > self.last { self.first } else { value };
                (value, if step.is_some() { self.last } else { value })
            }
        };
        for value in (from..=to).step_by(step.unwrap_or(1)) {
            set.insert(if value > self.last { value - self.count() } else { value });
        }
        Ok(())
    }

    /// Parses both ends of a range. The second is above `last` if the range wraps around.
    fn read_range(&self, item: &str, from: &str, to: &str) -> Result<(u8, u8), Invalid> {
        let (first, last) = (self.read_value(item, from)?, self.read_value(item, to)?);
        match first <= last {
            true => Ok((first, last)),
            false if self.round => Ok((first, last + self.count())),
            false => {
                let split = format!("{from}-{},{}-{to}", self.last, self.first);
                Err(self.wrong(item, &format!("a range must ascend; write {split:?} to wrap around")))
            }
        }
    }

    fn read_value(&self, item: &str, value: &str) -> Result<u8, Invalid> {
        let name = |name: &&str| value.eq_ignore_ascii_case(name) || value.eq_ignore_ascii_case(&name[..3]);
        if let Some(place) = self.names.iter().position(name) {
            return Ok(self.first + place as u8);
        }
        let most = self.last + u8::from(self.round);
        number(value).filter(|value| (self.first..=most).contains(value)).ok_or_else(|| self.no_value(item, value))
    }

    fn no_value(&self, item: &str, value: &str) -> Invalid {
        if item.is_empty() {
            self.wrong(item, "an item of the list is missing")
        } else if value.eq_ignore_ascii_case("l") && self.name == DAY.name {
            self.wrong(item, "L can stand alone or in a list, but not in a range or with a step")
        } else if value.eq_ignore_ascii_case("l") {
            self.wrong(item, "L (the last day) is only for the day of month")
        } else {
            let forms = "allowed are *, ranges such as a-b, steps such as */n, a-b/n or a/n, and lists with commas";
            self.wrong(item, &format!("values are {}; {forms}", self.values))
        }
    }

    fn read_step(&self, item: &str, step: &str) -> Result<usize, Invalid> {
        let most = self.count();
        let step = number(step).filter(|step| (1..=most).contains(step));
        step.map(usize::from).ok_or_else(|| self.wrong(item, &format!("a step is a number from 1 to {most}")))
    }

    /// Returns the number of its values.
    fn count(&self) -> u8 {
        self.last - self.first + 1
    }

    fn wrong(&self, item: &str, why: &str) -> Invalid {
        invalid(format!("has {item:?} as its {}: {why}", self.name))
    }
}

/// Parses digits only, without a sign or spaces.
fn number(text: &str) -> Option<u8> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}
