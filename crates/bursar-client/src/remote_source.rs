//! Workers over HTTP: a source of jobs that calls the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::bounds::WAIT_MAX;
use bursar_core::credential::{CredentialClass, CredentialToken};
use bursar_core::id::BlobId;
use bursar_core::job::{Emit, End, Finish, HeartbeatItem, LeaseRequest, Order};
use bursar_core::time::{Span, Time};
use bursar_wire::job::{BeatenAnswer, FinishedAnswer, LeasedAnswer};
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::worker_calls::{
    BeatItem, CompleteItem, EmitBody, ErrorBody, FailItem, ItemAnswer, LeaseBody, ProgressBody, ReturnItem, SnoozeItem,
};
use bursar_worker::{LeasedJob, NotTaken, Progress, Source, SourceError, Worker};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::{Error, source_error};
use crate::remote_blobs::RemoteBlobs;

/// The timeout of a heartbeat.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the answer of a lease call that the worker has dropped, to return the jobs in it.
const DROPPED_TIMEOUT: Duration = Duration::from_secs(1);
/// The size of results in one report, in bytes, below the maximum size of a request.
const REPORT_BYTES: usize = 24 << 20;

impl Client {
    /// Makes a worker for jobs of this server, with the same interface as a worker of the library.
    ///
    /// A job runs **at least once**: a worker that crashes, or loses its connection or its lease, may have done the work already when
    /// another worker does it again. Make the effects of a handler safe to repeat, with the job's
    /// [`idempotency_key`](bursar_worker::JobContext::idempotency_key) or its [`id`](bursar_worker::JobContext::id).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use bursar_client::{Client, HandlerError, JobContext};
    ///
    /// let client = Client::new("http://127.0.0.1:7440")?.token(std::env::var("BURSAR_TOKEN")?);
    /// let worker = client.worker().queue("media").on("video.cut", async |seconds: u32, context: JobContext| {
    ///     // Runs at least once: make it safe to repeat.
    ///     context.usage(i64::from(seconds) * 10)?;
    ///     Ok::<_, HandlerError>(format!("cut {seconds} s"))
    /// });
    /// worker.run_until_terminated().await?;
    /// # Ok(()) }
    /// ```
    pub fn worker(&self) -> Worker {
        let token = self.options.token.as_deref().and_then(|token| CredentialToken::parse(token).ok());
        let named_by_token = token.is_some_and(|token| token.class() == CredentialClass::Worker);
        let source = RemoteSource { client: self.clone(), named_by_token, pending: watch::Sender::new(0) };
        Worker::new(Arc::new(source)).blobs(Arc::new(RemoteBlobs(self.clone())))
    }
}

/// A source of jobs that calls a server.
struct RemoteSource {
    client: Client,
    /// The token determines the name of the worker.
    named_by_token: bool,
    /// The number of lease calls in flight, including those that the worker has dropped.
    pending: watch::Sender<usize>,
}

#[async_trait]
impl Source for RemoteSource {
    async fn lease(&self, ask: LeaseRequest, wait: Duration) -> Result<Vec<LeasedJob>, SourceError> {
        let wait = Span::from(wait).min(WAIT_MAX);
        let body = LeaseBody {
            queues: ask.queues,
            kinds: ask.kinds,
            capacity: ask.capacity,
            wait_ms: wait.millis(),
            lease_ms: ask.lease.map(Span::millis),
            worker: (!self.named_by_token).then_some(ask.worker),
        };
        // The call runs in a task of its own: if the worker drops this future, the task returns the leased jobs.
        let (sender, receiver) = oneshot::channel();
        self.pending.send_modify(|pending| *pending += 1);
        tokio::spawn(lease(self.client.clone(), body, sender, PendingCall(self.pending.clone())));
        receiver.await.unwrap_or_else(|error| Err(SourceError::Failed(error.into())))
    }

    async fn heartbeat(&self, beats: Vec<HeartbeatItem>) -> Result<Vec<Result<Order, NotTaken>>, SourceError> {
        let items =
            beats.into_iter().map(|HeartbeatItem { job, fence, .. }| BeatItem { id: job, fence, progress: None });
        // The worker retries heartbeats itself.
        let once = self.client.once().within(HEARTBEAT_TIMEOUT);
        let answered = once.work().heartbeats(items.collect()).await.map_err(source_error)?;
        convert_items(answered.into_inner().items, |beaten: BeatenAnswer| beaten.order)
    }

