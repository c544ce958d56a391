//! Jobs in the model: ends of leases, and the holds and spend they settle.

use std::collections::BTreeMap;

use bursar_core::answer::Finished;
use bursar_core::budget::{Cover, WouldRefuse};
use bursar_core::event::{Charged, Event};
use bursar_core::hold::HoldState;
use bursar_core::id::{HoldId, JobId};
use bursar_core::job::{Backoff, End, Finish, JobError, JobState, LeaseEnd, QueueConfig, Usage};
use bursar_core::name::Scope;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::time::Span;

use super::event_cursor::EventCursor;
use super::expect::{Case, Check, charge_move, commit_moves, is, release_moves};
use super::jobs::{JobModel, foreign, same_state, unknown};
use super::model::{ChargeModel, HoldModel, Live, Micros, Model, totals};

/// The longest time until a job that awaits its budget is checked again, in microseconds.
const CHECKED_WITHIN: Micros = 60_000_000;

type Answered<'a> = &'a Result<Finished, Refusal>;

/// How an attempt failed.
pub(super) struct Failure<'a> {
    pub(super) how: LeaseEnd,
    /// The reported error; `None` if the lease expired.
    pub(super) error: Option<&'a JobError>,
    pub(super) retryable: bool,
    pub(super) retry_after: Option<Span>,
    pub(super) usage: Option<&'a [Usage]>,
}

/// Units spent on each charge of a hold, and on other scopes.
type Spent = (Vec<i64>, Vec<(Scope, i64)>);

impl Model {
    pub(super) fn finish(
        &mut self,
        case: &Case<'_>,
        item: &Finish,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        let (id, fence) = (item.job, item.fence);
        let Some(job) = self.job(case, id).cloned() else { return unknown(id, answered) };
        if job.is_foreign(case, fence) {
            return foreign(id, fence, answered);
        }
        if job.lease.is_none() || job.fence != fence {
            if job.fence == fence && job.ended == Some(item.end.as_lease_end()) {
                return self.repeated(case, &job, item, answered);
            }
            return self.report(case, &job, item, answered, events);
        }
        let refused = match &item.end {
            End::Complete { result, usage, blobs } => {
                if let Some(refusal) = self.refused_made(case, id, blobs) {
                    return is_refused(answered, &refusal).map_err(|what| format!("reach: {what}"));
                }
                let spent = self.spend(case, id, usage.as_deref(), true, events)?;
                if spent.is_ok() {
                    let expected = Event::JobSucceeded { job: id, fence, result: result.clone() };
                    is("a success", events.next("a success")?, &expected)?;
                    self.end_lease(case, id, LeaseEnd::Completed);
                    self.end(case, id, JobState::Succeeded);
                    self.made(id, blobs, events)?;
                }
                spent.err()
            }
            End::Fail { error, retryable, retry_after, usage } => {
                let (retryable, retry_after, usage) = (*retryable, *retry_after, usage.as_deref());
                let failure = Failure { how: LeaseEnd::Failed, error: Some(error), retryable, retry_after, usage };
                self.fail(case, id, &failure, events)?.err()
            }
            End::Snooze { delay } => {
                let run_at = bursar_core::time::Time::from_micros(case.now + delay.micros());
                is("a snooze", events.next("a snooze")?, &Event::JobSnoozed { job: id, fence, run_at })?;
                self.return_job(case, id, LeaseEnd::Snoozed, run_at.micros(), events)?;
                None
            }
            End::Return => {
                is("a return", events.next("a return")?, &Event::JobReturned { job: id, fence })?;
                self.return_job(case, id, LeaseEnd::Returned, job.run_at, events)?;
                None
            }
        };
        match (refused, answered) {
            (None, answered) => self.check_finished(id, answered),
            (Some(expected), Err(refusal)) if expected == *refusal => Ok(()),
            (Some(expected), answered) => Err(format!("expected the refusal {expected:?}, answered {answered:?}")),
        }
    }

