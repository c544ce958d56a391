//! Which actions of callers a job admits in its state.

use serde::{Deserialize, Serialize};

use super::{Job, JobState};
use crate::mutant::Mutant;
use crate::time::Time;

/// An action that a caller can perform on a job without saying more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobAct {
    /// Run it again, or at once.
    Retry,
    /// Cancel it; a running job is told to stop.
    Cancel,
    /// End a dead job for good.
    Discard,
    /// Erase the payload, the result and the checkpoint of a job that has ended.
    Erase,
}

/// What an action does to a job.
pub(crate) enum Effect {
    /// It changes the job.
    Changes,
    /// The job is already as the action would make it.
    Nothing,
    /// It is refused, for this reason.
    Refused(&'static str),
}

impl JobAct {
    /// Every action.
    pub const ALL: [JobAct; 4] = [JobAct::Retry, JobAct::Cancel, JobAct::Discard, JobAct::Erase];

    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            JobAct::Retry => "retry",
            JobAct::Cancel => "cancel",
            JobAct::Discard => "discard",
            JobAct::Erase => "erase",
        }
    }

    /// Returns what it does to a job that is in `state` by now.
    pub(crate) fn effect(self, job: &Job, state: JobState) -> Effect {
        match (self, state) {
            (JobAct::Retry, JobState::Dead | JobState::Cancelled)
                if job.payload.is_erased() && !Mutant::RetryErased.on() =>
            {
                Effect::Refused("its payload was erased")
            }
            (JobAct::Retry, JobState::Dead | JobState::Cancelled) => Effect::Changes,
            (JobAct::Retry, JobState::Scheduled | JobState::AwaitingBudget) => Effect::Changes,
            (JobAct::Retry, JobState::Queued) => Effect::Nothing,
            (JobAct::Retry, JobState::Leased) => Effect::Refused("it is running"),
            (JobAct::Retry, JobState::Succeeded) => {
                Effect::Refused("only dead, cancelled and waiting jobs can be retried")
            }
            (JobAct::Cancel, JobState::Cancelled) => Effect::Nothing,
            (JobAct::Cancel, JobState::Succeeded | JobState::Dead) => Effect::Refused("it has ended"),
            (JobAct::Cancel, JobState::Leased) if job.life.cancelling => Effect::Nothing,
            (JobAct::Cancel, _) => Effect::Changes,
            (JobAct::Discard, JobState::Dead) => Effect::Changes,
            (JobAct::Discard, _) => Effect::Refused("only dead jobs can be discarded"),
            (JobAct::Erase, state) if state.is_final() && job.payload.is_erased() => Effect::Nothing,
            (JobAct::Erase, state) if state.is_final() || Mutant::EraseLive.on() => Effect::Changes,
            (JobAct::Erase, _) if job.life.cancelling => {
                Effect::Refused("it is being cancelled: it ends when its worker reports, or its lease expires")
            }
            (JobAct::Erase, _) => Effect::Refused("it has not ended; cancel it first"),
        }
    }
}

impl Job {
    /// Returns the actions that would change it at `now`.
    pub fn acts(&self, now: Time) -> Vec<JobAct> {
        let state = self.state_at(now);
        let changes = |act: &JobAct| matches!(act.effect(self, state), Effect::Changes);
        JobAct::ALL.into_iter().filter(changes).collect()
    }
}
