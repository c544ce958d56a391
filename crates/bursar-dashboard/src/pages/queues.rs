//! Queues: the list, and one queue with its settings.

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::{Client, FiguresPeriod, Queue};
use bursar_core::job::JobState;
use bursar_core::notation::about;
use bursar_wire::event::EventAnswer;
use bursar_wire::queue::{FiguresAnswer, QueueAnswer, SeriesAnswer};
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::suggested::ENQUEUE_JOB;
use crate::view::chart::{self, Series};
use crate::view::{amount, badge, form, list, time};
use crate::visit::{Act, Visit, encoded};

/// Queues on a page.
pub(crate) const PAGE: usize = 100;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/queues", get(show_all))
        .route("/queues/{name}", get(show))
        .route("/queues/{name}/pause", post(pause))
        .route("/queues/{name}/resume", post(resume))
}

/// Returns the first queues with their figures of the last hour.
pub(crate) async fn with_figures(client: &Client) -> Result<Vec<QueueAnswer>, Failure> {
    let period = FiguresPeriod { minutes: None, series: true };
    Ok(client.queues().list_over(period, None, PAGE).await?.into_inner().items)
}

/// Returns the number of jobs in a state.
pub(crate) fn state_count(figures: &FiguresAnswer, state: JobState) -> i64 {
    figures.states.get(state.as_str()).and_then(serde_json::Value::as_i64).unwrap_or(0)
}

/// Returns the jobs of each minute by outcome, over all queues.
pub(crate) fn series(queues: &[QueueAnswer]) -> Vec<Series> {
    let all: Vec<&SeriesAnswer> = queues.iter().filter_map(|queue| queue.figures.series.as_ref()).collect();
    let sum = |of: fn(&SeriesAnswer) -> &Vec<i64>| {
        let minutes = all.iter().map(|series| of(series).len()).max().unwrap_or(0);
        let at = |minute: usize| all.iter().filter_map(|series| of(series).get(minute)).sum::<i64>();
        (0..minutes).map(at).collect::<Vec<i64>>()
    };
    let dead = sum(|series| &series.dead);
    // An attempt that failed is retried, unless its job died with it.
    let failed = sum(|series| &series.failed_attempts);
    let retried = failed.iter().zip(&dead).map(|(failed, dead)| (failed - dead).max(0)).collect();
    vec![
        Series { name: "done".to_owned(), class: "s-done", values: sum(|series| &series.succeeded) },
        Series { name: "retried".to_owned(), class: "s-retried", values: retried },
        Series { name: "dead".to_owned(), class: "s-failed", values: dead },
    ]
}

async fn show_all(visit: Visit) -> Result<Response, Failure> {
    let queues = with_figures(&visit.client).await?;
    let body = html! {
        (head_of(&visit, &[], &html! { "Queues" }, &html! {}, &html! {}))
        section.card data-live #queues {
            @if queues.is_empty() {
                (list::empty("No queues yet", "A queue appears with its first job.", Some(ENQUEUE_JOB)))
            } @else {
                div.table-wrap { (table(&visit, &queues)) }
            }
        }
    };
    Ok(shell::page(&visit, "Queues", &Live::Replace("journal".to_owned()), &body))
}

/// Shows queues with their figures.
pub(crate) fn table(visit: &Visit, queues: &[QueueAnswer]) -> Markup {
    html! {
        table.table.stacks {
            thead { tr {
                th scope="col" { "Queue" } th.num scope="col" { "Waiting" } th.num scope="col" { "Running" }
                th.num scope="col" { "Done/h" } th.num scope="col" { "Failed/h" } th.num scope="col" { "Dead" }
                th.num.hide-sm scope="col" { "Oldest" } th.num.hide-md scope="col" { "Last hour" }
            } }
            tbody { @for queue in queues { (row(visit, queue)) } }
        }
    }
}

fn row(visit: &Visit, queue: &QueueAnswer) -> Markup {
    let figures = &queue.figures;
    let state = |state| state_count(figures, state);
    let oldest = time::since(figures.oldest_waiting.as_deref(), visit.now);
    html! {
        tr {
            td.lead {
                a href=(visit.url(&format!("/queues/{}", encoded(queue.name.as_str())))) { (queue.name) }
                @if queue.config.paused { "  " (badge::badge("paused", "paused")) }
            }
            (amount::count_cell("waiting", state(JobState::Queued)))
            (amount::count_cell("running", state(JobState::Leased)))
            (amount::count_cell("done/h", figures.succeeded))
            (amount::count_cell("failed/h", figures.failed_attempts))
            (amount::count_cell("dead", state(JobState::Dead)))
            td.num.hide-sm { @match oldest { Some(age) if state(JobState::Queued) > 0 => (about(age)), _ => span.zero { "–" } } }
            td.num.hide-md {
                @if let Some(series) = &figures.series { (chart::spark(&series.succeeded, "jobs done by minute")) }
            }
        }
    }
}

