//! `bursar top`: what goes on, seen anew each second.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use bursar::JobState;
use bursar_client::{Client, Error, JobQuery};
use clap::Args;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use crate::output::{cell, harmless, table};
use crate::session::Session;
use bursar_server::wire::budget::{BalanceAnswer, BudgetAnswer};
use bursar_server::wire::problem::Problem;
use bursar_server::wire::queue::{FiguresAnswer, QueueAnswer};

/// How to look.
#[derive(Args)]
pub(crate) struct Look {
    /// Look once, and end
    #[arg(long)]
    once: bool,
}

/// How often it is looked at.
const EACH: Duration = Duration::from_secs(1);
/// Rows that are shown of each kind, so that all of it fits a screen.
const SHOWN: usize = 8;
/// Queues, each of which is asked for, and budgets and running jobs, that are looked at.
const QUEUES: usize = 50;
const LOOKED_AT: usize = 1_000;
/// Minutes that rates are taken over.
const MINUTES: u32 = 5;
/// A budget is near its limit when so many of a hundred units are used.
const NEAR: i64 = 50;

/// What goes on.
#[derive(Serialize)]
struct View {
    queues: Vec<QueueRow>,
    workers: Vec<WorkerRow>,
    budgets: Vec<BudgetRow>,
    /// There is more than was looked at.
    more: bool,
}

/// A queue: how many jobs are in it, and how many a minute come and go.
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

/// A worker: what it has.
#[derive(Serialize)]
struct WorkerRow {
    name: String,
    leased: usize,
    queues: Vec<String>,
    /// Since when it has the job that it has longest.
    since: Option<String>,
}

/// A budget that is frozen, or near one of its limits.
#[derive(Serialize)]
struct BudgetRow {
    scope: String,
    window: String,
    used_percent: i64,
    limit: i64,
    posted: i64,
    held: i64,
    remaining: i64,
    frozen: bool,
}

/// Shows it, once or until it is stopped.
pub(crate) async fn run(args: Look, session: &Session) -> Result<(), Problem> {
    if args.once {
        let view = view(&session.client).await?;
        return session.out.data(&view, || shown(&view));
    }
    let screen = Screen::open(session);
    let mut seconds = interval(EACH);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            _ = &mut stopped => return Ok(()),
            _ = seconds.tick() => {}
        }
        let seen = tokio::select! {
            _ = &mut stopped => return Ok(()),
            seen = view(&session.client) => seen,
        };
        match seen {
            Ok(view) => screen.show(&view, session)?,
            // Who looks on wants to see it come back.
            Err(error) if error.is_transient() => screen.tell(&error.to_string(), session),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Where it is seen: a terminal, which shows it in one place, or whatever takes one after the other.
struct Screen {
    terminal: bool,
}

impl Screen {
    fn open(session: &Session) -> Screen {
        let screen = Screen { terminal: std::io::stdout().is_terminal() && !session.out.is_json() };
        // Another page of the terminal, without a cursor: what was there before comes back in the end.
        screen.steer("\x1b[?1049h\x1b[?25l");
        screen
    }

    fn show(&self, view: &View, session: &Session) -> Result<(), Problem> {
        if !self.terminal {
            return if session.out.is_json() { session.out.line(view) } else { session.out.say(&(shown(view) + "\n")) };
        }
        self.paint(&format!("{}\n\nCtrl-C ends it", shown(view)));
        Ok(())
    }

    fn tell(&self, problem: &str, session: &Session) {
        if self.terminal { self.paint(&format!("{problem}\n\nCtrl-C ends it")) } else { session.out.note(problem) }
    }

    /// From the top, line over line, so that nothing flickers.
    fn paint(&self, text: &str) {
        let lines: String = harmless(text).lines().map(|line| format!("{line}\x1b[K\r\n")).collect();
        self.steer(&format!("\x1b[H{lines}\x1b[J"));
    }

    fn steer(&self, codes: &str) {
        if self.terminal {
            let mut out = std::io::stdout();
            let _ = write!(out, "{codes}").and_then(|()| out.flush());
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.steer("\x1b[?25h\x1b[?1049l");
    }
}

async fn view(client: &Client) -> Result<View, Error> {
    let known = client.queues().list(None, QUEUES).await?.into_inner();
    let mut queues = Vec::with_capacity(known.items.len());
    for queue in known.items {
        queues.push(QueueRow::of(&*client.queues().show(&queue.name, Some(MINUTES)).await?));
    }
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.waiting + queue.leased));
    let running = JobQuery { state: Some(JobState::Leased), limit: Some(LOOKED_AT), ..JobQuery::default() };
    let running = client.jobs().list(&running).await?.into_inner();
    let mut workers: BTreeMap<String, WorkerRow> = BTreeMap::new();
    for job in &running.items {
        let Some(lease) = &job.lease else { continue };
        let name = lease.worker.to_string();
        let fresh = || WorkerRow { name: name.clone(), leased: 0, queues: Vec::new(), since: None };
        let row = workers.entry(name.clone()).or_insert_with(fresh);
        row.leased += 1;
        if !row.queues.iter().any(|queue| queue == job.queue.as_str()) {
            row.queues.push(job.queue.to_string());
        }
        // Instants are written so that they sort as text.
        row.since = [row.since.take(), lease.since.clone()].into_iter().flatten().min();
    }
    let mut workers: Vec<WorkerRow> = workers.into_values().collect();
    workers.sort_by_key(|worker| std::cmp::Reverse(worker.leased));
    let all = client.budgets().list("", None, LOOKED_AT).await?.into_inner();
    let mut budgets: Vec<BudgetRow> = all.items.iter().filter_map(BudgetRow::of).collect();
    budgets.sort_by_key(|budget| std::cmp::Reverse((budget.frozen, budget.used_percent)));
    Ok(View { queues, workers, budgets, more: [known.next, running.next, all.next].iter().any(Option::is_some) })
}

