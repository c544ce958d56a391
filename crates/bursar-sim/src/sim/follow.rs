//! The expected outcomes of budget, grant and maintenance requests, and the consequences of spend.

use std::collections::BTreeSet;

use bursar_core::answer::{Answer, Credited};
use bursar_core::bounds::DEPTH_MAX;
use bursar_core::budget::Budget;
use bursar_core::event::{Charged, Event};
use bursar_core::grant::GrantState;
use bursar_core::hold::HoldState;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::Scope;
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Command, Mint};
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use bursar_core::window::Window;

use super::expect::{Case, Check, Moves, is};
use super::model::{Bucket, ChargeModel, Frozen, GrantModel, HoldModel, Micros, Model, Move, ScopeModel, bounds};

impl Case<'_> {
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        let entry = self.answered.as_ref().ok().and_then(|outcome| outcome.entry.as_ref());
        entry.into_iter().flat_map(|entry| entry.events.iter().map(|recorded| &recorded.e))
    }
}

/// Sets a budget.
fn register(model: &mut ScopeModel, budget: &Budget, now: Micros) {
    model.known = true;
    budget.windows().for_each(|window| model.open_bucket(window, now));
    let before = model.budget.replace(budget.clone());
    before.iter().for_each(|before| take_over_buckets(model, before, budget, now));
}

pub(super) fn is_consequence(event: &Event) -> bool {
    matches!(
        event,
        Event::BudgetCrossed { .. }
            | Event::BudgetCleared { .. }
            | Event::BudgetTripped { .. }
            | Event::BudgetUnfrozen { turned: true, .. }
    )
}

