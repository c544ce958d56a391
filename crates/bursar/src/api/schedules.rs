//! Schedules: recurring job definitions.

use bursar_core::answer::Answer;
use bursar_core::id::JobId;
use bursar_core::job::{Schedule, ScheduleSpec};
use bursar_core::name::ScheduleName;
use bursar_core::refusal::Invalid;
use bursar_core::request::Op;

use crate::api::instance::Bursar;
use crate::error::Error;

/// Schedules, which enqueue a job at each tick of a cron expression. From [`Bursar::schedules`].
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use bursar::{Bursar, Cron, JobSpec, Payload, ScheduleSpec, Zone};
///
/// let bursar = Bursar::open("sqlite::memory:").await?;
/// let report = JobSpec::new("reports".try_into()?, "report.daily".try_into()?, Payload::default());
/// let every_morning = ScheduleSpec::new(Cron::new("30 7 * * MON-FRI")?, Zone::new("Europe/Berlin")?, report);
/// bursar.schedules().define("morning", every_morning).await?;
///
/// let job = bursar.schedules().run("morning").await?;
/// assert_eq!(bursar.jobs().find(job).await?.unwrap().kind.as_str(), "report.daily");
/// # bursar.close().await;
/// # Ok::<(), bursar::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy)]
pub struct Schedules<'a>(pub(crate) &'a Bursar);

/// The most schedules that one call lists.
const LIST_MAX: usize = 1_000;

impl Schedules<'_> {
    /// Defines a schedule. Replaces an earlier definition completely; its next tick stays if the cron expression and the
    /// time zone stay.
    pub async fn define(
        &self,
        schedule: impl TryInto<ScheduleName, Error = Invalid>,
        spec: ScheduleSpec,
    ) -> Result<(), Error> {
        self.0.execute(Op::DefineSchedule { schedule: schedule.try_into()?, spec }).await.map(drop)
    }

    /// Pauses a schedule until it is resumed. Ticks that pass in the meantime are skipped and not made up for.
    pub async fn pause(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseSchedule { schedule: schedule.try_into()?, paused: true }).await.map(drop)
    }

    /// Resumes a schedule. Its next tick is the first one after now.
    pub async fn resume(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseSchedule { schedule: schedule.try_into()?, paused: false }).await.map(drop)
    }

    /// Enqueues the schedule's job now, even if the schedule is paused, and returns the job's id. If the job of the last
    /// tick has not ended, the schedule's overlap policy applies; with [`Overlap::Skip`](crate::Overlap::Skip) the run is
    /// refused.
    pub async fn run(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<JobId, Error> {
        match self.0.execute(Op::RunSchedule { schedule: schedule.try_into()? }).await? {
            Answer::Submitted(submitted) if submitted.jobs.len() == 1 => Ok(submitted.jobs[0].id),
            other => Err(Error::Internal(format!("unexpected answer to running a schedule: {other:?}"))),
        }
    }

    /// Removes a schedule. Jobs that it enqueued stay.
    pub async fn remove(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::RemoveSchedule { schedule: schedule.try_into()? }).await.map(drop)
    }

    /// Returns a schedule of this tenant.
    pub async fn find(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<Option<Schedule>, Error> {
        let key = (self.0.context.tenant.clone(), schedule.try_into()?);
        Ok(self.0.inner.store.schedule(&key).await?)
    }

    /// Lists the schedules after a name, in the order of names, at most `limit` (from 1 to 1,000).
    pub async fn list(
        &self,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_schedules(tenant, after, limit.clamp(1, LIST_MAX)).await?)
    }
}
