//! `/v1/jobs/…`: the routes of workers. The fence of a lease makes every report safe to retry, so they use no idempotency key. Only events that
//! workers emit need one.

use axum::http::Method;
use std::collections::HashMap;

use bursar::bounds::check_items;
use bursar::{
    Emit, End, Error, Finish, HeartbeatItem, JobId, JobKind, LeaseRequest, Op, Progress, Span, WorkerName, covered,
};
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::limits::{BULK_BYTES_MAX, LEASED_ANSWER_BYTES, PAGE_ANSWER_BYTES};
use crate::otlp::attempt_traceparent;
use crate::principal::permissions::{Action, Role};
use crate::principal::revocation::{denied, is_denied};
use crate::principal::{Principal, forbidden, unauthorized};
use crate::reply::{NoContent, Reply};
use crate::route::{RetrySafety, Route};
use crate::wire::job::{BeatenAnswer, FinishedAnswer, LeasedAnswer};
use crate::wire::millis;
use crate::wire::problem::Problem;
use crate::wire::worker_calls::{
    BeatItem, BeatenItems, CompleteBody, CompleteItem, EmitBody, FailBody, FailItem, FinishedItems, HeartbeatBody,
    ItemAnswer, ItemsBody, LeaseBody, LeasedJobsAnswer, ProgressBody, ProgressItem, ReturnBody, ReturnItem, SnoozeBody,
    SnoozeItem, wait,
};

pub(super) fn routes() -> Vec<Route> {
    let work = Action::JobsWork;
    let job = "job_01j9zq3v4w5x6y7z8abcdefghj";
    let routes = vec![
        Route::new(Method::POST, "/v1/jobs/lease", work, "Lease jobs, waiting for them if none are ready", lease)
            .waits()
            .example(json!({ "queues": ["media"], "kinds": ["video.*"], "capacity": 10, "wait_ms": 20_000 })),
        Route::new(Method::POST, "/v1/jobs/{id}/heartbeat", work, "Renew the lease of a job", heartbeat)
            .example(json!({ "fence": 17, "progress": { "percent": 40 } })),
        Route::new(
            Method::POST,
            "/v1/jobs/{id}/progress",
            work,
            "Report the progress of a job and renew its lease",
            progress,
        )
        .example(json!({ "fence": 17, "percent": 40, "message": "rendering", "checkpoint": { "frame": 1_200 } })),
        Route::new(Method::POST, "/v1/jobs/{id}/complete", work, "Complete a job", complete)
            .example(json!({ "fence": 17, "result": { "url": "…" }, "usage": [{ "amount": 42_000 }] })),
        Route::new(Method::POST, "/v1/jobs/{id}/fail", work, "Report a failed attempt", fail).example(
            json!({ "fence": 17, "error": { "kind": "timeout", "message": "no answer" }, "retry_after_ms": 5_000 }),
        ),
        Route::new(Method::POST, "/v1/jobs/{id}/snooze", work, "Postpone a job without counting an attempt", snooze)
            .example(json!({ "fence": 17, "delay_ms": 60_000 })),
        Route::new(Method::POST, "/v1/jobs/{id}/return", work, "Return a job that was not started", hand_back)
            .example(json!({ "fence": 17 })),
        Route::new(Method::POST, "/v1/jobs/complete", work, "Complete many jobs", complete_many)
            .body_up_to(BULK_BYTES_MAX)
            .example(json!({ "items": [{ "id": job, "fence": 17, "result": null }] })),
        Route::new(Method::POST, "/v1/jobs/fail", work, "Report many failed attempts", fail_many)
            .body_up_to(BULK_BYTES_MAX)
            .example(json!({ "items": [{ "id": job, "fence": 17, "error": { "kind": "timeout" } }] })),
        Route::new(Method::POST, "/v1/jobs/snooze", work, "Postpone many jobs without counting attempts", snooze_many)
            .example(json!({ "items": [{ "id": job, "fence": 17, "delay_ms": 60_000 }] })),
        Route::new(Method::POST, "/v1/jobs/return", work, "Return many jobs that were not started", return_many)
            .example(json!({ "items": [{ "id": job, "fence": 17 }] })),
        Route::new(
            Method::POST,
            "/v1/jobs/progress",
            work,
            "Report the progress of many jobs and renew their leases",
            progress_many,
        )
        .example(json!({ "items": [{ "id": job, "fence": 17, "percent": 40, "message": "rendering" }] })),
        Route::new(Method::POST, "/v1/jobs/heartbeat", work, "Renew the leases of many jobs", heartbeat_many)
            .example(json!({ "items": [{ "id": job, "fence": 17 }] })),
    ];
    let mut routes: Vec<Route> = routes.into_iter().map(|route| route.retry_safety(RetrySafety::Fence)).collect();
    let emit =
        Route::new(Method::POST, "/v1/jobs/{id}/events", work, "Emit an event of the application about a job", emit);
    routes.push(emit.example(json!({ "fence": 17, "event": "preview.ready", "data": { "frame": 1_200 } })));
    routes
}

