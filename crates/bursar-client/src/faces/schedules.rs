//! Schedules.

use bursar_core::name::ScheduleName;
use bursar_wire::Page;
use bursar_wire::command::EnqueuedAnswer;
use bursar_wire::schedule::{ScheduleAnswer, ScheduleBody};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::faces::because;
use crate::path::Path;

/// Schedules: jobs that are enqueued by the clock.
#[derive(Clone, Copy, Debug)]
pub struct Schedules<'a>(&'a Client);

impl Client {
    /// Schedules.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules(self)
    }
}

fn at(name: &ScheduleName) -> Path {
    Path::new("/v1/schedules").part(name)
}

impl Schedules<'_> {
    /// Schedules by name, a page of them.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<ScheduleAnswer>>, Error> {
        let path = Path::new("/v1/schedules").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// A schedule as it stands.
    pub async fn show(&self, name: &ScheduleName) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.get(at(name)).answer().await
    }

    /// Registers or changes a schedule, as a whole.
    pub async fn define(&self, name: &ScheduleName, spec: &ScheduleBody) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.put(at(name), spec).answer().await
    }

    /// Removes a schedule; its jobs stay.
    pub async fn remove(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(at(name).query("reason", reason)).done().await
    }

    /// Enqueues its job now.
    pub async fn run(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<EnqueuedAnswer>, Error> {
        self.0.post(at(name).then("run"), &because(reason)).answer().await
    }

    /// Enqueues nothing more.
    pub async fn pause(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.post(at(name).then("pause"), &because(reason)).answer().await
    }

    /// Goes on with the next tick from now.
    pub async fn resume(&self, name: &ScheduleName, reason: Option<&str>) -> Result<Answered<ScheduleAnswer>, Error> {
        self.0.post(at(name).then("resume"), &because(reason)).answer().await
    }
}
