//! Progress reports in the workload and in the model: which report and which checkpoint a job keeps.

use bursar_core::answer::Renewed;
use bursar_core::event::{CheckpointedJob, Event};
use bursar_core::id::JobId;
use bursar_core::job::{HeartbeatItem, Job, JobRuntime, Progress};
use bursar_core::payload::Payload;

use super::event_cursor::EventCursor;
use super::expect::{Check, is};
use super::jobs::JobModel;
use super::model::Model;
use super::workload::Workload;

impl Workload {
    /// Returns a heartbeat for each job: without progress, with a percentage, with a checkpoint, or without one any more. It follows from the
    /// number of the request.
    pub(super) fn beats(&self, jobs: &[Job]) -> Vec<HeartbeatItem> {
        let beats = jobs.iter().zip(self.numbers..).map(|(job, number)| {
            let beat = HeartbeatItem::new(job.id, job.life.fence);
            match number % 8 {
                0..2 => beat,
                2..4 => beat.with_progress(Progress::percent((number % 100) as f64)),
                4..7 => {
                    let checkpoint = Payload::of(&(number / 16)).expect("JSON");
                    beat.with_progress(Progress::default().message("saved").checkpoint(checkpoint))
                }
                _ => beat.with_progress(Progress::at_checkpoint(Payload::default())),
            }
        });
        beats.collect()
    }
}

/// What a job keeps of the reports of its workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportsModel {
    checkpoint: Option<Payload>,
    /// The fence and the number of the last report, and its percentage.
    last: Option<(u64, u64, Option<f64>)>,
}

impl Model {
    /// Judges the report of a running lease.
    pub(super) fn reported(&mut self, beat: &HeartbeatItem, answered: &Renewed, events: &mut EventCursor<'_>) -> Check {
        let reports = &mut self.jobs.get_mut(&beat.job).ok_or("the job was found above")?.reports;
        let number = reports.last.filter(|(fence, ..)| *fence == beat.fence).map_or(0, |(_, number, _)| number);
        let Some(progress) = &beat.progress else { return is("the number of reports", &answered.reports, &number) };
        is("the number of reports", &answered.reports, &(number + 1))?;
        reports.last = Some((beat.fence, number + 1, progress.percent));
        let Some(checkpoint) = &progress.checkpoint else { return Ok(()) };
        let kept = Some(checkpoint.clone()).filter(|checkpoint| checkpoint.as_str() != "null");
        if kept == reports.checkpoint {
            return Ok(());
        }
        reports.checkpoint = kept;
        let expected = CheckpointedJob {
            job: beat.job,
            fence: beat.fence,
            report: number + 1,
            checkpoint: checkpoint.clone(),
            percent: progress.percent,
            message: progress.message.clone(),
            data: progress.data.clone(),
        };
        is("a checkpoint", events.next("a checkpoint")?, &Event::JobCheckpointed(expected))
    }
}

impl JobModel {
    /// Compares what a row has of reports with the model.
    pub(super) fn compare_reports(&self, id: JobId, life: &JobRuntime) -> Check {
        let ReportsModel { checkpoint, last } = &self.reports;
        is(&format!("fence: the checkpoint of {id}"), &life.checkpoint, checkpoint)?;
        let stored = life.progress.as_ref().map(|report| (report.fence, report.number, report.percent));
        is(&format!("fence: the last report of {id}"), &stored, last)
    }
}