async fn lease(input: Input<(), NoFields, LeaseBody>) -> Result<Reply<LeasedJobsAnswer>, Problem> {
    let Input { call, body, .. } = input;
    let LeaseBody { queues, kinds, capacity, wait_ms, lease_ms, worker } = body;
    let principal = &call.principal;
    queues.iter().try_for_each(|queue| principal.may_lease_from(queue))?;
    let ask = LeaseRequest {
        kinds: kinds_for(principal, kinds)?,
        worker: worker_name(principal, worker)?,
        lease: lease_ms.map(|lease| millis("lease_ms", lease)).transpose()?,
        queues,
        capacity,
    };
    let wait = wait(wait_ms)?;
    // A worker that does not read its responses runs out of bytes in flight and leases no more. A worker that waits keeps no
    // reservation, because it may wait long and get nothing.
    let (bytes, account) = (&call.app.bytes, call.principal.account());
    let most = LEASED_ANSWER_BYTES.saturating_mul(ask.capacity as usize).min(PAGE_ANSWER_BYTES);
    let reservation = bytes.reserve_or_wait(&account, most).await?;
    let _reservation = (wait == Span::ZERO).then_some(reservation);
    let bursar = call.bursar();
    let jobs = bursar.jobs();
    let leased = if wait == Span::ZERO {
        jobs.lease(ask).await?
    } else {
        tokio::select! {
            // A token that another node has just revoked gets no job either.
            leased = jobs.lease_wait_while(ask, wait.into(), async || !is_denied(&call).await) => {
                leased?.ok_or_else(unauthorized)?
            }
            () = denied(&call) => return Err(unauthorized()),
            // On shutdown the response is empty; jobs leased at that moment are returned to the queue.
            () = call.app.tails.stopped() => bursar::Leased::default(),
        }
    };
    if principal.role == Some(Role::Worker) {
        call.app.leases.remember(&leased.jobs);
    }
    let mut held = jobs.held_for(&leased.jobs).await;
    let exports = call.app.otlp.is_some();
    let leased = leased.jobs.iter().map(|job| {
        let mut answer = LeasedAnswer::new(job, held.remove(&job.id));
        if exports {
            // The spans of the handler belong to the span of the attempt.
            answer.traceparent = attempt_traceparent(job).map(|parent| parent.to_string());
        }
        answer
    });
    Ok(Reply::new(LeasedJobsAnswer { jobs: leased.collect() }))
}

/// Returns the kinds of jobs to lease: the requested ones, which a worker's capabilities must include, or by default all of its
/// capabilities.
fn kinds_for(principal: &Principal, asked: Vec<JobKind>) -> Result<Vec<JobKind>, Problem> {
    if principal.role != Some(Role::Worker) {
        return Ok(asked);
    }
    let own = &principal.capabilities.kinds;
    if own.is_empty() {
        return Err(forbidden("this worker's capabilities include no job kinds"));
    }
    if asked.is_empty() {
        return Ok(own.iter().map(|pattern| JobKind::new(pattern.to_string())).collect::<Result<_, _>>()?);
    }
    match asked.iter().find(|kind| !covered(own, kind.as_str())) {
        Some(kind) => Err(forbidden(format!("this worker's capabilities do not include the job kind {kind}"))),
        None => Ok(asked),
    }
}

