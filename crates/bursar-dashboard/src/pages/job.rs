//! One job: its state, timeline, attempts, payload, result and cost.

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::{JobId, JobState};
use bursar_core::notation::{Unit, about};
use bursar_wire::blob::BlobAnswer;
use bursar_wire::bulk::EditBody;
use bursar_wire::event::EventAnswer;
use bursar_wire::hold::HoldAnswer;
use bursar_wire::job::{AttemptAnswer, JobAnswer};
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::pages::blobs;
use crate::pages::job_rows::JobFacts;
use crate::pages::jobs::Verb;
use crate::pages::queues;
use crate::shell::{self, Live, head_of};
use crate::view::{amount, badge, bytes, form, json, list, time};
use crate::visit::{Act, Flash, Visit, encoded};

/// Events shown.
const EVENTS: usize = 100;
/// Blobs shown.
const BLOBS: usize = 20;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/jobs/{id}", get(show))
        .route("/jobs/{id}/retry", post(retry))
        .route("/jobs/{id}/cancel", post(cancel))
        .route("/jobs/{id}/discard", post(discard))
        .route("/jobs/{id}/edit", post(edit))
}

async fn show(visit: Visit, Path(id): Path<String>) -> Result<Response, Failure> {
    let id: JobId = id.parse()?;
    let client = &visit.client;
    let job = client.jobs().show(id).await?.into_inner();
    let attempts = client.jobs().attempts(id).await?.into_inner().items;
    let events = client.jobs().events(id, None, EVENTS).await?.into_inner().items;
    let hold = match (job.hold, visit.may("commands.read")) {
        (Some(hold), true) => client.holds().show(hold).await.ok().map(|hold| hold.into_inner()),
        _ => None,
    };
    let unit = unit_of(&visit, &job, hold.as_ref()).await;
    // The job's queue may have no settings of its own.
    let queue = client.queues().show(&job.queue, None).await.ok().map(|queue| queue.into_inner());
    let pause = match &queue {
        Some(queue) if !has_ended(&job) => queues::pause_of(&visit, queue).await,
        _ => None,
    };
    let facts = JobFacts::new(queue.as_slice());
    let blobs = blobs_of(&visit, &job, &events).await;
    let body = html! {
        (head(&visit, &job))
        div data-live #paused { @if !has_ended(&job) { (queues::paused_note(&visit, &job.queue, pause.as_ref())) } }
        section.card data-live #state aria-label="State" { (flow(&visit, &job, &facts)) }
        div.cols.is-aside {
            div.stack {
                section.card data-live #timeline { div.card-head { h2 { "Timeline" } } div.card-body { (timeline(&events)) } }
                section.card { div.card-head { h2 { "About" } } div.card-body { (about_job(&visit, &job)) } }
            }
            div.stack {
                section.card data-live #cost { (cost(&visit, &job, hold.as_ref(), &unit)) }
                section.card data-live #attempts { (attempts_of(&visit, &attempts)) }
                section.card { div.card-head { h2 { "Payload" } } (json::payload(&job.payload)) }
                div data-live #checkpoint {
                    @if let Some(checkpoint) = &job.checkpoint { section.card { div.card-head { h2 { "Checkpoint" } } (json::payload(checkpoint)) } }
                }
                div data-live #result {
                    @if job.result.as_str() != "null" { section.card { div.card-head { h2 { "Result" } } (json::payload(&job.result)) } }
                }
                div data-live #blobs { @if !job.blobs.is_empty() { section.card { (blobs_card(&visit, &job, &blobs)) } } }
                @if job.metadata.as_str() != "null" {
                    section.card { div.card-head { h2 { "Metadata" } } (json::payload(&job.metadata)) }
                }
            }
        }
    };
    Ok(shell::page(&visit, &format!("{} {id}", job.kind), &Live::Replace(format!("job:{id}")), &body))
}

/// Returns whether a job has ended.
fn has_ended(job: &JobAnswer) -> bool {
    matches!(job.state, JobState::Dead | JobState::Cancelled | JobState::Succeeded)
}