    /// Judges a repeated end: the same answer, or a refusal if it reports other usage or names another blob.
    fn repeated(&self, case: &Case<'_>, job: &JobModel, item: &Finish, answered: Answered<'_>) -> Check {
        if let Some(blob) = item.end.blobs().iter().find(|blob| !job.blobs.contains(blob)) {
            return is_refused(answered, &Refusal::BlobsRecorded { job: item.job, fence: item.fence, blob: *blob });
        }
        let hold = job.hold.and_then(|hold| self.holds.get(&hold));
        let charges: &[ChargeModel] = hold.map_or(&[], |hold| &hold.charges);
        let mut spent: BTreeMap<Scope, i64> = BTreeMap::new();
        let mut add = |scope: &Scope, amount: i64| *spent.entry(scope.clone()).or_default() += amount;
        match (&item.end, item.end.usage()) {
            (End::Complete { .. }, None) => charges.iter().for_each(|charge| add(&charge.scope, charge.amount)),
            (_, usage) => match self.split(case, item.job, hold, usage) {
                Err(expected) => return is_refused(answered, &expected),
                Ok((actuals, others)) => {
                    charges.iter().zip(actuals).for_each(|(charge, actual)| add(&charge.scope, actual));
                    others.iter().for_each(|(scope, amount)| add(scope, *amount));
                }
            },
        }
        spent.retain(|_, amount| *amount != 0);
        if spent == job.settled {
            return self.check_finished(item.job, answered);
        }
        match answered {
            Err(Refusal::UsageRecorded { job: id, fence, recorded })
                if (*id, *fence) == (item.job, item.fence)
                    && recorded.iter().cloned().collect::<BTreeMap<_, _>>() == job.settled =>
            {
                Ok(())
            }
            answered => Err(format!(
                "spend: {spent:?} is reported again instead of {:?}, but answered {answered:?}",
                job.settled
            )),
        }
    }

    /// Judges the report of a worker that lost its lease: its spend is billed once, and nothing else changes.
    fn report(
        &mut self,
        case: &Case<'_>,
        job: &JobModel,
        item: &Finish,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        let (id, fence) = (item.job, item.fence);
        if !job.lapsed.contains(&fence) || job.billed.contains(&fence) {
            return self.lost(id, fence, job.billed.contains(&fence), answered);
        }
        let hold = job.hold.and_then(|hold| self.holds.get(&hold)).cloned();
        let (actuals, mut spent) = match self.split(case, id, hold.as_ref(), item.end.usage()) {
            Ok(spent) => spent,
            Err(expected) => return is_refused(answered, &expected),
        };
        let charges = hold.iter().flat_map(|hold| &hold.charges);
        spent.extend(charges.zip(actuals).map(|(charge, actual)| (charge.scope.clone(), actual)));
        let billed = self.bill(case, id, fence, &spent, true, events)?;
        if billed {
            let job = self.jobs.get_mut(&id).expect("the job was found above");
            job.billed.insert(fence);
            charge_once(job, fence)?;
        }
        self.lost(id, fence, billed, answered)
    }

    /// Returns a job to its queue without counting an attempt.
    fn return_job(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        end: LeaseEnd,
        run_at: Micros,
        events: &mut EventCursor<'_>,
    ) -> Check {
        self.end_lease(case, id, end);
        let job = self.jobs.get_mut(&id).expect("the job was found above");
        job.attempts -= 1;
        job.wait(run_at, case.commits);
        if job.cancelling { self.cancel_now(case, id, events) } else { Ok(()) }
    }

    pub(super) fn cancel_now(&mut self, case: &Case<'_>, id: JobId, events: &mut EventCursor<'_>) -> Check {
        self.release_job_hold(case, id, events)?;
        is("a cancelled job", events.next("a cancelled job")?, &Event::JobCancelled { job: id })?;
        self.end(case, id, JobState::Cancelled);
        Ok(())
    }

    pub(super) fn end(&mut self, case: &Case<'_>, id: JobId, state: JobState) {
        let job = self.jobs.get_mut(&id).expect("the job was found above");
        (job.state, job.run_at, job.cancelling, job.awaits) = (state, case.now, false, None);
        self.unended.remove(&id);
    }

