//! `bursar job`.

use std::time::Duration;

use bursar::{
    Act, Attempt, Beat, Failure, Finished, FlowKey, IdempotencyKey, Job, JobFilter, JobId, JobKind, JobSpec, JobState,
    LeaseAsk, Payload, Queue, Scope, Span, Stream, Tag, Time, Usage, WorkerName,
};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::charge;
use crate::commands::bulk::{self, Filter, Selection};
use crate::commands::journal;
use crate::exit::Exit;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::job::{BeatenAnswer, BulkBody, ErrorAnswer, FinishedAnswer, JobAnswer, LeasedAnswer};
use bursar_server::wire::problem::Problem;
use bursar_server::wire::{self, Page, stamp};

/// What can be done with jobs.
#[derive(Subcommand)]
pub(crate) enum Jobs {
    /// Enqueue one, or many from a file
    Enqueue(Enqueue),
    /// A job as it stands, with its attempts
    Show {
        /// Which one
        id: JobId,
    },
    /// Jobs, first enqueued first
    List {
        /// In this state
        #[arg(long)]
        state: Option<JobState>,
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        page: PageArgs,
    },
    /// What happened to it, newest first
    Events {
        /// Which one
        id: JobId,
    },
    /// Give jobs up; one that runs is told
    Cancel {
        /// Only those in this state
        #[arg(long)]
        state: Option<JobState>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Try dead and cancelled ones again, and those between attempts at once
    Retry {
        /// Only those in this state
        #[arg(long)]
        state: Option<JobState>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Change the priority of waiting jobs, or when they are to run
    Edit {
        /// Higher runs first
        #[arg(long, value_name = "N", allow_hyphen_values = true, required_unless_present = "delay_ms")]
        priority: Option<i16>,
        /// So long from now
        #[arg(long, value_name = "MS")]
        delay_ms: Option<u64>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Take jobs to work on
    Lease(LeaseArgs),
    /// Say that a job is still worked on
    Heartbeat(Held),
    /// A job is done
    Complete {
        #[command(flatten)]
        held: Held,
        /// What came of it, as JSON
        #[arg(long, value_name = "JSON", default_value = "null", value_parser = payload)]
        result: Payload,
        #[command(flatten)]
        usage: UsageArgs,
    },
    /// An attempt did not work
    Fail {
        #[command(flatten)]
        held: Held,
        /// What kind of error
        #[arg(long, value_name = "KIND")]
        error: String,
        /// In words
        #[arg(long, default_value = "")]
        message: String,
        /// Trying again does not help
        #[arg(long)]
        for_good: bool,
        /// Try again after this, whatever the policy says
        #[arg(long, value_name = "MS")]
        retry_after_ms: Option<u64>,
        #[command(flatten)]
        usage: UsageArgs,
    },
    /// Put a job off; it was no attempt
    Snooze {
        #[command(flatten)]
        held: Held,
        /// For how long
        #[arg(long, value_name = "MS")]
        delay_ms: u64,
    },
    /// Hand a job back that was not begun; it was no attempt
    Return(Held),
}

/// A part of a list.
#[derive(Args)]
pub(crate) struct PageArgs {
    /// Only those after this one
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    most: u16,
}

/// A job to be enqueued.
#[derive(Args)]
pub(crate) struct Enqueue {
    /// Where it waits
    #[arg(required_unless_present = "file", requires = "kind")]
    queue: Option<Queue>,
    /// What it does
    kind: Option<JobKind>,
    /// Many, as JSON `{ "jobs": […] }`, from a file or - for standard input
    #[arg(long, value_name = "PATH", conflicts_with = "queue")]
    file: Option<String>,
    /// What it works on, as JSON
    #[arg(long, value_name = "JSON", value_parser = payload)]
    payload: Option<Payload>,
    /// Makes it unique in its queue
    #[arg(long)]
    key: Option<IdempotencyKey>,
    /// Groups it for flow control
    #[arg(long, value_name = "KEY")]
    flow_key: Option<FlowKey>,
    /// A word to find it by
    #[arg(long = "tag")]
    tags: Vec<Tag>,
    /// Higher runs first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    priority: i16,
    /// Not before this has passed
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay_ms: u64,
    /// After so many failed attempts it is dead; as its queue says unless said
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one run may take; as its queue says unless said
    #[arg(long, value_name = "MS")]
    deadline_ms: Option<u64>,
}

/// What a worker wants.
#[derive(Args)]
pub(crate) struct LeaseArgs {
    /// From these queues
    #[arg(required = true)]
    queues: Vec<Queue>,
    /// Of these kinds; `video.*` is every kind that begins with `video.`
    #[arg(long = "kind")]
    kinds: Vec<JobKind>,
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 1)]
    capacity: u32,
    /// Wait so long for some if there are none, a minute at most
    #[arg(long, value_name = "MS", default_value_t = 0)]
    wait_ms: u64,
    /// How long the lease lasts without a heartbeat; as the queue says unless said
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
    /// Who wants them
    #[arg(long, default_value = "cli")]
    worker: WorkerName,
}

/// A job that the caller has.
#[derive(Args)]
pub(crate) struct Held {
    /// Which job
    id: JobId,
    /// By which lease
    #[arg(long, value_name = "N")]
    fence: u64,
}

/// What was really spent.
#[derive(Args)]
pub(crate) struct UsageArgs {
    /// What it cost: N, or SCOPE=N where the hold has several charges; can be repeated
    #[arg(long, value_name = "N|SCOPE=N", value_parser = usage)]
    usage: Vec<Usage>,
}

impl UsageArgs {
    fn given(self) -> Option<Vec<Usage>> {
        (!self.usage.is_empty()).then_some(self.usage)
    }
}

fn usage(text: &str) -> Result<Usage, bursar::Invalid> {
    match text.parse() {
        Ok(amount) => Ok(Usage { scope: None, amount }),
        Err(_) => charge(text).map(|(scope, amount): (Scope, i64)| Usage { scope: Some(scope), amount }),
    }
}

pub(crate) fn payload(text: &str) -> Result<Payload, bursar::Invalid> {
    Payload::new(text)
}

/// Does what was asked for.
pub(crate) async fn run(args: Jobs, session: &Session) -> Result<Exit, Problem> {
    match args {
        Jobs::Enqueue(args) => enqueue(args, session).await?,
        Jobs::Show { id } => show(&find(id, session).await?, session).await?,
        Jobs::List { state, filter, page } => list(&filter.in_state(state), &page, session).await?,
        Jobs::Events { id } => {
            find(id, session).await?;
            journal::history(&Stream::Job(id), 1_000, session).await?;
        }
        Jobs::Cancel { state, selection } => {
            return bulk::act(Act::Cancel, "cancelled", selection, state, session).await;
        }
        Jobs::Retry { state, selection } => return bulk::act(Act::Retry, "retried", selection, state, session).await,
        Jobs::Edit { priority, delay_ms, selection } => {
            let act = Act::Edit { priority, delay: delay_ms.map(Span::from_millis) };
            return bulk::act(act, "edited", selection, None, session).await;
        }
        Jobs::Lease(args) => lease(args, session).await?,
        Jobs::Heartbeat(Held { id, fence }) => {
            let beaten = session.bursar.jobs().heartbeat(Beat { job: id, fence }).await?;
            session.out.data(&BeatenAnswer::from(&beaten), || format!("{:?} until {}", beaten.order, beaten.until))?;
        }
        Jobs::Complete { held: Held { id, fence }, result, usage } => {
            ended(&session.bursar.jobs().complete(id, fence, result, usage.given()).await?, session)?;
        }
        Jobs::Fail { held: Held { id, fence }, error, message, for_good, retry_after_ms, usage } => {
            let mut failure = Failure::new(error, message);
            if for_good {
                failure = failure.for_good();
            }
            if let Some(wait) = retry_after_ms {
                failure = failure.retry_after(Duration::from_millis(wait));
            }
            if let Some(usage) = usage.given() {
                failure = failure.spent(usage);
            }
            ended(&session.bursar.jobs().fail(id, fence, failure).await?, session)?;
        }
        Jobs::Snooze { held: Held { id, fence }, delay_ms } => {
            let delay = Duration::from_millis(delay_ms);
            ended(&session.bursar.jobs().snooze(id, fence, delay).await?, session)?;
        }
        Jobs::Return(Held { id, fence }) => ended(&session.bursar.jobs().hand_back(id, fence).await?, session)?,
    }
    Ok(Exit::Done)
}

async fn enqueue(args: Enqueue, session: &Session) -> Result<(), Problem> {
    let specs: Vec<JobSpec> = match (args.file, args.queue, args.kind) {
        (Some(path), ..) => {
            let body: BulkBody = wire::read(&super::input(&path)?)?;
            body.jobs.into_iter().map(TryInto::try_into).collect::<Result<_, bursar::Invalid>>()?
        }
        (None, Some(queue), Some(kind)) => vec![JobSpec {
            idempotency_key: args.key,
            key: args.flow_key,
            tags: args.tags,
            priority: args.priority,
            delay: Span::from_millis(args.delay_ms),
            max_attempts: args.max_attempts,
            deadline: args.deadline_ms.map(Span::from_millis),
            ..JobSpec::new(queue, kind, args.payload.unwrap_or_default())
        }],
        _ => return Err(Problem::invalid("queue".into(), "say a queue and a kind, or --file")),
    };
    let enqueued = session.bursar.jobs().enqueue_all(specs).await?;
    let answers: Vec<_> = enqueued.iter().map(|job| json!({ "id": job.id, "created": job.created })).collect();
    session.out.data(&json!({ "jobs": answers }), || {
        let line = |job: &bursar::Enqueued| {
            format!("{} {}", job.id, if job.created { "enqueued" } else { "was there already" })
        };
        enqueued.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

async fn lease(args: LeaseArgs, session: &Session) -> Result<(), Problem> {
    let ask = LeaseAsk {
        queues: args.queues,
        kinds: args.kinds,
        capacity: args.capacity,
        lease: args.lease_ms.map(Span::from_millis),
        worker: args.worker,
    };
    let leased = session.bursar.jobs().lease_wait(ask, Duration::from_millis(args.wait_ms)).await?;
    let answers: Vec<LeasedAnswer> = leased.jobs.iter().map(LeasedAnswer::from).collect();
    session.out.data(&json!({ "jobs": answers }), || {
        let rows = leased.jobs.iter().map(|job| {
            let until = job.life.lease.as_ref().map(bursar::Lease::lapses_at);
            let [id, fence] = [job.id.to_string(), job.life.fence.to_string()];
            vec![
                id,
                fence,
                job.kind.to_string(),
                job.life.attempts.to_string(),
                cell(until),
                short(job.payload.as_str()),
            ]
        });
        table(&["JOB", "FENCE", "KIND", "ATTEMPT", "UNTIL", "PAYLOAD"], &rows.collect::<Vec<_>>())
    })
}

fn ended(done: &Finished, session: &Session) -> Result<(), Problem> {
    session.out.data(&FinishedAnswer::from(done), || bulk::finished(std::slice::from_ref(done)))
}

/// A job that must be there.
pub(crate) async fn find(id: JobId, session: &Session) -> Result<Job, Problem> {
    session.bursar.jobs().find(id).await?.ok_or_else(|| Problem::not_found(format_args!("job {id}")))
}

/// Jobs that match, a page of them.
pub(crate) async fn list(filter: &JobFilter, page: &PageArgs, session: &Session) -> Result<(), Problem> {
    let most = usize::from(page.most);
    let jobs = session.bursar.jobs().list(filter, page.after, most).await?;
    let now = session.bursar.now().await?;
    let answers = jobs.iter().map(|job| JobAnswer::at(job, now)).collect();
    session.out.data(&Page::of(answers, most, |job: &JobAnswer| job.id.to_string()), || {
        let rows = jobs.iter().map(|job| {
            vec![
                job.id.to_string(),
                job.queue.to_string(),
                job.kind.to_string(),
                job.state_at(now).to_string(),
                job.life.attempts.to_string(),
                when(job, now),
                job.life.error.as_ref().map_or("-".to_owned(), |error| error.kind.clone()),
            ]
        });
        table(&["JOB", "QUEUE", "KIND", "STATE", "ATTEMPTS", "WHEN", "ERROR"], &rows.collect::<Vec<_>>())
    })
}

/// When it ended, runs again, or lapses.
fn when(job: &Job, now: Time) -> String {
    match job.state_at(now) {
        JobState::Leased => cell(job.life.lease.as_ref().map(bursar::Lease::lapses_at)),
        _ => cell(stamp(job.life.run_at)),
    }
}

/// Tells all of a job, and how each attempt ended.
pub(crate) async fn show(job: &Job, session: &Session) -> Result<(), Problem> {
    let now = session.bursar.now().await?;
    let attempts = session.bursar.jobs().attempts(job.id).await?;
    let mut answer = serde_json::to_value(JobAnswer::at(job, now)).unwrap_or_default();
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("history".into(), attempts.iter().map(attempt).collect());
    }
    session.out.data(&answer, || {
        let lease = job.life.lease.as_ref();
        let lease = lease.map(|lease| format!("{} by {} until {}", job.life.fence, lease.worker, lease.lapses_at()));
        let most = job.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
        let cost = job.life.cost.iter().map(|(scope, amount)| format!("{amount} on {scope}"));
        let mut lines = vec![
            format!("job       {}", job.id),
            format!("state     {}", job.state_at(now)),
            format!("queue     {}", job.queue),
            format!("kind      {}", job.kind),
            format!("payload   {}", job.payload.as_str()),
            format!("priority  {}", job.priority),
            format!("attempts  {}{most}", job.life.attempts),
            format!("enqueued  {}", job.enqueued_at),
            format!("when      {}", when(job, now)),
            format!("lease     {}", cell(lease)),
            format!("hold      {}", cell(job.hold)),
            format!("cost      {}", cell(Some(cost.collect::<Vec<_>>().join(", ")).filter(|cost| !cost.is_empty()))),
            format!("result    {}", job.life.result.as_str()),
        ];
        for attempt in &attempts {
            let how = match &attempt.end {
                None => "goes on".to_owned(),
                Some((at, end)) => match end.error() {
                    Some(error) => format!("{at} {}: {}", error.kind, error.message),
                    None => format!("{at} {}", word(end)),
                },
            };
            lines.push(format!("attempt {} by {} from {}: {how}", attempt.attempt, attempt.worker, attempt.began_at));
        }
        lines.join("\n")
    })
}

fn attempt(attempt: &Attempt) -> serde_json::Value {
    let end = attempt.end.as_ref();
    json!({
        "attempt": attempt.attempt, "fence": attempt.fence, "worker": attempt.worker,
        "began_at": stamp(attempt.began_at), "ended_at": end.and_then(|(at, _)| stamp(*at)),
        "end": end.map(|(_, end)| word(end)), "error": end.and_then(|(_, end)| end.error()).map(ErrorAnswer::from),
    })
}

fn word(end: &bursar::AttemptEnd) -> &'static str {
    match end {
        bursar::AttemptEnd::Succeeded => "succeeded",
        bursar::AttemptEnd::Failed(_) => "failed",
        bursar::AttemptEnd::Rescued(_) => "rescued",
        bursar::AttemptEnd::Snoozed => "snoozed",
        bursar::AttemptEnd::Returned => "returned",
    }
}

/// As much of a text as fits a cell.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST { text.to_owned() } else { text.chars().take(MOST - 1).chain(['…']).collect() }
}