impl QueueRow {
    fn of(queue: &QueueAnswer) -> QueueRow {
        let figures = queue.figures.as_ref();
        let in_state = |state: JobState| {
            figures.and_then(|figures| figures.states.get(state.as_str())?.as_i64()).unwrap_or_default()
        };
        let per_minute = |count: fn(&FiguresAnswer) -> i64| {
            let minutes = |figures: &FiguresAnswer| (figures.over_ms.max(60_000) as f64) / 60_000.0;
            figures.map_or(0.0, |figures| count(figures) as f64 / minutes(figures))
        };
        QueueRow {
            name: queue.name.to_string(),
            paused: queue.config.paused,
            waiting: in_state(JobState::Queued),
            scheduled: in_state(JobState::Scheduled),
            awaiting_budget: in_state(JobState::AwaitingBudget),
            leased: in_state(JobState::Leased),
            dead: in_state(JobState::Dead),
            enqueued_per_minute: per_minute(|figures| figures.enqueued),
            succeeded_per_minute: per_minute(|figures| figures.succeeded),
            failed_per_minute: per_minute(|figures| figures.failed_attempts),
            oldest_waiting: figures.and_then(|figures| figures.oldest_waiting.clone()),
        }
    }
}

impl BudgetRow {
    /// The tightest limit of a budget, if it is frozen or near to it.
    fn of(budget: &BudgetAnswer) -> Option<BudgetRow> {
        let used = |balance: &BalanceAnswer| {
            let (limit, remaining) = (balance.limit?, balance.remaining?);
            Some(i128::from(limit).saturating_sub(remaining.into()).saturating_mul(100) / i128::from(limit.max(1)))
        };
        let tightest =
            budget.balances.iter().filter(|balance| used(balance).is_some()).max_by_key(|balance| used(balance))?;
        let used_percent = i64::try_from(used(tightest)?).unwrap_or(i64::MAX);
        (budget.frozen || used_percent >= NEAR).then(|| BudgetRow {
            scope: budget.scope.to_string(),
            window: tightest.window.shown(tightest.limit),
            used_percent,
            limit: tightest.limit.unwrap_or_default(),
            posted: tightest.posted,
            held: tightest.held,
            remaining: tightest.remaining.unwrap_or_default(),
            frozen: budget.frozen,
        })
    }
}

/// All of it, for people.
fn shown(view: &View) -> String {
    let rate = |rate: f64| format!("{rate:.1}");
    let queues: Vec<Vec<String>> = (view.queues.iter().take(SHOWN))
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
                cell(queue.oldest_waiting.as_ref()),
            ]
        })
        .collect();
    let workers: Vec<Vec<String>> = (view.workers.iter().take(SHOWN))
        .map(|worker| {
            vec![worker.name.clone(), worker.leased.to_string(), cell(worker.since.as_ref()), worker.queues.join(", ")]
        })
        .collect();
    let budgets: Vec<Vec<String>> = (view.budgets.iter().take(SHOWN))
        .map(|budget| {
            vec![
                budget.scope.clone(),
                if budget.frozen { "frozen".to_owned() } else { format!("{} %", budget.used_percent) },
                budget.window.clone(),
                budget.limit.to_string(),
                budget.posted.to_string(),
                budget.held.to_string(),
                budget.remaining.to_string(),
            ]
        })
        .collect();
    let queue_names = [
        "QUEUE",
        "WAITING",
        "LATER",
        "BUDGET",
        "RUNNING",
        "DEAD",
        "IN/MIN",
        "DONE/MIN",
        "FAILED/MIN",
        "OLDEST WAITS SINCE",
    ];
    let beyond = |all: usize| if all > SHOWN { format!("\n… and {} more", all - SHOWN) } else { String::new() };
    let parts = [
        table(&queue_names, &queues) + &beyond(view.queues.len()),
        table(&["WORKER", "RUNNING", "LONGEST SINCE", "QUEUES"], &workers) + &beyond(view.workers.len()),
        table(&["BUDGET NEAR ITS LIMIT", "USED", "WINDOW", "LIMIT", "POSTED", "HELD", "LEFT"], &budgets)
            + &beyond(view.budgets.len()),
    ];
    let mut text = parts.join("\n\n");
    if view.more {
        text.push_str(&format!(
            "\n\nlooked at: {QUEUES} queues, {LOOKED_AT} running jobs, {LOOKED_AT} budgets; there is more"
        ));
    }
    text
}
