//! `/v1/journal`.

use bursar_wire::Page;
use bursar_wire::activity::ActivityAnswer;
use bursar_wire::event::EventAnswer;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for the journal. From [`Client::journal`].
#[derive(Clone, Copy, Debug)]
pub struct Journal<'a>(&'a Client);

impl Client {
    /// The calls for the journal.
    pub fn journal(&self) -> Journal<'_> {
        Journal(self)
    }
}

/// A filter for a page of events.
#[derive(Clone, Debug, Default)]
pub struct JournalQuery {
    /// The position after which to start; 0 for the beginning.
    pub after: u64,
    /// Events of one object: `job:job_…`, or an id such as `hold_…` and `cmd_…`. `scope:NAME` matches all events that changed the
    /// scope.
    pub stream: Option<String>,
    /// Events of one type, such as `job.succeeded`; `job` matches all types that begin with `job.`.
    pub kind: Option<String>,
    /// The number of events to search; default: 100.
    pub limit: Option<usize>,
    /// Newest events first.
    pub newest: bool,
    /// With `newest`, only events before this position: the `next` of the previous page.
    pub before: Option<u64>,
    /// Only events at this time or later, in RFC 3339.
    pub from: Option<String>,
    /// Only events before this time, in RFC 3339.
    pub to: Option<String>,
}

impl Journal<'_> {
    /// Returns the spend of the last hour by minute and scope, and notable events.
    pub async fn activity(&self) -> Result<Answered<ActivityAnswer>, Error> {
        self.0.get(Path::new("/v1/activity")).answer().await
    }

    /// Returns a page of events in the order of commits. The filter applies after `limit`, so that a page may be empty and not the last.
    pub async fn read(&self, query: &JournalQuery) -> Result<Answered<Page<EventAnswer>>, Error> {
        let JournalQuery { after, stream, kind, limit, newest, before, from, to } = query;
        let path = Path::new("/v1/journal").query("after", Some(after).filter(|after| **after > 0));
        let path = path.query("stream", stream.as_ref()).query("kind", kind.as_ref()).query("limit", *limit);
        let path = path.query("order", newest.then_some("newest")).query("cursor", before.filter(|_| *newest));
        self.0.get(path.query("from", from.as_ref()).query("to", to.as_ref())).answer().await
    }
}
