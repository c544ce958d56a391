//! `/v1/jobs`: enqueueing, reading and operating jobs. The routes of workers are in `work`.

use axum::http::Method;
use bursar::bounds::check_items;
use bursar::{
    Act, Answer, Command, Fingerprint, Finished, FlowKey, IdempotencyKey, JobCount, JobFilter, JobId, JobKind, JobSpec,
    JobState, Op, Part, Queue, Receipt, Refusal, Request, Stream, Tag, commands_of, page,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::limits::BULK_BYTES_MAX;
use crate::limits::PAGE_MAX;
use crate::otlp::enqueue::EnqueueSpan;
use crate::principal::permissions::Action;
use crate::reply::{Created, Reply};
use crate::route::Route;
use crate::routes::blobs::reach;
use crate::routes::budgets::{HistoryQuery, history_of, unexpected};
use crate::routes::{ListOrder, PastQuery, cursor, page_size};
use crate::wire::budget::ReasonBody;
use crate::wire::bulk::{ActedAnswer, EditBody, EditManyBody, EnqueuedJobsAnswer, MoveBody, SelectionBody};
use crate::wire::command::EnqueuedAnswer;
use crate::wire::event::EventAnswer;
use crate::wire::job::{AttemptAnswer, BulkBody, FinishedAnswer, JobAnswer, JobBody};
use crate::wire::problem::Problem;
use crate::wire::{Page, millis};

/// Maximum number of jobs that a dry run counts.
const COUNTED_MAX: usize = 1_000_000;
/// Maximum number of pages of jobs that one request acts on.
const PAGES_MAX: usize = 20;

pub(super) fn routes() -> Vec<Route> {
    let (read, operate, enqueue_it) = (Action::JobsRead, Action::JobsOperate, Action::JobsEnqueue);
    let selection = json!({ "filter": { "queue": "media", "kind": "video.*" }, "reason": "provider was down" });
    let acts = vec![
        Route::new(Method::PATCH, "/v1/jobs/{id}", operate, "Change the priority or delay of a waiting job", edit)
            .takes_if_match()
            .example(json!({ "priority": 10, "delay_ms": 0 })),
        Route::new(Method::POST, "/v1/jobs/{id}/cancel", Action::JobsCancel, "Cancel a job", cancel)
            .example(json!({ "reason": "typo" })),
        Route::new(Method::POST, "/v1/jobs/{id}/retry", operate, "Retry a dead or cancelled job", retry)
            .example(json!({ "reason": "mended" })),
        Route::new(Method::POST, "/v1/jobs/{id}/discard", operate, "Discard a dead job", discard)
            .example(json!({ "reason": "too late" })),
        Route::new(
            Method::POST,
            "/v1/jobs/{id}/erase",
            operate,
            "Erase the payload and the result of an ended job",
            erase,
        )
        .example(json!({ "reason": "the customer asked for it" })),
        Route::new(Method::POST, "/v1/jobs/{id}/move", operate, "Move a job to another queue", move_to)
            .example(json!({ "queue": "slow" })),
        Route::new(Method::POST, "/v1/jobs/cancel", operate, "Cancel many jobs, by id or by filter", cancel_many)
            .example(selection.clone()),
        Route::new(Method::POST, "/v1/jobs/retry", operate, "Retry many jobs, by id or by filter", retry_many)
            .example(selection),
        Route::new(
            Method::POST,
            "/v1/jobs/erase",
            operate,
            "Erase the payloads and results of many ended jobs, by id or by filter",
            erase_many,
        )
        .example(json!({ "filter": { "tag": "customer:7" }, "reason": "the customer asked for it" })),
        Route::new(
            Method::POST,
            "/v1/jobs/edit",
            operate,
            "Change the priority or delay of many waiting jobs, by id or by filter",
            edit_many,
        )
        .example(json!({ "filter": { "queue": "media" }, "priority": 10 })),
    ];
    let others = vec![
        Route::new(Method::POST, "/v1/jobs", enqueue_it, "Enqueue a job", enqueue)
            .example(json!({ "queue": "media", "kind": "video.generate", "payload": { "prompt": "a harbour" } })),
        Route::new(Method::POST, "/v1/jobs/bulk", enqueue_it, "Enqueue many jobs, in transactions of up to 1000", bulk)
            .body_up_to(BULK_BYTES_MAX)
            .example(json!({ "jobs": [{ "queue": "media", "kind": "video.generate", "idempotency_key": "gen-7" }] })),
        Route::new(Method::GET, "/v1/jobs", read, "List jobs in the order they were enqueued", list).pages(),
        Route::new(Method::GET, "/v1/jobs/{id}", read, "Get a job", show).carries_payloads(),
        Route::new(Method::GET, "/v1/jobs/{id}/events", read, "List a job's events, newest first", events).pages(),
        Route::new(Method::GET, "/v1/jobs/{id}/attempts", read, "List the attempts of a job", attempts).pages(),
    ];
    acts.into_iter().chain(others).collect()
}

async fn enqueue(input: Input<(), NoFields, JobBody>) -> Result<Created<EnqueuedAnswer>, Problem> {
    let spec = JobSpec::try_from(input.body)?;
    // The engine would name the fields of the job as those of `jobs[0]`.
    spec.check(0)?;
    let mut call = input.call;
    reach::check_used(&call, std::slice::from_ref(&spec)).await?;
    let span = EnqueueSpan::begin_in(&mut call, std::slice::from_ref(&spec));
    let receipt = Receipt::from(call.run(Op::Submit(Command { jobs: vec![spec], ..Command::default() })).await?);
    // A replay enqueues nothing.
    if let Some(span) = span.filter(|_| !receipt.replayed) {
        span.end(receipt.done.jobs.iter().map(|job| job.id));
    }
    let answer = answers(&receipt).into_iter().next();
    let answer = answer.ok_or_else(|| Problem::from(bursar::Error::Internal("no job was enqueued".into())))?;
    let location = answer.created.then(|| format!("/v1/jobs/{}", answer.id));
    Ok(Created { answer, location, replayed: receipt.replayed })
}

async fn bulk(input: Input<(), NoFields, BulkBody>) -> Result<Reply<EnqueuedJobsAnswer>, Problem> {
    let jobs = input.body.jobs;
    // An invalid job fails the whole request before any job is enqueued, even if it belongs to a later transaction.
    let checked = |(index, job): (usize, JobBody)| {
        let spec = JobSpec::try_from(job).and_then(|spec| spec.check(0).map(|()| spec));
        spec.map_err(|invalid| invalid.of_entry("jobs", index))
    };
    let specs = jobs.into_iter().enumerate().map(checked).collect::<Result<Vec<_>, _>>()?;
    let mut call = input.call;
    reach::check_used(&call, &specs).await?;
    let span = EnqueueSpan::begin_in(&mut call, &specs);
    let mut enqueued = Vec::with_capacity(specs.len());
    // Each transaction has its own idempotency record, so that a retry replays those that were committed.
    let mut parts = KeyedParts::of(&call, &specs);
    let mut commands = commands_of(specs).peekable();
    while let Some(jobs) = commands.next() {
        let more = commands.peek().is_some();
        let keyed = parts.next().map(|(key, number, whole)| (key, Part { number, whole, more }));
        let receipt = submit(&call, jobs, keyed).await?;
        parts.note(receipt.replayed);
        enqueued.extend(answers(&receipt));
    }
    if let Some(span) = span.filter(|_| !parts.replayed()) {
        span.end(enqueued.iter().map(|job: &EnqueuedAnswer| job.id));
    }
    Ok(Reply::new(EnqueuedJobsAnswer { jobs: enqueued }).replayed(parts.replayed()))
}

/// The idempotency keys of a request that needs several transactions.
struct KeyedParts {
    /// The caller's key, and a digest of the whole request.
    whole: Option<(IdempotencyKey, Fingerprint)>,
    number: u32,
    replayed: u32,
}

impl KeyedParts {
    /// Creates the parts of a request; without an idempotency key they have none either.
    fn of(call: &Call, request: &impl serde::Serialize) -> KeyedParts {
        let whole = call.key.clone().map(|key| (key, Fingerprint::of(request)));
        KeyedParts { whole, number: 0, replayed: 0 }
    }

    /// Returns the next part: the caller's key, the number of the part, and the digest of the whole request.
    fn next(&mut self) -> Option<(IdempotencyKey, u32, Fingerprint)> {
        let number = self.number;
        self.number += 1;
        self.whole.clone().map(|(key, whole)| (key, number, whole))
    }

    /// Records whether the last part was a replay.
    fn note(&mut self, replayed: bool) {
        self.replayed += u32::from(replayed);
    }

    /// Returns whether all parts were replays.
    fn replayed(&self) -> bool {
        self.number > 0 && self.replayed == self.number
    }
}

async fn submit(call: &Call, jobs: Vec<JobSpec>, keyed: Option<(IdempotencyKey, Part)>) -> Result<Receipt, Problem> {
    let op = Op::Submit(Command { jobs, ..Command::default() });
    let (idempotency_key, part) = keyed.unzip();
    let request = Request { idempotency_key, part, ..Request::from(op).in_context(call.context.clone()) };
    Ok(Receipt::from(call.submit(request).await?))
}

fn answers(receipt: &Receipt) -> Vec<EnqueuedAnswer> {
    receipt.done.jobs.iter().copied().map(EnqueuedAnswer::from).collect()
}

/// The filter of the list of jobs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    #[serde(default)]
    pub(super) queue: Option<Queue>,
    /// The state of the jobs.
    #[serde(default)]
    pub(super) state: Option<String>,
    /// A kind, or a prefix of kinds followed by `*`.
    #[serde(default)]
    pub(super) kind: Option<JobKind>,
    /// The flow key.
    #[serde(default)]
    pub(super) key: Option<FlowKey>,
    #[serde(default)]
    pub(super) tag: Option<Tag>,
    /// The fingerprint of the last error.
    #[serde(default)]
    pub(super) fingerprint: Option<String>,
    /// The order of the jobs: those enqueued first, `oldest`, or last, `newest`. Default: `oldest`.
    #[serde(default)]
    pub(super) order: ListOrder,
    #[serde(default)]
    pub(super) cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    pub(super) limit: Option<usize>,
}