/// Returns the unit that the job is charged in: that of the first scope of its hold or cost.
async fn unit_of(visit: &Visit, job: &JobAnswer, hold: Option<&HoldAnswer>) -> Unit {
    let held = hold.and_then(|hold| hold.charges.first()).map(|charge| charge.scope.clone());
    let Some(scope) = held.or_else(|| job.cost.first().map(|cost| cost.scope.clone())) else { return Unit::default() };
    match visit.client.budgets().show(&scope).await {
        Ok(budget) => amount::unit_of(&budget.into_inner()),
        Err(_) => Unit::default(),
    }
}

fn head(visit: &Visit, job: &JobAnswer) -> Markup {
    let path = format!("/jobs/{}", job.id);
    let queue = format!("/queues/{}", encoded(job.queue.as_str()));
    let title = html! { (job.kind) (badge::job(job.state)) };
    let id = job.id.to_string();
    let meta = html! { span.id { (id) (list::copy(&id)) } };
    let ended = has_ended(job);
    let acts = html! {
        @if visit.may("jobs.operate") {
            @if Verb::Retry.allows(job) {
                (form::with_reason(visit, &format!("{path}/retry"), "Retry", "", &html! {}))
            }
            @if !ended {
                (form::with_reason(visit, &format!("{path}/edit"), "Edit", "", &form::field("priority", "Priority", &job.priority.to_string(), "0")))
            }
            @if Verb::Discard.allows(job) { (form::with_reason(visit, &format!("{path}/discard"), "Discard", "is-danger", &html! {})) }
        }
        @if visit.may("jobs.cancel") && Verb::Cancel.allows(job) { (form::with_reason(visit, &format!("{path}/cancel"), "Cancel", "is-danger", &html! {})) }
    };
    head_of(visit, &[("/jobs", "Jobs"), (&queue, job.queue.as_str())], &title, &meta, &acts)
}

