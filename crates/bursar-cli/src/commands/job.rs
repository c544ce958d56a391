//! `bursar job`.

use bursar::{FlowKey, IdempotencyKey, JobId, JobKind, JobState, Payload, Queue, Scope, Tag, Usage, WorkerName};
use bursar_client::JobQuery;
use clap::{Args, Subcommand};

use crate::args::{Most, charge};
use crate::commands::bulk::{self, Deed, Filter, Selection};
use crate::commands::{journal, millis};
use crate::exit::Exit;
use crate::output::{cell, table};
use crate::progress::watched;
use crate::session::Session;
use bursar_server::wire::command::EnqueuedAnswer;
use bursar_server::wire::job::{AttemptAnswer, BulkBody, CostAnswer, FinishedAnswer, JobAnswer, JobBody};
use bursar_server::wire::problem::Problem;
use bursar_server::wire::report::{DayCostAnswer, HeldAnswer};
use bursar_server::wire::work::{CompleteBody, ErrorBody, FailBody, HeartbeatBody, LeaseBody, ReturnBody, SnoozeBody};
use bursar_server::wire::{self, Page};

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
    /// Put jobs in another queue; dead ones are tried again there. `bursar dead move` takes a filter
    Move {
        /// Which queue
        #[arg(long, value_name = "QUEUE")]
        to: Queue,
        #[command(flatten)]
        named: Named,
    },
    /// Dead jobs are not wanted any more. `bursar dead discard` takes a filter
    Discard(Named),
    /// What jobs cost day by day, in UTC, by queue, kind and scope
    Costs {
        /// The first day, such as 2026-11-01
        #[arg(long, value_name = "DAY")]
        from: String,
        /// The last day; the first one unless said
        #[arg(long, value_name = "DAY")]
        to: Option<String>,
        #[command(flatten)]
        page: CursorArgs,
    },
    /// What is held for jobs now, by queue, kind and unit
    Held {
        /// Of this queue only
        #[arg(long, value_name = "QUEUE")]
        queue: Option<Queue>,
        #[command(flatten)]
        page: CursorArgs,
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

/// Jobs that are named.
#[derive(Args)]
pub(crate) struct Named {
    /// Which ones
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// A part of a list that goes on after a cursor.
#[derive(Args)]
pub(crate) struct CursorArgs {
    /// Only those after this cursor: `next` of the last page
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    #[command(flatten)]
    most: Most,
}

/// A part of a list.
#[derive(Args)]
pub(crate) struct PageArgs {
    /// Only those after this one
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,
    #[command(flatten)]
    most: Most,
}

impl PageArgs {
    /// The part of what a query finds.
    pub(crate) fn of(&self, query: JobQuery) -> JobQuery {
        let cursor = self.after.map(|id| id.to_string());
        JobQuery { cursor, limit: Some(usize::from(self.most)), ..query }
    }
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
    /// Who wants them; cli unless it is said, or as the token says
    #[arg(long)]
    worker: Option<WorkerName>,
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
    let (jobs, work) = (session.client.jobs(), session.client.work());
    match args {
        Jobs::Enqueue(args) => enqueue(args, session).await?,
        Jobs::Show { id } => show(&*jobs.show(id).await?, session).await?,
        Jobs::List { state, filter, page } => list(&*jobs.list(&page.of(filter.query(state))).await?, session)?,
        Jobs::Events { id } => journal::show(jobs.events(id, None, 1_000).await?.into_inner().items, session)?,
        Jobs::Cancel { state, selection } => return bulk::act(&Deed::Cancel, selection, state, session).await,
        Jobs::Retry { state, selection } => return bulk::act(&Deed::Retry, selection, state, session).await,
        Jobs::Edit { priority, delay_ms, selection } => {
            let deed = Deed::Edit { priority, delay_ms: delay_ms.map(millis) };
            return bulk::act(&deed, selection, None, session).await;
        }
        Jobs::Move { to, named: Named { ids, reason } } => {
            return bulk::act_on(&Deed::MoveDead { to }, &ids, reason.as_deref(), session).await;
        }
        Jobs::Discard(Named { ids, reason }) => {
            return bulk::act_on(&Deed::DiscardDead, &ids, reason.as_deref(), session).await;
        }
        Jobs::Costs { from, to, page: CursorArgs { after, most } } => {
            costs(&*jobs.costs(&from, to.as_deref(), after.as_deref(), most.into()).await?, session)?;
        }
        Jobs::Held { queue, page: CursorArgs { after, most } } => {
            held(&*jobs.held(queue.as_ref(), after.as_deref(), most.into()).await?, session)?;
        }
        Jobs::Lease(args) => lease(args, session).await?,
        Jobs::Heartbeat(Held { id, fence }) => {
            let beaten = work.heartbeat(id, &HeartbeatBody { fence, progress: None }).await?;
            session.out.data(&*beaten, || format!("{:?} until {}", beaten.order, cell(beaten.expires_at.as_ref())))?;
        }
        Jobs::Complete { held: Held { id, fence }, result, usage } => {
            let body = CompleteBody { fence, result, usage: usage.given() };
            ended(&*work.complete(id, &body).await?, session)?;
        }
        Jobs::Fail { held: Held { id, fence }, error, message, for_good, retry_after_ms, usage } => {
            let error = ErrorBody { kind: error, message };
            let retry_after_ms = retry_after_ms.map(millis);
            let body = FailBody { fence, error, retryable: !for_good, retry_after_ms, usage: usage.given() };
            ended(&*work.fail(id, &body).await?, session)?;
        }
        Jobs::Snooze { held: Held { id, fence }, delay_ms } => {
            let body = SnoozeBody { fence, delay_ms: millis(delay_ms) };
            ended(&*work.snooze(id, &body).await?, session)?;
        }
        Jobs::Return(Held { id, fence }) => {
            ended(&*work.hand_back(id, &ReturnBody { fence }).await?, session)?;
        }
    }
    Ok(Exit::Done)
}

async fn enqueue(args: Enqueue, session: &Session) -> Result<(), Problem> {
    let jobs: Vec<JobBody> = match (args.file, args.queue, args.kind) {
        (Some(path), ..) => wire::read::<BulkBody>(&super::input(&path)?)?.jobs,
        (None, Some(queue), Some(kind)) => vec![JobBody {
            idempotency_key: args.key,
            key: args.flow_key,
            tags: args.tags,
            priority: args.priority,
            delay_ms: millis(args.delay_ms),
            max_attempts: args.max_attempts,
            deadline_ms: args.deadline_ms.map(millis),
            ..JobBody::new(queue, kind, args.payload.unwrap_or_default())
        }],
        _ => return Err(Problem::invalid("queue".into(), "say a queue and a kind, or --file")),
    };
    let enqueued = watched("enqueueing", session.client.jobs().enqueue_all(jobs)).await?;
    session.out.data(&*enqueued, || {
        let line =
            |job: &EnqueuedAnswer| format!("{} {}", job.id, if job.created { "enqueued" } else { "was there already" });
        enqueued.jobs.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

async fn lease(args: LeaseArgs, session: &Session) -> Result<(), Problem> {
    let body = LeaseBody {
        queues: args.queues,
        kinds: args.kinds,
        capacity: args.capacity,
        wait_ms: millis(args.wait_ms),
        lease_ms: args.lease_ms.map(millis),
        worker: args.worker,
    };
    let leased = session.client.work().lease(&body).await?;
    session.out.data(&*leased, || {
        let rows = leased.jobs.iter().map(|job| {
            let lease = job.lease.as_ref();
            vec![
                job.id.to_string(),
                cell(lease.map(|lease| lease.fence)),
                job.kind.to_string(),
                job.attempt.to_string(),
                cell(lease.and_then(|lease| lease.expires_at.as_ref())),
                short(job.payload.as_str()),
            ]
        });
        table(&["JOB", "FENCE", "KIND", "ATTEMPT", "UNTIL", "PAYLOAD"], &rows.collect::<Vec<_>>())
    })
}

fn costs(page: &Page<DayCostAnswer>, session: &Session) -> Result<(), Problem> {
    session.out.data(page, || {
        let rows = page.items.iter().map(|cost| {
            let DayCostAnswer { day, queue, kind, scope, amount } = cost;
            vec![day.clone(), queue.to_string(), kind.to_string(), scope.to_string(), amount.to_string()]
        });
        table(&["DAY", "QUEUE", "KIND", "SCOPE", "COST"], &rows.collect::<Vec<_>>())
    })?;
    more(page.next.as_deref(), session);
    Ok(())
}

fn held(page: &Page<HeldAnswer>, session: &Session) -> Result<(), Problem> {
    session.out.data(page, || {
        let rows = page.items.iter().map(|held| {
            let HeldAnswer { queue, kind, unit, amount } = held;
            let unit = cell(Some(unit).filter(|unit| !unit.is_empty()));
            vec![queue.to_string(), kind.to_string(), unit, amount.to_string()]
        });
        table(&["QUEUE", "KIND", "UNIT", "HELD"], &rows.collect::<Vec<_>>())
    })?;
    more(page.next.as_deref(), session);
    Ok(())
}

/// How the list goes on, in quotes as a shell takes them: a cursor has any sign in it.
fn more(next: Option<&str>, session: &Session) {
    let quoted = next.map(|next| format!("'{}'", next.replace('\'', "'\\''")));
    session.out.more(quoted.as_deref());
}

fn ended(done: &FinishedAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(done, || bulk::finished(std::slice::from_ref(done)))
}

/// A page of jobs.
pub(crate) fn list(page: &Page<JobAnswer>, session: &Session) -> Result<(), Problem> {
    session.out.data(page, || {
        let rows = page.items.iter().map(|job| {
            vec![
                job.id.to_string(),
                job.queue.to_string(),
                job.kind.to_string(),
                job.state.to_string(),
                job.attempts.to_string(),
                when(job),
                job.error.as_ref().map_or("-".to_owned(), |error| error.kind.clone()),
            ]
        });
        table(&["JOB", "QUEUE", "KIND", "STATE", "ATTEMPTS", "WHEN", "ERROR"], &rows.collect::<Vec<_>>())
    })
}

/// When it ended, runs again, or lapses.
fn when(job: &JobAnswer) -> String {
    match job.state {
        JobState::Leased => cell(job.lease.as_ref().and_then(|lease| lease.expires_at.as_ref())),
        _ => cell(job.run_at.as_ref()),
    }
}

/// Tells all of a job, and how each attempt ended.
pub(crate) async fn show(job: &JobAnswer, session: &Session) -> Result<(), Problem> {
    let attempts = session.client.jobs().attempts(job.id).await?.into_inner().items;
    let mut answer = serde_json::to_value(job).unwrap_or_default();
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("history".into(), serde_json::to_value(&attempts).unwrap_or_default());
    }
    session.out.data(&answer, || {
        let lease = job.lease.as_ref();
        let lease =
            lease.map(|lease| format!("{} by {} until {}", lease.fence, lease.worker, cell(lease.expires_at.as_ref())));
        let most = job.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
        let cost = job.cost.iter().map(|CostAnswer { scope, amount }| format!("{amount} on {scope}"));
        let mut lines = vec![
            format!("job       {}", job.id),
            format!("state     {}", job.state),
            format!("queue     {}", job.queue),
            format!("kind      {}", job.kind),
            format!("payload   {}", job.payload.as_str()),
            format!("priority  {}", job.priority),
            format!("attempts  {}{most}", job.attempts),
            format!("enqueued  {}", cell(job.enqueued_at.as_ref())),
            format!("when      {}", when(job)),
            format!("lease     {}", cell(lease)),
            format!("hold      {}", cell(job.hold)),
            format!("cost      {}", cell(Some(cost.collect::<Vec<_>>().join(", ")).filter(|cost| !cost.is_empty()))),
            format!("result    {}", job.result.as_str()),
        ];
        lines.extend(attempts.iter().map(attempt));
        lines.join("\n")
    })
}

fn attempt(attempt: &AttemptAnswer) -> String {
    let AttemptAnswer { attempt: number, worker, began_at, ended_at, end, error, .. } = attempt;
    let how = match (end, error) {
        (None, _) => "goes on".to_owned(),
        (Some(_), Some(error)) => format!("{} {}: {}", cell(ended_at.as_ref()), error.kind, error.message),
        (Some(end), None) => format!("{} {end}", cell(ended_at.as_ref())),
    };
    format!("attempt {number} by {worker} from {}: {how}", cell(began_at.as_ref()))
}

/// As much of a text as fits a cell.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST { text.to_owned() } else { text.chars().take(MOST - 1).chain(['…']).collect() }
}