async fn list(input: Input<(), ListQuery>) -> Result<Reply<Page<JobAnswer>>, Problem> {
    let state = input.query.state.as_deref().map(str::parse).transpose()?;
    list_page(&input.call, input.query, state).await
}

/// Returns one page of jobs in a state.
pub(super) async fn list_page(
    call: &Call,
    query: ListQuery,
    state: Option<JobState>,
) -> Result<Reply<Page<JobAnswer>>, Problem> {
    let ListQuery { queue, kind, key, tag, fingerprint, order, cursor: at, limit, .. } = query;
    let (limit, after) = (page_size(limit)?, cursor(at.as_deref())?);
    let filter = JobFilter { queue, state, kind, key, tag, fingerprint, newest_first: order == ListOrder::Newest };
    let bursar = call.bursar();
    let found = bursar.jobs().list(&filter, after, limit).await?;
    let now = bursar.now().await?;
    let full = page::is_full(&found, limit);
    let items: Vec<JobAnswer> = found.iter().map(|job| JobAnswer::at(job, now)).collect();
    Ok(Reply::new(Page::of(items, full, |job| job.id.to_string())))
}

async fn show(input: Input<JobId, PastQuery>) -> Result<Reply<JobAnswer>, Problem> {
    let bursar = input.call.bursar();
    let moment = input.query.moment()?;
    let (found, now) = match moment {
        Some(moment) => {
            let past = bursar.past(moment).await?;
            (past.job(input.parameter).await?, past.instant())
        }
        None => (bursar.jobs().find(input.parameter).await?, bursar.now().await?),
    };
    let found = found.ok_or_else(|| input.query.not_found(format_args!("job {}", input.parameter)))?;
    let tag = moment.is_none().then(|| found.fingerprint());
    Ok(Reply::new(JobAnswer::at(&found, now)).tagged(tag))
}

