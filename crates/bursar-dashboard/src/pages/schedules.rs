//! Schedules: what they enqueue, and when.

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::ScheduleName;
use bursar_wire::schedule::ScheduleAnswer;
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::suggested::SET_SCHEDULE;
use crate::view::{badge, form, list, time};
use crate::visit::{Act, Visit, encoded};

/// Schedules on a page.
const PAGE: usize = 100;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/schedules", get(show))
        .route("/schedules/{name}/run", post(run))
        .route("/schedules/{name}/pause", post(pause))
        .route("/schedules/{name}/resume", post(resume))
}

async fn show(visit: Visit, axum::extract::Query(query): axum::extract::Query<PageQuery>) -> Result<Response, Failure> {
    let page = visit.client.schedules().list(query.cursor.as_deref(), PAGE).await?.into_inner();
    let body = html! {
        (head_of(&visit, &[], &html! { "Schedules" }, &html! {}, &html! {}))
        section.card {
            div data-live #schedules {
                @if page.items.is_empty() {
                    (list::empty("No schedules", "A schedule enqueues a job again and again.", Some(SET_SCHEDULE)))
                } @else {
                    div.table-wrap tabindex="0" role="region" aria-label="Schedules" {
                        table.table.stacks {
                            thead { tr {
                                th scope="col" { "Schedule" } th scope="col" { "Cron" } th scope="col" { "Enqueues" } th scope="col" { "Next" }
                                th scope="col" { "Last" } th scope="col" { span.sr-only { "Acts" } }
                            } }
                            tbody { @for schedule in &page.items { (row(&visit, schedule)) } }
                        }
                    }
                }
            }
            (list::pager(&visit, page.items.len(), "schedules", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Schedules", &Live::Replace("journal".to_owned()), &body))
}

#[derive(serde::Deserialize)]
struct PageQuery {
    #[serde(default)]
    cursor: Option<String>,
}

fn row(visit: &Visit, schedule: &ScheduleAnswer) -> Markup {
    let spec = &schedule.spec;
    let path = format!("/schedules/{}", encoded(schedule.name.as_str()));
    html! {
        tr {
            th.lead-half scope="row" { (schedule.name) @if spec.paused { " " (badge::badge("paused", "paused")) } }
            td data-label="cron" { code { (spec.cron) } " " span.quiet { (spec.zone) } }
            td data-label="enqueues" { (spec.kind) " " span.quiet { "in " (spec.queue) } }
            td data-label="next" { (time::relative(schedule.next_at.as_deref(), visit.now)) }
            td data-label="last" {
                (time::relative(schedule.last_tick.as_deref(), visit.now))
                @if let Some(job) = &schedule.last_job { " " a href=(visit.url(&format!("/jobs/{job}"))) { "job" } }
            }
            td { div.acts {
                @if visit.may("schedules.write") {
                    (form::button(visit, &format!("{path}/run"), "Run now", "is-small"))
                    @if spec.paused { (form::button(visit, &format!("{path}/resume"), "Resume", "is-small")) }
                    @else { (form::button(visit, &format!("{path}/pause"), "Pause", "is-small")) }
                }
            } }
        }
    }
}

async fn run(Path(name): Path<String>, act: Act) -> Result<Response, Failure> {
    let name = ScheduleName::new(&name)?;
    let enqueued = act.visit.client.schedules().run(&name, act.field("reason")).await?.into_inner();
    Ok(act.visit.done(&format!("/jobs/{}", enqueued.id), format!("{name} has enqueued this job now.")))
}

async fn pause(Path(name): Path<String>, act: Act) -> Result<Response, Failure> {
    let name = ScheduleName::new(&name)?;
    act.visit.client.schedules().pause(&name, act.field("reason")).await?;
    Ok(act.visit.done("/schedules", format!("{name} is paused.")))
}

async fn resume(Path(name): Path<String>, act: Act) -> Result<Response, Failure> {
    let name = ScheduleName::new(&name)?;
    act.visit.client.schedules().resume(&name, act.field("reason")).await?;
    Ok(act.visit.done("/schedules", format!("{name} ticks again.")))
}