    /// Judges a failed attempt: the job is retried, waits for its budget, or is dead.
    pub(super) fn fail(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        failure: &Failure<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check<Result<(), Refusal>> {
        let job = self.jobs[&id].clone();
        let spent = failure.usage.is_some_and(|usage| usage.iter().any(|usage| usage.amount > 0));
        if spent && let Err(refusal) = self.spend(case, id, failure.usage, false, events)? {
            return Ok(Err(refusal));
        }
        let event = events.next("a failure")?;
        let run_at = match (event, failure.how) {
            (Event::JobFailed { fence, attempt, worker, error, run_at, .. }, LeaseEnd::Failed)
            | (Event::JobRescued { fence, attempt, worker, error, run_at, .. }, LeaseEnd::Lapsed) => {
                is("errors: of a failure", error, failure.error.unwrap_or(error))?;
                self.jobs.get_mut(&id).expect("the job was found above").error = Some(error.clone());
                is("fence: of a failure", fence, &job.fence)?;
                is("attempts: of a failure", attempt, &job.attempts)?;
                is("the worker of a failure", &Some(worker), &job.lease.as_ref().map(|lease| &lease.worker))?;
                run_at.map(|time| time.micros())
            }
            _ => return Err(format!("{event:?} is not the failure of {job:?}")),
        };
        self.end_lease(case, id, failure.how);
        let parked = matches!(events.peek(), Some(Event::JobParked { .. }));
        let again = run_at.is_some() || parked;
        let explains = |config: &QueueConfig| {
            let own = job.retry.as_ref().unwrap_or(&config.retry).max_attempts;
            let most = job.max_attempts.unwrap_or(own);
            let last = !failure.retryable || job.attempts >= most;
            let wait = run_at.map(|run_at| run_at - case.now);
            again == (!last && !job.cancelling) && wait.is_none_or(|wait| is_backoff(&job, config, failure, wait))
        };
        if !self.configs(case, &job.queue).iter().any(explains) {
            return Err(format!("attempts: retried {again}, at {run_at:?} (now {}): {job:?}", case.now));
        }
        match run_at {
            Some(run_at) => {
                self.jobs.get_mut(&id).expect("the job was found above").wait(run_at, case.commits);
                if spent && let Some(hold) = self.fund(case, id, events)? {
                    is("a new hold", events.next("a new hold")?, &Event::JobFunded { job: id, hold })?;
                }
            }
            None if again => self.park(case, id, events)?,
            None if job.cancelling => self.cancel_now(case, id, events)?,
            None => {
                self.release_job_hold(case, id, events)?;
                is("a dead job", events.next("a dead job")?, &Event::JobDied { job: id })?;
                self.end(case, id, JobState::Dead);
            }
        }
        Ok(Ok(()))
    }

    /// Judges the events for what budgets in shadow mode would have refused.
    pub(super) fn compare_shadowed(&self, expected: Vec<WouldRefuse>, events: &mut EventCursor<'_>) -> Check {
        expected.into_iter().try_for_each(|expected| {
            let event = events.next("a refusal in shadow mode")?;
            is("what shadow mode would have refused", event, &Event::BudgetWouldRefuse(expected))
        })
    }

    /// Judges a new hold like the job's last one, which must be admitted. `None` if the job never had one.
    pub(super) fn fund(&mut self, case: &Case<'_>, id: JobId, events: &mut EventCursor<'_>) -> Check<Option<HoldId>> {
        let Some(old) = self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)).cloned() else { return Ok(None) };
        let charges = self.charges_now(case, &old);
        if let Some(scope) = self.refusing_scope(case, &charges) {
            return Err(format!("spend: {id} gets a new hold that {scope} does not admit"));
        }
        let sums = totals(&charges, |place| charges[place].amount);
        let (_, shadowed) = self.violations(case, &charges, &sums).map_err(|scope| format!("{scope} has no limit"))?;
        self.compare_shadowed(shadowed, events)?;
        let event = events.next("a hold for the next attempt")?;
        let Event::HoldPlaced { hold, charges: answered, expires_at, late, overrun, job, .. } = event else {
            return Err(format!("{event:?} is not a hold for the next attempt"));
        };
        is(
            "a hold for the next attempt",
            &(expires_at.micros(), *late, *overrun, *job),
            &(Micros::MAX, Cover::Charge, old.overrun, Some(id)),
        )?;
        let moves: Vec<_> =
            sums.iter().map(|(scope, amount)| (scope.clone(), charge_move(case.now, *amount, true))).collect();
        self.compare_charges(case, answered, &charges, &[], &moves)?;
        for charge in charges.iter().filter(|charge| charge.amount > 0) {
            let model = self.scope(&case.key(&charge.scope), case.now);
            charge.limits.iter().for_each(|limit| model.open_bucket(&limit.window, case.now));
        }
        for (scope, amount) in sums {
            let live = Live { hold: *hold, placed_at: case.now, expires_at: Micros::MAX, amount, on_expiry: 0 };
            self.scope(&case.key(&scope), case.now).live.push(live);
        }
        self.apply(case, moves);
        let (state, spent) = (HoldState::Held, Vec::new());
        let (placed_at, late) = (case.now, Cover::Charge);
        self.holds
            .insert(*hold, HoldModel { placed_at, late, charges, state, spent, job: Some(id), ..without_expiry(old) });
        let job = self.jobs.get_mut(&id).expect("the job was found above");
        job.hold = Some(*hold);
        job.holds.push(*hold);
        Ok(Some(*hold))
    }

    /// Returns the charges of a hold on the current chains.
    pub(super) fn charges_now(&self, case: &Case<'_>, old: &HoldModel) -> Vec<ChargeModel> {
        let current = |charge: &ChargeModel| ChargeModel {
            ancestors: self.ancestors(case.tenant(), &charge.scope),
            ..charge.clone()
        };
        old.charges.iter().map(current).collect()
    }

    /// Returns the first scope that does not admit the charges.
    pub(super) fn refusing_scope(&mut self, case: &Case<'_>, charges: &[ChargeModel]) -> Option<Scope> {
        let sums = totals(charges, |place| charges[place].amount);
        match self.violations(case, charges, &sums) {
            Err(_) => Some(charges[0].scope.clone()),
            Ok((violations, _)) => violations.into_iter().find_map(|violation| match violation {
                Violation::Limit { scope, .. } | Violation::Frozen { scope } => Some(scope),
                Violation::Grant { .. } => None,
            }),
        }
    }

    /// Judges that a job waits for its budget, which must not admit another attempt now.
    pub(super) fn park(&mut self, case: &Case<'_>, id: JobId, events: &mut EventCursor<'_>) -> Check {
        let event = events.next("a parked job")?;
        let Event::JobParked { job, scope, run_at } = event else {
            return Err(format!("{event:?} does not park a job"));
        };
        is("the parked job", job, &id)?;
        let old = self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)).cloned();
        let old = old.ok_or_else(|| format!("spend: {id} is parked, but never had a hold"))?;
        let charges = self.charges_now(case, &old);
        is("spend: the refusing scope", &Some(scope.clone()), &self.refusing_scope(case, &charges))?;
        let wait = run_at.micros() - case.now;
        if !(1..=CHECKED_WITHIN).contains(&wait) {
            return Err(format!("{id} is checked again after {wait} µs"));
        }
        let job = self.jobs.get_mut(&id).expect("the job was found above");
        (job.state, job.awaits, job.run_at) = (JobState::AwaitingBudget, Some(scope.clone()), run_at.micros());
        Ok(())
    }

    /// Judges the release of the job's hold, if it is still held.
    pub(super) fn release_job_hold(&mut self, case: &Case<'_>, id: JobId, events: &mut EventCursor<'_>) -> Check {
        let Some((id, hold)) = self.live_hold(id) else { return Ok(()) };
        let event = events.next("the release of a job's hold")?;
        let Event::HoldReleased { hold: released, charges } = event else {
            return Err(format!("spend: {event:?} comes before the release of {id}"));
        };
        is("spend: the hold released", released, &id)?;
        let moves = release_moves(&hold, case.now);
        self.advance(case, moves.iter().map(|(scope, _)| scope));
        self.compare_charges(case, charges, &hold.charges, &[], &moves)?;
        self.end_hold(case, id, HoldState::Released, moves);
        Ok(())
    }

    fn live_hold(&self, job: JobId) -> Option<(HoldId, HoldModel)> {
        let id = self.jobs[&job].hold?;
        let hold = self.holds.get(&id).filter(|hold| hold.state == HoldState::Held)?;
        Some((id, hold.clone()))
    }

    /// Judges reported spend: it commits the hold's charges, and is billed separately on other scopes.
    fn spend(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        usage: Option<&[Usage]>,
        held_by_default: bool,
        events: &mut EventCursor<'_>,
    ) -> Check<Result<(), Refusal>> {
        let live = self.live_hold(id);
        let (mut actuals, others) = match self.split(case, id, live.as_ref().map(|(_, hold)| hold), usage) {
            Ok(spent) => spent,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let fence = self.jobs[&id].fence;
        if let Some((hold_id, hold)) = live {
            if usage.is_none() && held_by_default {
                actuals = hold.charges.iter().map(|charge| charge.amount).collect();
            }
            let event = events.next("the commit of a hold")?;
            let Event::HoldCommitted { hold: committed, charges, late, overrun } = event else {
                return Err(format!("spend: {event:?} comes before the commit of {hold_id}"));
            };
            let over: i64 = hold.charges.iter().zip(&actuals).map(|(c, actual)| (actual - c.amount).max(0)).sum();
            is("spend: the hold committed", &(*committed, *late, *overrun), &(hold_id, false, over))?;
            let moves = commit_moves(&hold, &actuals, false, case.now);
            self.advance(case, moves.iter().map(|(scope, _)| scope));
            self.compare_charges(case, charges, &hold.charges, &actuals, &moves)?;
            let spent = moves.iter().map(|(scope, change)| (scope.clone(), change.spends)).collect();
            self.holds.get_mut(&hold_id).expect("the job was found above").spent = spent;
            self.end_hold(case, hold_id, HoldState::Committed, moves);
            let job = self.jobs.get_mut(&id).expect("the job was found above");
            job.cost += actuals.iter().sum::<i64>();
            for (charge, actual) in hold.charges.iter().zip(&actuals).filter(|(_, actual)| **actual != 0) {
                *job.settled.entry(charge.scope.clone()).or_default() += actual;
            }
        }
        self.bill(case, id, fence, &others, false, events)?;
        charge_once(self.jobs.get_mut(&id).expect("the job was found above"), fence)?;
        Ok(Ok(()))
    }

    fn split(
        &self,
        case: &Case<'_>,
        id: JobId,
        hold: Option<&HoldModel>,
        usage: Option<&[Usage]>,
    ) -> Result<Spent, Refusal> {
        let charges: &[ChargeModel] = hold.map_or(&[], |hold| &hold.charges);
        let mut actuals = vec![0; charges.len()];
        let mut others: Vec<(Scope, i64)> = Vec::new();
        for Usage { scope, amount } in usage.unwrap_or_default() {
            let place = match scope {
                None if charges.len() == 1 => Some(0),
                None => return Err(Refusal::UsageAmbiguous { job: id, charges: charges.len() }),
                Some(scope) => charges.iter().position(|charge| charge.scope == *scope),
            };
            match (place, scope) {
                (Some(place), _) => actuals[place] += amount,
                (None, Some(scope)) if !self.may_charge(case, id, scope) => {
                    let held = self.jobs[&id].hold.is_some();
                    return Err(Refusal::ForeignCharge { job: id, scope: scope.clone(), held });
                }
                (None, Some(scope)) => match others.iter_mut().find(|(known, _)| known == scope) {
                    Some((_, sum)) => *sum += amount,
                    None => others.push((scope.clone(), *amount)),
                },
                (None, None) => {}
            }
        }
        let known = |scope: &Scope| self.scopes.get(&case.key(scope)).is_some_and(|scope| scope.known);
        match others.iter().find(|(scope, _)| !known(scope)) {
            Some((scope, _)) => Err(Refusal::UnknownScope { scope: scope.clone() }),
            None => Ok((actuals, others)),
        }
    }

    /// Returns whether the reporter may charge a scope for a job: one of the hold's scopes or, without a hold, one that its
    /// credential allows.
    fn may_charge(&self, case: &Case<'_>, id: JobId, scope: &Scope) -> bool {
        let Some(reporter) = &case.request.context.reporter else { return true };
        match self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)) {
            Some(hold) => hold.charges.iter().any(|charge| charge.scope == *scope),
            None => reporter.charges.iter().any(|pattern| pattern.to_string() == scope.as_str()),
        }
    }

    /// Judges spend that no hold covers. Returns whether there was any.
    fn bill(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        by: u64,
        spent: &[(Scope, i64)],
        was_lost: bool,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let charge = |(scope, amount): &(Scope, i64)| {
            let ancestors = self.ancestors(case.tenant(), scope);
            ChargeModel { scope: scope.clone(), amount: *amount, ancestors, limits: Vec::new() }
        };
        let charges: Vec<ChargeModel> = spent.iter().filter(|(_, amount)| *amount > 0).map(charge).collect();
        if charges.is_empty() {
            return Ok(false);
        }
        let event = events.next("a bill")?;
        let Event::JobBilled { job, fence, charges: answered, lost } = event else {
            return Err(format!("spend: {event:?} comes before the bill of {id}"));
        };
        is("spend: a bill", &(*job, *fence, *lost), &(id, by, was_lost))?;
        let sums = totals(&charges, |place| charges[place].amount);
        let moves: Vec<_> =
            sums.into_iter().map(|(scope, amount)| (scope, charge_move(case.now, amount, false))).collect();
        self.advance(case, moves.iter().map(|(scope, _)| scope));
        self.compare_charges(case, answered, &charges, &[], &moves)?;
        self.apply(case, moves);
        let job = self.jobs.get_mut(&id).expect("the job was found above");
        job.cost += answered.iter().map(|c: &Charged| c.amount).sum::<i64>();
        for charge in charges.iter().filter(|_| !was_lost) {
            *job.settled.entry(charge.scope.clone()).or_default() += charge.amount;
        }
        Ok(true)
    }

    /// Compares the answered state of a job with the model.
    pub(super) fn check_finished(&self, id: JobId, answered: Answered<'_>) -> Check {
        let job = &self.jobs[&id];
        let Ok(answered) = answered else {
            return Err(format!("expected success, answered {answered:?}; the job is {job:?}"));
        };
        is("the answered job", &(answered.job, answered.hold, answered.total_cost()), &(id, job.hold, job.cost))?;
        let waits = job.state == JobState::Queued;
        let exact = !waits || answered.run_at.map(|time| time.micros()) == Some(job.run_at);
        if same_state(answered.state, job.state) && exact {
            return Ok(());
        }
        Err(format!("{answered:?} is answered for {job:?}"))
    }
}

