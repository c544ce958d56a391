//! Dead letters.

use bursar_wire::Page;
use bursar_wire::job::JobAnswer;
use bursar_wire::work::{ActedAnswer, MoveManyBody, SelectionBody};
use serde::Serialize;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::faces::jobs::JobQuery;
use crate::path::Path;

/// Dead letters: jobs that no attempt is left for.
#[derive(Clone, Copy, Debug)]
pub struct Dead<'a>(&'a Client);

impl Client {
    /// Dead letters.
    pub fn dead(&self) -> Dead<'_> {
        Dead(self)
    }
}

impl Dead<'_> {
    /// Dead letters in the order of their enqueueing; the state of the query is not looked at.
    pub async fn list(&self, query: &JobQuery) -> Result<Answered<Page<JobAnswer>>, Error> {
        let query = JobQuery { state: None, ..query.clone() };
        self.0.get(query.at(Path::new("/v1/dead"))).answer().await
    }

    /// Tries them again: these, or all that match. Go on with the cursor that it says, until it says none.
    pub async fn retry(&self, which: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.act("retry", which).await
    }

    /// They are not wanted any more.
    pub async fn discard(&self, which: &SelectionBody) -> Result<Answered<ActedAnswer>, Error> {
        self.act("discard", which).await
    }

    /// Puts them in another queue, where they are tried again.
    pub async fn move_to(&self, which: &MoveManyBody) -> Result<Answered<ActedAnswer>, Error> {
        self.act("move", which).await
    }

    async fn act(&self, act: &str, which: &impl Serialize) -> Result<Answered<ActedAnswer>, Error> {
        self.0.post(Path::new("/v1/dead").then(act), which).answer().await
    }
}
