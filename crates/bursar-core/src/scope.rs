//! The state of a scope: its balances, kept and never summed, and how time moves them.
//!
//! What is due on a scope (a hold that expired, a posting that left a rolling window) is *folded* into the balances
//! once, by whoever next locks the scope, a bounded number in one transaction.

mod define;
mod due;
mod line;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::due::{Batchwise, Bounds, Due, DueAsk, Past};
pub use self::line::Line;
use crate::bounds::{WINDOW_IDLE, WINDOWS_MAX};
use crate::bucket::{clamp, full};
use crate::budget::Budget;
use crate::context::Actor;
use crate::id::{BatchId, HoldId};
use crate::live::{ChargeMark, LiveCharge};
use crate::mutant::Mutant;
use crate::time::{Span, Time};
use crate::window::{Window, Zone};

/// Windows that were prepared for refused requests, and are kept for the next.
const PREPARED_MAX: usize = 4;

/// Everything the kernel knows of one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeState {
    /// Events that touched it; 0 is a row that exists only to be locked.
    pub version: u64,
    /// Time never goes below this on the scope.
    pub seen: Time,
    /// The last transaction whose events touched it.
    pub last: Option<BatchId>,
    /// Postings made so far; numbers the next one.
    pub postings: u64,
    /// Units of all postings ever, credits counted like spend: no sum of some of them is larger.
    pub gross: i64,
    /// Charges due up to here are folded.
    pub folded: ChargeMark,
    /// No unfolded charge is due before this.
    pub next_expiry: Time,
    /// Why it refuses new spend, if it does.
    pub frozen: Option<Freeze>,
    /// One for each window in use; the first is always the lifetime.
    pub balances: Vec<Balance>,
    /// How many budgets are so many levels below it, those right below first.
    pub below: Vec<u64>,
    /// The latest charges of live holds, in the order they came.
    pub recent: Vec<LiveCharge>,
    /// The jobs that wait in the line of a flow key.
    pub line: Line,
    /// Jobs that wait for units here.
    pub awaited: u64,
    /// What is registered on it. Stored beside the rest, as it seldom changes.
    #[serde(skip)]
    pub budget: Option<Arc<Budget>>,
    /// The budget is not the one that was loaded, and must be written.
    #[serde(skip)]
    pub redefined: bool,
}

/// A place in the order of postings on a scope.
pub type PostingMark = (Time, u64);

/// Why a scope is frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Freeze {
    /// Somebody said so; until unfrozen.
    Order {
        /// Who.
        actor: Actor,
        /// Why.
        reason: Option<String>,
    },
    /// Its trip limit was passed; until unfrozen or the window turns.
    Trip {
        /// The window that tripped.
        window: Window,
        /// When that window ends, if it is one that does.
        until: Option<Time>,
    },
}

/// What is posted and held in one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Which window.
    pub window: Window,
    /// The window counts what was placed or posted from here on.
    pub since: Time,
    /// It turns here; `NEVER` for all but calendar windows.
    pub until: Time,
    /// Units posted in it. Not kept for a bucket, whose level says it.
    pub posted: i64,
    /// Units of live holds that belong to it.
    pub held: i64,
    /// Rolling: postings up to here have left.
    pub evicted: PostingMark,
    /// Rolling: nothing leaves before this.
    pub next_eviction: Time,
    /// Bucket: tokens times the refill period in microseconds, so that nothing is lost to rounding.
    pub level: i128,
    /// Bucket: the instant of `level`.
    pub level_at: Time,
    /// Thresholds that are crossed.
    pub crossed: Vec<u32>,
    /// The trip limit over this window was passed; it freezes once until spend falls back or the window turns.
    pub tripped: bool,
    /// When a request last named it.
    pub named: Time,
    /// Prepared for a request that may yet be refused. Kept up to date like the others, so that it need not be summed
    /// again for the next such request, and forgotten after a while unless an event names it.
    pub prospective: bool,
}

/// Units spent or credited on a scope at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// The instant it counts for.
    pub at: Time,
    /// Its number on the scope.
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
            balances: vec![Balance::open(Window::Lifetime, Time::MIN, Past::default())],
            below: Vec::new(),
            recent: Vec::new(),
            line: Line::default(),
            awaited: 0,
            budget: None,
            redefined: false,
        }
    }
}

