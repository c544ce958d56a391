//! Progress reports in the workload and in the model: which report and which checkpoint a job keeps.

use bursar_core::answer::{Answer, Renewed};
use bursar_core::event::{CheckpointedJob, Event};
use bursar_core::id::JobId;
use bursar_core::job::{Emit, HeartbeatItem, Job, JobRuntime, Progress};
use bursar_core::name::EventName;
use bursar_core::payload::Payload;

use super::event_cursor::EventCursor;
use super::expect::{Case, Check, is};
use super::jobs::{JobModel, foreign, unknown};
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

    /// Returns an event for every third job that a worker has. It follows from the number of the request.
    pub(super) fn event(&self, job: &Job) -> Option<Emit> {
        let emits = self.numbers.is_multiple_of(3);
        let data = Payload::of(&self.numbers).expect("JSON");
        let event = EventName::new("preview.ready").expect("a name");
        emits.then_some(Emit { job: job.id, fence: job.life.fence, event, data })
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

impl Model {
    /// Judges an event that a worker emits.
    pub(super) fn emitted(&mut self, case: &Case<'_>, emit: &Emit) -> Check<bool> {
        let answered = case.answered;
        let Some(job) = self.job(case, emit.job) else { return unknown(emit.job, answered).map(|()| false) };
        if job.is_foreign(case, emit.fence) {
            return foreign(emit.job, emit.fence, answered).map(|()| false);
        }
        if job.lease.is_none() || job.fence != emit.fence {
            return self.lost(emit.job, emit.fence, false, answered).map(|()| false);
        }
        is("an emitted event", case.answer()?, &Answer::Done)?;
        let mut events = EventCursor::of(case);
        is("an emitted event", events.next("an emitted event")?, &Event::JobEmitted(emit.clone()))?;
        self.follow_all(case, events)?;
        Ok(true)
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
