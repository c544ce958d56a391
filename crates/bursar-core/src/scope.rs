//! The state of a scope: one running balance for each window in use, and how time changes them.
//!
//! # Balances are stored, not computed from history
//!
//! A scope's row stores a [`Balance`] for each window in use; the first one is always the lifetime. Admission compares
//! a charge with these balances and reads no history. Every hold, posting and settlement updates all of them.
//!
//! # Folding
//!
//! Some changes follow from time alone: a hold expires, a posting leaves a rolling window, a calendar window ends, a
//! bucket refills. The transaction that next locks the scope applies them in [`ScopeState::advance`]. Applying an
//! expired hold or an evicted posting is called *folding* it into the balances, and each is folded exactly once:
//!
//! - Charges of live holds are ordered by expiry ([`crate::live`]); [`ScopeState::folded`] marks how far they are
//!   folded. Postings are ordered by instant; [`Balance::evicted`] marks how far they have left a rolling window.
//! - [`ScopeState::next_expiry`] and [`Balance::next_eviction`] are lower bounds for the next due item. While both lie
//!   in the future, a request on the scope reads no other row.
//! - One transaction folds at most [`FOLD_STEP`](crate::bounds::FOLD_STEP) items of a kind. If more are due, the
//!   transaction commits the fold and the requests on the scope are loaded and decided again, without being refused.
//!
//! A hold is therefore expired from the instant of its expiry. The `hold.expired` event that maintenance writes later
//! only records it. If the expiry of the hold posts units, folding posts them, for the instant of expiry: the charge has
//! all that is needed, so no other row has to be locked.
//!
//! # Time does not go back
//!
//! [`ScopeState::seen`] is the latest instant the scope was brought to. A store picks a `now` for each transaction that
//! is later than the `seen` of every scope in it, so a clock that jumps back cannot undo a fold.
//!
//! # Windows that are opened later
//!
//! A request may name a window that the scope has no balance for. On a scope with history the store sums that window
//! once, from postings and live holds, and [`ScopeState::prepare`] adds the balance as *prospective*. It is kept up to
//! date like the others and stored, so that a repeated refused request does not sum it again. It becomes permanent
//! when an event names it. Prospective balances are not part of what a replay must reproduce: at most four are kept,
//! and unused ones are dropped after [`WINDOW_IDLE`]. A prospective bucket is not stored at all, because its level
//! depends on when it was opened.

mod balance;
mod define;
mod due;
mod line;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::balance::Balance;
pub use self::due::{Bounds, Due, DueQuery, DueStep, WindowHistory};
pub use self::line::Line;
use crate::bounds::{FLOW_KEPT, WINDOW_IDLE, WINDOWS_MAX};
use crate::bucket::full;
use crate::budget::Budget;
use crate::context::Actor;
use crate::id::{BatchId, HoldId};
use crate::live::{ChargeMark, LiveCharge};
use crate::mutant::Mutant;
use crate::name::Scope;
use crate::time::{Span, Time};
use crate::window::{Window, Zone};

/// The number of prospective balances a scope keeps.
const PREPARED_MAX: usize = 4;

/// The row of a scope: its balances, its live holds and its budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeState {
    /// The number of events that touched the scope; 0 for a row that exists only to be locked.
    pub version: u64,
    /// The latest instant the scope was brought to; no later transaction on it has an earlier `now`.
    pub seen: Time,
    /// The last transaction with an event on the scope.
    pub last: Option<BatchId>,
    /// The number of postings so far, from which the next one is numbered.
    pub postings: u64,
    /// The sum of the absolute amounts of all postings, which bounds the sum of any subset of them.
    pub gross: i64,
    /// Expired charges up to this mark are folded.
    pub folded: ChargeMark,
    /// A lower bound for the expiry of every charge that is not folded.
    pub next_expiry: Time,
    /// Why the scope refuses new spend; see [`ScopeState::frozen_at`].
    pub frozen: Option<Freeze>,
    /// One balance for each window in use; the first is always the lifetime.
    pub balances: Vec<Balance>,
    /// The number of budgets at each level below this one, direct children first.
    pub below: Vec<u64>,
    /// The latest charges of live holds, in order of arrival; see [`crate::live`].
    pub recent: Vec<LiveCharge>,
    /// The jobs waiting under a flow key, where this is the slot scope of one.
    pub line: Line,
    /// The number of jobs that wait for units of this scope.
    pub awaited: u64,
    /// The budget defined on the scope. It changes rarely and is stored in a column of its own.
    #[serde(skip)]
    pub budget: Option<Arc<Budget>>,
    /// Whether the budget changed since it was loaded and must be written.
    #[serde(skip)]
    pub redefined: bool,
    /// Postings of expired holds that are folded and not stored yet. They are stored together with the row.
    #[serde(skip)]
    pub expiry_postings: Vec<Posting>,
}

