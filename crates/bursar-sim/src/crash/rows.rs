//! The rows of holds, jobs and grants that the journal asks for, compared with those of the database.

use std::collections::{BTreeSet, HashMap, HashSet};

use bursar::{Bursar, Error, Event, GrantId, GrantState, HoldId, HoldState, JobId, JournalEvent, Span};
use bursar_core::time::Time;

use super::checker::{CheckReport, funding, hold_of};
use super::leases::JobStates;

/// Grants per page.
const PAGE: usize = 1_000;

/// The rows that the journal asks for.
pub(crate) struct Rows {
    /// How long rows are kept, if any are deleted.
    kept: Option<Span>,
    /// The state of each hold, and since when it has it.
    holds: HashMap<HoldId, (HoldState, Time)>,
    /// The job that each hold belongs to.
    jobs_of_holds: HashMap<HoldId, JobId>,
    /// The state of each grant, and when it expires.
    grants: HashMap<GrantId, (GrantState, Time)>,
    jobs: JobStates,
    forgotten: HashSet<JobId>,
    /// What was deleted too early.
    early: Vec<String>,
    /// Holds and jobs with events since the last check.
    touched: (BTreeSet<HoldId>, BTreeSet<JobId>),
}

impl Rows {
    /// Reads the journal, of which the last check has seen the first events.
    pub(crate) fn of(journal: &[JournalEvent], checked: usize, kept: Option<Span>) -> Rows {
        let new = || journal.iter().skip(checked).map(|event| &event.event);
        let touched = (new().filter_map(hold_of).collect(), new().filter_map(Event::job).collect());
        let mut rows = Rows {
            kept,
            holds: HashMap::new(),
            jobs_of_holds: HashMap::new(),
            grants: HashMap::new(),
            jobs: JobStates::default(),
            forgotten: HashSet::new(),
            early: Vec::new(),
            touched,
        };
        let mut ended: HashMap<JobId, Time> = HashMap::new();
        for JournalEvent { event, at, .. } in journal {
            rows.jobs_of_holds.extend(funding(event));
            rows.jobs.apply(event);
            match event {
                Event::HoldPlaced { hold, .. } => drop(rows.holds.insert(*hold, (HoldState::Held, *at))),
                Event::HoldCommitted { hold, .. } => drop(rows.holds.insert(*hold, (HoldState::Committed, *at))),
                Event::HoldReleased { hold, .. } => drop(rows.holds.insert(*hold, (HoldState::Released, *at))),
                Event::HoldExpired { hold, .. } => drop(rows.holds.insert(*hold, (HoldState::Expired, *at))),
                Event::GrantMinted { grant, expires_at, .. } => {
                    rows.grants.insert(*grant, (GrantState::Open, *expires_at));
                }
                Event::GrantRedeemed { grant, .. } => {
                    rows.grants.entry(*grant).and_modify(|(state, _)| *state = GrantState::Redeemed);
                }
                Event::JobSucceeded { job, .. } | Event::JobDied { job, .. } => drop(ended.insert(*job, *at)),
                Event::JobForgotten { job } => {
                    rows.forgotten.insert(*job);
                    let is_over = |since: &Time| kept.is_some_and(|kept| since.after(kept) <= *at);
                    if !ended.get(job).is_some_and(is_over) {
                        rows.early.push(format!("{job} ended at {:?} and was deleted at {at}", ended.get(job)));
                    }
                }
                _ => {}
            }
        }
        rows
    }

    /// Checks the holds and jobs with new events, and all grants.
    pub(crate) async fn check(self, bursar: &Bursar, report: &mut CheckReport) -> Result<(), Error> {
        let now = bursar.now().await?;
        self.early.iter().for_each(|early| report.add(early.clone()));
        for hold in &self.touched.0 {
            let found = bursar.ledger().find(*hold).await?.map(|row| row.state);
            let expected = self.holds.get(hold).map(|(state, _)| *state);
            if found.is_none() && self.may_delete_hold(*hold, now) {
                report.removed += 1;
            } else if found != expected {
                report.add(format!("{hold} is {found:?}, the journal says {expected:?}"));
            }
        }
        report.removed += self.touched.1.intersection(&self.forgotten.iter().copied().collect()).count();
        self.check_grants(bursar, now, report).await?;
        self.jobs.check(self.touched.1, bursar, report).await
    }

    async fn check_grants(&self, bursar: &Bursar, now: Time, report: &mut CheckReport) -> Result<(), Error> {
        let mut grants = self.grants.clone();
        let mut after = None;
        loop {
            let page = bursar.grants().list(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            for grant in &page {
                if grants.remove(&grant.id).map(|(state, _)| state) != Some(grant.state) {
                    report.add(format!("{} is {:?}, which the journal contradicts", grant.id, grant.state));
                }
            }
        }
        for (grant, (_, expires_at)) in grants {
            if self.is_over(expires_at, now) {
                report.removed += 1;
            } else {
                report.add(format!("{grant} was minted, but does not exist"));
            }
        }
        Ok(())
    }

    /// Returns whether maintenance may have deleted a hold: it ended long enough ago, and its job is gone.
    fn may_delete_hold(&self, hold: HoldId, now: Time) -> bool {
        let is_over =
            self.holds.get(&hold).is_some_and(|(state, at)| *state != HoldState::Held && self.is_over(*at, now));
        is_over && self.jobs_of_holds.get(&hold).is_none_or(|job| self.forgotten.contains(job))
    }

    fn is_over(&self, since: Time, now: Time) -> bool {
        self.kept.is_some_and(|kept| since.after(kept) <= now)
    }
}
