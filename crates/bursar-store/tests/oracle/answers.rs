//! The answers that the oracle expects, and the changes that requests make to its lists.

use std::collections::{BTreeMap, BTreeSet};

use bursar_core::answer::{Answer, Outcome, Submitted};
use bursar_core::budget::{Budget, Cover, Limit};
use bursar_core::event::Charged;
use bursar_core::hold::HoldState;
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Actual, Charge, Op, Settle};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;

use crate::model::{BalanceChange, ChargeModel, HoldModel, Micros, Model, SECOND, bounds, totals};

/// An answer without what the oracle cannot predict: ids and retry times.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    Held { expires_at: Micros, charges: Vec<ChargeReply> },
    Posted(Vec<ChargeReply>),
    Settled { state: HoldState, late: bool, overrun: i64, charges: Vec<ChargeReply> },
    Extended { expires_at: Micros },
    Credited(ChargeReply),
    Swept(usize),
    Done,
    Violations(Vec<ViolationReply>),
    Refused(Refusal),
}

/// A scope, and the limit that is violation_reply; `None` when it is frozen.
pub(crate) type ViolationReply = (Scope, Option<Lacking>);
/// The window, the limit, what was requested, what is available, and whether it could fit.
pub(crate) type Lacking = (Window, i64, i64, i64, bool);

/// A charge with the scope, window, limit and remaining units of each limit along its chain.
#[derive(Debug, PartialEq)]
pub(crate) struct ChargeReply {
    pub(crate) scope: Scope,
    pub(crate) amount: i64,
    pub(crate) actual: Option<i64>,
    pub(crate) left: Vec<(Scope, Window, i64, i64)>,
}

impl Reply {
    pub(crate) fn of(answer: &Result<Outcome, Refusal>) -> Reply {
        let parts = |charges: &[Charged]| charges.iter().map(ChargeReply::of).collect();
        match answer {
            Ok(outcome) => match &outcome.answer {
                Answer::Submitted(Submitted { hold: Some(placed), .. }) => {
                    Reply::Held { expires_at: placed.expires_at.micros(), charges: parts(&placed.charges) }
                }
                Answer::Submitted(submitted) => Reply::Posted(parts(&submitted.posted)),
                Answer::Settled(s) => {
                    Reply::Settled { state: s.state, late: s.late, overrun: s.overrun, charges: parts(&s.charges) }
                }
                Answer::Extended { expires_at, .. } => Reply::Extended { expires_at: expires_at.micros() },
                Answer::Credited(charge) => Reply::Credited(ChargeReply::of(charge)),
                Answer::Swept { count } => Reply::Swept(*count),
                Answer::Minted { .. } | Answer::Done => Reply::Done,
                other => panic!("the streams have no jobs: {other:?}"),
            },
            Err(Refusal::Refused(violations)) => Reply::Violations(violations.iter().map(violation_reply).collect()),
            Err(refusal) => Reply::Refused(refusal.clone()),
        }
    }

    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Reply::Violations(_) | Reply::Refused(_))
    }
}

fn violation_reply(violation: &Violation) -> ViolationReply {
    match violation {
        Violation::Limit { scope, window, limit, requested, available, possible, .. } => {
            (scope.clone(), Some((window.clone(), *limit, *requested, *available, *possible)))
        }
        Violation::Frozen { scope } => (scope.clone(), None),
        Violation::Grant { .. } => panic!("the streams redeem no grants"),
    }
}

impl ChargeReply {
    fn of(charged: &Charged) -> ChargeReply {
        let left = charged.balances.iter().map(|left| {
            let scope = left.scope.clone().unwrap_or_else(|| charged.scope.clone());
            (scope, left.window.clone(), left.limit, left.remaining)
        });
        let left = left.collect();
        ChargeReply { scope: charged.scope.clone(), amount: charged.amount, actual: charged.actual, left }
    }
}