impl ScopeState {
    /// The balance of a window, if it is kept.
    pub fn balance(&self, window: &Window) -> Option<&Balance> {
        self.balances.iter().find(|balance| balance.window == *window)
    }

    /// Whether nothing is held, and every bucket is full.
    pub(crate) fn is_at_rest(&self, now: Time) -> bool {
        self.recent.is_empty()
            && self.balances.iter().all(|balance| {
                let mut balance = balance.clone();
                balance.refill(now);
                balance.held == 0 && balance.level == full(&balance.window)
            })
    }

    /// What must be read before the scope can be brought to `now`.
    pub fn due_ask(&self, now: Time) -> DueAsk {
        let charges_after = (self.next_expiry <= now).then_some(self.folded);
        let postings = self.balances.iter().enumerate().filter_map(|(place, balance)| match balance.window {
            Window::Rolling { length } if balance.next_eviction <= now => {
                Some((place, balance.evicted, now.before(length)))
            }
            _ => None,
        });
        DueAsk { charges_after, postings: postings.collect() }
    }

    /// The zone of a calendar window that had ended by `now` and was not turned: this build does not know it.
    pub fn unknown_zone(&self, now: Time) -> Option<&Zone> {
        self.balances.iter().find_map(|balance| match &balance.window {
            Window::Calendar { zone, .. } if balance.until <= now => Some(zone),
            _ => None,
        })
    }

    /// Whether a calendar window has ended by `now`.
    pub fn turns_by(&self, now: Time) -> bool {
        self.balances.iter().any(|balance| balance.until <= now)
    }

    /// Brings the scope to `now`: folds what is due, turns calendar windows, refills buckets.
    /// Returns whether all that is due was there; if not, the scope must be stored and brought on again.
    pub fn advance(&mut self, now: Time, due: &Due, asked: &DueAsk) -> bool {
        let mut ready = true;
        if asked.charges_after.is_some() {
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
            ready &= self.balances[*place].evict(postings);
        }
        if ready {
            self.seen = self.seen.max(now);
            for balance in &mut self.balances {
                balance.turn(now);
            }
            self.balances.retain(|balance| !balance.prospective || now < balance.named.after(WINDOW_IDLE));
            self.rearm_trip();
        }
        ready
    }

    /// A trip limit freezes again only after spend fell back below it.
    pub(crate) fn rearm_trip(&mut self) {
        let Some(trip) = self.budget.as_ref().and_then(|budget| budget.trip.clone()) else { return };
        if let Some(balance) = self.balances.iter_mut().find(|balance| balance.window == trip.window) {
            balance.tripped &= balance.spent() > trip.amount;
        }
    }

    fn fold(&mut self, charge: &LiveCharge) {
        for balance in &mut self.balances {
            balance.refill(charge.expires_at);
            balance.settle(charge.placed_at, charge.amount * i64::from(!Mutant::CountExpired.on()), &[]);
        }
        self.folded = (charge.expires_at, charge.hold);
    }

    /// The hold's charge is folded: it counts no more.
    pub fn has_folded(&self, expires_at: Time, hold: HoldId) -> bool {
        (expires_at, hold) <= self.folded
    }

    pub(crate) fn hold(&mut self, now: Time, expires_at: Time, amount: i64) {
        self.next_expiry = self.next_expiry.min(expires_at);
        for balance in &mut self.balances {
            balance.take(now, amount);
        }
    }

    /// Ends a live hold: what it held here is free again.
    pub(crate) fn release(&mut self, placed_at: Time, held: i64) {
        self.settle(placed_at, held, &[]);
    }

    /// Ends a live hold with what was spent. `held` is zero when the hold has been folded already.
    pub(crate) fn settle(&mut self, placed_at: Time, held: i64, postings: &[Posting]) {
        for balance in &mut self.balances {
            balance.settle(placed_at, held, postings);
        }
    }

