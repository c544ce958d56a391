//! `bursar top`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use bursar::{JobState, Unit};
use bursar_client::{Client, Error, FiguresPeriod, JobQuery};
use bursar_wire::budget::{BalanceAnswer, BudgetAnswer};
use bursar_wire::problem::Problem;
use bursar_wire::queue::QueueAnswer;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use crate::context::Context;
use crate::moment::distance;
use crate::output::{sanitized, table};

/// The arguments of `bursar top`.
#[derive(Args)]
pub(crate) struct Top {
    /// Print once and exit
    #[arg(long)]
    once: bool,
}

/// How often the screen is updated.
const INTERVAL: Duration = Duration::from_secs(1);
/// Rows per table, so that all tables fit on a screen.
const ROWS_MAX: usize = 8;
/// Queues that are read; each takes a request.
const QUEUES_MAX: usize = 50;
/// Running jobs, and budgets, that are read.
const ITEMS_MAX: usize = 1_000;
/// Minutes that rates are averaged over.
const RATE_MINUTES: u32 = 5;
/// The percentage of use from which a budget is near its limit.
const NEAR_PERCENT: i64 = 50;

/// A snapshot of queues, workers and budgets.
#[derive(Serialize)]
struct View {
    queues: Vec<QueueRow>,
    workers: Vec<WorkerRow>,
    budgets: Vec<BudgetRow>,
    /// Whether there are more queues, jobs or budgets than were read.
    more: bool,
}

/// A queue with its job counts and rates.
#[derive(Serialize)]
struct QueueRow {
    name: String,
    paused: bool,
    waiting: i64,
    scheduled: i64,
    awaiting_budget: i64,
    leased: i64,
    dead: i64,
    enqueued_per_minute: f64,
    succeeded_per_minute: f64,
    failed_per_minute: f64,
    oldest_waiting: Option<String>,
}

/// A worker with its leases.
#[derive(Serialize)]
struct WorkerRow {
    name: String,
    leased: usize,
    queues: Vec<String>,
    /// When its oldest lease began.
    since: Option<String>,
}

/// A budget that is frozen or near one of its limits.
#[derive(Serialize)]
struct BudgetRow {
    scope: String,
    window: String,
    /// The window with the amounts of a bucket in the unit.
    #[serde(skip)]
    shown_window: String,
    used_percent: i64,
    limit: i64,
    posted: i64,
    held: i64,
    remaining: i64,
    frozen: bool,
    #[serde(skip)]
    unit: Unit,
}

/// Runs the command: prints one snapshot, or updates the screen until Ctrl-C.
pub(crate) async fn run(args: Top, context: &Context) -> Result<(), Problem> {
    if args.once {
        let view = load(&context.client).await?;
        return context.out.data(&view, || rendered(&view));
    }
    let screen = Screen::open(context);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            _ = &mut stopped => return Ok(()),
            _ = ticks.tick() => {}
        }
        let loaded = tokio::select! {
            _ = &mut stopped => return Ok(()),
            loaded = load(&context.client) => loaded,
        };
        match loaded {
            Ok(view) => screen.show(&view, context)?,
            // Keep running through an outage.
            Err(error) if error.is_transient() => screen.show_error(&error.to_string(), context),
            Err(error) => return Err(error.into()),
        }
        if context.out.reader_is_gone() {
            return Ok(());
        }
    }
}

/// Where snapshots go: a terminal, which is redrawn in place, or a pipe, which gets one after the other.
struct Screen {
    terminal: bool,
}

impl Screen {
    fn open(context: &Context) -> Screen {
        let screen = Screen { terminal: std::io::stdout().is_terminal() && !context.out.is_json() };
        // The alternate screen, without a cursor; the previous contents come back when the screen is dropped.
        screen.write_codes("\x1b[?1049h\x1b[?25l");
        screen
    }

