//! Slices: units of a quota that a node has held, to admit requests from memory.
//!
//! A slice is an ordinary hold. Its units count against every limit from the moment that it is placed, so whatever a node
//! admits from it is within the limits. The rules here say how large a slice may be, how long it may be used, and when the
//! node has to give it back.
//!
//! Two things keep the limit exact. A slice ends before the calendar windows that it was held in, because its units count
//! in those only. And its hold expires by charging all of it, so units that were admitted before a crash never vanish.

use crate::mutant::Mutant;
use crate::time::{Span, Time};
use crate::window::Window;

/// The settings of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRules {
    /// The longest use of a slice. Its hold lives [`HOLD_LIVES`] times as long, so that it is given back in time.
    pub life: Span,
    /// The most of what a quota leaves that one slice may take, in percent.
    pub share_percent: u32,
}

/// The time to live of the hold of a slice, as a multiple of the life of the slice.
pub const HOLD_LIVES: u64 = 3;

/// Units that a node may admit requests from, until they are used up or too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    units: i64,
    spent: i64,
    life: Span,
}

impl Slice {
    /// Creates a slice of `units` that were held a moment ago, for use until its age is `life`.
    pub fn new(units: i64, life: Span) -> Slice {
        Slice { units, spent: 0, life }
    }

    /// Takes the cost of a request, if the slice leaves it and is not too old. Returns the units that it leaves after that.
    pub fn take(&mut self, cost: i64, age: Span) -> Option<i64> {
        if self.is_over(age) && !Mutant::SpendOldSlice.on() {
            return None;
        }
        let spent = self.spent.checked_add(cost).filter(|spent| *spent <= self.units || Mutant::OverspendSlice.on())?;
        self.spent = spent;
        Some(self.units - spent)
    }

    /// Returns the units that were taken. This is what the hold of the slice is committed with.
    pub fn spent(&self) -> i64 {
        self.spent
    }

    /// Returns whether it is too old to be used.
    pub fn is_over(&self, age: Span) -> bool {
        age >= self.life
    }
}

impl SliceRules {
    /// Returns how long a slice that was held at `at` may be used, by the windows of all limits that it counts against;
    /// `None` if slices are not exact for one of them. The units of a hold count for the instant at which it was placed. So
    /// they would leave a rolling window, or refill a bucket, sooner than the requests that were admitted from it should.
    pub fn life_within<'a>(&self, at: Time, windows: impl IntoIterator<Item = &'a Window>) -> Option<Span> {
        let mut life = self.life;
        for window in windows {
            match window {
                Window::Lifetime => {}
                Window::Calendar { .. } => life = life.min(window.calendar_bounds(at)?.1.since(at)),
                Window::Rolling { .. } | Window::Bucket { .. } => return None,
            }
        }
        Some(life)
    }

    /// Returns the units of the next slice, given what the limits leave: `wanted`, but never above the share; `None` if the
    /// share is too small to save anything. So slices shrink near a limit, and the last units are charged one request at a
    /// time.
    pub fn units(&self, remaining: i64, wanted: i64, cost: i64) -> Option<i64> {
        let share = i128::from(remaining.max(0)) * i128::from(self.share_percent) / 100;
        let share = i64::try_from(share).unwrap_or(i64::MAX);
        let least = cost.max(1).saturating_mul(2);
        Some(wanted.max(least).min(share)).filter(|units| *units >= least)
    }

    /// Returns the units to want next, after a slice of which `spent` were used when it was `age` old: what is used in half
    /// a life at this pace.
    pub fn next_wanted(&self, spent: i64, age: Span) -> i64 {
        let pace = i128::from(spent) * i128::from(self.life.micros() / 2) / i128::from(age.micros().max(1));
        i64::try_from(pace).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: SliceRules = SliceRules { life: Span::from_secs(10), share_percent: 10 };

    #[test]
    fn a_slice_gives_out_no_more_than_its_units_and_none_after_its_life() {
        let mut slice = Slice::new(10, Span::from_secs(5));
        let young = Span::from_secs(4);
        assert_eq!(slice.take(7, young), Some(3));
        assert_eq!(slice.take(4, young), None, "a request is not split");
        assert_eq!(slice.take(i64::MAX, young), None);
        assert_eq!(slice.take(3, young), Some(0));
        assert_eq!((slice.take(1, young), slice.spent()), (None, 10));
        let mut slice = Slice::new(10, Span::from_secs(5));
        assert_eq!((slice.take(1, Span::from_secs(5)), slice.spent()), (None, 0));
    }

    #[test]
    fn a_slice_ends_with_the_first_calendar_window() {
        let at: Time = "2026-11-15T10:59:57Z".parse().expect("a time");
        let life = |windows: &[&str]| {
            let windows: Vec<Window> = windows.iter().map(|window| window.parse().expect("a window")).collect();
            RULES.life_within(at, &windows)
        };
        assert_eq!(life(&["lifetime"]), Some(Span::from_secs(10)));
        assert_eq!(life(&["lifetime", "month", "hour"]), Some(Span::from_secs(3)));
        assert_eq!(life(&["day"]), Some(Span::from_secs(10)));
        assert_eq!(life(&["hour", "rolling:60000"]), None);
        assert_eq!(life(&["bucket:10:1:1000"]), None);
    }

    #[test]
    fn slices_shrink_near_the_limit() {
        for (remaining, wanted, cost, units) in [
            (10_000, 500, 1, Some(500)),
            (10_000, 5_000, 1, Some(1_000)),
            (100, 500, 1, Some(10)),
            (100, 0, 1, Some(2)),
            (19, 500, 1, None),
            (100, 500, 6, None),
            (0, 1, 1, None),
            (-5, 1, 1, None),
            (10_000, i64::MAX, 0, Some(1_000)),
            (i64::MAX, 10, i64::MAX, None),
        ] {
            assert_eq!(RULES.units(remaining, wanted, cost), units, "{wanted} of {remaining} for {cost}");
        }
    }

    #[test]
    fn the_next_slice_lasts_half_a_life() {
        assert_eq!(RULES.next_wanted(100, Span::from_secs(1)), 500);
        assert_eq!(RULES.next_wanted(100, Span::from_secs(10)), 50);
        assert_eq!(RULES.next_wanted(0, Span::from_secs(10)), 0);
        assert_eq!(RULES.next_wanted(i64::MAX, Span::ZERO), i64::MAX);
    }
}
