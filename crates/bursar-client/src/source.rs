//! Workers over HTTP: a server is where their jobs come from.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::bounds::WAIT_MAX;
use bursar_core::credential::{CredentialClass, CredentialToken};
use bursar_core::job::{Beat, End, Finish, LeaseAsk, Order};
use bursar_core::time::{Span, Time};
use bursar_wire::job::{BeatenAnswer, FinishedAnswer, LeasedAnswer};
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::work::{
    BeatItem, CompleteItem, ErrorBody, FailItem, ItemAnswer, LeaseBody, ProgressBody, ReturnItem, SnoozeItem,
};
use bursar_worker::{LeasedJob, NotTaken, Progress, Source, SourceError, Worker};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::client::Client;
use crate::error::Error;

/// How long a sign of life may take: later it is of no use.
const BEAT: Duration = Duration::from_secs(5);
/// How long an answer is waited for that nobody wants any more, to hand back what came with it.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes of results in one report: so that it fits what a server takes.
const REPORT_BYTES: usize = 24 << 20;

impl Client {
    /// A worker for jobs of this server, written like one in the process.
    ///
    /// A job runs **at least once**: a worker that loses its connection, its lease or its life may have done the work, and another
    /// does it again. Make what a handler does safe to repeat, with the job's
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
        Worker::new(Arc::new(Remote { client: self.clone(), named_by_token, left: watch::Sender::new(0) }))
    }
}

/// Jobs of a server.
struct Remote {
    client: Client,
    /// The token says what the worker is called.
    named_by_token: bool,
    /// Calls whose callers are gone, and which may still bring jobs.
    left: watch::Sender<usize>,
}

#[async_trait]
impl Source for Remote {
    async fn lease(&self, ask: LeaseAsk, wait: Duration) -> Result<Vec<LeasedJob>, SourceError> {
        let wait = Span::from(wait).min(WAIT_MAX);
        let body = LeaseBody {
            queues: ask.queues,
            kinds: ask.kinds,
            capacity: ask.capacity,
            wait_ms: wait.millis(),
            lease_ms: ask.lease.map(Span::millis),
            worker: (!self.named_by_token).then_some(ask.worker),
        };
        // In a task of its own: a caller that is gone must not take the jobs with it that are on their way.
        let (tell, told) = oneshot::channel();
        self.left.send_modify(|left| *left += 1);
        tokio::spawn(lease(self.client.clone(), body, tell, Left(self.left.clone())));
        told.await.unwrap_or_else(|error| Err(SourceError::Failed(error.into())))
    }

    async fn heartbeat(&self, beats: Vec<Beat>) -> Result<Vec<Result<Order, NotTaken>>, SourceError> {
        let items = beats.into_iter().map(|Beat { job, fence }| BeatItem { id: job, fence, progress: None });
        // The worker gives the next one soon if this is not answered.
        let once = self.client.once().within(BEAT);
        let answered = once.work().heartbeats(items.collect()).await.map_err(failed)?;
        one_by_one(answered.into_inner().items, |beaten: BeatenAnswer| beaten.order)
    }

    async fn finish(&self, items: Vec<Finish>) -> Result<Vec<Result<(), NotTaken>>, SourceError> {
        let mut answers: Vec<Option<Result<(), NotTaken>>> = items.iter().map(|_| None).collect();
        for (places, answered) in join_all(reports(&self.client, items)).await {
            for (place, answer) in places.into_iter().zip(answered?) {
                answers[place] = Some(answer);
            }
        }
        let missing = || SourceError::Failed("the server left a report unanswered".into());
        answers.into_iter().map(|answer| answer.ok_or_else(missing)).collect()
    }

    async fn progress(&self, beat: Beat, progress: Progress) -> Result<(), SourceError> {
        let Progress { percent, message, data } = progress;
        let body = ProgressBody { fence: beat.fence, percent, message, data };
        match self.client.within(BEAT).work().progress(beat.job, &body).await {
            Ok(_) => Ok(()),
            Err(Error::Problem(problem)) if !may_be_taken(&problem) => Err(not_taken(&problem).into()),
            Err(error) => Err(failed(error)),
        }
    }

    async fn settle(&self) {
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }
}

/// Counts a call that has ended.
struct Left(watch::Sender<usize>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.send_modify(|left| *left -= 1);
    }
}

type Leased = Result<Vec<LeasedJob>, SourceError>;

async fn lease(client: Client, body: LeaseBody, mut tell: oneshot::Sender<Leased>, left: Left) {
    // The worker tries again itself.
    let once = client.once();
    let work = once.work();
    let mut asked = std::pin::pin!(work.lease(&body));
    let answer = tokio::select! {
        answer = &mut asked => Some(answer),
        () = tell.closed() => timeout(LINGER, asked).await.ok(),
    };
    let Some(answer) = answer else { return };
    let leased = match answer {
        Ok(answered) => answered.into_inner().jobs.into_iter().map(leased_job).collect::<Leased>(),
        Err(error) => Err(failed(error)),
    };
    if let Err(Ok(unwanted)) = tell.send(leased) {
        let items = unwanted.iter().map(|job| ReturnItem { id: job.id, fence: job.fence });
        let items: Vec<ReturnItem> = items.collect();
        if !items.is_empty()
            && let Err(error) = client.within(BEAT).work().return_all(items).await
        {
            tracing::warn!(%error, "jobs could not be handed back; their leases lapse");
        }
    }
    drop(left);
}