    /// Numbers a posting of `amount` units that counts for the instant `at`.
    pub(crate) fn number(&mut self, at: Time, amount: i64, hold: Option<HoldId>) -> Posting {
        self.postings += 1;
        self.gross += amount.abs();
        Posting { at, seq: self.postings, amount, hold }
    }

    /// Whether `amount` more units can be held or posted once `back` are given back, so that no balance and no sum of
    /// postings can ever pass 64 bits.
    pub(crate) fn can_take(&self, back: i64, amount: i64) -> bool {
        let held = i128::from(self.balances[0].held) - i128::from(back);
        i128::from(self.gross) + held + i128::from(amount).abs() <= i128::from(i64::MAX)
    }

    /// An event names the window: it is in use from now on.
    pub(crate) fn name_window(&mut self, window: &Window, now: Time) {
        let known = self.balances.iter().any(|b| b.window == *window && !b.prospective);
        if !known && self.windows_in_use() >= WINDOWS_MAX {
            let budget = self.budget.clone();
            let registered = |w: &Window| budget.as_ref().is_some_and(|b| b.windows().any(|known| known == w));
            // A closed window is right until the end of the batch, in case that a neighbour names it again.
            for balance in self.balances.iter_mut().filter(|b| b.is_idle(now) && !registered(&b.window)) {
                balance.prospective = true;
            }
        }
        match self.balances.iter().position(|b| b.window == *window) {
            Some(place) if self.balances[place].prospective => {
                // In the order in which they came into use, whenever they were prepared.
                let balance = self.balances.remove(place);
                self.balances.push(Balance { prospective: false, named: now, ..balance });
            }
            Some(place) => self.balances[place].named = now,
            // Only a scope without any past reaches this: it was opened by an earlier event of the same command.
            None => self.balances.push(Balance { named: now, ..Balance::open(window.clone(), now, Past::default()) }),
        }
    }

    /// Whether the windows of `named` that are new find a place, counting those that may be closed for them.
    pub(crate) fn has_room_for<'a>(&self, named: impl Iterator<Item = &'a Window>, now: Time) -> bool {
        self.places_lacking(named, 0, now) == 0
    }

    /// How many places the windows of `named` that are new lack, when idle windows are closed and `replaced` ones give up theirs.
    fn places_lacking<'a>(&self, named: impl Iterator<Item = &'a Window>, replaced: usize, now: Time) -> usize {
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

    fn windows_in_use(&self) -> usize {
        self.balances.iter().filter(|b| !b.prospective && b.window != Window::Lifetime).count()
    }

    /// The windows of `wanted` that are not kept yet.
    pub fn missing<'a>(&self, wanted: impl Iterator<Item = &'a Window>) -> Vec<Window> {
        let mut missing: Vec<Window> = wanted.filter(|w| self.balance(w).is_none()).cloned().collect();
        missing.sort();
        missing.dedup();
        missing
    }

    /// Makes place for windows that are to be prepared, by forgetting others that were and that nobody wants now.
    pub fn forget_prepared(&mut self, wanted: &BTreeSet<Window>) {
        let mut left = self.balances.iter().filter(|b| b.prospective).count();
        self.balances.retain(|balance| {
            let forgotten = left > PREPARED_MAX && balance.prospective && !wanted.contains(&balance.window);
            left -= usize::from(forgotten);
            !forgotten
        });
    }

    /// Prepares a window for a request that names it.
    pub fn prepare(&mut self, window: Window, now: Time, past: Past) {
        self.balances.push(Balance { prospective: true, ..Balance::open(window, now, past) });
    }

    /// Postings from before this can be rolled up: no window in use, and none that may be named, reaches them.
    pub fn rolled_up_before(&self, now: Time, kept: Span) -> Time {
        let reach = |balance: &Balance| match balance.window {
            Window::Lifetime | Window::Bucket { .. } => Time::NEVER,
            Window::Rolling { length } => now.before(length),
            Window::Calendar { .. } => balance.since,
        };
        self.balances.iter().map(reach).min().unwrap_or(Time::NEVER).min(now.before(kept))
    }

    /// Why new spend is refused at `now`, if it is.
    pub fn frozen_at(&self, now: Time) -> Option<&Freeze> {
        let freeze = self.frozen.as_ref()?;
        let lifted = match freeze {
            Freeze::Order { .. } => false,
            Freeze::Trip { until: Some(until), .. } => *until <= now,
            Freeze::Trip { window: Window::Lifetime, .. } => false,
            // It fell back below the limit since, or that limit is gone.
            Freeze::Trip { window, until: None } => {
                let trip = self.budget.as_ref().and_then(|budget| budget.trip.as_ref());
                let stands = trip.is_some_and(|trip| trip.window == *window);
                !stands || !self.balance(window).is_some_and(|balance| balance.tripped)
            }
        };
        (!lifted).then_some(freeze)
    }
}

