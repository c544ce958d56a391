//! `/v1/schedules`: recurring jobs.

use axum::http::Method;
use bursar::{Answer, Fingerprint, Op, ScheduleName, ScheduleSpec, page};
use serde_json::json;

use crate::call::{Ask, Call, Nothing};
use crate::principal::table::Action;
use crate::reply::{Created, Done, Reply};
use crate::route::Route;
use crate::routes::budgets::unexpected;
use crate::routes::{PageQuery, WhyQuery, name_cursor, page_size};
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
            "Resume a schedule at its next tick from now",
            resume,
        )
        .example(reason()),
    ]
}

async fn list(ask: Ask<(), PageQuery>) -> Result<Reply<Page<ScheduleAnswer>>, Problem> {
    let limit = page_size(ask.query.limit)?;
    let after: Option<ScheduleName> = name_cursor(ask.query.cursor.as_deref())?;
    let found = ask.call.bursar().schedules().list(after.as_ref(), limit).await?;
    let full = page::is_full(&found, limit);
    let items: Vec<_> = found.into_iter().map(|(name, schedule)| ScheduleAnswer::of(name, &schedule)).collect();
    Ok(Reply::new(Page::of(items, full, |schedule| schedule.name.to_string())))
}

async fn show(ask: Ask<ScheduleName>) -> Result<Reply<ScheduleAnswer>, Problem> {
    view(&ask.call, ask.at).await
}

async fn view(call: &Call, name: ScheduleName) -> Result<Reply<ScheduleAnswer>, Problem> {
    let found = call.bursar().schedules().find(&name).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("schedule {name}")))?;
    let tag = Fingerprint::of(&found.spec);
    Ok(Reply::new(ScheduleAnswer::of(name, &found)).tagged(Some(tag)))
}

async fn define(ask: Ask<ScheduleName, Nothing, ScheduleBody>) -> Result<Reply<ScheduleAnswer>, Problem> {
    let Ask { call, at, mut body, .. } = ask;
    let call = call.because(body.reason.take());
    let done = call.ask(Op::DefineSchedule { schedule: at.clone(), spec: ScheduleSpec::try_from(body)? }).await?;
    Ok(view(&call, at).await?.replayed(done.replayed))
}

async fn remove(ask: Ask<ScheduleName, WhyQuery>) -> Result<Done, Problem> {
    let outcome = ask.call.because(ask.query.reason).ask(Op::RemoveSchedule { schedule: ask.at }).await?;
    Ok(Done { replayed: outcome.replayed })
}

async fn run(ask: Ask<ScheduleName, Nothing, ReasonBody>) -> Result<Created<EnqueuedAnswer>, Problem> {
    let done = ask.call.because(ask.body.reason).ask(Op::RunSchedule { schedule: ask.at }).await?;
    match &done.answer {
        Answer::Submitted(submitted) if submitted.jobs.len() == 1 => {
            let answer = EnqueuedAnswer::from(submitted.jobs[0]);
            let location = Some(format!("/v1/jobs/{}", answer.id));
            Ok(Created { answer, location, replayed: done.replayed })
        }
        other => Err(unexpected(other)),
    }
}

async fn pause(ask: Ask<ScheduleName, Nothing, ReasonBody>) -> Result<Reply<ScheduleAnswer>, Problem> {
    paused(ask.call.because(ask.body.reason), ask.at, true).await
}

async fn resume(ask: Ask<ScheduleName, Nothing, ReasonBody>) -> Result<Reply<ScheduleAnswer>, Problem> {
    paused(ask.call.because(ask.body.reason), ask.at, false).await
}

async fn paused(call: Call, schedule: ScheduleName, paused: bool) -> Result<Reply<ScheduleAnswer>, Problem> {
    let done = call.ask(Op::PauseSchedule { schedule: schedule.clone(), paused }).await?;
    Ok(view(&call, schedule).await?.replayed(done.replayed))
}
