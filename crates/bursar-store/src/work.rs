//! The one shape of every write: load, decide, store. The same for every engine.

mod jobs;

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeSet, HashMap, HashSet};

use bursar_core::decide::{Decided, Rules, decide, reapply};
use bursar_core::event::{Batch, Entry, Event};
use bursar_core::id::{BatchId, GrantId, HoldId, IdSource, JobId};
use bursar_core::mutant::Mutant;
use bursar_core::name::Scope;
use bursar_core::needs::Needs;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, Op, Request};
use bursar_core::scope::{Balance, Due, DueAsk, Past, ScopeState};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey, Workspace};
use bursar_core::time::{Span, Time};
use bursar_core::window::{Window, Zone};

use crate::error::StoreError;
use crate::rows::{PastAsk, Rows};
use crate::store::{Lock, Verdict};

/// How much of the clock a batch may rely on.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// Time does not go below this: the node's own high-water mark.
    pub floor: Time,
    /// The name of the transaction.
    pub batch: BatchId,
}

/// Loads what the requests need, decides them, and returns the changed workspace with a verdict for each.
pub async fn run<R: Rows>(
    rows: &mut R,
    requests: &[&Request],
    rules: &Rules,
    when: When,
    ids: &mut (dyn IdSource + Send),
) -> Result<(Workspace, Vec<Verdict>), StoreError> {
    let mut loaded = Loaded::of(rows, requests, when).await?;
    loaded.decide(requests, requests.len(), rules, ids);
    let Loaded { ws, mut verdicts, .. } = loaded;
    conclude(rows, requests, rules, &ws, &mut verdicts).await?;
    Ok((ws, verdicts))
}

/// All that requests need, to be decided without the database, and how far they are.
pub(crate) struct Loaded {
    pub(crate) ws: Workspace,
    /// Of those that are decided, in order.
    pub(crate) verdicts: Vec<Verdict>,
    blocked: Blocked,
}

impl Loaded {
    pub(crate) async fn of<R: Rows>(rows: &mut R, requests: &[&Request], when: When) -> Result<Loaded, StoreError> {
        let mut needs = Needs::default();
        // What is wrong in itself needs no rows.
        requests.iter().filter(|request| request.check().is_ok()).for_each(|request| needs.add(request));
        let (mut ws, blocked) = load(rows, needs, when, None).await?;
        let commands =
            || requests.iter().filter_map(|request| if let Op::Submit(it) = &request.op { Some(it) } else { None });
        ws.holds.reserve(commands().filter(|command| !command.charges.is_empty()).count());
        ws.jobs.reserve(commands().map(|command| command.jobs.len()).sum());
        Ok(Loaded { ws, verdicts: Vec::with_capacity(requests.len()), blocked })
    }

    /// Decides the next of the requests, one after the other, at most so many.
    pub(crate) fn decide(
        &mut self,
        requests: &[impl Borrow<Request>],
        most: usize,
        rules: &Rules,
        ids: &mut (dyn IdSource + Send),
    ) {
        let Loaded { ws, verdicts, blocked } = self;
        for request in requests.iter().skip(verdicts.len()).take(most) {
            verdicts.push(blocked.decide(ws, request.borrow(), rules, ids));
        }
    }
}

/// What is left to do with the database once all is decided, and before it is written.
pub(crate) async fn conclude<R: Rows>(
    rows: &mut R,
    requests: &[&Request],
    rules: &Rules,
    ws: &Workspace,
    verdicts: &mut [Verdict],
) -> Result<(), StoreError> {
    ask_again_where_names_were_taken(rows, requests, ws, verdicts).await?;
    let tidied = tidied(requests, ws, rules);
    if !tidied.is_empty() {
        rows.roll_up(&tidied).await?;
    }
    Ok(())
}

