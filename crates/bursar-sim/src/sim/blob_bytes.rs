//! Blobs in the model: the bytes of an upload are held, then posted, and credited when they are collected.

use bursar_core::answer::{Credited, Placed, Submitted};
use bursar_core::budget::Cover;
use bursar_core::event::Event;
use bursar_core::hold::HoldState;
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Charge, Command, Settle};
use bursar_core::time::{Span, Time};

use super::blobs::BlobModel;
use super::event_cursor::EventCursor;
use super::expect::{Case, Check, Moves, charge_move, commit_moves, is, release_moves};
use super::model::{ChargeModel, Micros, Model, totals};

impl Model {
    /// Returns the first of these numbers of bytes that the scope admits; otherwise checks the refusal of the last one.
    pub(super) fn admit_bytes(&mut self, case: &Case<'_>, scope: &Scope, tries: &[u64]) -> Result<i64, Check<bool>> {
        let mut refused = Vec::new();
        for bytes in tries {
            let amount = i64::try_from(*bytes).expect("a world has few bytes");
            let charges = self.resolve(case.tenant(), &held(scope, amount, Span::ZERO));
            let sums = totals(&charges, |place| charges[place].amount);
            match self.violations(case, &charges, &sums) {
                Err(scope) => return Err(case.refused(&Refusal::UnknownScope { scope })),
                Ok((violations, _)) if violations.is_empty() => return Ok(amount),
                Ok((violations, _)) => refused = violations,
            }
        }
        Err(case.violated(&refused).map_err(|what| format!("bytes: {what}")))
    }

    /// Judges the hold for bytes that were admitted.
    pub(super) fn place_bytes(
        &mut self,
        case: &Case<'_>,
        scope: &Scope,
        amount: i64,
        ttl: Span,
        events: &mut EventCursor<'_>,
    ) -> Check<HoldId> {
        let command = held(scope, amount, ttl);
        let expected = self.resolve(case.tenant(), &command);
        let sums = totals(&expected, |place| expected[place].amount);
        let found = self.violations(case, &expected, &sums);
        let (_, shadowed) = found.map_err(|scope| format!("bytes: {scope} has no limit"))?;
        self.compare_shadowed(shadowed, events)?;
        let event = events.next("a hold for bytes")?;
        let Event::HoldPlaced { hold, charges, expires_at, life_until, late, overrun, job, clamped, on_expiry } = event
        else {
            return Err(format!("bytes: {event:?} comes before the hold for {amount} bytes"));
        };
        let moves: Moves = sums.into_iter().map(|(scope, bytes)| (scope, charge_move(case.now, bytes, true))).collect();
        self.compare_charges(case, charges, &expected, &[], &moves).map_err(|what| format!("bytes: {what}"))?;
        let placed = Placed { id: *hold, expires_at: *expires_at, charges: charges.clone(), clamped: *clamped };
        self.place(case, &command, &Submitted { hold: Some(placed), ..Submitted::default() }, expected)?;
        let model = &self.holds[hold];
        let answered = (life_until.micros(), *late, *overrun, *job, on_expiry.units());
        is("bytes: a hold", &answered, &(model.life_until, model.late, model.overrun, None, 0))?;
        self.apply(case, moves);
        Ok(*hold)
    }

    /// Returns the bytes that a hold covers.
    pub(super) fn held_bytes(&self, hold: HoldId) -> i64 {
        self.holds.get(&hold).map_or(0, |hold| hold.charges.iter().map(|charge| charge.amount).sum())
    }

    /// Returns how many bytes of an upload each of its holds is committed with: what it covers, and the last one the rest.
    pub(super) fn committed_parts(
        &self,
        case: &Case<'_>,
        blob: &BlobModel,
        size: u64,
    ) -> Result<Vec<(HoldId, i64)>, Refusal> {
        let mut left = i64::try_from(size).expect("a world has few bytes");
        let mut parts = Vec::new();
        for (place, id) in blob.holds.iter().enumerate() {
            let is_last = place + 1 == blob.holds.len();
            let part = if is_last { left } else { left.min(self.held_bytes(*id)) };
            left -= part;
            parts.push((*id, part));
        }
        for (id, part) in &parts {
            let hold = &self.holds[id];
            match hold.state_at(case.now) {
                HoldState::Held => {}
                HoldState::Expired if hold.late == Cover::Refuse => {
                    return Err(Refusal::LateRefused { hold: *id, at: Time::from_micros(hold.expires_at) });
                }
                HoldState::Expired => {}
                state => return Err(Refusal::AlreadySettled { hold: *id, state }),
            }
            let ChargeModel { scope, amount, .. } = &hold.charges[0];
            if part > amount && hold.overrun == Cover::Refuse {
                let (scope, held, actual) = (scope.clone(), *amount, *part);
                return Err(Refusal::OverrunRefused { hold: *id, scope, held, actual });
            }
        }
        Ok(parts)
    }

