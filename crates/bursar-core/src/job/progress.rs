//! Progress: what a worker reports while it runs a job.
//!
//! A report extends the lease, as a heartbeat does, and the row of the job keeps the last one ([`LastReport`]). That is the row which the
//! heartbeat writes anyway, so a report has no event and costs no further write. A report with a *checkpoint* is an event
//! ([`Event::JobCheckpointed`](crate::event::Event::JobCheckpointed)): a rebuild restores it, and the next lease of the job carries it.

use serde::{Deserialize, Serialize};

use crate::bounds::{CHECKPOINT_BYTES_MAX, PROGRESS_BYTES_MAX};
use crate::payload::Payload;
use crate::refusal::Invalid;
use crate::time::Time;

/// The progress of a running job. It is sent to listeners, and the job keeps the last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Progress {
    /// How much is done, from 0 to 100.
    pub percent: Option<f64>,
    /// A text for people.
    pub message: Option<String>,
    /// JSON for programs.
    pub data: Payload,
    /// Where the work is, for the attempt that follows this one. `None`: the last checkpoint stays. `null`: there is none any more.
    pub checkpoint: Option<Payload>,
}

/// `check` refuses a percentage that is not a number.
impl Eq for Progress {}

impl Progress {
    /// Progress with a percentage.
    pub fn percent(percent: f64) -> Progress {
        Progress { percent: Some(percent), ..Progress::default() }
    }

    /// Progress with a checkpoint.
    pub fn at_checkpoint(checkpoint: Payload) -> Progress {
        Progress::default().checkpoint(checkpoint)
    }

    /// Sets the message.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Progress {
        Progress { message: Some(message.into()), ..self }
    }

    /// Sets the checkpoint, which the next lease of the job carries. `null` removes the last one.
    #[must_use]
    pub fn checkpoint(self, checkpoint: Payload) -> Progress {
        Progress { checkpoint: Some(checkpoint), ..self }
    }

    /// Refuses a percentage outside of 0 to 100, and a report that is too large, because the row of the job keeps it and listeners buffer it
    /// in memory.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(percent) = self.percent.filter(|percent| !(0.0..=100.0).contains(percent)) {
            let problem = format!("is {percent}; it must be from 0 to 100: how much of the job is done");
            return Err(Invalid::new("percent", problem));
        }
        self.data.check("data")?;
        let bytes = self.message.as_ref().map_or(0, String::len) + self.data.as_str().len();
        if bytes > PROGRESS_BYTES_MAX {
            let problem = format!("has {bytes} bytes with its message; at most {PROGRESS_BYTES_MAX} are allowed");
            return Err(Invalid::new("data", problem));
        }
        let bytes = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.as_str().len());
        if bytes > CHECKPOINT_BYTES_MAX {
            let problem = format!(
                "has {bytes} bytes; at most {CHECKPOINT_BYTES_MAX} are allowed: store larger data as a blob, and its id in the checkpoint"
            );
            return Err(Invalid::new("checkpoint", problem));
        }
        self.checkpoint.as_ref().map_or(Ok(()), |checkpoint| checkpoint.check("checkpoint"))
    }
}

/// The last progress report of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastReport {
    /// When it was received.
    pub at: Time,
    /// The fence of the lease that it was reported under.
    pub fence: u64,
    /// Its number among the reports of that lease, from 1.
    pub number: u64,
    /// How much is done, from 0 to 100.
    pub percent: Option<f64>,
    /// A text for people.
    pub message: Option<String>,
    /// JSON for programs.
    pub data: Payload,
}

/// Only checked reports are stored, and these have no percentage that is not a number.
impl Eq for LastReport {}

impl LastReport {
    /// Returns its percentage, message and data.
    pub fn progress(&self) -> Progress {
        let LastReport { percent, message, data, .. } = self.clone();
        Progress { percent, message, data, checkpoint: None }
    }
}

/// Returns the checkpoint that a job keeps after a report: `null` removes it.
pub(crate) fn kept_checkpoint(reported: &Payload) -> Option<Payload> {
    Some(reported.clone()).filter(|checkpoint| *checkpoint != Payload::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_bounded() {
        let text = |bytes: usize| Payload::new(format!("\"{}\"", "x".repeat(bytes - 2))).expect("JSON");
        let refused = |progress: Progress| progress.check().err().map(|invalid| invalid.field.to_string());
        assert_eq!(refused(Progress::percent(100.0).checkpoint(text(CHECKPOINT_BYTES_MAX))), None);
        assert_eq!(refused(Progress::at_checkpoint(text(CHECKPOINT_BYTES_MAX + 1))).as_deref(), Some("checkpoint"));
        let large = Progress { data: text(PROGRESS_BYTES_MAX), ..Progress::default() };
        assert_eq!(refused(large.clone()), None);
        assert_eq!(refused(large.message("1")).as_deref(), Some("data"));
        for percent in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
            assert_eq!(refused(Progress::percent(percent)).as_deref(), Some("percent"), "{percent}");
        }
    }

    #[test]
    fn null_is_no_checkpoint() {
        assert_eq!(kept_checkpoint(&Payload::new(" null ").expect("JSON")), None);
        let zero = Payload::new("0").expect("JSON");
        assert_eq!(kept_checkpoint(&zero), Some(zero));
    }
}
