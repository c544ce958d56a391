//! What workers ask and are told, on the wire; and what others do to many jobs.

#[cfg(feature = "library")]
use bursar::{JobFilter, Progress};
use bursar_core::bounds::{CAPACITY_MAX, DELAY_MAX, PRIORITY_MAX, WAIT_MAX};
use bursar_core::id::JobId;
use bursar_core::job::{End, JobError, JobState, Usage};
use bursar_core::name::{FlowKey, JobKind, Queue, Tag, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::job::{BeatenAnswer, FinishedAnswer, LeasedAnswer};
use crate::millis;
use crate::problem::Problem;

/// Jobs that a worker wants.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBody {
    pub queues: Vec<Queue>,
    /// `video.*` is every kind that begins with `video.`; all that the worker may work on unless it is said.
    #[serde(default)]
    pub kinds: Vec<JobKind>,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = CAPACITY_MAX))]
    pub capacity: u32,
    /// How long to wait if there are none, a minute at most.
    #[serde(default)]
    #[schemars(range(min = 0, max = WAIT_MAX.millis()))]
    pub wait_ms: i64,
    #[serde(default)]
    pub lease_ms: Option<i64>,
    /// Who wants them, where the token does not say it.
    #[serde(default)]
    pub worker: Option<WorkerName>,
}

fn one() -> u32 {
    1
}

/// What a worker got.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeasedJobsAnswer {
    pub jobs: Vec<LeasedAnswer>,
}

/// How far a job is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressFields {
    #[serde(default)]
    pub percent: Option<f64>,
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default)]
    pub data: Payload,
}

#[cfg(feature = "library")]
impl From<ProgressFields> for Progress {
    fn from(fields: ProgressFields) -> Progress {
        Progress { percent: fields.percent, message: fields.message, data: fields.data }
    }
}

