//! Jobs by the model: what each has come to, told by the events of what was asked; and who may lease them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bursar_core::answer::{Answer, Beaten, Leased};
use bursar_core::budget::Limit;
use bursar_core::event::Event;
use bursar_core::hold::HoldState;
use bursar_core::id::{HoldId, JobId};
use bursar_core::job::{Beat, FlowScopes, Job, JobSpec, JobState, LeaseAsk, LeaseEnd, Order, QueueConfig, Rate, Retry};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, LeaseOwner, Queue, Scope, Tenant, WorkerName};
use bursar_core::refusal::Refusal;
use bursar_core::request::Op;
use bursar_core::state::JobKey;
use bursar_core::time::Span;

use super::expect::{Case, Check, is, opening};
use super::follow::is_consequence;
use super::model::{Live, Micros, Model};

/// What one step of priority is worth.
const STEP: Micros = 60_000_000;

/// What a transaction found when it looked for jobs to lease.
#[derive(Debug)]
pub(crate) struct ClaimSeen {
    /// How many transactions had committed.
    pub(crate) commits: u64,
    pub(crate) at: Micros,
    /// Jobs that wait and that somebody else had locked.
    pub(crate) locked: BTreeSet<JobId>,
    /// Neighbours in its transaction do something to jobs as well, so that some that were found cannot be leased.
    pub(crate) disturbed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct JobModel {
    pub(crate) tenant: Tenant,
    pub(crate) queue: Queue,
    /// Where its key makes it unique.
    pub(crate) home: Queue,
    pub(crate) kind: JobKind,
    pub(crate) key: Option<FlowKey>,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    pub(crate) priority: i16,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry: Option<Retry>,
    pub(crate) deadline: Option<Span>,
    /// `Queued` stands for `Scheduled` too: which of them is stored follows from time.
    pub(crate) state: JobState,
    /// Not before this; of a finished one, when it ended.
    pub(crate) run_at: Micros,
    /// How many transactions had committed when it began to wait where it waits.
    pub(crate) waits_since: u64,
    pub(crate) attempts: u32,
    pub(crate) fence: u64,
    pub(crate) lease: Option<LeaseModel>,
    pub(crate) ended: Option<LeaseEnd>,
    pub(crate) cancelling: bool,
    pub(crate) hold: Option<HoldId>,
    /// All that it ever had.
    pub(crate) holds: Vec<HoldId>,
    pub(crate) awaits: Option<Scope>,
    pub(crate) cost: i64,
    pub(crate) lapsed: BTreeSet<u64>,
    /// The principals that its leases are bound to, where they are.
    pub(crate) owners: BTreeMap<u64, LeaseOwner>,
    /// What the last lease was charged for.
    pub(crate) settled: BTreeMap<Scope, i64>,
    /// Leases whose spend has been charged.
    pub(crate) charged: BTreeSet<u64>,
    /// Those of them that had been lost.
    pub(crate) billed: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct LeaseModel {
    pub(crate) worker: WorkerName,
    pub(crate) since: Micros,
    pub(crate) until: Micros,
    pub(crate) length: Micros,
    pub(crate) deadline: Micros,
    pub(crate) slots: Vec<Scope>,
}

impl LeaseModel {
    pub(crate) fn lapses_at(&self) -> Micros {
        self.until.min(self.deadline)
    }
}

impl JobModel {
    fn rank(&self) -> Micros {
        self.run_at - Micros::from(self.priority) * STEP
    }

    /// It waits for a worker, from an instant on.
    pub(super) fn wait(&mut self, run_at: Micros, commits: u64) {
        self.state = JobState::Queued;
        self.run_at = run_at;
        self.waits_since = commits;
    }
}

/// Leases by the rates that they count for, so far; and what is told to be counted in all, under which limits.
type Counted<'a> = (&'a BTreeMap<Scope, (Rate, i64)>, &'a Posted);
type Posted = BTreeMap<Scope, Vec<Limit>>;

/// The promise that a mismatch is about, by the word it begins with.
pub(crate) fn promise(what: &str) -> &'static str {
    match what.split(':').next() {
        Some("fence") => "I7 fenced",
        Some("gone") => "I8 no job disappears",
        Some("spend") => "I6 real spend is never dropped",
        Some("held") => "I2 conservation",
        Some("limit") => "J17 limits of queues",
        Some("order") => "J6 the best first",
        Some("attempts") => "J14 attempts",
        _ => "jobs, by the model",
    }
}

/// The events of a request one after the other, without those that follow from spend.
pub(super) struct Story<'a> {
    events: VecDeque<&'a Event>,
    touched: BTreeSet<Scope>,
}

