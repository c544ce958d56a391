//! Decides the end of a lease and what it settles.
//!
//! # Fence
//!
//! Each lease of a job has a greater fence than the one before. A report must carry the fence of the current lease. With
//! any other fence it does not change the job, but its usage may be charged (see below). Repeating the same end of the
//! same lease returns the same answer, unless it reports different usage.
//!
//! # Settlement
//!
//! When a job succeeds, its hold is committed in the same transaction. When it is dead or cancelled, its hold is released. A
//! failed attempt that spent something commits its hold, and the next attempt gets a new hold like it, admitted like
//! any other. If admission refuses it, the job is *parked*: it has no hold and waits for the scope that refused it. It
//! is tried again when that scope gets units back, and after [`AWAIT_MAX`](crate::bounds::AWAIT_MAX) at the latest.
//!
//! # Late reports
//!
//! The worker of a lapsed lease may still report what it spent, once ([`Lapsed`]). That is charged without a hold
//! (`job.billed`). A lease that its worker ended was settled then, so a later report under its fence charges nothing.

use std::collections::BTreeMap;

use crate::answer::Finished;
use crate::budget::Cover;
use crate::decide::admit::Admitted;
use crate::decide::decision::Decision;
use crate::decide::lease::{check_owner, lost};
use crate::decide::{admit, blob, hold};
use crate::event::{Charged, Event};
use crate::hold::{HeldCharge, Hold, HoldState, OnExpiry};
use crate::id::{HoldId, JobId};
use crate::job::{End, Finish, Job, JobError, JobState, Lapsed, Lease, LeaseEnd, Usage};
use crate::mutant::Mutant;
use crate::name::Scope;
use crate::refusal::{Refusal, Violation};
use crate::request::Charge;
use crate::time::{Span, Time};

/// Ends one lease.
pub(super) fn finish(decision: &mut Decision<'_>, item: &Finish) -> Result<Finished, Refusal> {
    let job = decision.job(item.job)?;
    let (id, fence) = (item.job, item.fence);
    check_owner(decision, job, fence)?;
    let is_current = job.life.lease.is_some() && (job.life.fence == fence || Mutant::SkipFence.on());
    if !is_current {
        // A repeated report is answered as before, without effect.
        if job.life.fence == fence && job.life.ended == Some(item.end.as_lease_end()) {
            check_repeated(decision, job, &item.end)?;
            return Ok(ended(decision, job));
        }
        if Mutant::LostLeaseRefers.on() {
            let made = blob::job_references(decision.ws, &job.tenant, id, item.end.blobs(), &job.life.blobs)?;
            made.into_iter().for_each(|made| decision.emit(made));
        }
        let billed = bill_lost(decision, id, fence, item.end.usage())?;
        return Err(lost(decision.job(id)?, fence, billed));
    }
    match &item.end {
        End::Complete { result, usage, blobs } => {
            let (tenant, known) = (&decision.context.tenant, &job.life.blobs);
            blob::check_reach(decision, blobs, known)?;
            let made = blob::job_references(decision.ws, tenant, id, blobs, known)?;
            settle(decision, id, usage.as_deref(), Unreported::AsHeld)?;
            decision.emit(Event::JobSucceeded { job: id, fence, result: result.clone() });
            made.into_iter().for_each(|made| decision.emit(made));
        }
        End::Fail { error, retryable, retry_after, usage } => {
            let failure = Failure { error: error.clone(), retryable: *retryable, retry_after: *retry_after };
            fail(decision, id, LeaseEnd::Failed, failure, usage.as_deref())?;
        }
        End::Snooze { delay } => {
            let run_at = decision.now().after(*delay);
            decision.emit(Event::JobSnoozed { job: id, fence, run_at });
            cancel_if_requested(decision, id)?;
        }
        End::Return => {
            decision.emit(Event::JobReturned { job: id, fence });
            cancel_if_requested(decision, id)?;
        }
    }
    unbar_line(decision, id);
    Ok(ended(decision, decision.job(id)?))
}

