//! `/v1/dead`.

use bursar_core::name::Queue;
use bursar_wire::Page;
use bursar_wire::bulk::{ActedAnswer, MoveManyBody, SelectionBody};
use bursar_wire::job::JobAnswer;
use bursar_wire::report::DeadGroupAnswer;
use serde::Serialize;

use crate::answered::Answered;
use crate::api::jobs::JobQuery;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for dead jobs. From [`Client::dead`].
#[derive(Clone, Copy, Debug)]
pub struct Dead<'a>(&'a Client);

impl Client {
    /// The calls for dead jobs.
    pub fn dead(&self) -> Dead<'_> {
        Dead(self)
    }
}

impl Dead<'_> {
    /// Returns a page of dead jobs in the order in which they were enqueued; `query.state` and `query.newest_first` are
    /// ignored.
    pub async fn list(&self, query: &JobQuery) -> Result<Answered<Page<JobAnswer>>, Error> {
        let query = JobQuery { state: None, newest_first: false, ..query.clone() };
        self.0.get(query.append_to(Path::new("/v1/dead"))).answer().await
    }

    /// Returns a page of the dead jobs grouped by queue, kind and error; `None` means all queues.
    pub async fn groups(
        &self,
        queue: Option<&Queue>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<DeadGroupAnswer>>, Error> {
        let path = Path::new("/v1/dead/groups").query("queue", queue).query("cursor", cursor);
        self.0.get(path.query("limit", Some(limit))).answer().await
    }

    /// Retries dead jobs. Repeat the call with the `next` of the answer as `cursor` until it is `None`.
    pub async fn retry(&self, selection: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.act("retry", selection).await
    }

    /// Discards dead jobs.
    pub async fn discard(&self, selection: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.act("discard", selection).await
    }

    /// Moves dead jobs to another queue and retries them there.
    pub async fn move_to(&self, selection: &MoveManyBody) -> Result<Answered<ActedAnswer>, Error> {
        self.act("move", selection).await
    }

    async fn act(&self, action: &str, selection: &impl Serialize) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/dead").then(action), selection).answer().await
    }
}
