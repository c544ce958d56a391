//! `bursar schedule`.

use bursar::{
    Cron, FlowKey, JobKind, JobSpec, MissedTicks, Overlap, Payload, Queue, ScheduleName, ScheduleSpec, Span, Tag, Zone,
};
use bursar_wire::Page;
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::schedule::{ScheduleAnswer, ScheduleBody};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::args::{PageSize, PastMoment, duration, payload, whole, zone};
use crate::context::Context;
use crate::input::read_input;
use crate::moment::{distance, moment_in};
use crate::output::{cell, table};
use crate::suggest;
use bursar_wire::similar;

/// The subcommands of `bursar schedule`.
#[derive(Subcommand)]
pub(crate) enum Schedules {
    /// Create a schedule, or change settings of one; settings not given stay as they are
    Set(Box<Set>),
    /// Show a schedule, its next tick and its last job
    Show {
        /// Schedule name
        name: ScheduleName,
        #[command(flatten)]
        moment: PastMoment,
    },
    /// List schedules by name
    List {
        /// Start after this schedule
        #[arg(long, value_name = "NAME")]
        after: Option<ScheduleName>,
        #[command(flatten)]
        most: PageSize,
    },
    /// Pause a schedule; ticks that pass while it is paused are skipped
    Pause(ScheduleArgs),
    /// Resume a schedule; it continues with the next tick from now on
    Resume(ScheduleArgs),
    /// Enqueue a schedule's job now, independent of its ticks
    Run(ScheduleArgs),
    /// Remove a schedule; jobs that it enqueued stay
    Remove(ScheduleArgs),
}

/// A schedule to operate on.
#[derive(Args)]
pub(crate) struct ScheduleArgs {
    /// Schedule name
    name: ScheduleName,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// The settings to change. A new schedule needs --cron, --queue and --kind.
#[derive(Args)]
#[command(after_help = "A new schedule needs --cron, --queue and --kind, or --file.")]
pub(crate) struct Set {
    /// Schedule name
    name: ScheduleName,
    /// JSON file with all settings; - reads standard input; settings not in it get their defaults
    #[arg(long, value_name = "PATH", conflicts_with_all = ["cron", "zone", "queue", "kind", "payload", "missed", "overlap", "flow_key", "tags", "priority", "delay", "max_attempts", "deadline"])]
    file: Option<String>,
    /// Cron expression, in quotes: five fields, six with seconds first, or @hourly, @daily, @weekly, @monthly, @yearly
    #[arg(long)]
    cron: Option<Cron>,
    /// IANA time zone of the cron expression [default: UTC]
    #[arg(long, value_parser = zone)]
    zone: Option<Zone>,
    /// Queue of the jobs
    #[arg(long)]
    queue: Option<Queue>,
    /// Kind of the jobs
    #[arg(long)]
    kind: Option<JobKind>,
    /// Payload of the jobs, as JSON
    #[arg(long, value_name = "JSON", value_parser = payload)]
    payload: Option<Payload>,
    /// Policy for ticks missed while no server ran: skip them, enqueue one job for all, or one for each [default: one]
    #[arg(long, value_parser = wire_word::<MissedTicks>(["skip", "one", "all"]))]
    missed: Option<MissedTicks>,
    /// Policy for a tick while the last job has not ended: enqueue another job, skip the tick, or cancel the last job [default: allow]
    #[arg(long, value_parser = wire_word::<Overlap>(["allow", "skip", "cancel"]))]
    overlap: Option<Overlap>,
    /// Flow key of the jobs, for per-key concurrency and rate limits
    #[arg(long, value_name = "KEY")]
    flow_key: Option<FlowKey>,
    /// Tag to find the jobs by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<Tag>,
    /// Priority of the jobs; higher runs first
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = |text: &str| whole::<i16>(text, i16::MIN..=i16::MAX))]
    priority: Option<i16>,
    /// Time from a tick until its job runs
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    delay: Option<Span>,
    /// Failed attempts after which a job is dead [default: the queue's setting]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole::<u32>(text, 1..=u32::MAX))]
    max_attempts: Option<u32>,
    /// Maximum duration of one attempt [default: the queue's setting]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    deadline: Option<Span>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// Parses one of these words, in its wire spelling.
