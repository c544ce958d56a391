//! The model against real engines: a seeded workload runs on one store, batch after batch, and the model of the simulator checks every
//! answer and every balance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bursar_core::answer::Outcome;
use bursar_core::budget::Limit;
use bursar_core::decide::Rules;
use bursar_core::id::{BlobId, HoldId};
use bursar_core::name::Tenant;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{CheckedRequest, Op, Request};
use bursar_core::time::{Span, Time};
use bursar_store::{Clock, DeadGroup, LockPolicy, ManualClock, RequestOutcome, Store};

use super::jobs::ClaimSeen;
use super::judge::{Decision, Judge};
use super::plan::Plan;
use super::random::Random;
use super::workload::Workload;

/// Requests of a batch: mostly one, sometimes several.
const BATCH_MAX: u64 = 6;
/// A thousand days, in microseconds.
const FAR: i64 = 1_000 * 86_400 * 1_000_000;

/// Runs `requests` requests of a seed on an empty store with this clock and these rules.
///
/// # Errors
/// The first answer, balance or job that differs from the model.
pub async fn run_on(
    store: &dyn Store,
    clock: &ManualClock,
    rules: Rules,
    seed: u64,
    requests: usize,
) -> Result<(), String> {
    let plan = Plan::of(seed, requests as u64);
    let mut random = Random::new(seed);
    let mut workload = Workload::new(&plan);
    let mut judge = Judge::new(rules);
    let mut decided = 0;
    while decided < requests {
        move_clock(clock, &judge, &mut random);
        let size = if random.one_in(3) { 1 + random.below(BATCH_MAX) } else { 1 };
        let batch = (0..size).map(|_| workload.next(&mut random));
        let batch: Vec<Arc<CheckedRequest>> =
            batch.filter_map(|request| CheckedRequest::new(request).ok().map(Arc::new)).collect();
        decided += size as usize;
        for (request, answer) in commit(store, clock, &batch).await? {
            if let Ok(outcome) = &answer {
                workload.learn(&mut random, &request, outcome);
            }
            let now = clock.now();
            compare_retries(&judge, &request, &answer, now.micros())?;
            let disturbed = batch.iter().any(|request| matches!(request.op, Op::Act { .. }));
            let claim = ClaimSeen { commits: judge.commits, at: now.micros(), locked: BTreeSet::new(), disturbed };
            judge.judge_alone(&Decision {
                request: (**request).clone(),
                answer,
                now,
                began: judge.commits,
                decided: judge.commits,
                claim: matches!(request.op, Op::Lease(_)).then(|| Arc::new(claim)),
            })?;
        }
        judge.commits += 1;
        if random.one_in(8) {
            forget_holds(store, &mut judge, clock.now()).await?;
        }
        compare(store, &mut judge, clock.now()).await?;
    }
    store.rebuild().await.map_err(|error| error.to_string())?;
    compare(store, &mut judge, clock.now()).await.map_err(|difference| format!("after a rebuild: {difference}"))?;
    let report = store.verify().await.map_err(|error| error.to_string())?;
    if report.is_ok() { Ok(()) } else { Err(format!("verify: {:?}", report.violations)) }
}

/// Deletes ended holds, and has the model judge which ones.
async fn forget_holds(store: &dyn Store, judge: &mut Judge, now: Time) -> Result<(), String> {
    let known: Vec<(HoldId, Tenant)> = judge.model.holds.iter().map(|(id, hold)| (*id, hold.tenant.clone())).collect();
    let forgotten = store.forget_holds(None, usize::from(u16::MAX)).await.map_err(|error| error.to_string())?;
    let mut count = 0;
    for (hold, tenant) in known {
        if store.hold(&tenant, hold).await.map_err(|error| error.to_string())?.is_none() {
            judge.forget_hold(hold, now);
            count += 1;
        }
    }
    if count != forgotten.count {
        return Err(format!("retention: {count} holds are gone, but {} were deleted", forgotten.count));
    }
    judge.failure.take().map_or(Ok(()), |failure| Err(failure.what))
}

/// Moves the clock forward: mostly a little, sometimes to the expiry of a hold, or just before or after it, and rarely by hours. A scope
/// sees each instant once, so that a batch is decided at the clock's time only if the clock has moved.
fn move_clock(clock: &ManualClock, judge: &Judge, random: &mut Random) {
    let now = clock.now().micros();
    let offset = random.between(-1, 1);
    let expiries = judge.model.holds.values().map(|hold| hold.expires_at.saturating_add(offset));
    let mut expiries: Vec<i64> = expiries.filter(|at| *at > now && *at < now + 3_600_000_000).collect();
    expiries.sort_unstable();
    match random.below(20) {
        0..4 if !expiries.is_empty() => clock.set(Time::from_micros(*random.pick(&expiries))),
        4 => clock.advance(Span::from_secs(1 + random.below(20_000))),
        _ => clock.advance(Span::from_micros(1 + random.below(3_000_000) as i64)),
    }
}

