//! Decisions: pure functions of the loaded rows, the request and the time. Every rule lives below here.

mod admit;
mod budget;
mod consequence;
mod deed;
mod finish;
mod grant;
mod hold;
mod job;
mod lease;
mod schedule;
mod submit;

use crate::answer::{Answer, Outcome};
use crate::apply::apply;
use std::borrow::Cow;
use std::sync::Arc;

use crate::bounds::LENGTH_MAX;
use crate::budget::Budget;
use crate::decide::deed::Deed;
use crate::event::{Acted, ActedOn, Entry, Event, KeyUse, Recorded};
use crate::id::{CommandId, GrantId, IdSource};
use crate::job::QueueConfig;
use crate::mutant::Mutant;
use crate::needs::Needs;
use crate::refusal::{Invalid, Refusal};
use crate::request::{Fingerprint, IfMatch, Op, Request};
use crate::state::{KeyRow, ScopeKey, Workspace};
use crate::time::Span;
use crate::wakes::Wakes;
use crate::window::Window;

/// What can be set for a whole installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The time to live of a hold that asks for none, where no budget of its chain sets one; within what they allow.
    pub hold_ttl: Span,
    /// How long idempotency keys are remembered.
    pub key_kept: Span,
    /// How long single postings are kept: no window that is named may reach further back.
    pub postings_kept: Span,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { hold_ttl: Span::from_secs(60), key_kept: Span::from_days(7), postings_kept: LENGTH_MAX }
    }
}

/// What became of one request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It was done or refused.
    Answered(Result<Outcome, Refusal>),
    /// More is due on one of its scopes than one step folds: commit the fold and ask again.
    Again,
}

/// Decides one request and applies its events to the workspace.
pub fn decide(ws: &mut Workspace, request: &Request, rules: &Rules, ids: &mut (dyn IdSource + Send)) -> Decided {
    if !ws.unready.is_empty() {
        let mut wanted = Needs::of(request).scopes_in(ws);
        if wanted.any(|scope| ws.unready.contains(&scope)) {
            return Decided::Again;
        }
    }
    if (request.op.is_of_jobs() || request.op.is_of_schedules()) && request.check().is_ok() {
        if let Some(refusal) = unknown_zone(ws, request) {
            return Decided::Answered(Err(refusal));
        }
        return match work(ws, request, rules, ids) {
            Some(answer) => Decided::Answered(answer),
            None => Decided::Again,
        };
    }
    Decided::Answered(answer(ws, request, rules, ids))
}

/// Work on jobs, which is answered job by job. `None` when rows are lacking: load again.
fn work(
    ws: &mut Workspace,
    request: &Request,
    rules: &Rules,
    ids: &mut (dyn IdSource + Send),
) -> Option<Result<Outcome, Refusal>> {
    let mut key = match key_of(ws, request, rules) {
        Ok(Keyed::New(key)) => key,
        Ok(Keyed::Done(outcome)) => return Some(Ok(outcome)),
        Err(refusal) => return Some(Err(refusal)),
    };
    if let Err(refusal) = unchanged(ws, request) {
        return Some(Err(refusal));
    }
    let command = CommandId(ids.next_id(ws.now));
    let mut deed = Deed { ws, context: &request.context, ids, events: Vec::new() };
    let mut answer = match job::work(&mut deed, &request.op)? {
        Ok(answer) => answer,
        Err(refusal) => return Some(Err(refusal)),
    };
    let events = deed.events;
    if let (Op::Act { jobs, .. }, Answer::Acted { each, more }) = (&request.op, &mut answer) {
        *more = request.part.is_some_and(|part| part.more);
        if let Some(key) = &mut key {
            let jobs = jobs.iter().zip(&*each).map(|(job, answer)| ActedOn::of(*job, answer)).collect();
            key.acted = Some(Acted { jobs, more: *more });
        }
    }
    let mut entry = Entry { id: command, context: request.context.recorded(), key, events, wakes: Wakes::default() };
    let touched = entry.events.iter().flat_map(|r| r.e.scopes());
    let touched = touched.map(|scope| (entry.context.tenant.clone(), scope.clone())).collect();
    follow(ws, &mut entry, touched);
    entry.wakes = Wakes::of(ws, &entry);
    if !entry.events.is_empty() {
        remember(ws, &entry);
    }
    let entry = (!entry.events.is_empty()).then(|| Arc::new(entry));
    ws.entries.extend(entry.clone());
    Some(Ok(Outcome { command, replayed: false, answer, entry }))
}

