//! `/v1/schedules`.

use bursar_core::name::ScheduleName;
use bursar_wire::Page;
use bursar_wire::command::EnqueuedAnswer;
use bursar_wire::schedule::{ScheduleAnswer, ScheduleBody};

use crate::answered::Answered;
use crate::api::reason_body;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for schedules. From [`Client::schedules`].
#[derive(Clone, Copy, Debug)]
pub struct Schedules<'a>(&'a Client);

impl Client {
    /// The calls for schedules.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules(self)
    }
}

fn at(name: &ScheduleName) -> Path {
    Path::new("/v1/schedules").part(name)
}

impl Schedules<'_> {
    /// Returns a page of schedules, by name.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<ScheduleAnswer>>, Error> {
        let path = Path::new("/v1/schedules").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Returns a schedule.
    pub async fn show(&self, name: &ScheduleName) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.get(at(name)).answer().await
    }

    /// Returns a schedule as it was at a moment: a time in RFC 3339, or a position of the journal. `None` is now.
    pub async fn show_at(&self, name: &ScheduleName, moment: Option<&str>) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.get(at(name).query("at", moment)).answer().await
    }

    /// Creates a schedule or replaces its definition.
    pub async fn define(&self, name: &ScheduleName, spec: &ScheduleBody) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.put(at(name), spec).answer().await
    }

    /// Removes a schedule; jobs that it has enqueued stay.
    pub async fn remove(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(at(name).query("reason", reason)).done().await
    }

    /// Enqueues the job of a schedule now.
    pub async fn run(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<EnqueuedAnswer>, Error> {
        self.0.post(at(name).then("run"), &reason_body(reason)).answer().await
    }

    /// Pauses a schedule.
    pub async fn pause(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.post(at(name).then("pause"), &reason_body(reason)).answer().await
    }

    /// Resumes a paused schedule with its next tick from now.
    pub async fn resume(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.post(at(name).then("resume"), &reason_body(reason)).answer().await
    }
}
