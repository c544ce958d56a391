//! What is left of a caller's quota.

use bursar_core::budget::Limit;
use bursar_core::event::Charged;
use bursar_core::refusal::Violation;
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;

use crate::api::ledger::BudgetView;
use crate::meter::caller::Caller;

/// What is left of a caller's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The caller.
    pub caller: Caller,
    /// What is left of each limit.
    pub limits: Vec<LimitStanding>,
}

/// What is left of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitStanding {
    /// The window of the limit.
    pub window: Window,
    /// The amount of the limit, in units.
    pub limit: i64,
    /// The units left.
    pub remaining: i64,
    /// The start of the window; `None` for buckets and lifetime limits.
    pub window_start: Option<Time>,
    /// When the limit is fully available again if nothing more is spent; `None` if never, as for a lifetime limit.
    pub reset_at: Option<Time>,
    /// The instant of these figures.
    pub at: Time,
}

/// The error of a charge that a caller's quota does not admit. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// What is left of the limits that refuse the charge.
    pub standing: Standing,
    /// Every limit and freeze that refuses the charge, those of ancestors included.
    pub violations: Vec<Violation>,
    /// An estimate of when the charge can be admitted; released units can make it earlier. `None` if waiting alone does
    /// not help.
    pub retry_after: Option<Span>,
}

impl Standing {
    /// Returns the limit with the fewest units left; of several, the one that resets last.
    pub fn tightest(&self) -> Option<&LimitStanding> {
        self.limits
            .iter()
            .min_by_key(|limit| (limit.remaining, std::cmp::Reverse(limit.reset_at.unwrap_or(Time::NEVER))))
    }

    /// Returns what was left of each limit after a charge. Limits of ancestors are not shown to callers.
    pub(crate) fn of_charges(caller: &Caller, charges: &[Charged], at: Time) -> Standing {
        let own = charges.iter().filter(|charge| charge.scope == *caller.scope()).flat_map(|charge| &charge.balances);
        let own = own.filter(|left| left.scope.is_none());
        let limits = own.map(|left| LimitStanding::new(left.window.clone(), left.limit, left.remaining, at)).collect();
        Standing { caller: caller.clone(), limits }
    }

    /// Returns what is left of the caller's limits that refuse a charge.
    pub(crate) fn of_violations(caller: &Caller, violations: &[Violation], at: Time) -> Standing {
        let limits = violations.iter().filter_map(|violation| match violation {
            Violation::Limit { scope, window, limit, available, .. } if scope == caller.scope() => {
                Some(LimitStanding::new(window.clone(), *limit, *available, at))
            }
            _ => None,
        });
        Standing { caller: caller.clone(), limits: limits.collect() }
    }

    /// Returns what is left of a caller's budget, or the full quota of a caller without a budget.
    pub(crate) fn of_view(caller: &Caller, view: Option<&BudgetView>, quota: &[Limit], at: Time) -> Standing {
        let registered = view.and_then(|view| view.budget.as_ref()).map(|budget| budget.limits.as_slice());
        let limits = registered.unwrap_or(quota).iter().map(|limit| {
            let mut balances = view.into_iter().flat_map(|view| &view.balances);
            let balance = balances.find(|balance| balance.window == limit.window);
            let remaining = balance.map_or(limit.amount, |balance| {
                let used = balance.posted.saturating_add(balance.held);
                balance.remaining.unwrap_or(limit.amount.saturating_sub(used))
            });
            LimitStanding::new(limit.window.clone(), limit.amount, remaining, at)
        });
        Standing { caller: caller.clone(), limits: limits.collect() }
    }
}

impl LimitStanding {
    fn new(window: Window, limit: i64, remaining: i64, at: Time) -> LimitStanding {
        let bounds = match &window {
            Window::Calendar { .. } => window.calendar_bounds(at).map(|(start, end)| (Some(start), end)),
            Window::Rolling { length } => Some((Some(at.before(*length)), at.after(*length))),
            Window::Bucket { refill: 1.., .. } => bucket_full_at(&window, remaining, at).map(|full| (None, full)),
            Window::Bucket { .. } | Window::Lifetime => None,
        };
        let (window_start, reset_at) = bounds.map_or((None, None), |(start, end)| (start, Some(end)));
        LimitStanding { window, limit, remaining, window_start, reset_at, at }
    }

    /// Returns the units posted and held.
    pub fn used(&self) -> i64 {
        self.limit.saturating_sub(self.remaining).max(0)
    }

    /// Returns the length of the window; for a bucket, the time in which it fills completely; `None` for a lifetime limit
    /// and for a bucket that does not refill.
    pub fn length(&self) -> Option<Span> {
        match &self.window {
            Window::Rolling { length } => Some(*length),
            Window::Calendar { .. } => Some(self.reset_at?.since(self.window_start?)),
            Window::Bucket { .. } => Some(bucket_full_at(&self.window, 0, self.at)?.since(self.at)),
            Window::Lifetime => None,
        }
    }
}

/// Returns when a bucket with `remaining` units is full.
fn bucket_full_at(bucket: &Window, remaining: i64, at: Time) -> Option<Time> {
    let Window::Bucket { capacity, refill: refill @ 1.., length } = bucket else { return None };
    let lacking = i128::from(*capacity) - i128::from(remaining);
    let (needed, refill) = (lacking.max(0) * i128::from(length.micros()), i128::from(*refill));
    let micros = needed / refill + i128::from(needed % refill != 0);
    Some(at.after(Span::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reports_when_it_is_fully_available_again() {
        let at = Time::from_micros(1_794_744_000_000_000); // 2026-11-15 at noon
        for (window, remaining, start, reset, length_s) in [
            ("hour", 3, Some("2026-11-15T12:00:00Z"), Some("2026-11-15T13:00:00Z"), Some(3_600)),
            ("day@Europe/Berlin", 3, Some("2026-11-14T23:00:00Z"), Some("2026-11-15T23:00:00Z"), Some(86_400)),
            ("rolling:60000", 3, Some("2026-11-15T11:59:00Z"), Some("2026-11-15T12:01:00Z"), Some(60)),
            ("bucket:10:1:1000", 3, None, Some("2026-11-15T12:00:07Z"), Some(10)),
            ("bucket:10:0:1000", 3, None, None, None),
            ("lifetime", 3, None, None, None),
        ] {
            let limit = LimitStanding::new(window.parse().unwrap(), 10, remaining, at);
            let time = |text: Option<&str>| text.map(|text| text.parse::<Time>().unwrap());
            assert_eq!((limit.window_start, limit.reset_at), (time(start), time(reset)), "{window}");
            assert_eq!(limit.length().map(|length| length.millis() / 1_000), length_s, "{window}");
            assert_eq!(limit.used(), 7);
        }
    }

    #[test]
    fn the_tightest_limit_has_least_left_and_resets_last() {
        let at = Time::from_micros(1_794_744_000_000_000);
        let limit = |window: &str, remaining| LimitStanding::new(window.parse().unwrap(), 10, remaining, at);
        let caller = Caller::new("a").unwrap();
        let tightest = |limits| Standing { caller: caller.clone(), limits }.tightest().unwrap().window.to_string();
        assert_eq!(tightest(vec![limit("hour", 3), limit("day", 2)]), "day@UTC");
        assert_eq!(tightest(vec![limit("hour", 2), limit("day", 3)]), "hour@UTC");
        assert_eq!(tightest(vec![limit("hour", 2), limit("lifetime", 2), limit("day", 2)]), "lifetime");
    }
}