    fn show(&self, view: &View, context: &Context) -> Result<(), Problem> {
        if !self.terminal {
            return if context.out.is_json() {
                context.out.json_line(view)
            } else {
                context.out.text(&(rendered(view) + "\n"))
            };
        }
        self.paint(&format!("{}\n\nPress Ctrl-C to quit", rendered(view)));
        Ok(())
    }

    fn show_error(&self, error: &str, context: &Context) {
        match self.terminal {
            true => self.paint(&format!("{error}\n\nretrying; press Ctrl-C to quit")),
            false => context.out.note(error),
        }
    }

    /// Overwrites the screen line by line, which does not flicker.
    fn paint(&self, text: &str) {
        let lines: String = sanitized(text).lines().map(|line| format!("{line}\x1b[K\r\n")).collect();
        self.write_codes(&format!("\x1b[H{lines}\x1b[J"));
    }

    fn write_codes(&self, codes: &str) {
        if self.terminal {
            let mut out = std::io::stdout();
            let _ = write!(out, "{codes}").and_then(|()| out.flush());
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.write_codes("\x1b[?25h\x1b[?1049l");
    }
}

async fn load(client: &Client) -> Result<View, Error> {
    let period = FiguresPeriod { minutes: Some(RATE_MINUTES), series: false };
    let listed = client.queues().list_over(period, None, QUEUES_MAX).await?.into_inner();
    let mut queues: Vec<QueueRow> = listed.items.iter().map(QueueRow::of).collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.waiting + queue.leased));
    let running = JobQuery { state: Some(JobState::Leased), limit: Some(ITEMS_MAX), ..JobQuery::default() };
    let running = client.jobs().list(&running).await?.into_inner();
    let mut workers: BTreeMap<String, WorkerRow> = BTreeMap::new();
    for job in &running.items {
        let Some(lease) = &job.lease else { continue };
        let name = lease.worker.to_string();
        let new_row = || WorkerRow { name: name.clone(), leased: 0, queues: Vec::new(), since: None };
        let row = workers.entry(name.clone()).or_insert_with(new_row);
        row.leased += 1;
        if !row.queues.iter().any(|queue| queue == job.queue.as_str()) {
            row.queues.push(job.queue.to_string());
        }
        // Timestamps have a fixed width and sort as text.
        row.since = [row.since.take(), lease.since.clone()].into_iter().flatten().min();
    }
    let mut workers: Vec<WorkerRow> = workers.into_values().collect();
    workers.sort_by_key(|worker| std::cmp::Reverse(worker.leased));
    let all = client.budgets().list("", None, ITEMS_MAX).await?.into_inner();
    let mut budgets: Vec<BudgetRow> = all.items.iter().filter_map(BudgetRow::of).collect();
    budgets.sort_by_key(|budget| std::cmp::Reverse((budget.frozen, budget.used_percent)));
    Ok(View { queues, workers, budgets, more: [listed.next, running.next, all.next].iter().any(Option::is_some) })
}

impl QueueRow {
    fn of(queue: &QueueAnswer) -> QueueRow {
        let figures = &queue.figures;
        let in_state = |state: JobState| figures.states.get(state.as_str()).and_then(Value::as_i64).unwrap_or_default();
        let minutes = figures.over_ms.max(60_000) as f64 / 60_000.0;
        let per_minute = |count: i64| count as f64 / minutes;
        QueueRow {
            name: queue.name.to_string(),
            paused: queue.config.paused,
            waiting: in_state(JobState::Queued),
            scheduled: in_state(JobState::Scheduled),
            awaiting_budget: in_state(JobState::AwaitingBudget),
            leased: in_state(JobState::Leased),
            dead: in_state(JobState::Dead),
            enqueued_per_minute: per_minute(figures.enqueued),
            succeeded_per_minute: per_minute(figures.succeeded),
            failed_per_minute: per_minute(figures.failed_attempts),
            oldest_waiting: figures.oldest_waiting.clone(),
        }
    }
}

