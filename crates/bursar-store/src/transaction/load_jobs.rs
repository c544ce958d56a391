//! Loads jobs: those that requests name, those that can be leased, and the next and barred jobs in the lines of their flow keys.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bursar_core::id::JobId;
use bursar_core::job::{FlowScopes, Job, JobState};
use bursar_core::mutant::Mutant;
use bursar_core::name::FlowKey;
use bursar_core::needs::Needs;
use bursar_core::state::{LineKey, QueueKey, ScheduleKey, Workspace};

use super::blocked::Blocked;
use super::rows::{ClaimQuery, Claimed, Rows};
use crate::error::StoreError;
use crate::store::Lock;

/// Loads the schedules and jobs that requests name, and the settings of their queues. Adds the rows that these refer to to the needs. A
/// replay does not load other jobs of their lines, because the journal does not contain the order of lines.
pub(super) async fn load<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    needs: &mut Needs,
    blocked: &mut Blocked,
    replay: bool,
) -> Result<(), StoreError> {
    let wanted: Vec<ScheduleKey> = needs.schedules.iter().cloned().collect();
    if !wanted.is_empty() {
        let found = rows.schedules(&wanted).await?;
        for (key, schedule) in found.rows {
            needs.add_schedule(&key.0, &schedule);
            ws.schedules.load(key, Some(schedule));
        }
        blocked.schedules.extend(found.blocked);
        wanted.into_iter().for_each(|key| ws.schedules.load(key, None));
    }
    let wanted: Vec<JobId> = needs.jobs.union(&needs.beats).copied().collect();
    // The lines that jobs of the requests may leave, each with the number of jobs to load behind its head.
    let mut lines_left: BTreeMap<LineKey, usize> = BTreeMap::new();
    let mut slots_freed = BTreeSet::new();
    if !wanted.is_empty() {
        let moves = std::mem::take(&mut needs.moves);
        let found = rows.jobs(&wanted, true).await?;
        for (id, job) in found.rows {
            if needs.jobs.contains(&id) {
                needs.add_job(&job);
                moves.iter().filter(|(of, _)| *of == id).for_each(|(_, to)| needs.add_move(&job, to));
                // If the job leaves its line, the job behind it becomes the head.
                if let Some(line) = job.line_key() {
                    *lines_left.entry(line).or_insert(1) += 1;
                }
                slots_freed.extend(flow_key_of_slot(&job));
            } else {
                needs.queues.insert((job.tenant.clone(), job.queue.clone()));
            }
            ws.jobs.reload(id, job);
        }
        needs.moves = moves;
        blocked.jobs.extend(found.blocked);
        wanted.into_iter().for_each(|id| ws.jobs.load(id, None));
    }
    if !replay {
        load_behind(rows, ws, &lines_left.into_iter().collect::<Vec<_>>()).await?;
        load_barred(rows, ws, slots_freed).await?;
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

/// Loads the jobs that can be leased, and adds the scopes of their limits to the needs.
pub(super) async fn claim<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    needs: &mut Needs,
) -> Result<Vec<(ClaimQuery, Claimed)>, StoreError> {
    let paused = |key: &QueueKey| ws.queues.get(key).is_some_and(|queue| queue.config.paused);
    let paused = |key: &QueueKey| paused(key) && !Mutant::LeasePaused.on();
    let open = needs.claims.iter().filter(|(key, _)| !paused(key));
    let queries = open.flat_map(|(key, claim)| {
        let query = |kinds: &BTreeSet<_>| ClaimQuery {
            queue: key.clone(),
            kinds: kinds.iter().cloned().collect(),
            count: claim.count,
        };
        claim.kinds.iter().map(query).collect::<Vec<_>>()
    });
    let queries: Vec<ClaimQuery> = queries.collect();
    if queries.is_empty() {
        return Ok(Vec::new());
    }
    let now = rows.now().await?;
    let claimed = rows.claim(&queries, now).await?;
    let mut lines_with_claims: BTreeMap<LineKey, usize> = BTreeMap::new();
    for (query, claimed) in queries.iter().zip(&claimed) {
        let config = ws.queues.get(&query.queue).map(|queue| queue.config.clone()).unwrap_or_default();
        let jobs = || claimed.ready.iter().chain(&claimed.due);
        jobs().for_each(|job| needs.add_flow_limits(job, &config));
        let lines: BTreeSet<LineKey> = jobs().filter_map(Job::headed_line).collect();
        // If there are fewer heads of lines than requested jobs, jobs behind them are leased too. One more job of each line is loaded,
        // which becomes the head.
        let more = query.count.saturating_sub(jobs().count()).div_ceil(lines.len().max(1));
        for line in lines {
            let behind = lines_with_claims.entry(line).or_default();
            *behind = (*behind).max(more + 1);
        }
    }
    for job in claimed.iter().flat_map(|claimed| claimed.ready.iter().chain(&claimed.due)) {
        ws.jobs.reload(job.id, job.clone());
    }
    load_behind(rows, ws, &lines_with_claims.into_iter().collect::<Vec<_>>()).await?;
    Ok(queries.into_iter().zip(claimed).collect())
}

/// Puts the jobs that can be leased into the workspace, sorted by rank. It is called when the instant is known and the scopes are locked.
pub(super) fn rank_claims(ws: &mut Workspace, claimed: Vec<(ClaimQuery, Claimed)>, blocked: &mut Blocked) {
    let mut queues: BTreeMap<QueueKey, (BTreeSet<JobId>, Claimed)> = BTreeMap::new();
    for (query, found) in claimed {
        ws.claims.entry(query.queue.clone()).or_default().more |= found.ready.len() >= query.count;
        let (seen, all) = queues.entry(query.queue).or_default();
        // Queries for different kinds may have found the same job.
        all.ready.extend(found.ready.into_iter().chain(found.due).filter(|job| seen.insert(job.id)));
        all.next_at = [all.next_at, found.next_at].into_iter().flatten().min();
    }
    for (queue, (_, Claimed { ready, next_at, .. })) in queues {
        let mut jobs = Vec::with_capacity(ready.len());
        for job in ready {
            let locks: Vec<Lock> = flow_locks(&job, blocked).collect();
            if locks.is_empty() {
                jobs.push(job.id);
            } else {
                blocked.claims.entry(queue.clone()).or_default().extend(locks);
            }
        }
        jobs.iter().for_each(|id| ws.make_due_job_ready(*id));
        jobs.retain(|id| ws.jobs.get(id).is_some_and(Job::is_ready));
        jobs.sort_by_key(|id| ws.jobs.get(id).map(|job| (job.life.rank, *id)));
        if Mutant::WorstFirst.on() {
            jobs.reverse();
        }
        let claims = ws.claims.entry(queue).or_default();
        claims.jobs = VecDeque::from(jobs);
        claims.next_at = next_at;
    }
}

/// Returns the scopes of a job's limits that another transaction has locked.
fn flow_locks<'a>(job: &'a Job, blocked: &'a Blocked) -> impl Iterator<Item = Lock> + 'a {
    // If no scope is locked, the scope names need not be built.
    let job = Some(job).filter(|_| !blocked.scopes.is_empty());
    let flows = job.into_iter().flat_map(|job| {
        let key = job.key.as_ref().map(|key| FlowScopes::of_key(&job.queue, key));
        [Some(FlowScopes::of_queue(&job.queue)), key].into_iter().flatten().map(move |flow| (job, flow))
    });
    let keys = flows.flat_map(|(job, flow)| [flow.slots, flow.rate].map(|scope| (job.tenant.clone(), scope)));
    keys.filter(|key| blocked.scopes.contains(key)).map(Lock::Scope)
}

/// Loads the jobs behind the heads of lines, up to a number for each line.
async fn load_behind<R: Rows>(rows: &mut R, ws: &mut Workspace, lines: &[(LineKey, usize)]) -> Result<(), StoreError> {
    if lines.is_empty() {
        return Ok(());
    }
    for job in rows.behind(lines).await? {
        let line = job.line_key().expect("a job in a line has a flow key");
        let loaded = ws.lines.entry(line).or_default();
        if !loaded.contains(&job.id) {
            loaded.push_back(job.id);
            ws.jobs.reload(job.id, job);
        }
    }
    Ok(())
}

/// Loads the barred heads of the lines of flow keys.
async fn load_barred<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    keys: BTreeSet<(QueueKey, FlowKey)>,
) -> Result<(), StoreError> {
    if keys.is_empty() {
        return Ok(());
    }
    for job in rows.barred(&keys.into_iter().collect::<Vec<_>>()).await? {
        let line = (job.tenant.clone(), job.line().expect("a barred job has a flow key"));
        ws.barred.entry(line).or_default().push(job.id);
        ws.jobs.reload(job.id, job);
    }
    Ok(())
}

/// Returns the queue and flow key of a leased job. The request may free the slot that its lease takes.
fn flow_key_of_slot(job: &Job) -> Option<(QueueKey, FlowKey)> {
    let key = job.key.clone().filter(|_| job.life.state == JobState::Leased)?;
    Some(((job.tenant.clone(), job.queue.clone()), key))
}