    async fn finish(&self, items: Vec<Finish>) -> Result<Vec<Result<(), NotTaken>>, SourceError> {
        let mut answers: Vec<Option<Result<(), NotTaken>>> = items.iter().map(|_| None).collect();
        for (indices, answered) in join_all(reports(&self.client, items)).await {
            for (index, answer) in indices.into_iter().zip(answered?) {
                answers[index] = Some(answer);
            }
        }
        let missing = || SourceError::Failed("the server did not answer every report".into());
        answers.into_iter().map(|answer| answer.ok_or_else(missing)).collect()
    }

    async fn progress(&self, beat: HeartbeatItem, progress: Progress) -> Result<(), SourceError> {
        let Progress { percent, message, data, checkpoint } = progress;
        let body = ProgressBody { fence: beat.fence, percent, message, data, checkpoint };
        taken(self.client.within(HEARTBEAT_TIMEOUT).work().progress(beat.job, &body).await)
    }

    async fn emit(&self, emit: Emit) -> Result<(), SourceError> {
        let Emit { job, fence, event, data } = emit;
        taken(self.client.within(HEARTBEAT_TIMEOUT).work().emit(job, &EmitBody { fence, event, data }).await)
    }

    async fn settle(&self) {
        let _ = self.pending.subscribe().wait_for(|pending| *pending == 0).await;
    }
}

/// A lease call in flight; dropping it ends the call.
struct PendingCall(watch::Sender<usize>);

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.0.send_modify(|pending| *pending -= 1);
    }
}

type Leased = Result<Vec<LeasedJob>, SourceError>;

async fn lease(client: Client, body: LeaseBody, mut sender: oneshot::Sender<Leased>, pending: PendingCall) {
    // The worker retries lease calls itself.
    let once = client.once();
    let work = once.work();
    let mut call = std::pin::pin!(work.lease(&body));
    let answer = tokio::select! {
        answer = &mut call => Some(answer),
        () = sender.closed() => timeout(DROPPED_TIMEOUT, call).await.ok(),
    };
    let Some(answer) = answer else { return };
    let leased = match answer {
        Ok(answered) => answered.into_inner().jobs.into_iter().map(leased_job).collect::<Leased>(),
        Err(error) => Err(source_error(error)),
    };
    if let Err(Ok(dropped)) = sender.send(leased) {
        let items = dropped.iter().map(|job| ReturnItem { id: job.id, fence: job.fence });
        let items: Vec<ReturnItem> = items.collect();
        if !items.is_empty()
            && let Err(error) = client.within(HEARTBEAT_TIMEOUT).work().return_all(items).await
        {
            tracing::warn!(%error, "returning jobs failed; their leases will expire");
        }
    }
    drop(pending);
}

fn leased_job(job: LeasedAnswer) -> Result<LeasedJob, SourceError> {
    let unreadable = |detail: &str| SourceError::Failed(format!("a leased job {detail}").into());
    let lease = job.lease.ok_or_else(|| unreadable("has no lease"))?;
    let instant = |text: Option<String>| text.and_then(|text| text.parse::<Time>().ok());
    // Both times are of the server's clock, so that their difference does not depend on the clock of this machine.
    let (since, until) = instant(lease.since)
        .zip(instant(lease.expires_at))
        .ok_or_else(|| unreadable("has no valid times of its lease"))?;
    Ok(LeasedJob {
        id: job.id,
        fence: lease.fence,
        lease: Duration::from_micros(u64::try_from(until.micros() - since.micros()).unwrap_or_default()),
        queue: job.queue,
        kind: job.kind,
        payload: job.payload,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        idempotency_key: job.idempotency_key,
        key: job.key,
        tags: job.tags,
        metadata: job.metadata,
        blobs: job.blobs,
        hold: job.hold,
        held: job.held.map(|held| held.into_iter().map(|held| (held.scope, held.amount)).collect()),
        // An invalid trace context must not fail the job.
        traceparent: job.traceparent.and_then(|text| text.parse().ok()),
        checkpoint: job.checkpoint,
    })
}

/// A report call: the indices of its items, and their answers.
type Report<'a> = BoxFuture<'a, (Vec<usize>, Result<Vec<Result<(), NotTaken>>, SourceError>)>;

/// Groups items into as few report calls as the routes and the maximum size of a request allow.
fn reports(client: &Client, items: Vec<Finish>) -> Vec<Report<'_>> {
    let mut batch = ReportBatch::default();
    let mut reports = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        if batch.add(index, item) {
            reports.extend(std::mem::take(&mut batch).send(client));
        }
    }
    reports.extend(batch.send(client));
    reports
}

