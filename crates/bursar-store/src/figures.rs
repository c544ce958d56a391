//! The types of reads about jobs, queues and blobs: filters, queue figures, costs, held sums, groups of dead jobs, and due jobs.

use bursar_core::bounds::FIGURES_KEPT;
use bursar_core::id::JobId;
use bursar_core::job::{Job, JobError, JobState, wants};
use bursar_core::name::{FlowKey, JobKind, Namespace, Queue, Scope, Tag, Tenant};
use bursar_core::page::PageItem;
use bursar_core::state::Counted;
use bursar_core::time::{Span, Time};

use crate::error::StoreError;

/// A filter for the jobs of a tenant. A field that is `None` matches every job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// The queue of the job.
    pub queue: Option<Queue>,
    /// The state of the job at the time of the read: see [`Job::state_at`].
    pub state: Option<JobState>,
    /// The kind of the job; `prefix*` matches every kind with the prefix.
    pub kind: Option<JobKind>,
    /// The flow key of the job.
    pub key: Option<FlowKey>,
    /// A tag of the job.
    pub tag: Option<Tag>,
    /// The fingerprint of the job's last error.
    pub fingerprint: Option<String>,
    /// Whether a list begins with the newest job. It then continues with the jobs before an id, not after it.
    pub newest_first: bool,
}

impl JobFilter {
    /// Returns the fingerprint that the column of the selected finished jobs has, if they are dead. The column is empty for jobs that a
    /// process of an older version has ended.
    pub(crate) fn dead_fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref().filter(|_| self.state == Some(JobState::Dead))
    }

    /// Returns whether the filter matches a job at an instant.
    pub fn matches(&self, job: &Job, now: Time) -> bool {
        let last_error =
            |fingerprint: &String| job.life.error.as_ref().is_some_and(|error| error.fingerprint() == *fingerprint);
        self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.state.is_none_or(|state| state == job.state_at(now))
            && self.kind.as_ref().is_none_or(|kind| wants(std::slice::from_ref(kind), &job.kind))
            && self.key.as_ref().is_none_or(|key| Some(key) == job.key.as_ref())
            && self.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
            && self.fingerprint.as_ref().is_none_or(last_error)
    }
}

/// A filter for the blobs of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFilter {
    /// The namespace of the blob; `None` matches every namespace.
    pub namespace: Option<Namespace>,
    /// Whether a list begins with the newest blob. It then continues with the blobs before an id, not after it.
    pub newest_first: bool,
}

/// The figures of a queue. Every transaction updates the counts, so a read does not scan the jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The counts that are not zero: of jobs by state, and of events by minute.
    pub counts: Vec<(Counted, i64)>,
    /// When the job that has waited longest for a worker became due. It may be too early if 1,000 or more jobs of a kind wait with a
    /// raised priority.
    pub oldest_waiting: Option<Time>,
    /// When the oldest lease began.
    pub oldest_lease: Option<Time>,
}

/// The most ready jobs of each kind that are scanned for the first one without a priority, whose rank is its due time. If all of them have
/// a priority, the rank of the next job is reported. That job has not waited longer than since then.
pub(crate) const PRIORITY_SCAN_MAX: i64 = 1_000;

/// The oldest minute since 1970 whose figures are kept.
pub(crate) fn first_minute_kept(now: Time) -> i64 {
    now.before(FIGURES_KEPT).micros().div_euclid(60_000_000)
}

/// The oldest day since 1970 whose costs are kept.
pub(crate) fn first_day_kept(kept: Span, now: Time) -> i64 {
    now.before(kept).micros().div_euclid(86_400_000_000)
}

/// The cost of a queue's jobs of one kind on a scope and day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The day, counted in UTC from 1970-01-01.
    pub day: i64,
    /// The queue.
    pub queue: Queue,
    /// The kind of job.
    pub kind: JobKind,
    /// The scope that was charged.
    pub scope: Scope,
    /// The units spent.
    pub amount: i64,
}

