//! `/v1/jobs/…`: the routes of workers. The fence of a lease makes every report safe to retry, so they use no idempotency key.

use axum::http::Method;
use std::collections::HashMap;

use bursar::bounds::check_items;
use bursar::{Beat, End, Error, Finish, JobId, JobKind, LeaseAsk, Progress, Span, WorkerName, covered};
use serde_json::json;

use crate::call::{Ask, Call, Nothing};
use crate::convert;
use crate::limits::{BULK_BYTES_MAX, PAGE_ANSWER_BYTES};
use crate::principal::table::{Action, Role};
use crate::principal::{Principal, forbidden};
use crate::reply::Reply;
use crate::route::{RetrySafety, Route};
use crate::wire::job::{BeatenAnswer, FinishedAnswer, LeasedAnswer};
use crate::wire::millis;
use crate::wire::problem::Problem;
use crate::wire::worker_calls::{
    BeatItem, BeatenItems, CompleteBody, CompleteItem, FailBody, FailItem, FinishedItems, HeartbeatBody, ItemAnswer,
    ItemsBody, LeaseBody, LeasedJobsAnswer, ProgressBody, ProgressItem, ReturnBody, ReturnItem, SnoozeBody, SnoozeItem,
    wait,
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
        .example(json!({ "fence": 17, "percent": 40, "message": "rendering" })),
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
    routes.into_iter().map(|route| route.retry_safety(RetrySafety::Fence)).collect()
}

