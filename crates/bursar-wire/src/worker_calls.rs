//! The calls of workers: lease jobs, send heartbeats and progress, report ends.

use bursar_core::bounds::{CAPACITY_MAX, WAIT_MAX};
use bursar_core::id::{BlobId, JobId};
use bursar_core::job::{End, JobError, Progress, Usage};
use bursar_core::name::{EventName, JobKind, Queue, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::job::{BeatenAnswer, FinishedAnswer, LeasedAnswer};
use crate::problem::Problem;
use crate::{list, millis};

/// A request for jobs to work on.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBody {
    /// The queues to lease from.
    pub queues: Vec<Queue>,
    /// The kinds to lease. `video.*` matches every kind that begins with `video.`; default: all kinds that the worker may work on.
    #[serde(default)]
    pub kinds: Vec<JobKind>,
    /// The maximum number of jobs; default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = CAPACITY_MAX))]
    pub capacity: u32,
    /// How long to wait for a job if none is ready, in milliseconds; default: 0, at most one minute.
    #[serde(default)]
    #[schemars(range(min = 0, max = WAIT_MAX.millis()))]
    pub wait_ms: i64,
    /// How long a lease lasts without a heartbeat, in milliseconds; default: the queue's setting.
    #[serde(default)]
    pub lease_ms: Option<i64>,
    /// The name of the worker, if the token does not have one.
    #[serde(default)]
    pub worker: Option<WorkerName>,
}

fn one() -> u32 {
    1
}

/// The jobs that were leased; empty if none became ready in time.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeasedJobsAnswer {
    pub jobs: Vec<LeasedAnswer>,
}

/// The progress of a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressFields {
    /// The percentage that is done, from 0 to 100.
    #[serde(default)]
    pub percent: Option<f64>,
    /// A text for people.
    #[serde(default)]
    pub message: Option<String>,
    /// JSON for programs; default: `null`.
    #[serde(default)]
    pub data: Payload,
    /// Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null` removes
    /// it. At most 16 KiB.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Payload>,
}

/// Reads a field that the body has: `null` is a value too.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(from).map(Some)
}

/// Returns the progress of a heartbeat.
impl From<ProgressFields> for Progress {
    fn from(fields: ProgressFields) -> Progress {
        let ProgressFields { percent, message, data, checkpoint } = fields;
        Progress { percent, message, data, checkpoint }
    }
}

/// Returns the progress of a report.
impl From<ProgressBody> for Progress {
    fn from(body: ProgressBody) -> Progress {
        let ProgressBody { fence: _, percent, message, data, checkpoint } = body;
        Progress { percent, message, data, checkpoint }
    }
}

/// Defines the body of a report on one job, and the item of a request with reports on several jobs, which also has the job's id.
/// `#[serde(flatten)]` would accept unknown fields.
macro_rules! report {
    ($(#[$about:meta])* $body:ident, $item:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $body {
            /// The fence of the lease.
            pub fence: u64,
            $($(#[$meta])* pub $field: $type,)*
        }

        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $item {
            pub id: JobId,
            /// The fence of the lease.
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
    /// A heartbeat, which extends the lease of a job.
    HeartbeatBody, BeatItem {
        /// The progress of the job, which it keeps and which is sent to listeners.
        #[serde(default)]
        progress: Option<ProgressFields>,
    }
}

report! {
    /// The successful end of a job.
    CompleteBody, CompleteItem {
        /// JSON that is stored as the result; default: `null`.
        #[serde(default)]
        result: Payload,
        /// The units spent; default: the held units. An empty list means that nothing was spent.
        #[serde(default)]
        usage: Option<Vec<Usage>>,
        /// The blobs that the job made. They are not collected while the job is kept.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blobs: Vec<BlobId>,
    }
}

report! {
    /// A failed attempt.
    FailBody, FailItem {
        /// What went wrong.
        error: ErrorBody,
        /// Whether another attempt may succeed; `false` makes the job dead. Default: `true`.
        #[serde(default = "yes")]
        retryable: bool,
        /// How long to wait before the next attempt, in milliseconds; default: the delay of the retry policy.
        #[serde(default)]
        retry_after_ms: Option<i64>,
        /// The units spent by this attempt; default: none.
        #[serde(default)]
        usage: Option<Vec<Usage>>,
    }
}

report! {
    /// The progress of a job, which keeps the last report and sends it to listeners. It also extends the lease.
    ProgressBody, ProgressItem {
        /// The percentage that is done, from 0 to 100.
        #[serde(default)]
        percent: Option<f64>,
        /// A text for people.
        #[serde(default)]
        message: Option<String>,
        /// JSON for programs; default: `null`.
        #[serde(default)]
        data: Payload,
        /// Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null`
        /// removes it. At most 16 KiB.
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Payload>,
    }
}

/// An event of the application that a worker emits about its job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmitBody {
    /// The fence of the lease.
    pub fence: u64,
    /// The name of the event, such as `preview.ready`.
    pub event: EventName,
    /// JSON for listeners; default: `null`. At most 16 KiB.
    #[serde(default)]
    pub data: Payload,
}

/// The error of a failed attempt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// The type of the error, such as `timeout`.
    pub kind: String,
    #[serde(default)]
    pub message: String,
}

fn yes() -> bool {
    true
}

report! {
    /// A job to run later. The attempt does not count.
    SnoozeBody, SnoozeItem {
        /// How long to wait before the job is ready again, in milliseconds; at most ten years.
        // The schema has no maximum: in a request for several jobs, a delay above it fails that item only.
        #[schemars(range(min = 0))]
        delay_ms: i64,
    }
}

report! {
    /// A job that the worker gives back. It is ready at once, and the attempt does not count.
    ReturnBody, ReturnItem {}
}

impl From<CompleteBody> for End {
    fn from(body: CompleteBody) -> End {
        End::Complete { result: body.result, usage: body.usage, blobs: body.blobs }
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

/// Reports on several jobs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ItemsBodyOf{T}")]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct ItemsBody<T> {
    #[serde(deserialize_with = "list::items")]
    pub items: Vec<T>,
}

/// The answers to reports on several jobs, in the order of the request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "ItemsAnswerOf{T}")]
pub struct ItemsAnswer<T> {
    pub items: Vec<ItemAnswer<T>>,
}

/// The answer to the report on one job: its result, or the problem.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ItemAnswerOf{T}")]
pub enum ItemAnswer<T> {
    /// The report was accepted.
    Done(T),
    /// The report was not accepted; other reports of the request are not affected.
    Failed { problem: Problem },
}

/// The answers to ends of leases.
pub type FinishedItems = ItemsAnswer<FinishedAnswer>;
/// The answers to heartbeats.
pub type BeatenItems = ItemsAnswer<BeatenAnswer>;

/// Converts `wait_ms` of a request; refuses a wait above [`WAIT_MAX`].
pub fn wait(wait_ms: i64) -> Result<Span, Invalid> {
    match millis("wait_ms", wait_ms)? {
        wait if wait > WAIT_MAX => Err(Invalid::new("wait_ms", format!("must be at most {}", WAIT_MAX.millis()))),
        wait => Ok(wait),
    }
}
