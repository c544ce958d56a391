//! Decides commands: charges, redemptions and jobs, all of them or none.
//!
//! Limits and grants are both checked, so that a refusal names every violation. The charges are posted, held for a
//! while, or held by the first job. If a job's idempotency key is taken, the existing job is returned; if that is the
//! job that would own the hold, nothing is charged or redeemed either.

use std::collections::HashMap;

use crate::answer::Placed;
use crate::bounds::{TTL_MAX, TTL_MIN};
use crate::budget::{Budget, Cover};
use crate::context::Context;
use crate::decide::admit::Admitted;
use crate::decide::{Rules, admit, blob, grant};
use crate::event::{Charged, Entry, Event, Recorded};
use crate::hold::ClampedTtl;
use crate::id::{HoldId, IdSource, JobId};
use crate::mutant::Mutant;
use crate::name::Tenant;
use crate::payload::Payload;
use crate::refusal::{Invalid, Refusal};
use crate::request::{Command, Settle};
use crate::state::Workspace;
use crate::time::{Span, Time};

/// Decides a command.
pub(super) fn submit(
    ws: &Workspace,
    context: &Context,
    command: &Command,
    rules: &Rules,
    ids: &mut (dyn IdSource + Send),
) -> Result<Vec<Event>, Refusal> {
    let tenant = &context.tenant;
    if let Some(found) = existing_owner(ws, tenant, command) {
        return Ok(found);
    }
    let rows = admit::Rows::with_defaults(ws, tenant, &command.charges)?;
    let admitted = charges(ws, tenant, &rows, command)?;
    let redeemed = grant::redeem(ws, tenant, &command.redeem);
    let (admitted, (redeemed, granted)) = match (admitted, redeemed) {
        (Ok(admitted), Ok(redeemed)) => (admitted, redeemed),
        (Err(mut limits), Err(grants)) => {
            limits.extend(grants);
            return Err(Refusal::Refused(limits));
        }
        (Err(violations), Ok(_)) | (Ok(_), Err(violations)) => return Err(Refusal::Refused(violations)),
    };
    let hold = HoldId(ids.next_id(ws.now));
    let jobs = jobs(ws, tenant, command, hold, granted.as_ref(), ids);
    let owner = match (&command.settle, jobs.first()) {
        (Settle::Job, Some(Event::JobEnqueued { job, .. })) => Some(*job),
        _ => None,
    };
    let mut events: Vec<Event> = rows.definitions().collect();
    events.reserve(1 + redeemed.len() + jobs.len());
    let Admitted { charged, shadowed } = admitted;
    events.extend(shadowed);
    if !charged.is_empty() {
        events.push(match &command.settle {
            Settle::Now => Event::Posted { charges: charged },
            Settle::Hold { ttl } => {
                let term = HoldTerm::Ttl { requested: *ttl, rules };
                place(ws, &rows, command, hold, charged, &term)?
            }
            Settle::Job => {
                let term = HoldTerm::Job(owner.expect("the first job is new"));
                place(ws, &rows, command, hold, charged, &term)?
            }
        });
    }
    events.extend(redeemed);
    let references = references(ws, tenant, command, &jobs)?;
    events.extend(jobs);
    events.extend(references);
    Ok(events)
}

/// Builds the events for the references of new jobs and of the application to blobs.
fn references(ws: &Workspace, tenant: &Tenant, command: &Command, jobs: &[Event]) -> Result<Vec<Event>, Refusal> {
    let named: Vec<_> = command.references.iter().map(|reference| (reference.blob, &reference.by)).collect();
    let mut events = blob::references(ws, tenant, &named)?;
    for event in jobs {
        if let Event::JobEnqueued { job, spec, .. } = event {
            events.extend(blob::job_references(ws, tenant, *job, &spec.blobs, &[])?);
        }
    }
    Ok(events)
}

/// Returns the event for a job that exists already under the key of the job that would own the hold.
fn existing_owner(ws: &Workspace, tenant: &Tenant, command: &Command) -> Option<Vec<Event>> {
    if command.settle != Settle::Job {
        return None;
    }
    let first = command.jobs.first()?;
    let key = first.idempotency_key.clone()?;
    let job = ws.job_keys.get(&(tenant.clone(), first.queue.clone(), key))?;
    Some(vec![Event::JobFound { job: *job }])
}

/// Returns the hold of an existing job that was found in place of a new owner, as it was placed.
pub(super) fn hold_found(ws: &Workspace, entry: &Entry) -> Option<Placed> {
    let [Recorded { e: Event::JobFound { job }, .. }] = entry.events.as_slice() else { return None };
    let hold = ws.holds.get(&ws.jobs.get(job)?.hold?).filter(|_| !Mutant::ForgetFoundHold.on())?;
    let charges = hold.charges.iter().map(|charge| Charged::new(charge.clone(), Vec::new())).collect();
    Some(Placed { id: hold.id, expires_at: hold.expires_at, charges, clamped: None })
}

type Violated<T> = Result<T, Vec<crate::refusal::Violation>>;