async fn show(visit: Visit, Path(name): Path<String>) -> Result<Response, Failure> {
    let name = Queue::new(&name)?;
    let period = FiguresPeriod { minutes: None, series: true };
    let queue = visit.client.queues().show_over(&name, period).await?.into_inner();
    let pause = pause_of(&visit, &queue).await;
    let path = format!("/queues/{}", encoded(name.as_str()));
    let title = html! { (name) @if queue.config.paused { (badge::badge("paused", "paused")) } };
    let acts = html! {
        @if visit.may("queues.write") {
            @if queue.config.paused { (form::with_reason(&visit, &format!("{path}/resume"), "Resume", "", &html! {})) }
            @else { (form::with_reason(&visit, &format!("{path}/pause"), "Pause", "", &html! {})) }
        }
        a.btn href=(visit.url(&format!("/jobs?queue={}", encoded(name.as_str())))) { "Jobs" }
    };
    let body = html! {
        (head_of(&visit, &[("/queues", "Queues")], &title, &html! {}, &acts))
        div data-live #paused { (paused_note(&visit, &name, pause.as_ref())) }
        div.card.stats data-live #stats { (figures_of(&visit, &queue.figures)) }
        section.card data-live #chart { (chart::columns("Jobs a minute", "by outcome", &series(std::slice::from_ref(&queue)), &amount::count)) }
        section.card { div.card-head { h2 { "Settings" } } div.card-body { (settings(&queue)) } }
    };
    Ok(shell::page(&visit, name.as_str(), &Live::Replace(format!("queue:{}", encoded(name.as_str()))), &body))
}

/// Changes of a queue that are searched for its pause.
const CHANGES: usize = 20;

/// What is known of the pause of a queue: its event, unless it is older than the changes that were read.
pub(crate) struct Pause(Option<EventAnswer>);

/// Returns the pause of a queue; `None` if it is not paused.
pub(crate) async fn pause_of(visit: &Visit, queue: &QueueAnswer) -> Option<Pause> {
    if !queue.config.paused {
        return None;
    }
    let changes = visit.client.queues().history(&queue.name, None, CHANGES).await.ok()?.into_inner().items;
    // The first of the changes that left it paused is the one that paused it.
    let paused = |event: &EventAnswer| event.data["config"]["paused"] == true;
    let run = changes.iter().take_while(|event| paused(event)).count();
    let known = run < changes.len() || changes.len() < CHANGES;
    Some(Pause(changes.into_iter().take(run).last().filter(|_| known)))
}

/// Shows that a queue is paused: who paused it, when and why.
pub(crate) fn paused_note(visit: &Visit, queue: &Queue, pause: Option<&Pause>) -> Markup {
    let Some(Pause(event)) = pause else { return html! {} };
    html! {
        div.flash.is-warn {
            p {
                "The queue " a href=(visit.url(&format!("/queues/{}", encoded(queue.as_str())))) { (queue) } " is paused: none of its jobs is leased until it is resumed."
                @if let Some(event) = event {
                    " Paused by " strong { (event.actor.id.as_deref().unwrap_or(&event.actor.kind)) } " " (time::relative(event.at.as_deref(), visit.now))
                    @if let Some(reason) = &event.reason { ": " (reason) }
                }
            }
        }
    }
}

fn figures_of(visit: &Visit, figures: &FiguresAnswer) -> Markup {
    let stat = |label: &str, value: String, note: Markup, bad: bool| {
        html! { div.stat.is-bad[bad] { span.stat-label { (label) } span.stat-value { (value) } span.stat-note { (note) } } }
    };
    let state = |state| state_count(figures, state);
    html! {
        (stat("Waiting", amount::count(state(JobState::Queued)), html! { "oldest " (time::relative(figures.oldest_waiting.as_deref(), visit.now)) }, false))
        (stat("Running", amount::count(state(JobState::Leased)), html! { "longest " (time::relative(figures.oldest_lease.as_deref(), visit.now)) }, false))
        (stat("Later", amount::count(state(JobState::Scheduled)), html! { "delayed or between attempts" }, false))
        (stat("Done", amount::count(figures.succeeded), html! { "in the last hour" }, false))
        (stat("Dead", amount::count(state(JobState::Dead)), html! { (amount::count(figures.dead)) " in the last hour" }, state(JobState::Dead) > 0))
    }
}

fn settings(queue: &QueueAnswer) -> Markup {
    let config = &queue.config;
    let number = |limit: Option<u32>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let rate = |rate: Option<bursar_wire::queue::RateBody>| {
        rate.map_or_else(|| "no limit".to_owned(), |rate| format!("{} per {}", rate.amount, time::millis(rate.per_ms)))
    };
    html! {
        dl.kv {
            dt { "Jobs at the same time" } dd { (number(config.concurrency)) }
            dt { "Starts" } dd { (rate(config.rate)) }
            dt { "For each flow key" } dd { (number(config.key_concurrency)) " at the same time, " (rate(config.key_rate)) }
            dt { "Attempts" } dd { (config.retry.max_attempts) }
            dt { "Lease" } dd { (time::millis(config.lease_ms)) " without a heartbeat" }
            dt { "Deadline of an attempt" } dd { (config.deadline_ms.map_or_else(|| "none".to_owned(), time::millis)) }
        }
    }
}

async fn pause(Path(name): Path<String>, act: Act) -> Result<Response, Failure> {
    let name = Queue::new(&name)?;
    act.visit.client.queues().pause(&name, act.field("reason")).await?;
    Ok(act
        .visit
        .done(&format!("/queues/{}", encoded(name.as_str())), format!("{name} is paused: no job of it is leased.")))
}

async fn resume(Path(name): Path<String>, act: Act) -> Result<Response, Failure> {
    let name = Queue::new(&name)?;
    act.visit.client.queues().resume(&name, act.field("reason")).await?;
    Ok(act.visit.done(&format!("/queues/{}", encoded(name.as_str())), format!("{name} is resumed.")))
}