/// Names are looked up before rows are locked. Whoever has an effect finds a name taken meanwhile when it is written; but who
/// came to nothing may have come to it because a twin was first, and is to get the twin's answer instead.
async fn ask_again_where_names_were_taken<R: Rows>(
    rows: &mut R,
    requests: &[&Request],
    ws: &Workspace,
    verdicts: &mut [Verdict],
) -> Result<(), StoreError> {
    if Mutant::TwinIsRefused.on() {
        return Ok(());
    }
    let mut doubtful = Vec::new();
    let mut names = Needs::default();
    for (place, (request, verdict)) in requests.iter().zip(verdicts.iter()).enumerate() {
        let came_to_nothing = match verdict {
            Verdict::Answered(Ok(outcome)) => outcome.entry.is_none() && !outcome.replayed,
            Verdict::Answered(Err(refusal)) => !matches!(refusal, Refusal::Invalid(_)),
            _ => false,
        };
        if !came_to_nothing {
            continue;
        }
        let Needs { mut keys, mut job_keys, .. } = Needs::of(request);
        keys.retain(|key| ws.keys.get(key).is_none_or(|row| row.until <= ws.now));
        job_keys.retain(|key| ws.job_keys.get(key).is_none());
        names.keys.extend(keys.iter().cloned());
        names.job_keys.extend(job_keys.iter().cloned());
        doubtful.push((place, keys, job_keys));
    }
    let mut taken = HashSet::new();
    if !names.keys.is_empty() {
        let keys: Vec<_> = names.keys.into_iter().collect();
        let found = rows.keys(&keys).await?;
        taken.extend(found.into_iter().filter(|(_, row)| row.until > ws.now).map(|(key, _)| Lock::Key(key)));
    }
    if !names.job_keys.is_empty() {
        let keys: Vec<_> = names.job_keys.into_iter().collect();
        taken.extend(rows.job_keys(&keys).await?.into_iter().map(|(key, _)| Lock::JobKey(key)));
    }
    for (place, keys, job_keys) in doubtful.into_iter().filter(|_| !taken.is_empty()) {
        let mut own = keys.into_iter().map(Lock::Key).chain(job_keys.into_iter().map(Lock::JobKey));
        if own.any(|name| taken.contains(&name)) {
            verdicts[place] = Verdict::Again;
        }
    }
    Ok(())
}

/// Loads what a batch of the journal touches and applies it again.
pub async fn replay<R: Rows>(rows: &mut R, batch: &Batch) -> Result<Workspace, StoreError> {
    let mut needs = Needs::default();
    for entry in &batch.entries {
        needs.add_entry(entry);
    }
    let when = When { floor: batch.at, batch: batch.id };
    loop {
        let (mut ws, _) = load(rows, needs.clone(), when, Some(batch.at)).await?;
        if !ws.unready.is_empty() {
            rows.store(&ws, None).await?;
            continue;
        }
        if let Some(zone) = ws.unturned.values().next() {
            return Err(unknown_zone(zone));
        }
        for entry in &batch.entries {
            reapply(&mut ws, entry);
        }
        return Ok(ws);
    }
}

fn unknown_zone(zone: &Zone) -> StoreError {
    StoreError::Unavailable {
        what: format!("the journal has windows in the time zone {zone}, which this build does not know"),
        hint: "use a build with newer zone data",
        source: None,
    }
}

/// Rows that somebody else has locked.
#[derive(Default)]
struct Blocked {
    schedules: HashSet<ScheduleKey>,
    jobs: HashSet<JobId>,
    /// What keeps the jobs of a queue from being leased.
    claims: HashMap<QueueKey, Vec<Lock>>,
    holds: HashSet<HoldId>,
    grants: HashSet<GrantId>,
    scopes: HashSet<ScopeKey>,
}

impl Blocked {
    fn is_empty(&self) -> bool {
        let Blocked { schedules, jobs, claims, holds, grants, scopes } = self;
        schedules.is_empty()
            && jobs.is_empty()
            && claims.is_empty()
            && holds.is_empty()
            && grants.is_empty()
            && scopes.is_empty()
    }

    /// Decides a request, unless it wants what somebody else has locked.
    fn decide(&self, ws: &mut Workspace, request: &Request, rules: &Rules, ids: &mut (dyn IdSource + Send)) -> Verdict {
        let mut request = Cow::Borrowed(request);
        if !self.is_empty() && request.check().is_ok() && !Mutant::LockedIsGone.on() {
            self.spare(&mut request, ws);
            let locks = self.concerning(&Needs::of(&request), ws);
            if !locks.is_empty() {
                return Verdict::Blocked(locks);
            }
        }
        match decide(ws, &request, rules, ids) {
            Decided::Answered(answer) => Verdict::Answered(answer),
            Decided::Again => Verdict::Again,
        }
    }

