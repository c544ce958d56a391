//! The judge: checks every commit in order, every answer and every notification.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::Discriminant;
use std::sync::Arc;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::decide::Rules;
use bursar_core::event::Entry;
use bursar_core::grant::GrantFault;
use bursar_core::id::{CommandId, HoldId, JobId};
use bursar_core::name::Scope;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Op, Request, Settle};
use bursar_core::scope::{Freeze, ScopeState};
use bursar_core::state::{IdempotencyRowKey, ScopeKey};
use bursar_core::time::Time;
use bursar_core::window::Window;
use bursar_store::Lock;
use bursar_store::memory::Writes;

use super::expect::{Case, Check, is};
use super::jobs::{ClaimSeen, promise};
use super::model::{Frozen, Model, bounds};
use super::transaction::SimTx;
use super::world::Node;

/// How many recent decisions and events are shown with a failure.
const SHOWN: usize = 40;

/// A decided request, which is judged when its transaction commits.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) request: Request,
    pub(crate) answer: Result<Outcome, Refusal>,
    pub(crate) now: Time,
    /// The number of commits when its transaction began.
    pub(crate) began: u64,
    /// The number of commits when it was decided: keys were read again then.
    pub(crate) decided: u64,
    /// What its transaction saw when it searched for jobs to lease.
    pub(crate) claim: Option<Arc<ClaimSeen>>,
}

impl Decision {
    pub(crate) fn new(request: &Request, answer: Result<Outcome, Refusal>, now: Time, tx: &SimTx) -> Arc<Decision> {
        let (began, decided, claim) = (tx.began, tx.decided, tx.claim.clone());
        Arc::new(Decision { request: request.clone(), answer, now, began, decided, claim })
    }

    /// Returns the missing rows that the answer may depend on. A missing row cannot be locked and may be created meanwhile.
    fn missing_rows(&self) -> Vec<Lock> {
        let tenant = &self.request.context.tenant;
        let absent = |scope: &Scope| Lock::Scope((tenant.clone(), scope.clone()));
        let mut missing = match &self.answer {
            Err(Refusal::UnknownScope { scope }) => vec![absent(scope)],
            Err(Refusal::UnknownHold { hold }) => vec![Lock::Hold(*hold)],
            Err(Refusal::UnknownGrant { grant }) => vec![Lock::Grant(*grant)],
            _ => Vec::new(),
        };
        match &self.request.op {
            // A dry run creates no row for a new scope, and so locks none.
            Op::Define { scope, .. } if self.request.dry_run => missing.push(absent(scope)),
            Op::Submit(command) => {
                let dry = command.charges.iter().filter(|_| self.request.dry_run);
                missing.extend(dry.map(|charge| absent(&charge.scope)));
                // Another transaction may have enqueued the job that would own the hold or use a blob; a dry run takes no job key.
                let uses = command.settle == Settle::Job || command.jobs.iter().any(|job| !job.blobs.is_empty());
                let doubtful = self.request.dry_run || self.answer.is_err() && uses;
                let jobs = command.jobs.iter().filter(|_| doubtful);
                let keyed = jobs.filter_map(|job| Some((job.queue.clone(), job.idempotency_key.clone()?)));
                missing.extend(keyed.map(|(queue, key)| Lock::JobKey((tenant.clone(), queue, key))));
                if matches!(&self.answer, Err(Refusal::Refused(violations)) if violations.iter().any(is_unknown)) {
                    missing.extend(command.redeem.iter().map(|redemption| Lock::Grant(redemption.grant)));
                }
            }
            _ => {}
        }
        missing
    }

    /// Returns its effects, each of which is allowed once. Of several jobs some may follow when the request is repeated.
    fn effects(&self) -> Vec<Option<JobId>> {
        let Some(entry) = self.entry() else { return Vec::new() };
        let named: Vec<JobId> = match &self.request.op {
            Op::Finish { items } => items.iter().map(|item| item.job).collect(),
            Op::Act { jobs, .. } => jobs.clone(),
            _ => return vec![None],
        };
        let touched: HashSet<JobId> = entry.events.iter().filter_map(|recorded| recorded.e.job()).collect();
        touched.into_iter().filter(|job| named.contains(job)).map(Some).collect()
    }

    fn entry(&self) -> Option<&Arc<Entry>> {
        self.answer.as_ref().ok()?.entry.as_ref()
    }
}

/// A violation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The check that failed.
    pub check: &'static str,
    /// The details.
    pub what: String,
    /// The number of requests decided before.
    pub step: u64,
    /// The last decisions and events before.
    pub last: Vec<String>,
}