/// A position in the order of postings on a scope: instant, then number.
pub type PostingMark = (Time, u64);

/// Why a scope is frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Freeze {
    /// A caller froze it; it stays frozen until a caller unfreezes it.
    Order {
        /// The caller that froze it.
        actor: Actor,
        /// The reason given.
        reason: Option<String>,
    },
    /// Spend passed the trip limit; the freeze lasts until a caller unfreezes the scope or the window resets.
    Trip {
        /// The window of the trip limit.
        window: Window,
        /// When that window ends; `None` unless it is a calendar window.
        until: Option<Time>,
    },
}

/// Units spent or credited on a scope at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// The instant that decides which windows it counts in.
    pub at: Time,
    /// Its sequence number on the scope.
    pub seq: u64,
    /// The units; negative for a credit.
    pub amount: i64,
    /// The hold it settles.
    pub hold: Option<HoldId>,
}

impl Default for ScopeState {
    fn default() -> ScopeState {
        ScopeState {
            version: 0,
            seen: Time::MIN,
            last: None,
            postings: 0,
            gross: 0,
            folded: (Time::MIN, HoldId(0)),
            next_expiry: Time::NEVER,
            frozen: None,
            balances: vec![Balance::open(Window::Lifetime, Time::MIN, WindowHistory::default())],
            below: Vec::new(),
            recent: Vec::new(),
            line: Line::default(),
            awaited: 0,
            budget: None,
            redefined: false,
            expiry_postings: Vec::new(),
        }
    }
}

impl ScopeState {
    /// Returns the balance of a window, if the scope has one.
    pub fn balance(&self, window: &Window) -> Option<&Balance> {
        self.balances.iter().find(|balance| balance.window == *window)
    }

    /// Returns whether nothing is held and every bucket is full.
    pub(crate) fn is_at_rest(&self, now: Time) -> bool {
        self.recent.is_empty()
            && self.balances.iter().all(|balance| {
                let mut balance = balance.clone();
                balance.refill(now);
                balance.held == 0 && balance.level == full(&balance.window)
            })
    }

    /// Returns whether its row can be deleted; the next use creates it again. It is the scope of a flow key that has been
    /// unused for [`FLOW_KEPT`], or no event has touched it: it was created only to be locked, by a request that was refused.
    /// No job waits or runs, nothing is held, and buckets are full. Other scopes stay, because their events are numbered.
    pub fn is_unused(&self, scope: &Scope, now: Time) -> bool {
        let of_key = scope.is_internal() && scope.as_str().contains('\t');
        let unused = self.version == 0 || of_key && self.seen.after(FLOW_KEPT) <= now;
        unused && self.line == Line::default() && self.awaited == 0 && self.is_at_rest(now)
    }

    /// Returns what must be read before the scope can be brought to `now`.
    pub fn due_query(&self, now: Time) -> DueQuery {
        let charges_after = (self.next_expiry <= now).then_some(self.folded);
        let postings = self.balances.iter().enumerate().filter_map(|(place, balance)| match balance.window {
            Window::Rolling { length } if balance.next_eviction <= now => {
                Some((place, balance.evicted, now.before(length)))
            }
            _ => None,
        });
        DueQuery { charges_after, postings: postings.collect() }
    }

    /// Returns the zone of a calendar window that ended by `now` and could not be advanced because this build does not
    /// know the zone.
    pub fn unknown_zone(&self, now: Time) -> Option<&Zone> {
        self.balances.iter().find_map(|balance| match &balance.window {
            Window::Calendar { zone, .. } if balance.until <= now => Some(zone),
            _ => None,
        })
    }