    /// The blocked rows that a request cannot do without.
    fn concerning(&self, needs: &Needs, ws: &Workspace) -> Vec<Lock> {
        // What is answered from a job or a command that is there already needs its hold or its grants.
        let found = needs.job_keys.iter().filter_map(|key| ws.jobs.get(ws.job_keys.get(key)?)?.hold);
        let jobs = needs.jobs.iter().chain(&needs.beats).copied();
        let theirs = needs.jobs.iter().filter_map(|id| ws.jobs.get(id)?.hold);
        let holds = needs.holds.iter().copied().chain(found).chain(theirs).filter(|id| self.holds.contains(id));
        let jobs = jobs.filter(|id| self.jobs.contains(id));
        let done = needs.keys.iter().filter_map(|key| ws.replays.get(&ws.keys.get(key)?.command));
        let redeemed = done.flat_map(|entry| redeemed(entry));
        let grants = needs.grants.iter().copied().chain(redeemed).filter(|id| self.grants.contains(id));
        let scopes = needs.scopes_in(ws).filter(|key| self.scopes.contains(key));
        // Who finds nothing to lease only because it is locked waits for that.
        let claimed = |queue: &QueueKey| ws.claims.get(queue).is_some_and(|claims| !claims.jobs.is_empty());
        let claims = needs.claims.keys().filter_map(|queue| self.claims.get(queue)).flatten().cloned();
        let claims = claims.filter(|_| !needs.claims.keys().any(claimed));
        let rows = holds.map(Lock::Hold).chain(grants.map(Lock::Grant)).chain(scopes.map(Lock::Scope));
        let schedules = needs.schedules.iter().filter(|key| self.schedules.contains(*key)).cloned();
        let last = needs.schedules.iter().filter_map(|key| ws.schedules.get(key)?.last_job);
        let last = last.filter(|id| self.jobs.contains(id)).map(Lock::Job);
        schedules.map(Lock::Schedule).chain(last).chain(jobs.map(Lock::Job)).chain(rows).chain(claims).collect()
    }

    /// Upkeep passes over what somebody else has locked, and comes back another time. Under a key it must be the same each time.
    fn spare(&self, request: &mut Cow<'_, Request>, ws: &Workspace) {
        if request.idempotency_key.is_some() {
            return;
        }
        let tenant = &request.context.tenant;
        let locked = |scope: &Scope| self.scopes.contains(&(tenant.clone(), scope.clone()));
        let op = match &request.op {
            Op::Expire { holds } => {
                let free = |id: &&HoldId| {
                    !self.holds.contains(id) && ws.holds.get(*id).is_none_or(|hold| !hold.totals().keys().any(locked))
                };
                Op::Expire { holds: holds.iter().filter(free).copied().collect() }
            }
            Op::Tidy { scopes } => Op::Tidy { scopes: scopes.iter().filter(|scope| !locked(scope)).cloned().collect() },
            Op::Act { act: act @ (Act::Rescue | Act::Resume | Act::Forget | Act::Unbar), jobs } => {
                let free = |id: &&JobId| {
                    let alone = Request { op: Op::Act { act: act.clone(), jobs: vec![**id] }, ..(**request).clone() };
                    self.concerning(&Needs::of(&alone), ws).is_empty()
                };
                Op::Act { act: act.clone(), jobs: jobs.iter().filter(free).copied().collect() }
            }
            _ => return,
        };
        request.to_mut().op = op;
    }
}

/// The grants that a command redeemed.
fn redeemed(entry: &Entry) -> impl Iterator<Item = GrantId> {
    entry.events.iter().filter_map(|recorded| match recorded.e {
        Event::GrantRedeemed { grant, .. } => Some(grant),
        _ => None,
    })
}