impl Model {
    /// Executes an operation and returns its answer. A refused operation leaves changes behind too, so callers pass a copy.
    pub(crate) fn perform(&mut self, op: &Op, now: Micros) -> Reply {
        let reply = match op {
            Op::Submit(command) => self.submit(&command.charges, &command.settle, now),
            Op::Commit { hold, actual } => self.commit(*hold, actual, now),
            Op::Release { hold } => self.release(*hold, now),
            Op::Extend { hold, by } => self.extend(*hold, *by, now),
            Op::Credit { scope, amount, hold } => self.credit(scope, *amount, *hold, now),
            Op::Define { scope, budget } => self.define(scope, budget, now),
            Op::Freeze { scope } => self.freeze(scope, true),
            Op::Unfreeze { scope } => self.freeze(scope, false),
            Op::Expire { holds } => Ok(self.expire(holds, now)),
            Op::Tidy { scopes } => {
                scopes.iter().for_each(|scope| self.look_at_thresholds(scope, now));
                Ok(Reply::Done)
            }
            other => panic!("the streams do not contain {other:?}"),
        };
        reply.unwrap_or_else(Reply::Refused)
    }

    fn submit(&mut self, asked: &[Charge], settle: &Settle, now: Micros) -> Result<Reply, Refusal> {
        let mut charges: Vec<ChargeModel> = Vec::new();
        for charge in asked {
            match charges.iter_mut().find(|known| known.scope == charge.scope) {
                Some(known) => {
                    known.amount += charge.amount;
                    let new: Vec<_> = charge.limits.iter().filter(|l| !known.limits.contains(l)).cloned().collect();
                    known.limits.extend(new);
                }
                None => charges.push(ChargeModel {
                    scope: charge.scope.clone(),
                    amount: charge.amount,
                    ancestors: self.ancestors(&charge.scope),
                    limits: charge.limits.clone(),
                }),
            }
        }
        let sums = totals(&charges, |charge| charge.amount);
        let mut violations = Vec::new();
        for (scope, amount) in &sums {
            let given = charges.iter().find(|charge| charge.scope == *scope);
            let limits = self.limits(scope, given.map_or(&[], |charge| &charge.limits));
            if limits.is_empty() {
                return Err(Refusal::UnknownScope { scope: scope.clone() });
            }
            if self.scopes.get(scope).is_some_and(|scope| scope.frozen) {
                violations.push((scope.clone(), None));
            }
            for limit in limits {
                let rest = self.remaining(scope, &limit, now);
                if *amount > 0 && *amount > rest {
                    // A bucket never holds more than its capacity; elsewhere credits make room above the limit.
                    let without_holds = match limit.window {
                        Window::Bucket { capacity, .. } => capacity,
                        _ => rest + self.held(scope, &limit.window, now),
                    };
                    let possible = *amount <= limit.amount || *amount <= without_holds;
                    let what = (limit.window, limit.amount, *amount, rest.max(0), possible);
                    violations.push((scope.clone(), Some(what)));
                }
            }
        }
        if !violations.is_empty() {
            return Ok(Reply::Violations(violations));
        }
        for charge in &charges {
            // A charge of zero opens no bucket.
            let limits = charge.limits.iter().filter(|_| charge.amount > 0);
            self.open_buckets(&charge.scope, limits.map(|limit| &limit.window), now);
        }
        let hold = match settle {
            Settle::Now => None,
            Settle::Hold { ttl } => Some(self.place(&charges, *ttl, now)),
            Settle::Job => panic!("the streams start no jobs"),
        };
        for (scope, amount) in sums {
            let spends = if hold.is_none() { vec![(now, amount)] } else { Vec::new() };
            let back = if hold.is_none() { 0 } else { -amount };
            self.record(&scope, BalanceChange { at: now, placed_at: now, back, spends });
        }
        let parts = charges.iter().map(|charge| self.part(charge, None, false, now)).collect();
        Ok(match hold {
            None => Reply::Posted(parts),
            Some(expires_at) => Reply::Held { expires_at, charges: parts },
        })
    }