pub(crate) struct Judge {
    rules: Rules,
    pub(crate) model: Model,
    keys: HashMap<IdempotencyRowKey, Remembered>,
    /// Committed commands with an effect, and their numbers of events.
    pub(crate) done: HashMap<CommandId, usize>,
    /// The numbers of requests decided in a committed transaction.
    seen: HashSet<u64>,
    /// Requests without a key that had an effect.
    spent: HashSet<(u64, Discriminant<Op>, Option<JobId>)>,
    /// Notifications sent per command and life of a node.
    notified: HashMap<(Node, CommandId), usize>,
    /// Commands acknowledged, with the node.
    answered: Vec<(Node, CommandId)>,
    pub(crate) commits: u64,
    /// The number of commits when each row was created.
    created: HashMap<Lock, u64>,
    pub(crate) decided: u64,
    pub(crate) refused: u64,
    pub(crate) replayed: u64,
    pub(crate) digest: u64,
    pub(crate) failure: Option<Failure>,
    last: VecDeque<String>,
    verbose: VecDeque<(Node, Arc<Decision>)>,
}

/// The first outcome under a key.
struct Remembered {
    op: Op,
    outcome: Outcome,
    until: i64,
    /// The number of commits when the key was stored, and when it was removed.
    since: u64,
    forgotten: Option<u64>,
    /// The outcome that the key had before it expired and was reused.
    before: Option<Box<Remembered>>,
}

impl Remembered {
    /// Returns whether a decision must replay it. Keys are read without a lock: a transaction that began before a key was reused
    /// or removed may have read its old state. A decision without an effect takes no key; its answer stands even if a copy of
    /// the request commits first.
    fn binds(&self, decision: &Decision) -> bool {
        let replayed = decision.answer.as_ref().is_ok_and(|outcome| outcome.replayed);
        let conflict = matches!(decision.answer, Err(Refusal::KeyReused { .. }));
        let kept = self.forgotten.is_none_or(|forgotten| (replayed || conflict) && forgotten >= decision.began);
        let no_effect = decision.entry().is_none() && !replayed && !conflict;
        let other = !same(&self.op, &decision.request.op);
        let missed = no_effect && (self.since >= decision.decided || other && self.since >= decision.began);
        self.until > decision.now.micros() && kept && !missed
    }
}

/// Returns the number that a caller gave its request.
pub(crate) fn number(request: &Request) -> Option<u64> {
    request.context.correlation_id.as_ref()?.parse().ok()
}

impl Judge {
    pub(crate) fn new(rules: Rules) -> Judge {
        Judge {
            model: Model {
                hold_ttl: rules.hold_ttl.micros(),
                hold_ttl_max: rules.hold_ttl_max.micros(),
                ..Model::default()
            },
            rules,
            keys: HashMap::new(),
            done: HashMap::new(),
            seen: HashSet::new(),
            spent: HashSet::new(),
            notified: HashMap::new(),
            answered: Vec::new(),
            commits: 0,
            created: HashMap::new(),
            decided: 0,
            refused: 0,
            replayed: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            failure: None,
            last: VecDeque::new(),
            verbose: VecDeque::new(),
        }
    }

    pub(crate) fn fail(&mut self, check: &'static str, what: String) {
        if self.failure.is_none() {
            let decisions = self.verbose.iter().map(|(node, decision)| shown(*node, decision));
            let last = decisions.chain(self.last.iter().cloned()).collect();
            self.failure = Some(Failure { check, what, step: self.decided, last });
        }
    }

