//! Correcting the instants of a journal after the machine's clock was ahead for a while.
//!
//! The time of decisions never goes back. If transactions were written with a clock that was ahead, later ones are all
//! decided at about the same instant until the real clock catches up: nothing expires and no window ends meanwhile.
//! [`ClockCorrection`] moves the instants of the journal instead, by a function that keeps their order:
//!
//! - instants up to the last transaction before the jump stay,
//! - instants from the first transaction after the jump on move back by a constant,
//! - instants in between are scaled into the gap that is left.
//!
//! Because the order stays, every decision stays valid, and replaying the journal gives consistent balances.

use super::{Batch, Event, GrownBlob, LeasedJob, StartedBlob, StoredBlob};
use crate::hold::Uncovered;
use crate::time::{Span, Time};

/// The mapping from old to corrected instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockCorrection {
    /// The instant of the last transaction before the clock jumped.
    before: Time,
    /// The instant of the first transaction after the clock jumped.
    first: Time,
    /// How far `first` and everything after it moves back.
    by: Span,
}

impl ClockCorrection {
    /// Computes the correction of a journal whose latest transactions lie after `now`.
    ///
    /// `before` is the last transaction at or before `now`, `first` the first one after it, and `last` the last of all.
    /// Returns `None` if no transaction is ahead of the clock, or if there is no room between `before` and `first`.
    pub fn new(before: Option<Time>, first: Time, last: Time, now: Time) -> Option<ClockCorrection> {
        // A journal that starts ahead of the clock may move back by any distance; a day more than needed is enough.
        let before = before.unwrap_or_else(|| first.before(last.since(now)).before(Span::from_days(1)));
        let room = first.since(before).micros() - 2;
        let by = Span::from_micros(last.since(now).micros().min(room));
        (last > now && first > now && by > Span::ZERO).then_some(ClockCorrection { before, first, by })
    }

    /// Returns how far the last transactions move back.
    pub fn by(&self) -> Span {
        self.by
    }

    /// Returns the corrected instant. Keeps the order of instants, and keeps those of transactions distinct.
    pub fn moved(&self, time: Time) -> Time {
        if time <= self.before || time == Time::NEVER {
            return time;
        }
        if time >= self.first {
            return time.before(self.by);
        }
        // No transaction lies in between, only instants such as expiries: scale them into the remaining gap.
        let (part, whole) = (time.since(self.before).micros(), self.first.since(self.before).micros());
        let room = whole - self.by.micros();
        let moved = i128::from(part) * i128::from(room) / i128::from(whole);
        let moved = i64::try_from(moved).unwrap_or(i64::MAX).clamp(1, room - 1);
        self.before.after(Span::from_micros(moved))
    }
}

impl Batch {
    /// Corrects every instant of a transaction.
    pub fn set_back(&mut self, clock: &ClockCorrection) {
        self.at = clock.moved(self.at);
        for entry in &mut self.entries {
            let entry = std::sync::Arc::make_mut(entry);
            if let Some(key) = &mut entry.key {
                key.until = clock.moved(key.until);
                let acted = key.acted.iter_mut().flat_map(|acted| &mut acted.jobs);
                acted.filter_map(|job| job.run_at.as_mut()).for_each(|at| *at = clock.moved(*at));
            }
            for recorded in &mut entry.events {
                times_of(&mut recorded.e, |time| *time = clock.moved(*time));
            }
        }
    }
}