async fn events(input: Input<JobId, HistoryQuery>) -> Result<Reply<Page<EventAnswer>>, Problem> {
    if input.call.bursar().jobs().find(input.parameter).await?.is_none() {
        return Err(Problem::not_found(format_args!("job {}", input.parameter)));
    }
    history_of(&input.call, &Stream::Job(input.parameter), input.query).await
}

async fn attempts(input: Input<JobId>) -> Result<Reply<Page<AttemptAnswer>>, Problem> {
    let bursar = input.call.bursar();
    if bursar.jobs().find(input.parameter).await?.is_none() {
        return Err(Problem::not_found(format_args!("job {}", input.parameter)));
    }
    let attempts = bursar.jobs().attempts(input.parameter).await?;
    Ok(Reply::new(Page { items: attempts.iter().map(convert::attempt_answer).collect(), next: None }))
}

async fn cancel(input: Input<JobId, NoFields, ReasonBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    act(input.call.with_reason(input.body.reason), Act::Cancel, input.parameter).await
}

async fn retry(input: Input<JobId, NoFields, ReasonBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    act(input.call.with_reason(input.body.reason), Act::Retry, input.parameter).await
}

async fn discard(input: Input<JobId, NoFields, ReasonBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    act(input.call.with_reason(input.body.reason), Act::Discard, input.parameter).await
}

async fn erase(input: Input<JobId, NoFields, ReasonBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    act(input.call.with_reason(input.body.reason), Act::Erase, input.parameter).await
}

async fn move_to(input: Input<JobId, NoFields, MoveBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let MoveBody { queue, reason } = input.body;
    act(input.call.with_reason(reason), Act::Move { queue }, input.parameter).await
}