/// Shows the states that a job passes through.
fn flow(visit: &Visit, job: &JobAnswer, facts: &JobFacts) -> Markup {
    let ended = has_ended(job);
    let leased = job.state == JobState::Leased;
    let class = |past: bool, now: bool| {
        if now {
            "is-now"
        } else if past {
            "is-past"
        } else {
            "is-next"
        }
    };
    let lease = job.lease.as_ref();
    // A new attempt begins without the progress of the last one.
    let report = job.progress.as_ref().filter(|report| lease.is_none_or(|lease| lease.fence == report.fence));
    let (percent, message) =
        (report.and_then(|report| report.percent), report.and_then(|report| report.message.as_deref()));
    html! {
        ol.flow {
            li class=(class(true, false)) { span.state { "enqueued" } span.detail { (time::relative(job.enqueued_at.as_deref(), visit.now)) } }
            @if !ended && !leased {
                li.is-now { span.state { (badge::job_word(job.state)) } span.detail {
                    @match &job.awaits {
                        Some(scope) => { "until " a href=(visit.url(&format!("/budgets/{}", encoded(scope.as_str())))) { (scope) } " has units" }
                        None => { "ready " (time::relative(job.run_at.as_deref(), visit.now)) }
                    }
                } }
            }
            li class=(class(ended && job.attempts > 0, leased)) {
                span.state { "running" span #progress-percent { @if let Some(percent) = percent { (format!(" {percent:.0} %")) } } }
                @if let Some(lease) = lease {
                    svg.bar width="100%" height="8" role="img" aria-label="Progress" { rect.bar-track width="100%" height="8" {} rect.bar-posted #progress-bar width=(format!("{:.0}%", percent.unwrap_or(0.0))) height="8" {} }
                    span.detail { span #progress-message { @match message { Some(message) => (message), None => { "on " (lease.worker) } } } }
                }
            }
            @match job.state {
                JobState::Dead => li.is-now.is-dead { span.state { "dead" } span.detail { (time::relative(job.run_at.as_deref(), visit.now)) } },
                JobState::Cancelled => li.is-now { span.state { "cancelled" } span.detail { (time::relative(job.run_at.as_deref(), visit.now)) } },
                JobState::Succeeded => li.is-past { span.state { "settled" } span.detail { (time::relative(job.run_at.as_deref(), visit.now)) } },
                _ => li.is-next { span.state { "settled" } },
            }
        }
        div.card-foot {
            "Attempt " strong { (facts.attempts(job)) }
            @if let Some(lease) = lease {
                " · worker " (lease.worker) " · fence " span.num { (lease.fence) }
                " · lease ends " (time::relative(lease.expires_at.as_deref(), visit.now))
            }
            @if job.cancelling { " · " (badge::badge("warn", "told to stop")) }
        }
    }
}

fn timeline(events: &[EventAnswer]) -> Markup {
    html! {
        ol.timeline {
            @for event in events.iter().rev() {
                li class=(timeline_class(&event.kind)) {
                    (time::clock(event.at.as_deref()))
                    span.dot {}
                    span { (sentence(event, events)) @if let Some(note) = note(event) { span.note { (note) } } }
                }
            }
        }
    }
}

fn timeline_class(kind: &str) -> &'static str {
    match kind {
        "job.failed" | "job.rescued" | "job.dead_lettered" => "is-bad",
        "job.succeeded" => "is-good",
        _ => "",
    }
}

/// Describes an event of a job in words. `events` are all of the job, newest first.
fn sentence(event: &EventAnswer, events: &[EventAnswer]) -> String {
    let text = |name: &str| event.data[name].as_str().unwrap_or_default().to_owned();
    let name = |event: &EventAnswer| event.actor.id.clone().unwrap_or_else(|| event.actor.kind.to_string());
    let actor = name(event);
    match event.kind.as_ref() {
        "job.enqueued" => format!("enqueued by {actor}"),
        "job.leased" => format!("leased by {}, attempt {}", text("worker"), event.data["attempt"]),
        "job.succeeded" => "succeeded".to_owned(),
        "job.failed" => format!("attempt {} failed", event.data["attempt"]),
        "job.rescued" => format!("attempt {} was lost: its lease expired", event.data["attempt"]),
        "job.snoozed" => "put off by its worker".to_owned(),
        "job.emitted" => format!("its worker emitted {}", text("event")),
        "job.checkpointed" => format!("checkpoint under fence {}", event.data["fence"]),
        "job.returned" => "handed back by its worker".to_owned(),
        "job.dead_lettered" => "dead".to_owned(),
        "job.parked" => format!("waits for {}", text("scope")),
        "job.resumed" => format!("{} has units again", text("scope")),
        "job.retried" => format!("retried by {actor}"),
        "job.cancelling" => format!("told to stop by {actor}"),
        "job.cancelled" => match asked_to_stop(event, events) {
            Some(asked) => format!("cancelled: it stopped as {} asked", name(asked)),
            None => format!("cancelled by {actor}"),
        },
        "job.erased" => format!("payload erased by {actor}"),
        "job.discarded" => format!("discarded by {actor}"),
        "job.moved" => format!("moved to {} by {actor}", text("queue")),
        "job.edited" => format!("edited by {actor}"),
        "job.billed" => "charged".to_owned(),
        "job.funded" => "paid for by a hold".to_owned(),
        "hold.placed" => "hold placed".to_owned(),
        "hold.committed" => "hold committed".to_owned(),
        "hold.released" => "hold released".to_owned(),
        kind => kind.to_owned(),
    }
}

/// Returns the request that told a running job to stop, if its cancellation follows from one. The event itself was then recorded for the
/// worker that ended the lease, or for maintenance.
fn asked_to_stop<'a>(cancelled: &EventAnswer, events: &'a [EventAnswer]) -> Option<&'a EventAnswer> {
    let before = events.iter().filter(|event| event.version < cancelled.version);
    let leased_or_asked = before.filter(|event| matches!(event.kind.as_ref(), "job.leased" | "job.cancelling"));
    leased_or_asked.max_by_key(|event| event.version).filter(|event| event.kind == "job.cancelling")
}

