//! The rest of what requests come to: budgets, grants, upkeep, and what follows from spend.

use std::collections::BTreeSet;

use bursar_core::answer::Answer;
use bursar_core::bounds::DEPTH_MAX;
use bursar_core::budget::Budget;
use bursar_core::event::{Charged, Event};
use bursar_core::grant::GrantState;
use bursar_core::hold::HoldState;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::Scope;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Command, Mint};
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use bursar_core::window::Window;

use super::expect::{Case, Check, Moves, is};
use super::model::{Bucket, ChargeModel, Frozen, GrantModel, Micros, Model, ScopeModel, bounds};

impl Case<'_> {
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        let entry = self.said.as_ref().ok().and_then(|outcome| outcome.entry.as_ref());
        entry.into_iter().flat_map(|entry| entry.events.iter().map(|recorded| &recorded.e))
    }
}

/// A budget takes the place of what was there.
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
    /// Charges as answered, with what each limit along their chains leaves once the changes are made.
    pub(super) fn compare_charges(
        &self,
        case: &Case<'_>,
        said: &[Charged],
        charges: &[ChargeModel],
        actuals: &[i64],
        moves: &Moves,
    ) -> Check {
        is("charges", &said.len(), &charges.len())?;
        for (place, (said, charge)) in said.iter().zip(charges).enumerate() {
            is("a charge's scope", &said.scope, &charge.scope)?;
            is("a charge's ancestors", &said.ancestors, &charge.ancestors)?;
            is("a charge", &(said.amount, said.actual), &(charge.amount, actuals.get(place).copied()))?;
            let mut left = said.balances.iter();
            for scope in charge.chain() {
                let named = *scope == charge.scope;
                let model = &self.scopes[&case.key(scope)];
                let change = moves.iter().find(|(moved, _)| moved == scope).map(|(_, change)| change);
                for limit in model.limits(if named { &charge.limits } else { &[] }) {
                    let said = left.next().ok_or("a limit is missing")?;
                    let rest = model.after(&limit, case.now, change);
                    // A bucket that was replaced since the hold was placed is not kept; a neighbour may have opened it anew.
                    let closed = model.is_closed(&limit.window) && said.remaining == limit.amount;
                    let left = said.remaining == rest || closed;
                    let same = said.window == limit.window && said.limit == limit.amount && left;
                    if !same {
                        return Err(format!("{scope} leaves {said:?}, it should be {rest} of {limit:?}"));
                    }
                }
            }
            is("limits", &left.count(), &0)?;
        }
        Ok(())
    }

    pub(super) fn make(&mut self, case: &Case<'_>, moves: Moves) {
        for (scope, change) in moves {
            self.scope(&case.key(&scope), case.now).make(case.now, change);
        }
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

    /// A command, with the budgets that its charges bring along; these are there only if the command is done.
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
            is("budgets that were brought along", &defined, &before.len())?;
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

    pub(super) fn purge(&mut self, case: &Case<'_>, asked: &[GrantId]) -> Check<bool> {
        let is_over = |id: &&GrantId| {
            self.grants.get(id).is_some_and(|grant| grant.tenant == *case.tenant() && grant.expires_at <= case.now)
        };
        let mut over: Vec<GrantId> = asked.iter().filter(is_over).copied().collect();
        over.sort_unstable();
        over.dedup();
        is("a purge", case.answer()?, &Answer::Swept { count: over.len() })?;
        if case.request.dry_run {
            return Ok(false);
        }
        over.iter().for_each(|id| drop(self.grants.remove(id)));
        Ok(!over.is_empty())
    }

    /// Writing down that holds have expired. Those that somebody had locked may be left for another time.
    pub(super) fn expire(&mut self, case: &Case<'_>, asked: &[HoldId]) -> Check<bool> {
        let mut swept = Vec::new();
        for event in case.events() {
            let Event::HoldExpired { hold, at, .. } = event else { continue };
            let model = self.find_any(case, *hold).filter(|_| asked.contains(hold)).ok_or("a strange hold is swept")?;
            is("a hold to be swept", &model.state, &HoldState::Held)?;
            is("when a swept hold expired", &(at.micros(), model.expires_at <= case.now), &(model.expires_at, true))?;
            swept.push(*hold);
        }
        if case.request.dry_run {
            return self.sweepable(case, asked).map(|()| false);
        }
        is("a sweep", case.answer()?, &Answer::Swept { count: swept.len() })?;
        let mut touched: Vec<Scope> = Vec::new();
        for id in &swept {
            let hold = self.holds.get_mut(id).ok_or("it was there")?;
            hold.state = HoldState::Expired;
            touched.extend(hold.totals().into_iter().map(|(scope, _)| scope));
        }
        touched.sort();
        touched.dedup();
        self.follow(case, touched)?;
        Ok(!swept.is_empty())
    }

    /// A dry run tells of no more than can be swept, and not of which.
    fn sweepable(&self, case: &Case<'_>, asked: &[HoldId]) -> Check {
        let Answer::Swept { count } = case.answer()? else { return Err("a sweep is answered as another thing".into()) };
        let due = |id: &&HoldId| {
            self.find_any(case, **id).is_some_and(|h| h.state == HoldState::Held && h.expires_at <= case.now)
        };
        let most = asked.iter().filter(due).collect::<BTreeSet<_>>().len();
        if *count <= most { Ok(()) } else { Err(format!("{count} would be swept, of {most} that are due")) }
    }

    fn find_any(&self, case: &Case<'_>, id: HoldId) -> Option<&super::model::HoldModel> {
        self.holds.get(&id).filter(|hold| hold.tenant == *case.tenant())
    }

    /// Tidying tells what follows from time alone. Scopes that somebody had locked may be left for another time.
    pub(super) fn tidy(&mut self, case: &Case<'_>, asked: &[Scope]) -> Check<bool> {
        is("tidying", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let told: Vec<Scope> =
            asked.iter().filter(|scope| case.events().any(|event| scope_of(event) == Some(scope))).cloned().collect();
        let effect = !told.is_empty();
        self.follow(case, told)?;
        Ok(effect)
    }

    /// What follows from the state of the touched scopes must have been told, and nothing else.
    pub(super) fn follow(&mut self, case: &Case<'_>, touched: Vec<Scope>) -> Check {
        let mut expected = Vec::new();
        for scope in touched {
            self.follow_scope(&case.key(&scope), case.now, &mut expected);
        }
        let mut told = 0;
        for event in case.events().filter(|event| is_consequence(event)) {
            told += 1;
            if !expected.contains(event) {
                return Err(format!("{event:?} was told, expected was {expected:?}"));
            }
        }
        if told == expected.len() { Ok(()) } else { Err(format!("{told} events follow, expected were {expected:?}")) }
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

/// What was taken out of a bucket, in whole tokens, is out of those that take its place; unless more is out of them already.
fn take_over_buckets(model: &mut ScopeModel, before: &Budget, after: &Budget, now: Micros) {
    let replaced = replaced_buckets(before, after);
    for (old, new) in &replaced {
        let old = model.bucket(old, now);
        let mut next = model.bucket(new, now);
        let mut taken_over = Bucket { since: old.since, level: next.full(), ..next.clone() };
        taken_over.draw(old.capacity() - old.tokens());
        if taken_over.level <= next.level {
            next = taken_over;
        }
        model.buckets.retain(|bucket| bucket.window != *new);
        model.buckets.push(next);
    }
    for bucket in model.buckets.iter_mut().filter(|bucket| replaced.iter().any(|(old, _)| *old == bucket.window)) {
        bucket.closed_at = Some(now);
    }
}

/// Each bucket that only the new budget names, with the one of those that only the old one names which is most like it.
fn replaced_buckets(before: &Budget, after: &Budget) -> Vec<(Window, Window)> {
    let buckets = |budget: &Budget| -> BTreeSet<Window> {
        budget.windows().filter(|window| matches!(window, Window::Bucket { .. })).cloned().collect()
    };
    let (before, after) = (buckets(before), buckets(after));
    let gone: Vec<&Window> = before.difference(&after).collect();
    let likest = |new: &Window| gone.iter().min_by_key(|old| (unlike(old, new), **old)).copied();
    after.difference(&before).filter_map(|new| Some((likest(new)?.clone(), new.clone()))).collect()
}

/// How much two buckets differ: in the time they take to fill, then in what they hold.
fn unlike(one: &Window, other: &Window) -> (u64, u64) {
    let measures = |window: &Window| match window {
        Window::Bucket { capacity, refill, length } => (capacity * length.micros() / (*refill).max(1), *capacity),
        _ => unreachable!("only buckets are compared"),
    };
    let ((time, capacity), (other_time, other_capacity)) = (measures(one), measures(other));
    (time.abs_diff(other_time), capacity.abs_diff(other_capacity))
}