/// The position in a list of costs: day, queue, kind and scope of the last item, in sort order.
pub type CostMark = (i64, Queue, JobKind, Scope);

/// The units that the holds of a queue's jobs of one kind set aside at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSum {
    /// The queue.
    pub queue: Queue,
    /// The kind of job.
    pub kind: JobKind,
    /// The unit of the budgets that are charged; empty if they have none.
    pub unit: String,
    /// The sum over all scopes. A sum that does not fit into 64 bits is cut to `i64::MAX` or `i64::MIN`.
    pub amount: i64,
}

/// Returns the key after which a list of costs continues: the later of the start of `day` and `after`.
pub(crate) fn first_after(day: i64, after: Option<&CostMark>) -> (i64, &str, &str, &str) {
    // No name is empty, so every cost of a day sorts after the empty names.
    let begin = (day, "", "", "");
    let after = after.map(|(day, queue, kind, scope)| (*day, queue.as_str(), kind.as_str(), scope.as_str()));
    after.map_or(begin, |after| after.max(begin))
}

/// The position in a list of held sums: queue, kind and unit of the last item, in sort order.
pub type HeldMark = (Queue, JobKind, String);

/// The dead jobs of a queue and kind whose last errors have the same fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadGroup {
    /// The queue.
    pub queue: Queue,
    /// The kind of job.
    pub kind: JobKind,
    /// The fingerprint of the errors.
    pub fingerprint: String,
    /// The number of dead jobs. Every transaction updates it, so a read does not count jobs.
    pub count: i64,
    /// The error of the job that died last.
    pub error: JobError,
    /// When the first of the jobs died.
    pub first_at: Time,
    /// When the last of the jobs died.
    pub last_at: Time,
}

/// The position in a list of groups of dead jobs: queue, kind and fingerprint of the last item, in sort order.
pub type DeadGroupMark = (Queue, JobKind, String);

impl DeadGroup {
    /// Builds a group from its count and from two of its jobs: when the first one died, and the one that died last.
    pub(crate) fn new(fingerprint: String, count: i64, first_at: Time, last: Job) -> Result<DeadGroup, StoreError> {
        let error = last.life.error.ok_or_else(|| StoreError::corrupt("job", "a dead job without an error"))?;
        let (queue, kind, last_at) = (last.queue, last.kind, last.life.run_at);
        Ok(DeadGroup { queue, kind, fingerprint, count, error, first_at, last_at })
    }
}

impl PageItem for DeadGroup {
    fn bytes(&self) -> usize {
        512 + self.error.kind.len() + self.error.message.len()
    }
}

/// A sum that may exceed 64 bits, as it is stored in two columns: `high * 2^32 + low`.
#[derive(Clone, Copy)]
pub(crate) struct SplitSum {
    pub(crate) high: i64,
    pub(crate) low: i64,
}

impl SplitSum {
    /// Returns the sum. The parts may themselves be sums over many rows, so `low` may exceed 32 bits.
    pub(crate) fn total(self) -> i128 {
        (i128::from(self.high) << 32) + i128::from(self.low)
    }
}

impl From<i128> for SplitSum {
    fn from(sum: i128) -> SplitSum {
        SplitSum { high: (sum >> 32) as i64, low: (sum & 0xffff_ffff) as i64 }
    }
}

impl HeldSum {
    pub(crate) fn new(queue: Queue, kind: JobKind, unit: String, sum: i128) -> HeldSum {
        let amount = i64::try_from(sum).unwrap_or(if sum > 0 { i64::MAX } else { i64::MIN });
        HeldSum { queue, kind, unit, amount }
    }
}

/// Jobs that need maintenance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueJobs {
    /// Jobs whose lease has expired.
    pub lapsed: Vec<(Tenant, JobId)>,
    /// Jobs that wait for a budget and are due for another attempt to place their hold.
    pub awaiting: Vec<(Tenant, JobId)>,
    /// Finished jobs whose retention may have ended.
    pub ended: Vec<(Tenant, JobId)>,
}