async fn load<R: Rows>(
    rows: &mut R,
    needs: Needs,
    when: When,
    replayed_at: Option<Time>,
) -> Result<(Workspace, Blocked), StoreError> {
    let mut ws = Workspace::new(Time::MIN, when.batch);
    let mut blocked = Blocked::default();
    let mut needs = needs;
    load_keys(rows, &mut ws, &mut needs, replayed_at.is_some()).await?;
    jobs::load(rows, &mut ws, &mut needs, &mut blocked, replayed_at.is_some()).await?;
    let claimed = jobs::claim(rows, &mut ws, &mut needs).await?;
    rows.foresee(&needs).await?;

    let wanted: Vec<HoldId> = needs.holds.iter().copied().collect();
    if !wanted.is_empty() {
        let found = rows.holds(&wanted).await?;
        for (id, hold) in found.rows {
            ws.holds.load(id, Some(hold));
        }
        blocked.holds.extend(found.blocked);
        wanted.into_iter().for_each(|id| ws.holds.load(id, None));
    }
    // A job that was locked when it was asked for may have been found since by who leases: its hold was not.
    let held = |id: &JobId| ws.jobs.get(id)?.hold.filter(|hold| ws.holds.is_loaded(hold));
    let again = needs.jobs.iter().filter_map(|id| ws.holds.get(&held(id)?)).cloned();
    again.collect::<Vec<_>>().iter().for_each(|hold| needs.add_hold_again(hold));
    let wanted: Vec<GrantId> = needs.grants.iter().copied().collect();
    if !wanted.is_empty() {
        let found = rows.grants(&wanted).await?;
        for (id, grant) in found.rows {
            ws.grants.load(id, Some(grant));
        }
        blocked.grants.extend(found.blocked);
        if ws.grants.count() < wanted.len() {
            wanted.into_iter().for_each(|id| ws.grants.load(id, None));
        }
    }
    load_scopes(rows, &mut ws, &mut blocked, &needs).await?;

    let clock = match replayed_at {
        Some(at) => at,
        None => {
            let clock = rows.now().await?.max(when.floor);
            // A scope sees each instant once, so that what one transaction did is before what the next one does.
            let seen = ws.scopes.iter().map(|(_, row)| row.seen.after(Span::from_micros(1))).max();
            if Mutant::ClockGoesBack.on() { rows.now().await? } else { clock.max(seen.unwrap_or(Time::MIN)) }
        }
    };
    ws.now = clock;
    advance(rows, &mut ws, replayed_at.is_some()).await?;
    open_windows(rows, &mut ws, &needs).await?;
    jobs::line_up(&mut ws, claimed, &mut blocked);
    Ok((ws, blocked))
}

/// Idempotency keys with what was done under them, and jobs found by their keys with their holds.
async fn load_keys<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    needs: &mut Needs,
    replay: bool,
) -> Result<(), StoreError> {
    let wanted: Vec<_> = needs.keys.iter().cloned().collect();
    if !wanted.is_empty() {
        let found = rows.keys(&wanted).await?;
        let done: Vec<_> = found.iter().map(|(_, row)| (row.batch, row.command)).collect();
        if !done.is_empty() && !replay {
            for entry in rows.entries(&done).await? {
                needs.grants.extend(redeemed(&entry));
                ws.replays.insert(entry.id, entry);
            }
            if let Some((_, lost)) = done.iter().find(|(_, command)| !ws.replays.contains_key(command)) {
                return Err(StoreError::corrupt("journal", format!("{lost}, which a key names, is not there")));
            }
        }
        found.into_iter().for_each(|(key, row)| ws.keys.load(key, Some(row)));
        wanted.into_iter().for_each(|key| ws.keys.load(key, None));
    }
    let wanted: Vec<_> = needs.job_keys.iter().cloned().collect();
    if !wanted.is_empty() {
        let found = rows.job_keys(&wanted).await?;
        let ids: Vec<_> = found.iter().map(|(_, id)| *id).collect();
        if !ids.is_empty() {
            for (id, job) in rows.jobs(&ids, false).await?.rows {
                needs.holds.extend(job.hold);
                ws.jobs.load(id, Some(job));
            }
            ids.into_iter().for_each(|id| ws.jobs.load(id, None));
        }
        found.into_iter().for_each(|(key, id)| ws.job_keys.load(key, Some(id)));
        wanted.into_iter().for_each(|key| ws.job_keys.load(key, None));
    }
    Ok(())
}

