//! `bursar queue`.

use bursar::{Invalid, JobState, Queue, Rate, Span};
use clap::{Args, Subcommand};

use crate::args::Most;
use crate::commands::millis;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::problem::Problem;
use bursar_server::wire::queue::{FiguresAnswer, QueueAnswer, QueueBody, RateBody};
use bursar_server::wire::{self, Page};

/// What can be done with queues.
#[derive(Subcommand)]
pub(crate) enum Queues {
    /// Queues with what is in them, by name
    List {
        /// Only those after this name
        #[arg(long, value_name = "NAME")]
        after: Option<Queue>,
        #[command(flatten)]
        most: Most,
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
    let queues = session.client.queues();
    match args {
        Queues::List { after, most } => list(after.as_ref(), usize::from(most), session).await,
        Queues::Show { name, minutes } => show(&*queues.show(&name, Some(minutes)).await?, session),
        Queues::Set(set) => change(set, session).await,
        Queues::Pause { name, reason } => show(&*queues.pause(&name, reason.as_deref()).await?, session),
        Queues::Resume { name, reason } => show(&*queues.resume(&name, reason.as_deref()).await?, session),
    }
}

async fn change(set: Set, session: &Session) -> Result<(), Problem> {
    let (client, body) = match &set.file {
        Some(path) => (session.client.clone(), wire::read::<QueueBody>(&super::input(path)?)?),
        None => {
            // What is not said stays as it is, and is not taken back if somebody else changes it meanwhile.
            let known = session.client.queues().show(&set.name, None).await?;
            let client = known.etag().map_or_else(|| session.client.clone(), |etag| session.client.if_match(etag));
            (client, changed(known.into_inner().config, &set))
        }
    };
    let body = QueueBody { reason: set.reason.or(body.reason), ..body };
    show(&*client.queues().define(&set.name, &body).await?, session)
}

fn changed(mut body: QueueBody, set: &Set) -> QueueBody {
    let rate = |rate: Rate| RateBody { amount: rate.amount, per_ms: rate.per.millis() };
    if let Some(Maybe(most)) = set.concurrency {
        body.concurrency = most;
    }
    if let Some(Maybe(said)) = set.rate {
        body.rate = said.map(rate);
    }
    if let Some(Maybe(most)) = set.key_concurrency {
        body.key_concurrency = most;
    }
    if let Some(Maybe(said)) = set.key_rate {
        body.key_rate = said.map(rate);
    }
    if let Some(attempts) = set.max_attempts {
        body.retry.max_attempts = attempts;
    }
    if let Some(lease) = set.lease_ms {
        body.lease_ms = millis(lease);
    }
    if let Some(Maybe(deadline)) = set.deadline_ms {
        body.deadline_ms = deadline.map(millis);
    }
    body
}

async fn list(after: Option<&Queue>, most: usize, session: &Session) -> Result<(), Problem> {
    let queues = session.client.queues();
    let listed = queues.list(after.map(Queue::as_str), most).await?.into_inner();
    let mut items = Vec::with_capacity(listed.items.len());
    for queue in listed.items {
        items.push(queues.show(&queue.name, Some(1)).await?.into_inner());
    }
    let page = Page { items, next: listed.next };
    session.out.data(&page, || {
        let rows = page.items.iter().map(|queue| {
            let states =
                [JobState::Queued, JobState::Scheduled, JobState::Leased, JobState::AwaitingBudget, JobState::Dead];
            let is = if queue.config.paused { "paused" } else { "open" };
            let mut row = vec![queue.name.to_string(), is.to_owned()];
            row.extend(states.map(|state| count(queue.figures.as_ref(), state)));
            row
        });
        table(&["QUEUE", "IS", "QUEUED", "SCHEDULED", "LEASED", "AWAITING", "DEAD"], &rows.collect::<Vec<_>>())
    })
}

fn count(figures: Option<&FiguresAnswer>, state: JobState) -> String {
    figures.and_then(|figures| figures.states.get(state.as_str())).map_or("-".into(), ToString::to_string)
}

fn show(queue: &QueueAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(queue, || {
        let QueueAnswer { name, config, figures } = queue;
        let rate = |rate: Option<RateBody>| cell(rate.map(|rate| format!("{} in {} ms", rate.amount, rate.per_ms)));
        let oldest = |of: fn(&FiguresAnswer) -> Option<&String>| cell(figures.as_ref().and_then(of));
        let mut lines = vec![
            format!("queue            {name}{}", if config.paused { " (paused)" } else { "" }),
            format!("concurrency      {}", cell(config.concurrency)),
            format!("rate             {}", rate(config.rate)),
            format!("key concurrency  {}", cell(config.key_concurrency)),
            format!("key rate         {}", rate(config.key_rate)),
            format!("attempts         {}", config.retry.max_attempts),
            format!("lease            {} ms", config.lease_ms),
            format!("deadline         {}", cell(config.deadline_ms.map(|span| format!("{span} ms")))),
            format!("oldest waiting   {}", oldest(|figures| figures.oldest_waiting.as_ref())),
            format!("oldest lease     {}", oldest(|figures| figures.oldest_lease.as_ref())),
        ];
        lines.extend(JobState::ALL.map(|state| format!("{:<16} {}", state.as_str(), count(figures.as_ref(), state))));
        lines.extend(figures.as_ref().map(|figures| {
            format!(
                "last {} min: {} enqueued, {} succeeded, {} cancelled, {} died, {} attempts failed",
                figures.over_ms / 60_000,
                figures.enqueued,
                figures.succeeded,
                figures.cancelled,
                figures.dead,
                figures.failed_attempts
            )
        }));
        lines.join("\n")
    })
}
