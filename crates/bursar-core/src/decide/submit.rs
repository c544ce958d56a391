//! Commands: charges, redemptions and jobs, all or nothing.

use std::collections::HashMap;

use crate::answer::Placed;
use crate::bounds::{TTL_MAX, TTL_MIN};
use crate::budget::{Budget, Cover};
use crate::context::Context;
use crate::decide::{Rules, admit, grant};
use crate::event::{Charged, Entry, Event, Recorded};
use crate::id::{HoldId, IdSource, JobId};
use crate::name::Tenant;
use crate::payload::Payload;
use crate::refusal::{Invalid, Refusal};
use crate::request::{Command, Settle};
use crate::state::Workspace;
use crate::time::{Span, Time};

pub(super) fn submit(
    ws: &Workspace,
    context: &Context,
    command: &Command,
    rules: &Rules,
    ids: &mut (dyn IdSource + Send),
) -> Result<Vec<Event>, Refusal> {
    let tenant = &context.tenant;
    if let Some(found) = owner_found(ws, tenant, command) {
        return Ok(found);
    }
    let rows = admit::Rows::with_defaults(ws, tenant, &command.charges)?;
    let charged = charges(ws, tenant, &rows, command)?;
    let redeemed = grant::redeem(ws, tenant, &command.redeem);
    let (charged, (redeemed, granted)) = match (charged, redeemed) {
        (Ok(charged), Ok(redeemed)) => (charged, redeemed),
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
    if !charged.is_empty() {
        events.push(match &command.settle {
            Settle::Now => Event::Posted { charges: charged },
            Settle::Hold { ttl } => {
                let term = Term::Ttl(ttl.unwrap_or(Span::ZERO), rules.hold_ttl);
                place(ws, &rows, command, hold, charged, &term)?
            }
            Settle::Job => {
                let term = Term::Job(owner.expect("the first job is new"));
                place(ws, &rows, command, hold, charged, &term)?
            }
        });
    }
    events.extend(redeemed);
    events.extend(jobs);
    Ok(events)
}

/// The job that was to own the hold is there already: nothing is charged or redeemed.
fn owner_found(ws: &Workspace, tenant: &Tenant, command: &Command) -> Option<Vec<Event>> {
    if command.settle != Settle::Job {
        return None;
    }
    let first = command.jobs.first()?;
    let key = first.idempotency_key.clone()?;
    let job = ws.job_keys.get(&(tenant.clone(), first.queue.clone(), key))?;
    Some(vec![Event::JobFound { job: *job }])
}

/// The hold of the job that was found in the place of the owner: returned as it was placed.
pub(super) fn hold_found(ws: &Workspace, entry: &Entry) -> Option<Placed> {
    let [Recorded { e: Event::JobFound { job }, .. }] = entry.events.as_slice() else { return None };
    let hold = ws.holds.get(&ws.jobs.get(job)?.hold?)?;
    let charges = hold.charges.iter().map(|charge| Charged::new(charge.clone(), Vec::new())).collect();
    Some(Placed { id: hold.id, expires_at: hold.expires_at, charges })
}

type Violated<T> = Result<T, Vec<crate::refusal::Violation>>;

/// The charges, admitted; violations apart, so that those of grants can join them.
fn charges(
    ws: &Workspace,
    tenant: &Tenant,
    rows: &admit::Rows<'_>,
    command: &Command,
) -> Result<Violated<Vec<Charged>>, Refusal> {
    let resolved = admit::resolve(ws, tenant, &command.charges)?;
    match admit::admit(rows, resolved) {
        Ok(charged) => Ok(Ok(charged)),
        Err(Refusal::Refused(violations)) => Ok(Err(violations)),
        Err(refusal) => Err(refusal),
    }
}

/// How long a hold lives.
enum Term {
    /// As asked (zero: not said), else by default.
    Ttl(Span, Span),
    /// As long as the job.
    Job(JobId),
}

fn place(
    ws: &Workspace,
    rows: &admit::Rows<'_>,
    command: &Command,
    hold: HoldId,
    charges: Vec<Charged>,
    term: &Term,
) -> Result<Event, Refusal> {
    let scopes = charges.iter().flat_map(Charged::scopes);
    let budgets: Vec<&Budget> = scopes.filter_map(|s| rows.get(s)?.budget.as_deref()).collect();
    let refuses = |policy: fn(&Budget) -> Cover| {
        let budget = budgets.iter().any(|budget| policy(budget) == Cover::Refuse);
        let asked = command.charges.iter().any(|charge| charge.cover == Some(Cover::Refuse));
        if budget || asked { Cover::Refuse } else { Cover::Charge }
    };
    let (expires_at, life_until, job) = match *term {
        Term::Job(job) => (Time::NEVER, Time::NEVER, Some(job)),
        Term::Ttl(asked, default) => {
            let life = budgets.iter().filter_map(|budget| budget.hold.life_max).min();
            let life_until = life.map_or(Time::NEVER, |life| ws.now.after(life));
            (ws.now.after(ttl(asked, default, &budgets)?).min(life_until), life_until, None)
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
    })
}

/// The time to live that is granted: within the policies of all budgets concerned.
fn ttl(asked: Span, default: Span, budgets: &[&Budget]) -> Result<Span, Refusal> {
    let Some(most) = budgets.iter().map(|budget| budget.hold.ttl_max).min() else {
        let ttl = if asked == Span::ZERO { default } else { asked };
        if !(TTL_MIN..=TTL_MAX).contains(&ttl) {
            let problem =
                format!("must be from {} to {} without a registered budget", TTL_MIN.millis(), TTL_MAX.millis());
            return Err(Invalid::new("ttl_ms", problem).into());
        }
        return Ok(ttl);
    };
    let least = budgets.iter().map(|budget| budget.hold.ttl_min).max().unwrap_or(TTL_MIN);
    let set = budgets.iter().filter_map(|budget| budget.hold.ttl).min();
    let wanted = if asked == Span::ZERO { set.unwrap_or(default) } else { asked };
    // Where the policies of two budgets do not meet, the one that frees units sooner wins.
    Ok(wanted.max(least).min(most))
}

fn jobs(
    ws: &Workspace,
    tenant: &Tenant,
    command: &Command,
    hold: HoldId,
    granted: Option<&Payload>,
    ids: &mut (dyn IdSource + Send),
) -> Vec<Event> {
    let mut twins = HashMap::new();
    let mut events = Vec::with_capacity(command.jobs.len());
    for (place, asked) in command.jobs.iter().enumerate() {
        let key = asked.idempotency_key.clone().map(|key| (tenant.clone(), asked.queue.clone(), key));
        let found = key.as_ref().and_then(|key| ws.job_keys.get(key).or_else(|| twins.get(key)));
        if let Some(job) = found {
            events.push(Event::JobFound { job: *job });
            continue;
        }
        let job = JobId(ids.next_id(ws.now));
        twins.extend(key.map(|key| (key, job)));
        let mut spec = asked.clone();
        if spec.payload_from_grant {
            spec.payload = granted.cloned().unwrap_or_default();
        }
        events.push(Event::JobEnqueued {
            job,
            run_at: ws.now.after(spec.delay),
            spec: Box::new(spec),
            hold: (place == 0 && command.settle == Settle::Job).then_some(hold),
        });
    }
    events
}