/// Refuses to repeat the end of a lease with other usage than was charged for it, or with a blob that the job does not refer to.
fn check_repeated(decision: &Decision<'_>, job: &Job, end: &End) -> Result<(), Refusal> {
    if let Some(blob) = end.blobs().iter().find(|blob| !job.life.blobs.contains(blob)) {
        return Err(Refusal::BlobsRecorded { job: job.id, fence: job.life.fence, blob: *blob });
    }
    let Some(recorded) = &job.life.settled else { return Ok(()) };
    let hold = job.hold.and_then(|hold| decision.ws.holds.get(&hold));
    let charges: &[HeldCharge] = hold.map_or(&[], |hold| &hold.charges);
    let reported: Vec<(Scope, i64)> = match (end, end.usage()) {
        (End::Complete { .. }, None) => charges.iter().map(|charge| (charge.scope.clone(), charge.amount)).collect(),
        (_, usage) => {
            let (actuals, unheld) = split_usage(decision, job, hold, usage)?;
            let held = charges.iter().map(|charge| charge.scope.clone()).zip(actuals);
            held.chain(unheld).collect()
        }
    };
    if sums(&reported) == sums(recorded) || Mutant::RepeatAnyUsage.on() {
        return Ok(());
    }
    Err(Refusal::UsageRecorded { job: job.id, fence: job.life.fence, recorded: recorded.clone() })
}

/// Adds up units by scope, leaving out zeros.
fn sums(amounts: &[(Scope, i64)]) -> BTreeMap<&Scope, i64> {
    let mut sums = BTreeMap::new();
    for (scope, amount) in amounts.iter().filter(|(_, amount)| *amount != 0) {
        let sum: &mut i64 = sums.entry(scope).or_default();
        *sum = sum.saturating_add(*amount);
    }
    sums
}

/// Takes back a lease that has lapsed; does nothing if the job has none.
pub(super) fn rescue(decision: &mut Decision<'_>, id: JobId) -> Result<Finished, Refusal> {
    let job = decision.job(id)?;
    let has_lapsed = |lease: &&Lease| lease.lapses_at() <= decision.now() || Mutant::RescueEarly.on();
    let Some(lease) = job.life.lease.as_ref().filter(has_lapsed) else {
        if Mutant::RescueFinished.on() && job.life.state.is_final() {
            decision.emit(Event::JobRetried { job: id, hold: None });
        }
        let job = decision.job(id)?;
        return Ok(finished(job));
    };
    let error = if lease.deadline <= decision.now() {
        JobError::new("deadline exceeded", "the attempt ran longer than its deadline allows")
    } else {
        JobError::new("lease expired", "the worker sent no heartbeat in time")
    };
    let failure = Failure { error, retryable: true, retry_after: None };
    fail(decision, id, LeaseEnd::Lapsed, failure, None)?;
    unbar_line(decision, id);
    Ok(finished(decision.job(id)?))
}

/// Returns the answer for a job after an operation on it.
pub(super) fn finished(job: &Job) -> Finished {
    let run_at = (!job.life.state.is_final() && job.life.lease.is_none()).then_some(job.life.run_at);
    Finished { job: job.id, state: job.life.state, run_at, hold: job.hold, cost: job.life.cost.clone(), overrun: 0 }
}

/// Returns the answer for a job whose lease was ended: also what the lease spent above the hold of the job. It follows from the rows,
/// so a repeated report gets the same answer.
fn ended(decision: &Decision<'_>, job: &Job) -> Finished {
    // The hold of the next attempt has the same charges as the one that was committed.
    let hold = job.hold.and_then(|hold| decision.ws.holds.get(&hold));
    let charges: &[HeldCharge] = hold.map_or(&[], |hold| &hold.charges);
    let spent = job.life.settled.as_deref().unwrap_or_default();
    let overruns = charges.iter().map(|charge| {
        let spent = spent.iter().find(|(scope, _)| *scope == charge.scope).map_or(0, |(_, amount)| *amount);
        spent.saturating_sub(charge.amount).max(0)
    });
    Finished { overrun: overruns.fold(0, i64::saturating_add), ..finished(job) }
}

/// Why an attempt failed, and how it may be retried.
struct Failure {
    error: JobError,
    retryable: bool,
    retry_after: Option<Span>,
}