fn wire_word<T>(words: [&'static str; 3]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let read = |word: String| serde_json::from_value(word.into()).map_err(|error| error.to_string());
    PossibleValuesParser::new(words).try_map(read)
}

/// Runs the command.
pub(crate) async fn run(args: Schedules, context: &Context) -> Result<(), Problem> {
    let schedules = context.client.schedules();
    match args {
        Schedules::Set(set) => change(*set, context).await,
        Schedules::Show { name, moment } => {
            let found = schedules.show_at(&name, moment.get()).await;
            show(&*suggest::schedule(found, &name, context).await?, context)
        }
        Schedules::List { after, most } => {
            list(&*schedules.list(after.as_ref().map(ScheduleName::as_str), usize::from(most)).await?, context)
        }
        Schedules::Pause(ScheduleArgs { name, reason }) => {
            let paused = schedules.pause(&name, reason.as_deref()).await;
            show(&*suggest::schedule(paused, &name, context).await?, context)
        }
        Schedules::Resume(ScheduleArgs { name, reason }) => {
            let resumed = schedules.resume(&name, reason.as_deref()).await;
            show(&*suggest::schedule(resumed, &name, context).await?, context)
        }
        Schedules::Run(ScheduleArgs { name, reason }) => {
            let ran = schedules.run(&name, reason.as_deref()).await;
            let job = suggest::schedule(ran, &name, context).await?.id;
            context.out.data(&json!({ "name": name, "job": job }), || format!("{job} enqueued"))
        }
        Schedules::Remove(ScheduleArgs { name, reason }) => {
            let removed = schedules.remove(&name, reason.as_deref()).await;
            suggest::schedule(removed, &name, context).await?;
            context.out.data(&json!({ "name": name, "removed": true }), || format!("{name} removed"))
        }
    }
}

async fn change(set: Set, context: &Context) -> Result<(), Problem> {
    let (name, reason) = (set.name.clone(), set.reason.clone());
    let names_queue = set.queue.is_some() || set.file.is_some();
    let (client, body) = match &set.file {
        Some(path) => (context.client.clone(), bursar_wire::read::<ScheduleBody>(&read_input(path)?)?),
        None => match context.client.schedules().show(&name).await {
            // The other settings stay as they are. If-Match keeps this from overwriting a concurrent change.
            Ok(current) => {
                let client =
                    current.etag().map_or_else(|| context.client.clone(), |etag| context.client.if_match(etag));
                (client, changed(current.into_inner().spec, set))
            }
            Err(error) if error.kind() == Some(Kind::NotFound) => {
                let spec = match new_spec(&set) {
                    Ok(spec) => spec,
                    Err(missing) => return Err(incomplete(&name, missing, context).await),
                };
                (context.client.clone(), changed(spec, set))
            }
            Err(error) => return Err(error.into()),
        },
    };
    let body = ScheduleBody { reason: reason.or(body.reason), ..body };
    if names_queue {
        suggest::warn_of_new_queue(&body.queue, context).await;
    }
    show(&*client.schedules().define(&name, &body).await?, context)
}

/// Builds a new schedule from the required settings, or returns the flag of one that is missing.
fn new_spec(set: &Set) -> Result<ScheduleBody, &'static str> {
    let cron = set.cron.clone().ok_or("cron")?;
    let queue = set.queue.clone().ok_or("queue")?;
    let kind = set.kind.clone().ok_or("kind")?;
    let job = JobSpec::new(queue, kind, Payload::default());
    Ok(ScheduleBody::from(&ScheduleSpec::new(cron, Zone::utc(), job)))
}

/// Describes a new schedule that lacks a setting; its name may be meant for another one.
async fn incomplete(name: &ScheduleName, missing: &str, context: &Context) -> Problem {
    let similar = suggest::similar_schedule(name, context).await;
    let detail = format!("there is no schedule {name} yet, and a new one needs --{missing}; nothing was changed");
    Problem::invalid(missing.to_owned(), detail + &similar::question(similar.as_deref()))
}

fn changed(spec: ScheduleBody, set: Set) -> ScheduleBody {
    ScheduleBody {
        cron: set.cron.unwrap_or(spec.cron),
        zone: set.zone.map_or(spec.zone, |zone| zone.to_string()),
        missed: set.missed.unwrap_or(spec.missed),
        overlap: set.overlap.unwrap_or(spec.overlap),
        queue: set.queue.unwrap_or(spec.queue),
        kind: set.kind.unwrap_or(spec.kind),
        payload: set.payload.unwrap_or(spec.payload),
        key: set.flow_key.or(spec.key),
        tags: if set.tags.is_empty() { spec.tags } else { set.tags },
        priority: set.priority.unwrap_or(spec.priority),
        delay_ms: set.delay.map_or(spec.delay_ms, Span::millis),
        max_attempts: set.max_attempts.or(spec.max_attempts),
        deadline_ms: set.deadline.map(Span::millis).or(spec.deadline_ms),
        ..spec
    }
}

fn list(page: &Page<ScheduleAnswer>, context: &Context) -> Result<(), Problem> {
    context.out.data(page, || {
        let rows = page.items.iter().map(|ScheduleAnswer { name, spec, next_at, last_tick, .. }| {
            vec![
                name.to_string(),
                spec.cron.to_string(),
                spec.zone.clone(),
                spec.queue.to_string(),
                spec.kind.to_string(),
                if spec.paused { "paused".to_owned() } else { moment_in(next_at.as_ref(), Some(&spec.zone)) },
                distance(last_tick.as_ref()),
            ]
        });
        table(&["SCHEDULE", "CRON", "ZONE", "QUEUE", "KIND", "NEXT", "LAST"], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn show(schedule: &ScheduleAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(schedule, || {
        let ScheduleAnswer { name, spec, next_at, last_tick, last_job } = schedule;
        let lines = [
            format!("schedule   {name}{}", if spec.paused { " (paused)" } else { "" }),
            format!("cron       {} ({})", spec.cron, spec.zone),
            format!("queue      {}", spec.queue),
            format!("kind       {}", spec.kind),
            format!("payload    {}", spec.payload.as_str()),
            format!("missed     {}", wire_spelling(&spec.missed)),
            format!("overlap    {}", wire_spelling(&spec.overlap)),
            format!("next tick  {}", moment_in(next_at.as_ref(), Some(&spec.zone))),
            format!("last tick  {}", moment_in(last_tick.as_ref(), Some(&spec.zone))),
            format!("last job   {}", cell(*last_job)),
        ];
        lines.join("\n")
    })
}

/// Returns a word in its wire spelling.
fn wire_spelling(word: &impl serde::Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}
