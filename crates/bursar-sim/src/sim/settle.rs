//! Jobs by the model: how leases end, and what that settles.

use std::collections::BTreeMap;

use bursar_core::answer::Finished;
use bursar_core::budget::Cover;
use bursar_core::event::{Charged, Event};
use bursar_core::hold::HoldState;
use bursar_core::id::{HoldId, JobId};
use bursar_core::job::{Backoff, End, Finish, JobState, LeaseEnd, QueueConfig, Usage};
use bursar_core::name::Scope;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::time::Span;

use super::expect::{Case, Check, committing, is, opening, releasing};
use super::jobs::{JobModel, Story, foreign, same_state, unknown};
use super::model::{ChargeModel, HoldModel, Live, Micros, Model, totals};

/// How soon a job that awaits its budget is looked at again at the latest.
const LOOKED_AT_WITHIN: Micros = 60_000_000;

type Said<'a> = &'a Result<Finished, Refusal>;

/// How an attempt failed.
pub(super) struct Failure<'a> {
    pub(super) how: LeaseEnd,
    pub(super) retryable: bool,
    pub(super) retry_after: Option<Span>,
    pub(super) usage: Option<&'a [Usage]>,
}

/// What was spent on the charges of a hold, and on other scopes.
type Spent = (Vec<i64>, Vec<(Scope, i64)>);

impl Model {
    pub(super) fn finish(&mut self, case: &Case<'_>, item: &Finish, said: Said<'_>, story: &mut Story<'_>) -> Check {
        let (id, fence) = (item.job, item.fence);
        let Some(job) = self.job(case, id).cloned() else { return unknown(id, said) };
        if job.is_foreign(case, fence) {
            return foreign(id, fence, said);
        }
        if job.lease.is_none() || job.fence != fence {
            if job.fence == fence && job.ended == Some(item.end.as_lease_end()) {
                return self.repeated(case, &job, item, said);
            }
            return self.report(case, &job, item, said, story);
        }
        let refused = match &item.end {
            End::Complete { result, usage } => match self.spend(case, id, usage.as_deref(), true, story)? {
                Err(refusal) => Some(refusal),
                Ok(()) => {
                    let expected = Event::JobSucceeded { job: id, fence, result: result.clone() };
                    is("a success", story.next("a success")?, &expected)?;
                    self.end_lease(case, id, LeaseEnd::Completed);
                    self.end(case, id, JobState::Succeeded);
                    None
                }
            },
            End::Fail { retryable, retry_after, usage, .. } => {
                let (retryable, retry_after, usage) = (*retryable, *retry_after, usage.as_deref());
                let failure = Failure { how: LeaseEnd::Failed, retryable, retry_after, usage };
                self.fail(case, id, &failure, story)?.err()
            }
            End::Snooze { delay } => {
                let run_at = bursar_core::time::Time::from_micros(case.now + delay.micros());
                is("a snooze", story.next("a snooze")?, &Event::JobSnoozed { job: id, fence, run_at })?;
                self.hand_back(case, id, LeaseEnd::Snoozed, run_at.micros(), story)?;
                None
            }
            End::Return => {
                is("a return", story.next("a return")?, &Event::JobReturned { job: id, fence })?;
                self.hand_back(case, id, LeaseEnd::Returned, job.run_at, story)?;
                None
            }
        };
        match (refused, said) {
            (None, said) => self.told(id, said),
            (Some(expected), Err(refusal)) if expected == *refusal => Ok(()),
            (Some(expected), said) => Err(format!("expected was the refusal {expected:?}, answered is {said:?}")),
        }
    }