/// Fails the current attempt: settles what it spent. The job is then retried, parked, cancelled or dead.
fn fail(
    decision: &mut Decision<'_>,
    id: JobId,
    how: LeaseEnd,
    failure: Failure,
    usage: Option<&[Usage]>,
) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    let config = decision.config(&job.queue);
    let attempt = job.life.attempts;
    let last = !failure.retryable || attempt >= job.most_attempts(&config) && !Mutant::RetryForever.on();
    let random = decision.random();
    let wait = failure.retry_after.unwrap_or_else(|| job.retry(&config).wait(attempt, random));
    let run_at = decision.now().after(wait);
    let spent = usage.is_some_and(|usage| usage.iter().any(|usage| usage.amount > 0));
    let spent = spent && !Mutant::ForgetFailedUsage.on();
    if spent {
        settle(decision, id, usage, Unreported::Nothing)?;
    }
    let again = !last && !job.life.cancelling;
    // The hold was committed, so the next attempt needs a new one.
    let funds = if again && spent { Some(fund(decision, &job)) } else { None };
    let funded = !matches!(funds, Some(Err(_)));
    let run_again = (again && funded).then_some(run_at);
    let worker = job.life.lease.as_ref().expect("only a leased job fails").worker.clone();
    let (fence, error) = (job.life.fence, failure.error);
    decision.emit(match how {
        LeaseEnd::Lapsed => Event::JobRescued { job: id, fence, attempt, worker, error, run_at: run_again },
        _ => Event::JobFailed { job: id, fence, attempt, worker, error, run_at: run_again },
    });
    match funds {
        Some(Ok(Some(funding))) => fund_with(decision, id, funding),
        Some(Err(shortage)) => park(decision, id, shortage),
        Some(Ok(None)) | None => {}
    }
    if !again {
        if job.life.cancelling || !Mutant::KeepDeadHold.on() {
            release(decision, id)?;
        }
        let end_event = if job.life.cancelling && !Mutant::CancelledDies.on() {
            Event::JobCancelled { job: id }
        } else {
            Event::JobDied { job: id }
        };
        decision.emit(end_event);
    }
    Ok(())
}

/// Cancels a job whose cancellation was requested while it ran.
fn cancel_if_requested(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    if decision.job(id)?.life.cancelling {
        release(decision, id)?;
        decision.emit(Event::JobCancelled { job: id });
    }
    Ok(())
}

/// The scope that refused the hold of another attempt, and when to try again.
pub(super) struct Shortage {
    pub(super) scope: Scope,
    run_at: Time,
}

/// A hold for another attempt, which is not placed yet.
pub(super) struct Funding {
    hold: HoldId,
    events: Vec<Event>,
}

impl Funding {
    /// Places the hold.
    pub(super) fn place(self, decision: &mut Decision<'_>) -> HoldId {
        self.events.into_iter().for_each(|event| decision.emit(event));
        self.hold
    }
}

/// Admits a hold like the one the job had, if it had one. Does not place it.
pub(super) fn fund(decision: &mut Decision<'_>, job: &Job) -> Result<Option<Funding>, Shortage> {
    let old = job.hold.and_then(|id| decision.ws.holds.get(&id)).cloned();
    let Some(old) = old else { return Ok(None) };
    let id = decision.new_hold();
    match place_again(decision, &old, job.id, id) {
        Ok(funding) => Ok(Some(funding)),
        Err(refusal) => {
            let scope = match &refusal {
                Refusal::Refused(violations) => violations.iter().find_map(|violation| match violation {
                    Violation::Limit { scope, .. } | Violation::Frozen { scope } => Some(scope.clone()),
                    Violation::Grant { .. } => None,
                }),
                _ => None,
            };
            let scope = scope.unwrap_or_else(|| old.charges[0].scope.clone());
            let wait_max = crate::bounds::AWAIT_MAX;
            let wait = refusal.retry_after().map_or(wait_max, |wait| wait.min(wait_max));
            Err(Shortage { scope, run_at: decision.now().after(wait.max(Span::from_millis(1))) })
        }
    }
}

/// Places the hold of a job's next attempt.
pub(super) fn fund_with(decision: &mut Decision<'_>, job: JobId, funding: Funding) {
    let hold = funding.place(decision);
    decision.emit(Event::JobFunded { job, hold });
}

/// Parks a job until its budget admits another attempt.
pub(super) fn park(decision: &mut Decision<'_>, job: JobId, shortage: Shortage) {
    let Shortage { scope, run_at } = shortage;
    decision.emit(Event::JobParked { job, scope, run_at });
}

/// Sets when a parked job that still lacks units is tried again. This follows from time and has no event.
pub(super) fn retry_budget_later(decision: &mut Decision<'_>, id: JobId, shortage: &Shortage) {
    let job = decision.ws.jobs.get_mut(&id).expect("the job was just read");
    job.life.run_at = if Mutant::NeverLookAgain.on() { Time::NEVER } else { shortage.run_at };
}

