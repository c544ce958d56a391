//! `/v1/schedules`: recurring jobs.

use axum::http::Method;
use bursar::{Answer, Fingerprint, Op, ScheduleName, ScheduleSpec, page};
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::otlp::enqueue::EnqueueSpan;
use crate::principal::permissions::Action;
use crate::reply::{Created, NoContent, Reply};
use crate::route::Route;
use crate::routes::budgets::unexpected;
use crate::routes::{PageQuery, PastQuery, ReasonQuery, name_cursor, page_size};
use crate::wire::Page;
use crate::wire::budget::ReasonBody;
use crate::wire::command::EnqueuedAnswer;
use crate::wire::problem::Problem;
use crate::wire::schedule::{ScheduleAnswer, ScheduleBody};

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Action::SchedulesRead, Action::SchedulesWrite);
    let reason = || json!({ "reason": "holidays" });
    vec![
        Route::new(Method::GET, "/v1/schedules", read, "List schedules by name", list).pages(),
        Route::new(Method::GET, "/v1/schedules/{name}", read, "Get a schedule", show).carries_payloads(),
        Route::new(Method::PUT, "/v1/schedules/{name}", write, "Create or replace a schedule", define)
            .takes_if_match()
            .ignores(ScheduleAnswer::READ_ONLY)
            .always_there()
            .example(json!({
                "cron": "30 7 * * MON-FRI", "zone": "Europe/Berlin", "queue": "reports", "kind": "report.daily",
                "missed": "one", "overlap": "skip",
            })),
        Route::new(Method::DELETE, "/v1/schedules/{name}", write, "Remove a schedule; its jobs are kept", remove)
            .takes_if_match(),
        Route::new(Method::POST, "/v1/schedules/{name}/run", write, "Enqueue a schedule's job now", run)
            .example(reason()),
        Route::new(Method::POST, "/v1/schedules/{name}/pause", write, "Pause a schedule", pause).example(reason()),
        Route::new(
            Method::POST,
            "/v1/schedules/{name}/resume",
            write,
            "Resume a schedule; it continues with the next tick from now on",
            resume,
        )
        .example(reason()),
    ]
}

async fn list(input: Input<(), PageQuery>) -> Result<Reply<Page<ScheduleAnswer>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let after: Option<ScheduleName> = name_cursor(input.query.cursor.as_deref())?;
    let found = input.call.bursar().schedules().list(after.as_ref(), limit).await?;
    let full = page::is_full(&found, limit);
    let items: Vec<_> = found.into_iter().map(|(name, schedule)| ScheduleAnswer::of(name, &schedule)).collect();
    Ok(Reply::new(Page::of(items, full, |schedule| schedule.name.to_string())))
}

async fn show(input: Input<ScheduleName, PastQuery>) -> Result<Reply<ScheduleAnswer>, Problem> {
    let Some(moment) = input.query.moment()? else { return view(&input.call, input.parameter).await };
    let found = input.call.bursar().past(moment).await?.schedule(&input.parameter).await?;
    let found = found.ok_or_else(|| input.query.not_found(format_args!("schedule {}", input.parameter)))?;
    Ok(Reply::new(ScheduleAnswer::of(input.parameter, &found)))
}

async fn view(call: &Call, name: ScheduleName) -> Result<Reply<ScheduleAnswer>, Problem> {
    let found = call.bursar().schedules().find(&name).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("schedule {name}")))?;
    let tag = Fingerprint::of(&found.spec);
    Ok(Reply::new(ScheduleAnswer::of(name, &found)).tagged(Some(tag)))
}

async fn define(input: Input<ScheduleName, NoFields, ScheduleBody>) -> Result<Reply<ScheduleAnswer>, Problem> {
    let Input { call, parameter: name, mut body, .. } = input;
    let call = call.with_reason(body.reason.take());
    let done = call.run(Op::DefineSchedule { schedule: name.clone(), spec: ScheduleSpec::try_from(body)? }).await?;
    Ok(view(&call, name).await?.replayed(done.replayed))
}

async fn remove(input: Input<ScheduleName, ReasonQuery>) -> Result<NoContent, Problem> {
    let outcome =
        input.call.with_reason(input.query.reason).run(Op::RemoveSchedule { schedule: input.parameter }).await?;
    Ok(NoContent { replayed: outcome.replayed })
}

async fn run(input: Input<ScheduleName, NoFields, ReasonBody>) -> Result<Created<EnqueuedAnswer>, Problem> {
    let mut call = input.call.with_reason(input.body.reason);
    let span = EnqueueSpan::begin_in(&mut call, &[]);
    let done = call.run(Op::RunSchedule { schedule: input.parameter }).await?;
    match &done.answer {
        Answer::Submitted(submitted) if submitted.jobs.len() == 1 => {
            let answer = EnqueuedAnswer::from(submitted.jobs[0]);
            if let Some(span) = span.filter(|_| !done.replayed) {
                span.end(std::iter::once(answer.id));
            }
            let location = Some(format!("/v1/jobs/{}", answer.id));
            Ok(Created { answer, location, replayed: done.replayed })
        }
        other => Err(unexpected(other)),
    }
}

async fn pause(input: Input<ScheduleName, NoFields, ReasonBody>) -> Result<Reply<ScheduleAnswer>, Problem> {
    set_paused(input.call.with_reason(input.body.reason), input.parameter, true).await
}

async fn resume(input: Input<ScheduleName, NoFields, ReasonBody>) -> Result<Reply<ScheduleAnswer>, Problem> {
    set_paused(input.call.with_reason(input.body.reason), input.parameter, false).await
}

async fn set_paused(call: Call, schedule: ScheduleName, paused: bool) -> Result<Reply<ScheduleAnswer>, Problem> {
    let done = call.run(Op::PauseSchedule { schedule: schedule.clone(), paused }).await?;
    Ok(view(&call, schedule).await?.replayed(done.replayed))
}