/// A report on one job, and the same as one of many: then it says which job. A flattened part would take unknown fields.
macro_rules! report {
    ($(#[$about:meta])* $body:ident, $item:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $body {
            pub fence: u64,
            $($(#[$meta])* pub $field: $type,)*
        }

        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $item {
            pub id: JobId,
            pub fence: u64,
            $($(#[$meta])* pub $field: $type,)*
        }

        impl From<$item> for (JobId, $body) {
            fn from(item: $item) -> (JobId, $body) {
                (item.id, $body { fence: item.fence, $($field: item.$field,)* })
            }
        }
    };
}

report! {
    /// A sign of life.
    HeartbeatBody, BeatItem {
        #[serde(default)]
        progress: Option<ProgressFields>,
    }
}

report! {
    /// A job is done.
    CompleteBody, CompleteItem {
        #[serde(default)]
        result: Payload,
        /// What was held unless it is said; nothing if the list is empty.
        #[serde(default)]
        usage: Option<Vec<Usage>>,
    }
}

report! {
    /// An attempt did not work.
    FailBody, FailItem {
        error: ErrorBody,
        #[serde(default = "yes")]
        retryable: bool,
        #[serde(default)]
        retry_after_ms: Option<i64>,
        #[serde(default)]
        usage: Option<Vec<Usage>>,
    }
}

report! {
    /// How far a job is, by its worker.
    ProgressBody, ProgressItem {
        #[serde(default)]
        percent: Option<f64>,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        data: Payload,
    }
}

/// What went wrong.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    pub kind: String,
    #[serde(default)]
    pub message: String,
}

fn yes() -> bool {
    true
}

report! {
    /// A job is put off.
    SnoozeBody, SnoozeItem {
        /// Ten years at most; of one of many jobs more is told of that one.
        // The schema has no maximum, as a body of many jobs is answered though one of them has more.
        #[schemars(range(min = 0))]
        delay_ms: i64,
    }
}

report! {
    /// A job is handed back.
    ReturnBody, ReturnItem {}
}

impl From<CompleteBody> for End {
    fn from(body: CompleteBody) -> End {
        End::Complete { result: body.result, usage: body.usage }
    }
}

impl TryFrom<FailBody> for End {
    type Error = Invalid;

    fn try_from(body: FailBody) -> Result<End, Invalid> {
        let wait = body.retry_after_ms.map(|wait| millis("retry_after_ms", wait)).transpose()?;
        let error = JobError::new(body.error.kind, body.error.message);
        Ok(End::Fail { error, retryable: body.retryable, retry_after: wait, usage: body.usage })
    }
}

impl TryFrom<SnoozeBody> for End {
    type Error = Invalid;

    fn try_from(body: SnoozeBody) -> Result<End, Invalid> {
        Ok(End::Snooze { delay: millis("delay_ms", body.delay_ms)? })
    }
}

/// Reports on many jobs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ItemsBodyOf{T}")]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct ItemsBody<T> {
    #[serde(deserialize_with = "bounded::items")]
    pub items: Vec<T>,
}

/// One answer an item, in order.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "ItemsAnswerOf{T}")]
pub struct ItemsAnswer<T> {
    pub items: Vec<ItemAnswer<T>>,
}

/// What became of one: what it is told, or why nothing was done.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ItemAnswerOf{T}")]
pub enum ItemAnswer<T> {
    Done(T),
    Not { problem: Problem },
}

/// What became of one that ended.
pub type FinishedItems = ItemsAnswer<FinishedAnswer>;
/// What became of one that gave a sign of life.
pub type BeatenItems = ItemsAnswer<BeatenAnswer>;

/// Which jobs to act on: these, or all that match.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelectionBody {
    pub ids: Vec<JobId>,
    pub filter: Option<FilterBody>,
    /// Where to go on, as an earlier answer said.
    pub cursor: Option<JobId>,
    /// Answer after so many, where there are more; after 10,000 unless it is said.
    pub limit: Option<usize>,
    pub reason: Option<String>,
    /// Only count them.
    pub dry_run: bool,
}

/// What is to be done to the jobs that are selected. A flattened part would take unknown fields.
macro_rules! selecting {
    ($(#[$about:meta])* $body:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $body {
            $($(#[$meta])* pub $field: $type,)*
            #[serde(default)]
            pub ids: Vec<JobId>,
            #[serde(default)]
            pub filter: Option<FilterBody>,
            /// Where to go on, as an earlier answer said.
            #[serde(default)]
            pub cursor: Option<JobId>,
            /// Answer after so many, where there are more; after 10,000 unless it is said.
            #[serde(default)]
            pub limit: Option<usize>,
            #[serde(default)]
            pub reason: Option<String>,
            /// Only count them.
            #[serde(default)]
            pub dry_run: bool,
        }

        impl $body {
            /// To be done to these jobs.
            pub fn to(which: SelectionBody, $($field: $type),*) -> $body {
                let SelectionBody { ids, filter, cursor, limit, reason, dry_run } = which;
                $body { $($field,)* ids, filter, cursor, limit, reason, dry_run }
            }

            /// The jobs that it is to be done to.
            pub fn which(self) -> SelectionBody {
                let $body { ids, filter, cursor, limit, reason, dry_run, .. } = self;
                SelectionBody { ids, filter, cursor, limit, reason, dry_run }
            }
        }
    };
}

selecting! {
    /// Which waiting jobs to change, and how.
    EditManyBody {
        #[serde(default)]
        #[schemars(range(min = -PRIORITY_MAX, max = PRIORITY_MAX))]
        priority: Option<i16>,
        /// So long from now.
        #[serde(default)]
        #[schemars(range(min = 0, max = DELAY_MAX.millis()))]
        delay_ms: Option<i64>,
    }
}

selecting! {
    /// Which dead letters to put in another queue.
    MoveManyBody {
        /// The queue to move them to.
        to: Queue,
    }
}

/// Which jobs, by what they are.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilterBody {
    pub queue: Option<Queue>,
    pub kind: Option<JobKind>,
    pub key: Option<FlowKey>,
    pub tag: Option<Tag>,
    pub fingerprint: Option<String>,
    /// In this state; dead letters are dead, so that it is not said of them.
    pub state: Option<JobState>,
}

#[cfg(feature = "library")]
impl FilterBody {
    /// The filter, for jobs in a state.
    pub fn in_state(self, state: Option<JobState>) -> JobFilter {
        let FilterBody { queue, kind, key, tag, fingerprint, state: own } = self;
        let state = state.or(own);
        JobFilter { queue, state, kind, key, tag, fingerprint }
    }
}

/// What an act on many jobs came to.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct ActedAnswer {
    pub matched: usize,
    pub done: usize,
    pub refused: usize,
    /// Go on from here; `null` at the end.
    pub next: Option<JobId>,
    /// There are more than were counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A job to be put in another queue.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveBody {
    pub queue: Queue,
    #[serde(default)]
    pub reason: Option<String>,
}

/// A waiting job to be changed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EditBody {
    #[schemars(range(min = -PRIORITY_MAX, max = PRIORITY_MAX))]
    pub priority: Option<i16>,
    /// So long from now.
    #[schemars(range(min = 0, max = DELAY_MAX.millis()))]
    pub delay_ms: Option<i64>,
    pub reason: Option<String>,
}

/// Jobs that were enqueued.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EnqueuedJobsAnswer {
    pub jobs: Vec<crate::command::EnqueuedAnswer>,
}

/// A wait within what is allowed.
pub fn wait(wait_ms: i64) -> Result<Span, Invalid> {
    match millis("wait_ms", wait_ms)? {
        wait if wait > WAIT_MAX => Err(Invalid::new("wait_ms", format!("must be at most {}", WAIT_MAX.millis()))),
        wait => Ok(wait),
    }
}
