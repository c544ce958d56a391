//! The model: the expected state, computed from plain lists of all postings and live holds.
//!
//! It shares no code with the kernel and keeps no running totals: every question is answered by summing the lists again.
//! Only the level of a bucket is updated with each change, because it depends on the order of changes.

use std::collections::{BTreeSet, HashMap};

use bursar_core::blob::NamespaceConfig;
use bursar_core::budget::{Budget, Cover, Limit};
use bursar_core::grant::{GrantState, TokenDigest};
use bursar_core::hold::HoldState;
use bursar_core::id::{BlobId, GrantId, HoldId, JobId};
use bursar_core::job::QueueConfig;
use bursar_core::name::{Purpose, Scope, Subject, Tenant};
use bursar_core::payload::Payload;
use bursar_core::state::{BlobDigestKey, JobKey, NamespaceKey, QueueKey, ScopeKey};
use bursar_core::window::{CalendarUnit, Window};

use super::blobs::{BlobModel, History};
use super::jobs::JobModel;

/// Microseconds since 1970.
pub(crate) type Micros = i64;

const HOUR: Micros = 3_600_000_000;
pub(crate) const LORD_HOWE: &str = "Australia/Lord_Howe";
/// Midnight of 2026-03-29 in Berlin, a day of 23 hours, and the midnight after it.
const SHORT_DAY: (Micros, Micros) = (1_774_738_800_000_000, 1_774_821_600_000_000);
/// The end of summer time on Lord Howe Island, 2026-04-05: the offset changes from 11 to 10.5 hours ahead of UTC.
pub(crate) const HALF_HOUR_CHANGE: Micros = 1_775_314_800_000_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// The time to live of a hold if neither the request nor a budget sets one.
    pub(crate) hold_ttl: Micros,
    /// The longest time to live of a hold on a budget that sets none.
    pub(crate) hold_ttl_max: Micros,
    pub(crate) scopes: HashMap<ScopeKey, ScopeModel>,
    pub(crate) holds: HashMap<HoldId, HoldModel>,
    pub(crate) grants: HashMap<GrantId, GrantModel>,
    pub(crate) job_keys: HashMap<JobKey, JobId>,
    pub(crate) jobs: HashMap<JobId, JobModel>,
    /// Jobs that have not ended.
    pub(crate) unended: BTreeSet<JobId>,
    /// The settings of queues over time, each with the number of commits before it.
    pub(crate) queues: HashMap<QueueKey, Vec<(u64, QueueConfig)>>,
    /// Keys of removed jobs, each with the number of commits before the removal.
    pub(crate) removed_keys: HashMap<JobKey, (JobId, u64)>,
    pub(crate) blobs: HashMap<BlobId, BlobModel>,
    /// The live blobs that uploads of the same bytes find.
    pub(crate) digests: HashMap<BlobDigestKey, History<Option<BlobId>>>,
    /// Restored blobs of the transaction that is judged which uploads find only if the digest of another copy was not read.
    pub(crate) unsure_digests: HashMap<BlobDigestKey, BlobId>,
    /// Blobs that the transaction which is judged has stored although another blob has the same bytes, with that one.
    pub(crate) unnoticed_copies: Vec<(BlobId, BlobId)>,
    pub(crate) namespaces: HashMap<NamespaceKey, History<NamespaceConfig>>,
    /// The latest time of any decision.
    pub(crate) high: Micros,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeModel {
    /// Whether an event has touched it.
    pub(crate) known: bool,
    pub(crate) budget: Option<Budget>,
    pub(crate) frozen: Option<Frozen>,
    /// The time that each posting counts for, and its units.
    pub(crate) spends: Vec<(Micros, i64)>,
    pub(crate) live: Vec<Live>,
    pub(crate) buckets: Vec<Bucket>,
    /// The time of the last change, and the changes at that time.
    pub(crate) at: Micros,
    pub(crate) latest: Vec<Move>,
    /// Thresholds already reported, by window and its start.
    pub(crate) crossed: Vec<(Window, Micros, u32)>,
    /// Windows whose trip limit was exceeded, with their starts.
    pub(crate) tripped: Vec<(Window, Micros)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frozen {
    Order,
    Trip { window: Window, until: Option<Micros> },
}

/// A live hold's charge on a scope.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) hold: HoldId,
    pub(crate) placed_at: Micros,
    pub(crate) expires_at: Micros,
    pub(crate) amount: i64,
    /// The units that its expiry posts.
    pub(crate) on_expiry: i64,
}