    /// The same end again is the same answer, but for one that says it spent something else.
    fn repeated(&self, case: &Case<'_>, job: &JobModel, item: &Finish, said: Said<'_>) -> Check {
        let hold = job.hold.and_then(|hold| self.holds.get(&hold));
        let charges: &[ChargeModel] = hold.map_or(&[], |hold| &hold.charges);
        let mut spent: BTreeMap<Scope, i64> = BTreeMap::new();
        let mut add = |scope: &Scope, amount: i64| *spent.entry(scope.clone()).or_default() += amount;
        match (&item.end, item.end.usage()) {
            (End::Complete { .. }, None) => charges.iter().for_each(|charge| add(&charge.scope, charge.amount)),
            (_, usage) => match self.split(case, item.job, hold, usage) {
                Err(expected) => return is_refused(said, &expected),
                Ok((actuals, beside)) => {
                    charges.iter().zip(actuals).for_each(|(charge, actual)| add(&charge.scope, actual));
                    beside.iter().for_each(|(scope, amount)| add(scope, *amount));
                }
            },
        }
        spent.retain(|_, amount| *amount != 0);
        if spent == job.settled {
            return self.told(item.job, said);
        }
        match said {
            Err(Refusal::UsageRecorded { job: id, fence, recorded })
                if (*id, *fence) == (item.job, item.fence)
                    && recorded.iter().cloned().collect::<BTreeMap<_, _>>() == job.settled =>
            {
                Ok(())
            }
            said => Err(format!("spend: {spent:?} is said again of {:?}, and answered is {said:?}", job.settled)),
        }
    }

    /// A worker that lost its lease changes nothing but the bill, and that once.
    fn report(
        &mut self,
        case: &Case<'_>,
        job: &JobModel,
        item: &Finish,
        said: Said<'_>,
        story: &mut Story<'_>,
    ) -> Check {
        let (id, fence) = (item.job, item.fence);
        if !job.lapsed.contains(&fence) || job.billed.contains(&fence) {
            return self.lost(id, fence, job.billed.contains(&fence), said);
        }
        let hold = job.hold.and_then(|hold| self.holds.get(&hold)).cloned();
        let (actuals, mut spent) = match self.split(case, id, hold.as_ref(), item.end.usage()) {
            Ok(spent) => spent,
            Err(expected) => return is_refused(said, &expected),
        };
        let charges = hold.iter().flat_map(|hold| &hold.charges);
        spent.extend(charges.zip(actuals).map(|(charge, actual)| (charge.scope.clone(), actual)));
        let billed = self.bill(case, id, fence, &spent, true, story)?;
        if billed {
            let job = self.jobs.get_mut(&id).expect("it was found");
            job.billed.insert(fence);
            once(job, fence)?;
        }
        self.lost(id, fence, billed, said)
    }

    /// It was no attempt.
    fn hand_back(&mut self, case: &Case<'_>, id: JobId, end: LeaseEnd, run_at: Micros, story: &mut Story<'_>) -> Check {
        self.end_lease(case, id, end);
        let job = self.jobs.get_mut(&id).expect("it was found");
        job.attempts -= 1;
        job.wait(run_at, case.commits);
        if job.cancelling { self.cancel_now(case, id, story) } else { Ok(()) }
    }

    pub(super) fn cancel_now(&mut self, case: &Case<'_>, id: JobId, story: &mut Story<'_>) -> Check {
        self.release_of(case, id, story)?;
        is("a cancelled job", story.next("a cancelled job")?, &Event::JobCancelled { job: id })?;
        self.end(case, id, JobState::Cancelled);
        Ok(())
    }

    pub(super) fn end(&mut self, case: &Case<'_>, id: JobId, state: JobState) {
        let job = self.jobs.get_mut(&id).expect("it was found");
        (job.state, job.run_at, job.cancelling, job.awaits) = (state, case.now, false, None);
        self.unended.remove(&id);
    }

