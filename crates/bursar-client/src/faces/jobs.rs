//! Jobs, for who does not work on them.

use bursar_core::id::JobId;
use bursar_core::job::JobState;
use bursar_core::name::{FlowKey, JobKind, Queue, Tag};
use bursar_wire::Page;
use bursar_wire::command::EnqueuedAnswer;
use bursar_wire::event::EventAnswer;
use bursar_wire::job::{AttemptAnswer, BulkBody, FinishedAnswer, JobAnswer, JobBody};
use bursar_wire::report::{DayCostAnswer, HeldAnswer};
use bursar_wire::work::{ActedAnswer, EditBody, EditManyBody, EnqueuedJobsAnswer, MoveBody, SelectionBody};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::faces::because;
use crate::path::Path;

/// Jobs: durable work.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a>(&'a Client);

impl Client {
    /// Jobs.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs(self)
    }
}

/// Which jobs are wanted, a page of them. What is not said is of any kind.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// In this queue.
    pub queue: Option<Queue>,
    /// In this state.
    pub state: Option<JobState>,
    /// Of this kind, or of kinds that begin so before a `*`.
    pub kind: Option<JobKind>,
    /// With this flow key.
    pub key: Option<FlowKey>,
    /// With this tag.
    pub tag: Option<Tag>,
    /// Whose last error has this fingerprint.
    pub fingerprint: Option<String>,
    /// After this cursor.
    pub cursor: Option<String>,
    /// So many at most; a hundred unless it is said.
    pub limit: Option<usize>,
}

impl JobQuery {
    pub(crate) fn at(&self, path: Path) -> Path {
        path.query("queue", self.queue.as_ref())
            .query("state", self.state)
            .query("kind", self.kind.as_ref())
            .query("key", self.key.as_ref())
            .query("tag", self.tag.as_ref())
            .query("fingerprint", self.fingerprint.as_ref())
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

    /// Enqueues many, a thousand in a transaction. Where it breaks off, the same call with the same key goes on.
    pub async fn enqueue_all(&self, jobs: Vec<JobBody>) -> Result<Answered<EnqueuedJobsAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/bulk"), &BulkBody { jobs }).answer().await
    }

    /// A job as it stands.
    pub async fn show(&self, id: JobId) -> Result<Answered<JobAnswer>, Error> {
        self.0.get(at(id)).answer().await
    }

    /// Jobs in the order of their enqueueing.
    pub async fn list(&self, query: &JobQuery) -> Result<Answered<Page<JobAnswer>>, Error> {
        self.0.get(query.at(Path::new("/v1/jobs"))).answer().await
    }

    /// What happened to a job, newest first.
    pub async fn events(
        &self,
        id: JobId,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<EventAnswer>>, Error> {
        self.0.get(at(id).then("events").query("cursor", cursor).query("limit", Some(limit))).answer().await
    }

    /// How each attempt of a job went, the first one first.
    pub async fn attempts(&self, id: JobId) -> Result<Answered<Page<AttemptAnswer>>, Error> {
        self.0.get(at(id).then("attempts")).answer().await
    }

    /// Gives a job up; one that runs is told.
    pub async fn cancel(&self, id: JobId, reason: Option<&str>) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.post(at(id).then("cancel"), &because(reason)).answer().await
    }

    /// Tries a dead or cancelled job again.
    pub async fn retry(&self, id: JobId, reason: Option<&str>) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.post(at(id).then("retry"), &because(reason)).answer().await
    }

    /// A dead job is not wanted any more.
    pub async fn discard(&self, id: JobId, reason: Option<&str>) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.post(at(id).then("discard"), &because(reason)).answer().await
    }

    /// Puts a job in another queue.
    pub async fn move_to(
        &self,
        id: JobId,
        queue: &Queue,
        reason: Option<&str>,
    ) -> Result<Answered<FinishedAnswer>, Error> {
        let body = MoveBody { queue: queue.clone(), reason: reason.map(str::to_owned) };
        self.0.post(at(id).then("move"), &body).answer().await
    }

    /// Changes a waiting job.
    pub async fn edit(&self, id: JobId, change: &EditBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.0.patch(at(id), change).answer().await
    }

    /// Gives up many: these, or all that match. Go on with the cursor that it says, until it says none.
    pub async fn cancel_all(&self, which: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/cancel"), which).answer().await
    }

    /// Tries many again.
    pub async fn retry_all(&self, which: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/retry"), which).answer().await
    }

    /// Changes many that wait.
    pub async fn edit_all(&self, change: &EditManyBody) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/jobs/edit"), change).answer().await
    }

    /// What jobs cost from a day to another, such as `2026-11-01`, in UTC, after a cursor.
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

    /// What is held for jobs now, by queue, kind and unit, of one queue or of all, after a cursor.
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