impl Model {
    /// Compares answered charges, and what each limit along their chains leaves after the changes.
    pub(super) fn compare_charges(
        &self,
        case: &Case<'_>,
        answered: &[Charged],
        charges: &[ChargeModel],
        actuals: &[i64],
        moves: &Moves,
    ) -> Check {
        is("charges", &answered.len(), &charges.len())?;
        for (place, (answered, charge)) in answered.iter().zip(charges).enumerate() {
            is("a charge's scope", &answered.scope, &charge.scope)?;
            is("a charge's ancestors", &answered.ancestors, &charge.ancestors)?;
            is("a charge", &(answered.amount, answered.actual), &(charge.amount, actuals.get(place).copied()))?;
            let mut left = answered.balances.iter();
            for scope in charge.chain() {
                let named = *scope == charge.scope;
                let model = &self.scopes[&case.key(scope)];
                let change = moves.iter().find(|(moved, _)| moved == scope).map(|(_, change)| change);
                for limit in model.limits(if named { &charge.limits } else { &[] }) {
                    let answered = left.next().ok_or("a limit is missing")?;
                    let rest = model.after(&limit, case.now, change);
                    // A bucket replaced since the hold was placed is not stored; another request of the batch may have reopened it.
                    let closed = model.is_closed(&limit.window) && answered.remaining == limit.amount;
                    let left = answered.remaining == rest || closed;
                    let same = answered.window == limit.window && answered.limit == limit.amount && left;
                    if !same {
                        return Err(format!("{scope} leaves {answered:?}, expected {rest} of {limit:?}"));
                    }
                }
            }
            is("limits", &left.count(), &0)?;
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, case: &Case<'_>, moves: Moves) {
        for (scope, change) in moves {
            self.scope(&case.key(&scope), case.now).apply(case.now, change);
        }
    }

    pub(super) fn credit(&mut self, case: &Case<'_>, scope: &Scope, amount: i64, hold: Option<HoldId>) -> Check<bool> {
        if !self.scopes.get(&case.key(scope)).is_some_and(|scope| scope.known) {
            return case.refused(&Refusal::UnknownScope { scope: scope.clone() });
        }
        let mut named = None;
        let charge = match hold {
            None => {
                let ancestors = self.ancestors(case.tenant(), scope);
                ChargeModel { scope: scope.clone(), amount, ancestors, limits: Vec::new() }
            }
            Some(id) => {
                let Some(hold) = self.find(case, id) else { return case.refused(&Refusal::UnknownHold { hold: id }) };
                let Some(charge) = hold.charges.iter().find(|charge| charge.scope == *scope) else {
                    return case.refused(&Refusal::NoSuchCharge { hold: id, scope: scope.clone() });
                };
                named = Some((id, hold.clone()));
                ChargeModel { amount, ..charge.clone() }
            }
        };
        let Answer::Credited(answered) = case.answer()? else {
            return Err("a credit has an answer of another kind".into());
        };
        let touched = self.give_back(case, charge, named, answered)?;
        if case.request.dry_run {
            return Ok(false);
        }
        self.follow(case, touched)?;
        Ok(true)
    }

    /// Judges a credit of a charge, which may name a hold. Returns the scopes that it changes.
    pub(super) fn give_back(
        &mut self,
        case: &Case<'_>,
        charge: ChargeModel,
        mut named: Option<(HoldId, HoldModel)>,
        answered: &Credited,
    ) -> Check<Vec<Scope>> {
        let (now, amount) = (case.now, charge.amount);
        let touched: Vec<Scope> = charge.chain().cloned().collect();
        self.advance(case, touched.iter());
        let mut change = |scope: &Scope| {
            let spends = match &mut named {
                None => [(now, -amount), (now, 0)],
                Some((_, hold)) => hold.take_back(scope, amount, now),
            };
            (scope.clone(), Move { placed_at: now, back: 0, spends })
        };
        let moves: Moves = touched.iter().map(&mut change).collect();
        let spent = self.scopes.get(&case.key(&charge.scope)).map_or(0, |model| model.posted(&Window::Lifetime, now));
        self.compare_charges(case, std::slice::from_ref(&answered.charge), &[charge], &[], &moves)?;
        is("the excess of a credit", &answered.excess, &(amount - spent.max(0)).max(0))?;
        if !case.request.dry_run {
            self.holds.extend(named);
            self.apply(case, moves);
        }
        Ok(touched)
    }

    pub(super) fn define(&mut self, case: &Case<'_>, scope: &Scope, budget: &Budget) -> Check<bool> {
        let now = case.now;
        if let Some(parent) = &budget.parent {
            let cycle = || Refusal::Cycle { scope: scope.clone(), parent: parent.clone() };
            if parent == scope {
                return case.refused(&cycle());
            }
            if self.scopes.get(&case.key(parent)).is_none_or(|parent| parent.budget.is_none()) {
                return case.refused(&Refusal::UnknownScope { scope: parent.clone() });
            }
            if self.ancestors(case.tenant(), parent).contains(scope) {
                return case.refused(&cycle());
            }
            let above = 1 + self.ancestors(case.tenant(), parent).len();
            if above + 1 + self.below(&case.key(scope)).len() > DEPTH_MAX {
                return case.refused(&Refusal::TooDeep { scope: scope.clone() });
            }
        }
        is("a definition", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        register(self.scope(&case.key(scope), now), budget, now);
        self.follow(case, vec![scope.clone()])?;
        Ok(true)
    }

    pub(super) fn remove_budget(&mut self, case: &Case<'_>, scope: &Scope) -> Check<bool> {
        let key = case.key(scope);
        if self.scopes.get(&key).is_none_or(|scope| scope.budget.is_none()) {
            return case.refused(&Refusal::UnknownScope { scope: scope.clone() });
        }
        let children = self.below(&key).first().copied().unwrap_or(0);
        let model = self.scope(&key, case.now);
        let held = model.held(&Window::Lifetime, case.now);
        if held > 0 || children > 0 {
            return case.refused(&Refusal::BudgetInUse { scope: scope.clone(), held, children });
        }
        is("a removal", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        model.budget = None;
        if matches!(model.frozen, Some(Frozen::Trip { .. })) {
            model.frozen = None;
        }
        Ok(true)
    }

    /// Judges a command whose charges may carry default budgets; these are set only if the command has an effect.
    pub(super) fn submit_with_defaults(&mut self, case: &Case<'_>, command: &Command) -> Check<bool> {
        let mut before = Vec::new();
        for charge in &command.charges {
            let Some(default) = &charge.default else { continue };
            let key = case.key(&charge.scope);
            let model = self.scope(&key, case.now);
            let first = !before.iter().any(|(known, _)| *known == key);
            if first && model.budget.as_ref().is_none_or(|known| known.by_default && *known != **default) {
                before.push((key, model.clone()));
                register(model, default, case.now);
            }
        }
        let judged = self.submit(case, command);
        let defined = case.events().filter(|event| matches!(event, Event::BudgetDefined { .. })).count();
        if judged == Ok(true) {
            is("default budgets set", &defined, &before.len())?;
        } else {
            self.scopes.extend(before);
        }
        judged
    }

    pub(super) fn freeze(&mut self, case: &Case<'_>, scope: &Scope, freeze: bool) -> Check<bool> {
        if !self.scopes.get(&case.key(scope)).is_some_and(|scope| scope.known) {
            return case.refused(&Refusal::UnknownScope { scope: scope.clone() });
        }
        is("a freeze", case.answer()?, &Answer::Done)?;
        let model = self.scope(&case.key(scope), case.now);
        let idle = if freeze { model.frozen == Some(Frozen::Order) } else { model.frozen.is_none() };
        if case.request.dry_run || idle {
            return Ok(false);
        }
        model.frozen = freeze.then_some(Frozen::Order);
        Ok(true)
    }

    pub(super) fn mint(&mut self, case: &Case<'_>, mint: &Mint) -> Check<bool> {
        let expires_at = Time::from_micros(case.now).after(mint.ttl);
        is("a grant", case.answer()?, &Answer::Minted { grant: mint.id, expires_at })?;
        if case.request.dry_run {
            return Ok(false);
        }
        let grant = GrantModel {
            tenant: case.tenant().clone(),
            digest: mint.digest,
            purpose: mint.purpose.clone(),
            subject: mint.subject.clone(),
            payload: mint.payload.clone(),
            expires_at: expires_at.micros(),
            state: GrantState::Open,
        };
        self.grants.insert(mint.id, grant);
        Ok(true)
    }

    pub(super) fn revoke(&mut self, case: &Case<'_>, id: GrantId) -> Check<bool> {
        let grant = self.grants.get_mut(&id).filter(|grant| grant.tenant == *case.tenant());
        let Some(grant) = grant else { return case.refused(&Refusal::UnknownGrant { grant: id }) };
        if grant.state == GrantState::Redeemed {
            return case.refused(&Refusal::AlreadyRedeemed { grant: id });
        }
        is("a revocation", case.answer()?, &Answer::Done)?;
        if case.request.dry_run || grant.state == GrantState::Revoked {
            return Ok(false);
        }
        grant.state = GrantState::Revoked;
        Ok(true)
    }

    pub(super) fn erase_grant(&mut self, case: &Case<'_>, id: GrantId) -> Check<bool> {
        let grant = self.grants.get_mut(&id).filter(|grant| grant.tenant == *case.tenant());
        let Some(grant) = grant else { return case.refused(&Refusal::UnknownGrant { grant: id }) };
        let erased = grant.payload.is_erased();
        if !erased && grant.state == GrantState::Open && grant.expires_at > case.now {
            return case.refused(&Refusal::GrantOpen { grant: id });
        }
        is("an erasure", case.answer()?, &Answer::Done)?;
        if case.request.dry_run || erased {
            return Ok(false);
        }
        grant.payload = Payload::erased();
        Ok(true)
    }

    pub(super) fn purge(&mut self, case: &Case<'_>, requested: &[GrantId]) -> Check<bool> {
        let is_over = |id: &&GrantId| {
            self.grants.get(id).is_some_and(|grant| grant.tenant == *case.tenant() && grant.expires_at <= case.now)
        };
        let mut over: Vec<GrantId> = requested.iter().filter(is_over).copied().collect();
        over.sort_unstable();
        over.dedup();
        is("a purge", case.answer()?, &Answer::Swept { count: over.len() })?;
        if case.request.dry_run {
            return Ok(false);
        }
        over.iter().for_each(|id| drop(self.grants.remove(id)));
        Ok(!over.is_empty())
    }

    /// Judges the expiry of holds. Holds locked by another transaction may be left for later.
    pub(super) fn expire(&mut self, case: &Case<'_>, requested: &[HoldId]) -> Check<bool> {
        let mut swept = Vec::new();
        for event in case.events() {
            let Event::HoldExpired { hold, at, charged, .. } = event else { continue };
            let model = self
                .find_any(case, *hold)
                .filter(|_| requested.contains(hold))
                .ok_or("a hold is swept that was not requested")?;
            is("a hold to be swept", &model.state, &HoldState::Held)?;
            is("when a swept hold expired", &(at.micros(), model.expires_at <= case.now), &(model.expires_at, true))?;
            is("spend: charged by an expiry", charged, &model.on_expiry)?;
            swept.push(*hold);
        }
        if case.request.dry_run {
            return self.sweepable(case, requested).map(|()| false);
        }
        is("a sweep", case.answer()?, &Answer::Swept { count: swept.len() })?;
        let mut touched: Vec<Scope> = Vec::new();
        for id in &swept {
            let hold = self.holds.get_mut(id).ok_or("the hold was found above")?;
            (hold.state, hold.ended_at) = (HoldState::Expired, Some(case.now));
            touched.extend(hold.totals().into_iter().map(|(scope, _)| scope));
        }
        touched.sort();
        touched.dedup();
        self.follow(case, touched)?;
        Ok(!swept.is_empty())
    }

    /// Checks that a dry run counts no more holds than are due.
    fn sweepable(&self, case: &Case<'_>, requested: &[HoldId]) -> Check {
        let Answer::Swept { count } = case.answer()? else {
            return Err("a sweep has an answer of another kind".into());
        };
        let due = |id: &&HoldId| {
            self.find_any(case, **id).is_some_and(|h| h.state == HoldState::Held && h.expires_at <= case.now)
        };
        let most = requested.iter().filter(due).collect::<BTreeSet<_>>().len();
        if *count <= most { Ok(()) } else { Err(format!("{count} holds would be swept, but {most} are due")) }
    }

    fn find_any(&self, case: &Case<'_>, id: HoldId) -> Option<&HoldModel> {
        self.holds.get(&id).filter(|hold| hold.tenant == *case.tenant())
    }

    /// Judges scope maintenance, which records consequences of time alone. Scopes locked by another transaction may be left for
    /// later.
    pub(super) fn tidy(&mut self, case: &Case<'_>, requested: &[Scope]) -> Check<bool> {
        is("scope maintenance", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let changed: Vec<Scope> = requested
            .iter()
            .filter(|scope| case.events().any(|event| scope_of(event) == Some(scope)))
            .cloned()
            .collect();
        let effect = !changed.is_empty();
        self.follow(case, changed)?;
        Ok(effect)
    }

    /// Checks that exactly the consequences of the touched scopes' state are recorded as events.
    pub(super) fn follow(&mut self, case: &Case<'_>, touched: Vec<Scope>) -> Check {
        let mut expected = Vec::new();
        for scope in touched {
            self.follow_scope(&case.key(&scope), case.now, &mut expected);
        }
        let mut recorded = 0;
        for event in case.events().filter(|event| is_consequence(event)) {
            recorded += 1;
            if !expected.contains(event) {
                return Err(format!("{event:?} was recorded, expected {expected:?}"));
            }
        }
        if recorded == expected.len() {
            Ok(())
        } else {
            Err(format!("{recorded} consequences were recorded, expected {expected:?}"))
        }
    }

    fn follow_scope(&mut self, key: &ScopeKey, now: Micros, out: &mut Vec<Event>) {
        let name = &key.1;
        let scope = self.scope(key, now);
        if scope.frozen.is_some() && !scope.is_frozen(now) {
            out.push(Event::BudgetUnfrozen { scope: name.clone(), turned: true });
            scope.frozen = None;
        }
        let Some(budget) = scope.budget.clone() else { return };
        let watched = !budget.thresholds.is_empty() || !scope.crossed.is_empty();
        for limit in budget.limits.iter().filter(|_| watched) {
            let (window, spent, start) = (&limit.window, scope.spent(limit, now), bounds(&limit.window, now).0);
            let is_reached = |percent: u32| limit.amount > 0 && spent * 100 >= limit.amount * i64::from(percent);
            let known = |percent: u32| (window.clone(), start, percent);
            for percent in budget.thresholds.iter().copied().filter(|percent| is_reached(*percent)) {
                if !scope.crossed.contains(&known(percent)) {
                    let (scope, window, limit) = (name.clone(), window.clone(), limit.amount);
                    out.push(Event::BudgetCrossed { scope, window, percent, limit, spent });
                }
            }
            let kept = |percent: u32| budget.thresholds.contains(&percent) && is_reached(percent);
            let before = scope.crossed.iter().filter(|(w, s, _)| w == window && *s == start);
            for (_, _, percent) in before.filter(|(_, _, percent)| !kept(*percent)) {
                out.push(Event::BudgetCleared { scope: name.clone(), window: window.clone(), percent: *percent });
            }
            scope.crossed.retain(|(w, ..)| w != window);
            scope.crossed.extend(budget.thresholds.iter().filter(|p| is_reached(**p)).map(|p| known(*p)));
        }
        let Some(trip) = &budget.trip else { return };
        let (spent, (start, end)) = (scope.spent(trip, now), bounds(&trip.window, now));
        if spent > trip.amount && !scope.is_tripped(&trip.window, now) {
            let until = (end < Micros::MAX).then_some(end);
            let (window, limit) = (trip.window.clone(), trip.amount);
            out.push(Event::BudgetTripped {
                scope: name.clone(),
                window: window.clone(),
                limit,
                spent,
                until: until.map(Time::from_micros),
            });
            scope.tripped.push((window.clone(), start));
            if scope.frozen != Some(Frozen::Order) {
                scope.frozen = Some(Frozen::Trip { window, until });
            }
        }
    }
}

fn scope_of(event: &Event) -> Option<&Scope> {
    match event {
        Event::BudgetCrossed { scope, .. }
        | Event::BudgetCleared { scope, .. }
        | Event::BudgetTripped { scope, .. }
        | Event::BudgetUnfrozen { scope, .. } => Some(scope),
        _ => None,
    }
}

/// Carries the whole tokens drawn from a bucket over to the bucket that replaces it, unless more is drawn from that already.
fn take_over_buckets(model: &mut ScopeModel, before: &Budget, after: &Budget, now: Micros) {
    let replaced = replaced_buckets(before, after);
    for (old, new) in &replaced {
        let old = model.bucket(old, now);
        let mut next = model.bucket(new, now);
        let mut carried = Bucket { since: old.since, level: next.full(), ..next.clone() };
        carried.draw(old.capacity() - old.tokens());
        if carried.level <= next.level {
            next = carried;
        }
        model.buckets.retain(|bucket| bucket.window != *new);
        model.buckets.push(next);
    }
    for bucket in model.buckets.iter_mut().filter(|bucket| replaced.iter().any(|(old, _)| *old == bucket.window)) {
        bucket.closed_at = Some(now);
    }
}

/// Pairs each bucket that only the new budget has with the most similar one that only the old budget has.
fn replaced_buckets(before: &Budget, after: &Budget) -> Vec<(Window, Window)> {
    let buckets = |budget: &Budget| -> BTreeSet<Window> {
        budget.windows().filter(|window| matches!(window, Window::Bucket { .. })).cloned().collect()
    };
    let (before, after) = (buckets(before), buckets(after));
    let gone: Vec<&Window> = before.difference(&after).collect();
    let most_similar = |new: &Window| gone.iter().min_by_key(|old| (difference(old, new), **old)).copied();
    after.difference(&before).filter_map(|new| Some((most_similar(new)?.clone(), new.clone()))).collect()
}

/// Returns the difference of two buckets: of their fill times, then of their capacities.
fn difference(one: &Window, other: &Window) -> (u64, u64) {
    let measures = |window: &Window| match window {
        Window::Bucket { capacity, refill, length } => (capacity * length.micros() / (*refill).max(1), *capacity),
        _ => unreachable!("only buckets are compared"),
    };
    let ((time, capacity), (other_time, other_capacity)) = (measures(one), measures(other));
    (time.abs_diff(other_time), capacity.abs_diff(other_capacity))
}