    /// Judges that the holds of an upload are committed with these bytes.
    pub(super) fn commit_bytes(
        &mut self,
        case: &Case<'_>,
        parts: &[(HoldId, i64)],
        events: &mut EventCursor<'_>,
    ) -> Check {
        for (id, part) in parts {
            let hold = self.holds[id].clone();
            let is_late = hold.state_at(case.now) == HoldState::Expired;
            let event = events.next("the commit of a hold for bytes")?;
            let Event::HoldCommitted { hold: committed, charges, late, overrun } = event else {
                return Err(format!("bytes: {event:?} comes before the commit of {id}"));
            };
            let over = (part - hold.charges[0].amount).max(0);
            is("bytes: a commit", &(*committed, *late, *overrun), &(*id, is_late, over))?;
            let moves = commit_moves(&hold, &[*part], is_late, case.now);
            self.advance(case, moves.iter().map(|(scope, _)| scope));
            self.compare_charges(case, charges, &hold.charges, &[*part], &moves)
                .map_err(|what| format!("bytes: {what}"))?;
            // A late commit is entirely beyond the hold.
            let dated = |[covered, beyond]: [(Micros, i64); 2]| [if is_late { (case.now, 0) } else { covered }, beyond];
            let spent = moves.iter().map(|(scope, change)| (scope.clone(), dated(change.spends))).collect();
            self.holds.get_mut(id).expect("the hold was found above").spent = spent;
            self.end_hold(case, *id, HoldState::Committed, moves);
        }
        Ok(())
    }

    /// Judges that the holds of an upload that have not expired are released.
    pub(super) fn release_bytes(&mut self, case: &Case<'_>, blob: &BlobModel, events: &mut EventCursor<'_>) -> Check {
        for id in &blob.holds {
            let hold = self.holds[id].clone();
            if hold.state_at(case.now) != HoldState::Held {
                continue;
            }
            let event = events.next("the release of a hold for bytes")?;
            let Event::HoldReleased { hold: released, charges } = event else {
                return Err(format!("bytes: {event:?} comes before the release of {id}"));
            };
            is("bytes: a release", released, id)?;
            let moves = release_moves(&hold, case.now);
            self.advance(case, moves.iter().map(|(scope, _)| scope));
            self.compare_charges(case, charges, &hold.charges, &[], &moves).map_err(|what| format!("bytes: {what}"))?;
            self.end_hold(case, *id, HoldState::Released, moves);
        }
        Ok(())
    }

    /// Judges that the bytes which storing a blob has posted are credited.
    pub(super) fn credit_bytes(&mut self, case: &Case<'_>, blob: &BlobModel, events: &mut EventCursor<'_>) -> Check {
        for (id, amount) in blob.posted.iter().filter(|(_, bytes)| *bytes > 0) {
            let event = events.next("a credit of bytes")?;
            let Event::Credited { charge, hold, excess, .. } = event else {
                return Err(format!("bytes: {event:?} comes before the credit of {amount} for {id}"));
            };
            is("bytes: the hold of a credit", hold, &Some(*id))?;
            let named = self.holds[id].clone();
            let expected = ChargeModel { amount: *amount, ..named.charges[0].clone() };
            let answered = Credited { charge: charge.clone(), excess: *excess };
            self.give_back(case, expected, Some((*id, named)), &answered).map_err(|what| format!("bytes: {what}"))?;
        }
        Ok(())
    }
}

/// Returns the command that holds bytes.
fn held(scope: &Scope, amount: i64, ttl: Span) -> Command {
    let charges = vec![Charge::new(scope.clone(), amount)];
    Command { charges, settle: Settle::Hold { ttl: Some(ttl) }, ..Command::default() }
}
