//! Lists jobs page by page from two tables, live and finished. SQLite and PostgreSQL share it.

use bursar_core::id::JobId;
use bursar_core::job::{Job, JobState};
use bursar_core::time::Time;

use crate::figures::JobFilter;

/// The number of jobs read at once.
pub(crate) const PAGE: usize = 500;

/// A table with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobTable {
    /// Jobs that have not finished.
    Live,
    /// Jobs that have finished.
    Ended,
}

/// Returns the comparison, the direction and the first id of a page in SQL.
pub(crate) fn page_order(filter: &JobFilter, after: Option<JobId>) -> (&'static str, &'static str, u128) {
    match filter.newest_first {
        true => ("<", "DESC", after.map_or(u128::MAX, |after| after.0)),
        false => (">", "ASC", after.map_or(0, |after| after.0)),
    }
}

/// A list of jobs that is being read. The database filters by columns, and the rest of the filter is applied here, so a list may need
/// several pages.
pub(crate) struct JobList<'a> {
    filter: &'a JobFilter,
    after: Option<JobId>,
    limit: usize,
    now: Time,
    found: Vec<Job>,
    /// The tables left to read. The current one is the last.
    tables: Vec<JobTable>,
    /// The last job read from the current table.
    last: Option<JobId>,
    /// The number of matching jobs found in the current table.
    taken: usize,
}

impl<'a> JobList<'a> {
    /// Starts a list of at most `limit` jobs after an id (before it, if the newest come first) that match a filter at an instant.
    pub(crate) fn new(filter: &'a JobFilter, after: Option<JobId>, limit: usize, now: Time) -> JobList<'a> {
        let tables = match filter.state.map(JobState::is_final) {
            _ if limit == 0 => Vec::new(),
            Some(false) => vec![JobTable::Live],
            Some(true) => vec![JobTable::Ended],
            None => vec![JobTable::Ended, JobTable::Live],
        };
        JobList { filter, after, limit, now, found: Vec::new(), tables, last: after, taken: 0 }
    }

    /// Returns the table to read the next page from, and the job after which the page begins; `None` if the list is complete.
    pub(crate) fn next_page(&self) -> Option<(JobTable, Option<JobId>)> {
        self.tables.last().map(|table| (*table, self.last))
    }

    /// Adds the page that [`JobList::next_page`] requested.
    pub(crate) fn add(&mut self, page: Vec<Job>) {
        let is_last = page.len() < PAGE;
        self.last = page.last().map(|job| job.id);
        let before = self.found.len();
        let (filter, now, room) = (self.filter, self.now, self.limit - self.taken);
        self.found.extend(page.into_iter().filter(|job| filter.matches(job, now)).take(room));
        self.taken += self.found.len() - before;
        if is_last || self.taken == self.limit {
            self.tables.pop();
            (self.last, self.taken) = (self.after, 0);
        }
    }

    /// Returns the jobs, in order of ids, or the newest first.
    pub(crate) fn finish(mut self) -> Vec<Job> {
        self.found.sort_by_key(|job| job.id);
        if self.filter.newest_first {
            self.found.reverse();
        }
        // A job that finished between two reads was found in both tables.
        self.found.dedup_by_key(|job| job.id);
        self.found.truncate(self.limit);
        self.found
    }
}