    fn place(&mut self, charges: &[ChargeModel], ttl: Option<Span>, now: Micros) -> Micros {
        let scopes = charges.iter().flat_map(ChargeModel::chain);
        let policies: Vec<_> = scopes.filter_map(|s| Some(self.scopes.get(s)?.budget.as_ref()?.hold.clone())).collect();
        let asked = ttl.map(Span::micros);
        let granted = if policies.is_empty() {
            asked.unwrap_or(60 * SECOND)
        } else {
            let least = policies.iter().map(|policy| policy.ttl_min.micros()).max().unwrap();
            let usual = policies.iter().filter_map(|policy| policy.ttl).map(Span::micros).min().unwrap_or(60 * SECOND);
            let most = policies.iter().map(|policy| policy.ttl_max.micros()).min().unwrap();
            asked.unwrap_or(usual).max(least).min(most)
        };
        let life = policies.iter().filter_map(|policy| policy.life_max).map(Span::micros).min();
        let life_until = life.map_or(Micros::MAX, |life| now + life);
        let expires_at = (now + granted).min(life_until);
        let any = |refuses: bool| if refuses { Cover::Refuse } else { Cover::Charge };
        self.holds.push(HoldModel {
            id: HoldId(0),
            placed_at: now,
            expires_at,
            life_until,
            late: any(policies.iter().any(|policy| policy.late == Cover::Refuse)),
            overrun: any(policies.iter().any(|policy| policy.overrun == Cover::Refuse)),
            charges: charges.to_vec(),
            state: HoldState::Held,
            spent: BTreeMap::new(),
            settled_in_time: false,
        });
        expires_at
    }

    fn find(&self, id: HoldId) -> Result<usize, Refusal> {
        self.holds.iter().position(|hold| hold.id == id).ok_or(Refusal::UnknownHold { hold: id })
    }

    fn commit(&mut self, id: HoldId, actual: &Actual, now: Micros) -> Result<Reply, Refusal> {
        let place = self.find(id)?;
        let hold = self.holds[place].clone();
        let late = match hold.state_at(now) {
            HoldState::Held => false,
            HoldState::Expired if hold.late == Cover::Refuse => {
                return Err(Refusal::LateRefused { hold: id, at: Time::from_micros(hold.expires_at) });
            }
            HoldState::Expired => true,
            state => return Err(Refusal::AlreadySettled { hold: id, state }),
        };
        let mut actuals: BTreeMap<Scope, i64> = hold.charges.iter().map(|c| (c.scope.clone(), c.amount)).collect();
        match actual {
            Actual::Held => {}
            Actual::Amount(_) if hold.charges.len() > 1 => {
                return Err(Refusal::ActualAmbiguous { hold: id, charges: hold.charges.len() });
            }
            Actual::Amount(amount) => drop(actuals.insert(hold.charges[0].scope.clone(), *amount)),
            Actual::Each(each) => actuals.extend(each.iter().cloned()),
        }
        let over = hold.charges.iter().find(|charge| actuals[&charge.scope] > charge.amount);
        if let Some(charge) = over.filter(|_| hold.overrun == Cover::Refuse) {
            let (scope, actual) = (charge.scope.clone(), actuals[&charge.scope]);
            return Err(Refusal::OverrunRefused { hold: id, scope, held: charge.amount, actual });
        }
        for (scope, spent) in totals(&hold.charges, |charge| actuals[&charge.scope]) {
            let held = if late { 0 } else { hold.on(&scope) };
            let covered = spent.min(held);
            let beyond = (now, spent - covered);
            let spends = if late { vec![beyond] } else { vec![(hold.placed_at, covered), beyond] };
            self.holds[place].spent.insert(scope.clone(), spends.clone());
            self.record(&scope, BalanceChange { at: now, placed_at: hold.placed_at, back: held, spends });
        }
        self.holds[place].state = HoldState::Committed;
        self.holds[place].settled_in_time = !late;
        self.look_at_chain(&hold.charges, now);
        let overrun = hold.charges.iter().map(|charge| (actuals[&charge.scope] - charge.amount).max(0)).sum();
        let parts =
            hold.charges.iter().map(|charge| self.part(charge, Some(actuals[&charge.scope]), true, now)).collect();
        Ok(Reply::Settled { state: HoldState::Committed, late, overrun, charges: parts })
    }

    fn release(&mut self, id: HoldId, now: Micros) -> Result<Reply, Refusal> {
        let place = self.find(id)?;
        let hold = self.holds[place].clone();
        if hold.state_at(now) != HoldState::Held {
            return Err(Refusal::AlreadySettled { hold: id, state: hold.state_at(now) });
        }
        for (scope, held) in totals(&hold.charges, |charge| charge.amount) {
            self.record(&scope, BalanceChange { at: now, placed_at: hold.placed_at, back: held, spends: Vec::new() });
        }
        self.holds[place].state = HoldState::Released;
        self.holds[place].settled_in_time = true;
        self.look_at_chain(&hold.charges, now);
        let parts = hold.charges.iter().map(|charge| self.part(charge, None, true, now)).collect();
        Ok(Reply::Settled { state: HoldState::Released, late: false, overrun: 0, charges: parts })
    }

