//! What can be asked of jobs and queues beside one job: lists, figures, costs, what is held, and what is due.

use bursar_core::bounds::FIGURES_KEPT;
use bursar_core::id::JobId;
use bursar_core::job::{Job, JobState, wants};
use bursar_core::name::{FlowKey, JobKind, Queue, Scope, Tag, Tenant};
use bursar_core::state::Counted;
use bursar_core::time::Time;

/// Which jobs of a tenant are wanted; what is not said does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In this queue.
    pub queue: Option<Queue>,
    /// In this state, as far as time does not say otherwise: see [`Job::state_at`].
    pub state: Option<JobState>,
    /// Of this kind, or of those that begin with what stands before a `*`.
    pub kind: Option<JobKind>,
    /// With this flow key.
    pub key: Option<FlowKey>,
    /// With this tag.
    pub tag: Option<Tag>,
    /// Whose last error is one of these.
    pub fingerprint: Option<String>,
}

impl JobFilter {
    /// Whether a job is wanted.
    pub fn takes(&self, job: &Job, now: Time) -> bool {
        let is = |wanted: bool| wanted;
        is(self.queue.as_ref().is_none_or(|queue| *queue == job.queue))
            && is(self.state.is_none_or(|state| state == job.state_at(now)))
            && is(self.kind.as_ref().is_none_or(|kind| wants(std::slice::from_ref(kind), &job.kind)))
            && is(self.key.as_ref().is_none_or(|key| Some(key) == job.key.as_ref()))
            && is(self.tag.as_ref().is_none_or(|tag| job.tags.contains(tag)))
            && is(self
                .fingerprint
                .as_ref()
                .is_none_or(|wanted| job.life.error.as_ref().is_some_and(|error| error.fingerprint() == *wanted)))
    }
}

/// The figures of a queue. They are kept, not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What is counted, and how many.
    pub counts: Vec<(Counted, i64)>,
    /// When the job was due that has waited longest for a worker; see `AHEAD_LOOK`.
    pub oldest_waiting: Option<Time>,
    /// When the lease began that has lasted longest.
    pub oldest_lease: Option<Time>,
}

/// Of each kind so many that can be leased are looked at to find one that stands where its instant says. Where as many stand
/// before it for their priority, the rank of the next one is told: it waits since then or later.
pub(crate) const AHEAD_LOOK: i64 = 1_000;

/// Figures of minutes before this one are forgotten.
pub(crate) fn first_minute_kept(now: Time) -> i64 {
    now.before(FIGURES_KEPT).micros().div_euclid(60_000_000)
}

/// What jobs cost on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The day since 1970, in UTC.
    pub day: i64,
    /// Of which queue.
    pub queue: Queue,
    /// Of which kind.
    pub kind: JobKind,
    /// On which scope.
    pub scope: Scope,
    /// How many units.
    pub amount: i64,
}

/// What was told last of what jobs cost: day, queue, kind and scope, in the order they are told in.
pub type CostMark = (i64, Queue, JobKind, Scope);

/// What the holds of jobs set aside now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSum {
    /// Of which queue.
    pub queue: Queue,
    /// Of which kind.
    pub kind: JobKind,
    /// The unit of the budgets it is held on; empty where they name none.
    pub unit: String,
    /// How many units, on all scopes together; not more than can be told.
    pub amount: i64,
}

/// Whatever comes after this is to be told: of the days from the first one on, and after what was told last.
pub(crate) fn first_after(day: i64, after: Option<&CostMark>) -> (i64, &str, &str, &str) {
    // No name is empty: all of a day comes after its empty names.
    let begin = (day, "", "", "");
    let after = after.map(|(day, queue, kind, scope)| (*day, queue.as_str(), kind.as_str(), scope.as_str()));
    after.map_or(begin, |after| after.max(begin))
}

/// What was told last of what is held: queue, kind and unit, in the order they are told in.
pub type HeldMark = (Queue, JobKind, String);

/// A sum as it is stored where it may pass 64 bits: `high` counts in steps of 2^32.
#[derive(Clone, Copy)]
pub(crate) struct Halves {
    pub(crate) high: i64,
    pub(crate) low: i64,
}

impl Halves {
    /// Where each of many sums has its halves, the sum of all has theirs.
    pub(crate) fn whole(self) -> i128 {
        (i128::from(self.high) << 32) + i128::from(self.low)
    }
}

impl From<i128> for Halves {
    fn from(sum: i128) -> Halves {
        Halves { high: (sum >> 32) as i64, low: (sum & 0xffff_ffff) as i64 }
    }
}

impl HeldSum {
    pub(crate) fn new(queue: Queue, kind: JobKind, unit: String, sum: i128) -> HeldSum {
        let amount = i64::try_from(sum).unwrap_or(if sum > 0 { i64::MAX } else { i64::MIN });
        HeldSum { queue, kind, unit, amount }
    }
}

/// Jobs that the upkeep has to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueJobs {
    /// Leases that have lapsed.
    pub lapsed: Vec<(Tenant, JobId)>,
    /// Those that await a budget and are to be looked at again.
    pub awaiting: Vec<(Tenant, JobId)>,
    /// Finished ones whose time may be over.
    pub ended: Vec<(Tenant, JobId)>,
}
