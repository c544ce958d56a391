//! The judge: sees every commit in its order, every answer and every notice, and says what must not be.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::Discriminant;
use std::sync::Arc;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::decide::Rules;
use bursar_core::event::Entry;
use bursar_core::grant::GrantFault;
use bursar_core::id::{CommandId, JobId};
use bursar_core::name::Scope;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Op, Request, Settle};
use bursar_core::scope::{Freeze, ScopeState};
use bursar_core::state::{KeyKey, ScopeKey};
use bursar_core::time::Time;
use bursar_core::window::Window;
use bursar_store::Lock;

use super::expect::{Case, Check, is};
use super::jobs::{ClaimSeen, promise};
use super::model::{Frozen, Model, bounds};
use super::tables::Writes;
use super::transaction::SimTx;
use super::world::Node;

/// How many of the last things that happened are shown with a failure.
const SHOWN: usize = 40;

/// A request that was decided, to be judged when its transaction commits.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) request: Request,
    pub(crate) answer: Result<Outcome, Refusal>,
    pub(crate) now: Time,
    /// How many transactions had committed when its own began.
    pub(crate) began: u64,
    /// How many had when it was decided: names were looked for once more then.
    pub(crate) decided: u64,
    /// What its transaction found when it looked for jobs to lease.
    pub(crate) claim: Option<Arc<ClaimSeen>>,
    /// It goes by something that was only looked at, and that has changed since.
    pub(crate) outdated: bool,
}

impl Decision {
    pub(crate) fn new(request: &Request, answer: Result<Outcome, Refusal>, now: Time, tx: &SimTx) -> Arc<Decision> {
        let (began, decided, claim) = (tx.began, tx.decided, tx.claim.clone());
        let outdated = tx.is_outdated();
        Arc::new(Decision { request: request.clone(), answer, now, began, decided, claim, outdated })
    }

    /// The rows for lack of which it may have come to its answer. What is not there cannot be locked, and may come into
    /// being meanwhile.
    fn lacking(&self) -> Vec<Lock> {
        let tenant = &self.request.context.tenant;
        let absent = |scope: &Scope| Lock::Scope((tenant.clone(), scope.clone()));
        let mut lacking = match &self.answer {
            Err(Refusal::UnknownScope { scope }) => vec![absent(scope)],
            Err(Refusal::UnknownHold { hold }) => vec![Lock::Hold(*hold)],
            Err(Refusal::UnknownGrant { grant }) => vec![Lock::Grant(*grant)],
            _ => Vec::new(),
        };
        match &self.request.op {
            // A dry run makes no row for a scope that is new, and so locks none.
            Op::Define { scope, .. } if self.request.dry_run => lacking.push(absent(scope)),
            Op::Submit(command) => {
                let dry = command.charges.iter().filter(|_| self.request.dry_run);
                lacking.extend(dry.map(|charge| absent(&charge.scope)));
                // The job that was to own the hold may have been enqueued by somebody else meanwhile; a dry run takes no name.
                let doubtful = self.request.dry_run || self.answer.is_err() && command.settle == Settle::Job;
                let jobs = command.jobs.iter().filter(|_| doubtful);
                let keyed = jobs.filter_map(|job| Some((job.queue.clone(), job.idempotency_key.clone()?)));
                lacking.extend(keyed.map(|(queue, key)| Lock::JobKey((tenant.clone(), queue, key))));
                if matches!(&self.answer, Err(Refusal::Refused(violations)) if violations.iter().any(is_unknown)) {
                    lacking.extend(command.redeem.iter().map(|redemption| Lock::Grant(redemption.grant)));
                }
            }
            _ => {}
        }
        lacking
    }

    /// What it had an effect on that it can have only once: of several jobs one may follow later, when it is said again.
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

/// What went as it must not.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The check that noticed.
    pub check: &'static str,
    /// What it noticed.
    pub what: String,
    /// How many requests had been decided.
    pub step: u64,
    /// The last things that happened before.
    pub last: Vec<String>,
}