fn leased_job(job: LeasedAnswer) -> Result<LeasedJob, SourceError> {
    let unreadable = |detail: &str| SourceError::Failed(format!("a leased job {detail}").into());
    let lease = job.lease.ok_or_else(|| unreadable("has no lease"))?;
    let instant = |text: Option<String>| text.and_then(|text| text.parse::<Time>().ok());
    // Both by the clock of the server.
    let (since, until) =
        instant(lease.since).zip(instant(lease.expires_at)).ok_or_else(|| unreadable("has no times"))?;
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
        hold: job.hold,
        // A trace that makes no sense is nothing to lose a job for.
        traceparent: job.traceparent.and_then(|text| text.parse().ok()),
    })
}

/// A report that is sent, with the places of what it answers.
type Report<'a> = BoxFuture<'a, (Vec<usize>, Result<Vec<Result<(), NotTaken>>, SourceError>)>;

/// Reports, as few as the routes and the size of a body allow.
fn reports(client: &Client, items: Vec<Finish>) -> Vec<Report<'_>> {
    let mut sorted = Sorted::default();
    let mut reports = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        if sorted.add(place, item) {
            reports.extend(std::mem::take(&mut sorted).send(client));
        }
    }
    reports.extend(sorted.send(client));
    reports
}

/// What came of jobs, by how they ended.
#[derive(Default)]
struct Sorted {
    completed: (Vec<usize>, Vec<CompleteItem>),
    failed: (Vec<usize>, Vec<FailItem>),
    snoozed: (Vec<usize>, Vec<SnoozeItem>),
    returned: (Vec<usize>, Vec<ReturnItem>),
    bytes: usize,
}

impl Sorted {
    /// Takes one more; `true` if that is enough for one report.
    fn add(&mut self, place: usize, item: Finish) -> bool {
        let Finish { job: id, fence, end } = item;
        match end {
            End::Complete { result, usage } => {
                self.bytes += result.as_str().len();
                push(&mut self.completed, place, CompleteItem { id, fence, result, usage });
            }
            End::Fail { error, retryable, retry_after, usage } => {
                self.bytes += error.message.len();
                let error = ErrorBody { kind: error.kind, message: error.message };
                let retry_after_ms = retry_after.map(Span::millis);
                push(&mut self.failed, place, FailItem { id, fence, error, retryable, retry_after_ms, usage });
            }
            End::Snooze { delay } => {
                push(&mut self.snoozed, place, SnoozeItem { id, fence, delay_ms: delay.millis() });
            }
            End::Return => push(&mut self.returned, place, ReturnItem { id, fence }),
        }
        self.bytes >= REPORT_BYTES
    }

    fn send(self, client: &Client) -> Vec<Report<'_>> {
        let mut reports = Vec::new();
        let Sorted { completed, failed, snoozed, returned, .. } = self;
        if !completed.0.is_empty() {
            reports.push(sent(completed, move |items| async move { client.work().complete_all(items).await }.boxed()));
        }
        if !failed.0.is_empty() {
            reports.push(sent(failed, move |items| async move { client.work().fail_all(items).await }.boxed()));
        }
        if !snoozed.0.is_empty() {
            reports.push(sent(snoozed, move |items| async move { client.work().snooze_all(items).await }.boxed()));
        }
        if !returned.0.is_empty() {
            reports.push(sent(returned, move |items| async move { client.work().return_all(items).await }.boxed()));
        }
        reports
    }
}

fn push<T>(list: &mut (Vec<usize>, Vec<T>), place: usize, item: T) {
    list.0.push(place);
    list.1.push(item);
}

type Finished<'a> = BoxFuture<'a, Result<crate::Answered<bursar_wire::work::FinishedItems>, Error>>;

fn sent<'a, T: Send + 'a>(
    (places, items): (Vec<usize>, Vec<T>),
    send: impl FnOnce(Vec<T>) -> Finished<'a> + Send + 'a,
) -> Report<'a> {
    async move {
        let answered = match send(items).await {
            Ok(answered) => one_by_one(answered.into_inner().items, |_: FinishedAnswer| ()),
            Err(error) => Err(failed(error)),
        };
        (places, answered)
    }
    .boxed()
}

fn one_by_one<T, A>(items: Vec<ItemAnswer<T>>, take: impl Fn(T) -> A) -> Result<Vec<Result<A, NotTaken>>, SourceError> {
    let one = |item| match item {
        ItemAnswer::Done(done) => Ok(Ok(take(done))),
        // The same report again is answered in the same way by who could take it before.
        ItemAnswer::Not { problem } if may_be_taken(&problem) => Err(failed(problem.into())),
        ItemAnswer::Not { problem } => Ok(Err(not_taken(&problem))),
    };
    items.into_iter().map(one).collect()
}

/// Whether the same report may be taken later. A server that failed may have been mended by then.
fn may_be_taken(problem: &Problem) -> bool {
    problem.kind.is_transient() || problem.kind == Kind::Internal
}

fn not_taken(problem: &Problem) -> NotTaken {
    match problem.kind {
        Kind::LeaseLost | Kind::NotFound => NotTaken::Lost(problem.detail.clone()),
        _ => NotTaken::Refused(problem.detail.clone()),
    }
}

fn failed(error: Error) -> SourceError {
    match error.kind() {
        _ if error.is_transient() => SourceError::Transient(error.into()),
        Some(Kind::Internal) | None => SourceError::Failed(error.into()),
        Some(_) => SourceError::Denied(error.into()),
    }
}