fn note(event: &EventAnswer) -> Option<String> {
    let message = event.data["error"]["message"].as_str().map(str::to_owned);
    message.or_else(|| event.reason.clone())
}

fn about_job(visit: &Visit, job: &JobAnswer) -> Markup {
    html! {
        dl.kv {
            dt { "Queue" } dd { a href=(visit.url(&format!("/queues/{}", encoded(job.queue.as_str())))) { (job.queue) } }
            dt { "Priority" } dd.num { (job.priority) }
            @if let Some(key) = &job.key { dt { "Flow key" } dd { code { (key) } } }
            @if !job.tags.is_empty() { dt { "Tags" } dd { @for tag in &job.tags { span.tag { (tag) } " " } } }
            @if let Some(key) = &job.idempotency_key { dt { "Idempotency key" } dd { code { (key) } } }
            @if let Some(parent) = &job.parent { dt { "Caused by" } dd { (list::id(&visit.url(&format!("/jobs/{parent}")), &parent.to_string())) } }
            @if let Some(trace) = &job.traceparent { dt { "Trace" } dd { code { (trace) } } }
            dt { "Enqueued" } dd { (job.enqueued_at.as_deref().map(time::exact).unwrap_or_default()) }
        }
    }
}

fn cost(visit: &Visit, job: &JobAnswer, hold: Option<&HoldAnswer>, unit: &Unit) -> Markup {
    let link = |scope: &bursar_client::Scope| html! { a href=(visit.url(&format!("/budgets/{}", encoded(scope.as_str())))) { (scope) } };
    html! {
        div.card-head {
            h2 { "Hold and cost" }
            @if let Some(hold) = hold { span.meta { (badge::of_word(hold.state.as_str())) } span.more { (list::plain_id(&hold.id.to_string())) } }
        }
        div.card-body {
            @if hold.is_none() && job.cost.is_empty() { p.muted { "This job is not paid for by a hold and has cost nothing." } }
            @if let Some(hold) = hold {
                dl.kv {
                    @for charge in &hold.charges {
                        dt { "Held" }
                        dd { span.num { (amount::brief(charge.amount, unit)) } " on " (link(&charge.scope)) @for ancestor in &charge.ancestors { " → " (link(ancestor)) } }
                    }
                }
            }
            @if !job.cost.is_empty() {
                dl.kv { @for cost in &job.cost { dt { "Spent" } dd { span.num { (amount::brief(cost.amount, unit)) } " on " (link(&cost.scope)) } } }
            }
        }
    }
}

/// A blob of a job, and whether the job made it; `None` if that is not known.
struct JobBlob {
    blob: BlobAnswer,
    made: Option<bool>,
}

/// Reads the first blobs of a job. Those that it uses are in the event that enqueued it; it made the others.
async fn blobs_of(visit: &Visit, job: &JobAnswer, events: &[EventAnswer]) -> Vec<JobBlob> {
    if !visit.may("blobs.read") {
        return Vec::new();
    }
    let enqueued = events.iter().find(|event| event.kind == "job.enqueued");
    let used = enqueued.map(|event| event.data.to_string());
    let mut blobs = Vec::new();
    for id in job.blobs.iter().take(BLOBS) {
        // A blob that the visitor does not reach is left out.
        if let Ok(blob) = visit.client.blobs().meta(*id).await {
            let made = used.as_ref().map(|used| !used.contains(&id.to_string()));
            blobs.push(JobBlob { blob: blob.into_inner(), made });
        }
    }
    blobs
}