    fn extend(&mut self, id: HoldId, by: Span, now: Micros) -> Result<Reply, Refusal> {
        let place = self.find(id)?;
        let hold = self.holds[place].clone();
        match hold.state_at(now) {
            HoldState::Held => {}
            HoldState::Expired => {
                return Err(Refusal::HoldExpired { hold: id, at: Time::from_micros(hold.expires_at) });
            }
            state => return Err(Refusal::AlreadySettled { hold: id, state }),
        }
        let chain: BTreeSet<Scope> = hold.charges.iter().flat_map(ChargeModel::chain).cloned().collect();
        let frozen: Vec<_> = chain.into_iter().filter(|s| self.scopes[s].frozen).map(|s| (s, None)).collect();
        if !frozen.is_empty() {
            return Ok(Reply::Violations(frozen));
        }
        let expires_at = (hold.expires_at + by.micros()).min(hold.life_until);
        if expires_at <= hold.expires_at {
            return Err(Refusal::LifeExceeded { hold: id, until: Time::from_micros(hold.life_until) });
        }
        self.holds[place].expires_at = expires_at;
        self.look_at_chain(&hold.charges, now);
        Ok(Reply::Extended { expires_at })
    }

    fn credit(&mut self, scope: &Scope, amount: i64, hold: Option<HoldId>, now: Micros) -> Result<Reply, Refusal> {
        if !self.scopes.contains_key(scope) {
            return Err(Refusal::UnknownScope { scope: scope.clone() });
        }
        let place = hold.map(|id| self.find(id)).transpose()?;
        let charge = match place {
            None => {
                let ancestors = self.ancestors(scope);
                ChargeModel { scope: scope.clone(), amount, ancestors, limits: Vec::new() }
            }
            Some(place) => {
                let hold = &self.holds[place];
                let charge = hold.charges.iter().find(|charge| charge.scope == *scope);
                let charge = charge.ok_or_else(|| Refusal::NoSuchCharge { hold: hold.id, scope: scope.clone() })?;
                ChargeModel { amount, ..charge.clone() }
            }
        };
        for scope in charge.chain() {
            let spends = match place {
                None => vec![(now, -amount)],
                Some(place) => self.holds[place].take_back(scope, amount),
            };
            self.record(scope, BalanceChange { at: now, placed_at: now, back: 0, spends });
        }
        self.look_at_chain(std::slice::from_ref(&charge), now);
        Ok(Reply::Credited(self.part(&charge, None, false, now)))
    }

    fn define(&mut self, scope: &Scope, budget: &Budget, now: Micros) -> Result<Reply, Refusal> {
        if let Some(parent) = &budget.parent {
            let cycle = || Refusal::Cycle { scope: scope.clone(), parent: parent.clone() };
            if parent == scope {
                return Err(cycle());
            }
            if self.scopes.get(parent).is_none_or(|parent| parent.budget.is_none()) {
                return Err(Refusal::UnknownScope { scope: parent.clone() });
            }
            if self.ancestors(parent).contains(scope) {
                return Err(cycle());
            }
        }
        self.open_buckets(scope, budget.windows(), now);
        let before = self.scopes.get_mut(scope).unwrap().budget.replace(budget.clone());
        let replaced =
            before.as_ref().and_then(|before| Some((bucket_only_in(before, budget)?, bucket_only_in(budget, before)?)));
        if let Some((old, new)) = replaced {
            // The whole tokens that are missing from the old bucket are missing from the new one.
            let taken = old.amount - self.remaining(scope, &old, now);
            let own = self.level(scope, &new.window, now);
            let since = self.bucket(scope, &old.window).unwrap().since;
            let mut bucket = self.fresh_bucket(scope, &new.window, now);
            let Window::Bucket { length, .. } = new.window else { unreachable!("it is a bucket") };
            bucket.level -= i128::from(taken) * i128::from(length.micros());
            bucket.since = since;
            bucket.next_move = self.moves(scope).len();
            let model = self.scopes.get_mut(scope).unwrap();
            let closed = model.buckets.remove(&old.window).unwrap();
            model.closed.insert(old.window.clone(), (closed, now));
            model.crossed.retain(|(window, _), _| *window != old.window);
            // The bucket may exist from an earlier definition, with an even lower level.
            if bucket.level <= own {
                model.buckets.insert(new.window, bucket);
            }
        }
        self.look_at_thresholds(scope, now);
        Ok(Reply::Done)
    }