/// Admits the charges. Violations are returned apart from other refusals, so that those of grants can be added.
fn charges(
    ws: &Workspace,
    tenant: &Tenant,
    rows: &admit::Rows<'_>,
    command: &Command,
) -> Result<Violated<Admitted>, Refusal> {
    let resolved = admit::resolve(ws, tenant, &command.charges)?;
    match admit::admit(rows, resolved) {
        Ok(admitted) => Ok(Ok(admitted)),
        Err(Refusal::Refused(violations)) => Ok(Err(violations)),
        Err(refusal) => Err(refusal),
    }
}

/// How long a hold lives.
enum HoldTerm<'a> {
    /// For a time to live.
    Ttl {
        /// The requested one; `None` or zero for the default.
        requested: Option<Span>,
        /// The installation's defaults.
        rules: &'a Rules,
    },
    /// Until the job ends.
    Job(JobId),
}

/// Builds the event that places a hold. The strictest policy of all budgets and charges applies.
fn place(
    ws: &Workspace,
    rows: &admit::Rows<'_>,
    command: &Command,
    hold: HoldId,
    charges: Vec<Charged>,
    term: &HoldTerm<'_>,
) -> Result<Event, Refusal> {
    let scopes = charges.iter().flat_map(Charged::scopes);
    let budgets: Vec<&Budget> = scopes.filter_map(|s| rows.get(s)?.budget.as_deref()).collect();
    let refuses = |policy: fn(&Budget) -> Cover| {
        let budget = budgets.iter().any(|budget| policy(budget) == Cover::Refuse);
        let charge = command.charges.iter().any(|charge| charge.cover == Some(Cover::Refuse));
        if budget || charge { Cover::Refuse } else { Cover::Charge }
    };
    let (expires_at, life_until, job, clamped) = match *term {
        HoldTerm::Job(job) => (Time::NEVER, Time::NEVER, Some(job), None),
        HoldTerm::Ttl { requested, rules } => {
            let lives = budgets.iter().filter_map(|budget| budget.hold.life_max);
            let life = lives.min().filter(|_| !Mutant::IgnoreLifeMax.on());
            let life_until = life.map_or(Time::NEVER, |life| ws.now.after(life));
            let requested = requested.filter(|ttl| *ttl != Span::ZERO);
            let expires_at = ws.now.after(ttl(requested, rules, &budgets)?).min(life_until);
            let clamped = requested.and_then(|ttl| ClampedTtl::of(ttl, expires_at.since(ws.now)));
            (expires_at, life_until, None, clamped)
        }
    };
    Ok(Event::HoldPlaced {
        hold,
        charges,
        expires_at,
        life_until,
        late: refuses(|budget| budget.hold.late),
        overrun: refuses(|budget| budget.hold.overrun),
        job,
        clamped,
        on_expiry: command.on_expiry,
    })
}

/// Returns the time to live of a hold, clamped to the policies of all budgets it charges.
fn ttl(requested: Option<Span>, rules: &Rules, budgets: &[&Budget]) -> Result<Span, Refusal> {
    let Some(ttl_max) = budgets.iter().map(|budget| budget.hold.longest(rules.hold_ttl_max)).min() else {
        let ttl = requested.unwrap_or(rules.hold_ttl);
        if !(TTL_MIN..=TTL_MAX).contains(&ttl) {
            let problem =
                format!("must be from {} to {} without a registered budget", TTL_MIN.millis(), TTL_MAX.millis());
            return Err(Invalid::new("ttl_ms", problem).into());
        }
        return Ok(ttl);
    };
    let ttl_min = budgets.iter().map(|budget| budget.hold.ttl_min).max().unwrap_or(TTL_MIN);
    let set = budgets.iter().filter_map(|budget| budget.hold.ttl).min();
    let wanted = requested.or(set).unwrap_or(rules.hold_ttl);
    if Mutant::IgnoreTtlPolicy.on() {
        return Ok(wanted);
    }
    // If the policies of two budgets do not overlap, the shorter time wins.
    Ok(wanted.max(ttl_min).min(ttl_max))
}

/// Builds the events of the command's jobs. The first one owns the hold if the command says so.
fn jobs(
    ws: &Workspace,
    tenant: &Tenant,
    command: &Command,
    hold: HoldId,
    granted: Option<&Payload>,
    ids: &mut (dyn IdSource + Send),
) -> Vec<Event> {
    let mut new_keys = HashMap::new();
    let mut events = Vec::with_capacity(command.jobs.len());
    for (index, requested) in command.jobs.iter().enumerate() {
        let key = requested.idempotency_key.clone().map(|key| (tenant.clone(), requested.queue.clone(), key));
        let found = key.as_ref().and_then(|key| ws.job_keys.get(key).or_else(|| new_keys.get(key)));
        if let Some(job) = found {
            events.push(Event::JobFound { job: *job });
            continue;
        }
        let job = JobId(ids.next_id(ws.now));
        new_keys.extend(key.map(|key| (key, job)));
        let mut spec = requested.clone();
        if spec.payload_from_grant {
            spec.payload = granted.cloned().unwrap_or_default();
        }
        events.push(Event::JobEnqueued {
            job,
            run_at: ws.now.after(spec.delay),
            spec: Box::new(spec),
            hold: (index == 0 && command.settle == Settle::Job).then_some(hold),
        });
    }
    events
}
