//! `bursar job`.

use std::collections::BTreeSet;

use bursar::bounds::WAIT_MAX;
use bursar::{
    Amount, BlobId, EventName, FlowKey, IdempotencyKey, JobId, JobKind, JobState, Payload, Queue, Scope, Span, Tag,
    Unit, Usage, WorkerName,
};
use bursar_client::{Answered, Error};
use bursar_wire::Page;
use bursar_wire::command::{CommandBody, EnqueuedAnswer, SettleWord};
use bursar_wire::job::{BeatenAnswer, BulkBody, FinishedAnswer, JobBody};
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::report::{DayCostAnswer, HeldAnswer};
use bursar_wire::worker_calls::{
    CompleteBody, EmitBody, ErrorBody, FailBody, HeartbeatBody, LeaseBody, ProgressBody, ReturnBody, SnoozeBody,
};
use clap::{Args, Subcommand};

use crate::args::{CursorPage, JobPage, PastMoment, amount, charge, duration, payload, whole};
use crate::bulk::{self, BulkAction, Filter, Selection};
use crate::commands::hold;
use crate::context::Context;
use crate::exit::Exit;
use crate::input::read_input;
use crate::moment::moment;
use crate::output::{cell, table};
use crate::progress::with_progress;
use crate::suggest;
use crate::units::Units;
use crate::view::jobs as view;
use crate::view::{charges, events};