fn answer(
    ws: &mut Workspace,
    request: &Request,
    rules: &Rules,
    ids: &mut (dyn IdSource + Send),
) -> Result<Outcome, Refusal> {
    request.check()?;
    reach(request, rules)?;
    let key = match key_of(ws, request, rules)? {
        Keyed::New(key) => key,
        Keyed::Done(outcome) => return Ok(outcome),
    };
    unchanged(ws, request)?;
    if let Some(refusal) = unknown_zone(ws, request) {
        return Err(refusal);
    }
    let command = CommandId(ids.next_id(ws.now));
    let before = match &request.op {
        Op::DefineQueue { queue, .. } => {
            let row = ws.queues.get(&(request.context.tenant.clone(), queue.clone()));
            Some((queue, row.map(|row| row.config.clone()).unwrap_or_default()))
        }
        _ => None,
    };
    let events = match &request.op {
        Op::Submit(asked) => submit::submit(ws, &request.context, asked, rules, ids)?,
        Op::Commit { hold, actual } => hold::commit(ws, &request.context, *hold, actual)?,
        Op::Release { hold } => hold::release(ws, &request.context, *hold)?,
        Op::Extend { hold, by } => hold::extend(ws, &request.context, *hold, *by)?,
        Op::Credit { scope, amount, hold } => hold::credit(ws, &request.context, scope, *amount, *hold)?,
        Op::Expire { holds } => hold::expire(ws, &request.context, holds),
        Op::Define { scope, budget } => budget::define(ws, &request.context, scope, budget)?,
        Op::Freeze { scope } => budget::freeze(ws, &request.context, scope)?,
        Op::Unfreeze { scope } => budget::unfreeze(ws, &request.context, scope)?,
        Op::Mint(mint) => grant::mint(ws, mint),
        Op::Rotate { grant, mint, overlap } => grant::rotate(ws, &request.context, *grant, mint, *overlap)?,
        Op::Use { grant } => grant::used(ws, &request.context, *grant)?,
        Op::Revoke { grant } => grant::revoke(ws, &request.context, *grant)?,
        Op::PurgeGrants { grants } => grant::purge(ws, &request.context, grants),
        Op::Tidy { .. } => Vec::new(),
        Op::DefineQueue { queue, config } => {
            vec![Event::QueueDefined { queue: queue.clone(), config: Box::new(config.clone()) }]
        }
        Op::PauseQueue { queue, paused } => {
            let row = ws.queues.get(&(request.context.tenant.clone(), queue.clone()));
            let config = row.map(|row| row.config.clone()).unwrap_or_default();
            let changed = (config.paused != *paused).then_some(QueueConfig { paused: *paused, ..config });
            let defined = |config| Event::QueueDefined { queue: queue.clone(), config: Box::new(config) };
            changed.map(defined).into_iter().collect()
        }
        Op::Lease(_)
        | Op::Heartbeat { .. }
        | Op::Finish { .. }
        | Op::Act { .. }
        | Op::DefineSchedule { .. }
        | Op::PauseSchedule { .. }
        | Op::RemoveSchedule { .. }
        | Op::RunSchedule { .. }
        | Op::Tick { .. } => unreachable!("work on jobs and schedules is decided step by step"),
    };
    let recorded = events.into_iter().map(|e| Recorded { v: 0, e, t: None }).collect();
    let mut entry =
        Entry { id: command, context: request.context.recorded(), key, events: recorded, wakes: Wakes::default() };
    if !request.dry_run || Mutant::DryRunWrites.on() {
        perform(ws, request, &mut entry);
    }
    let mut answer = render(ws, &entry);
    if matches!(request.op, Op::Expire { .. } | Op::PurgeGrants { .. }) && answer == Answer::Done {
        answer = Answer::Swept { count: 0 };
    }
    if !request.dry_run && entry.events.iter().any(|recorded| !matches!(recorded.e, Event::JobFound { .. })) {
        remember(ws, &entry);
        entry.wakes = Wakes::of(ws, &entry);
        if let Some((queue, before)) = before {
            let after = ws.queues.get(&(request.context.tenant.clone(), queue.clone()));
            entry.wakes.of_queue(queue, &before, &after.map(|row| row.config.clone()).unwrap_or_default());
        }
        let entry = Arc::new(entry);
        let forgotten = Mutant::ForgetReleaseEvent.on() && matches!(request.op, Op::Release { .. });
        ws.entries.extend((!forgotten).then(|| entry.clone()));
        return Ok(Outcome { command, replayed: false, answer, entry: Some(entry) });
    }
    Ok(Outcome { command, replayed: false, answer, entry: None })
}

