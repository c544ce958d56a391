//! Admission from memory: units of a quota that this node holds in advance.
//!
//! The first request of a caller is charged like any other. If its next one follows soon, the node places a hold on the
//! quota, a *slice*, and admits requests from it without a transaction. When the slice is used up or old, the hold is
//! committed with what was used, and the next one is placed. How large a slice may be and how long it may be used are rules
//! of [`bursar_core::slice`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use bursar_core::event::{Charged, Left};
use bursar_core::name::{Scope, Tenant};
use bursar_core::slice::{HOLD_LIVES, Slice, SliceRules};
use bursar_core::time::{Span, Time};
use bursar_store::Clock;
use serde::Deserialize;
use tokio::time::Instant;

use crate::api::held::Held;
use crate::error::Error;
use crate::meter::Meter;
use crate::meter::admit::Admission;
use crate::meter::caller::Caller;
use crate::meter::counters::count;
use crate::meter::settings::MeterError;
use crate::meter::standing::Standing;

/// The settings of admission from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SliceSettings {
    /// How long a slice may be used, in milliseconds, from 1,000 to 60,000.
    pub life_ms: u64,
    /// The most of what a quota leaves that one slice may take, in percent, from 1 to 50.
    pub share_percent: u32,
}

impl Default for SliceSettings {
    fn default() -> SliceSettings {
        SliceSettings { life_ms: 10_000, share_percent: 10 }
    }
}

impl SliceSettings {
    pub(crate) fn check(&self) -> Result<(), MeterError> {
        let wrong = |key, problem: &str| Err(MeterError::Setting { key, problem: problem.to_owned() });
        if !(1_000..=60_000).contains(&self.life_ms) {
            return wrong("slices.life_ms", "must be from 1000 to 60000");
        }
        if !(1..=50).contains(&self.share_percent) {
            return wrong("slices.share_percent", "must be from 1 to 50");
        }
        Ok(())
    }

    fn rules(&self) -> SliceRules {
        SliceRules { life: Span::from_millis(self.life_ms), share_percent: self.share_percent }
    }
}

/// The most callers that are remembered at once. Requests of further ones are charged in transactions.
const CALLERS_MAX: usize = 100_000;

/// The callers that this meter has admitted lately.
#[derive(Default)]
pub(super) struct Slices {
    callers: RwLock<HashMap<Tenant, HashMap<Scope, Arc<HotCaller>>>>,
}

/// A caller, with its slice if it has one.
struct HotCaller {
    slice: Mutex<Option<HeldSlice>>,
    /// Held while a slice is settled and the next one placed, so that one request does that for all.
    history: tokio::sync::Mutex<History>,
}

/// What is known of a caller between two slices.
struct History {
    /// When it was last charged in a transaction; `None` before the first charge.
    charged: Option<Moment>,
    /// What the limits left after that; `None` if they do not allow slices.
    remaining: Option<i64>,
    wanted: i64,
}

/// A slice, with the hold of its units.
struct HeldSlice {
    slice: Slice,
    taken: Moment,
    /// `None` once it is being settled.
    held: Option<Held>,
    /// What the limits left when it was held.
    standing: Standing,
}

/// A moment of this process.
#[derive(Clone, Copy)]
struct Moment {
    steady: Instant,
    clock: Time,
}

impl Moment {
    fn now(clock: &dyn Clock) -> Moment {
        Moment { steady: Instant::now(), clock: clock.now() }
    }

    /// Returns the time since then: by the steady clock, or by the other one if that has gone further.
    fn age(&self, clock: &dyn Clock) -> Span {
        Span::from(self.steady.elapsed()).max(clock.now().since(self.clock))
    }
}

impl HotCaller {
    fn new() -> HotCaller {
        let history = History { charged: None, remaining: None, wanted: 0 };
        HotCaller { slice: Mutex::new(None), history: tokio::sync::Mutex::new(history) }
    }

    fn slice(&self) -> MutexGuard<'_, Option<HeldSlice>> {
        self.slice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the cost of a request from the slice, if it leaves that.
    fn take(&self, cost: i64, clock: &dyn Clock) -> Option<Standing> {
        let mut slice = self.slice();
        let held = slice.as_mut()?;
        let left = held.slice.take(cost, held.taken.age(clock))?;
        let mut standing = held.standing.clone();
        drop(slice);
        standing.limits.iter_mut().for_each(|limit| limit.remaining = limit.remaining.saturating_add(left));
        Some(standing)
    }
}