    /// An attempt failed: it is tried again, waits for its budget, or was the last.
    pub(super) fn fail(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        failure: &Failure<'_>,
        story: &mut Story<'_>,
    ) -> Check<Result<(), Refusal>> {
        let job = self.jobs[&id].clone();
        let spent = failure.usage.is_some_and(|usage| usage.iter().any(|usage| usage.amount > 0));
        if spent && let Err(refusal) = self.spend(case, id, failure.usage, false, story)? {
            return Ok(Err(refusal));
        }
        let event = story.next("a failure")?;
        let run_at = match (event, failure.how) {
            (Event::JobFailed { fence, attempt, worker, run_at, .. }, LeaseEnd::Failed)
            | (Event::JobRescued { fence, attempt, worker, run_at, .. }, LeaseEnd::Lapsed) => {
                is("fence: of a failure", fence, &job.fence)?;
                is("attempts: of a failure", attempt, &job.attempts)?;
                is("whose failure", &Some(worker), &job.lease.as_ref().map(|lease| &lease.worker))?;
                run_at.map(|time| time.micros())
            }
            _ => return Err(format!("{event:?} is no such failure of {job:?}")),
        };
        self.end_lease(case, id, failure.how);
        let parked = matches!(story.peek(), Some(Event::JobParked { .. }));
        let again = run_at.is_some() || parked;
        let explains = |config: &QueueConfig| {
            let own = job.retry.as_ref().unwrap_or(&config.retry).max_attempts;
            let most = job.max_attempts.unwrap_or(own);
            let last = !failure.retryable || job.attempts >= most;
            let wait = run_at.map(|run_at| run_at - case.now);
            again == (!last && !job.cancelling) && wait.is_none_or(|wait| is_wait(&job, config, failure, wait))
        };
        if !self.configs(case, &job.queue).iter().any(explains) {
            return Err(format!("attempts: again {again}, at {run_at:?} (now {}): {job:?}", case.now));
        }
        match run_at {
            Some(run_at) => {
                self.jobs.get_mut(&id).expect("it was found").wait(run_at, case.commits);
                if spent && let Some(hold) = self.fund(case, id, story)? {
                    is("a new hold", story.next("a new hold")?, &Event::JobFunded { job: id, hold })?;
                }
            }
            None if again => self.park(case, id, story)?,
            None if job.cancelling => self.cancel_now(case, id, story)?,
            None => {
                self.release_of(case, id, story)?;
                is("a dead job", story.next("a dead job")?, &Event::JobDied { job: id })?;
                self.end(case, id, JobState::Dead);
            }
        }
        Ok(Ok(()))
    }