/// What an idempotency key says of a request.
enum Keyed {
    /// It is to be done, and remembered under the key if it has one.
    New(Option<KeyUse>),
    /// It has been done.
    Done(Outcome),
}

fn key_of(ws: &Workspace, request: &Request, rules: &Rules) -> Result<Keyed, Refusal> {
    let Some(key) = request.key().map(Cow::into_owned) else { return Ok(Keyed::New(None)) };
    let fingerprint = request.fingerprint();
    let known = ws.keys.get(&(request.context.tenant.clone(), key.clone()));
    if let Some(row) = known.filter(|row| row.until > ws.now) {
        let same = fingerprint == row.fingerprint || Mutant::DropFingerprint.on();
        return replay(ws, row, same, request).map(Keyed::Done);
    }
    Ok(Keyed::New(Some(KeyUse { key, fingerprint, until: ws.now.after(rules.key_kept), acted: None })))
}

/// Refuses to change what is not as the caller has read it.
fn unchanged(ws: &Workspace, request: &Request) -> Result<(), Refusal> {
    let Some(expected) = request.if_match else { return Ok(()) };
    let tenant = &request.context.tenant;
    let (what, found) = match &request.op {
        Op::Define { scope, .. } => {
            let row = ws.scopes.get(&(tenant.clone(), scope.clone()));
            ("budget", row.and_then(|row| row.budget.as_deref()).map(Fingerprint::of))
        }
        Op::DefineQueue { queue, .. } => {
            let row = ws.queues.get(&(tenant.clone(), queue.clone()));
            ("queue", Some(Fingerprint::of(&row.map(|row| row.config.clone()).unwrap_or_default())))
        }
        Op::DefineSchedule { schedule, .. } | Op::RemoveSchedule { schedule } => {
            let row = ws.schedules.get(&(tenant.clone(), schedule.clone()));
            ("schedule", row.map(|row| Fingerprint::of(&row.spec)))
        }
        _ => return Ok(()),
    };
    let matches = match expected {
        IfMatch::Any => found.is_some(),
        IfMatch::Only(digest) => found == Some(digest),
    };
    if matches { Ok(()) } else { Err(Refusal::Changed { what }) }
}

/// A window that has ended, in a zone that this build does not know, is never guessed.
fn unknown_zone(ws: &Workspace, request: &Request) -> Option<Refusal> {
    if ws.unturned.is_empty() {
        return None;
    }
    let mut wanted = Needs::of(request).scopes_in(ws);
    let (scope, zone) = wanted.find_map(|key| ws.unturned.get(&key).map(|zone| (key.1, zone.clone())))?;
    Some(Refusal::UnknownZone { scope, zone })
}