    /// Adds an event to the digest, which a seed must reproduce.
    pub(crate) fn note(&mut self, numbers: &[u64]) {
        for number in numbers {
            for byte in number.to_le_bytes() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    /// Logs an event to be shown with a failure.
    pub(crate) fn log(&mut self, what: &str) {
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(format!("after {} decisions: {what}", self.decided));
    }

    pub(crate) fn forget_key(&mut self, key: &IdempotencyRowKey) {
        if let Some(known) = self.keys.get_mut(key) {
            known.forgotten = Some(self.commits);
        }
    }

    /// Judges the deletion of a hold: it ended long enough ago, and neither a job nor a blob needs it.
    pub(crate) fn forget_hold(&mut self, id: HoldId, now: Time) {
        let Some(hold) = self.model.holds.remove(&id) else {
            return self.fail("I2 conservation", format!("{id} was deleted, and the model does not know it"));
        };
        let kept_until = hold.ended_at.map(|ended| ended + self.rules.holds_kept(&hold.tenant).micros());
        if kept_until.is_none_or(|until| until > now.micros()) {
            self.fail("the model", format!("retention: {id} was deleted at {now}, too early: {hold:?}"));
        }
        if let Some(job) = hold.job.filter(|job| self.model.jobs.contains_key(job)) {
            self.fail("the model", format!("retention: {id} was deleted, and {job} still needs it"));
        }
        let pays = self.model.blobs.iter().find(|(_, blob)| blob.holds.contains(&id)).map(|(blob, _)| *blob);
        if let Some(blob) = pays {
            self.fail("the model", format!("retention: {id} was deleted, and {blob} still needs it"));
        }
    }

    /// Records the creation of a row.
    pub(crate) fn row_created(&mut self, row: Lock) {
        self.created.insert(row, self.commits);
    }

    /// Judges a committing transaction. The order of commits is the order that the locks enforce.
    pub(crate) fn committed(&mut self, node: Node, decisions: &[Arc<Decision>], writes: &Writes) {
        self.commits += 1;
        if self.failure.is_some() {
            return;
        }
        if let Err((check, what)) = self.judge(node, decisions, writes) {
            self.fail(check, what);
        }
    }

    fn judge(
        &mut self,
        node: Node,
        decisions: &[Arc<Decision>],
        writes: &Writes,
    ) -> Result<(), (&'static str, String)> {
        for decision in decisions {
            self.decided += 1;
            self.note(&[node.place as u64, decision.now.micros().unsigned_abs()]);
            if self.verbose.len() == SHOWN {
                self.verbose.pop_front();
            }
            self.verbose.push_back((node, decision.clone()));
            let about = |what: String| format!("{what}\n    in {}", shown(node, decision));
            self.judge_one(decision).map_err(|(check, what)| (check, about(what)))?;
        }
        let written: Vec<CommandId> = writes.journal.iter().flat_map(|b| b.entries.iter().map(|e| e.id)).collect();
        let effects: Vec<CommandId> = decisions.iter().filter_map(|d| Some(d.entry()?.id)).collect();
        if written != effects {
            let what = format!("the journal has {written:?}, but the commands with effects are {effects:?}");
            return Err(("I9 the journal is complete", what));
        }
        for (id, row) in &writes.jobs {
            self.model.compare_job(*id, row.as_ref()).map_err(|what| (promise(&what), what))?;
        }
        let blobs = self.model.compare_blob_writes(self.commits, writes);
        blobs.map_err(|what| (blob_promise(&what), what))?;
        let ats = writes.journal.iter().map(|batch| batch.at.micros());
        let least = ats.min();
        let scopes = || writes.scopes.iter().filter_map(|(key, row)| Some((key, row.as_ref()?)));
        for (key, row) in scopes() {
            self.compare_row(key, row, least).map_err(|what| ("I2 conservation", what))?;
        }
        if decisions.iter().any(|decision| matches!(decision.request.op, Op::Define { .. } | Op::RemoveBudget { .. })) {
            let wrong = scopes().find_map(|(key, row)| self.compare_chain(key, row).err());
            return wrong.map_or(Ok(()), |what| Err(("the model", what)));
        }
        Ok(())
    }

    /// Judges a decision on an engine without concurrent transactions.
    pub(super) fn judge_alone(&mut self, decision: &Decision) -> Result<(), String> {
        self.decided += 1;
        let about = |(check, what): (&str, String)| format!("{check}: {what}\n    in {decision:?}");
        self.judge_one(decision).map_err(about)
    }

    fn judge_one(&mut self, decision: &Decision) -> Result<(), (&'static str, String)> {
        let Decision { request, answer, now, .. } = decision;
        let effect = decision.entry().is_some();
        match answer {
            Ok(outcome) => self.note(&[outcome.command.0 as u64, (outcome.command.0 >> 64) as u64]),
            Err(_) => {
                self.refused += 1;
                self.note(&[u64::MAX]);
            }
        }
        if let Some(number) = number(request) {
            self.seen.insert(number);
            // Jobs leased for a caller that is gone are returned under its number, which is another operation.
            let what = std::mem::discriminant(&request.op);
            let mut effects = decision.effects().into_iter();
            if request.idempotency_key.is_none() && !effects.all(|on| self.spent.insert((number, what, on))) {
                return Err(("I4 once", "a request without a key has a second effect".into()));
            }
        }
        let key = request.idempotency_key.clone().map(|key| (request.context.tenant.clone(), key));
        if let Some(known) = key.as_ref().and_then(|key| self.keys.get(key)).filter(|known| known.binds(decision)) {
            self.replayed += 1;
            return replayed(known, decision).map_err(|what| ("I4 once", what));
        }
        if decision
            .missing_rows()
            .iter()
            .any(|row| self.created.get(row).is_some_and(|created| *created >= decision.began))
        {
            return Ok(());
        }
        let (began, commits) = (decision.began, self.commits);
        let case =
            Case { request, answered: answer, now: now.micros(), began, commits, claim: decision.claim.as_deref() };
        self.model.high = self.model.high.max(now.micros());
        let expected = self.model.judge(&case).map_err(|what| (area(&request.op, &what), what))?;
        if answer.as_ref().is_ok_and(|outcome| outcome.replayed) {
            return Err(("I4 once", "the answer is marked as replayed, but the request was never done".into()));
        }
        if effect != expected {
            let what = format!("has an effect: {effect}, expected: {expected}");
            return Err((if request.dry_run { "K30 dry run" } else { "I9 the journal is complete" }, what));
        }
        if let (Some(key), Ok(outcome), true) = (key, answer, effect) {
            let until = now.after(self.rules.key_kept).micros();
            let before = self.keys.remove(&key).map(|known| Box::new(Remembered { before: None, ..known }));
            let known = Remembered {
                op: request.op.clone(),
                outcome: outcome.clone(),
                until,
                since: self.commits,
                forgotten: None,
                before,
            };
            self.keys.insert(key, known);
        }
        self.done.extend(decision.entry().map(|entry| (entry.id, entry.events.len())));
        Ok(())
    }

    /// Compares a written row with the model.
    pub(crate) fn compare_row(&mut self, key: &ScopeKey, row: &ScopeState, batch_at: Option<i64>) -> Check {
        let now = row.seen.micros();
        let Some(scope) = self.model.scopes.get_mut(key) else {
            return if row.version == 0 { Ok(()) } else { Err(format!("the model does not know {key:?}")) };
        };
        if batch_at.is_some() && now < scope.at {
            return Err(format!("time went back on {key:?}: {now} after {}", scope.at));
        }
        scope.advance(now);
        for balance in &row.balances {
            let window = &balance.window;
            let held = (balance.held, scope.held(window, now));
            let counted = match window {
                Window::Bucket { .. } => (balance.level, scope.bucket(window, now).level),
                _ => (i128::from(balance.posted), i128::from(scope.posted(window, now))),
            };
            if held.0 != held.1 || counted.0 != counted.1 {
                let text = format!("{key:?} {window} at {now}: held {held:?}, posted or level {counted:?}");
                return Err(format!("{text} (stored, expected)"));
            }
            if let Window::Calendar { .. } = window
                && (balance.since.micros(), balance.until.micros()) != bounds(window, now)
            {
                return Err(format!("{key:?} {window} at {now}: from {} until {}", balance.since, balance.until));
            }
        }
        let frozen = match &row.frozen {
            None => None,
            Some(Freeze::Order { .. }) => Some(Frozen::Order),
            Some(Freeze::Trip { window, until }) => {
                Some(Frozen::Trip { window: window.clone(), until: until.map(Time::micros) })
            }
        };
        if frozen != scope.frozen || row.budget.as_deref() != scope.budget.as_ref() {
            return Err(format!("{key:?}: frozen {frozen:?} instead of {:?}, or another budget", scope.frozen));
        }
        Ok(())
    }

    /// Compares the stored counts of budgets below a scope with the model.
    pub(crate) fn compare_chain(&self, key: &ScopeKey, row: &ScopeState) -> Check {
        is(&format!("the budgets below {key:?}"), &row.below, &self.model.below(key))
    }

    /// Checks an answer to a caller.
    pub(crate) fn acknowledged(&mut self, node: Node, request: &Request, answer: &Result<Outcome, Refusal>) {
        let Some(number) = number(request) else { return };
        self.note(&[number, u64::from(answer.is_ok())]);
        let lost = match answer {
            Ok(outcome) if outcome.replayed || outcome.entry.is_some() => !self.done.contains_key(&outcome.command),
            // A request without an effect was decided in a committed transaction; an invalid one needs no transaction.
            Err(Refusal::Invalid(_)) => false,
            _ => !self.seen.contains(&number),
        };
        if let Some(entry) = answer.as_ref().ok().and_then(|outcome| outcome.entry.as_ref()) {
            self.answered.push((node, entry.id));
        }
        if lost {
            self.fail(
                "I5 nothing acknowledged is lost",
                format!("{answer:?} was answered to {request:?}, but is not committed"),
            );
        }
    }

    /// Checks a notification about a command.
    pub(crate) fn notified(&mut self, node: Node, command: CommandId) {
        self.note(&[node.place as u64, command.0 as u64]);
        let Some(events) = self.done.get(&command).copied() else {
            return self.fail(
                "K31 only what is committed is told",
                format!("a notification for {command} was sent, but it is not committed"),
            );
        };
        let count = self.notified.entry((node, command)).or_default();
        *count += 1;
        if *count > events {
            let what =
                format!("node {} sent {count} notifications for {command}, which has {events} events", node.place);
            self.fail("K24 told once", what);
        }
    }

    /// Checks that every running node has sent all notifications for the commands it acknowledged.
    pub(crate) fn check_notified(&mut self, is_up: impl Fn(Node) -> bool) {
        let missing = self
            .answered
            .iter()
            .find(|(node, command)| is_up(*node) && self.notified.get(&(*node, *command)) != self.done.get(command));
        if let Some((node, command)) = missing {
            let what = format!("node {} acknowledged {command}, but did not send all of its notifications", node.place);
            self.fail("K24 told once", what);
        }
    }
}

fn is_unknown(violation: &Violation) -> bool {
    matches!(violation, Violation::Grant { fault: GrantFault::Unknown, .. })
}

fn shown(node: Node, decision: &Decision) -> String {
    let Decision { request, answer, now, .. } = decision;
    let number = request.context.correlation_id.as_deref().unwrap_or("maintenance");
    let key = request.idempotency_key.as_ref().map_or("none", |key| key.as_str());
    let dry = if request.dry_run { ", dry run" } else { "" };
    let answered = match answer {
        Ok(outcome) => format!("{}{:?}", if outcome.replayed { "replayed " } else { "" }, outcome.answer),
        Err(refusal) => format!("refused: {refusal}"),
    };
    let tenant = &request.context.tenant;
    format!(
        "request {number} (key {key}{dry}) of {tenant} on node {}.{} at {now}: {:?} => {answered}",
        node.place, node.life, request.op
    )
}

/// Returns the guarantee that a request of this kind is about.
fn area(op: &Op, what: &str) -> &'static str {
    match op {
        Op::Lease(_) | Op::Heartbeat { .. } | Op::Emit(_) | Op::Finish { .. } | Op::Act { .. } => promise(what),
        Op::Blob(_) => blob_promise(what),
        Op::Submit(_) if what.starts_with("references:") => promise(what),
        Op::Submit(_) => "I1 no overspend, I3 all or nothing, I10 no false refusals",
        Op::Commit { .. } => "I6 real spend is never dropped",
        Op::Mint(_) | Op::Revoke { .. } | Op::EraseGrant { .. } | Op::PurgeGrants { .. } => "I4 once (grants)",
        _ => "the model",
    }
}

/// Returns the guarantee that a mismatch of a blob violates.
pub(crate) fn blob_promise(what: &str) -> &'static str {
    match promise(what) {
        "jobs, by the model" => "blobs, by the model",
        promise => promise,
    }
}