/// A change on a scope.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    /// When the hold it belongs to was placed.
    pub(crate) placed_at: Micros,
    /// Units returned from the hold; negative when it is placed.
    pub(crate) back: i64,
    /// Units spent, with the time they count for.
    pub(crate) spends: [(Micros, i64); 2],
}

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) window: Window,
    /// When it was opened; earlier holds and postings do not count.
    pub(crate) since: Micros,
    pub(crate) at: Micros,
    /// Tokens times the refill period in microseconds.
    pub(crate) level: i128,
    /// When another bucket replaced it; it is kept for that time only.
    pub(crate) closed_at: Option<Micros>,
}

#[derive(Clone, Debug)]
pub(crate) struct HoldModel {
    pub(crate) tenant: Tenant,
    pub(crate) placed_at: Micros,
    pub(crate) expires_at: Micros,
    pub(crate) life_until: Micros,
    /// The units of each charge that its expiry posts.
    pub(crate) on_expiry: i64,
    pub(crate) late: Cover,
    pub(crate) overrun: Cover,
    pub(crate) charges: Vec<ChargeModel>,
    pub(crate) state: HoldState,
    pub(crate) ended_at: Option<Micros>,
    pub(crate) job: Option<JobId>,
    /// Committed units per scope that are not credited yet: those covered by the hold and those beyond it, each with the time
    /// they count for.
    pub(crate) spent: Vec<(Scope, [(Micros, i64); 2])>,
}

#[derive(Clone, Debug)]
pub(crate) struct ChargeModel {
    pub(crate) scope: Scope,
    pub(crate) amount: i64,
    pub(crate) ancestors: Vec<Scope>,
    pub(crate) limits: Vec<Limit>,
}

#[derive(Clone, Debug)]
pub(crate) struct GrantModel {
    pub(crate) tenant: Tenant,
    pub(crate) digest: TokenDigest,
    pub(crate) purpose: Purpose,
    pub(crate) subject: Subject,
    pub(crate) payload: Payload,
    pub(crate) expires_at: Micros,
    pub(crate) state: GrantState,
}

impl ChargeModel {
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.scope).chain(&self.ancestors)
    }
}

/// Sums charges per scope of their chains, in the order of names.
pub(crate) fn totals(charges: &[ChargeModel], amount: impl Fn(usize) -> i64) -> Vec<(Scope, i64)> {
    let mut totals: Vec<(Scope, i64)> = Vec::with_capacity(charges.len() * 2);
    for (place, charge) in charges.iter().enumerate() {
        for scope in charge.chain() {
            match totals.binary_search_by(|(known, _)| known.cmp(scope)) {
                Ok(known) => totals[known].1 += amount(place),
                Err(new) => totals.insert(new, (scope.clone(), amount(place))),
            }
        }
    }
    totals
}

impl HoldModel {
    pub(crate) fn state_at(&self, now: Micros) -> HoldState {
        if self.state == HoldState::Held && self.expires_at <= now { HoldState::Expired } else { self.state }
    }

    pub(crate) fn totals(&self) -> Vec<(Scope, i64)> {
        totals(&self.charges, |place| self.charges[place].amount)
    }

    /// Returns the units that its expiry posts on a scope.
    pub(crate) fn charged_by_expiry(&self, scope: &Scope) -> i64 {
        let charged = totals(&self.charges, |_| self.on_expiry);
        charged.iter().find(|(known, _)| known == scope).map_or(0, |(_, amount)| *amount)
    }

    /// Returns the spend that a credit reverses: first what went beyond the hold, then what it covered.
    pub(crate) fn take_back(&mut self, scope: &Scope, amount: i64, now: Micros) -> [(Micros, i64); 2] {
        let charged = self.on_expiry != 0 && self.state_at(now) == HoldState::Expired;
        let Some((_, [covered, beyond])) = self.spent.iter_mut().find(|(spent, _)| spent == scope) else {
            let dated = if charged { self.expires_at } else { self.placed_at };
            return [(dated, -amount), (dated, 0)];
        };
        let part = amount.min(beyond.1);
        beyond.1 -= part;
        [(beyond.0, -part), (covered.0, part - amount)]
    }
}

/// Returns the period `[start, end)` of a calendar window that contains a time; all time for other windows.
pub(crate) fn bounds(window: &Window, now: Micros) -> (Micros, Micros) {
    let Window::Calendar { unit, zone, .. } = window else { return (Micros::MIN, Micros::MAX) };
    match unit {
        // From the change on, hours start half an hour later, and the first one is shorter.
        CalendarUnit::Hour if zone.as_str() == LORD_HOWE && now >= HALF_HOUR_CHANGE => {
            let start = (now - HOUR / 2).div_euclid(HOUR) * HOUR + HOUR / 2;
            (start.max(HALF_HOUR_CHANGE), start + HOUR)
        }
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
        other => unreachable!("no run uses {other:?}"),
    }
}