impl HeldSlice {
    /// Takes out the hold, and the units that were used of it.
    fn end(mut self) -> (Option<Held>, i64) {
        (self.held.take(), self.slice.spent())
    }
}

/// A slice that is dropped with its meter is committed in the background.
impl Drop for HeldSlice {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            drop(held.with_floor(self.slice.spent()));
        }
    }
}

impl Slices {
    /// Returns what is known of a caller; `None` for a new one if there are too many.
    fn of(&self, tenant: &Tenant, scope: &Scope) -> Option<Arc<HotCaller>> {
        let callers = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = callers.get(tenant).and_then(|callers| callers.get(scope)) {
            return Some(found.clone());
        }
        drop(callers);
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        let known: usize = callers.values().map(HashMap::len).sum();
        let callers = callers.entry(tenant.clone()).or_default();
        let found = callers.get(scope).cloned();
        found.or_else(|| {
            let new = (known < CALLERS_MAX).then(|| Arc::new(HotCaller::new()))?;
            callers.insert(scope.clone(), new.clone());
            Some(new)
        })
    }

    fn all(&self) -> Vec<Arc<HotCaller>> {
        let callers = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        callers.values().flat_map(HashMap::values).cloned().collect()
    }

    /// Forgets callers without a slice that nothing uses.
    fn forget_idle(&self, idle: impl Fn(&HotCaller) -> bool) {
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        for callers in callers.values_mut() {
            callers.retain(|_, caller| Arc::strong_count(caller) > 1 || !idle(caller));
        }
        callers.retain(|_, callers| !callers.is_empty());
    }
}

impl Meter {
    /// Charges a request in memory if the caller has a slice, else in a transaction.
    pub(super) async fn admit_in_memory(
        &self,
        settings: SliceSettings,
        caller: &Caller,
        cost: i64,
    ) -> Result<Admission<Standing>, Error> {
        let clock = &*self.inner.clock;
        let Some(hot) = self.inner.slices.of(&self.bursar.context.tenant, caller.scope()) else {
            return self.check_and_record(caller, cost).await;
        };
        if let Some(standing) = hot.take(cost, clock) {
            count(&self.inner.counters.sliced);
            return Ok(Ok(standing));
        }
        let rules = settings.rules();
        if let Some(standing) = self.admit_from_next(&hot, rules, caller, cost).await? {
            count(&self.inner.counters.sliced);
            return Ok(Ok(standing));
        }
        // Several requests are charged at once, because they can share a transaction.
        let submitted = self.charge(caller, cost).submit().await;
        let paid = self.admission(caller, submitted)?;
        let mut history = hot.history.lock().await;
        history.charged = Some(Moment::now(clock));
        // After a refusal nothing is left to hold.
        history.remaining = None;
        Ok(paid.map(|receipt| {
            let (posted, at) = (&receipt.done.posted, receipt.command.at());
            history.remaining = remaining_for_slices(posted, at, rules);
            Standing::of_charges(caller, posted, at)
        }))
    }

    /// Settles the slice of a caller, places the next one and charges a request to that; `None` if there is to be no next one.
    async fn admit_from_next(
        &self,
        hot: &HotCaller,
        rules: SliceRules,
        caller: &Caller,
        cost: i64,
    ) -> Result<Option<Standing>, Error> {
        let clock = &*self.inner.clock;
        let mut history = hot.history.lock().await;
        // Another request may have placed it meanwhile.
        if let Some(standing) = hot.take(cost, clock) {
            return Ok(Some(standing));
        }
        self.give_back_slice(hot, &mut history, rules).await;
        let is_hot = history.charged.is_some_and(|charged| charged.age(clock) < rules.life);
        let units = history.remaining.filter(|_| is_hot);
        let units = units.and_then(|remaining| rules.units(remaining, history.wanted, cost));
        let Some(units) = units else { return Ok(None) };
        let Some(held) = self.hold_slice(caller, units, rules).await? else { return Ok(None) };
        count(&self.inner.counters.slices);
        *hot.slice() = Some(held);
        Ok(hot.take(cost, clock))
    }

