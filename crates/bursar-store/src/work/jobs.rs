//! Loading jobs: those that are named, those that can be leased, and the lines they stand in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bursar_core::id::JobId;
use bursar_core::job::{FlowScopes, Job, JobState, Place};
use bursar_core::mutant::Mutant;
use bursar_core::name::{FlowKey, JobKind};
use bursar_core::needs::Needs;
use bursar_core::state::{Claims, LineKey, QueueKey, Workspace};

use super::Blocked;
use crate::error::StoreError;
use crate::rows::{ClaimAsk, Claimed, Rows};
use crate::store::Lock;

/// The jobs that requests name, with what else they come to; then what is set for their queues.
pub(super) async fn load<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    needs: &mut Needs,
    blocked: &mut Blocked,
) -> Result<(), StoreError> {
    // Also those that were read before, unlocked, because somebody found them by their keys.
    let wanted: Vec<JobId> = needs.jobs.union(&needs.beats).copied().collect();
    let mut leading: BTreeMap<LineKey, usize> = BTreeMap::new();
    let mut named: BTreeMap<LineKey, usize> = BTreeMap::new();
    let mut freeing = BTreeSet::new();
    if !wanted.is_empty() {
        let found = rows.jobs(&wanted, true).await?;
        for (id, job) in found.rows {
            if needs.jobs.contains(&id) {
                needs.add_job(&job);
                leading.extend(line_led(&job).map(|line| (line, 0)));
                named.extend(line_of(&job).map(|line| (line.clone(), named.get(&line).unwrap_or(&0) + 1)));
                freeing.extend(slot_of_key(&job));
            } else {
                needs.queues.insert((job.tenant.clone(), job.queue.clone()));
            }
            ws.jobs.load_locked(id, Some(job));
        }
        blocked.jobs.extend(found.blocked);
        wanted.into_iter().for_each(|id| ws.jobs.load(id, None));
    }
    // As many as are named may leave their line, and then somebody else is the first.
    let leading: Vec<_> = leading.into_keys().map(|line| (line.clone(), named.get(&line).unwrap_or(&0) + 1)).collect();
    load_behind(rows, ws, &leading).await?;
    if !freeing.is_empty() {
        let freeing: Vec<_> = freeing.into_iter().collect();
        for job in rows.barred(&freeing).await? {
            let line = (job.tenant.clone(), job.line().expect("who is barred has a key"));
            ws.barred.entry(line).or_default().push(job.id);
            ws.jobs.load_locked(job.id, Some(job));
        }
    }
    for (keys, locked) in [(&needs.queues_defined, true), (&needs.queues, false)] {
        let wanted: Vec<QueueKey> = keys.iter().filter(|key| !ws.queues.is_loaded(*key)).cloned().collect();
        if wanted.is_empty() {
            continue;
        }
        for (key, queue) in rows.queues(&wanted, locked).await? {
            ws.queues.load(key, Some(queue));
        }
        wanted.into_iter().for_each(|key| ws.queues.load(key, None));
    }
    Ok(())
}

/// The jobs that can be leased, and the scopes that leasing them is charged to.
pub(super) async fn claim<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    needs: &mut Needs,
) -> Result<Vec<(QueueKey, Claimed)>, StoreError> {
    let paused = |key: &QueueKey| ws.queues.get(key).is_some_and(|queue| queue.config.paused && !Mutant::LeasePaused.on());
    let asks = needs.claims.iter().filter(|(key, _)| !paused(key)).flat_map(|(key, wanted)| {
        // Who wants some kinds may find them taken by who wants others as well.
        let count = wanted.values().sum();
        let ask = move |kinds: &BTreeSet<JobKind>| {
            ClaimAsk { queue: key.clone(), kinds: kinds.iter().cloned().collect(), count }
        };
        wanted.keys().map(ask)
    });
    let asks: Vec<ClaimAsk> = asks.collect();
    if asks.is_empty() {
        return Ok(Vec::new());
    }
    let now = rows.now().await?;
    let claimed = rows.claim(&asks, now).await?;
    let mut leading: BTreeMap<LineKey, usize> = BTreeMap::new();
    for (ask, claimed) in asks.iter().zip(&claimed) {
        let config = ws.queues.get(&ask.queue).map(|queue| queue.config.clone()).unwrap_or_default();
        let jobs = || claimed.ready.iter().chain(&claimed.due);
        jobs().for_each(|job| needs.add_flow(job, &config));
        let lines: BTreeSet<LineKey> = jobs().filter_map(line_led).collect();
        // Where there are fewer firsts than jobs wanted, those behind them go as well; and who is then the first is known.
        let more = ask.count.saturating_sub(jobs().count()).div_ceil(lines.len().max(1));
        for line in lines {
            let known = leading.entry(line).or_default();
            *known = (*known).max(more + 1);
        }
    }
    for job in claimed.iter().flat_map(|claimed| claimed.ready.iter().chain(&claimed.due)) {
        ws.jobs.load_locked(job.id, Some(job.clone()));
    }
    let leading: Vec<_> = leading.into_iter().collect();
    load_behind(rows, ws, &leading).await?;
    Ok(asks.into_iter().map(|ask| ask.queue).zip(claimed).collect())
}