type Answered = (Arc<CheckedRequest>, Result<Outcome, Refusal>);

/// Commits a batch, and what must be committed again, until every request is answered. Requests that are repeated come later in the order
/// of decisions.
async fn commit(
    store: &dyn Store,
    clock: &ManualClock,
    batch: &[Arc<CheckedRequest>],
) -> Result<Vec<Answered>, String> {
    let (mut answered, mut open) = (Vec::new(), batch.to_vec());
    while !open.is_empty() {
        let outcomes = store.commit(&open, LockPolicy::Skip).await.map_err(|error| error.to_string())?;
        let mut again = Vec::new();
        for (request, outcome) in open.into_iter().zip(outcomes) {
            match outcome {
                RequestOutcome::Answered(answer) => answered.push((request, answer)),
                RequestOutcome::Again => again.push(request),
                other => return Err(format!("{request:?}: {other:?} without another transaction")),
            }
        }
        open = again;
        if !open.is_empty() {
            clock.advance(Span::from_micros(1));
        }
    }
    Ok(answered)
}

/// Checks that a refused amount does not fit before `retry_after` has passed; and where there is none, that time alone does not make room.
fn compare_retries(
    judge: &Judge,
    request: &Request,
    answer: &Result<Outcome, Refusal>,
    now: i64,
) -> Result<(), String> {
    let Err(Refusal::Refused(violations)) = answer else { return Ok(()) };
    for violation in violations {
        let Violation::Limit { scope, window, limit, requested, retry_after, possible, .. } = violation else {
            continue;
        };
        // An amount above the limit itself would need a credit, which no estimate can foresee.
        if !possible {
            if retry_after.is_some() {
                return Err(format!("{violation:?} at {now}: it never fits"));
            }
            continue;
        }
        let key = (request.context.tenant.clone(), scope.clone());
        let mut scope = judge.model.scopes.get(&key).cloned().unwrap_or_default();
        // A bucket that this request would have opened counts from this instant on.
        scope.advance(now);
        scope.open_bucket(window, now);
        let until = retry_after.map_or(now + FAR, |span| now + span.micros() - 1);
        for then in [now, now + (until - now) / 2, until.max(now)] {
            let mut later = scope.clone();
            later.advance(then);
            let rest = later.remaining(&Limit::new(*limit, window.clone()), then);
            if rest >= *requested {
                return Err(format!("{violation:?} at {now}: {rest} are left at {then}"));
            }
        }
    }
    Ok(())
}

/// Compares every blob with the model, and which of them the store lists as due.
async fn compare_blobs(store: &dyn Store, judge: &Judge, now: Time) -> Result<(), String> {
    let mut stored = store.list_all_blobs(None, 1_000).await.map_err(|error| error.to_string())?;
    for blob in &stored {
        judge.model.compare_blob(blob.id, Some(blob))?;
    }
    if stored.len() != judge.model.blobs.len() {
        return Err(format!("{} blobs, expected {}", stored.len(), judge.model.blobs.len()));
    }
    if !stored.is_empty() {
        stored = store.due_blobs(1_000).await.map_err(|error| error.to_string())?;
    }
    let due: BTreeSet<BlobId> = stored.iter().map(|blob| blob.id).collect();
    let expected = judge.model.blobs_to_collect(now.micros());
    if due == expected { Ok(()) } else { Err(format!("{due:?} are due at {now}, expected {expected:?}")) }
}

/// Compares every scope, job, blob and group of dead jobs of the store with the model.
async fn compare(store: &dyn Store, judge: &mut Judge, now: Time) -> Result<(), String> {
    let keys: Vec<_> = judge.model.scopes.keys().cloned().collect();
    for key in keys {
        if let Some(row) = store.scope(&key).await.map_err(|error| error.to_string())? {
            judge.compare_row(&key, &row, None)?;
        }
    }
    let jobs: Vec<_> = judge.model.jobs.iter().map(|(id, job)| (*id, job.tenant.clone())).collect();
    for (id, tenant) in jobs {
        let job = store.job(&tenant, id).await.map_err(|error| error.to_string())?;
        judge.model.compare_job(id, job.as_ref())?;
    }
    compare_blobs(store, judge, now).await?;
    let mut stored = BTreeMap::new();
    let tenants: BTreeSet<Tenant> = judge.model.jobs.values().map(|job| job.tenant.clone()).collect();
    for tenant in tenants {
        let groups = store.list_dead_groups(&tenant, None, None, 1_000).await.map_err(|error| error.to_string())?;
        for DeadGroup { queue, kind, fingerprint, count, first_at, last_at, .. } in groups {
            let key = (tenant.clone(), queue, kind, fingerprint);
            stored.insert(key, (first_at.micros(), last_at.micros(), count));
        }
    }
    let expected = judge.model.dead_groups();
    if stored != expected {
        return Err(format!("dead jobs by error: {stored:?}, expected {expected:?}"));
    }
    Ok(())
}
