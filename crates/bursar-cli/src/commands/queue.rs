//! `bursar queue`.

use bursar::{Invalid, JobState, Queue, Rate, Span};
use bursar_client::FiguresPeriod;
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::queue::{FiguresAnswer, QueueAnswer, QueueBody, RateBody};
use clap::{Args, Subcommand};

use crate::args::{PageSize, duration, whole};
use crate::context::Context;
use crate::input::read_input;
use crate::moment::distance;
use crate::output::{cell, table};
use crate::suggest;

/// The subcommands of `bursar queue`.
#[derive(Subcommand)]
pub(crate) enum Queues {
    /// List queues and their job counts, by name
    List {
        /// Start after this queue
        #[arg(long, value_name = "NAME")]
        after: Option<Queue>,
        #[command(flatten)]
        most: PageSize,
    },
    /// Show the settings and figures of a queue
    Show {
        /// Queue name
        name: Queue,
        /// Minutes to count recent activity over
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = |text: &str| whole::<u32>(text, 1..=1_440))]
        minutes: u32,
    },
    /// Change settings of a queue; settings not given stay as they are
    Set(Set),
    /// Stop leasing jobs from a queue
    Pause {
        /// Queue name
        name: Queue,
        /// Pause a queue that has neither jobs nor settings yet
        #[arg(long)]
        create: bool,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// Lease jobs from a paused queue again
    Resume {
        /// Queue name
        name: Queue,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
    },
}