impl Balance {
    /// Whether it is stored with its scope. What a bucket holds depends on when it was opened, so that one which no event
    /// has named is opened anew for whoever names it.
    pub fn lasts(&self) -> bool {
        !(self.prospective && matches!(self.window, Window::Bucket { .. }))
    }

    /// Opens a window at `now` over what history says of it.
    pub fn open(window: Window, now: Time, past: Past) -> Balance {
        let (since, until) = Balance::opening(&window, now).expect("the zone of a window that is opened is known");
        let level = full(&window);
        let (evicted, next_eviction) = match window {
            Window::Rolling { length } => {
                ((now.before(length), u64::MAX), past.oldest.map_or(Time::NEVER, |at| at.after(length)))
            }
            _ => ((Time::MIN, 0), Time::NEVER),
        };
        let bucket = matches!(window, Window::Bucket { .. });
        Balance {
            window,
            since,
            until,
            posted: if bucket { 0 } else { past.posted },
            held: if bucket { 0 } else { past.held },
            evicted,
            next_eviction,
            level,
            level_at: if bucket { now } else { Time::default() },
            crossed: Vec::new(),
            tripped: false,
            named: now,
            prospective: false,
        }
    }

    /// From when to when a window opened at `now` counts: what must be summed to open it.
    /// For a rolling window this is the span of postings; its holds count as long as they live. `None` for a calendar
    /// window in a zone that this build does not know.
    pub(crate) fn opening(window: &Window, now: Time) -> Option<(Time, Time)> {
        match window {
            Window::Lifetime | Window::Rolling { .. } => Some((Time::MIN, Time::NEVER)),
            Window::Bucket { .. } => Some((now, Time::NEVER)),
            Window::Calendar { .. } => window.calendar_bounds(now),
        }
    }

    /// Units spent: posted, or for a bucket taken out of it and not held.
    pub fn spent(&self) -> i64 {
        match self.window {
            // What refilled while units were held is not less than nothing spent.
            Window::Bucket { capacity, .. } => {
                clamp(i128::from(capacity) - self.tokens() - i128::from(self.held)).max(0)
            }
            _ => self.posted,
        }
    }

    /// What a limit of `amount` over this window leaves.
    pub fn remaining(&self, amount: i64) -> i64 {
        match self.window {
            Window::Bucket { .. } => clamp(self.tokens()),
            _ => clamp(i128::from(amount) - i128::from(self.posted) - i128::from(self.held)),
        }
    }

    /// After how long `amount` could fit under `limit` at the earliest; `None` when time alone will not make it fit.
    pub(crate) fn retry_after(&self, limit: i64, amount: i64, now: Time, next_expiry: Time) -> Option<Span> {
        if !self.could_fit(limit, amount) {
            return None;
        }
        let freed_by_expiry = if self.held > 0 && next_expiry < Time::NEVER { next_expiry } else { Time::NEVER };
        let at = match self.window {
            Window::Bucket { refill: 0, .. } | Window::Lifetime => freed_by_expiry,
            Window::Bucket { refill, length, .. } => {
                let lacking = i128::from(amount) * i128::from(length.micros()) - self.level;
                let micros = lacking.div_euclid(i128::from(refill)) + i128::from(lacking % i128::from(refill) != 0);
                now.after(Span::from_micros(clamp(micros))).min(freed_by_expiry)
            }
            Window::Rolling { .. } => self.next_eviction.min(freed_by_expiry),
            Window::Calendar { .. } => self.until.min(freed_by_expiry),
        };
        (at < Time::NEVER).then(|| at.since(now))
    }