    fn freeze(&mut self, scope: &Scope, frozen: bool) -> Result<Reply, Refusal> {
        let model = self.scopes.get_mut(scope).ok_or_else(|| Refusal::UnknownScope { scope: scope.clone() })?;
        model.frozen = frozen;
        Ok(Reply::Done)
    }

    fn expire(&mut self, holds: &[HoldId], now: Micros) -> Reply {
        let due = self.holds.iter_mut().filter(|hold| holds.contains(&hold.id));
        let due = due.filter(|hold| hold.state == HoldState::Held && hold.expires_at <= now);
        let swept: Vec<Vec<ChargeModel>> = due
            .map(|hold| {
                hold.state = HoldState::Expired;
                hold.charges.clone()
            })
            .collect();
        swept.iter().for_each(|charges| self.look_at_chain(charges, now));
        Reply::Swept(swept.len())
    }

    fn record(&mut self, scope: &Scope, m: BalanceChange) {
        let at = m.at;
        self.scopes.entry(scope.clone()).or_default().moves.push(m);
        self.look_at_thresholds(scope, at);
    }

    pub(crate) fn open_buckets<'a>(&mut self, scope: &Scope, windows: impl Iterator<Item = &'a Window>, now: Micros) {
        for window in windows.filter(|window| matches!(window, Window::Bucket { .. })) {
            let closed = self.scopes.get(scope).and_then(|scope| scope.closed.get(window));
            let closed = closed.filter(|(_, at)| *at == now).map(|(bucket, _)| bucket.clone());
            let fresh = closed.unwrap_or_else(|| self.fresh_bucket(scope, window, now));
            self.scopes.entry(scope.clone()).or_default().buckets.entry(window.clone()).or_insert(fresh);
        }
        self.scopes.entry(scope.clone()).or_default();
    }

    fn part(&self, charge: &ChargeModel, actual: Option<i64>, settled: bool, now: Micros) -> ChargeReply {
        let mut left = Vec::new();
        for scope in charge.chain() {
            let given: &[Limit] = if *scope == charge.scope { &charge.limits } else { &[] };
            for limit in self.limits(scope, given) {
                // A hold of zero opens no bucket. A bucket that is not open is reported as full.
                let closed =
                    matches!(limit.window, Window::Bucket { .. }) && self.bucket(scope, &limit.window).is_none();
                let rest = if closed && settled { limit.amount } else { self.remaining(scope, &limit, now) };
                left.push((scope.clone(), limit.window.clone(), limit.amount, rest));
            }
        }
        ChargeReply { scope: charge.scope.clone(), amount: charge.amount, actual, left }
    }

    fn look_at_chain(&mut self, charges: &[ChargeModel], now: Micros) {
        for scope in charges.iter().flat_map(ChargeModel::chain).cloned().collect::<BTreeSet<_>>() {
            self.look_at_thresholds(&scope, now);
        }
    }

    /// Records which thresholds are reached. The kernel records events for the differences to the last record.
    fn look_at_thresholds(&mut self, scope: &Scope, now: Micros) {
        let Some(budget) = self.scopes.get(scope).and_then(|scope| scope.budget.clone()) else { return };
        for limit in &budget.limits {
            let spent = self.spent(scope, limit, now);
            let is_reached = |p: &u32| limit.amount > 0 && spent * 100 >= limit.amount * i64::from(*p);
            let reached = budget.thresholds.iter().copied().filter(is_reached);
            let (key, reached) = ((limit.window.clone(), bounds(&limit.window, now).0), reached.collect());
            self.scopes.get_mut(scope).unwrap().crossed.insert(key, reached);
        }
    }
}

/// Returns the bucket of one budget that the other does not have. The streams use two buckets, so there is at most one.
fn bucket_only_in(one: &Budget, other: &Budget) -> Option<Limit> {
    let mut buckets = one.limits.iter().filter(|limit| matches!(limit.window, Window::Bucket { .. }));
    buckets.find(|limit| !other.limits.contains(limit)).cloned()
}