/// Checks that each lease is charged at most once.
fn charge_once(job: &mut JobModel, fence: u64) -> Check {
    if job.charged.insert(fence) { Ok(()) } else { Err(format!("spend: lease {fence} is charged twice: {job:?}")) }
}

fn without_expiry(hold: HoldModel) -> HoldModel {
    HoldModel { expires_at: Micros::MAX, life_until: Micros::MAX, ..hold }
}

fn is_refused(answered: Answered<'_>, expected: &Refusal) -> Check {
    match answered {
        Err(refusal) if refusal == expected => Ok(()),
        answered => Err(format!("expected the refusal {expected:?}, answered {answered:?}")),
    }
}

/// Returns whether the job's backoff allows this wait.
fn is_backoff(job: &JobModel, config: &QueueConfig, failure: &Failure<'_>, wait: Micros) -> bool {
    if let Some(after) = failure.retry_after {
        return wait == after.micros();
    }
    let tried = job.attempts.saturating_sub(1) as usize;
    match &job.retry.as_ref().unwrap_or(&config.retry).backoff {
        Backoff::Fixed { delay } => wait == delay.micros(),
        Backoff::List { delays } => wait == delays[tried.min(delays.len() - 1)].micros(),
        Backoff::Exponential { first, most } => {
            let doubled = (0..tried).fold(first.micros(), |wait, _| wait.saturating_mul(2));
            (0..=doubled.min(most.micros())).contains(&wait)
        }
    }
}
