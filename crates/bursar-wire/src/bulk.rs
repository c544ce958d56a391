//! Operations on existing jobs: which jobs to change, how, and the result.

use bursar_core::bounds::{DELAY_MAX, PRIORITY_MAX};
use bursar_core::id::JobId;
use bursar_core::job::JobState;
use bursar_core::name::{FlowKey, JobKind, Queue, Tag};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The jobs to act on: either `ids` or `filter` is required.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelectionBody {
    /// The jobs, by id.
    pub ids: Vec<JobId>,
    /// All jobs that match.
    pub filter: Option<FilterBody>,
    /// The `next` of an earlier answer, to continue there; only with `filter`.
    pub cursor: Option<JobId>,
    /// The number of jobs after which to answer; default: 10,000.
    pub limit: Option<usize>,
    /// Why the jobs are changed; recorded in the journal.
    pub reason: Option<String>,
    /// Only count the jobs.
    pub dry_run: bool,
}

/// Defines a body with the fields of [`SelectionBody`] and those of an operation. `#[serde(flatten)]` would accept unknown fields.
macro_rules! operation {
    ($(#[$about:meta])* $body:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $body {
            $($(#[$meta])* pub $field: $type,)*
            /// The jobs, by id.
            #[serde(default)]
            pub ids: Vec<JobId>,
            /// All jobs that match.
            #[serde(default)]
            pub filter: Option<FilterBody>,
            /// The `next` of an earlier answer, to continue there; only with `filter`.
            #[serde(default)]
            pub cursor: Option<JobId>,
            /// The number of jobs after which to answer; default: 10,000.
            #[serde(default)]
            pub limit: Option<usize>,
            /// Why the jobs are changed; recorded in the journal.
            #[serde(default)]
            pub reason: Option<String>,
            /// Only count the jobs.
            #[serde(default)]
            pub dry_run: bool,
        }

        impl $body {
            /// The operation on the selected jobs.
            pub fn to(selection: SelectionBody, $($field: $type),*) -> $body {
                let SelectionBody { ids, filter, cursor, limit, reason, dry_run } = selection;
                $body { $($field,)* ids, filter, cursor, limit, reason, dry_run }
            }

            /// Returns the selected jobs.
            pub fn selection(self) -> SelectionBody {
                let $body { ids, filter, cursor, limit, reason, dry_run, .. } = self;
                SelectionBody { ids, filter, cursor, limit, reason, dry_run }
            }
        }
    };
}

operation! {
    /// A change of waiting jobs. Either `ids` or `filter` is required.
    EditManyBody {
        /// The new priority; default: unchanged.
        #[serde(default)]
        #[schemars(range(min = -PRIORITY_MAX, max = PRIORITY_MAX))]
        priority: Option<i16>,
        /// When the jobs are ready, in milliseconds from now; default: unchanged.
        #[serde(default)]
        #[schemars(range(min = 0, max = DELAY_MAX.millis()))]
        delay_ms: Option<i64>,
    }
}

operation! {
    /// A move of dead jobs to another queue. Either `ids` or `filter` is required.
    MoveManyBody {
        /// The queue to move them to.
        to: Queue,
    }
}

/// The properties of jobs. A job matches if it has all that are given.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilterBody {
    pub queue: Option<Queue>,
    /// The kind; `video.*` matches every kind that begins with `video.`.
    pub kind: Option<JobKind>,
    /// The flow key.
    pub key: Option<FlowKey>,
    /// A tag that the job has.
    pub tag: Option<Tag>,
    /// The fingerprint of the job's last error.
    pub fingerprint: Option<String>,
    /// The state; not allowed for operations on dead jobs.
    pub state: Option<JobState>,
}

/// The result of an operation on several jobs.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct ActedAnswer {
    /// The number of jobs that were selected.
    pub matched: usize,
    /// The number of jobs that were changed.
    pub done: usize,
    /// The number of jobs whose state did not allow the change.
    pub refused: usize,
    /// The `cursor` of the next request; `null` if no job is left.
    pub next: Option<JobId>,
    /// A dry run stopped counting: more jobs match than `matched` says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A move of one job to another queue.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveBody {
    pub queue: Queue,
    /// Why the job is moved; recorded in the journal.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A change of one waiting job.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EditBody {
    /// The new priority; default: unchanged.
    #[schemars(range(min = -PRIORITY_MAX, max = PRIORITY_MAX))]
    pub priority: Option<i16>,
    /// When the job is ready, in milliseconds from now; default: unchanged.
    #[schemars(range(min = 0, max = DELAY_MAX.millis()))]
    pub delay_ms: Option<i64>,
    /// Why the job is changed; recorded in the journal.
    pub reason: Option<String>,
}

/// Jobs that were enqueued, in the order of the request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EnqueuedJobsAnswer {
    pub jobs: Vec<crate::command::EnqueuedAnswer>,
}