impl<'a> Story<'a> {
    pub(super) fn next(&mut self, expected: &str) -> Check<&'a Event> {
        let event = self.events.pop_front().ok_or_else(|| format!("{expected} was expected, and nothing is told"))?;
        self.touched.extend(event.scopes().into_iter().cloned());
        Ok(event)
    }

    pub(super) fn peek(&self) -> Option<&'a Event> {
        self.events.front().copied()
    }
}

/// States, where time alone makes one of them the other.
pub(super) fn same_state(said: JobState, expected: JobState) -> bool {
    said == expected || said == JobState::Scheduled && expected == JobState::Queued
}

impl Model {
    /// Work on jobs, which is told and answered job by job.
    pub(super) fn work(&mut self, case: &Case<'_>) -> Check<bool> {
        let events: VecDeque<&Event> = case.events().filter(|event| !is_consequence(event)).collect();
        let effect = !events.is_empty();
        let mut story = Story { events, touched: BTreeSet::new() };
        match (&case.request.op, case.answer()?) {
            (Op::Lease(ask), Answer::Leased(said)) => self.leased(case, ask, said, &mut story)?,
            (Op::Heartbeat { beats }, Answer::Beaten(said)) => {
                is("heartbeats", &said.len(), &beats.len())?;
                beats.iter().zip(said).try_for_each(|(beat, said)| self.beaten(case, beat, said))?;
            }
            (Op::Finish { items }, Answer::Finished(said)) => {
                is("ends of leases", &said.len(), &items.len())?;
                items.iter().zip(said).try_for_each(|(item, said)| self.finish(case, item, said, &mut story))?;
            }
            (Op::Act { act, jobs }, Answer::Acted { each: said, more: false }) => {
                self.act(case, act, jobs, said, &mut story)?;
            }
            (_, said) => return Err(format!("work on jobs is answered with {said:?}")),
        }
        if let Some(event) = story.peek() {
            return Err(format!("{event:?} is told beyond what was done"));
        }
        self.follow(case, story.touched.into_iter().collect())?;
        Ok(effect)
    }