/// A window longer than what is kept is refused when it is named.
fn reach(request: &Request, rules: &Rules) -> Result<(), Invalid> {
    let beyond = |window: &&Window| window.reach() > rules.postings_kept;
    let found = match &request.op {
        Op::Submit(command) => {
            let given = command.charges.iter().flat_map(|charge| &charge.limits).map(|limit| &limit.window);
            let defaults = command.charges.iter().filter_map(|charge| charge.default.as_deref());
            given.chain(defaults.flat_map(Budget::windows)).find(beyond)
        }
        Op::Define { budget, .. } => budget.windows().find(beyond),
        _ => None,
    };
    match found {
        Some(window) => Err(Invalid::new("window", format!("{window} reaches further back than postings are kept"))),
        None => Ok(()),
    }
}

/// Applies the events and what follows from them.
fn perform(ws: &mut Workspace, request: &Request, entry: &mut Entry) {
    for recorded in &mut entry.events {
        recorded.v = apply(ws, &entry.context, &recorded.e);
    }
    let tenant = &entry.context.tenant;
    let touched: Vec<_> = match &request.op {
        Op::Tidy { scopes } => scopes.iter().map(|scope| (tenant.clone(), scope.clone())).collect(),
        // A new threshold or trip may have been passed already.
        Op::Define { scope, .. } => vec![(tenant.clone(), scope.clone())],
        _ => entry.events.iter().flat_map(|r| r.e.scopes()).map(|scope| (tenant.clone(), scope.clone())).collect(),
    };
    follow(ws, entry, touched);
}

/// What follows from events that touched these scopes.
fn follow(ws: &mut Workspace, entry: &mut Entry, mut touched: Vec<ScopeKey>) {
    touched.sort();
    touched.dedup();
    for key in touched {
        for e in consequence::of(ws, &key) {
            let v = apply(ws, &entry.context, &e);
            entry.events.push(Recorded { v, e, t: None });
        }
    }
}

fn remember(ws: &mut Workspace, entry: &Entry) {
    if let Some(KeyUse { key, fingerprint, until, .. }) = entry.key.as_ref().filter(|_| !Mutant::ForgetKey.on()) {
        let row = KeyRow { fingerprint: *fingerprint, batch: ws.batch, command: entry.id, until: *until };
        ws.keys.put((entry.context.tenant.clone(), key.clone()), row);
    }
}

/// The first answer again, or the fact that the key was used for something else.
fn replay(ws: &Workspace, row: &KeyRow, same: bool, request: &Request) -> Result<Outcome, Refusal> {
    if !same {
        let key = request.idempotency_key.clone().expect("a replay has a key");
        return Err(Refusal::KeyReused { key });
    }
    let entry = ws
        .entries
        .iter()
        .find(|entry| entry.id == row.command)
        .or_else(|| ws.replays.get(&row.command))
        .expect("what was done under a key is loaded with it");
    let acted = entry.key.as_ref().and_then(|key| key.acted.as_ref());
    let answer = acted.map_or_else(|| render(ws, entry), Acted::answer);
    Ok(Outcome { command: row.command, replayed: true, answer, entry: None })
}

fn render(ws: &Workspace, entry: &Entry) -> Answer {
    let payload =
        |id: GrantId| ws.grants.is_loaded(&id).then(|| ws.grants.get(&id)).flatten().map(|row| row.payload.clone());
    let mut answer = Answer::render(entry, payload);
    if let Answer::Submitted(submitted) = &mut answer {
        submitted.hold = submitted.hold.take().or_else(|| submit::hold_found(ws, entry));
    }
    answer
}

/// Applies an entry of the journal again.
///
/// # Panics
/// When a stream's version comes out differently than it was recorded: the journal and the rules disagree.
pub fn reapply(ws: &mut Workspace, entry: &Entry) {
    for recorded in &entry.events {
        let version = apply(ws, &entry.context, &recorded.e);
        assert_eq!(version, recorded.v, "{} of {}: version", recorded.e.kind(), entry.id);
    }
    remember(ws, entry);
}