pub(crate) struct Judge {
    rules: Rules,
    pub(crate) model: Model,
    keys: HashMap<KeyKey, Remembered>,
    /// Commands that were committed with an effect, with how many events they have.
    pub(crate) done: HashMap<CommandId, usize>,
    /// The numbers of requests that were decided in a transaction that committed.
    seen: HashSet<u64>,
    /// Requests without a key that had an effect.
    spent: HashSet<(u64, Discriminant<Op>, Option<JobId>)>,
    /// Notices of each command that each life of each node gave out.
    told: HashMap<(Node, CommandId), usize>,
    /// Who answered that a command is done.
    answered: Vec<(Node, CommandId)>,
    pub(crate) commits: u64,
    /// Rows by how many transactions had committed when they came into being.
    born: HashMap<Lock, u64>,
    pub(crate) decided: u64,
    pub(crate) refused: u64,
    pub(crate) replayed: u64,
    pub(crate) digest: u64,
    pub(crate) failure: Option<Failure>,
    last: VecDeque<String>,
    verbose: VecDeque<(Node, Arc<Decision>)>,
}

struct Remembered {
    op: Op,
    outcome: Outcome,
    until: i64,
    /// How many transactions had committed when it was remembered, and when it was forgotten.
    since: u64,
    forgotten: Option<u64>,
    /// What it had been remembered for before its time was over, and the key was taken over.
    before: Option<Box<Remembered>>,
}

impl Remembered {
    /// Whether a decision must go by it. Keys are read and not locked: who began before a key was taken for something else,
    /// or forgotten, may have seen it as it was before. Who came to nothing before a twin was done has taken no key, and is
    /// told so whenever its transaction ends.
    fn binds(&self, decision: &Decision) -> bool {
        let replayed = decision.answer.as_ref().is_ok_and(|outcome| outcome.replayed);
        let conflict = matches!(decision.answer, Err(Refusal::KeyReused { .. }));
        let kept = self.forgotten.is_none_or(|forgotten| (replayed || conflict) && forgotten >= decision.began);
        let idle = decision.entry().is_none() && !replayed && !conflict;
        let other = !same(&self.op, &decision.request.op);
        let missed = idle && (self.since >= decision.decided || other && self.since >= decision.began);
        self.until > decision.now.micros() && kept && !missed
    }
}

/// The number a caller gave its request.
pub(crate) fn number(request: &Request) -> Option<u64> {
    request.context.correlation_id.as_ref()?.parse().ok()
}