fn worker_name(principal: &Principal, said: Option<WorkerName>) -> Result<WorkerName, Problem> {
    match (principal.role, said) {
        (Some(Role::Worker), Some(said)) if said.as_str() != principal.name => {
            Err(Problem::invalid("worker".into(), "the token determines the worker's name; leave worker out"))
        }
        (Some(Role::Worker), _) | (_, None) => Ok(WorkerName::new(&principal.name)?),
        (_, Some(said)) => Ok(said),
    }
}

/// Fails if a worker's capabilities do not include a job. A job that does not exist passes; the engine reports it.
async fn may_report(call: &Call, job: JobId) -> Result<(), Problem> {
    if call.principal.role != Some(Role::Worker) {
        return Ok(());
    }
    if let Some((queue, kind)) = call.app.leases.find(&call.context.tenant, job) {
        return call.principal.may_work_on(&queue, &kind);
    }
    match call.bursar().jobs().find(job).await? {
        Some(job) => call.principal.may_work_on(&job.queue, &job.kind),
        None => Ok(()),
    }
}

async fn heartbeat(input: Input<JobId, NoFields, HeartbeatBody>) -> Result<Reply<BeatenAnswer>, Problem> {
    let HeartbeatBody { fence, progress } = input.body;
    may_report(&input.call, input.parameter).await?;
    let beat = HeartbeatItem { job: input.parameter, fence, progress: progress.map(Progress::from) };
    let beaten = input.call.bursar().jobs().heartbeat(beat).await?;
    Ok(Reply::new(BeatenAnswer::from(&beaten)))
}

async fn progress(input: Input<JobId, NoFields, ProgressBody>) -> Result<Reply<BeatenAnswer>, Problem> {
    may_report(&input.call, input.parameter).await?;
    let beat = HeartbeatItem::new(input.parameter, input.body.fence);
    let beaten = input.call.bursar().jobs().progress(beat, input.body.into()).await?;
    Ok(Reply::new(BeatenAnswer::from(&beaten)))
}

async fn emit(input: Input<JobId, NoFields, EmitBody>) -> Result<NoContent, Problem> {
    let EmitBody { fence, event, data } = input.body;
    may_report(&input.call, input.parameter).await?;
    input.call.principal.may_emit(&event)?;
    let outcome = input.call.run(Op::Emit(Emit { job: input.parameter, fence, event, data })).await?;
    Ok(NoContent { replayed: outcome.replayed })
}

async fn complete(input: Input<JobId, NoFields, CompleteBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let fence = input.body.fence;
    finish(&input.call, input.parameter, fence, input.body.into()).await
}

async fn fail(input: Input<JobId, NoFields, FailBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let fence = input.body.fence;
    finish(&input.call, input.parameter, fence, input.body.try_into()?).await
}

async fn snooze(input: Input<JobId, NoFields, SnoozeBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let fence = input.body.fence;
    finish(&input.call, input.parameter, fence, input.body.try_into()?).await
}

async fn hand_back(input: Input<JobId, NoFields, ReturnBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    finish(&input.call, input.parameter, input.body.fence, End::Return).await
}

async fn finish(call: &Call, job: JobId, fence: u64, end: End) -> Result<Reply<FinishedAnswer>, Problem> {
    may_report(call, job).await?;
    let done = call.bursar().jobs().finish(Finish { job, fence, end }).await?;
    call.app.leases.forget(std::iter::once(job));
    Ok(Reply::new(FinishedAnswer::from(&done)))
}

async fn complete_many(input: Input<(), NoFields, ItemsBody<CompleteItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: CompleteItem| {
        let (job, body): (JobId, CompleteBody) = item.into();
        Finish { job, fence: body.fence, end: body.into() }
    };
    finish_many(&input.call, input.body.items.into_iter().map(finish).collect()).await
}

async fn fail_many(input: Input<(), NoFields, ItemsBody<FailItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: FailItem| {
        let (job, body): (JobId, FailBody) = item.into();
        Ok::<_, Problem>(Finish { job, fence: body.fence, end: body.try_into()? })
    };
    finish_many(&input.call, input.body.items.into_iter().map(finish).collect::<Result<_, _>>()?).await
}

async fn snooze_many(input: Input<(), NoFields, ItemsBody<SnoozeItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: SnoozeItem| {
        let (job, body): (JobId, SnoozeBody) = item.into();
        Ok::<_, Problem>(Finish { job, fence: body.fence, end: body.try_into()? })
    };
    finish_many(&input.call, input.body.items.into_iter().map(finish).collect::<Result<_, _>>()?).await
}

