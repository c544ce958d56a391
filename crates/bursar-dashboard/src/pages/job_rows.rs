//! Jobs as rows of a table, with what they have cost and how long they took.

use std::collections::HashMap;

use bursar_client::{JobState, Scope};
use bursar_core::notation::{Unit, about};
use bursar_wire::job::JobAnswer;
use bursar_wire::queue::QueueAnswer;
use maud::{Markup, html};

use crate::suggested::ENQUEUE_JOB;
use crate::view::{amount, badge, list, time};
use crate::visit::{Visit, encoded};

/// Budgets that are read for their units. Costs on further ones are not shown.
const UNITS_MAX: usize = 20;

/// What the rows of jobs need besides the jobs: the units of their costs, and how often their queues try.
#[derive(Default)]
pub(crate) struct JobFacts {
    units: HashMap<Scope, Unit>,
    attempts: HashMap<String, u32>,
}

impl JobFacts {
    /// Takes what queues say, without units.
    pub(crate) fn new(queues: &[QueueAnswer]) -> JobFacts {
        let attempts = queues.iter().map(|queue| (queue.name.to_string(), queue.config.retry.max_attempts)).collect();
        JobFacts { units: HashMap::new(), attempts }
    }

    /// Reads the units of the budgets that have paid for jobs as well.
    pub(crate) async fn of(visit: &Visit, jobs: &[JobAnswer], queues: &[QueueAnswer]) -> JobFacts {
        let mut units = HashMap::new();
        for cost in jobs.iter().filter_map(|job| job.cost.first()) {
            if units.len() < UNITS_MAX
                && !units.contains_key(&cost.scope)
                && let Ok(budget) = visit.client.budgets().show(&cost.scope).await
            {
                units.insert(cost.scope.clone(), budget.display_unit());
            }
        }
        JobFacts { units, ..JobFacts::new(queues) }
    }

    /// Returns the attempts of a job and how many it may have: `2 of 5`.
    pub(crate) fn attempts(&self, job: &JobAnswer) -> String {
        match job.max_attempts.or_else(|| self.attempts.get(job.queue.as_str()).copied()) {
            Some(most) => format!("{} of {most}", job.attempts),
            None => job.attempts.to_string(),
        }
    }

    /// Returns what a job has cost so far; `None` if nothing, or if its unit is not known.
    fn cost(&self, job: &JobAnswer) -> Option<String> {
        let cost = job.cost.first()?;
        Some(amount::brief(cost.amount, self.units.get(&cost.scope)?))
    }
}

/// Returns how long a job took from its first minute to its last, or how long its attempt has been running.
fn duration(visit: &Visit, job: &JobAnswer) -> Option<(String, &'static str)> {
    match job.state {
        JobState::Succeeded | JobState::Dead | JobState::Cancelled => {
            Some((time::between(job.enqueued_at.as_deref(), job.run_at.as_deref())?, "from enqueued to its end"))
        }
        JobState::Leased => {
            let since = job.lease.as_ref()?.since.as_deref();
            Some((about(time::since(since, visit.now)?), "since this attempt began"))
        }
        _ => None,
    }
}

/// Shows jobs in a table.
pub(crate) fn rows(visit: &Visit, jobs: &[JobAnswer], facts: &JobFacts, choose: bool) -> Markup {
    if jobs.is_empty() {
        return list::empty(
            "No jobs",
            "No job matches. Jobs are enqueued by commands, schedules or the command line.",
            Some(ENQUEUE_JOB),
        );
    }
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Jobs" {
            table.table.stacks {
                thead { tr {
                    @if choose { th.check scope="col" { input type="checkbox" aria-label="Select all on this page"; } }
                    th scope="col" { "Job" } th scope="col" { "State" } th scope="col" { "Kind" } th scope="col" { "Queue" }
                    th.num scope="col" { "Attempts" } th.num scope="col" { "Took" } th.num scope="col" { "Cost" }
                    th scope="col" { "Note" } th.num scope="col" { "Enqueued" }
                } }
                tbody { @for job in jobs { (row(visit, job, facts, choose)) } }
            }
        }
    }
}

fn row(visit: &Visit, job: &JobAnswer, facts: &JobFacts, choose: bool) -> Markup {
    let took = duration(visit, job);
    let cost = facts.cost(job);
    html! {
        tr id=(job.id) {
            @if choose { td.check { input type="checkbox" name="id" value=(job.id) aria-label={ "Select " (job.id) }; } }
            td.lead-half { (list::id(&visit.url(&format!("/jobs/{}", job.id)), &job.id.to_string())) }
            td.at-end { (badge::job(job.state)) }
            td.lead { (job.kind) }
            td data-label="in" { a href=(visit.url(&format!("/queues/{}", encoded(job.queue.as_str())))) { (job.queue) } }
            td.num data-label="attempts" { (facts.attempts(job)) }
            td.num data-label="took" title=[took.as_ref().map(|(_, about)| *about)] { (took.map(|(text, _)| text).unwrap_or_default()) }
            td.num data-label="cost" { (cost.unwrap_or_default()) }
            td.wide.quiet { (note(job)) }
            td.num { (time::relative(job.enqueued_at.as_deref(), visit.now)) }
        }
    }
}

fn note(job: &JobAnswer) -> String {
    match (&job.awaits, &job.lease, &job.error) {
        (Some(scope), ..) => format!("waits for {scope}"),
        (_, Some(lease), _) => format!("on {}", lease.worker),
        (_, _, Some(error)) => error.message.clone(),
        _ => String::new(),
    }
}