    /// Holds the units of a slice; `None` if the quota does not admit that, or does not allow slices any more.
    async fn hold_slice(&self, caller: &Caller, units: i64, rules: SliceRules) -> Result<Option<HeldSlice>, Error> {
        // Taken before the hold is placed, so that the slice never seems younger than it is.
        let taken = Moment::now(&*self.inner.clock);
        let lives = Duration::from_micros(rules.life.micros().unsigned_abs() * HOLD_LIVES);
        let command = self.charge(caller, units).charge_on_expiry(units).hold_for(lives);
        let Ok((held, receipt)) = self.admission(caller, command.submit_held().await)? else { return Ok(None) };
        let charges = receipt.done.hold.as_ref().map_or(&[][..], |hold| &hold.charges);
        let granted = held.clamped().map_or(Span::from(lives), |clamped| clamped.granted);
        let placed_at = held.expires_at().before(granted);
        let Some(life) = rules.life_within(placed_at, windows(charges)) else {
            drop(held.release(NO_SLICES).await?);
            return Ok(None);
        };
        let standing = Standing::of_charges(caller, charges, placed_at);
        let life = life.min(Span::from_micros(granted.micros() / HOLD_LIVES as i64));
        Ok(Some(HeldSlice { slice: Slice::new(units, life), taken, held: Some(held), standing }))
    }

    /// Settles the slice of a caller with what was used of it.
    async fn give_back_slice(&self, hot: &HotCaller, history: &mut History, rules: SliceRules) {
        let Some(slice) = hot.slice().take() else { return };
        let (clock, caller) = (&*self.inner.clock, slice.standing.caller.clone());
        history.wanted = rules.next_wanted(slice.slice.spent(), slice.taken.age(clock));
        let (Some(held), spent) = slice.end() else { return };
        match held.with_floor(spent).commit(spent).await {
            Ok(settled) => {
                history.charged = Some(Moment::now(clock));
                history.remaining = remaining_for_slices(&settled.charges, clock.now(), rules);
            }
            // The handle is dropped, which tries again in the background.
            Err(error) => {
                count(&self.inner.counters.unsettled);
                tracing::warn!(%caller, %error, spent, "settling a slice failed; it is tried again in the background");
                history.remaining = None;
            }
        }
    }

    /// Gives the units back that this meter holds to admit requests from memory, except those that were used. Call it when
    /// a service stops; otherwise they count until their holds expire.
    pub async fn give_back_slices(&self) {
        let Some(settings) = self.inner.settings.slices else { return };
        for hot in self.inner.slices.all() {
            let mut history = hot.history.lock().await;
            self.give_back_slice(&hot, &mut history, settings.rules()).await;
        }
    }

    /// Gives back slices that are not used any more, while the meter exists.
    pub(super) fn tend_slices(&self, settings: SliceSettings) {
        let (rules, inner) = (settings.rules(), Arc::downgrade(&self.inner));
        let bursar = Arc::downgrade(&self.bursar.inner);
        let context = self.bursar.context.clone();
        let step = Duration::from_millis(settings.life_ms / 4);
        self.bursar.inner.runtime.spawn(async move {
            loop {
                tokio::time::sleep(step).await;
                let upgraded = (Weak::upgrade(&inner), Weak::upgrade(&bursar));
                let (Some(inner), Some(bursar)) = upgraded else { return };
                let bursar = crate::api::instance::Bursar { inner: bursar, context: context.clone() };
                Meter { bursar, inner }.tend_slices_once(rules).await;
            }
        });
    }

    async fn tend_slices_once(&self, rules: SliceRules) {
        let clock = &*self.inner.clock;
        for hot in self.inner.slices.all() {
            let is_over = hot.slice().as_ref().is_some_and(|held| held.slice.is_over(held.taken.age(clock)));
            if is_over {
                let mut history = hot.history.lock().await;
                self.give_back_slice(&hot, &mut history, rules).await;
            }
        }
        self.inner.slices.forget_idle(|hot| {
            let charged = hot.history.try_lock().map(|history| history.charged);
            hot.slice().is_none() && charged.is_ok_and(|charged| charged.is_none_or(|at| at.age(clock) >= rules.life))
        });
    }
}

/// The reason that the journal has for a slice that cannot be used.
const NO_SLICES: &str = "a limit of the quota does not allow slices";

/// Returns the windows of all limits that charges count against.
fn windows(charges: &[Charged]) -> impl Iterator<Item = &bursar_core::window::Window> {
    left(charges).map(|left| &left.window)
}

fn left(charges: &[Charged]) -> impl Iterator<Item = &Left> {
    charges.iter().flat_map(|charge| &charge.balances)
}

/// Returns the least that the limits leave; `None` if they do not allow slices.
fn remaining_for_slices(charges: &[Charged], at: Time, rules: SliceRules) -> Option<i64> {
    rules.life_within(at, windows(charges))?;
    left(charges).map(|left| left.remaining).min()
}