async fn edit(input: Input<JobId, NoFields, EditBody>) -> Result<Reply<FinishedAnswer>, Problem> {
    let delay = input.body.delay_ms.map(|delay| millis("delay_ms", delay)).transpose()?;
    act(input.call.with_reason(input.body.reason), Act::Edit { priority: input.body.priority, delay }, input.parameter)
        .await
}

async fn act(call: Call, act: Act, job: JobId) -> Result<Reply<FinishedAnswer>, Problem> {
    let (answers, replayed) = act_on_each(&call, act, vec![job]).await?;
    let done = answers.into_iter().next();
    let done =
        done.ok_or_else(|| Problem::from(bursar::Error::Internal("the engine returned no answer for a job".into())))??;
    Ok(Reply::new(FinishedAnswer::from(&done)).replayed(replayed))
}

/// Acts on jobs; returns the result of each, and whether the answer is a replay.
async fn act_on_each(
    call: &Call,
    act: Act,
    jobs: Vec<JobId>,
) -> Result<(Vec<Result<Finished, Refusal>>, bool), Problem> {
    let outcome = call.run(Op::Act { act, jobs }).await?;
    match outcome.answer {
        Answer::Acted { each, .. } => Ok((each, outcome.replayed)),
        other => Err(unexpected(&other)),
    }
}

async fn cancel_many(input: Input<(), NoFields, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(input.call, Act::Cancel, input.body, None).await
}

async fn retry_many(input: Input<(), NoFields, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(input.call, Act::Retry, input.body, None).await
}

async fn erase_many(input: Input<(), NoFields, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(input.call, Act::Erase, input.body, None).await
}

async fn edit_many(input: Input<(), NoFields, EditManyBody>) -> Result<Reply<ActedAnswer>, Problem> {
    let EditManyBody { priority, delay_ms, .. } = input.body;
    let delay = delay_ms.map(|delay| millis("delay_ms", delay)).transpose()?;
    act_on_many(input.call, Act::Edit { priority, delay }, input.body.selection(), None).await
}

/// Acts on jobs by id, or on all that match a filter. `state` is the state that jobs must have to match.
pub(super) async fn act_on_many(
    call: Call,
    act: Act,
    body: SelectionBody,
    state: Option<JobState>,
) -> Result<Reply<ActedAnswer>, Problem> {
    act.check()?;
    let SelectionBody { ids, filter, cursor, limit, reason, dry_run } = body;
    check_items("ids", ids.len())?;
    let call = call.with_reason(reason);
    let bursar = call.bursar();
    let filter_body = filter.clone();
    let mut acted = ActedAnswer::default();
    let filter = match (ids.is_empty(), filter) {
        (false, None) if dry_run => {
            return Ok(Reply::new(ActedAnswer { matched: ids.len(), ..acted }));
        }
        (false, None) => {
            let (answers, replayed) = act_on_each(&call, act, ids).await?;
            acted.matched = answers.len();
            acted.done = answers.iter().filter(|answer| answer.is_ok()).count();
            acted.refused = acted.matched - acted.done;
            return Ok(Reply::new(acted).replayed(replayed));
        }
        (true, Some(filter)) if state.is_some() && filter.state.is_some() => {
            return Err(Problem::invalid("state".into(), "this route acts on dead jobs only; leave state out"));
        }
        (true, Some(filter)) => convert::job_filter(filter, state),
        _ => return Err(Problem::invalid("filter".into(), "select jobs with either ids or filter")),
    };
    if dry_run {
        let JobCount { found, more } = bursar.jobs().count(&filter, COUNTED_MAX).await?;
        return Ok(Reply::new(ActedAnswer { matched: found, more, ..acted }));
    }
    acted.next = cursor;
    // The digest covers the filter, not the matching jobs, because other jobs may match when the request is retried.
    let mut parts = KeyedParts::of(&call, &(&act, &filter_body, state, cursor, limit));
    for _ in 0..PAGES_MAX {
        let jobs = bursar.jobs();
        let page = match parts.next() {
            Some(part) => jobs.act_on_page_once(act.clone(), &filter, acted.next, part).await?,
            None => jobs.act_on_page(act.clone(), &filter, acted.next).await?,
        };
        parts.note(page.replayed);
        acted.matched += page.answers.len();
        acted.done += page.done();
        acted.next = page.next;
        if acted.next.is_none() || limit.is_some_and(|limit| acted.matched >= limit) {
            break;
        }
    }
    acted.refused = acted.matched - acted.done;
    Ok(Reply::new(acted).replayed(parts.replayed()))
}
