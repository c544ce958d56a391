//! Decisions: the events of a request, or why it is refused. Every rule of Bursar is in this module.
//!
//! A decision depends only on the loaded rows, the request, the rules, the instant of the workspace and the source of ids.
//! Nothing here reads a clock, a database or a random number, so the same inputs always lead to the same events.
//!
//! Every request goes through the same steps:
//!
//! 1. `replay` looks up the idempotency key. If it was used before, the first answer is returned again.
//! 2. `preconditions` refuses, among others, to change a definition that is not the one the caller has read (`if_match`).
//! 3. The module of the operation decides its events. `Decision` applies them to the workspace, so that the next request
//!    of the batch is decided on the rows as this one leaves them.
//! 4. `consequence` adds follow-up events: crossed thresholds, trip limits, freezes that end.
//! 5. The answer is rendered from the events, and the entry of the journal is added to the workspace.

mod admit;
mod blob;
mod budget;
mod consequence;
mod decision;
mod finish;
mod grant;
mod hold;
mod job;
mod lease;
mod preconditions;
mod queue;
mod replay;
mod rules;
mod schedule;
mod submit;

use std::sync::Arc;

use crate::answer::{Answer, Outcome};
use crate::apply::apply;
pub use crate::apply::{Gap, reapply_for};
use crate::decide::decision::{Decision, Stop};
use crate::decide::replay::KeyLookup;
pub use crate::decide::rules::{Rules, TenantRetention};
use crate::event::{Acted, Entry, Event, KeyUse, Recorded, RecordedAction};
use crate::id::{CommandId, IdSource};
use crate::job::QueueConfig;
use crate::mutant::Mutant;
use crate::name::Queue;
use crate::refusal::Refusal;
use crate::request::{CheckedRequest, Op};
use crate::state::{KeyRow, ScopeKey, Workspace};
use crate::wakes::WakeUps;

/// The result of deciding one request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It was executed or refused.
    Answered(Result<Outcome, Refusal>),
    /// Rows are missing, or more is due on one of its scopes than one transaction folds. Commit the transaction, then load
    /// and decide the request again.
    Again,
}

/// Decides one request, applies its events to the workspace and adds its entry to those of the batch. If the request is
/// refused or must be decided again, no event is applied.
pub fn decide(ws: &mut Workspace, request: &CheckedRequest, rules: &Rules, ids: &mut (dyn IdSource + Send)) -> Decided {
    match run(ws, request, rules, ids) {
        Ok(outcome) => Decided::Answered(Ok(outcome)),
        Err(Stop::Refused(refusal)) => Decided::Answered(Err(refusal)),
        Err(Stop::Reload) => Decided::Again,
    }
}

fn run(
    ws: &mut Workspace,
    request: &CheckedRequest,
    rules: &Rules,
    ids: &mut (dyn IdSource + Send),
) -> Result<Outcome, Stop> {
    preconditions::scopes_are_folded(ws, request)?;
    preconditions::windows_are_kept(request, rules)?;
    let key = match replay::look_up(ws, request, rules)? {
        KeyLookup::Used(outcome) => return Ok(outcome),
        KeyLookup::Unused(key) => key,
    };
    preconditions::is_unchanged(ws, request)?;
    preconditions::zones_are_known(ws, request)?;

    let queue_before = defined_queue(ws, request);
    let command = CommandId(ids.next_id(ws.now));
    let applies = !request.dry_run || Mutant::DryRunWrites.on();
    let context = &request.context;
    let mut decision = Decision { ws, context, ids, events: Vec::new(), attempts: Vec::new(), applies };
    let answer = operate(&mut decision, request, rules)?;
    let (events, attempts) = (decision.events, decision.attempts);

    let (context, wakes) = (context.recorded(), WakeUps::default());
    let mut entry = Entry { id: command, context, key, events, wakes, attempts };
    if applies {
        add_consequences(ws, request, &mut entry);
    }
    let mut answer = answer.unwrap_or_else(|| replay::render(ws, &entry));
    record_action(request, &mut answer, entry.key.as_mut());

    // A command whose jobs all existed already has changed nothing.
    let changes = entry.events.iter().any(|recorded| !matches!(recorded.e, Event::JobFound { .. }));
    if request.dry_run || !changes {
        return Ok(Outcome { command, replayed: false, answer, entry: None });
    }
    remember_key(ws, &entry);
    entry.wakes = WakeUps::of(ws, &entry);
    if let Some((queue, before)) = queue_before {
        let after = defined_queue(ws, request).map(|(_, config)| config).unwrap_or_default();
        entry.wakes.of_queue(queue, &before, &after);
    }
    let entry = Arc::new(entry);
    let forgotten = Mutant::ForgetReleaseEvent.on() && matches!(request.op, Op::Release { .. });
    ws.entries.extend((!forgotten).then(|| entry.clone()));
    Ok(Outcome { command, replayed: false, answer, entry: Some(entry) })
}