fn blobs_card(visit: &Visit, job: &JobAnswer, blobs: &[JobBlob]) -> Markup {
    html! {
        div.card-head { h2 { "Blobs" } span.meta { (job.blobs.len()) } }
        div.table-wrap tabindex="0" role="region" aria-label="Blobs" {
            table.table.stacks {
                thead { tr { th scope="col" { "Blob" } th scope="col" { "State" } th scope="col" { "Job" } th scope="col" { "Type" } th.num scope="col" { "Size" } } }
                tbody { @for JobBlob { blob, made } in blobs {
                    tr {
                        th.lead-half scope="row" { (blobs::name(visit, blob)) }
                        td.at-end { (badge::blob(blob.state)) }
                        td data-label="job" { @match made { Some(true) => "made it", Some(false) => "uses it", None => "refers to it" } }
                        td data-label="type" { (blob.content_type) }
                        td.num data-label="size" { (bytes::size(blob.size)) }
                    }
                } }
            }
        }
        @if blobs.len() < job.blobs.len() { div.card-foot { (job.blobs.len() - blobs.len()) " more" } }
    }
}

fn attempts_of(visit: &Visit, attempts: &[AttemptAnswer]) -> Markup {
    html! {
        div.card-head { h2 { "Attempts" } span.meta { (attempts.len()) } }
        @if attempts.is_empty() {
            div.card-body { p.muted { "No worker has leased this job yet." } }
        } @else {
            ol.attempts {
                @for attempt in attempts.iter().rev() {
                    li {
                        div.row {
                            @match attempt.end.as_deref() {
                                Some(end) => (badge::badge(if end == "succeeded" { "succeeded" } else if end == "failed" || end == "rescued" { "failed" } else { "off" }, &format!("{} {end}", attempt.attempt))),
                                None => (badge::badge("running", &format!("{} running", attempt.attempt))),
                            }
                            span { "on " (attempt.worker) }
                            span.quiet {
                                @match time::between(attempt.began_at.as_deref(), attempt.ended_at.as_deref()) {
                                    Some(took) => { "after " (took) }
                                    None => { "for " (time::since(attempt.began_at.as_deref(), visit.now).map(about).unwrap_or_default()) }
                                }
                            }
                            @if let Some(error) = &attempt.error {
                                a.end href=(visit.url(&format!("/jobs?fingerprint={}", encoded(&error.fingerprint)))) { "jobs with this error" }
                            }
                        }
                        @if let Some(error) = &attempt.error { code.error-text { (error.kind) ": " (error.message) } }
                    }
                }
            }
        }
    }
}

async fn retry(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let id: JobId = id.parse()?;
    let done = act.visit.client.jobs().retry(id, act.field("reason")).await;
    told(&act, id, done.map(drop).map_err(Failure::from), "The job runs again.")
}

async fn cancel(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let id: JobId = id.parse()?;
    let done = act.visit.client.jobs().cancel(id, act.field("reason")).await;
    told(
        &act,
        id,
        done.map(drop).map_err(Failure::from),
        "The job is cancelled; a worker that has it learns so from its next heartbeat.",
    )
}

async fn discard(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let id: JobId = id.parse()?;
    let done = act.visit.client.jobs().discard(id, act.field("reason")).await;
    told(&act, id, done.map(drop).map_err(Failure::from), "The job is discarded.")
}

async fn edit(Path(id): Path<String>, act: Act) -> Result<Response, Failure> {
    let id: JobId = id.parse()?;
    let Some(Ok(priority)) = act.field("priority").map(str::parse) else {
        return Ok(act
            .visit
            .go(&format!("/jobs/{id}"), &Flash::Failed("The priority must be a whole number.".to_owned())));
    };
    let change = EditBody { priority: Some(priority), delay_ms: None, reason: act.field("reason").map(str::to_owned) };
    let done = act.visit.client.jobs().edit(id, &change).await;
    told(&act, id, done.map(drop).map_err(Failure::from), "The job is changed.")
}

fn told(act: &Act, id: JobId, done: Result<(), Failure>, text: &str) -> Result<Response, Failure> {
    let path = format!("/jobs/{id}");
    match done {
        Ok(()) => Ok(act.visit.done(&path, text)),
        Err(failure) => act.visit.failed(&path, failure),
    }
}