/// The named scopes, those of the holds, and the ancestors of all.
async fn load_scopes<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    blocked: &mut Blocked,
    needs: &Needs,
) -> Result<(), StoreError> {
    let held = needs.holds.iter().filter_map(|id| ws.holds.get(id));
    let held = held.flat_map(|hold| hold.totals().into_keys().map(|scope| (hold.tenant.clone(), scope)));
    let held: BTreeSet<ScopeKey> = held.filter(|key| !needs.scopes.contains_key(key)).collect();
    let mut wanted: Vec<_> = needs.scopes.iter().map(|(key, need)| (key.clone(), need.create)).collect();
    if !held.is_empty() {
        wanted.extend(held.into_iter().map(|key| (key, false)));
        wanted.sort_unstable();
    }
    while !wanted.is_empty() {
        if Mutant::LockInAnyOrder.on() {
            wanted.reverse();
        }
        let found = rows.scopes(&wanted).await?;
        let mut above = BTreeSet::new();
        for (key, row) in found.rows {
            let parent = row.budget.as_ref().and_then(|budget| budget.parent.clone());
            above.extend(parent.map(|parent| (key.0.clone(), parent)));
            ws.scopes.load(key, Some(row));
        }
        blocked.scopes.extend(found.blocked);
        wanted.into_iter().for_each(|(key, _)| ws.scopes.load(key, None));
        wanted = above.into_iter().filter(|key| !ws.scopes.is_loaded(key)).map(|key| (key, false)).collect();
    }
    Ok(())
}

/// Brings every loaded scope to the instant of the batch, as far as one step folds.
///
/// What no event touches is written where that saves work, but not in a replay: a scope that was only read then may have
/// events of an earlier instant to come, of a node whose clock was behind.
async fn advance<R: Rows>(rows: &mut R, ws: &mut Workspace, replay: bool) -> Result<(), StoreError> {
    let now = ws.now;
    let (nothing_due, nothing_asked) = (Due::default(), DueAsk { charges_after: None, postings: Vec::new() });
    let mut asks: Vec<(ScopeKey, DueAsk)> = Vec::new();
    let mut turned = Vec::new();
    for (key, row) in ws.scopes.peek_all() {
        let ask = row.due_ask(now);
        if !ask.is_empty() {
            asks.push((key.clone(), ask));
            continue;
        }
        if row.turns_by(now) {
            turned.push(key.clone());
        }
        row.advance(now, &nothing_due, &nothing_asked);
    }
    for key in turned {
        // Where a window begins is stored when it opens, also when no event touches the scope.
        let row = if replay { ws.scopes.peek_mut(&key) } else { ws.scopes.get_mut(&key) };
        if let Some(zone) = row.and_then(|row| row.unknown_zone(now)).cloned() {
            ws.unturned.insert(key, zone);
        }
    }
    if asks.is_empty() {
        return Ok(());
    }
    let due = rows.due(&asks, now).await?;
    for ((key, ask), due) in asks.into_iter().zip(due) {
        // What was folded is worth keeping even when no event touches the scope.
        let row = if replay { ws.scopes.peek_mut(&key) } else { ws.scopes.get_mut(&key) };
        let row = row.expect("it was listed");
        if !row.advance(now, &due, &ask) {
            ws.scopes.get_mut(&key);
            ws.unready.insert(key);
        } else if let Some(zone) = row.unknown_zone(now).cloned() {
            ws.unturned.insert(key, zone);
        }
    }
    Ok(())
}

