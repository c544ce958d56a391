//! Workers: those that have jobs now, and those that wait for one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use bursar_client::{JobQuery, JobState};
use bursar_wire::activity::WorkerSeenAnswer;
use bursar_wire::job::JobAnswer;
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::suggested::LEASE_JOB;
use crate::view::{badge, list, time};
use crate::visit::Visit;

/// Leased jobs that are read.
const JOBS: usize = 1_000;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/workers", get(show))
}

/// A worker, with the jobs it has.
#[derive(Default)]
struct Worker<'a> {
    jobs: Vec<&'a JobAnswer>,
    seen: Option<&'a WorkerSeenAnswer>,
}

impl Worker<'_> {
    /// Returns when it has taken its newest job or asked for one.
    fn last_seen(&self) -> Option<&str> {
        let taken = self.jobs.iter().filter_map(|job| job.lease.as_ref()?.since.as_deref()).max();
        taken.max(self.seen.and_then(|seen| seen.seen_at.as_deref()))
    }

    fn waits(&self) -> bool {
        self.seen.is_some_and(|seen| seen.waiting)
    }
}

async fn show(visit: Visit) -> Result<Response, Failure> {
    let query = JobQuery { state: Some(JobState::Leased), limit: Some(JOBS), ..JobQuery::default() };
    let page = visit.client.jobs().list(&query).await?.into_inner();
    let seen = match visit.may("journal.read") {
        true => visit.client.journal().activity().await?.into_inner().workers,
        false => Vec::new(),
    };
    let workers = ordered(&page.items, &seen);
    let meta = html! {
        "Workers that have a job now, and those that asked this server for one within the last hour"
        @if page.next.is_some() { "; of the first " (JOBS) " leased jobs" }
    };
    let body = html! {
        (head_of(&visit, &[], &html! { "Workers" }, &meta, &html! {}))
        section.card data-live #workers {
            @if workers.is_empty() {
                (list::empty(
                    "No worker was seen",
                    "Listed are workers that have a job, and those that have asked this server for one within the last hour. They do so with the SDKs, the library or the command line.",
                    Some(LEASE_JOB),
                ))
            } @else { (table(&visit, &workers)) }
        }
    };
    Ok(shell::page(&visit, "Workers", &Live::Replace("journal".to_owned()), &body))
}

/// Returns the workers: those with most jobs first, then those that wait, then those that were seen last.
fn ordered<'a>(jobs: &'a [JobAnswer], seen: &'a [WorkerSeenAnswer]) -> Vec<(&'a str, Worker<'a>)> {
    let mut workers: BTreeMap<&str, Worker<'_>> = BTreeMap::new();
    for job in jobs {
        if let Some(lease) = &job.lease {
            workers.entry(lease.worker.as_str()).or_default().jobs.push(job);
        }
    }
    for seen in seen {
        workers.entry(seen.name.as_str()).or_default().seen = Some(seen);
    }
    let mut workers: Vec<(&str, Worker<'_>)> = workers.into_iter().collect();
    workers.sort_by_key(|(name, worker)| {
        (Reverse(worker.jobs.len()), !worker.waits(), Reverse(worker.last_seen().map(str::to_owned)), *name)
    });
    workers
}

fn table(visit: &Visit, workers: &[(&str, Worker<'_>)]) -> Markup {
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Workers" {
            table.table.stacks {
                thead { tr {
                    th scope="col" { "Worker" } th scope="col" { "State" } th.num scope="col" { "Jobs" } th scope="col" { "Kinds" }
                    th scope="col" { "Queues" } th.num scope="col" { "Longest lease" } th.num scope="col" { "Next expiry" } th.num scope="col" { "Last seen" }
                } }
                tbody { @for (name, worker) in workers { (row(visit, name, worker)) } }
            }
        }
    }
}

fn row(visit: &Visit, name: &str, worker: &Worker<'_>) -> Markup {
    let leases = || worker.jobs.iter().filter_map(|job| job.lease.as_ref());
    let oldest = leases().filter_map(|lease| lease.since.as_deref()).min();
    let expires = leases().filter_map(|lease| lease.expires_at.as_deref()).min();
    html! {
        tr {
            th.lead-half scope="row" { (name) }
            td.at-end { (state(worker)) }
            td.num.zero[worker.jobs.is_empty()] data-label="jobs" { (worker.jobs.len()) }
            td.clip.muted data-label="kinds" { (kinds(&worker.jobs)) }
            td.clip.muted data-label="queues" { (queues(worker)) }
            td.num data-label="longest lease" { @if oldest.is_some() { (time::relative(oldest, visit.now)) } }
            td.num data-label="next expiry" { @if expires.is_some() { (time::relative(expires, visit.now)) } }
            td.num data-label="seen" { (time::relative(worker.last_seen(), visit.now)) }
        }
    }
}

fn state(worker: &Worker<'_>) -> Markup {
    match (worker.jobs.is_empty(), worker.waits()) {
        (false, _) => badge::badge("running", "working"),
        (true, true) => badge::badge("queued", "waiting"),
        (true, false) => badge::badge("off", "away"),
    }
}

fn kinds(jobs: &[&JobAnswer]) -> String {
    let kinds: std::collections::BTreeSet<&str> = jobs.iter().map(|job| job.kind.as_str()).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

fn queues(worker: &Worker<'_>) -> String {
    let asked = worker.seen.iter().flat_map(|seen| &seen.queues).map(|queue| queue.as_str());
    let own = worker.jobs.iter().map(|job| job.queue.as_str());
    let all: std::collections::BTreeSet<&str> = asked.chain(own).collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}