/// The subcommands of `bursar job`.
#[derive(Subcommand)]
pub(crate) enum Jobs {
    /// Enqueue a job, or many from a file
    Enqueue(Enqueue),
    /// Show a job and its attempts
    Show {
        /// Job id
        id: JobId,
        #[command(flatten)]
        moment: PastMoment,
    },
    /// List jobs, oldest first
    List {
        /// List only jobs in this state
        #[arg(long)]
        state: Option<JobState>,
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        page: JobPage,
    },
    /// Show the events of a job, newest first
    Events {
        /// Job id
        id: JobId,
    },
    /// Cancel jobs; a running job's worker is notified
    Cancel {
        /// Select only jobs in this state
        #[arg(long)]
        state: Option<JobState>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Retry dead and cancelled jobs, and run jobs between attempts immediately
    Retry {
        /// Select only jobs in this state
        #[arg(long)]
        state: Option<JobState>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Change the priority or the start time of waiting jobs
    Edit {
        /// Priority; higher runs first
        #[arg(long, value_name = "N", allow_hyphen_values = true, required_unless_present = "delay", value_parser = priority)]
        priority: Option<i16>,
        /// Time from now until the jobs run
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        delay: Option<Span>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Move jobs to another queue; dead jobs are retried there (`bursar dead move` takes a filter)
    Move {
        /// Destination queue
        #[arg(long, value_name = "QUEUE")]
        to: Queue,
        #[command(flatten)]
        named: JobIds,
    },
    /// Discard dead jobs (`bursar dead discard` takes a filter)
    Discard(JobIds),
    /// Erase the payloads and results of ended jobs, also in the journal; they cannot be retried afterwards
    Erase {
        /// Select only jobs in this state
        #[arg(long)]
        state: Option<JobState>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Show the cost of jobs per day (UTC), by queue, kind and scope
    Costs {
        /// First day, such as 2026-11-01
        #[arg(long, value_name = "DAY")]
        from: String,
        /// Last day [default: the first day]
        #[arg(long, value_name = "DAY")]
        to: Option<String>,
        #[command(flatten)]
        page: CursorPage,
    },
    /// Show the units that are held for jobs now, by queue, kind and unit
    Held {
        /// Show only this queue
        #[arg(long, value_name = "QUEUE")]
        queue: Option<Queue>,
        #[command(flatten)]
        page: CursorPage,
    },
    /// Lease jobs to work on
    Lease(LeaseArgs),
    /// Extend the lease of a job
    Heartbeat(LeaseRef),
    /// Report the progress of a job and extend its lease; the next lease carries the checkpoint
    Progress {
        #[command(flatten)]
        lease: LeaseRef,
        /// Percentage that is done, from 0 to 100
        #[arg(long, value_name = "N", required_unless_present_any = ["message", "data", "checkpoint"])]
        percent: Option<f64>,
        /// Message for people
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
        /// Data for programs, as JSON
        #[arg(long, value_name = "JSON", value_parser = payload)]
        data: Option<Payload>,
        /// Where the work is, as JSON; null removes the last checkpoint
        #[arg(long, value_name = "JSON", value_parser = payload)]
        checkpoint: Option<Payload>,
    },
    /// Emit an event of the application about a job
    Emit {
        #[command(flatten)]
        lease: LeaseRef,
        /// Name of the event, such as preview.ready
        event: EventName,
        /// Data for listeners, as JSON
        #[arg(long, value_name = "JSON", default_value = "null", value_parser = payload)]
        data: Payload,
    },
    /// Report that a job succeeded
    Complete {
        #[command(flatten)]
        lease: LeaseRef,
        /// Result, as JSON
        #[arg(long, value_name = "JSON", default_value = "null", value_parser = payload)]
        result: Payload,
        /// Blob that the job made, kept as long as the job; repeatable
        #[arg(long = "blob", value_name = "ID")]
        blobs: Vec<BlobId>,
        #[command(flatten)]
        usage: UsageArgs,
    },
    /// Report that an attempt failed
    Fail {
        #[command(flatten)]
        lease: LeaseRef,
        /// Kind of error
        #[arg(long, value_name = "KIND")]
        error: String,
        /// Error message
        #[arg(long, default_value = "", hide_default_value = true)]
        message: String,
        /// Do not retry
        #[arg(long)]
        for_good: bool,
        /// Delay until the next attempt [default: the queue's retry policy]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        retry_after: Option<Span>,
        #[command(flatten)]
        usage: UsageArgs,
    },
    /// Postpone a leased job without counting an attempt
    Snooze {
        #[command(flatten)]
        lease: LeaseRef,
        /// Time until the job runs again
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        delay: Span,
    },
    /// Return a leased job that was not started, without counting an attempt
    Return(LeaseRef),
}

impl Jobs {
    /// Whether the command only reads.
    pub(crate) fn reads(&self) -> bool {
        matches!(
            self,
            Jobs::Show { .. } | Jobs::List { .. } | Jobs::Events { .. } | Jobs::Costs { .. } | Jobs::Held { .. }
        )
    }
}

/// Jobs selected by id.
#[derive(Args)]
pub(crate) struct JobIds {
    /// Job ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// The job to enqueue.
#[derive(Args)]
pub(crate) struct Enqueue {
    /// Queue to enqueue in
    #[arg(required_unless_present = "file", requires = "kind")]
    queue: Option<Queue>,
    /// Kind of the job, which selects its handler
    kind: Option<JobKind>,
    /// JSON file with many jobs, `{ "jobs": […] }`; - reads standard input
    #[arg(long, value_name = "PATH", conflicts_with = "queue")]
    file: Option<String>,
    /// Payload, as JSON
    #[arg(long, value_name = "JSON", value_parser = payload)]
    payload: Option<Payload>,
    /// Hold an amount of a scope for the job, in the unit of the scope's budget; the end of the job settles the hold; repeatable
    #[arg(long = "charge", value_name = "SCOPE=AMOUNT", value_parser = charge, conflicts_with = "file")]
    charges: Vec<(Scope, Amount)>,
    /// Idempotency key: only one job of the queue has it
    #[arg(long)]
    key: Option<IdempotencyKey>,
    /// Flow key, for per-key concurrency and rate limits
    #[arg(long, value_name = "KEY")]
    flow_key: Option<FlowKey>,
    /// Tag to find the job by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<Tag>,
    /// Blob that the job uses, kept as long as the job; repeatable
    #[arg(long = "blob", value_name = "ID", conflicts_with = "file")]
    blobs: Vec<BlobId>,
    /// Priority; higher runs first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, value_parser = priority)]
    priority: i16,
    /// Time from now until the job runs
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    delay: Span,
    /// Failed attempts after which the job is dead [default: the queue's setting]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole::<u32>(text, 1..=u32::MAX))]
    max_attempts: Option<u32>,
    /// Maximum duration of one attempt [default: the queue's setting]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    deadline: Option<Span>,
}

/// The arguments of `bursar job lease`.
#[derive(Args)]
pub(crate) struct LeaseArgs {
    /// Queue to lease from; repeatable
    #[arg(long = "queue", value_name = "NAME", required_unless_present = "positional")]
    queues: Vec<Queue>,
    /// Queues to lease from, as before `--queue` existed
    #[arg(value_name = "QUEUE", hide = true)]
    positional: Vec<Queue>,
    /// Kinds to lease; `video.*` matches every kind that starts with `video.`; repeatable [default: all]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<JobKind>,
    /// Maximum number of jobs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = |text: &str| whole::<u32>(text, 1..=1_000))]
    capacity: u32,
    /// Time to wait for a job if none is ready, at most 1m
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait)]
    wait: Span,
    /// Time after which the lease expires without a heartbeat [default: the queue's setting]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    lease: Option<Span>,
    /// Worker name to record with the leases [default: the name of the token; on a database, the user]
    #[arg(long)]
    worker: Option<WorkerName>,
}

/// A lease on a job.
#[derive(Args)]
pub(crate) struct LeaseRef {
    /// Job id
    id: JobId,
    /// Fence of the lease, as `bursar job lease` printed it
    #[arg(long, value_name = "N", value_parser = |text: &str| whole::<u64>(text, 0..=u64::MAX))]
    fence: u64,
}

/// The actual cost of an attempt.
#[derive(Args)]
pub(crate) struct UsageArgs {
    /// Actual cost: AMOUNT, or SCOPE=AMOUNT if the hold has several charges; repeatable
    #[arg(long, value_name = "[SCOPE=]AMOUNT", value_parser = usage)]
    usage: Vec<(Option<Scope>, Amount)>,
}

impl UsageArgs {
    /// Converts the amounts, in the units of the budgets that the job's hold charges.
    async fn read(self, job: JobId, context: &Context) -> Result<Option<Vec<Usage>>, Problem> {
        if self.usage.is_empty() {
            return Ok(None);
        }
        let charged = charged_scope(job, context).await;
        let scopes = self.usage.iter().filter_map(|(scope, _)| scope.as_ref()).chain(&charged);
        let units = Units::read(scopes, context).await?;
        let usage = self.usage.into_iter().map(|(scope, amount)| {
            let amount = match scope.as_ref().or(charged.as_ref()) {
                Some(scope) => units.amount(scope, &amount)?,
                None => amount.in_unit(&Unit::default())?,
            };
            Ok(Usage { scope, amount })
        });
        usage.collect::<Result<Vec<_>, Problem>>().map(Some)
    }
}

/// Returns the scope that a job's hold charges. A worker's token may not read it; the server checks the usage anyway.
async fn charged_scope(job: JobId, context: &Context) -> Option<Scope> {
    let hold = context.client.jobs().show(job).await.ok()?.hold?;
    let hold = context.client.holds().show(hold).await.ok()?.into_inner();
    hold.charges.into_iter().next().map(|charge| charge.scope)
}

fn usage(text: &str) -> Result<(Option<Scope>, Amount), bursar::Invalid> {
    match text.contains('=') {
        true => charge(text).map(|(scope, amount)| (Some(scope), amount)),
        false => amount(text).map(|amount| (None, amount)),
    }
}

/// Parses how long to wait for a job.
fn wait(text: &str) -> Result<Span, String> {
    let wait = duration(text)?;
    if wait > WAIT_MAX { Err(format!("must be at most {WAIT_MAX}")) } else { Ok(wait) }
}

fn priority(text: &str) -> Result<i16, String> {
    whole(text, i16::MIN..=i16::MAX)
}

/// Runs the command.
pub(crate) async fn run(args: Jobs, context: &Context) -> Result<Exit, Problem> {
    let (jobs, work) = (context.client.jobs(), context.client.work());
    match args {
        Jobs::Enqueue(args) => enqueue(args, context).await?,
        Jobs::Show { id, moment } => {
            view::print_job(&*jobs.show_at(id, moment.get()).await?, moment.get(), context).await?;
        }
        Jobs::List { state, filter, page } => {
            let found = jobs.list(&page.of(filter.clone().query(state))).await?;
            view::print_page(&found, context)?;
            if found.items.is_empty() {
                suggest::note_empty_filter(filter.queue(), filter.kind(), context).await;
            }
        }
        Jobs::Events { id } => {
            events::print_history(jobs.events(id, None, 1_000).await?.into_inner().items, context).await?;
        }
        Jobs::Cancel { state, selection } => return bulk::act(&BulkAction::Cancel, selection, state, context).await,
        Jobs::Retry { state, selection } => return bulk::act(&BulkAction::Retry, selection, state, context).await,
        Jobs::Erase { state, selection } => return bulk::act(&BulkAction::Erase, selection, state, context).await,
        Jobs::Edit { priority, delay, selection } => {
            let action = BulkAction::Edit { priority, delay_ms: delay.map(Span::millis) };
            return bulk::act(&action, selection, None, context).await;
        }
        Jobs::Move { to, named: JobIds { ids, reason } } => {
            return bulk::act_on(&BulkAction::MoveDead { to }, &ids, reason.as_deref(), context).await;
        }
        Jobs::Discard(JobIds { ids, reason }) => {
            return bulk::act_on(&BulkAction::DiscardDead, &ids, reason.as_deref(), context).await;
        }
        Jobs::Costs { from, to, page: CursorPage { after, most } } => {
            costs(&*jobs.costs(&from, to.as_deref(), after.as_deref(), most.into()).await?, context).await?;
        }
        Jobs::Held { queue, page: CursorPage { after, most } } => {
            held(&*jobs.held(queue.as_ref(), after.as_deref(), most.into()).await?, context)?;
        }
        Jobs::Lease(args) => lease(args, context).await?,
        Jobs::Heartbeat(LeaseRef { id, fence }) => {
            print_renewed(work.heartbeat(id, &HeartbeatBody { fence, progress: None }).await, id, fence, context)
                .await?;
        }
        Jobs::Progress { lease: LeaseRef { id, fence }, percent, message, data, checkpoint } => {
            let body = ProgressBody { fence, percent, message, data: data.unwrap_or_default(), checkpoint };
            print_renewed(work.progress(id, &body).await, id, fence, context).await?;
        }
        Jobs::Emit { lease: LeaseRef { id, fence }, event, data } => {
            let emitted = serde_json::json!({ "job": id, "event": event });
            let text = format!("{id} has emitted {event}");
            work.emit(id, &EmitBody { fence, event, data }).await?;
            context.out.data(&emitted, || text)?;
        }
        Jobs::Complete { lease: LeaseRef { id, fence }, result, blobs, usage } => {
            let body = CompleteBody { fence, result, usage: usage.read(id, context).await?, blobs };
            print_finished(work.complete(id, &body).await, id, fence, context).await?;
        }
        Jobs::Fail { lease: LeaseRef { id, fence }, error, message, for_good, retry_after, usage } => {
            let error = ErrorBody { kind: error, message };
            let (retry_after_ms, usage) = (retry_after.map(Span::millis), usage.read(id, context).await?);
            let body = FailBody { fence, error, retryable: !for_good, retry_after_ms, usage };
            print_finished(work.fail(id, &body).await, id, fence, context).await?;
        }
        Jobs::Snooze { lease: LeaseRef { id, fence }, delay } => {
            let body = SnoozeBody { fence, delay_ms: delay.millis() };
            print_finished(work.snooze(id, &body).await, id, fence, context).await?;
        }
        Jobs::Return(LeaseRef { id, fence }) => {
            print_finished(work.hand_back(id, &ReturnBody { fence }).await, id, fence, context).await?;
        }
    }
    Ok(Exit::Done)
}

/// The most queues of a file that are compared with those that exist.
const QUEUES_CHECKED: usize = 10;

async fn enqueue(args: Enqueue, context: &Context) -> Result<(), Problem> {
    let jobs: Vec<JobBody> = match (args.file, args.queue, args.kind) {
        (Some(path), ..) => bursar_wire::read::<BulkBody>(&read_input(&path)?)?.jobs,
        (None, Some(queue), Some(kind)) => vec![JobBody {
            idempotency_key: args.key,
            key: args.flow_key,
            tags: args.tags,
            blobs: args.blobs,
            priority: args.priority,
            delay_ms: args.delay.millis(),
            max_attempts: args.max_attempts,
            deadline_ms: args.deadline.map(Span::millis),
            ..JobBody::new(queue, kind, args.payload.unwrap_or_default())
        }],
        _ => return Err(Problem::invalid("queue".into(), "pass a queue and a kind, or --file")),
    };
    let queues: BTreeSet<&Queue> = jobs.iter().map(|job| &job.queue).collect();
    for queue in queues.into_iter().take(QUEUES_CHECKED) {
        suggest::warn_of_new_queue(queue, context).await;
    }
    if !args.charges.is_empty() {
        let (units, body) = hold::charged(&args.charges, &[], None, context).await?;
        return hold::submit(&CommandBody { settle: SettleWord::Job, jobs, ..body }, units, None, context).await;
    }
    let enqueued = with_progress("enqueueing", context.client.jobs().enqueue_all(jobs)).await?;
    context.out.data(&*enqueued, || {
        let line = |job: &EnqueuedAnswer| charges::enqueued(&job.id.to_string(), job.created);
        enqueued.jobs.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

async fn lease(args: LeaseArgs, context: &Context) -> Result<(), Problem> {
    let body = LeaseBody {
        queues: args.queues.into_iter().chain(args.positional).collect(),
        kinds: args.kinds,
        capacity: args.capacity,
        wait_ms: args.wait.millis(),
        lease_ms: args.lease.map(Span::millis),
        worker: args.worker,
    };
    let leased = context.client.work().lease(&body).await?;
    if leased.jobs.is_empty() {
        context.out.note("no job is ready");
        suggest::note_empty_filter(body.queues.first(), None, context).await;
    }
    context.out.data(&*leased, || {
        let rows = leased.jobs.iter().map(|job| {
            let lease = job.lease.as_ref();
            vec![
                job.id.to_string(),
                cell(lease.map(|lease| lease.fence)),
                job.kind.to_string(),
                job.attempt.to_string(),
                moment(lease.and_then(|lease| lease.expires_at.as_ref())),
                view::shortened(job.payload.as_str()),
            ]
        });
        table(&["JOB", "FENCE", "KIND", "ATTEMPT", "EXPIRES", "PAYLOAD"], &rows.collect::<Vec<_>>())
    })
}

async fn costs(page: &Page<DayCostAnswer>, context: &Context) -> Result<(), Problem> {
    let units = Units::read(page.items.iter().map(|cost| &cost.scope), context).await?;
    context.out.data(page, || {
        let rows = page.items.iter().map(|cost| {
            let DayCostAnswer { day, queue, kind, scope, amount } = cost;
            let amount = units.show(scope, *amount);
            vec![day.clone(), queue.to_string(), kind.to_string(), scope.to_string(), amount]
        });
        table(&["DAY", "QUEUE", "KIND", "SCOPE", "COST"], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn held(page: &Page<HeldAnswer>, context: &Context) -> Result<(), Problem> {
    context.out.data(page, || {
        let rows = page.items.iter().map(|held| {
            let HeldAnswer { queue, kind, unit, amount } = held;
            let amount = Unit::named(unit).format(*amount);
            let unit = cell(Some(unit).filter(|unit| !unit.is_empty()));
            vec![queue.to_string(), kind.to_string(), unit, amount]
        });
        table(&["QUEUE", "KIND", "UNIT", "HELD"], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

async fn print_renewed(
    renewed: Result<Answered<BeatenAnswer>, Error>,
    job: JobId,
    fence: u64,
    context: &Context,
) -> Result<(), Problem> {
    let renewed = with_current_lease(renewed, job, fence, context).await?;
    context.out.data(&*renewed, || {
        let order = format!("{:?}", renewed.order).to_lowercase();
        format!("{order}: the lease expires {}", moment(renewed.expires_at.as_ref()))
    })
}

async fn print_finished(
    done: Result<Answered<FinishedAnswer>, Error>,
    job: JobId,
    fence: u64,
    context: &Context,
) -> Result<(), Problem> {
    let done = with_current_lease(done, job, fence, context).await?;
    let units = Units::read(done.cost.iter().map(|cost| &cost.scope), context).await?;
    if done.overrun > 0 {
        // A hold with several charges may have several units; then the number is a sum over all of them.
        let overrun = match done.cost.as_slice() {
            [only] => units.show(&only.scope, done.overrun),
            _ => done.overrun.to_string(),
        };
        context.out.note(&format!("warning: the job spent {overrun} more than was held for it"));
    }
    context.out.data(&*done, || view::finished(std::slice::from_ref(&*done), &units))
}

/// Returns the answer to a report. If its fence is none that the job has had, the problem has the current one.
async fn with_current_lease<T>(
    answer: Result<T, Error>,
    job: JobId,
    fence: u64,
    context: &Context,
) -> Result<T, Problem> {
    let error = match answer {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let lost = error.kind() == Some(Kind::LeaseLost);
    let problem = Problem::from(error);
    let shown = if lost { context.client.jobs().show(job).await.ok() } else { None };
    match shown.as_ref().and_then(|job| job.lease.as_ref()) {
        Some(lease) if lease.fence < fence => {
            let detail = format!(
                "{job} never had a lease with the fence {fence}: its current one has {}, by {}; nothing was changed; `bursar job show {job}` shows the lease",
                lease.fence, lease.worker
            );
            Err(Problem { detail, ..problem })
        }
        _ => Err(problem),
    }
}
