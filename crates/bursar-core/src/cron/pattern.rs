//! Matching an expression against a calendar and a clock without daylight saving time.

use jiff::civil::{Date, DateTime, Time};

/// The most days that each month can have.
const LONGEST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The values that each field matches.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    pub(super) seconds: Set,
    pub(super) minutes: Set,
    pub(super) hours: Set,
    pub(super) days: Set,
    /// Whether the last day of the month matches.
    pub(super) last_day: bool,
    pub(super) months: Set,
    /// From 0 (Sunday) to 6.
    pub(super) weekdays: Set,
    /// Whether a day matches if either its day of month or its weekday does.
    pub(super) either: bool,
    /// Whether the hours are written as a wildcard or a step.
    pub(super) stepped: bool,
}

impl Pattern {
    /// Returns the first match at or after `clock`; `None` if the calendar ends before.
    pub(super) fn first_from(&self, clock: DateTime) -> Option<DateTime> {
        if self.matches_date(clock.date())
            && let Some(time) = self.first_time_from(clock.time())
        {
            return Some(clock.date().to_datetime(time));
        }
        let date = self.first_date_from(clock.date().tomorrow().ok()?)?;
        Some(date.to_datetime(self.first_time_from(Time::midnight())?))
    }

    fn first_date_from(&self, date: Date) -> Option<Date> {
        let mut date = date;
        loop {
            if self.months.has(date.month()) {
                let end = date.days_in_month();
                let mut days = (date.day()..=end).filter_map(|day| Date::new(date.year(), date.month(), day).ok());
                if let Some(found) = days.find(|day| self.matches_date(*day)) {
                    return Some(found);
                }
            }
            let (year, month) = match self.months.first_from(date.month() + 1) {
                Some(month) => (date.year(), month),
                None => (date.year() + 1, self.months.first_from(1)?),
            };
            date = Date::new(year, month, 1).ok()?;
        }
    }

    fn first_time_from(&self, time: Time) -> Option<Time> {
        let (hour, minute) = (time.hour(), time.minute());
        if self.hours.has(hour) {
            if self.minutes.has(minute)
                && let Some(second) = self.seconds.first_from(time.second())
            {
                return Time::new(hour, minute, second, 0).ok();
            }
            if let Some(minute) = self.minutes.first_from(minute + 1) {
                return Time::new(hour, minute, self.seconds.first_from(0)?, 0).ok();
            }
        }
        let hour = self.hours.first_from(hour + 1)?;
        Time::new(hour, self.minutes.first_from(0)?, self.seconds.first_from(0)?, 0).ok()
    }

    fn matches_date(&self, date: Date) -> bool {
        let day = self.days.has(date.day()) || self.last_day && date.day() == date.days_in_month();
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        self.months.has(date.month()) && if self.either { day || weekday } else { day && weekday }
    }

    /// Returns whether it matches no date at all. Every date falls on every weekday in some year, so the weekdays need
    /// not be checked.
    pub(super) fn matches_nothing(&self) -> bool {
        let first = self.days.first_from(1).map_or(u32::MAX, |day| day as u32);
        let possible = (1..).zip(LONGEST).any(|(month, days)| self.months.has(month) && first <= days);
        !(possible || self.last_day || self.either)
    }

    /// Returns whether it follows the clocks when they change, instead of ticking once for each time of day. A step
    /// that names a single hour is a fixed time of day.
    pub(super) fn runs_all_day(&self) -> bool {
        self.hours.len() == 24 || self.stepped && self.hours.len() > 1
    }
}

/// A set of numbers from 0 to 63.
#[derive(Clone, Copy, Default)]
pub(super) struct Set(u64);

impl Set {
    pub(super) fn insert(&mut self, value: u8) {
        self.0 |= 1 << value;
    }

    fn has(self, value: i8) -> bool {
        self.0 >> value & 1 == 1
    }

    /// Returns the least element that is at least `value`.
    fn first_from(self, value: i8) -> Option<i8> {
        let rest = self.0 >> value << value;
        (rest != 0).then(|| rest.trailing_zeros() as i8)
    }

    fn len(self) -> u32 {
        self.0.count_ones()
    }
}