impl Bucket {
    fn fresh(window: &Window, now: Micros) -> Bucket {
        let mut bucket = Bucket { window: window.clone(), since: now, at: now, level: 0, closed_at: None };
        bucket.level = bucket.full();
        bucket
    }

    pub(crate) fn unit(&self) -> i128 {
        let Window::Bucket { length, .. } = &self.window else { unreachable!("the window is a bucket") };
        i128::from(length.micros())
    }

    pub(crate) fn capacity(&self) -> i64 {
        let Window::Bucket { capacity, .. } = &self.window else { unreachable!("the window is a bucket") };
        *capacity
    }

    pub(crate) fn full(&self) -> i128 {
        i128::from(self.capacity()) * self.unit()
    }

    pub(crate) fn refill(&mut self, to: Micros) {
        let Window::Bucket { refill, .. } = &self.window else { unreachable!("the window is a bucket") };
        if to > self.at {
            self.level = self.full().min(self.level + i128::from(to - self.at) * i128::from(*refill));
            self.at = to;
        }
    }

    pub(crate) fn draw(&mut self, amount: i64) {
        self.level = self.full().min(self.level - i128::from(amount) * self.unit());
    }

    fn moved(&mut self, change: &Move) {
        let spent: i64 = change.spends.iter().filter(|(dated, _)| *dated >= self.since).map(|(_, n)| n).sum();
        let back = if change.placed_at >= self.since { change.back } else { 0 };
        self.draw(spent - back);
    }

    pub(crate) fn tokens(&self) -> i64 {
        i64::try_from(self.level.div_euclid(self.unit())).unwrap_or(i64::MIN)
    }
}

impl ScopeModel {
    /// Advances the scope to a time: expired holds stop counting, and a trip limit that is no longer exceeded is armed again.
    pub(crate) fn advance(&mut self, now: Micros) {
        if self.live.iter().any(|live| live.expires_at <= now) {
            let mut due: Vec<Live> = Vec::new();
            self.live.retain(|live| {
                if live.expires_at <= now {
                    due.push(live.clone());
                }
                live.expires_at > now
            });
            due.sort_by_key(|live| (live.expires_at, live.hold));
            for bucket in &mut self.buckets {
                let since = bucket.since;
                for live in due.iter().filter(|live| live.placed_at >= since || live.on_expiry != 0) {
                    let back = if live.placed_at >= since { live.amount } else { 0 };
                    let spent = if live.expires_at >= since { live.on_expiry } else { 0 };
                    bucket.refill(live.expires_at);
                    bucket.draw(spent - back);
                }
            }
            let charging = due.iter().filter(|live| live.on_expiry != 0);
            self.spends.extend(charging.map(|live| (live.expires_at, live.on_expiry)));
        }
        self.rearm(now);
    }

    fn rearm(&mut self, now: Micros) {
        let Some(trip) = self.budget.as_ref().and_then(|budget| budget.trip.clone()) else { return };
        if !self.tripped.is_empty() && self.spent(&trip, now) <= trip.amount {
            self.tripped.retain(|(window, _)| *window != trip.window);
        }
    }

    pub(crate) fn is_tripped(&self, window: &Window, now: Micros) -> bool {
        let start = bounds(window, now).0;
        self.tripped.iter().any(|(known, from)| known == window && *from == start)
    }