/// Prepares balances for windows that are named and not kept yet.
async fn open_windows<R: Rows>(rows: &mut R, ws: &mut Workspace, needs: &Needs) -> Result<(), StoreError> {
    let mut asks = Vec::new();
    let mut windows = Vec::new();
    for (key, need) in needs.scopes.iter().filter(|(_, need)| !(need.windows.is_empty() && need.defaults.is_empty())) {
        let Some(row) = ws.scopes.get(key).filter(|_| !ws.unready.contains(key)) else { continue };
        let defaults = need.defaults.iter().filter(|_| row.takes_default());
        let missing = row.missing(need.windows.iter().chain(defaults));
        if missing.is_empty() {
            continue;
        }
        let wanted = need.windows.union(&need.defaults).cloned().collect();
        ws.scopes.peek_mut(key).expect("it was just there").forget_prepared(&wanted);
        let row = ws.scopes.get(key).expect("it was just there");
        for window in missing {
            windows.push((key.clone(), window.clone()));
            asks.push(past_ask(key, row, &window, ws.now)?);
        }
    }
    if windows.is_empty() {
        return Ok(());
    }
    // Where nothing was spent or held there is no past to ask for.
    let fresh = |key: &ScopeKey| ws.scopes.get(key).is_some_and(|row| row.postings == 0 && row.balances[0].held == 0);
    let fresh: HashSet<ScopeKey> = asks.iter().map(|ask| ask.scope.clone()).filter(|key| fresh(key)).collect();
    let asked: Vec<PastAsk> = asks.iter().filter(|ask| !fresh.contains(&ask.scope)).cloned().collect();
    let pasts = if asked.is_empty() { Vec::new() } else { rows.past(&asked).await? };
    let (now, mut pasts) = (ws.now, pasts.into_iter());
    for ((key, window), ask) in windows.into_iter().zip(asks) {
        let is_fresh = fresh.contains(&key);
        let mut past =
            if is_fresh { Past::default() } else { pasts.next().expect("each that is asked for is answered") };
        // What was summed over a past is written also when the request is refused, so that the next need not sum it again;
        // but not for a dry run.
        let kept = needs.scopes.get(&key).is_some_and(|need| need.create) && !is_fresh;
        let row = if kept { ws.scopes.get_mut(&key) } else { ws.scopes.peek_mut(&key) };
        let row = row.expect("it was listed");
        past.held = match window {
            Window::Rolling { .. } => row.balances[0].held,
            _ => past.held + row.recently_held(ask.placed_from),
        };
        row.prepare(window, now, past);
    }
    Ok(())
}

/// What history must say of a window before it can be opened.
fn past_ask(key: &ScopeKey, row: &ScopeState, window: &Window, now: Time) -> Result<PastAsk, StoreError> {
    // A request that names an unknown zone is not loaded for; the journal may do so.
    if let (Window::Calendar { zone, .. }, Err(_)) = (window, window.check()) {
        return Err(unknown_zone(zone));
    }
    Ok(PastAsk::of(key, row, &Balance::open(window.clone(), now, Past::default())))
}

/// Scopes that were to be tidied, with how far their postings can be rolled up.
fn tidied(requests: &[&Request], ws: &Workspace, rules: &Rules) -> Vec<(ScopeKey, Time)> {
    let scopes = requests.iter().filter_map(|request| match &request.op {
        Op::Tidy { scopes } if request.check().is_ok() && !request.dry_run => Some((request, scopes)),
        _ => None,
    });
    let keys = scopes.flat_map(|(request, scopes)| {
        scopes.iter().map(|scope: &Scope| (request.context.tenant.clone(), scope.clone()))
    });
    // Where more is due than one step folds, postings that have not left their windows yet are still needed.
    let keys = keys.filter(|key| !ws.unready.contains(key));
    keys.filter_map(|key| Some((ws.scopes.get(&key)?.rolled_up_before(ws.now, rules.postings_kept), key)))
        .map(|(before, key)| (key, if Mutant::RollUpTooMuch.on() { ws.now } else { before }))
        .collect()
}

/// A scope brought to `now` for somebody who only looks.
pub async fn view<R: Rows>(
    rows: &mut R,
    key: &ScopeKey,
    row: ScopeState,
    clock: Time,
) -> Result<ScopeState, StoreError> {
    let mut row = row;
    let now = clock.max(row.seen);
    loop {
        let ask = row.due_ask(now);
        let due =
            if ask.is_empty() { Due::default() } else { rows.due(&[(key.clone(), ask.clone())], now).await?.remove(0) };
        if row.advance(now, &due, &ask) {
            row.balances.retain(|balance| !balance.prospective);
            return Ok(row);
        }
    }
}
