//! The oracle's state: plain lists of all changes, and balances summed from them by brute force.
//!
//! The oracle caches nothing. Every value is computed from the whole history, so that it does not repeat a mistake of the kernel's
//! incremental balances.

use std::collections::BTreeMap;

use bursar_core::answer::Outcome;
use bursar_core::budget::{Budget, Cover, Limit};
use bursar_core::hold::HoldState;
use bursar_core::id::HoldId;
use bursar_core::name::{IdempotencyKey, Scope};
use bursar_core::request::Op;
use bursar_core::window::{CalendarUnit, Window};

/// Microseconds since 1970.
pub(crate) type Micros = i64;

pub(crate) const SECOND: Micros = 1_000_000;
pub(crate) const HOUR: Micros = 3_600 * SECOND;

/// Midnight of 2026-03-29 in Berlin, a day of 23 hours, and the midnight after it.
const SHORT_DAY: (Micros, Micros) = (1_774_738_800 * SECOND, 1_774_821_600 * SECOND);

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) scopes: BTreeMap<Scope, ScopeModel>,
    pub(crate) holds: Vec<HoldModel>,
    pub(crate) keys: BTreeMap<IdempotencyKey, KeyModel>,
}

#[derive(Clone, Debug)]
pub(crate) struct KeyModel {
    pub(crate) op: Op,
    pub(crate) first: Outcome,
    pub(crate) until: Micros,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeModel {
    pub(crate) budget: Option<Budget>,
    pub(crate) frozen: bool,
    pub(crate) buckets: BTreeMap<Window, Bucket>,
    /// Buckets that were replaced, with the time. At that same time they can be used again.
    pub(crate) closed: BTreeMap<Window, (Bucket, Micros)>,
    pub(crate) moves: Vec<BalanceChange>,
    /// The thresholds reached at the last record, by window and its start.
    pub(crate) crossed: BTreeMap<(Window, Micros), Vec<u32>>,
}

/// A change of the held or posted units of a scope.
#[derive(Clone, Debug)]
pub(crate) struct BalanceChange {
    pub(crate) at: Micros,
    /// The time at which its hold was placed.
    pub(crate) placed_at: Micros,
    /// Units that the hold returns; negative for its placement.
    pub(crate) back: i64,
    /// Postings: their times and units.
    pub(crate) spends: Vec<(Micros, i64)>,
}

/// The state from which a bucket is simulated.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// The time at which it was opened. Earlier holds and postings do not count.
    pub(crate) since: Micros,
    /// The time of `level`.
    pub(crate) at: Micros,
    /// The index of the first change that is not in `level`.
    pub(crate) next_move: usize,
    /// Tokens times the refill period in microseconds.
    pub(crate) level: i128,
}

#[derive(Clone, Debug)]
pub(crate) struct HoldModel {
    pub(crate) id: HoldId,
    pub(crate) placed_at: Micros,
    pub(crate) expires_at: Micros,
    pub(crate) life_until: Micros,
    pub(crate) late: Cover,
    pub(crate) overrun: Cover,
    pub(crate) charges: Vec<ChargeModel>,
    /// The stored state.
    pub(crate) state: HoldState,
    /// The committed units that are not credited yet, by scope and time of the posting.
    pub(crate) spent: BTreeMap<Scope, Vec<(Micros, i64)>>,
    /// Whether it was settled before it expired.
    pub(crate) settled_in_time: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ChargeModel {
    pub(crate) scope: Scope,
    pub(crate) amount: i64,
    pub(crate) ancestors: Vec<Scope>,
    pub(crate) limits: Vec<Limit>,
}

impl ChargeModel {
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.scope).chain(&self.ancestors)
    }
}

/// Sums charges on each scope of their chains.
pub(crate) fn totals(charges: &[ChargeModel], amount: impl Fn(&ChargeModel) -> i64) -> BTreeMap<Scope, i64> {
    let mut totals = BTreeMap::new();
    for charge in charges {
        for scope in charge.chain() {
            *totals.entry(scope.clone()).or_insert(0) += amount(charge);
        }
    }
    totals
}

impl HoldModel {
    pub(crate) fn state_at(&self, now: Micros) -> HoldState {
        if self.state == HoldState::Held && self.expires_at <= now { HoldState::Expired } else { self.state }
    }

    /// Returns the postings of a credit: it reverses the latest spend first, and any excess is dated like the earliest.
    pub(crate) fn take_back(&mut self, scope: &Scope, amount: i64) -> Vec<(Micros, i64)> {
        let placed_at = self.placed_at;
        let spent = self.spent.entry(scope.clone()).or_insert_with(|| vec![(placed_at, 0)]);
        let (mut rest, mut spends) = (amount, Vec::new());
        for (at, left) in spent.iter_mut().rev() {
            let part = rest.min(*left);
            *left -= part;
            rest -= part;
            spends.push((*at, -part));
        }
        spends.push((spent[0].0, -rest));
        spends
    }

    pub(crate) fn on(&self, scope: &Scope) -> i64 {
        totals(&self.charges, |charge| charge.amount).get(scope).copied().unwrap_or(0)
    }
}

/// Returns the bounds `[start, end)` of a calendar window at a time; unbounded for other windows.
pub(crate) fn bounds(window: &Window, now: Micros) -> (Micros, Micros) {
    let Window::Calendar { unit, .. } = window else { return (Micros::MIN, Micros::MAX) };
    match unit {
        CalendarUnit::Hour => {
            let start = now.div_euclid(HOUR) * HOUR;
            (start, start + HOUR)
        }
        CalendarUnit::Day => {
            let (midnight, next) = SHORT_DAY;
            if (midnight..next).contains(&now) {
                return SHORT_DAY;
            }
            let origin = if now < midnight { midnight } else { next };
            let start = origin + (now - origin).div_euclid(24 * HOUR) * 24 * HOUR;
            (start, start + 24 * HOUR)
        }
        other => panic!("the oracle does not support {other:?}"),
    }
}

