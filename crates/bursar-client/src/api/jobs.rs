//! `/v1/jobs`, `/v1/costs` and `/v1/held`, except for the calls of workers.

use bursar_core::id::JobId;
use bursar_core::job::JobState;
use bursar_core::name::{FlowKey, JobKind, Queue, Tag};
use bursar_wire::Page;
use bursar_wire::bulk::{ActedAnswer, EditBody, EditManyBody, EnqueuedJobsAnswer, MoveBody, SelectionBody};
use bursar_wire::command::EnqueuedAnswer;
use bursar_wire::event::EventAnswer;
use bursar_wire::job::{AttemptAnswer, BulkBody, FinishedAnswer, JobAnswer, JobBody};
use bursar_wire::report::{DayCostAnswer, HeldAnswer};

use crate::answered::Answered;
use crate::api::reason_body;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for jobs. From [`Client::jobs`].
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a>(&'a Client);

impl Client {
    /// The calls for jobs.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs(self)
    }
}

/// A filter for a page of jobs. A field that is `None` matches every job.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// The queue.
    pub queue: Option<Queue>,
    /// The state.
    pub state: Option<JobState>,
    /// The kind; `video.*` matches every kind that begins with `video.`.
    pub kind: Option<JobKind>,
    /// The flow key.
    pub key: Option<FlowKey>,
    /// A tag.
    pub tag: Option<Tag>,
    /// The fingerprint of the last error.
    pub fingerprint: Option<String>,
    /// Whether the newest jobs come first; default: the oldest.
    pub newest_first: bool,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// The maximum number of jobs; default: 100.
    pub limit: Option<usize>,
}

impl JobQuery {
    pub(crate) fn append_to(&self, path: Path) -> Path {
        path.query("queue", self.queue.as_ref())
            .query("state", self.state)
            .query("kind", self.kind.as_ref())
            .query("key", self.key.as_ref())
            .query("tag", self.tag.as_ref())
            .query("fingerprint", self.fingerprint.as_ref())
            .query("order", self.newest_first.then_some("newest"))
            .query("cursor", self.cursor.as_ref())
            .query("limit", self.limit)
    }
}

fn at(id: JobId) -> Path {
    Path::new("/v1/jobs").part(id)
}

impl Jobs<'_> {
    /// Enqueues a job.
    pub async fn enqueue(&self, job: &JobBody) -> Result<Answered<EnqueuedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs"), job).answer().await
    }

    /// Enqueues many jobs, up to 1,000 in each transaction. If the call fails midway, repeat it with the same key to continue.
    pub async fn enqueue_all(&self, jobs: Vec<JobBody>) -> Result<Answered<EnqueuedJobsAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/bulk"), &BulkBody { jobs }).answer().await
    }

    /// Returns a job.
    pub async fn show(&self, id: JobId) -> Result<Answered<JobAnswer>, Error> {
        self.0.get(at(id)).answer().await
    }

    /// Returns a job as it was at a moment: a time in RFC 3339, or a position of the journal. `None` is now.
    pub async fn show_at(&self, id: JobId, moment: Option<&str>) -> Result<Answered<JobAnswer>, Error> {
        self.0.get(at(id).query("at", moment)).answer().await
    }

    /// Returns a page of jobs in the order in which they were enqueued.
    pub async fn list(&self, query: &JobQuery) -> Result<Answered<Page<JobAnswer>>, Error> {
        self.0.get(query.append_to(Path::new("/v1/jobs"))).answer().await
    }

    /// Returns a page of the events of a job, newest first.
    pub async fn events(
        &self,
        id: JobId,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<EventAnswer>>, Error> {
        self.0.get(at(id).then("events").query("cursor", cursor).query("limit", Some(limit))).answer().await
    }

    /// Returns the attempts of a job, oldest first.
    pub async fn attempts(&self, id: JobId) -> Result<Answered<Page<AttemptAnswer>>, Error> {
        self.0.get(at(id).then("attempts")).answer().await
    }

    /// Cancels a job. A job that runs is cancelled when its worker stops.
    pub async fn cancel(&self, id: JobId, reason: Option<&str>) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.post(at(id).then("cancel"), &reason_body(reason)).answer().await
    }

    /// Retries a dead or cancelled job.
    pub async fn retry(&self, id: JobId, reason: Option<&str>) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.post(at(id).then("retry"), &reason_body(reason)).answer().await
    }

    /// Discards a dead job.
    pub async fn discard(&self, id: JobId, reason: Option<&str>) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.post(at(id).then("discard"), &reason_body(reason)).answer().await
    }

    /// Erases the payload and the result of a job that has ended.
    pub async fn erase(&self, id: JobId, reason: Option<&str>) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.post(at(id).then("erase"), &reason_body(reason)).answer().await
    }

    /// Moves a job to another queue.
    pub async fn move_to(
        &self,
        id: JobId,
        queue: &Queue,
        reason: Option<&str>,
    ) -> Result<Answered<FinishedAnswer>, Error> {
        let body = MoveBody { queue: queue.clone(), reason: reason.map(str::to_owned) };
        self.0.post(at(id).then("move"), &body).answer().await
    }

    /// Changes the priority or the delay of a waiting job.
    pub async fn edit(&self, id: JobId, change: &EditBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.patch(at(id), change).answer().await
    }

    /// Erases the payloads and results of many jobs that have ended. Repeat the call as for [`Jobs::cancel_all`].
    pub async fn erase_all(&self, selection: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/erase"), selection).answer().await
    }

    /// Cancels many jobs. Repeat the call with the `next` of the answer as `cursor` until it is `None`.
    pub async fn cancel_all(&self, selection: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/cancel"), selection).answer().await
    }

    /// Retries many jobs, as [`cancel_all`](Jobs::cancel_all) cancels them.
    pub async fn retry_all(&self, selection: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/retry"), selection).answer().await
    }

    /// Changes many waiting jobs, as [`cancel_all`](Jobs::cancel_all) cancels them.
    pub async fn edit_all(&self, change: &EditManyBody) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/edit"), change).answer().await
    }

    /// Returns a page of what jobs cost from one day to another; days are in UTC, such as `2026-11-01`.
    pub async fn costs(
        &self,
        from: &str,
        to: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<DayCostAnswer>>, Error> {
        let path = Path::new("/v1/costs").query("from", Some(from)).query("to", to);
        self.0.get(path.query("cursor", cursor).query("limit", Some(limit))).answer().await
    }

    /// Returns a page of the units held for jobs now, by queue, kind and unit; `None` means all queues.
    pub async fn held(
        &self,
        queue: Option<&Queue>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<HeldAnswer>>, Error> {
        let path = Path::new("/v1/held").query("queue", queue).query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }
}