    /// Whether `amount` fits under `limit` in an empty window, or in this one once no hold lives: credits make room.
    pub(crate) fn could_fit(&self, limit: i64, amount: i64) -> bool {
        amount <= limit.max(clamp(i128::from(limit) - i128::from(self.posted)))
    }

    /// What belongs to the window as it stands: a posting after the mark and before the end, and a live hold that was
    /// placed from the start to the end. The one place that says it, for what is counted and for what is summed.
    pub fn bounds(&self) -> Bounds {
        let (after, placed_from) = match self.window {
            Window::Lifetime => ((Time::MIN, 0), Time::MIN),
            Window::Rolling { .. } => (self.evicted, Time::MIN),
            Window::Bucket { .. } | Window::Calendar { .. } => {
                ((self.since.before(Span::from_micros(1)), u64::MAX), self.since)
            }
        };
        Bounds { after, placed_from, until: self.until }
    }

    fn holds(&self, placed_at: Time) -> bool {
        let Bounds { placed_from, until, .. } = self.bounds();
        placed_from <= placed_at && placed_at < until
    }

    /// Whether a posting made now counts in the window as it stands.
    fn counts(&self, posting: &Posting) -> bool {
        let Bounds { after, until, .. } = self.bounds();
        (posting.at, posting.seq) > after && posting.at < until
    }

    fn take(&mut self, now: Time, amount: i64) {
        if self.holds(now) && !(self.prospective && Mutant::PreparedGoesStale.on()) {
            self.held += amount;
            self.draw(amount);
        }
    }

    /// A bucket gets back the difference alone: what was spent has been out of it since the hold was placed.
    fn settle(&mut self, placed_at: Time, held: i64, postings: &[Posting]) {
        let mut back = 0;
        if held != 0 && self.holds(placed_at) {
            self.held -= held;
            back = held;
        }
        let spent: i64 = postings.iter().filter(|posting| self.counts(posting)).map(|posting| posting.amount).sum();
        match self.window {
            Window::Bucket { .. } => self.draw(spent - back),
            _ => self.posted += spent,
        }
        if let Window::Rolling { length } = self.window {
            let first = postings.iter().filter(|posting| self.counts(posting)).map(|posting| posting.at).min();
            self.next_eviction = self.next_eviction.min(first.map_or(Time::NEVER, |at| at.after(length)));
        }
    }

    fn evict(&mut self, postings: &Batchwise<Posting>) -> bool {
        let Window::Rolling { length } = self.window else { return true };
        for posting in &postings.items {
            self.posted -= posting.amount * if Mutant::EvictTwice.on() { 2 } else { 1 };
            self.evicted = (posting.at, posting.seq);
        }
        if postings.more {
            self.next_eviction = self.evicted.0.after(length);
            return false;
        }
        self.next_eviction = postings.next.after(length);
        true
    }

    /// Brings the window to `now`, once all that left it is out.
    fn turn(&mut self, now: Time) {
        self.refill(now);
        if let Window::Rolling { length } = self.window {
            // Also when nothing was due: a hold older than the window posts to where the window has been already.
            self.evicted = self.evicted.max((now.before(length), u64::MAX));
        }
        if now < self.until || !matches!(self.window, Window::Calendar { .. }) || Mutant::CalendarStands.on() {
            return;
        }
        // Without the zone nobody can say where the next window begins: it stays as it is, and nothing is done with it.
        let Some((start, end)) = Balance::opening(&self.window, now) else { return };
        // Another node's zone data may differ: a window never begins before the last one ended.
        self.since = start.max(self.until);
        self.until = end.max(now.after(Span::from_micros(1)));
        self.posted = 0;
        self.held = 0;
        self.crossed.clear();
        self.tripped = false;
    }

    fn is_idle(&self, now: Time) -> bool {
        let closable = match self.window {
            Window::Lifetime => false,
            // It would be opened full again: only one that is full forgets nothing.
            Window::Bucket { capacity, .. } => self.held == 0 && self.tokens() >= i128::from(capacity),
            Window::Rolling { .. } | Window::Calendar { .. } => true,
        };
        closable && self.named.after(WINDOW_IDLE) < now
    }
}