    /// Returns whether a calendar window has ended by `now`.
    pub fn calendar_window_ended(&self, now: Time) -> bool {
        self.balances.iter().any(|balance| balance.until <= now)
    }

    /// Brings the scope to `now`: folds due charges and postings, starts new calendar windows, refills buckets.
    ///
    /// `due` is what was read for `query`. Returns false if more is due than it contains: the scope must then be stored
    /// and advanced again.
    pub fn advance(&mut self, now: Time, due: &Due, query: &DueQuery) -> bool {
        let mut ready = true;
        let mut evictions = Vec::new();
        if query.charges_after.is_some() {
            evictions.extend(self.balances.iter().map(|balance| balance.next_eviction));
            let charges = self.due_charges(&due.charges, now);
            for charge in &charges.items {
                self.fold(charge);
            }
            self.next_expiry = charges.next;
            if charges.more {
                self.next_expiry = self.folded.0;
                ready = false;
            } else {
                self.folded = self.folded.max((now, HoldId(u128::MAX)));
            }
        }
        for (place, postings) in &due.postings {
            let postings = self.with_expiry_postings(*place, postings, now);
            ready &= self.balances[*place].evict(&postings);
        }
        self.evict_expiry_postings(now, due, &evictions);
        if ready {
            self.seen = self.seen.max(now);
            for balance in &mut self.balances {
                balance.advance(now);
            }
            self.balances.retain(|balance| !balance.prospective || now < balance.named.after(WINDOW_IDLE));
            self.rearm_trip();
        }
        ready
    }

    /// Clears the tripped mark once spend is back at or below the trip limit, so that the limit can trip again.
    pub(crate) fn rearm_trip(&mut self) {
        let Some(trip) = self.budget.as_ref().and_then(|budget| budget.trip.clone()) else { return };
        if let Some(balance) = self.balances.iter_mut().find(|balance| balance.window == trip.window) {
            balance.tripped &= balance.spent() > trip.amount;
        }
    }

    /// Takes the units of an expired hold out of every balance, and posts those that its expiry charges.
    fn fold(&mut self, charge: &LiveCharge) {
        let charged = charge.on_expiry * i64::from(!Mutant::ForgetExpiryCharge.on());
        let posting = (charged != 0).then(|| self.next_posting(charge.expires_at, charged, Some(charge.hold)));
        for balance in &mut self.balances {
            balance.refill(charge.expires_at);
            if posting.is_some() {
                // The posting counts in the calendar window of the expiry, which may begin only after the stored one.
                balance.start_window(charge.expires_at);
            }
            let held = charge.amount * i64::from(!Mutant::CountExpired.on());
            balance.settle(charge.placed_at, held, posting.as_slice());
        }
        self.expiry_postings.extend(posting);
        self.folded = (charge.expires_at, charge.hold);
    }

    /// Takes postings that were just folded out of rolling balances that they have left already and that no stored posting
    /// leaves. `evictions` are the lower bounds before the fold.
    fn evict_expiry_postings(&mut self, now: Time, due: &Due, evictions: &[Time]) {
        if self.expiry_postings.is_empty() {
            return;
        }
        for (place, bound) in evictions.iter().enumerate() {
            if due.postings.iter().any(|(evicted, _)| *evicted == place) {
                continue;
            }
            let none = DueStep::default();
            let postings = self.with_expiry_postings(place, &none, now);
            self.balances[place].evict(&postings);
            let balance = &mut self.balances[place];
            balance.next_eviction = balance.next_eviction.min(*bound);
        }
    }