    /// Whether the budget is only tried out.
    pub(crate) fn in_shadow(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.shadow)
    }

    /// Whether the freeze, if there is one, refuses nothing.
    pub(crate) fn ignores_freeze(&self) -> bool {
        self.in_shadow() && matches!(self.frozen, Some(Frozen::Trip { .. }))
    }

    pub(crate) fn is_frozen(&self, now: Micros) -> bool {
        match &self.frozen {
            None => false,
            Some(Frozen::Order) => true,
            Some(Frozen::Trip { until: Some(until), .. }) => *until > now,
            Some(Frozen::Trip { window: Window::Lifetime, .. }) => true,
            Some(Frozen::Trip { window, until: None }) => {
                let trip = self.budget.as_ref().and_then(|budget| budget.trip.as_ref());
                trip.is_some_and(|trip| trip.window == *window) && self.is_tripped(window, now)
            }
        }
    }

    /// Returns the posted units that count in the window at a time.
    pub(crate) fn posted(&self, window: &Window, now: Micros) -> i64 {
        match window {
            Window::Lifetime => self.spends.iter().map(|(_, n)| n).sum(),
            Window::Rolling { length } => {
                let from = now - length.micros();
                self.spends.iter().filter(|(dated, _)| *dated > from).map(|(_, n)| n).sum()
            }
            _ => {
                let (start, end) = bounds(window, now);
                self.spends.iter().filter(|(dated, _)| start <= *dated && *dated < end).map(|(_, n)| n).sum()
            }
        }
    }

    /// Returns the units of live holds that count in the window at a time.
    pub(crate) fn held(&self, window: &Window, now: Micros) -> i64 {
        let (start, end) = match window {
            Window::Bucket { .. } => (self.bucket(window, now).since, Micros::MAX),
            _ => bounds(window, now),
        };
        let live = self.live.iter().filter(|live| start <= live.placed_at && live.placed_at < end);
        live.map(|live| live.amount).sum()
    }

    /// Returns a bucket at a time. One that is not open is full, before any change at this time.
    pub(crate) fn bucket(&self, window: &Window, now: Micros) -> Bucket {
        let is_kept = |bucket: &&Bucket| bucket.window == *window && bucket.closed_at.is_none_or(|at| at == now);
        if let Some(known) = self.buckets.iter().find(is_kept) {
            let mut bucket = known.clone();
            bucket.refill(now);
            return bucket;
        }
        let mut bucket = Bucket::fresh(window, now);
        if self.at == now {
            self.latest.iter().for_each(|change| bucket.moved(change));
        }
        bucket
    }

    /// Returns whether the window is a bucket that is not stored.
    pub(crate) fn is_closed(&self, window: &Window) -> bool {
        matches!(window, Window::Bucket { .. })
            && !self.buckets.iter().any(|bucket| bucket.window == *window && bucket.closed_at.is_none())
    }

    pub(crate) fn open_bucket(&mut self, window: &Window, now: Micros) {
        if self.is_closed(window) {
            let mut bucket = self.bucket(window, now);
            if bucket.closed_at.take().is_none() {
                self.crossed.retain(|(known, ..)| known != window);
            }
            self.buckets.retain(|known| known.window != *window);
            self.buckets.push(bucket);
        }
    }

    /// Returns what a limit leaves at a time.
    pub(crate) fn remaining(&self, limit: &Limit, now: Micros) -> i64 {
        self.after(limit, now, None)
    }

    /// Returns what a limit leaves at a time after a change.
    pub(crate) fn after(&self, limit: &Limit, now: Micros, change: Option<&Move>) -> i64 {
        let window = &limit.window;
        if matches!(window, Window::Bucket { .. }) {
            let mut bucket = self.bucket(window, now);
            change.iter().for_each(|change| bucket.moved(change));
            return bucket.tokens();
        }
        let (start, end) = bounds(window, now);
        let within = |at: Micros| start <= at && at < end;
        let counts = |dated: Micros| match window {
            Window::Rolling { length } => dated > now - length.micros(),
            _ => within(dated),
        };
        let mut rest = limit.amount - self.posted(window, now) - self.held(window, now);
        if let Some(change) = change {
            rest -= change.spends.iter().filter(|(dated, _)| counts(*dated)).map(|(_, n)| n).sum::<i64>();
            rest += if within(change.placed_at) { change.back } else { 0 };
        }
        rest
    }

    /// Returns the units spent: posted, or for a bucket those neither in it nor held.
    pub(crate) fn spent(&self, limit: &Limit, now: Micros) -> i64 {
        match limit.window {
            Window::Bucket { .. } => (limit.amount - self.remaining(limit, now) - self.held(&limit.window, now)).max(0),
            _ => self.posted(&limit.window, now),
        }
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, now: Micros, change: Move) {
        self.known = true;
        if self.at != now {
            self.at = now;
            self.latest.clear();
        }
        for bucket in &mut self.buckets {
            bucket.refill(now);
            bucket.moved(&change);
        }
        self.spends.extend(change.spends.iter().filter(|(_, amount)| *amount != 0));
        self.latest.push(change);
        self.rearm(now);
    }

    /// Returns the limits on the scope: those of its budget, then the caller's that are not among them.
    pub(crate) fn limits(&self, given: &[Limit]) -> Vec<Limit> {
        let mut limits = self.budget.as_ref().map_or(Vec::new(), |budget| budget.limits.clone());
        let others: Vec<Limit> = given.iter().filter(|limit| !limits.contains(limit)).cloned().collect();
        limits.extend(others);
        limits
    }
}
