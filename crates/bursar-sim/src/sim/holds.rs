//! What the model expects of operations on one hold: commit, release and extend.

use bursar_core::answer::Answer;
use bursar_core::budget::{Cover, WouldRefuse};
use bursar_core::event::Event;
use bursar_core::hold::{ClampedTtl, HoldState};
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::Actual;
use bursar_core::time::{Span, Time};

use super::expect::{Case, Check, Moves, commit_moves, is, release_moves};
use super::model::{HoldModel, Micros, Model};

impl Model {
    pub(super) fn find(&self, case: &Case<'_>, id: HoldId) -> Option<&HoldModel> {
        self.holds.get(&id).filter(|hold| hold.tenant == *case.tenant())
    }

    /// Returns the hold if a caller may settle it; otherwise checks the refusal.
    fn settleable(&self, case: &Case<'_>, id: HoldId) -> Result<HoldModel, Check<bool>> {
        let hold = self.find(case, id).ok_or_else(|| case.refused(&Refusal::UnknownHold { hold: id }))?;
        match hold.job {
            Some(job) if hold.state == HoldState::Held => Err(case.refused(&Refusal::OwnedByJob { hold: id, job })),
            _ => Ok(hold.clone()),
        }
    }

    pub(super) fn commit(&mut self, case: &Case<'_>, id: HoldId, actual: &Actual) -> Check<bool> {
        let now = case.now;
        let hold = match self.settleable(case, id) {
            Ok(hold) => hold,
            Err(refused) => return refused,
        };
        let late = match hold.state_at(now) {
            HoldState::Held => false,
            HoldState::Expired if hold.late == Cover::Refuse => {
                return case.refused(&Refusal::LateRefused { hold: id, at: Time::from_micros(hold.expires_at) });
            }
            HoldState::Expired => true,
            state => return case.refused(&Refusal::AlreadySettled { hold: id, state }),
        };
        let mut actuals: Vec<i64> = hold.charges.iter().map(|charge| charge.amount).collect();
        match actual {
            Actual::Held => {}
            Actual::Amount(_) if hold.charges.len() > 1 => {
                return case.refused(&Refusal::ActualAmbiguous { hold: id, charges: hold.charges.len() });
            }
            Actual::Amount(amount) => actuals[0] = *amount,
            Actual::Each(each) => {
                for (scope, amount) in each {
                    match hold.charges.iter().position(|charge| charge.scope == *scope) {
                        Some(place) => actuals[place] = *amount,
                        None => return case.refused(&Refusal::NoSuchCharge { hold: id, scope: scope.clone() }),
                    }
                }
            }
        }
        let over = hold.charges.iter().zip(&actuals).find(|(charge, actual)| **actual > charge.amount);
        if let Some((charge, actual)) = over.filter(|_| hold.overrun == Cover::Refuse) {
            let (scope, held, actual) = (charge.scope.clone(), charge.amount, *actual);
            return case.refused(&Refusal::OverrunRefused { hold: id, scope, held, actual });
        }
        let overrun: i64 = hold.charges.iter().zip(&actuals).map(|(c, actual)| (actual - c.amount).max(0)).sum();
        let moves = commit_moves(&hold, &actuals, late, now);
        self.advance(case, moves.iter().map(|(scope, _)| scope));
        let Answer::Settled(answered) = case.answer()? else {
            return Err("a commit has an answer of another kind".into());
        };
        is(
            "the settled state",
            &(answered.hold, answered.state, answered.late, answered.overrun),
            &(id, HoldState::Committed, late, overrun),
        )?;
        self.compare_charges(case, &answered.charges, &hold.charges, &actuals, &moves)?;
        if !case.request.dry_run {
            // A late commit is beyond the hold, except for what its expiry has posted and the commit has not given back.
            let dated = |scope: &Scope, [(_, back), beyond]: [(Micros, i64); 2]| {
                let covered_at = if hold.on_expiry == 0 { now } else { hold.expires_at };
                [(covered_at, hold.charged_by_expiry(scope) + back), beyond]
            };
            let spends = |scope: &Scope, spends| if late { dated(scope, spends) } else { spends };
            let spent = moves.iter().map(|(scope, change)| (scope.clone(), spends(scope, change.spends))).collect();
            self.holds.get_mut(&id).expect("the hold was found above").spent = spent;
        }
        self.settle(case, id, HoldState::Committed, moves)
    }