impl Model {
    pub(crate) fn moves(&self, scope: &Scope) -> &[BalanceChange] {
        self.scopes.get(scope).map_or(&[], |scope| &scope.moves)
    }

    /// Returns the posted units of a scope that count in a window at a time.
    pub(crate) fn posted(&self, scope: &Scope, window: &Window, now: Micros) -> i64 {
        let (start, end) = bounds(window, now);
        let counts = |dated: Micros| match window {
            Window::Rolling { length } => dated > now - length.micros(),
            _ => start <= dated && dated < end,
        };
        self.moves(scope).iter().flat_map(|m| &m.spends).filter(|(dated, _)| counts(*dated)).map(|(_, n)| n).sum()
    }

    /// Returns the units of live holds that count in a window at a time.
    pub(crate) fn held(&self, scope: &Scope, window: &Window, now: Micros) -> i64 {
        let (start, end) = match window {
            Window::Bucket { .. } => (self.bucket(scope, window).map_or(now, |bucket| bucket.since), Micros::MAX),
            _ => bounds(window, now),
        };
        let live = self.holds.iter().filter(|hold| hold.state_at(now) == HoldState::Held);
        live.filter(|hold| start <= hold.placed_at && hold.placed_at < end).map(|hold| hold.on(scope)).sum()
    }

    /// Returns the remaining units of a limit at a time.
    pub(crate) fn remaining(&self, scope: &Scope, limit: &Limit, now: Micros) -> i64 {
        match &limit.window {
            Window::Bucket { length, .. } => {
                let tokens = self.level(scope, &limit.window, now).div_euclid(i128::from(length.micros()));
                i64::try_from(tokens).unwrap()
            }
            window => limit.amount - self.posted(scope, window, now) - self.held(scope, window, now),
        }
    }

    /// Returns the spent units: the posted ones, or for a bucket those that are neither in it nor held.
    pub(crate) fn spent(&self, scope: &Scope, limit: &Limit, now: Micros) -> i64 {
        let spent = limit.amount - self.remaining(scope, limit, now) - self.held(scope, &limit.window, now);
        // Not below zero: a bucket may have refilled while units were held.
        if matches!(limit.window, Window::Bucket { .. }) { spent.max(0) } else { spent }
    }

    pub(crate) fn bucket(&self, scope: &Scope, window: &Window) -> Option<&Bucket> {
        self.scopes.get(scope)?.buckets.get(window)
    }

    /// Creates a bucket that is opened now. It is full before the changes of the same time.
    pub(crate) fn fresh_bucket(&self, scope: &Scope, window: &Window, now: Micros) -> Bucket {
        let Window::Bucket { capacity, length, .. } = window else { panic!("{window} is not a bucket") };
        let level = i128::from(*capacity) * i128::from(length.micros());
        let next_move = self.moves(scope).iter().position(|m| m.at >= now).unwrap_or(self.moves(scope).len());
        Bucket { since: now, at: now, next_move, level }
    }

    /// Computes the level of a bucket at a time, from every change and expiry since it was opened.
    pub(crate) fn level(&self, scope: &Scope, window: &Window, now: Micros) -> i128 {
        let Window::Bucket { capacity, refill, length } = window else { panic!("{window} is not a bucket") };
        let bucket = self.bucket(scope, window).cloned().unwrap_or_else(|| self.fresh_bucket(scope, window, now));
        let unit = i128::from(length.micros());
        // At the same time, expiries come before all other changes.
        let mut drawn: Vec<(Micros, bool, i64)> = Vec::new();
        for hold in self.holds.iter().filter(|hold| !hold.settled_in_time && hold.placed_at >= bucket.since) {
            if bucket.at < hold.expires_at && hold.expires_at <= now {
                drawn.push((hold.expires_at, false, -hold.on(scope)));
            }
        }
        for m in &self.moves(scope)[bucket.next_move..] {
            let spent: i64 = m.spends.iter().filter(|(dated, _)| *dated >= bucket.since).map(|(_, n)| n).sum();
            let back = if m.placed_at >= bucket.since { m.back } else { 0 };
            drawn.push((m.at, true, spent - back));
        }
        drawn.sort_by_key(|(at, is_move, _)| (*at, *is_move));
        let (mut level, mut at) = (bucket.level, bucket.at);
        let full = i128::from(*capacity) * unit;
        for (then, _, amount) in drawn {
            level = full.min(level + i128::from(then - at) * i128::from(*refill));
            level = full.min(level - i128::from(amount) * unit);
            at = then;
        }
        full.min(level + i128::from(now - at) * i128::from(*refill))
    }

    /// Returns the limits on a scope: the registered ones, then other limits of the caller.
    pub(crate) fn limits(&self, scope: &Scope, given: &[Limit]) -> Vec<Limit> {
        let budget = self.scopes.get(scope).and_then(|scope| scope.budget.as_ref());
        let mut limits = budget.map_or(Vec::new(), |budget| budget.limits.clone());
        limits.extend(given.iter().filter(|limit| !limits.contains(limit)).cloned().collect::<Vec<_>>());
        limits
    }

    pub(crate) fn ancestors(&self, scope: &Scope) -> Vec<Scope> {
        let parent = |scope: &Scope| self.scopes.get(scope)?.budget.as_ref()?.parent.clone();
        std::iter::successors(parent(scope), parent).collect()
    }
}