    pub(super) fn define_queue(&mut self, case: &Case<'_>, queue: &Queue, config: &QueueConfig) -> Check<bool> {
        is("a queue", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let known = self.queues.entry((case.tenant().clone(), queue.clone())).or_default();
        known.push((case.commits, config.clone()));
        Ok(true)
    }

    /// A queue is paused, or goes on. Its row is locked for that: it was read as it was last set.
    pub(super) fn pause_queue(&mut self, case: &Case<'_>, queue: &Queue, paused: bool) -> Check<bool> {
        let known = self.queues.get(&(case.tenant().clone(), queue.clone())).and_then(|known| known.last());
        let config = known.map(|(_, config)| config.clone()).unwrap_or_default();
        if config.paused == paused {
            return is("a queue", case.answer()?, &Answer::Done).map(|()| false);
        }
        self.define_queue(case, queue, &QueueConfig { paused, ..config })
    }

    /// What may have been read of a queue. It is not locked: whoever began before it was changed may have seen it as it was.
    pub(super) fn configs(&self, case: &Case<'_>, queue: &Queue) -> Vec<QueueConfig> {
        let known = self.queues.get(&(case.tenant().clone(), queue.clone())).map_or(&[][..], Vec::as_slice);
        let before = known.iter().rev().find(|(commits, _)| *commits <= case.began).map(|(_, config)| config.clone());
        let since = known.iter().filter(|(commits, _)| *commits > case.began).map(|(_, config)| config.clone());
        let mut configs: Vec<QueueConfig> = since.collect();
        configs.push(before.unwrap_or_default());
        configs
    }

    pub(super) fn enqueued(&mut self, case: &Case<'_>, id: JobId, asked: &JobSpec, hold: Option<HoldId>) {
        let job = JobModel {
            tenant: case.tenant().clone(),
            queue: asked.queue.clone(),
            home: asked.queue.clone(),
            kind: asked.kind.clone(),
            key: asked.key.clone(),
            idempotency_key: asked.idempotency_key.clone(),
            priority: asked.priority,
            max_attempts: asked.max_attempts,
            retry: asked.retry.clone(),
            deadline: asked.deadline,
            state: JobState::Queued,
            run_at: case.now + asked.delay.micros(),
            waits_since: case.commits,
            attempts: 0,
            fence: 0,
            lease: None,
            ended: None,
            cancelling: false,
            hold,
            holds: hold.into_iter().collect(),
            awaits: None,
            cost: 0,
            lapsed: BTreeSet::new(),
            owners: BTreeMap::new(),
            settled: BTreeMap::new(),
            charged: BTreeSet::new(),
            billed: BTreeSet::new(),
        };
        self.jobs.insert(id, job);
        self.unended.insert(id);
    }

    /// The job of a key that was given up since a decision began, which may still have found it, unless it made one anew.
    pub(super) fn just_given_up(&self, case: &Case<'_>, key: &JobKey, made: bool) -> Option<JobId> {
        let since = |(_, commits): &&(JobId, u64)| *commits > case.began && !made;
        self.given_up.get(key).filter(since).map(|(job, _)| *job)
    }

    /// What is told of a job that is found by its key is read without a lock: its hold is one that it had.
    pub(super) fn is_hold_of_found(&self, job: JobId, said: Option<HoldId>) -> Check {
        let Some(known) = self.jobs.get(&job) else { return Ok(()) };
        let right = match said {
            Some(hold) => known.holds.contains(&hold),
            None => known.holds.is_empty(),
        };
        if right { Ok(()) } else { Err(format!("{said:?} is no hold of {job}, which had {:?}", known.holds)) }
    }

    pub(super) fn job(&self, case: &Case<'_>, id: JobId) -> Option<&JobModel> {
        self.jobs.get(&id).filter(|job| job.tenant == *case.tenant())
    }

    fn leased(&mut self, case: &Case<'_>, ask: &LeaseAsk, said: &Leased, story: &mut Story<'_>) -> Check {
        if said.jobs.len() > ask.capacity as usize {
            return Err(format!("limit: {} jobs are leased, {} were wanted", said.jobs.len(), ask.capacity));
        }
        let posted = story.events.iter().find_map(|event| match event {
            Event::Posted { charges } => Some(charges.as_slice()),
            _ => None,
        });
        let posted = posted.unwrap_or_default().iter().map(|charge| (charge.scope.clone(), charge.limits.clone()));
        let posted: Posted = posted.collect();
        let mut rates: BTreeMap<Scope, (Rate, i64)> = BTreeMap::new();
        for told in &said.jobs {
            let event = story.next("a lease")?;
            if event.job() != Some(told.id) {
                return Err(format!("{event:?} is told, and {} is answered", told.id));
            }
            self.check_order(case, told.id)?;
            let config = self.check_lease(case, ask, event, (&rates, &posted))?;
            self.take(case, told, event)?;
            for (scope, rate) in rates_of(told, &config) {
                rates.entry(scope).or_insert((rate, 0)).1 += 1;
            }
        }
        if rates.is_empty() {
            return Ok(());
        }
        let Event::Posted { charges } = story.next("what leases count for rates")? else {
            return Err("limit: leases do not count for the rate of their queue".into());
        };
        let said: BTreeMap<_, _> = charges.iter().map(|charge| (charge.scope.clone(), charge.amount)).collect();
        is("limit: leases counted for rates", &said, &rates.iter().map(|(s, (_, n))| (s.clone(), *n)).collect())?;
        for (scope, (rate, count)) in rates {
            let model = self.scope(&case.key(&scope), case.now);
            model.open_bucket(&rate.limit().window, case.now);
            model.make(case.now, opening(case.now, count, false));
        }
        Ok(())
    }

    /// Of those that could be had, the best goes first.
    fn check_order(&self, case: &Case<'_>, id: JobId) -> Check {
        let claim = case.claim.filter(|claim| !claim.disturbed);
        let (Some(job), Some(claim)) = (self.jobs.get(&id), claim) else { return Ok(()) };
        // Those with a key that may not go are found and passed over, and others not found in their place.
        let keyed =
            |other: &JobModel| other.key.is_some() && (&other.tenant, &other.queue) == (&job.tenant, &job.queue);
        if self.unended.iter().any(|other| keyed(&self.jobs[other])) {
            return Ok(());
        }
        let passed = self.unended.iter().filter(|other| !claim.locked.contains(other)).find(|other| {
            let better = &self.jobs[other];
            better.state == JobState::Queued
                && better.key.is_none()
                && (&better.tenant, &better.queue, &better.kind) == (&job.tenant, &job.queue, &job.kind)
                && (better.rank(), **other) < (job.rank(), id)
                && better.run_at <= claim.at.min(case.now)
                && better.waits_since <= claim.commits
        });
        match passed {
            Some(better) => Err(format!("order: {id} is leased before {better}, which has waited with a better rank")),
            None => Ok(()),
        }
    }

    /// What was set for the queue must admit the lease; returns what that is.
    fn check_lease(&self, case: &Case<'_>, ask: &LeaseAsk, event: &Event, counted: Counted<'_>) -> Check<QueueConfig> {
        let Event::JobLeased { job: id, fence, attempt, worker, .. } = event else {
            return Err(format!("{event:?} is no lease"));
        };
        let job = self.job(case, *id).ok_or_else(|| format!("gone: {id} is leased, and is not there"))?;
        if job.state != JobState::Queued || job.lease.is_some() {
            return Err(format!("fence: {id} is {} and leased to {:?}: it cannot be leased", job.state, job.lease));
        }
        is("fence: the number of a lease", fence, &(job.fence + 1))?;
        is("attempts: of a lease", attempt, &(job.attempts + 1))?;
        is("who leases", worker, &ask.worker)?;
        let early = job.run_at > case.now.max(self.high);
        let wanted = ask.queues.contains(&job.queue) && (ask.kinds.is_empty() || ask.kinds.contains(&job.kind));
        if early || !wanted {
            return Err(format!("{id} is leased; it is wanted: {wanted}, before its time: {early}"));
        }
        let mut wrong = String::new();
        for config in self.configs(case, &job.queue) {
            match self.admits(case, ask, job, &config, event, counted) {
                Ok(()) => return Ok(config),
                Err(what) => wrong = what,
            }
        }
        Err(format!("limit: {id}: {wrong}"))
    }

    fn admits(
        &self,
        case: &Case<'_>,
        ask: &LeaseAsk,
        job: &JobModel,
        config: &QueueConfig,
        event: &Event,
        (rates, posted): Counted<'_>,
    ) -> Check {
        let Event::JobLeased { lease, deadline, slots, .. } = event else { unreachable!("it was looked at") };
        if config.paused {
            return Err("the queue is paused".into());
        }
        is("the length of a lease", lease, &ask.lease.unwrap_or(config.lease))?;
        let run = job.deadline.or(config.deadline).map_or(Micros::MAX, |span| case.now + span.micros());
        is("the end of a run", &deadline.micros(), &run)?;
        let key = job.key.as_ref().map(|key| FlowScopes::of_key(&job.queue, key));
        let of_queue = config.concurrency.map(|most| (FlowScopes::of_queue(&job.queue).slots, most));
        let of_key = key.and_then(|key| Some((key.slots, config.key_concurrency?)));
        let limits: Vec<(Scope, u32)> = of_queue.into_iter().chain(of_key).collect();
        is("slots", slots, &limits.iter().map(|(scope, _)| scope.clone()).collect())?;
        for (scope, most) in limits {
            let running = self.scopes.get(&case.key(&scope)).map_or(0, |scope| scope.live.len());
            if running >= most as usize {
                return Err(format!("{running} are leased at once on {scope}, {most} may be"));
            }
        }
        let own = rates_in(&job.queue, job.key.as_ref(), config);
        let both =
            [Some(FlowScopes::of_queue(&job.queue)), job.key.as_ref().map(|key| FlowScopes::of_key(&job.queue, key))];
        for scope in both.into_iter().flatten().map(|flow| flow.rate) {
            let limits = own.iter().find(|(own, _)| *own == scope).map(|(_, rate)| vec![rate.limit()]);
            is("what a lease counts for", &posted.get(&scope), &limits.as_ref())?;
        }
        for (scope, rate) in own {
            let taken = rates.get(&scope).map_or(0, |(_, count)| *count);
            let limit = rate.limit();
            let left = self.scopes.get(&case.key(&scope)).map_or(limit.amount, |s| s.remaining(&limit, case.now));
            if left <= taken {
                return Err(format!("{scope} leaves {left} leases, {taken} are taken already"));
            }
        }
        Ok(())
    }

    /// The lease is the worker's.
    fn take(&mut self, case: &Case<'_>, told: &Job, event: &Event) -> Check {
        let Event::JobLeased { job: id, fence, attempt, worker, lease, deadline, slots, owner } = event else {
            unreachable!("it was looked at")
        };
        let taker = case.request.context.reporter.as_ref().map(|reporter| &reporter.owner);
        is("owner: of a lease", &owner.as_ref(), &taker)?;
        for scope in slots {
            let slot = Live { hold: HoldId(id.0), placed_at: case.now, expires_at: Micros::MAX, amount: 1 };
            let scope = self.scope(&case.key(scope), case.now);
            scope.live.push(slot);
            scope.known = true;
        }
        let job = self.jobs.get_mut(id).expect("it was found");
        job.state = JobState::Leased;
        (job.fence, job.attempts, job.ended) = (*fence, *attempt, None);
        job.owners.extend(owner.iter().map(|owner| (*fence, owner.clone())));
        job.settled.clear();
        job.lease = Some(LeaseModel {
            worker: worker.clone(),
            since: case.now,
            until: case.now + lease.micros(),
            length: lease.micros(),
            deadline: deadline.micros(),
            slots: slots.clone(),
        });
        self.compare_job(*id, Some(told))
    }

    /// The lease is over, and with it the slots it took.
    pub(super) fn end_lease(&mut self, case: &Case<'_>, id: JobId, end: LeaseEnd) {
        let job = self.jobs.get_mut(&id).expect("it was found");
        let Some(lease) = job.lease.take() else { return };
        job.ended = Some(end);
        if end == LeaseEnd::Lapsed {
            job.lapsed.insert(job.fence);
        }
        for scope in lease.slots {
            self.scope(&case.key(&scope), case.now).live.retain(|live| live.hold != HoldId(id.0));
        }
    }

    fn beaten(&mut self, case: &Case<'_>, beat: &Beat, said: &Result<Beaten, Refusal>) -> Check {
        let Some(job) = self.job(case, beat.job) else { return unknown(beat.job, said) };
        if job.is_foreign(case, beat.fence) {
            return foreign(beat.job, beat.fence, said);
        }
        if job.lease.is_none() || job.fence != beat.fence {
            return self.lost(beat.job, beat.fence, false, said);
        }
        let Ok(said) = said else { return Err(format!("fence: a heartbeat of a lease that lives: {said:?}")) };
        let drains: Vec<bool> = self.configs(case, &job.queue).iter().map(|config| config.paused).collect();
        let right = match said.order {
            Order::Cancel => job.cancelling,
            Order::Drain => !job.cancelling && drains.contains(&true),
            Order::Continue => !job.cancelling && drains.contains(&false),
        };
        if !right {
            return Err(format!("{:?} was told of {job:?}", said.order));
        }
        let lease = self.jobs.get_mut(&beat.job).and_then(|job| job.lease.as_mut()).ok_or("it was there")?;
        lease.until = lease.until.max(case.now + lease.length);
        is("until when a lease lives", &said.until.micros(), &lease.lapses_at())
    }

    /// The lease is not the asker's any more.
    pub(super) fn lost<T: std::fmt::Debug>(
        &self,
        id: JobId,
        fence: u64,
        billed: bool,
        said: &Result<T, Refusal>,
    ) -> Check {
        let job = &self.jobs[&id];
        match said {
            Err(Refusal::LeaseLost { job: lost, fence: by, state, billed: charged })
                if (*lost, *by, *charged) == (id, fence, billed) && same_state(*state, job.state) =>
            {
                Ok(())
            }
            said => {
                Err(format!("fence: lease {fence} is lost, billed {billed}, and answered is {said:?}; it is {job:?}"))
            }
        }
    }

    /// A row as it is written, against what the model has.
    pub(crate) fn compare_job(&self, id: JobId, row: Option<&Job>) -> Check {
        let (row, job) = match (row, self.jobs.get(&id)) {
            (None, None) => return Ok(()),
            (Some(row), Some(job)) => (row, job),
            (row, known) => return Err(format!("gone: {id} is {row:?}, it should be {known:?}")),
        };
        let life = &row.life;
        let lease = life.lease.as_ref().map(|lease| {
            let times = [lease.since, lease.until, lease.deadline].map(|time| time.micros());
            (lease.worker.clone(), times, lease.length.micros(), lease.slots.clone())
        });
        let leased = job.lease.as_ref().map(|lease| {
            (lease.worker.clone(), [lease.since, lease.until, lease.deadline], lease.length, lease.slots.clone())
        });
        is(&format!("fence: the lease of {id}"), &(life.fence, lease, life.ended), &(job.fence, leased, job.ended))?;
        is(&format!("owner: of the lease of {id}"), &life.owner.as_ref(), &job.owners.get(&job.fence))?;
        is(&format!("attempts: of {id}"), &life.attempts, &job.attempts)?;
        let lapsed: BTreeSet<u64> = life.lapsed.iter().map(|lapsed| lapsed.fence).collect();
        is(&format!("fence: lapsed leases of {id}"), &lapsed, &job.lapsed)?;
        let billed: BTreeSet<u64> = life.lapsed.iter().filter(|l| l.billed).map(|lapsed| lapsed.fence).collect();
        is(&format!("spend: of {id}"), &(row.total_cost(), billed), &(job.cost, job.billed.clone()))?;
        is(&format!("the hold of {id}"), &(row.hold, &life.awaits), &(job.hold, &job.awaits))?;
        let live = job.hold.and_then(|hold| self.holds.get(&hold)).filter(|hold| hold.state == HoldState::Held);
        let set_aside: i128 = live.iter().flat_map(|hold| &hold.charges).map(|charge| i128::from(charge.amount)).sum();
        is(&format!("held: for {id}"), &life.held.iter().map(|(_, amount)| amount).sum(), &set_aside)?;
        is(&format!("the place of {id}"), &(&row.queue, row.priority), &(&job.queue, job.priority))?;
        let waits = job.state == JobState::Queued;
        let exact = job.state.is_final() || waits;
        if !same_state(life.state, job.state) || life.cancelling != job.cancelling {
            return Err(format!("{id} is {}, cancelling {}: it should be {job:?}", life.state, life.cancelling));
        }
        // Once it has stepped up in a line, its rank is another until it waits anew.
        let ranked = waits && job.key.is_none();
        if exact && life.run_at.micros() != job.run_at || ranked && life.rank.micros() != job.rank() {
            return Err(format!("{id} runs or ended at {}, rank {}: {job:?}", life.run_at, life.rank));
        }
        Ok(())
    }
}

impl JobModel {
    /// Whether another principal took this lease than the one that asks. Of those that ended in another way than by lapsing only the
    /// last is remembered.
    pub(super) fn is_foreign(&self, case: &Case<'_>, fence: u64) -> bool {
        let Some(reporter) = &case.request.context.reporter else { return false };
        match self.owners.get(&fence) {
            Some(owner) => (fence == self.fence || self.lapsed.contains(&fence)) && reporter.owner != *owner,
            // A program that embeds Bursar took it.
            None => fence == self.fence && fence > 0,
        }
    }
}

/// Another principal took the lease.
pub(super) fn foreign<T: std::fmt::Debug>(job: JobId, fence: u64, said: &Result<T, Refusal>) -> Check {
    match said {
        Err(Refusal::ForeignLease { job: id, fence: by }) if (*id, *by) == (job, fence) => Ok(()),
        said => Err(format!("owner: lease {fence} of {job} is another principal's, and answered is {said:?}")),
    }
}

/// The job is not there, or is somebody else's.
pub(super) fn unknown<T: std::fmt::Debug>(id: JobId, said: &Result<T, Refusal>) -> Check {
    match said {
        Err(Refusal::UnknownJob { job }) if *job == id => Ok(()),
        said => Err(format!("gone: {id} is not there, and answered is {said:?}")),
    }
}

fn rates_of(job: &Job, config: &QueueConfig) -> Vec<(Scope, Rate)> {
    rates_in(&job.queue, job.key.as_ref(), config)
}

fn rates_in(queue: &Queue, key: Option<&FlowKey>, config: &QueueConfig) -> Vec<(Scope, Rate)> {
    let of_queue = config.rate.map(|rate| (FlowScopes::of_queue(queue).rate, rate));
    let of_key = key.and_then(|key| Some((FlowScopes::of_key(queue, key).rate, config.key_rate?)));
    of_queue.into_iter().chain(of_key).collect()
}