    pub(super) fn release(&mut self, case: &Case<'_>, id: HoldId) -> Check<bool> {
        let now = case.now;
        let hold = match self.settleable(case, id) {
            Ok(hold) => hold,
            Err(refused) => return refused,
        };
        if hold.state_at(now) != HoldState::Held {
            return case.refused(&Refusal::AlreadySettled { hold: id, state: hold.state_at(now) });
        }
        let moves = release_moves(&hold, now);
        self.advance(case, moves.iter().map(|(scope, _)| scope));
        let Answer::Settled(answered) = case.answer()? else {
            return Err("a release has an answer of another kind".into());
        };
        is(
            "the settled state",
            &(answered.hold, answered.state, answered.late, answered.overrun),
            &(id, HoldState::Released, false, 0),
        )?;
        self.compare_charges(case, &answered.charges, &hold.charges, &[], &moves)?;
        self.settle(case, id, HoldState::Released, moves)
    }

    /// Ends a hold and checks the consequences.
    fn settle(&mut self, case: &Case<'_>, id: HoldId, state: HoldState, moves: Moves) -> Check<bool> {
        if case.request.dry_run {
            return Ok(false);
        }
        let touched: Vec<Scope> = moves.iter().map(|(scope, _)| scope.clone()).collect();
        self.end_hold(case, id, state, moves);
        self.follow(case, touched)?;
        Ok(true)
    }

    pub(super) fn end_hold(&mut self, case: &Case<'_>, id: HoldId, state: HoldState, moves: Moves) {
        let hold = self.holds.get_mut(&id).expect("the hold was found above");
        (hold.state, hold.ended_at) = (state, Some(case.now));
        for (scope, _) in &moves {
            self.scope(&case.key(scope), case.now).live.retain(|live| live.hold != id);
        }
        self.apply(case, moves);
    }

    pub(super) fn extend(&mut self, case: &Case<'_>, id: HoldId, by: Span) -> Check<bool> {
        let now = case.now;
        let hold = match self.settleable(case, id) {
            Ok(hold) => hold,
            Err(refused) => return refused,
        };
        match hold.state_at(now) {
            HoldState::Held => {}
            HoldState::Expired => {
                return case.refused(&Refusal::HoldExpired { hold: id, at: Time::from_micros(hold.expires_at) });
            }
            state => return case.refused(&Refusal::AlreadySettled { hold: id, state }),
        }
        let scopes: Vec<Scope> = hold.totals().into_iter().map(|(scope, _)| scope).collect();
        let (mut frozen, mut shadowed) = (Vec::new(), Vec::new());
        for scope in &scopes {
            let model = self.scope(&case.key(scope), now);
            match (model.is_frozen(now), model.ignores_freeze()) {
                (true, true) => shadowed.push(WouldRefuse { scope: scope.clone(), requested: 0, short: None }),
                (true, false) => frozen.push(Violation::Frozen { scope: scope.clone() }),
                (false, _) => {}
            }
        }
        if !frozen.is_empty() {
            return case.violated(&frozen);
        }
        let expires_at = (hold.expires_at + by.micros()).min(hold.life_until);
        if expires_at <= hold.expires_at {
            return case.refused(&Refusal::LifeExceeded { hold: id, until: Time::from_micros(hold.life_until) });
        }
        let granted = Span::from_micros(expires_at - hold.expires_at);
        let clamped = (granted != by).then_some(ClampedTtl { requested: by, granted });
        let expected = Answer::Extended { hold: id, expires_at: Time::from_micros(expires_at), clamped };
        is("an extension", case.answer()?, &expected)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let recorded = case.events().filter_map(|event| match event {
            Event::BudgetWouldRefuse(recorded) => Some(recorded.clone()),
            _ => None,
        });
        is("what shadow mode would have refused", &recorded.collect(), &shadowed)?;
        self.holds.get_mut(&id).expect("the hold was found above").expires_at = expires_at;
        for scope in &scopes {
            let scope = self.scope(&case.key(scope), now);
            scope.live.iter_mut().filter(|live| live.hold == id).for_each(|live| live.expires_at = expires_at);
        }
        self.follow(case, scopes)?;
        Ok(true)
    }
}