/// Puts what can be leased in order, once the instant is known and the scopes are in hand.
pub(super) fn line_up(ws: &mut Workspace, claimed: Vec<(QueueKey, Claimed)>, blocked: &mut Blocked) {
    for (queue, Claimed { ready, due, next_at }) in claimed {
        let mut jobs = Vec::with_capacity(ready.len() + due.len());
        for job in ready.into_iter().chain(due) {
            let locks: Vec<Lock> = flow_locks(&job, blocked).collect();
            if locks.is_empty() {
                jobs.push(job.id);
            } else {
                blocked.claims.entry(queue.clone()).or_default().extend(locks);
            }
        }
        jobs.iter().for_each(|id| ws.come_due(*id));
        let ranked = |id: &JobId| ws.jobs.get(id).map(|job| (job.life.rank, *id));
        jobs.retain(|id| {
            let job = ws.jobs.get(id);
            job.is_some_and(|job| job.life.state == JobState::Queued && job.life.place != Place::Behind)
        });
        let claims = ws.claims.remove(&queue).unwrap_or_default();
        jobs.extend(claims.jobs);
        jobs.sort_by_key(ranked);
        jobs.dedup();
        if Mutant::WorstFirst.on() {
            jobs.reverse();
        }
        let next_at = [claims.next_at, next_at].into_iter().flatten().min();
        ws.claims.insert(queue, Claims { jobs: VecDeque::from(jobs), next_at });
    }
}

/// The scopes that leasing a job is charged to and that somebody else has locked.
fn flow_locks<'a>(job: &'a Job, blocked: &'a Blocked) -> impl Iterator<Item = Lock> + 'a {
    let queue = FlowScopes::of_queue(&job.queue);
    let key = job.key.as_ref().map(|key| FlowScopes::of_key(&job.queue, key));
    let scopes = [Some(queue), key].into_iter().flatten().flat_map(|flow| [flow.slots, flow.rate]);
    let keys = scopes.map(|scope| (job.tenant.clone(), scope));
    keys.filter(|key| blocked.scopes.contains(key)).map(Lock::Scope)
}

async fn load_behind<R: Rows>(rows: &mut R, ws: &mut Workspace, lines: &[(LineKey, usize)]) -> Result<(), StoreError> {
    if lines.is_empty() {
        return Ok(());
    }
    for job in rows.behind(lines).await? {
        let key = job.key.clone().expect("who stands in a line has a key");
        let line = (job.tenant.clone(), job.queue.clone(), key, job.kind.clone());
        let next = ws.lines.entry(line).or_default();
        if !next.contains(&job.id) {
            next.push_back(job.id);
        }
        ws.jobs.load_locked(job.id, Some(job));
    }
    Ok(())
}

/// The line that a job leads.
fn line_led(job: &Job) -> Option<LineKey> {
    line_of(job).filter(|_| matches!(job.life.place, Place::First | Place::Barred))
}

/// The line that a job stands in.
fn line_of(job: &Job) -> Option<LineKey> {
    let key = job.key.clone().filter(|_| job.life.place != Place::Out)?;
    Some((job.tenant.clone(), job.queue.clone(), key, job.kind.clone()))
}

/// The flow key that a slot of may become free.
fn slot_of_key(job: &Job) -> Option<(QueueKey, FlowKey)> {
    let key = job.key.clone().filter(|_| job.life.state == JobState::Leased)?;
    Some(((job.tenant.clone(), job.queue.clone()), key))
}
