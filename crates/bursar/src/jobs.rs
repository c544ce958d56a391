//! Jobs, as far as they are enqueued.

use bursar_core::answer::Enqueued;
use bursar_core::bounds::JOBS_MAX;
use bursar_core::id::JobId;
use bursar_core::job::{Job, JobSpec};
use sqlx::PgConnection;

use crate::command::Receipt;
use crate::error::Error;
use crate::instance::Bursar;

/// Durable work. From [`Bursar::jobs`].
#[derive(Clone, Copy)]
pub struct Jobs<'a>(pub(crate) &'a Bursar);

impl Jobs<'_> {
    /// Enqueues a job; one with the same key is returned instead of a second one.
    pub async fn enqueue(&self, job: JobSpec) -> Result<Enqueued, Error> {
        only(&self.0.command().job(job).submit().await?)
    }

    /// Enqueues many jobs, a thousand in a transaction.
    pub async fn enqueue_all(&self, jobs: impl IntoIterator<Item = JobSpec>) -> Result<Vec<Enqueued>, Error> {
        let mut jobs = jobs.into_iter().peekable();
        let mut enqueued = Vec::new();
        while jobs.peek().is_some() {
            let command = jobs.by_ref().take(JOBS_MAX).fold(self.0.command(), |command, job| command.job(job));
            enqueued.extend(command.submit().await?.done.jobs);
        }
        Ok(enqueued)
    }

    /// Enqueues a job within the caller's own PostgreSQL transaction.
    pub async fn enqueue_in(&self, conn: &mut PgConnection, job: JobSpec) -> Result<(Enqueued, Receipt), Error> {
        let receipt = self.0.command().job(job).submit_in(conn).await?;
        Ok((only(&receipt)?, receipt))
    }

    /// A job as it stands.
    pub async fn find(&self, id: JobId) -> Result<Option<Job>, Error> {
        let found = self.0.inner.store.job(id).await?;
        Ok(found.filter(|job| job.tenant == self.0.context.tenant))
    }
}

fn only(receipt: &Receipt) -> Result<Enqueued, Error> {
    receipt.done.jobs.first().copied().ok_or_else(|| Error::Internal("a job command enqueued no job".into()))
}