/// Reports by route, each with the indices of its items.
#[derive(Default)]
struct ReportBatch {
    completed: (Vec<usize>, Vec<CompleteItem>),
    failed: (Vec<usize>, Vec<FailItem>),
    snoozed: (Vec<usize>, Vec<SnoozeItem>),
    returned: (Vec<usize>, Vec<ReturnItem>),
    bytes: usize,
}

impl ReportBatch {
    /// Adds an item; returns `true` when the batch is full.
    fn add(&mut self, index: usize, item: Finish) -> bool {
        let Finish { job: id, fence, end } = item;
        match end {
            End::Complete { result, usage, blobs } => {
                self.bytes += result.as_str().len();
                push(&mut self.completed, index, CompleteItem { id, fence, result, usage, blobs });
            }
            End::Fail { error, retryable, retry_after, usage } => {
                self.bytes += error.message.len();
                let error = ErrorBody { kind: error.kind, message: error.message };
                let retry_after_ms = retry_after.map(Span::millis);
                push(&mut self.failed, index, FailItem { id, fence, error, retryable, retry_after_ms, usage });
            }
            End::Snooze { delay } => {
                push(&mut self.snoozed, index, SnoozeItem { id, fence, delay_ms: delay.millis() });
            }
            End::Return => push(&mut self.returned, index, ReturnItem { id, fence }),
        }
        self.bytes >= REPORT_BYTES
    }

    fn send(self, client: &Client) -> Vec<Report<'_>> {
        let mut reports = Vec::new();
        let ReportBatch { completed, failed, snoozed, returned, .. } = self;
        if !completed.0.is_empty() {
            reports
                .push(report(completed, move |items| async move { client.work().complete_all(items).await }.boxed()));
        }
        if !failed.0.is_empty() {
            reports.push(report(failed, move |items| async move { client.work().fail_all(items).await }.boxed()));
        }
        if !snoozed.0.is_empty() {
            reports.push(report(snoozed, move |items| async move { client.work().snooze_all(items).await }.boxed()));
        }
        if !returned.0.is_empty() {
            reports.push(report(returned, move |items| async move { client.work().return_all(items).await }.boxed()));
        }
        reports
    }
}

fn push<T>(list: &mut (Vec<usize>, Vec<T>), index: usize, item: T) {
    list.0.push(index);
    list.1.push(item);
}

type FinishCall<'a> = BoxFuture<'a, Result<crate::Answered<bursar_wire::worker_calls::FinishedItems>, Error>>;

fn report<'a, T: Send + 'a>(
    (indices, items): (Vec<usize>, Vec<T>),
    send: impl FnOnce(Vec<T>) -> FinishCall<'a> + Send + 'a,
) -> Report<'a> {
    async move {
        let answered = match send(items).await {
            Ok(answered) => convert_items(answered.into_inner().items, |_: FinishedAnswer| ()),
            Err(error) => Err(source_error(error)),
        };
        (indices, answered)
    }
    .boxed()
}

fn convert_items<T, A>(
    items: Vec<ItemAnswer<T>>,
    take: impl Fn(T) -> A,
) -> Result<Vec<Result<A, NotTaken>>, SourceError> {
    let one = |item| match item {
        ItemAnswer::Done(done) => Ok(Ok(take(done))),
        // All items are reported again: repeating an accepted report returns the same answer.
        ItemAnswer::Failed { problem } if may_succeed_later(&problem) => Err(source_error(problem.into())),
        ItemAnswer::Failed { problem } => Ok(Err(rejection(&problem))),
    };
    items.into_iter().map(one).collect()
}

/// Returns whether a report on one job was accepted.
fn taken<T>(answer: Result<Answered<T>, Error>) -> Result<(), SourceError> {
    match answer {
        Ok(_) => Ok(()),
        Err(Error::Problem(problem)) if !may_succeed_later(&problem) => Err(rejection(&problem).into()),
        Err(error) => Err(source_error(error)),
    }
}

/// Returns whether the same report may be accepted later. An internal error may be fixed by then.
fn may_succeed_later(problem: &Problem) -> bool {
    problem.kind.is_transient() || problem.kind == Kind::Internal
}

fn rejection(problem: &Problem) -> NotTaken {
    // A blob that the report names may be gone while the lease is not.
    let names_blob =
        problem.http.as_ref().and_then(|http| http.id.as_deref()).is_some_and(|id| id.parse::<BlobId>().is_ok());
    match problem.kind {
        Kind::NotFound if names_blob => NotTaken::Refused(problem.detail.clone()),
        Kind::LeaseLost | Kind::NotFound => NotTaken::Lost(problem.detail.clone()),
        _ => NotTaken::Refused(problem.detail.clone()),
    }
}
