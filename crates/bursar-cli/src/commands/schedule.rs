//! `bursar schedule`.

use bursar::{
    Cron, FlowKey, Invalid, JobKind, JobSpec, MissedTicks, Overlap, Payload, Queue, Schedule, ScheduleName,
    ScheduleSpec, Span, Tag, Zone,
};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::commands::job::payload;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::problem::Problem;
use bursar_server::wire::schedule::{ScheduleAnswer, ScheduleBody};
use bursar_server::wire::{self, Page, stamp};

/// What can be done with schedules.
#[derive(Subcommand)]
pub(crate) enum Schedules {
    /// Make a schedule, or change what is said; the rest stays as it is
    Set(Box<Set>),
    /// What it enqueues, its next tick and its last job
    Show {
        /// Which one
        name: ScheduleName,
    },
    /// Schedules by name
    List {
        /// Only those after this name
        #[arg(long, value_name = "NAME")]
        after: Option<ScheduleName>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        most: u16,
    },
    /// Enqueue nothing more; ticks that pass meanwhile are nobody's
    Pause(Named),
    /// Go on with the next tick from now
    Resume(Named),
    /// Enqueue its job now, whatever its ticks say
    Run(Named),
    /// Remove it; jobs that it enqueued stay
    Remove(Named),
}

