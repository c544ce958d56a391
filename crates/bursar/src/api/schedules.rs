//! Schedules: what enqueues a job again and again.

use bursar_core::answer::Answer;
use bursar_core::id::JobId;
use bursar_core::job::{Schedule, ScheduleSpec};
use bursar_core::name::ScheduleName;
use bursar_core::refusal::Invalid;
use bursar_core::request::Op;

use crate::api::instance::Bursar;
use crate::error::Error;

/// What enqueues jobs by the clock. From [`Bursar::schedules`].
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

/// Schedules that one call lists at most.
const LIST_MAX: usize = 1_000;

impl Schedules<'_> {
    /// Registers or changes a schedule, as a whole. One whose cron and zone stay the same keeps its next tick.
    pub async fn define(
        &self,
        schedule: impl TryInto<ScheduleName, Error = Invalid>,
        spec: ScheduleSpec,
    ) -> Result<(), Error> {
        self.0.execute(Op::DefineSchedule { schedule: schedule.try_into()?, spec }).await.map(drop)
    }

    /// Enqueues nothing more until it is resumed. Ticks that pass meanwhile are nobody's.
    pub async fn pause(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseSchedule { schedule: schedule.try_into()?, paused: true }).await.map(drop)
    }

    /// Goes on with the next tick from now.
    pub async fn resume(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseSchedule { schedule: schedule.try_into()?, paused: false }).await.map(drop)
    }

    /// Enqueues its job now, whatever its ticks say, also while it is paused. Where the job of the last tick has not ended, it
    /// does what is set for that: a schedule that leaves ticks out then is refused.
    pub async fn run(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<JobId, Error> {
        match self.0.execute(Op::RunSchedule { schedule: schedule.try_into()? }).await? {
            Answer::Submitted(submitted) if submitted.jobs.len() == 1 => Ok(submitted.jobs[0].id),
            other => Err(Error::Internal(format!("running a schedule was answered with {other:?}"))),
        }
    }

    /// Removes a schedule; jobs that it enqueued stay.
    pub async fn remove(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::RemoveSchedule { schedule: schedule.try_into()? }).await.map(drop)
    }

    /// A schedule as it stands.
    pub async fn find(&self, schedule: impl TryInto<ScheduleName, Error = Invalid>) -> Result<Option<Schedule>, Error> {
        let key = (self.0.context.tenant.clone(), schedule.try_into()?);
        Ok(self.0.inner.store.schedule(&key).await?)
    }

    /// Schedules after a name, by name, at most `limit` (from 1 to 1,000).
    pub async fn list(
        &self,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_schedules(tenant, after, limit.clamp(1, LIST_MAX)).await?)
    }
}
