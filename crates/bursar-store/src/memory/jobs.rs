//! Reads of jobs, queues and schedules, and of the rows that need maintenance.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use bursar_core::id::JobId;
use bursar_core::job::{Job, JobState, Place, QueueState};
use bursar_core::name::{FlowKey, Queue, Tenant};
use bursar_core::page;
use bursar_core::state::{CostKey, Counted, DeadGroupKey, QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;

use super::Tables;
use crate::claims::{self, is_in};
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, DeadGroup, DeadGroupMark, DueJobs, Figures, HeldMark, HeldSum, JobFilter};

impl Tables {
    pub(super) fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
        now: Time,
    ) -> Vec<Job> {
        let newest = filter.newest_first;
        let beyond = |job: &&Job| after.is_none_or(|after| if newest { job.id < after } else { job.id > after });
        let wanted = |job: &&Job| job.tenant == *tenant && beyond(job) && filter.matches(job, now);
        match newest {
            true => self.jobs.values().rev().filter(wanted).take(limit).cloned().collect(),
            false => self.jobs.values().filter(wanted).take(limit).cloned().collect(),
        }
    }

    pub(super) fn queue_counts(&self) -> Vec<(QueueKey, JobState, i64)> {
        let mut sums = BTreeMap::new();
        for (tally, count) in &self.tallies {
            if let Counted::In(state) = tally.what {
                *sums.entry((tally.tenant.clone(), tally.queue.clone(), state)).or_insert(0) += count;
            }
        }
        let counts = sums.into_iter().filter(|(_, count)| *count != 0);
        counts.map(|((tenant, queue, state), count)| ((tenant, queue), state, count)).collect()
    }

    pub(super) fn list_queues(&self, tenant: &Tenant, after: Option<&Queue>, limit: usize) -> Vec<(Queue, QueueState)> {
        let defined = self.queues.keys().cloned();
        let used = self.tallies.keys().map(|tally| (tally.tenant.clone(), tally.queue.clone()));
        let all: BTreeSet<QueueKey> = defined.chain(used).filter(|(of, _)| of == tenant).collect();
        let wanted = all.into_iter().filter(|(_, queue)| after.is_none_or(|after| queue > after)).take(limit);
        wanted.map(|key| (key.1.clone(), self.queues.get(&key).cloned().unwrap_or_default())).collect()
    }

    pub(super) fn figures(&self, key: &QueueKey, since_minute: i64, now: Time) -> Figures {
        let counts = self.tallies.iter().filter(|(tally, count)| {
            let recent = tally.what.minute().is_none_or(|minute| minute >= since_minute);
            (&tally.tenant, &tally.queue) == (&key.0, &key.1) && recent && **count != 0
        });
        let waits = |job: &&Job| {
            let delayed = matches!(job.life.place, Place::Until(_));
            is_in(job, key) && job.state_at(now) == JobState::Queued && !delayed
        };
        let leases = self.jobs.values().filter(|job| is_in(job, key)).filter_map(|job| job.life.lease.as_ref());
        Figures {
            counts: counts.map(|(tally, count)| (tally.what, *count)).collect(),
            oldest_waiting: self.jobs.values().filter(waits).map(|job| job.life.run_at).min(),
            oldest_lease: leases.map(|lease| lease.since).min(),
        }
    }

    pub(super) fn costs(
        &self,
        tenant: &Tenant,
        days: &RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Vec<Cost> {
        let wanted = self.costs.iter().filter(|((of, day, queue, kind, scope), _)| {
            let later = after.is_none_or(|(d, q, k, s)| (day, queue, kind, scope) > (d, q, k, s));
            of == tenant && days.contains(day) && later
        });
        let cost = |((_, day, queue, kind, scope), amount): (&CostKey, &i64)| Cost {
            day: *day,
            queue: queue.clone(),
            kind: kind.clone(),
            scope: scope.clone(),
            amount: *amount,
        };
        wanted.map(cost).take(limit).collect()
    }

    pub(super) fn held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Vec<HeldSum> {
        let wanted = self.held.iter().filter(|((of, in_queue, kind, unit), sum)| {
            let selected = of == tenant && queue.is_none_or(|queue| queue == in_queue);
            let later = after.is_none_or(|(q, k, u)| (in_queue, kind, unit) > (q, k, u));
            selected && later && **sum != 0
        });
        let held =
            wanted.map(|((_, queue, kind, unit), sum)| HeldSum::new(queue.clone(), kind.clone(), unit.clone(), *sum));
        held.take(limit).collect()
    }

    /// Returns the number of dead jobs in each group; no group is empty.
    pub fn dead_groups(&self) -> &BTreeMap<DeadGroupKey, i64> {
        &self.dead
    }

    pub(super) fn list_dead_groups(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&DeadGroupMark>,
        limit: usize,
    ) -> Result<Vec<DeadGroup>, StoreError> {
        let wanted = self.dead.iter().filter(|((of, in_queue, kind, fingerprint), _)| {
            let selected = of == tenant && queue.is_none_or(|queue| queue == in_queue);
            selected && after.is_none_or(|(q, k, f)| (in_queue, kind, fingerprint) > (q, k, f))
        });
        let mut dead: HashMap<DeadGroupKey, Vec<&Job>> = HashMap::new();
        for job in self.jobs.values().filter(|job| job.tenant == *tenant) {
            job.dead_group().into_iter().for_each(|group| dead.entry(group).or_default().push(job));
        }
        let group = |(key, count): (&DeadGroupKey, &i64)| {
            let jobs = dead.get(key)?;
            let first = jobs.iter().map(|job| job.life.run_at).min()?;
            let last = jobs.iter().max_by_key(|job| (job.life.run_at, job.id))?;
            Some(DeadGroup::new(key.3.clone(), *count, first, (*last).clone()))
        };
        Ok(page::cut(wanted.filter_map(group).take(limit).collect::<Result<_, _>>()?, limit))
    }

    /// Returns the jobs that need maintenance, the longest overdue first, at most `limit` of each kind.
    pub fn due_jobs(&self, limit: usize, now: Time) -> DueJobs {
        let kept = |job: &Job| {
            let queue = self.queues.get(&(job.tenant.clone(), job.queue.clone()));
            queue.map(|queue| queue.config.clone()).unwrap_or_default().kept(job.life.state)
        };
        claims::due(|| self.jobs.values(), kept, now, limit)
    }

    /// Returns the schedules with a due tick, the longest overdue first, and the time of the next tick.
    pub fn due_schedules(&self, limit: usize, now: Time) -> (Vec<ScheduleKey>, Option<Time>) {
        let mut all: Vec<_> = self.schedules.iter().map(|(key, row)| (row.next_at, key)).collect();
        all.retain(|(at, _)| *at < Time::NEVER);
        all.sort();
        let next = all.iter().map(|(at, _)| *at).find(|at| *at > now);
        (all.into_iter().filter(|(at, _)| *at <= now).take(limit).map(|(_, key)| key.clone()).collect(), next)
    }

    /// Returns jobs that await units of a scope.
    pub fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Vec<JobId> {
        let all = self.jobs.values().filter(|job| {
            let awaits = job.life.awaits.as_ref().filter(|_| job.life.state == JobState::AwaitingBudget);
            job.tenant == scope.0 && awaits == Some(&scope.1)
        });
        all.map(|job| job.id).take(limit).collect()
    }

    /// Returns the barred heads of a queue's lines, for at most `limit` flow keys after one; and the last of these keys, `None` at the
    /// end.
    pub fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> (Vec<JobId>, Option<FlowKey>) {
        claims::barred(|| self.jobs.values(), queue, after, limit)
    }

    /// Returns the scopes that jobs await units of, with their versions.
    pub fn scopes_awaited(&self, limit: usize) -> Vec<(ScopeKey, u64)> {
        let scopes = claims::awaited(self.jobs.values()).into_iter().take(limit);
        scopes.map(|key| (key.clone(), self.scopes.get(&key).map_or(0, |row| row.version))).collect()
    }

    /// Lists the keys of scopes in order, after one.
    pub fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Vec<ScopeKey> {
        self.scopes.keys().filter(|key| after.is_none_or(|after| *key > after)).take(limit).cloned().collect()
    }
}
