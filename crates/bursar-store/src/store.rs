//! The face of every engine.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::answer::Outcome;
use bursar_core::decide::Rules;
use bursar_core::event::Batch;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, GrantId, HoldId, IdSource, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, Queue, ScheduleName, Scope, Tenant};
use bursar_core::page::Weighs;
use bursar_core::refusal::Refusal;
use bursar_core::request::Request;
use bursar_core::scope::ScopeState;
use bursar_core::state::{JobKey, KeyKey, QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;

use crate::clock::Clock;
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, DueJobs, Figures, HeldMark, HeldSum, JobFilter};
use crate::hint::Hints;
use crate::verify::Report;

/// What became of one request of a batch.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It was done or refused.
    Answered(Result<Outcome, Refusal>),
    /// What was due on its scopes is folded as far as one step goes: ask again.
    Again,
    /// Somebody else has locked what it needs: wait for these and ask again.
    Blocked(Vec<Lock>),
    /// The part of the batch it was in failed, while others were done.
    Failed(Arc<StoreError>),
}

/// A row that somebody else can lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lock {
    /// An idempotency key.
    Key(KeyKey),
    /// A job's key.
    JobKey(JobKey),
    /// A schedule.
    Schedule(ScheduleKey),
    /// A job.
    Job(JobId),
    /// A hold.
    Hold(HoldId),
    /// A grant.
    Grant(GrantId),
    /// A scope.
    Scope(ScopeKey),
}

/// What to do about rows that somebody else has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Leave them, and say which requests are blocked.
    Skip,
    /// Wait for this one so long before anything else is locked, `Busy` when the time is over; then for those that come after it a
    /// moment, and leave those that come before it.
    First(Lock, Duration),
}

/// What a store is opened with.
#[derive(Clone)]
pub struct Setup {
    /// The rules that can be set.
    pub rules: Rules,
    /// Tells the time; on PostgreSQL the database does unless a clock is given.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where ids come from.
    pub ids: Arc<Mutex<dyn IdSource + Send>>,
    /// Prepare or upgrade the tables when opening.
    pub migrate: bool,
}

/// Queues whose jobs are counted together at most.
pub const QUEUES_COUNTED: usize = 10_000;

/// A row of the journal at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Journaled {
    /// The position of its first event; those of the others follow.
    pub position: u64,
    /// What was done.
    pub batch: Batch,
}

impl Weighs for Journaled {
    fn bytes(&self) -> usize {
        self.batch.bytes()
    }
}

/// What an engine says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The engine and its version.
    pub engine: String,
    /// The schema version of the tables.
    pub schema: i64,
    /// Where the data is, without secrets.
    pub place: String,
    /// What it found wrong, with the way back.
    pub problems: Vec<String>,
    /// The last position of the journal.
    pub position: u64,
    /// The time of the last event.
    pub last_event_at: Option<Time>,
    /// The time the store goes by.
    pub now: Time,
}

/// An engine that keeps Bursar's tables. Everything that writes goes through `commit`.
///
/// Lists of what can be large (holds, grants, jobs, schedules, the journal) end at [`PAGE_BYTES_MAX`](bursar_core::bounds::PAGE_BYTES_MAX)
/// as well as at `limit`, with one item at least: [`page::is_full`](bursar_core::page::is_full) says whether there may be more.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Does the requests in one transaction, each all or nothing, and returns when it is durable.
    async fn commit(&self, requests: &[Arc<Request>], patience: Patience) -> Result<Vec<Verdict>, StoreError>;

    /// Does what can be done for a batch before it is there. Whoever then has none says so with `stand_down`.
    async fn stand_ready(&self) {}

    /// No batch comes soon.
    async fn stand_down(&self) {}

    /// A scope as it stands now.
    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError>;
    /// Scopes of a tenant whose names begin with `prefix`, after a name, as they stand now.
    async fn scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError>;
    /// The units posted on a scope in `[from, to)`.
    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError>;
    /// A hold.
    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError>;
    /// Live holds on a scope after a mark, by when they are due.
    async fn live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError>;
    /// A grant.
    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError>;
    /// Grants of a tenant after an id, by id.
    async fn grants(&self, tenant: &Tenant, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, StoreError>;
    /// A job, live or finished.
    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError>;
    /// Jobs of a tenant after an id, by id.
    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError>;
    /// What is set for a queue.
    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError>;
    /// Queues of a tenant after a name: those that something is set for, and those that jobs were enqueued in.
    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError>;
    /// A schedule.
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError>;
    /// Schedules of a tenant after a name, by name.
    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError>;
    /// Schedules that are due, the first due first; and when the next one is.
    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError>;
    /// The figures of a queue: what is counted now, and what was in the minutes from one on.
    async fn figures(&self, key: &QueueKey, since_minute: i64) -> Result<Figures, StoreError>;
    /// What the jobs of a tenant cost on some days, after what was told last.
    async fn costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError>;
    /// What the holds of a tenant's jobs set aside now, of one queue or of all, after what was told last.
    async fn held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError>;
    /// How many jobs are in each state, of all tenants together; as the figures of the first [`QUEUES_COUNTED`] queues say.
    async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, StoreError>;
    /// Jobs for the upkeep to look at, at most so many of each kind.
    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError>;
    /// Jobs that await units of a scope, those that began to wait first.
    async fn awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError>;
    /// Jobs of a queue that wait for a slot of their flow key, those of at most so many keys after one; and the last of these
    /// keys, `None` at the end.
    async fn barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError>;
    /// Scopes that jobs await units of, each with its version, which changes when units may be free.
    async fn awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError>;
    /// A number that changes soon after anybody, in any process, has made jobs ready. Cheap enough to be asked often.
    async fn bell(&self) -> Result<u64, StoreError>;
    /// How processes tell each other at once that something is ready, on engines that have a way for it.
    fn hints(&self) -> Option<Arc<dyn Hints>> {
        None
    }

    /// The journal after a position, in order and without gaps, at most `limit` rows.
    async fn journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError>;
    /// One row of the journal.
    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError>;
    /// Erases a payload that is kept beside the journal. False when there is none.
    async fn erase_payload(&self, id: u128) -> Result<bool, StoreError>;

    /// Holds to be swept, and the time.
    async fn due_holds(&self, limit: usize) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError>;
    /// Scopes after one, whoever's they are: to be tidied in turn.
    async fn page_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError>;
    /// Forgets idempotency keys whose time is over; returns how many.
    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError>;

    /// Forgets figures of minutes that are long over, of at most so many queues after one; returns where to go on.
    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError>;
    /// Forgets scopes of flow keys that nobody uses any more, among at most so many scopes after one; returns where to go on.
    async fn forget_flows(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Option<ScopeKey>, StoreError>;

    /// Checks that balances are what holds and postings say.
    async fn verify(&self) -> Result<Report, StoreError>;
    /// Makes every table but the journal and the payloads anew from the journal; returns how many events it applied.
    async fn rebuild(&self) -> Result<u64, StoreError>;
    /// Refuses where requests could not be done now: the files of a database are gone, a disk is full, a server is read-only.
    async fn ready(&self) -> Result<(), StoreError> {
        self.health().await.map(drop)
    }
    /// Says how it is.
    async fn health(&self) -> Result<Health, StoreError>;
    /// Ends what runs in the background. Nothing can be asked afterwards.
    async fn close(&self);
}
