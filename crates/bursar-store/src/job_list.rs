//! Listing jobs from two tables, live and finished, page by page: what SQLite and PostgreSQL share.

use bursar_core::id::JobId;
use bursar_core::job::{Job, JobState};
use bursar_core::time::Time;

use crate::figures::JobFilter;

/// The most jobs of a page.
pub(crate) const PAGE: usize = 500;

/// The tables that have jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobTable {
    /// Jobs that have not finished.
    Live,
    /// Jobs that have finished.
    Ended,
}

/// A list of jobs in the making. The database filters by columns; the rest is filtered here, so that more than one page may be needed.
pub(crate) struct JobList<'a> {
    filter: &'a JobFilter,
    after: Option<JobId>,
    limit: usize,
    now: Time,
    found: Vec<Job>,
    /// The tables that are left to read, the next one last.
    tables: Vec<JobTable>,
    /// The last job read from the current table.
    last: Option<JobId>,
    /// Jobs found in the current table.
    taken: usize,
}

impl<'a> JobList<'a> {
    /// A list of at most `limit` jobs after an id that a filter takes at an instant.
    pub(crate) fn new(filter: &'a JobFilter, after: Option<JobId>, limit: usize, now: Time) -> JobList<'a> {
        let tables = match filter.state.map(JobState::is_final) {
            _ if limit == 0 => Vec::new(),
            Some(false) => vec![JobTable::Live],
            Some(true) => vec![JobTable::Ended],
            None => vec![JobTable::Ended, JobTable::Live],
        };
        JobList { filter, after, limit, now, found: Vec::new(), tables, last: after, taken: 0 }
    }

    /// The table to read a page from, and the job after which it begins; `None` when the list is complete.
    pub(crate) fn next_page(&self) -> Option<(JobTable, Option<JobId>)> {
        self.tables.last().map(|table| (*table, self.last))
    }

    /// Adds the page that [`JobList::next_page`] named.
    pub(crate) fn add(&mut self, page: Vec<Job>) {
        let is_last = page.len() < PAGE;
        self.last = page.last().map(|job| job.id);
        let before = self.found.len();
        let (filter, now, room) = (self.filter, self.now, self.limit - self.taken);
        self.found.extend(page.into_iter().filter(|job| filter.takes(job, now)).take(room));
        self.taken += self.found.len() - before;
        if is_last || self.taken == self.limit {
            self.tables.pop();
            (self.last, self.taken) = (self.after, 0);
        }
    }

    /// The jobs, in order of ids.
    pub(crate) fn finish(mut self) -> Vec<Job> {
        self.found.sort_by_key(|job| job.id);
        // A job that finished between two reads was in both tables.
        self.found.dedup_by_key(|job| job.id);
        self.found.truncate(self.limit);
        self.found
    }
}
