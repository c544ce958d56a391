//! Rows that other transactions have locked. A request that needs one of them is not decided; the rest of its batch is.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use bursar_core::decide::{Decided, Rules, decide};
use bursar_core::id::{BlobId, GrantId, HoldId, IdSource, JobId};
use bursar_core::mutant::Mutant;
use bursar_core::name::Scope;
use bursar_core::needs::Needs;
use bursar_core::request::{Act, BlobOp, CheckedRequest, Op};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey, Workspace};

use super::load::redeemed;
use crate::store::{Lock, RequestOutcome};

/// Rows that other transactions have locked.
#[derive(Default)]
pub(super) struct Blocked {
    pub(super) schedules: HashSet<ScheduleKey>,
    pub(super) jobs: HashSet<JobId>,
    /// For each queue, the locked rows because of which jobs of the queue cannot be leased.
    pub(super) claims: HashMap<QueueKey, Vec<Lock>>,
    pub(super) blobs: HashSet<BlobId>,
    pub(super) holds: HashSet<HoldId>,
    pub(super) grants: HashSet<GrantId>,
    pub(super) scopes: HashSet<ScopeKey>,
}

impl Blocked {
    fn is_empty(&self) -> bool {
        let Blocked { schedules, jobs, claims, blobs, holds, grants, scopes } = self;
        schedules.is_empty()
            && jobs.is_empty()
            && claims.is_empty()
            && blobs.is_empty()
            && holds.is_empty()
            && grants.is_empty()
            && scopes.is_empty()
    }

    /// Decides a request, unless it needs a row that another transaction has locked.
    pub(super) fn decide(
        &self,
        ws: &mut Workspace,
        request: &CheckedRequest,
        rules: &Rules,
        ids: &mut (dyn IdSource + Send),
    ) -> RequestOutcome {
        let mut request = Cow::Borrowed(request);
        if !self.is_empty() && !Mutant::LockedIsGone.on() {
            if let Some(op) = self.without_locked_items(&request, ws) {
                request = Cow::Owned(request.narrowed(op));
            }
            let locks = self.locks_for(request.needs(), ws);
            if !locks.is_empty() {
                return RequestOutcome::Blocked(locks);
            }
        }
        match decide(ws, &request, rules, ids) {
            Decided::Answered(answer) => RequestOutcome::Answered(answer),
            Decided::Again => RequestOutcome::Again,
        }
    }

    /// Returns the locked rows that a request needs.
    fn locks_for(&self, needs: &Needs, ws: &Workspace) -> Vec<Lock> {
        // The answer for an existing job contains its hold. A replayed answer contains the payloads of the grants it redeemed.
        let holds_of_existing_jobs = needs.job_keys.iter().filter_map(|key| ws.jobs.get(ws.job_keys.get(key)?)?.hold);
        let jobs = needs.jobs.iter().chain(&needs.beats).copied();
        let holds_of_jobs = needs.jobs.iter().filter_map(|id| ws.jobs.get(id)?.hold);
        let forgotten = needs.forgets.iter().filter_map(|id| ws.jobs.get(id)).flat_map(|job| &job.life.blobs);
        let blobs: HashSet<BlobId> = needs.blobs.iter().chain(forgotten).copied().collect();
        let holds_of_blobs = blobs.iter().filter_map(|id| ws.blobs.get(id));
        let holds_of_blobs = holds_of_blobs.flat_map(|blob| &blob.holds).copied();
        let holds = needs
            .holds
            .iter()
            .copied()
            .chain(holds_of_existing_jobs)
            .chain(holds_of_jobs)
            .chain(holds_of_blobs)
            .filter(|id| self.holds.contains(id));
        let jobs = jobs.filter(|id| self.jobs.contains(id));
        let replayed = needs.keys.iter().filter_map(|key| ws.replays.get(&ws.keys.get(key)?.command));
        let redeemed = replayed.flat_map(|entry| redeemed(entry));
        let grants = needs.grants.iter().copied().chain(redeemed).filter(|id| self.grants.contains(id));
        let scopes = needs.scopes_in(ws).filter(|key| self.scopes.contains(key));
        // A lease waits for locked rows only if no other job can be leased.
        let claimed = |queue: &QueueKey| ws.claims.get(queue).is_some_and(|claims| !claims.jobs.is_empty());
        let claims = needs.claims.keys().filter_map(|queue| self.claims.get(queue)).flatten().cloned();
        let claims = claims.filter(|_| !needs.claims.keys().any(claimed));
        let locked_blobs = blobs.iter().filter(|id| self.blobs.contains(*id)).map(|id| Lock::Blob(*id));
        let rows =
            locked_blobs.chain(holds.map(Lock::Hold)).chain(grants.map(Lock::Grant)).chain(scopes.map(Lock::Scope));
        let schedules = needs.schedules.iter().filter(|key| self.schedules.contains(*key)).cloned();
        let last_jobs = needs.schedules.iter().filter_map(|key| ws.schedules.get(key)?.last_job);
        let last_jobs = last_jobs.filter(|id| self.jobs.contains(id)).map(Lock::Job);
        schedules.map(Lock::Schedule).chain(last_jobs).chain(jobs.map(Lock::Job)).chain(rows).chain(claims).collect()
    }

    /// Returns an operation of maintenance without its locked items, which a later round handles. A request with an idempotency key is not
    /// narrowed, because a retry with the same key must be the same request.
    fn without_locked_items(&self, request: &CheckedRequest, ws: &Workspace) -> Option<Op> {
        if request.idempotency_key.is_some() {
            return None;
        }
        let tenant = &request.context.tenant;
        let locked = |scope: &Scope| self.scopes.contains(&(tenant.clone(), scope.clone()));
        match &request.op {
            Op::Expire { holds } => {
                let is_free = |id: &&HoldId| {
                    !self.holds.contains(id) && ws.holds.get(*id).is_none_or(|hold| !hold.totals().keys().any(locked))
                };
                Some(Op::Expire { holds: holds.iter().filter(is_free).copied().collect() })
            }
            Op::Tidy { scopes } => {
                Some(Op::Tidy { scopes: scopes.iter().filter(|scope| !locked(scope)).cloned().collect() })
            }
            Op::Act { act: act @ (Act::Rescue | Act::Resume | Act::Forget | Act::Unbar), jobs } => {
                let is_free = |id: &&JobId| {
                    let one = request.narrowed(Op::Act { act: act.clone(), jobs: vec![**id] });
                    self.locks_for(one.needs(), ws).is_empty()
                };
                Some(Op::Act { act: act.clone(), jobs: jobs.iter().filter(is_free).copied().collect() })
            }
            Op::Blob(op @ (BlobOp::Doom { blobs } | BlobOp::Collect { blobs })) => {
                let with = |blobs| match op {
                    BlobOp::Doom { .. } => Op::Blob(BlobOp::Doom { blobs }),
                    _ => Op::Blob(BlobOp::Collect { blobs }),
                };
                let is_free = |id: &&BlobId| self.locks_for(request.narrowed(with(vec![**id])).needs(), ws).is_empty();
                Some(with(blobs.iter().filter(is_free).copied().collect()))
            }
            _ => None,
        }
    }
}
