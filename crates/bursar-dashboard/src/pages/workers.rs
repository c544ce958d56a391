//! Workers that have jobs now.

use std::collections::BTreeMap;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use bursar_client::{JobQuery, JobState};
use bursar_wire::job::JobAnswer;
use maud::html;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::suggested::LEASE_JOB;
use crate::view::{list, time};
use crate::visit::Visit;

/// Leased jobs that are read.
const JOBS: usize = 1_000;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/workers", get(show))
}

async fn show(visit: Visit) -> Result<Response, Failure> {
    let query = JobQuery { state: Some(JobState::Leased), limit: Some(JOBS), ..JobQuery::default() };
    let page = visit.client.jobs().list(&query).await?.into_inner();
    let mut workers: BTreeMap<&str, Vec<&JobAnswer>> = BTreeMap::new();
    for job in &page.items {
        if let Some(lease) = &job.lease {
            workers.entry(lease.worker.as_str()).or_default().push(job);
        }
    }
    let oldest = |jobs: &[&JobAnswer]| jobs.iter().filter_map(|job| job.lease.as_ref()?.since.clone()).min();
    let expires = |jobs: &[&JobAnswer]| jobs.iter().filter_map(|job| job.lease.as_ref()?.expires_at.clone()).min();
    let meta =
        html! { "Workers that have a job now" @if page.next.is_some() { ", of the first " (JOBS) " leased jobs" } };
    let body = html! {
        (head_of(&visit, &[], &html! { "Workers" }, &meta, &html! {}))
        section.card data-live #workers {
            @if workers.is_empty() {
                (list::empty("No worker has a job", "A worker appears here while it has a job. Workers lease jobs with the SDKs, the library or the command line.", Some(LEASE_JOB)))
            } @else {
                div.table-wrap {
                    table.table {
                        thead { tr { th scope="col" { "Worker" } th.num scope="col" { "Jobs" } th scope="col" { "Kinds" } th.num scope="col" { "Longest lease" } th.num scope="col" { "Next expiry" } } }
                        tbody {
                            @for (worker, jobs) in &workers {
                                tr {
                                    th scope="row" { (worker) }
                                    td.num { (jobs.len()) }
                                    td.clip.muted { (kinds(jobs)) }
                                    td.num { (time::relative(oldest(jobs).as_deref(), visit.now)) }
                                    td.num { (time::relative(expires(jobs).as_deref(), visit.now)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(shell::page(&visit, "Workers", &Live::Replace("journal".to_owned()), &body))
}

fn kinds(jobs: &[&JobAnswer]) -> String {
    let kinds: std::collections::BTreeSet<&str> = jobs.iter().map(|job| job.kind.as_str()).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}