/// Admits a hold with the charges of an old one.
fn place_again(decision: &Decision<'_>, old: &Hold, job: JobId, hold: HoldId) -> Result<Funding, Refusal> {
    let tenant = &decision.context.tenant;
    let charges = old.charges.iter().map(|charge| Charge {
        scope: charge.scope.clone(),
        amount: charge.amount,
        limits: charge.limits.clone(),
        cover: None,
        default: None,
    });
    let charges: Vec<Charge> = charges.collect();
    let charges = admit::resolve(decision.ws, tenant, &charges)?;
    let Admitted { charged, shadowed: mut events } = admit::admit(&admit::Rows::new(decision.ws, tenant), charges)?;
    events.push(Event::HoldPlaced {
        hold,
        charges: charged,
        expires_at: Time::NEVER,
        life_until: Time::NEVER,
        late: Cover::Charge,
        overrun: old.overrun,
        job: Some(job),
        clamped: None,
        on_expiry: OnExpiry::Release,
    });
    Ok(Funding { hold, events })
}

/// Releases the hold of a job, if it is live.
pub(super) fn release(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    if let Some(hold) = live_hold(decision, id)? {
        let released = hold::release_owned(decision.ws, &decision.context.tenant, &hold)?;
        decision.emit(released);
    }
    Ok(())
}

/// Returns the hold of a job, if it is not settled.
fn live_hold(decision: &Decision<'_>, id: JobId) -> Result<Option<Hold>, Refusal> {
    let hold = decision.job(id)?.hold.and_then(|hold| decision.ws.holds.get(&hold));
    Ok(hold.filter(|hold| hold.state == HoldState::Held).cloned())
}

/// What a job's hold is committed with if the worker reports no usage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreported {
    /// All that was held.
    AsHeld,
    /// Nothing.
    Nothing,
}

/// Charges the reported usage: as the actual units of the hold's charges, and without a hold on other scopes.
fn settle(
    decision: &mut Decision<'_>,
    id: JobId,
    usage: Option<&[Usage]>,
    unreported: Unreported,
) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    let hold = live_hold(decision, id)?;
    let (actuals, unheld) = split_usage(decision, &job, hold.as_ref(), usage)?;
    let fence = job.life.fence;
    let committed = match &hold {
        Some(hold) => {
            let charges = hold.charges.iter().zip(&actuals).map(|(charge, actual)| {
                let all = usage.is_none() && unreported == Unreported::AsHeld;
                HeldCharge { actual: Some(if all { charge.amount } else { *actual }), ..charge.clone() }
            });
            Some(hold::commit_owned(decision.ws, &decision.context.tenant, hold, charges.collect())?)
        }
        None => None,
    };
    // Both events are built before the first is applied, because an applied event cannot be undone if the other is refused.
    let bill = bill(decision, id, fence, &unheld, false)?;
    if let Some(committed) = committed {
        decision.emit(committed);
    }
    if let Some(bill) = bill {
        // Computed again, because the commit has changed what the limits leave.
        let current = self::bill(decision, id, fence, &unheld, false).ok().flatten();
        decision.emit(current.unwrap_or(bill));
    }
    Ok(())
}

/// The units spent on each charge of the hold, and those on other scopes.
type Spent = (Vec<i64>, Vec<(Scope, i64)>);

/// Splits usage into what a hold has charges for and what it has not. Usage without a scope is for the hold's only
/// charge.
fn split_usage(
    decision: &Decision<'_>,
    job: &Job,
    hold: Option<&Hold>,
    usage: Option<&[Usage]>,
) -> Result<Spent, Refusal> {
    let charges: &[HeldCharge] = hold.map_or(&[], |hold| &hold.charges);
    let mut actuals = vec![0i64; charges.len()];
    let mut unheld: Vec<(Scope, i64)> = Vec::new();
    for usage in usage.unwrap_or_default() {
        let place = match &usage.scope {
            None if charges.len() == 1 => Some(0),
            None => return Err(Refusal::UsageAmbiguous { job: job.id, charges: charges.len() }),
            Some(scope) => charges.iter().position(|charge| charge.scope == *scope),
        };
        let (sum, scope) = match (place, &usage.scope) {
            (Some(place), _) => (&mut actuals[place], &charges[place].scope),
            (None, Some(scope)) => {
                check_charge(decision, job, scope)?;
                let place = unheld.iter().position(|(known, _)| known == scope).unwrap_or_else(|| {
                    unheld.push((scope.clone(), 0));
                    unheld.len() - 1
                });
                (&mut unheld[place].1, scope)
            }
            (None, None) => unreachable!("usage without a scope is for the hold's only charge"),
        };
        *sum = sum.checked_add(usage.amount).ok_or_else(|| Refusal::Overflow { scope: scope.clone() })?;
    }
    let tenant = &decision.context.tenant;
    let unknown = |scope: &Scope| admit::row(decision.ws, tenant, scope).is_none_or(|row| row.version == 0);
    match unheld.iter().find(|(scope, _)| unknown(scope)) {
        Some((scope, _)) => Err(Refusal::UnknownScope { scope: scope.clone() }),
        None => Ok((actuals, unheld)),
    }
}