    /// A hold like the last one of the job, which must be admitted. `None` if it never had one.
    pub(super) fn fund(&mut self, case: &Case<'_>, id: JobId, story: &mut Story<'_>) -> Check<Option<HoldId>> {
        let Some(old) = self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)).cloned() else { return Ok(None) };
        let charges = self.again(case, &old);
        if let Some(scope) = self.lack(case, &charges) {
            return Err(format!("spend: {id} gets a new hold, and {scope} does not admit it"));
        }
        let event = story.next("a hold for the next attempt")?;
        let Event::HoldPlaced { hold, charges: said, expires_at, late, overrun, job, .. } = event else {
            return Err(format!("{event:?} is no hold for the next attempt"));
        };
        is(
            "a hold for the next attempt",
            &(expires_at.micros(), *late, *overrun, *job),
            &(Micros::MAX, Cover::Charge, old.overrun, Some(id)),
        )?;
        let sums = totals(&charges, |place| charges[place].amount);
        let moves: Vec<_> =
            sums.iter().map(|(scope, amount)| (scope.clone(), opening(case.now, *amount, true))).collect();
        self.compare_charges(case, said, &charges, &[], &moves)?;
        for charge in charges.iter().filter(|charge| charge.amount > 0) {
            let model = self.scope(&case.key(&charge.scope), case.now);
            charge.limits.iter().for_each(|limit| model.open_bucket(&limit.window, case.now));
        }
        for (scope, amount) in sums {
            let live = Live { hold: *hold, placed_at: case.now, expires_at: Micros::MAX, amount };
            self.scope(&case.key(&scope), case.now).live.push(live);
        }
        self.make(case, moves);
        let (state, spent) = (HoldState::Held, Vec::new());
        let (placed_at, late) = (case.now, Cover::Charge);
        self.holds.insert(*hold, HoldModel { placed_at, late, charges, state, spent, job: Some(id), ..endless(old) });
        let job = self.jobs.get_mut(&id).expect("it was found");
        job.hold = Some(*hold);
        job.holds.push(*hold);
        Ok(Some(*hold))
    }

    /// The charges of a hold, on the chains there are now.
    pub(super) fn again(&self, case: &Case<'_>, old: &HoldModel) -> Vec<ChargeModel> {
        let anew = |charge: &ChargeModel| ChargeModel {
            ancestors: self.ancestors(case.tenant(), &charge.scope),
            ..charge.clone()
        };
        old.charges.iter().map(anew).collect()
    }

    /// The first scope that does not admit charges, if there is one.
    pub(super) fn lack(&mut self, case: &Case<'_>, charges: &[ChargeModel]) -> Option<Scope> {
        let sums = totals(charges, |place| charges[place].amount);
        match self.violations(case, charges, &sums) {
            Err(_) => Some(charges[0].scope.clone()),
            Ok(violations) => violations.into_iter().find_map(|violation| match violation {
                Violation::Limit { scope, .. } | Violation::Frozen { scope } => Some(scope),
                Violation::Grant { .. } => None,
            }),
        }
    }

    /// The job waits until its budget admits another attempt: only where it does not now.
    pub(super) fn park(&mut self, case: &Case<'_>, id: JobId, story: &mut Story<'_>) -> Check {
        let event = story.next("a parked job")?;
        let Event::JobParked { job, scope, run_at } = event else { return Err(format!("{event:?} does not park")) };
        is("who is parked", job, &id)?;
        let old = self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)).cloned();
        let old = old.ok_or_else(|| format!("spend: {id} is parked, and never had a hold"))?;
        let charges = self.again(case, &old);
        is("spend: where units are lacking", &Some(scope.clone()), &self.lack(case, &charges))?;
        let wait = run_at.micros() - case.now;
        if !(1..=LOOKED_AT_WITHIN).contains(&wait) {
            return Err(format!("{id} is looked at again in {wait} µs"));
        }
        let job = self.jobs.get_mut(&id).expect("it was found");
        (job.state, job.awaits, job.run_at) = (JobState::AwaitingBudget, Some(scope.clone()), run_at.micros());
        Ok(())
    }

    /// What the job's hold still sets aside is free again.
    pub(super) fn release_of(&mut self, case: &Case<'_>, id: JobId, story: &mut Story<'_>) -> Check {
        let Some((id, hold)) = self.live_hold(id) else { return Ok(()) };
        let event = story.next("the release of a job's hold")?;
        let Event::HoldReleased { hold: released, charges } = event else {
            return Err(format!("spend: {event:?} comes before the release of {id}"));
        };
        is("spend: the hold released", released, &id)?;
        let moves = releasing(&hold, case.now);
        self.arrive(case, moves.iter().map(|(scope, _)| scope));
        self.compare_charges(case, charges, &hold.charges, &[], &moves)?;
        self.end_hold(case, id, HoldState::Released, moves);
        Ok(())
    }

    fn live_hold(&self, job: JobId) -> Option<(HoldId, HoldModel)> {
        let id = self.jobs[&job].hold?;
        let hold = self.holds.get(&id).filter(|hold| hold.state == HoldState::Held)?;
        Some((id, hold.clone()))
    }

    /// What was really spent is charged: on the hold as far as it has charges there, beside it otherwise.
    fn spend(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        usage: Option<&[Usage]>,
        held_if_unsaid: bool,
        story: &mut Story<'_>,
    ) -> Check<Result<(), Refusal>> {
        let live = self.live_hold(id);
        let (mut actuals, beside) = match self.split(case, id, live.as_ref().map(|(_, hold)| hold), usage) {
            Ok(spent) => spent,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let fence = self.jobs[&id].fence;
        if let Some((hold_id, hold)) = live {
            if usage.is_none() && held_if_unsaid {
                actuals = hold.charges.iter().map(|charge| charge.amount).collect();
            }
            let event = story.next("what a hold cost")?;
            let Event::HoldCommitted { hold: committed, charges, late, overrun } = event else {
                return Err(format!("spend: {event:?} comes before what {hold_id} cost"));
            };
            let over: i64 = hold.charges.iter().zip(&actuals).map(|(c, actual)| (actual - c.amount).max(0)).sum();
            is("spend: the hold committed", &(*committed, *late, *overrun), &(hold_id, false, over))?;
            let moves = committing(&hold, &actuals, false, case.now);
            self.arrive(case, moves.iter().map(|(scope, _)| scope));
            self.compare_charges(case, charges, &hold.charges, &actuals, &moves)?;
            let spent = moves.iter().map(|(scope, change)| (scope.clone(), change.spends)).collect();
            self.holds.get_mut(&hold_id).expect("it was found").spent = spent;
            self.end_hold(case, hold_id, HoldState::Committed, moves);
            let job = self.jobs.get_mut(&id).expect("it was found");
            job.cost += actuals.iter().sum::<i64>();
            for (charge, actual) in hold.charges.iter().zip(&actuals).filter(|(_, actual)| **actual != 0) {
                *job.settled.entry(charge.scope.clone()).or_default() += actual;
            }
        }
        self.bill(case, id, fence, &beside, false, story)?;
        once(self.jobs.get_mut(&id).expect("it was found"), fence)?;
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
        let mut beside: Vec<(Scope, i64)> = Vec::new();
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
                (None, Some(scope)) => match beside.iter_mut().find(|(known, _)| known == scope) {
                    Some((_, sum)) => *sum += amount,
                    None => beside.push((scope.clone(), *amount)),
                },
                (None, None) => {}
            }
        }
        let known = |scope: &Scope| self.scopes.get(&case.key(scope)).is_some_and(|scope| scope.known);
        match beside.iter().find(|(scope, _)| !known(scope)) {
            Some((scope, _)) => Err(Refusal::UnknownScope { scope: scope.clone() }),
            None => Ok((actuals, beside)),
        }
    }

    /// Whether who reports may charge a scope for a job: one of its hold's or, without a hold, one that it was given.
    fn may_charge(&self, case: &Case<'_>, id: JobId, scope: &Scope) -> bool {
        let Some(reporter) = &case.request.context.reporter else { return true };
        match self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)) {
            Some(hold) => hold.charges.iter().any(|charge| charge.scope == *scope),
            None => reporter.charges.iter().any(|pattern| pattern.to_string() == scope.as_str()),
        }
    }

    /// Spend that no hold covers. Says whether there was any.
    fn bill(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        by: u64,
        spent: &[(Scope, i64)],
        was_lost: bool,
        story: &mut Story<'_>,
    ) -> Check<bool> {
        let charge = |(scope, amount): &(Scope, i64)| {
            let ancestors = self.ancestors(case.tenant(), scope);
            ChargeModel { scope: scope.clone(), amount: *amount, ancestors, limits: Vec::new() }
        };
        let charges: Vec<ChargeModel> = spent.iter().filter(|(_, amount)| *amount > 0).map(charge).collect();
        if charges.is_empty() {
            return Ok(false);
        }
        let event = story.next("a bill")?;
        let Event::JobBilled { job, fence, charges: said, lost } = event else {
            return Err(format!("spend: {event:?} comes before the bill of {id}"));
        };
        is("spend: a bill", &(*job, *fence, *lost), &(id, by, was_lost))?;
        let sums = totals(&charges, |place| charges[place].amount);
        let moves: Vec<_> = sums.into_iter().map(|(scope, amount)| (scope, opening(case.now, amount, false))).collect();
        self.arrive(case, moves.iter().map(|(scope, _)| scope));
        self.compare_charges(case, said, &charges, &[], &moves)?;
        self.make(case, moves);
        let job = self.jobs.get_mut(&id).expect("it was found");
        job.cost += said.iter().map(|c: &Charged| c.amount).sum::<i64>();
        for charge in charges.iter().filter(|_| !was_lost) {
            *job.settled.entry(charge.scope.clone()).or_default() += charge.amount;
        }
        Ok(true)
    }

    /// What a job has become, as it is told to who did something to it.
    pub(super) fn told(&self, id: JobId, said: Said<'_>) -> Check {
        let job = &self.jobs[&id];
        let Ok(said) = said else { return Err(format!("it is done, and answered is {said:?}; it is {job:?}")) };
        is("the job told", &(said.job, said.hold, said.total_cost()), &(id, job.hold, job.cost))?;
        let waits = job.state == JobState::Queued;
        let exact = !waits || said.run_at.map(|time| time.micros()) == Some(job.run_at);
        if same_state(said.state, job.state) && exact {
            return Ok(());
        }
        Err(format!("{said:?} is told of {job:?}"))
    }
}

/// Each lease is charged for at most once.
fn once(job: &mut JobModel, fence: u64) -> Check {
    if job.charged.insert(fence) { Ok(()) } else { Err(format!("spend: lease {fence} is charged for twice: {job:?}")) }
}

fn endless(hold: HoldModel) -> HoldModel {
    HoldModel { expires_at: Micros::MAX, life_until: Micros::MAX, ..hold }
}

fn is_refused(said: Said<'_>, expected: &Refusal) -> Check {
    match said {
        Err(refusal) if refusal == expected => Ok(()),
        said => Err(format!("expected was the refusal {expected:?}, answered is {said:?}")),
    }
}

/// Whether a job may wait so long after the attempt it has made.
fn is_wait(job: &JobModel, config: &QueueConfig, failure: &Failure<'_>, wait: Micros) -> bool {
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