/// Decides and records the events of an operation. Returns an answer if it cannot be rendered from the events, as for
/// operations on jobs, which are answered job by job.
fn operate(decision: &mut Decision<'_>, request: &CheckedRequest, rules: &Rules) -> Result<Option<Answer>, Stop> {
    let context = decision.context;
    let ws = &*decision.ws;
    let events = match &request.op {
        Op::Submit(command) => submit::submit(ws, context, command, rules, decision.ids)?,
        Op::Commit { hold, actual } => hold::commit(ws, context, *hold, actual)?,
        Op::Release { hold } => hold::release(ws, context, *hold)?,
        Op::Extend { hold, by } => hold::extend(ws, context, *hold, *by)?,
        Op::Credit { scope, amount, hold } => hold::credit(ws, context, scope, *amount, *hold)?,
        Op::Expire { holds } => {
            let events = hold::expire(ws, context, holds);
            return decision.sweep(events);
        }
        Op::Define { scope, budget } => budget::define(ws, context, scope, budget)?,
        Op::RemoveBudget { scope } => budget::remove(ws, context, scope)?,
        Op::Freeze { scope } => budget::freeze(ws, context, scope)?,
        Op::Unfreeze { scope } => budget::unfreeze(ws, context, scope)?,
        Op::Mint(mint) => grant::mint(ws, mint),
        Op::Rotate { grant, mint, overlap } => grant::rotate(ws, context, *grant, mint, *overlap)?,
        Op::Use { grant } => grant::used(ws, context, *grant)?,
        Op::Revoke { grant } => grant::revoke(ws, context, *grant)?,
        Op::EraseGrant { grant } => grant::erase(ws, context, *grant)?,
        Op::PurgeGrants { grants } => {
            let events = grant::purge(ws, context, grants);
            return decision.sweep(events);
        }
        Op::Tidy { .. } => Vec::new(),
        Op::DefineQueue { queue, config } => queue::define(queue, config),
        Op::PauseQueue { queue, paused } => queue::pause(ws, context, queue, *paused),
        Op::Blob(op) => return blob::operate(decision, op, rules),
        Op::Lease(lease) => return job::lease(decision, lease).map(Some),
        Op::Heartbeat { beats } => return Ok(Some(job::heartbeat(decision, beats))),
        Op::Emit(emit) => {
            lease::emit(decision, emit)?;
            return Ok(Some(Answer::Done));
        }
        Op::Finish { items } => return job::finish(decision, items).map(Some),
        Op::Act { act, jobs } => return job::act(decision, act, jobs).map(Some),
        Op::DefineSchedule { schedule, spec } => {
            schedule::define(decision, schedule, spec)?;
            return Ok(Some(Answer::Done));
        }
        Op::PauseSchedule { schedule, paused } => {
            schedule::pause(decision, schedule, *paused)?;
            return Ok(Some(Answer::Done));
        }
        Op::RemoveSchedule { schedule } => {
            schedule::remove(decision, schedule)?;
            return Ok(Some(Answer::Done));
        }
        Op::RunSchedule { schedule } => return Ok(Some(job::answer_enqueued(schedule::run(decision, schedule)?))),
        Op::Tick { schedule } => {
            schedule::tick(decision, schedule)?;
            return Ok(Some(Answer::Done));
        }
    };
    decision.record(events);
    Ok(None)
}

/// Adds the consequences of the events for the scopes that they touch.
fn add_consequences(ws: &mut Workspace, request: &CheckedRequest, entry: &mut Entry) {
    let tenant = &entry.context.tenant;
    let key = |scope: &_| (tenant.clone(), Clone::clone(scope));
    let mut touched: Vec<ScopeKey> = match &request.op {
        Op::Tidy { scopes } => scopes.iter().map(key).collect(),
        // The spend so far may already exceed a new threshold or trip.
        Op::Define { scope, .. } => vec![key(scope)],
        _ => entry.events.iter().flat_map(|recorded| recorded.e.scopes()).map(key).collect(),
    };
    touched.sort();
    touched.dedup();
    for scope in touched {
        for e in consequence::of(ws, &scope) {
            let v = apply(ws, &entry.context, &e);
            entry.events.push(Recorded { v, e, t: None });
        }
    }
}

/// Sets whether more parts of an action follow, and records the answer with the idempotency key, because it cannot be
/// rendered from events.
fn record_action(request: &CheckedRequest, answer: &mut Answer, key: Option<&mut KeyUse>) {
    let (Op::Act { jobs, .. }, Answer::Acted { each, more }) = (&request.op, answer) else { return };
    *more = request.part.is_some_and(|part| part.more);
    if let Some(key) = key {
        let jobs = jobs.iter().zip(&*each).map(|(job, answer)| RecordedAction::of(*job, answer)).collect();
        key.acted = Some(Acted { jobs, more: *more });
    }
}

/// Returns the queue that a request defines, and the settings that the workspace has for it.
fn defined_queue<'a>(ws: &Workspace, request: &'a CheckedRequest) -> Option<(&'a Queue, QueueConfig)> {
    let Op::DefineQueue { queue, .. } = &request.op else { return None };
    Some((queue, queue::config(ws, &request.context, queue)))
}

/// Adds the row of the entry's idempotency key.
fn remember_key(ws: &mut Workspace, entry: &Entry) {
    if let Some(KeyUse { key, fingerprint, until, .. }) = entry.key.as_ref().filter(|_| !Mutant::ForgetKey.on()) {
        let row = KeyRow { fingerprint: *fingerprint, batch: ws.batch, command: entry.id, until: *until };
        ws.keys.put((entry.context.tenant.clone(), key.clone()), row);
    }
}

/// Applies an entry of the journal again.
///
/// # Panics
/// If the version of a stream differs from the recorded one: the journal and the rules disagree.
pub fn reapply(ws: &mut Workspace, entry: &Entry) {
    for recorded in &entry.events {
        let version = apply(ws, &entry.context, &recorded.e);
        assert_eq!(version, recorded.v, "{} of {}: version", recorded.e.kind(), entry.id);
    }
    remember_key(ws, entry);
}