impl BudgetRow {
    /// Returns the tightest limit of a budget that is frozen or near it.
    fn of(budget: &BudgetAnswer) -> Option<BudgetRow> {
        let used = |balance: &BalanceAnswer| {
            let (limit, remaining) = (balance.limit?, balance.remaining?);
            Some(i128::from(limit).saturating_sub(remaining.into()).saturating_mul(100) / i128::from(limit.max(1)))
        };
        let tightest =
            budget.balances.iter().filter(|balance| used(balance).is_some()).max_by_key(|balance| used(balance))?;
        let used_percent = i64::try_from(used(tightest)?).unwrap_or(i64::MAX);
        (budget.frozen || used_percent >= NEAR_PERCENT).then(|| BudgetRow {
            scope: budget.scope.to_string(),
            window: tightest.window.shown(tightest.limit),
            shown_window: tightest.window.shown_in(tightest.limit, &budget.display_unit()),
            used_percent,
            limit: tightest.limit.unwrap_or_default(),
            posted: tightest.posted,
            held: tightest.held,
            remaining: tightest.remaining.unwrap_or_default(),
            frozen: budget.frozen,
            unit: budget.display_unit(),
        })
    }
}

/// Formats a snapshot.
fn rendered(view: &View) -> String {
    let rate = |rate: f64| format!("{rate:.1}");
    let queues: Vec<Vec<String>> = (view.queues.iter().take(ROWS_MAX))
        .map(|queue| {
            vec![
                if queue.paused { format!("{} (paused)", queue.name) } else { queue.name.clone() },
                queue.waiting.to_string(),
                queue.scheduled.to_string(),
                queue.awaiting_budget.to_string(),
                queue.leased.to_string(),
                queue.dead.to_string(),
                rate(queue.enqueued_per_minute),
                rate(queue.succeeded_per_minute),
                rate(queue.failed_per_minute),
                distance(queue.oldest_waiting.as_ref()),
            ]
        })
        .collect();
    let workers: Vec<Vec<String>> = (view.workers.iter().take(ROWS_MAX))
        .map(|worker| {
            vec![
                worker.name.clone(),
                worker.leased.to_string(),
                distance(worker.since.as_ref()),
                worker.queues.join(", "),
            ]
        })
        .collect();
    let budgets: Vec<Vec<String>> = (view.budgets.iter().take(ROWS_MAX))
        .map(|budget| {
            vec![
                budget.scope.clone(),
                if budget.frozen { "frozen".to_owned() } else { format!("{} %", budget.used_percent) },
                budget.shown_window.clone(),
                budget.unit.format(budget.limit),
                budget.unit.format(budget.posted),
                budget.unit.format(budget.held),
                budget.unit.format(budget.remaining),
            ]
        })
        .collect();
    let queue_names = [
        "QUEUE",
        "WAITING",
        "SCHEDULED",
        "AWAITING BUDGET",
        "RUNNING",
        "DEAD",
        "IN/MIN",
        "DONE/MIN",
        "FAILED/MIN",
        "OLDEST WAITING",
    ];
    let beyond = |all: usize| match all {
        0 => "\n(none)".to_owned(),
        _ if all > ROWS_MAX => format!("\n… and {} more", all - ROWS_MAX),
        _ => String::new(),
    };
    let tables = [
        table(&queue_names, &queues) + &beyond(view.queues.len()),
        table(&["WORKER", "RUNNING", "OLDEST LEASE", "QUEUES"], &workers) + &beyond(view.workers.len()),
        table(&["BUDGET NEAR LIMIT", "USED", "WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING"], &budgets)
            + &beyond(view.budgets.len()),
    ];
    let mut text = tables.join("\n\n");
    if view.more {
        text.push_str(&format!(
            "\n\nincomplete: only {QUEUES_MAX} queues, {ITEMS_MAX} running jobs and {ITEMS_MAX} budgets were read"
        ));
    }
    text
}