async fn return_many(input: Input<(), NoFields, ItemsBody<ReturnItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: ReturnItem| Finish { job: item.id, fence: item.fence, end: End::Return };
    finish_many(&input.call, input.body.items.into_iter().map(finish).collect()).await
}

async fn finish_many(call: &Call, items: Vec<Finish>) -> Result<Reply<FinishedItems>, Problem> {
    let forbidden_jobs = forbidden_jobs(call, items.iter().map(|item| item.job)).await?;
    let allowed = items.iter().filter(|item| !forbidden_jobs.contains_key(&item.job)).cloned().collect();
    let answers = call.bursar().jobs().finish_all(allowed).await?;
    call.app.leases.forget(items.iter().map(|item| item.job).filter(|job| !forbidden_jobs.contains_key(job)));
    let mut answers = answers.into_iter();
    let items = items
        .iter()
        .map(|item| item_answer(&forbidden_jobs, item.job, &mut answers, |done| FinishedAnswer::from(&done)));
    Ok(Reply::new(FinishedItems { items: items.collect() }))
}

async fn heartbeat_many(input: Input<(), NoFields, ItemsBody<BeatItem>>) -> Result<Reply<BeatenItems>, Problem> {
    let beats = input.body.items.into_iter().map(|BeatItem { id, fence, progress }| {
        let progress = progress.map(Progress::from);
        HeartbeatItem { job: id, fence, progress }
    });
    heartbeat_all(&input.call, beats.collect()).await
}

async fn progress_many(input: Input<(), NoFields, ItemsBody<ProgressItem>>) -> Result<Reply<BeatenItems>, Problem> {
    let beats = input.body.items.into_iter().map(|item| {
        let (job, body): (JobId, ProgressBody) = item.into();
        HeartbeatItem::new(job, body.fence).with_progress(body.into())
    });
    heartbeat_all(&input.call, beats.collect()).await
}

/// Renews the leases of many jobs, with their progress.
async fn heartbeat_all(call: &Call, beats: Vec<HeartbeatItem>) -> Result<Reply<BeatenItems>, Problem> {
    let jobs: Vec<JobId> = beats.iter().map(|beat| beat.job).collect();
    let forbidden_jobs = forbidden_jobs(call, jobs.iter().copied()).await?;
    let allowed = beats.into_iter().filter(|beat| !forbidden_jobs.contains_key(&beat.job)).collect();
    let mut answers = call.bursar().jobs().heartbeats(allowed).await?.into_iter();
    let items = jobs
        .into_iter()
        .map(|job| item_answer(&forbidden_jobs, job, &mut answers, |beaten| BeatenAnswer::from(&beaten)));
    Ok(Reply::new(BeatenItems { items: items.collect() }))
}

/// Returns the jobs that a worker may not report on, each with its problem.
async fn forbidden_jobs(
    call: &Call,
    jobs: impl ExactSizeIterator<Item = JobId>,
) -> Result<HashMap<JobId, Problem>, Problem> {
    check_items("items", jobs.len())?;
    let mut forbidden_jobs = HashMap::new();
    if call.principal.role == Some(Role::Worker) {
        for job in jobs {
            if let Err(problem) = may_report(call, job).await {
                if problem.status != 403 {
                    return Err(problem);
                }
                forbidden_jobs.insert(job, problem);
            }
        }
    }
    Ok(forbidden_jobs)
}

fn item_answer<T, A>(
    forbidden_jobs: &HashMap<JobId, Problem>,
    job: JobId,
    answers: &mut impl Iterator<Item = Result<T, Error>>,
    convert: impl Fn(T) -> A,
) -> ItemAnswer<A> {
    if let Some(problem) = forbidden_jobs.get(&job) {
        return ItemAnswer::Failed { problem: problem.clone() };
    }
    match answers.next() {
        Some(Ok(done)) => ItemAnswer::Done(convert(done)),
        Some(Err(error)) => ItemAnswer::Failed { problem: Problem::from(error).redacted() },
        None => ItemAnswer::Failed { problem: Problem::from(Error::Internal("no answer".into())).redacted() },
    }
}