/// Visits every instant of an event. The match has no wildcard, so that a new event does not compile without it.
fn times_of(event: &mut Event, mut visit: impl FnMut(&mut Time)) {
    match event {
        Event::HoldPlaced { expires_at, life_until, .. } => {
            visit(expires_at);
            visit(life_until);
        }
        Event::HoldExtended { expires_at, .. }
        | Event::GrantMinted { expires_at, .. }
        | Event::GrantCurtailed { expires_at, .. } => visit(expires_at),
        Event::HoldExpired { at, .. } => visit(at),
        Event::Credited { at, beyond, .. } => {
            visit(at);
            beyond.iter_mut().for_each(|Uncovered { at, .. }| visit(at));
        }
        Event::BudgetTripped { until, .. } => until.iter_mut().for_each(visit),
        Event::JobEnqueued { run_at, .. }
        | Event::JobSnoozed { run_at, .. }
        | Event::JobParked { run_at, .. }
        | Event::JobEdited { run_at, .. } => visit(run_at),
        Event::JobFailed { run_at, .. } | Event::JobRescued { run_at, .. } => run_at.iter_mut().for_each(visit),
        Event::JobLeased(LeasedJob { deadline, .. }) => visit(deadline),
        Event::ScheduleDefined { next_at, .. } => visit(next_at),
        Event::BlobStarted(StartedBlob { due_at, .. })
        | Event::BlobGrown(GrownBlob { due_at, .. })
        | Event::BlobStored(StoredBlob { due_at, .. })
        | Event::BlobReleased { due_at, .. }
        | Event::BlobDeleted { due_at, .. }
        | Event::BlobRestored { due_at, .. } => visit(due_at),
        Event::ScheduleTicked { tick, next_at, .. } | Event::ScheduleSkipped { tick, next_at, .. } => {
            visit(tick);
            visit(next_at);
        }
        Event::HoldCommitted { .. }
        | Event::HoldReleased { .. }
        | Event::Posted { .. }
        | Event::BudgetDefined { .. }
        | Event::BudgetRemoved { .. }
        | Event::BudgetFrozen { .. }
        | Event::BudgetUnfrozen { .. }
        | Event::BudgetCrossed { .. }
        | Event::BudgetCleared { .. }
        | Event::BudgetWouldRefuse(_)
        | Event::GrantRedeemed { .. }
        | Event::GrantRevoked { .. }
        | Event::GrantErased { .. }
        | Event::GrantUsed { .. }
        | Event::GrantPurged { .. }
        | Event::JobFound { .. }
        | Event::JobSucceeded { .. }
        | Event::JobCheckpointed(_)
        | Event::JobEmitted(_)
        | Event::JobReturned { .. }
        | Event::JobDied { .. }
        | Event::JobResumed { .. }
        | Event::JobRetried { .. }
        | Event::JobFunded { .. }
        | Event::JobCancelling { .. }
        | Event::JobCancelled { .. }
        | Event::JobDiscarded { .. }
        | Event::JobErased { .. }
        | Event::JobMoved { .. }
        | Event::JobBilled { .. }
        | Event::JobForgotten { .. }
        | Event::QueueDefined { .. }
        | Event::ScheduleRemoved { .. }
        | Event::NamespaceDefined { .. }
        | Event::BlobReferenced { .. }
        | Event::BlobMoved { .. }
        | Event::BlobDoomed { .. }
        | Event::BlobCollected { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn a_correction_keeps_the_order_of_instants() {
        // Written at 10 and 20, then the clock jumped to 1,000,000; it says 500 now.
        let clock = ClockCorrection::new(Some(at(20)), at(1_000_000), at(1_000_300), at(500)).unwrap();
        assert_eq!(clock.by(), Span::from_micros(999_800));
        let times = [0, 10, 20, 21, 500, 700_000, 999_999, 1_000_000, 1_000_001, 1_000_300, 5_000_000];
        let moved: Vec<Time> = times.into_iter().map(|time| clock.moved(at(time))).collect();
        assert!(moved.is_sorted(), "{moved:?}");
        assert_eq!(moved[..3], [at(0), at(10), at(20)], "instants before the jump stay");
        assert_eq!(moved[7..], [at(200), at(201), at(500), at(4_000_200)], "instants after the jump move back");
        assert!(
            moved[3..7].iter().all(|time| at(20) < *time && *time < at(200)),
            "instants in the gap stay in the gap: {moved:?}"
        );
        assert_eq!(clock.moved(Time::NEVER), Time::NEVER);
    }

    #[test]
    fn a_correction_never_moves_past_earlier_transactions() {
        let clock = ClockCorrection::new(Some(at(400)), at(1_000), at(5_000), at(500)).unwrap();
        assert_eq!(clock.moved(at(1_000)), at(402), "moves as far as there is room");
        assert_eq!(ClockCorrection::new(Some(at(999)), at(1_000), at(5_000), at(500)), None, "no room");
        assert_eq!(ClockCorrection::new(Some(at(1)), at(100), at(200), at(500)), None, "no transaction is ahead");
        assert!(ClockCorrection::new(None, at(1_000), at(5_000), at(500)).is_some(), "a journal may start ahead");
    }
}