/// Refuses a principal that charges a scope its job may not charge: one outside the job's hold or, without a hold,
/// outside the principal's capabilities.
fn check_charge(decision: &Decision<'_>, job: &Job, scope: &Scope) -> Result<(), Refusal> {
    let Some(reporter) = decision.context.reporter.as_ref().filter(|_| !Mutant::ChargeAnyScope.on()) else {
        return Ok(());
    };
    let hold = job.hold.and_then(|hold| decision.ws.holds.get(&hold));
    let allowed = match hold {
        Some(hold) => hold.charges.iter().any(|charge| charge.scope == *scope),
        None => reporter.may_charge(scope),
    };
    if allowed {
        Ok(())
    } else {
        Err(Refusal::ForeignCharge { job: job.id, scope: scope.clone(), held: hold.is_some() })
    }
}

/// Builds the event that charges spend without a hold, if there is any. The units have been spent, so no limit refuses them.
fn bill(
    decision: &Decision<'_>,
    id: JobId,
    fence: u64,
    spent: &[(Scope, i64)],
    lost: bool,
) -> Result<Option<Event>, Refusal> {
    let tenant = &decision.context.tenant;
    let spent = spent.iter().filter(|(_, amount)| *amount > 0).map(|(scope, amount)| HeldCharge {
        scope: scope.clone(),
        amount: *amount,
        actual: None,
        ancestors: decision.ws.ancestors(tenant, scope),
        limits: Vec::new(),
    });
    let spent: Vec<HeldCharge> = spent.collect();
    if spent.is_empty() {
        return Ok(None);
    }
    let charges: Vec<Charged> = hold::charge_spent(decision.ws, tenant, spent)?;
    Ok(Some(Event::JobBilled { job: id, fence, charges, lost }))
}

/// Charges what the worker of a lapsed lease reports, once. Returns whether it is charged, now or by an earlier report.
fn bill_lost(decision: &mut Decision<'_>, id: JobId, fence: u64, usage: Option<&[Usage]>) -> Result<bool, Refusal> {
    let job = decision.job(id)?.clone();
    // A lease that its worker ended was settled with the usage reported then.
    let known = job.life.lapsed.iter().find(|lapsed| lapsed.fence == fence).cloned();
    let settled = Mutant::BillSettled.on() && fence < job.life.fence;
    let Some(lapsed) = known.or_else(|| settled.then_some(Lapsed { fence, billed: false, owner: None })) else {
        return Ok(false);
    };
    if lapsed.billed && !Mutant::BillLostTwice.on() || Mutant::DropLostSpend.on() {
        return Ok(lapsed.billed);
    }
    let hold = job.hold.and_then(|hold| decision.ws.holds.get(&hold)).cloned();
    let (actuals, mut spent) = split_usage(decision, &job, hold.as_ref(), usage)?;
    let charges = hold.iter().flat_map(|hold| &hold.charges);
    spent.extend(charges.zip(actuals).map(|(charge, actual)| (charge.scope.clone(), actual)));
    match bill(decision, id, fence, &spent, true)? {
        Some(event) => {
            decision.emit(event);
            Ok(true)
        }
        None => Ok(false),
    }
}

/// Makes the barred heads of a job's line ready again, after the job freed a slot of its flow key.
fn unbar_line(decision: &mut Decision<'_>, id: JobId) {
    let Ok(job) = decision.job(id) else { return };
    let Some(line) = job.line() else { return };
    let barred = decision.ws.barred.remove(&(job.tenant.clone(), line)).unwrap_or_default();
    if Mutant::StayBarred.on() {
        return;
    }
    for id in barred {
        decision.ws.unbar(id);
    }
}

/// Returns whether the lines of these jobs have barred heads that are not loaded. They must be loaded before a slot is
/// freed.
pub(super) fn barred_heads_not_loaded(decision: &Decision<'_>, ids: impl Iterator<Item = JobId>) -> bool {
    let mut lines = ids.filter_map(|id| {
        let job = decision.job(id).ok().filter(|job| job.life.state == JobState::Leased)?;
        Some((job.tenant.clone(), job.line()?))
    });
    lines.any(|line| {
        let barred = decision.ws.scopes.get(&line).map_or(0, |row| row.line.barred);
        barred > decision.ws.barred.get(&line).map_or(0, |known| known.len() as u64)
    })
}