    /// Merges postings that have left a rolling balance with those that were just folded, which the store does not have
    /// yet.
    fn with_expiry_postings<'a>(
        &self,
        place: usize,
        stored: &'a DueStep<Posting>,
        now: Time,
    ) -> Cow<'a, DueStep<Posting>> {
        let balance = &self.balances[place];
        let (Window::Rolling { length }, false) = (&balance.window, self.expiry_postings.is_empty()) else {
            return Cow::Borrowed(stored);
        };
        let mut merged = stored.clone();
        let mark = |posting: &Posting| (posting.at, posting.seq);
        // If more of the stored postings have left, only those before the next unread one may be taken out.
        let until = match stored.items.last() {
            Some(last) if stored.more => mark(last),
            _ => (now.before(*length), u64::MAX),
        };
        for posting in self.expiry_postings.iter().filter(|posting| mark(posting) > balance.evicted) {
            if mark(posting) <= until {
                merged.items.push(posting.clone());
            } else {
                merged.next = merged.next.min(posting.at);
            }
        }
        merged.items.sort_by_key(mark);
        Cow::Owned(merged)
    }

    /// Adds the postings that are not stored yet to the history of a window that is opened at `bounds`.
    pub fn add_expiry_postings(&self, bounds: Bounds, history: &mut WindowHistory) {
        let counted = |posting: &&Posting| (posting.at, posting.seq) > bounds.after && posting.at < bounds.until;
        for posting in self.expiry_postings.iter().filter(counted) {
            history.posted += posting.amount;
            history.oldest = Some(history.oldest.map_or(posting.at, |oldest| oldest.min(posting.at)));
        }
    }

    /// Returns the units posted in `[from, to)` by expiries that are not stored yet.
    pub fn posted_by_expiry(&self, from: Time, to: Time) -> i64 {
        let within = self.expiry_postings.iter().filter(|posting| from <= posting.at && posting.at < to);
        within.map(|posting| posting.amount).sum()
    }

    /// Returns whether the charge of a hold is folded and no longer counts.
    pub fn has_folded(&self, expires_at: Time, hold: HoldId) -> bool {
        (expires_at, hold) <= self.folded
    }

    /// Sets units aside in every balance.
    pub(crate) fn hold(&mut self, now: Time, expires_at: Time, amount: i64) {
        self.next_expiry = self.next_expiry.min(expires_at);
        for balance in &mut self.balances {
            balance.add_hold(now, amount);
        }
    }

    /// Frees the units of a live hold.
    pub(crate) fn release(&mut self, placed_at: Time, held: i64) {
        self.settle(placed_at, held, &[]);
    }

    /// Frees the units of a hold and adds postings. `held` is zero if the hold has been folded already.
    pub(crate) fn settle(&mut self, placed_at: Time, held: i64, postings: &[Posting]) {
        for balance in &mut self.balances {
            balance.settle(placed_at, held, postings);
        }
    }

    /// Creates a posting of `amount` units for the instant `at`, with the next sequence number.
    pub(crate) fn next_posting(&mut self, at: Time, amount: i64, hold: Option<HoldId>) -> Posting {
        self.postings += 1;
        self.gross += amount.abs();
        Posting { at, seq: self.postings, amount, hold }
    }

    /// Returns whether `amount` more units fit once `back` held units are freed, such that no balance and no sum of
    /// postings can overflow 64 bits.
    pub(crate) fn can_take(&self, back: i64, amount: i64) -> bool {
        let held = i128::from(self.balances[0].held) - i128::from(back);
        i128::from(self.gross) + held + i128::from(amount).abs() <= i128::from(i64::MAX)
    }

    /// Puts a window that an event names into use, opening a balance for it if there is none.
    pub(crate) fn name_window(&mut self, window: &Window, now: Time) {
        let known = self.balances.iter().any(|b| b.window == *window && !b.prospective);
        if !known && self.windows_in_use() >= WINDOWS_MAX {
            let budget = self.budget.clone();
            let registered = |w: &Window| budget.as_ref().is_some_and(|b| b.windows().any(|known| known == w));
            // A closed window stays up to date until the end of the batch, in case another request names it.
            for balance in self.balances.iter_mut().filter(|b| b.is_idle(now) && !registered(&b.window)) {
                balance.prospective = true;
            }
        }
        match self.balances.iter().position(|b| b.window == *window) {
            Some(place) if self.balances[place].prospective => {
                // Balances are ordered by when they came into use, independent of when they were prepared.
                let balance = self.balances.remove(place);
                self.balances.push(Balance { prospective: false, named: now, ..balance });
            }
            Some(place) => self.balances[place].named = now,
            // Only a scope without history has no prepared balance: an earlier event of this command created it.
            None => self
                .balances
                .push(Balance { named: now, ..Balance::open(window.clone(), now, WindowHistory::default()) }),
        }
    }

    /// Returns whether the new windows among `named` fit, counting idle windows that may be closed for them.
    pub(crate) fn has_room_for<'a>(&self, named: impl Iterator<Item = &'a Window>, now: Time) -> bool {
        self.windows_too_many(named, 0, now) == 0
    }

    /// Returns how many windows too many ([`WINDOWS_MAX`]) the scope would have with those of `named`, after idle windows
    /// are closed and `replaced` buckets are removed.
    fn windows_too_many<'a>(&self, named: impl Iterator<Item = &'a Window>, replaced: usize, now: Time) -> usize {
        let named: Vec<&Window> = named.filter(|window| **window != Window::Lifetime).collect();
        let is_new = |window: &Window| self.balance(window).is_none_or(|balance| balance.prospective);
        if !named.iter().any(|window| is_new(window)) {
            return 0;
        }
        let named: BTreeSet<&Window> = named.into_iter().collect();
        let new = named.iter().filter(|window| is_new(window)).count();
        let registered = |window| self.budget.as_ref().is_some_and(|known| known.windows().any(|w| w == window));
        let idle = self.balances.iter().filter(|b| !b.prospective && b.is_idle(now));
        let closable = idle.filter(|b| !registered(&b.window) && !named.contains(&b.window)).count();
        (self.windows_in_use() + new).saturating_sub(closable + replaced).saturating_sub(WINDOWS_MAX)
    }

    /// Returns the number of windows in use, not counting the lifetime.
    fn windows_in_use(&self) -> usize {
        self.balances.iter().filter(|b| !b.prospective && b.window != Window::Lifetime).count()
    }

    /// Returns the windows of `wanted` that have no balance yet.
    pub fn missing<'a>(&self, wanted: impl Iterator<Item = &'a Window>) -> Vec<Window> {
        let mut missing: Vec<Window> = wanted.filter(|w| self.balance(w).is_none()).cloned().collect();
        missing.sort();
        missing.dedup();
        missing
    }

    /// Drops prospective balances that are not wanted until at most four are left.
    pub fn forget_prepared(&mut self, wanted: &BTreeSet<Window>) {
        let mut left = self.balances.iter().filter(|b| b.prospective).count();
        self.balances.retain(|balance| {
            let forgotten = left > PREPARED_MAX && balance.prospective && !wanted.contains(&balance.window);
            left -= usize::from(forgotten);
            !forgotten
        });
    }

    /// Adds a prospective balance for a window that a request names.
    pub fn prepare(&mut self, window: Window, now: Time, past: WindowHistory) {
        self.balances.push(Balance { prospective: true, ..Balance::open(window, now, past) });
    }

    /// Returns the instant before which postings can be rolled up: no window in use, and no window that may still be
    /// named, reaches further back.
    pub fn rolled_up_before(&self, now: Time, kept: Span) -> Time {
        let reach = |balance: &Balance| match balance.window {
            Window::Lifetime | Window::Bucket { .. } => Time::NEVER,
            Window::Rolling { length } => now.before(length),
            Window::Calendar { .. } => balance.since,
        };
        self.balances.iter().map(reach).min().unwrap_or(Time::NEVER).min(now.before(kept))
    }

    /// Whether the budget of the scope is only tried out.
    pub fn in_shadow(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.shadow) && !Mutant::ShadowRefuses.on()
    }

    /// Returns why new spend is refused at `now`, if it is.
    pub fn frozen_at(&self, now: Time) -> Option<&Freeze> {
        let freeze = self.frozen.as_ref()?;
        let lifted = match freeze {
            Freeze::Order { .. } => false,
            Freeze::Trip { until: Some(until), .. } => *until <= now,
            Freeze::Trip { window: Window::Lifetime, .. } => false,
            // Lifted if spend is back at or below the limit, or if the limit was removed.
            Freeze::Trip { window, until: None } => {
                let trip = self.budget.as_ref().and_then(|budget| budget.trip.as_ref());
                let exists = trip.is_some_and(|trip| trip.window == *window);
                !exists || !self.balance(window).is_some_and(|balance| balance.tripped)
            }
        };
        (!lifted).then_some(freeze)
    }
}
