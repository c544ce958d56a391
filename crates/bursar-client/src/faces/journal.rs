//! The journal.

use bursar_wire::Page;
use bursar_wire::event::EventAnswer;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The journal: everything that happened, in order.
#[derive(Clone, Copy, Debug)]
pub struct Journal<'a>(&'a Client);

impl Client {
    /// The journal.
    pub fn journal(&self) -> Journal<'_> {
        Journal(self)
    }
}

/// Which events are wanted, a page of them.
#[derive(Clone, Debug, Default)]
pub struct JournalQuery {
    /// After this position.
    pub after: u64,
    /// Only of this thing: `job:job_…`, or an id such as `hold_…` and `cmd_…`; `scope:NAME` is all that moved the scope.
    pub stream: Option<String>,
    /// Only of this kind, such as `job.succeeded`; `job` is all of `job.…`.
    pub kind: Option<String>,
    /// So many are looked at; a hundred unless it is said.
    pub limit: Option<usize>,
}

impl Journal<'_> {
    /// Events in the order of commits. Of those that are looked at only the wanted ones are told: a page may be empty and not the
    /// last.
    pub async fn read(&self, query: &JournalQuery) -> Result<Answered<Page<EventAnswer>>, Error> {
        let JournalQuery { after, stream, kind, limit } = query;
        let path = Path::new("/v1/journal").query("after", Some(after).filter(|after| **after > 0));
        let path = path.query("stream", stream.as_ref()).query("kind", kind.as_ref()).query("limit", *limit);
        self.0.get(path).answer().await
    }
}