/// Returns whether two operations are the same; a repeated mint has a new grant id.
fn same(first: &Op, again: &Op) -> bool {
    match (first, again) {
        (Op::Mint(first), Op::Mint(again)) => {
            (&first.purpose, &first.subject, &first.payload, first.ttl)
                == (&again.purpose, &again.subject, &again.payload, again.ttl)
        }
        (first, again) => first == again,
    }
}

/// Expects the first answer again, or a key conflict.
fn replayed(known: &Remembered, decision: &Decision) -> Check {
    let matched = check_replay(known, decision);
    // A transaction that began before the key was reused may have read its previous outcome.
    let before = known.before.as_ref().filter(|before| known.since >= decision.began && before.binds(decision));
    if matched.is_ok() { matched } else { before.map_or(matched, |before| check_replay(before, decision)) }
}

fn check_replay(known: &Remembered, decision: &Decision) -> Check {
    let Remembered { op, outcome, .. } = known;
    if !same(op, &decision.request.op) {
        return match &decision.answer {
            Err(Refusal::KeyReused { .. }) => Ok(()),
            answered => Err(format!("the key was used for {op:?}, but answered {answered:?}")),
        };
    }
    let Ok(answered) = &decision.answer else {
        return Err(format!("a repeated request was refused: {:?}", decision.answer));
    };
    let mut first = outcome.answer.clone();
    if let (Answer::Submitted(first), Answer::Submitted(again)) = (&mut first, &answered.answer) {
        // Payloads of grants that were removed meanwhile are not returned again.
        for (first, again) in first.grants.iter_mut().zip(&again.grants) {
            first.payload = again.payload.clone();
        }
    }
    if answered.answer != first || answered.command != outcome.command || !answered.replayed || answered.entry.is_some()
    {
        return Err(format!("the first answer was {outcome:?}, the second {answered:?}"));
    }
    Ok(())
}