/// One schedule.
#[derive(Args)]
pub(crate) struct Named {
    /// Which one
    name: ScheduleName,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// What is to be set. A new one needs --cron, --queue and --kind.
#[derive(Args)]
pub(crate) struct Set {
    /// Which one
    name: ScheduleName,
    /// Everything at once, as JSON, from a file or - for standard input; what it does not say gets its default
    #[arg(long, value_name = "PATH", conflicts_with_all = ["cron", "zone", "queue", "kind", "payload", "missed", "overlap", "flow_key", "tags", "priority", "delay_ms", "max_attempts", "deadline_ms"])]
    file: Option<String>,
    /// When: five fields, or six with seconds first, or @hourly, @daily, @weekly, @monthly, @yearly
    #[arg(long)]
    cron: Option<Cron>,
    /// On the clocks of this IANA zone; UTC unless said
    #[arg(long, value_parser = Zone::new)]
    zone: Option<Zone>,
    /// Where its jobs wait
    #[arg(long)]
    queue: Option<Queue>,
    /// What they do
    #[arg(long)]
    kind: Option<JobKind>,
    /// What they work on, as JSON
    #[arg(long, value_name = "JSON", value_parser = payload)]
    payload: Option<Payload>,
    /// Ticks that nobody was there for are left out, give one job together, or one each; one unless said
    #[arg(long, value_name = "skip|one|all", value_parser = word::<MissedTicks>)]
    missed: Option<MissedTicks>,
    /// While the last job has not ended: enqueue another, leave the tick out, or cancel that one; allow unless said
    #[arg(long, value_name = "allow|skip|cancel", value_parser = word::<Overlap>)]
    overlap: Option<Overlap>,
    /// Groups its jobs for flow control
    #[arg(long, value_name = "KEY")]
    flow_key: Option<FlowKey>,
    /// A word to find its jobs by
    #[arg(long = "tag")]
    tags: Vec<Tag>,
    /// Higher runs first
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i16>,
    /// Not before this has passed after a tick
    #[arg(long, value_name = "MS")]
    delay_ms: Option<u64>,
    /// After so many failed attempts a job is dead; as its queue says unless said
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one run may take; as its queue says unless said
    #[arg(long, value_name = "MS")]
    deadline_ms: Option<u64>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// A word that has one spelling, the one of the wire.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// Does what was asked for.
pub(crate) async fn run(args: Schedules, session: &Session) -> Result<(), Problem> {
    match args {
        Schedules::Set(set) => change(*set, session).await,
        Schedules::Show { name } => show(&name, session).await,
        Schedules::List { after, most } => list(after.as_ref(), usize::from(most), session).await,
        Schedules::Pause(Named { name, reason }) => {
            session.because(reason.as_deref()).bursar.schedules().pause(&name).await?;
            show(&name, session).await
        }
        Schedules::Resume(Named { name, reason }) => {
            session.because(reason.as_deref()).bursar.schedules().resume(&name).await?;
            show(&name, session).await
        }
        Schedules::Run(Named { name, reason }) => {
            let job = session.because(reason.as_deref()).bursar.schedules().run(&name).await?;
            session.out.data(&json!({ "name": name, "job": job }), || format!("{job} enqueued"))
        }
        Schedules::Remove(Named { name, reason }) => {
            session.because(reason.as_deref()).bursar.schedules().remove(&name).await?;
            session.out.data(&json!({ "name": name, "removed": true }), || format!("{name} removed"))
        }
    }
}

async fn change(set: Set, session: &Session) -> Result<(), Problem> {
    let session = &session.because(set.reason.as_deref());
    let schedules = session.bursar.schedules();
    let name = set.name.clone();
    let spec = match &set.file {
        Some(path) => wire::read::<ScheduleBody>(&super::input(path)?)?.try_into()?,
        None => match schedules.find(&name).await? {
            Some(known) => changed(known.spec, set),
            None => changed(fresh(&set)?, set),
        },
    };
    schedules.define(&name, spec).await?;
    show(&name, session).await
}

/// A new one from what must be said.
fn fresh(set: &Set) -> Result<ScheduleSpec, Invalid> {
    let lacks = |field: &'static str| Invalid::new(field, "is needed: there is no such schedule yet");
    let cron = set.cron.clone().ok_or_else(|| lacks("cron"))?;
    let queue = set.queue.clone().ok_or_else(|| lacks("queue"))?;
    let kind = set.kind.clone().ok_or_else(|| lacks("kind"))?;
    Ok(ScheduleSpec::new(cron, Zone::utc(), JobSpec::new(queue, kind, Payload::default())))
}

fn changed(spec: ScheduleSpec, set: Set) -> ScheduleSpec {
    let ScheduleSpec { cron, zone, job, missed, overlap, paused } = spec;
    ScheduleSpec {
        cron: set.cron.unwrap_or(cron),
        zone: set.zone.unwrap_or(zone),
        missed: set.missed.unwrap_or(missed),
        overlap: set.overlap.unwrap_or(overlap),
        paused,
        job: JobSpec {
            queue: set.queue.unwrap_or(job.queue),
            kind: set.kind.unwrap_or(job.kind),
            payload: set.payload.unwrap_or(job.payload),
            key: set.flow_key.or(job.key),
            tags: if set.tags.is_empty() { job.tags } else { set.tags },
            priority: set.priority.unwrap_or(job.priority),
            delay: set.delay_ms.map_or(job.delay, Span::from_millis),
            max_attempts: set.max_attempts.or(job.max_attempts),
            deadline: set.deadline_ms.map(Span::from_millis).or(job.deadline),
            ..job
        },
    }
}

async fn list(after: Option<&ScheduleName>, most: usize, session: &Session) -> Result<(), Problem> {
    let found = session.bursar.schedules().list(after, most).await?;
    let answers = found.iter().map(|(name, schedule)| ScheduleAnswer::of(name.clone(), schedule)).collect();
    session.out.data(&Page::of(answers, most, |schedule: &ScheduleAnswer| schedule.name.to_string()), || {
        let rows = found.iter().map(|(name, Schedule { spec, next_at, last_tick, .. })| {
            vec![
                name.to_string(),
                spec.cron.to_string(),
                spec.zone.to_string(),
                spec.job.queue.to_string(),
                spec.job.kind.to_string(),
                if spec.paused { "paused".to_owned() } else { cell(stamp(*next_at)) },
                cell(*last_tick),
            ]
        });
        table(&["SCHEDULE", "CRON", "ZONE", "QUEUE", "KIND", "NEXT", "LAST"], &rows.collect::<Vec<_>>())
    })
}

async fn show(name: &ScheduleName, session: &Session) -> Result<(), Problem> {
    let found = session.bursar.schedules().find(name).await?;
    let schedule = found.ok_or_else(|| Problem::not_found(format_args!("schedule {name}")))?;
    session.out.data(&ScheduleAnswer::of(name.clone(), &schedule), || {
        let Schedule { spec, next_at, last_tick, last_job, .. } = &schedule;
        let lines = [
            format!("schedule   {name}{}", if spec.paused { " (paused)" } else { "" }),
            format!("cron       {} on the clocks of {}", spec.cron, spec.zone),
            format!("queue      {}", spec.job.queue),
            format!("kind       {}", spec.job.kind),
            format!("payload    {}", spec.job.payload.as_str()),
            format!("missed     {}", spelled(&spec.missed)),
            format!("overlap    {}", spelled(&spec.overlap)),
            format!("next tick  {}", cell(stamp(*next_at))),
            format!("last tick  {}", cell(*last_tick)),
            format!("last job   {}", cell(*last_job)),
        ];
        lines.join("\n")
    })
}

/// A word as it is spelled on the wire.
fn spelled(word: &impl serde::Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}