impl Judge {
    pub(crate) fn new(rules: Rules) -> Judge {
        Judge {
            model: Model { hold_ttl: rules.hold_ttl.micros(), ..Model::default() },
            rules,
            keys: HashMap::new(),
            done: HashMap::new(),
            seen: HashSet::new(),
            spent: HashSet::new(),
            told: HashMap::new(),
            answered: Vec::new(),
            commits: 0,
            born: HashMap::new(),
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

    /// Notes something that happened: it is part of what a seed must reproduce.
    pub(crate) fn note(&mut self, numbers: &[u64]) {
        for number in numbers {
            for byte in number.to_le_bytes() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    /// Something worth showing with a failure.
    pub(crate) fn tell(&mut self, what: &str) {
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(format!("after {} decisions: {what}", self.decided));
    }

    pub(crate) fn forget_key(&mut self, key: &KeyKey) {
        if let Some(known) = self.keys.get_mut(key) {
            known.forgotten = Some(self.commits);
        }
    }

    /// A row has come into being.
    pub(crate) fn born(&mut self, row: Lock) {
        self.born.insert(row, self.commits);
    }

    /// A transaction commits: judged in the order of commits, which is the order its locks made.
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
            let what = format!("the journal has {written:?}, the effects are of {effects:?}");
            return Err(("I9 the journal is complete", what));
        }
        for (id, row) in &writes.jobs {
            self.model.compare_job(*id, row.as_ref()).map_err(|what| (promise(&what), what))?;
        }
        let ats = writes.journal.iter().map(|batch| batch.at.micros());
        let least = ats.min();
        for (key, row) in &writes.scopes {
            self.compare_row(key, row, least).map_err(|what| ("I2 conservation", what))?;
        }
        if decisions.iter().any(|decision| matches!(decision.request.op, Op::Define { .. })) {
            let wrong = writes.scopes.iter().find_map(|(key, row)| self.compare_chain(key, row).err());
            return wrong.map_or(Ok(()), |what| Err(("the model", what)));
        }
        Ok(())
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
            // What was leased for somebody who is gone is handed back in his name: that is another request.
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
        if decision.lacking().iter().any(|row| self.born.get(row).is_some_and(|born| *born >= decision.began)) {
            return Ok(());
        }
        // Whoever locks nothing and comes to nothing is told what was so when it looked.
        if decision.outdated && !effect && !answer.as_ref().is_ok_and(|outcome| outcome.replayed) {
            return Ok(());
        }
        let (began, commits) = (decision.began, self.commits);
        let case = Case { request, said: answer, now: now.micros(), began, commits, claim: decision.claim.as_deref() };
        self.model.high = self.model.high.max(now.micros());
        let expected = self.model.judge(&case).map_err(|what| (area(&request.op, &what), what))?;
        if answer.as_ref().is_ok_and(|outcome| outcome.replayed) {
            return Err(("I4 once", "it is marked as replayed, and was never done".into()));
        }
        if effect != expected {
            let what = format!("it wrote {effect}, expected was {expected}");
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

    /// A row as it is written, against what the model sums up.
    pub(crate) fn compare_row(&mut self, key: &ScopeKey, row: &ScopeState, batch_at: Option<i64>) -> Check {
        let now = row.seen.micros();
        let Some(scope) = self.model.scopes.get_mut(key) else {
            return if row.version == 0 { Ok(()) } else { Err(format!("{key:?} is not known to the model")) };
        };
        if batch_at.is_some() && now < scope.at {
            return Err(format!("time went back on {key:?}: {now} after {}", scope.at));
        }
        scope.arrive(now);
        for balance in &row.balances {
            let window = &balance.window;
            let held = (balance.held, scope.held(window, now));
            let counted = match window {
                Window::Bucket { .. } => (balance.level, scope.bucket(window, now).level),
                _ => (i128::from(balance.posted), i128::from(scope.posted(window, now))),
            };
            if held.0 != held.1 || counted.0 != counted.1 {
                let text = format!("{key:?} {window} at {now}: held {held:?}, posted or level {counted:?}");
                return Err(format!("{text} (kept, summed)"));
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
            return Err(format!("{key:?}: {frozen:?} instead of {:?}, or another budget", scope.frozen));
        }
        Ok(())
    }

    /// What is below a scope, against what its budgets say.
    pub(crate) fn compare_chain(&self, key: &ScopeKey, row: &ScopeState) -> Check {
        is(&format!("what is below {key:?}"), &row.below, &self.model.below(key))
    }

    /// A caller was answered.
    pub(crate) fn acknowledged(&mut self, node: Node, request: &Request, answer: &Result<Outcome, Refusal>) {
        let Some(number) = number(request) else { return };
        self.note(&[number, u64::from(answer.is_ok())]);
        let lost = match answer {
            Ok(outcome) if outcome.replayed || outcome.entry.is_some() => !self.done.contains_key(&outcome.command),
            // What has no effect was at least decided by somebody who committed; what is wrong in itself needs nobody.
            Err(Refusal::Invalid(_)) => false,
            _ => !self.seen.contains(&number),
        };
        if let Some(entry) = answer.as_ref().ok().and_then(|outcome| outcome.entry.as_ref()) {
            self.answered.push((node, entry.id));
        }
        if lost {
            self.fail(
                "I5 nothing acknowledged is lost",
                format!("{answer:?} was answered to {request:?}, and is not committed"),
            );
        }
    }

    /// A listener was told of an event of a command.
    pub(crate) fn told(&mut self, node: Node, command: CommandId) {
        self.note(&[node.place as u64, command.0 as u64]);
        let Some(events) = self.done.get(&command).copied() else {
            return self
                .fail("K31 only what is committed is told", format!("{command} was told, and is not committed"));
        };
        let told = self.told.entry((node, command)).or_default();
        *told += 1;
        if *told > events {
            let what = format!("node {} told {told} events of {command}, which has {events}", node.place);
            self.fail("K24 told once", what);
        }
    }

    /// What a node that is still up has answered, it has told as well.
    pub(crate) fn check_told(&mut self, is_up: impl Fn(Node) -> bool) {
        let untold = self
            .answered
            .iter()
            .find(|(node, command)| is_up(*node) && self.told.get(&(*node, *command)) != self.done.get(command));
        if let Some((node, command)) = untold {
            let what = format!("node {} did {command}, and told not all of its events", node.place);
            self.fail("K24 told once", what);
        }
    }
}

fn is_unknown(violation: &Violation) -> bool {
    matches!(violation, Violation::Grant { fault: GrantFault::Unknown, .. })
}

fn shown(node: Node, decision: &Decision) -> String {
    let Decision { request, answer, now, .. } = decision;
    let number = request.context.correlation_id.as_deref().unwrap_or("upkeep");
    let key = request.idempotency_key.as_ref().map_or("none", |key| key.as_str());
    let dry = if request.dry_run { ", dry run" } else { "" };
    let said = match answer {
        Ok(outcome) => format!("{}{:?}", if outcome.replayed { "replayed " } else { "" }, outcome.answer),
        Err(refusal) => format!("refused: {refusal}"),
    };
    let tenant = &request.context.tenant;
    format!(
        "request {number} (key {key}{dry}) of {tenant} on node {}.{} at {now}: {:?} => {said}",
        node.place, node.life, request.op
    )
}

/// Which promise a request of this kind is about.
fn area(op: &Op, what: &str) -> &'static str {
    match op {
        Op::Lease(_) | Op::Heartbeat { .. } | Op::Finish { .. } | Op::Act { .. } => promise(what),
        Op::Submit(_) => "I1 no overspend, I3 all or nothing, I10 no false refusals",
        Op::Commit { .. } => "I6 real spend is never dropped",
        Op::Mint(_) | Op::Revoke { .. } | Op::PurgeGrants { .. } => "I4 once (grants)",
        _ => "the model",
    }
}

/// Whether two requests ask for the same; the id of a new grant is drawn anew by a repetition.
fn same(first: &Op, again: &Op) -> bool {
    match (first, again) {
        (Op::Mint(first), Op::Mint(again)) => {
            (&first.purpose, &first.subject, &first.payload, first.ttl)
                == (&again.purpose, &again.subject, &again.payload, again.ttl)
        }
        (first, again) => first == again,
    }
}

/// The first answer again, or a conflict.
fn replayed(known: &Remembered, decision: &Decision) -> Check {
    let told = told_again(known, decision);
    // Who began before the key was taken over may have seen what it was for until then.
    let before = known.before.as_ref().filter(|before| known.since >= decision.began && before.binds(decision));
    if told.is_ok() { told } else { before.map_or(told, |before| told_again(before, decision)) }
}

fn told_again(known: &Remembered, decision: &Decision) -> Check {
    let Remembered { op, outcome, .. } = known;
    if !same(op, &decision.request.op) {
        return match &decision.answer {
            Err(Refusal::KeyReused { .. }) => Ok(()),
            said => Err(format!("the key was used for {op:?}, answered was {said:?}")),
        };
    }
    let Ok(said) = &decision.answer else { return Err(format!("a repetition was refused: {:?}", decision.answer)) };
    let mut first = outcome.answer.clone();
    if let (Answer::Submitted(first), Answer::Submitted(again)) = (&mut first, &said.answer) {
        // Payloads of grants that were removed meanwhile are not told again.
        for (first, again) in first.grants.iter_mut().zip(&again.grants) {
            first.payload = again.payload.clone();
        }
    }
    if said.answer != first || said.command != outcome.command || !said.replayed || said.entry.is_some() {
        return Err(format!("the first answer was {outcome:?}, now it is {said:?}"));
    }
    Ok(())
}