async fn lease(ask: Ask<(), Nothing, LeaseBody>) -> Result<Reply<LeasedJobsAnswer>, Problem> {
    let Ask { call, body, .. } = ask;
    let LeaseBody { queues, kinds, capacity, wait_ms, lease_ms, worker } = body;
    let principal = &call.principal;
    queues.iter().try_for_each(|queue| principal.may_lease_from(queue))?;
    let ask = LeaseAsk {
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
    let room = bytes.reserve_or_wait(&account, PAGE_ANSWER_BYTES).await?;
    let _room = (wait == Span::ZERO).then_some(room);
    let bursar = call.bursar();
    let jobs = bursar.jobs();
    let leased = if wait == Span::ZERO {
        jobs.lease(ask).await?
    } else {
        tokio::select! {
            leased = jobs.lease_wait(ask, wait.into()) => leased?,
            // On shutdown the response is empty; jobs leased at that moment are returned to the queue.
            () = call.app.tails.stopped() => bursar::Leased::default(),
        }
    };
    if principal.role == Some(Role::Worker) {
        call.app.leases.remember(&leased.jobs);
    }
    Ok(Reply::new(LeasedJobsAnswer { jobs: leased.jobs.iter().map(LeasedAnswer::from).collect() }))
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

async fn heartbeat(ask: Ask<JobId, Nothing, HeartbeatBody>) -> Result<Reply<BeatenAnswer>, Problem> {
    let HeartbeatBody { fence, progress } = ask.body;
    may_report(&ask.call, ask.at).await?;
    let beat = Beat { job: ask.at, fence };
    let bursar = ask.call.bursar();
    let beaten = match progress {
        Some(progress) => bursar.jobs().progress(beat, convert::progress(progress)).await?,
        None => bursar.jobs().heartbeat(beat).await?,
    };
    Ok(Reply::new(BeatenAnswer::from(&beaten)))
}

async fn progress(ask: Ask<JobId, Nothing, ProgressBody>) -> Result<Reply<BeatenAnswer>, Problem> {
    let ProgressBody { fence, percent, message, data } = ask.body;
    may_report(&ask.call, ask.at).await?;
    let progress = Progress { percent, message, data };
    let beaten = ask.call.bursar().jobs().progress(Beat { job: ask.at, fence }, progress).await?;
    Ok(Reply::new(BeatenAnswer::from(&beaten)))
}

async fn complete(ask: Ask<JobId, Nothing, CompleteBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let fence = ask.body.fence;
    finish(&ask.call, ask.at, fence, ask.body.into()).await
}

async fn fail(ask: Ask<JobId, Nothing, FailBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let fence = ask.body.fence;
    finish(&ask.call, ask.at, fence, ask.body.try_into()?).await
}

async fn snooze(ask: Ask<JobId, Nothing, SnoozeBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let fence = ask.body.fence;
    finish(&ask.call, ask.at, fence, ask.body.try_into()?).await
}

async fn hand_back(ask: Ask<JobId, Nothing, ReturnBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    finish(&ask.call, ask.at, ask.body.fence, End::Return).await
}

async fn finish(call: &Call, job: JobId, fence: u64, end: End) -> Result<Reply<FinishedAnswer>, Problem> {
    may_report(call, job).await?;
    let done = call.bursar().jobs().finish(Finish { job, fence, end }).await?;
    call.app.leases.forget(std::iter::once(job));
    Ok(Reply::new(FinishedAnswer::from(&done)))
}

async fn complete_many(ask: Ask<(), Nothing, ItemsBody<CompleteItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: CompleteItem| {
        let (job, body): (JobId, CompleteBody) = item.into();
        Finish { job, fence: body.fence, end: body.into() }
    };
    finish_many(&ask.call, ask.body.items.into_iter().map(finish).collect()).await
}

async fn fail_many(ask: Ask<(), Nothing, ItemsBody<FailItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: FailItem| {
        let (job, body): (JobId, FailBody) = item.into();
        Ok::<_, Problem>(Finish { job, fence: body.fence, end: body.try_into()? })
    };
    finish_many(&ask.call, ask.body.items.into_iter().map(finish).collect::<Result<_, _>>()?).await
}

async fn snooze_many(ask: Ask<(), Nothing, ItemsBody<SnoozeItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: SnoozeItem| {
        let (job, body): (JobId, SnoozeBody) = item.into();
        Ok::<_, Problem>(Finish { job, fence: body.fence, end: body.try_into()? })
    };
    finish_many(&ask.call, ask.body.items.into_iter().map(finish).collect::<Result<_, _>>()?).await
}

async fn return_many(ask: Ask<(), Nothing, ItemsBody<ReturnItem>>) -> Result<Reply<FinishedItems>, Problem> {
    let finish = |item: ReturnItem| Finish { job: item.id, fence: item.fence, end: End::Return };
    finish_many(&ask.call, ask.body.items.into_iter().map(finish).collect()).await
}

async fn finish_many(call: &Call, items: Vec<Finish>) -> Result<Reply<FinishedItems>, Problem> {
    let barred = barred(call, items.iter().map(|item| item.job)).await?;
    let allowed = items.iter().filter(|item| !barred.contains_key(&item.job)).cloned().collect();
    let answers = call.bursar().jobs().finish_all(allowed).await?;
    call.app.leases.forget(items.iter().map(|item| item.job).filter(|job| !barred.contains_key(job)));
    let mut answers = answers.into_iter();
    let items = items.iter().map(|item| one(&barred, item.job, &mut answers, |done| FinishedAnswer::from(&done)));
    Ok(Reply::new(FinishedItems { items: items.collect() }))
}

async fn heartbeat_many(ask: Ask<(), Nothing, ItemsBody<BeatItem>>) -> Result<Reply<BeatenItems>, Problem> {
    let beats = ask.body.items.into_iter().map(|BeatItem { id, fence, progress }| {
        let progress = progress.map(convert::progress);
        (Beat { job: id, fence }, progress)
    });
    beat_many(&ask.call, beats.collect()).await
}

async fn progress_many(ask: Ask<(), Nothing, ItemsBody<ProgressItem>>) -> Result<Reply<BeatenItems>, Problem> {
    let beats = ask.body.items.into_iter().map(|ProgressItem { id, fence, percent, message, data }| {
        (Beat { job: id, fence }, Some(Progress { percent, message, data }))
    });
    beat_many(&ask.call, beats.collect()).await
}

/// Renews the leases of many jobs, and forwards their progress to listeners.
async fn beat_many(call: &Call, beats: Vec<(Beat, Option<Progress>)>) -> Result<Reply<BeatenItems>, Problem> {
    beats.iter().filter_map(|(_, progress)| progress.as_ref()).try_for_each(Progress::check)?;
    let barred = barred(call, beats.iter().map(|(beat, _)| beat.job)).await?;
    let allowed = beats.iter().map(|(beat, _)| beat).filter(|beat| !barred.contains_key(&beat.job)).cloned().collect();
    let bursar = call.bursar();
    let mut answers = bursar.jobs().heartbeats(allowed).await?.into_iter();
    let items = beats.into_iter().map(|(beat, progress)| {
        let answer = one(&barred, beat.job, &mut answers, |beaten| BeatenAnswer::from(&beaten));
        if let (ItemAnswer::Done(_), Some(progress)) = (&answer, progress) {
            bursar.jobs().tell_progress(&beat, progress);
        }
        answer
    });
    Ok(Reply::new(BeatenItems { items: items.collect() }))
}

/// Returns the jobs that a worker may not report on, each with its problem.
async fn barred(call: &Call, jobs: impl ExactSizeIterator<Item = JobId>) -> Result<HashMap<JobId, Problem>, Problem> {
    check_items("items", jobs.len())?;
    let mut barred = HashMap::new();
    if call.principal.role == Some(Role::Worker) {
        for job in jobs {
            if let Err(problem) = may_report(call, job).await {
                if problem.status != 403 {
                    return Err(problem);
                }
                barred.insert(job, problem);
            }
        }
    }
    Ok(barred)
}

fn one<T, A>(
    barred: &HashMap<JobId, Problem>,
    job: JobId,
    answers: &mut impl Iterator<Item = Result<T, Error>>,
    told: impl Fn(T) -> A,
) -> ItemAnswer<A> {
    if let Some(problem) = barred.get(&job) {
        return ItemAnswer::Failed { problem: problem.clone() };
    }
    match answers.next() {
        Some(Ok(done)) => ItemAnswer::Done(told(done)),
        Some(Err(error)) => ItemAnswer::Failed { problem: Problem::from(error).redacted() },
        None => ItemAnswer::Failed { problem: Problem::from(Error::Internal("no answer".into())).redacted() },
    }
}