/// The settings to change; `none` removes a limit.
#[derive(Args)]
pub(crate) struct Set {
    /// Queue name
    name: Queue,
    /// JSON file with all settings; - reads standard input; settings not in it get their defaults
    #[arg(long, value_name = "PATH", conflicts_with_all = ["concurrency", "rate", "key_concurrency", "key_rate", "max_attempts", "lease", "deadline", "keep_succeeded", "keep_cancelled", "keep_dead"])]
    file: Option<String>,
    /// Maximum number of jobs leased at once
    #[arg(long, value_name = "N|none", value_parser = number_or_none::<u32>)]
    concurrency: Option<NewValue<u32>>,
    /// Maximum rate of leases: 100/s, or 30/10m
    #[arg(long, value_name = "N/DURATION|none", value_parser = rate_or_none)]
    rate: Option<NewValue<Rate>>,
    /// Maximum number of jobs of one flow key leased at once
    #[arg(long, value_name = "N|none", value_parser = number_or_none::<u32>)]
    key_concurrency: Option<NewValue<u32>>,
    /// Maximum rate of leases of one flow key
    #[arg(long, value_name = "N/DURATION|none", value_parser = rate_or_none)]
    key_rate: Option<NewValue<Rate>>,
    /// Failed attempts after which a job is dead
    #[arg(long, value_name = "N", value_parser = |text: &str| whole::<u32>(text, 1..=u32::MAX))]
    max_attempts: Option<u32>,
    /// Time after which a lease without a heartbeat expires
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    lease: Option<Span>,
    /// Maximum duration of one attempt
    #[arg(long, value_name = "DURATION|none", value_parser = duration_or_none)]
    deadline: Option<NewValue<Span>>,
    /// How long succeeded jobs are kept; none: for ever
    #[arg(long, value_name = "DURATION|none", value_parser = duration_or_none)]
    keep_succeeded: Option<NewValue<Span>>,
    /// How long cancelled jobs are kept; none: for ever
    #[arg(long, value_name = "DURATION|none", value_parser = duration_or_none)]
    keep_cancelled: Option<NewValue<Span>>,
    /// How long dead jobs are kept; none: for ever
    #[arg(long, value_name = "DURATION|none", value_parser = duration_or_none)]
    keep_dead: Option<NewValue<Span>>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// A new value, or `none` to remove the setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewValue<T>(Option<T>);

fn number_or_none<T: std::str::FromStr>(text: &str) -> Result<NewValue<T>, Invalid> {
    match text {
        "none" => Ok(NewValue(None)),
        text => {
            let parsed = text.parse().map_err(|_| Invalid::new("value", "must be a whole number or none"));
            parsed.map(|value| NewValue(Some(value)))
        }
    }
}

fn rate_or_none(text: &str) -> Result<NewValue<Rate>, Invalid> {
    if text == "none" {
        return Ok(NewValue(None));
    }
    let parts = text.split_once('/').and_then(|(amount, per)| Some((amount.parse().ok()?, period(per)?)));
    let form = || Invalid::new("rate", "must be N/DURATION, such as 100/s or 30/10m, or none");
    let (amount, per) = parts.ok_or_else(form)?;
    Ok(NewValue(Some(Rate { amount, per })))
}

/// Parses the period of a rate: `s`, `10m`, or milliseconds.
fn period(text: &str) -> Option<Span> {
    match text.parse() {
        Ok(millis) => Some(Span::from_millis(millis)),
        Err(_) if text.starts_with(|sign: char| sign.is_ascii_digit()) => text.parse().ok(),
        Err(_) => format!("1{text}").parse().ok(),
    }
}

fn duration_or_none(text: &str) -> Result<NewValue<Span>, String> {
    match text {
        "none" => Ok(NewValue(None)),
        text => duration(text).map(|span| NewValue(Some(span))).map_err(|problem| format!("{problem}, or none")),
    }
}

/// Runs the command.
pub(crate) async fn run(args: Queues, context: &Context) -> Result<(), Problem> {
    let queues = context.client.queues();
    match args {
        Queues::List { after, most } => list(after.as_ref(), usize::from(most), context).await,
        Queues::Show { name, minutes } => {
            suggest::require_queue(&name, "", context).await?;
            show(&*queues.show(&name, Some(minutes)).await?, context)
        }
        Queues::Set(set) => change(set, context).await,
        Queues::Pause { name, create, reason } => {
            if !create {
                let instead = "; nothing was changed; --create pauses it before its first job";
                suggest::require_queue(&name, instead, context).await?;
            }
            show(&*queues.pause(&name, reason.as_deref()).await?, context)
        }
        Queues::Resume { name, reason } => {
            suggest::require_queue(&name, "", context).await?;
            show(&*queues.resume(&name, reason.as_deref()).await?, context)
        }
    }
}

async fn change(set: Set, context: &Context) -> Result<(), Problem> {
    suggest::warn_of_new_queue(&set.name, context).await;
    let (client, body) = match &set.file {
        Some(path) => (context.client.clone(), bursar_wire::read::<QueueBody>(&read_input(path)?)?),
        None => {
            // The other settings stay as they are. If-Match keeps this from overwriting a concurrent change.
            match context.client.queues().show(&set.name, None).await {
                Ok(current) => {
                    let client = &context.client;
                    let client = current.etag().map_or_else(|| client.clone(), |etag| client.if_match(etag));
                    (client, changed(current.into_inner().config, &set))
                }
                Err(error) if error.kind() == Some(Kind::NotFound) => {
                    (context.client.clone(), changed(QueueBody::default(), &set))
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    let body = QueueBody { reason: set.reason.or(body.reason), ..body };
    show(&*client.queues().define(&set.name, &body).await?, context)
}

fn changed(mut body: QueueBody, set: &Set) -> QueueBody {
    let rate = |rate: Rate| RateBody { amount: rate.amount, per_ms: rate.per.millis() };
    if let Some(NewValue(most)) = set.concurrency {
        body.concurrency = most;
    }
    if let Some(NewValue(new)) = set.rate {
        body.rate = new.map(rate);
    }
    if let Some(NewValue(most)) = set.key_concurrency {
        body.key_concurrency = most;
    }
    if let Some(NewValue(new)) = set.key_rate {
        body.key_rate = new.map(rate);
    }
    if let Some(attempts) = set.max_attempts {
        body.retry.max_attempts = attempts;
    }
    if let Some(lease) = set.lease {
        body.lease_ms = lease.millis();
    }
    if let Some(NewValue(deadline)) = set.deadline {
        body.deadline_ms = deadline.map(Span::millis);
    }
    let kept = &mut body.retention;
    for (flag, field) in [
        (set.keep_succeeded, &mut kept.succeeded_ms),
        (set.keep_cancelled, &mut kept.cancelled_ms),
        (set.keep_dead, &mut kept.dead_ms),
    ] {
        if let Some(NewValue(time)) = flag {
            *field = time.map(Span::millis);
        }
    }
    body
}

async fn list(after: Option<&Queue>, most: usize, context: &Context) -> Result<(), Problem> {
    let period = FiguresPeriod { minutes: Some(1), series: false };
    let page = context.client.queues().list_over(period, after.map(Queue::as_str), most).await?;
    context.out.data(&*page, || {
        let rows = page.items.iter().map(|queue| {
            let states =
                [JobState::Queued, JobState::Scheduled, JobState::Leased, JobState::AwaitingBudget, JobState::Dead];
            let state = if queue.config.paused { "paused" } else { "active" };
            let mut row = vec![queue.name.to_string(), state.to_owned()];
            row.extend(states.map(|state| count(&queue.figures, state)));
            row
        });
        table(
            &["QUEUE", "STATE", "QUEUED", "SCHEDULED", "LEASED", "AWAITING BUDGET", "DEAD"],
            &rows.collect::<Vec<_>>(),
        )
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn span(millis: i64) -> Span {
    Span::from_millis(millis.unsigned_abs())
}

fn count(figures: &FiguresAnswer, state: JobState) -> String {
    figures.states.get(state.as_str()).map_or("-".into(), ToString::to_string)
}

fn show(queue: &QueueAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(queue, || {
        let QueueAnswer { name, config, figures } = queue;
        let rate = |rate: Option<RateBody>| cell(rate.map(|rate| format!("{} per {}", rate.amount, span(rate.per_ms))));
        let kept = |time: Option<i64>| time.map_or("for ever".to_owned(), |millis| span(millis).to_string());
        let mut lines = vec![
            format!("queue            {name}{}", if config.paused { " (paused)" } else { "" }),
            format!("concurrency      {}", cell(config.concurrency)),
            format!("rate             {}", rate(config.rate)),
            format!("key concurrency  {}", cell(config.key_concurrency)),
            format!("key rate         {}", rate(config.key_rate)),
            format!("attempts         {}", config.retry.max_attempts),
            format!("lease            {}", span(config.lease_ms)),
            format!("deadline         {}", cell(config.deadline_ms.map(span))),
            format!("keep succeeded   {}", kept(config.retention.succeeded_ms)),
            format!("keep cancelled   {}", kept(config.retention.cancelled_ms)),
            format!("keep dead        {}", kept(config.retention.dead_ms)),
            format!("oldest waiting   {}", distance(figures.oldest_waiting.as_ref())),
            format!("oldest lease     {}", distance(figures.oldest_lease.as_ref())),
        ];
        lines.extend(JobState::ALL.map(|state| format!("{:<16} {}", state.as_str(), count(figures, state))));
        lines.push(format!(
            "last {} min: {} enqueued, {} succeeded, {} cancelled, {} dead, {} failed attempts",
            figures.over_ms / 60_000,
            figures.enqueued,
            figures.succeeded,
            figures.cancelled,
            figures.dead,
            figures.failed_attempts
        ));
        lines.join("\n")
    })
}
