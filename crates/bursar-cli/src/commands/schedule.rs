//! `bursar schedule`.

use bursar::{
    Cron, FlowKey, Invalid, JobKind, JobSpec, MissedTicks, Overlap, Payload, Queue, ScheduleName, ScheduleSpec, Tag,
    Zone,
};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::args::Most;
use crate::commands::job::payload;
use crate::commands::millis;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::problem::{Kind, Problem};
use bursar_server::wire::schedule::{ScheduleAnswer, ScheduleBody};
use bursar_server::wire::{self, Page};

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
        #[command(flatten)]
        most: Most,
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
    let schedules = session.client.schedules();
    match args {
        Schedules::Set(set) => change(*set, session).await,
        Schedules::Show { name } => show(&*schedules.show(&name).await?, session),
        Schedules::List { after, most } => {
            list(&*schedules.list(after.as_ref().map(ScheduleName::as_str), usize::from(most)).await?, session)
        }
        Schedules::Pause(Named { name, reason }) => show(&*schedules.pause(&name, reason.as_deref()).await?, session),
        Schedules::Resume(Named { name, reason }) => show(&*schedules.resume(&name, reason.as_deref()).await?, session),
        Schedules::Run(Named { name, reason }) => {
            let job = schedules.run(&name, reason.as_deref()).await?.id;
            session.out.data(&json!({ "name": name, "job": job }), || format!("{job} enqueued"))
        }
        Schedules::Remove(Named { name, reason }) => {
            schedules.remove(&name, reason.as_deref()).await?;
            session.out.data(&json!({ "name": name, "removed": true }), || format!("{name} removed"))
        }
    }
}

async fn change(set: Set, session: &Session) -> Result<(), Problem> {
    let (name, reason) = (set.name.clone(), set.reason.clone());
    let (client, body) = match &set.file {
        Some(path) => (session.client.clone(), wire::read::<ScheduleBody>(&super::input(path)?)?),
        None => match session.client.schedules().show(&name).await {
            // What is not said stays as it is, and is not taken back if somebody else changes it meanwhile.
            Ok(known) => {
                let client = known.etag().map_or_else(|| session.client.clone(), |etag| session.client.if_match(etag));
                (client, changed(known.into_inner().spec, set))
            }
            Err(error) if error.kind() == Some(Kind::NotFound) => {
                let fresh = fresh(&set)?;
                (session.client.clone(), changed(fresh, set))
            }
            Err(error) => return Err(error.into()),
        },
    };
    let body = ScheduleBody { reason: reason.or(body.reason), ..body };
    show(&*client.schedules().define(&name, &body).await?, session)
}

/// A new one from what must be said.
fn fresh(set: &Set) -> Result<ScheduleBody, Invalid> {
    let lacks = |field: &'static str| Invalid::new(field, "is needed: there is no such schedule yet");
    let cron = set.cron.clone().ok_or_else(|| lacks("cron"))?;
    let queue = set.queue.clone().ok_or_else(|| lacks("queue"))?;
    let kind = set.kind.clone().ok_or_else(|| lacks("kind"))?;
    let job = JobSpec::new(queue, kind, Payload::default());
    Ok(ScheduleBody::from(&ScheduleSpec::new(cron, Zone::utc(), job)))
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
        delay_ms: set.delay_ms.map_or(spec.delay_ms, millis),
        max_attempts: set.max_attempts.or(spec.max_attempts),
        deadline_ms: set.deadline_ms.map(millis).or(spec.deadline_ms),
        ..spec
    }
}

fn list(page: &Page<ScheduleAnswer>, session: &Session) -> Result<(), Problem> {
    session.out.data(page, || {
        let rows = page.items.iter().map(|ScheduleAnswer { name, spec, next_at, last_tick, .. }| {
            vec![
                name.to_string(),
                spec.cron.to_string(),
                spec.zone.clone(),
                spec.queue.to_string(),
                spec.kind.to_string(),
                if spec.paused { "paused".to_owned() } else { cell(next_at.as_ref()) },
                cell(last_tick.as_ref()),
            ]
        });
        table(&["SCHEDULE", "CRON", "ZONE", "QUEUE", "KIND", "NEXT", "LAST"], &rows.collect::<Vec<_>>())
    })
}

fn show(schedule: &ScheduleAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(schedule, || {
        let ScheduleAnswer { name, spec, next_at, last_tick, last_job } = schedule;
        let lines = [
            format!("schedule   {name}{}", if spec.paused { " (paused)" } else { "" }),
            format!("cron       {} on the clocks of {}", spec.cron, spec.zone),
            format!("queue      {}", spec.queue),
            format!("kind       {}", spec.kind),
            format!("payload    {}", spec.payload.as_str()),
            format!("missed     {}", spelled(&spec.missed)),
            format!("overlap    {}", spelled(&spec.overlap)),
            format!("next tick  {}", cell(next_at.as_ref())),
            format!("last tick  {}", cell(last_tick.as_ref())),
            format!("last job   {}", cell(*last_job)),
        ];
        lines.join("\n")
    })
}

/// A word as it is spelled on the wire.
fn spelled(word: &impl serde::Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}
