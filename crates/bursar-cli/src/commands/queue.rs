//! `bursar queue`.

use bursar::{Invalid, JobState, Queue, QueueConfig, Rate, Span};
use clap::{Args, Subcommand};

use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::problem::Problem;
use bursar_server::wire::queue::{QueueAnswer, QueueBody};
use bursar_server::wire::{self, Page};

/// What can be done with queues.
#[derive(Subcommand)]
pub(crate) enum Queues {
    /// Queues with what is in them, by name
    List {
        /// Only those after this name
        #[arg(long, value_name = "NAME")]
        after: Option<Queue>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        most: u16,
    },
    /// What is set for a queue, and its figures
    Show {
        /// Which one
        name: Queue,
        /// Count what happened in the last so many minutes
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1440))]
        minutes: u32,
    },
    /// Change what is set for a queue; the rest stays as it is
    Set(Set),
    /// Lease nothing more from a queue
    Pause {
        /// Which one
        name: Queue,
        /// Why, for the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// Lease from it again
    Resume {
        /// Which one
        name: Queue,
        /// Why, for the journal
        #[arg(long)]
        reason: Option<String>,
    },
}

/// What is to be set. `none` takes a limit away.
#[derive(Args)]
pub(crate) struct Set {
    /// Which one
    name: Queue,
    /// Everything at once, as JSON, from a file or - for standard input; what it does not say gets its default
    #[arg(long, value_name = "PATH", conflicts_with_all = ["concurrency", "rate", "key_concurrency", "key_rate", "max_attempts", "lease_ms", "deadline_ms"])]
    file: Option<String>,
    /// Jobs that are leased at once, at most
    #[arg(long, value_name = "N|none", value_parser = maybe::<u32>)]
    concurrency: Option<Maybe<u32>>,
    /// Leases in a time, at most: 100/1000 is a hundred in 1000 ms
    #[arg(long, value_name = "N/MS|none", value_parser = maybe_rate)]
    rate: Option<Maybe<Rate>>,
    /// Jobs of one flow key that are leased at once, at most
    #[arg(long, value_name = "N|none", value_parser = maybe::<u32>)]
    key_concurrency: Option<Maybe<u32>>,
    /// Leases of one flow key in a time, at most
    #[arg(long, value_name = "N/MS|none", value_parser = maybe_rate)]
    key_rate: Option<Maybe<Rate>>,
    /// After so many failed attempts a job is dead
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long a lease lasts without a heartbeat
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
    /// How long one run may take
    #[arg(long, value_name = "MS|none", value_parser = maybe::<u64>)]
    deadline_ms: Option<Maybe<u64>>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// Something, or explicitly nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maybe<T>(Option<T>);

fn maybe<T: std::str::FromStr>(text: &str) -> Result<Maybe<T>, Invalid> {
    match text {
        "none" => Ok(Maybe(None)),
        text => {
            let parsed = text.parse().map_err(|_| Invalid::new("value", "must be a whole number or none"));
            parsed.map(|value| Maybe(Some(value)))
        }
    }
}

fn maybe_rate(text: &str) -> Result<Maybe<Rate>, Invalid> {
    if text == "none" {
        return Ok(Maybe(None));
    }
    let parts = text.split_once('/').and_then(|(amount, per)| Some((amount.parse().ok()?, per.parse().ok()?)));
    let (amount, per) = parts.ok_or_else(|| Invalid::new("rate", "must be N/MS, such as 100/1000, or none"))?;
    Ok(Maybe(Some(Rate { amount, per: Span::from_millis(per) })))
}

/// Does what was asked for.
pub(crate) async fn run(args: Queues, session: &Session) -> Result<(), Problem> {
    match args {
        Queues::List { after, most } => list(after.as_ref(), usize::from(most), session).await,
        Queues::Show { name, minutes } => show(&name, minutes, session).await,
        Queues::Set(set) => change(set, session).await,
        Queues::Pause { name, reason } => {
            session.because(reason.as_deref()).bursar.queues().pause(&name).await?;
            show(&name, 60, session).await
        }
        Queues::Resume { name, reason } => {
            session.because(reason.as_deref()).bursar.queues().resume(&name).await?;
            show(&name, 60, session).await
        }
    }
}

async fn change(set: Set, session: &Session) -> Result<(), Problem> {
    let session = &session.because(set.reason.as_deref());
    let queues = session.bursar.queues();
    let config = match &set.file {
        Some(path) => wire::read::<QueueBody>(&super::input(path)?)?.try_into()?,
        None => changed(queues.get(&set.name).await?, &set),
    };
    queues.define(&set.name, config).await?;
    show(&set.name, 60, session).await
}

fn changed(mut config: QueueConfig, set: &Set) -> QueueConfig {
    if let Some(Maybe(most)) = set.concurrency {
        config.concurrency = most;
    }
    if let Some(Maybe(rate)) = set.rate {
        config.rate = rate;
    }
    if let Some(Maybe(most)) = set.key_concurrency {
        config.key_concurrency = most;
    }
    if let Some(Maybe(rate)) = set.key_rate {
        config.key_rate = rate;
    }
    if let Some(attempts) = set.max_attempts {
        config.retry.max_attempts = attempts;
    }
    if let Some(lease) = set.lease_ms {
        config.lease = Span::from_millis(lease);
    }
    if let Some(Maybe(deadline)) = set.deadline_ms {
        config.deadline = deadline.map(Span::from_millis);
    }
    config
}

async fn list(after: Option<&Queue>, most: usize, session: &Session) -> Result<(), Problem> {
    let queues = session.bursar.queues();
    let mut found = Vec::new();
    for (name, config) in queues.list(after, most).await? {
        let figures = queues.figures(&name, 1).await?;
        found.push((name, config, figures));
    }
    let answer =
        |(name, config, figures): &(Queue, QueueConfig, _)| QueueAnswer::of(name.clone(), config, Some(figures));
    let page = Page::of(found.iter().map(answer).collect(), most, |queue: &QueueAnswer| queue.name.to_string());
    session.out.data(&page, || {
        let rows = found.iter().map(|(name, config, figures)| {
            let counts =
                [JobState::Queued, JobState::Scheduled, JobState::Leased, JobState::AwaitingBudget, JobState::Dead];
            let mut row = vec![name.to_string(), if config.paused { "paused" } else { "open" }.to_owned()];
            row.extend(counts.map(|state| figures.count(state).to_string()));
            row
        });
        table(&["QUEUE", "IS", "QUEUED", "SCHEDULED", "LEASED", "AWAITING", "DEAD"], &rows.collect::<Vec<_>>())
    })
}

async fn show(name: &Queue, minutes: u32, session: &Session) -> Result<(), Problem> {
    let queues = session.bursar.queues();
    let (config, figures) = (queues.get(name).await?, queues.figures(name, minutes).await?);
    session.out.data(&QueueAnswer::of(name.clone(), &config, Some(&figures)), || {
        let rate = |rate: Option<Rate>| cell(rate.map(|rate| format!("{} in {} ms", rate.amount, rate.per.millis())));
        let mut lines = vec![
            format!("queue            {name}{}", if config.paused { " (paused)" } else { "" }),
            format!("concurrency      {}", cell(config.concurrency)),
            format!("rate             {}", rate(config.rate)),
            format!("key concurrency  {}", cell(config.key_concurrency)),
            format!("key rate         {}", rate(config.key_rate)),
            format!("attempts         {}", config.retry.max_attempts),
            format!("lease            {} ms", config.lease.millis()),
            format!("deadline         {}", cell(config.deadline.map(|span| format!("{} ms", span.millis())))),
            format!("oldest waiting   {}", cell(figures.oldest_waiting)),
            format!("oldest lease     {}", cell(figures.oldest_lease)),
        ];
        lines.extend(JobState::ALL.map(|state| format!("{:<16} {}", state.as_str(), figures.count(state))));
        lines.push(format!(
            "last {minutes} min: {} enqueued, {} succeeded, {} cancelled, {} died, {} attempts failed",
            figures.enqueued, figures.succeeded, figures.cancelled, figures.dead, figures.failed_attempts
        ));
        lines.join("\n")
    })
}
