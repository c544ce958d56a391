//! `bursar hold` and `bursar post`.

use bursar::{
    Actual, Answer, Charge, Charged, Command, Hold, HoldId, IdempotencyKey, Limit, Op, Receipt, Scope, Settle, Settled,
    Span, Stream, Time,
};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::{LIMIT_HELP, charge, limit};
use crate::commands::budget::unexpected;
use crate::commands::{command, journal};
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::hold::{HoldAnswer, SettledAnswer, actual};
use bursar_server::wire::problem::Problem;
use bursar_server::wire::{self, Page, stamp};

/// What can be done with holds.
#[derive(Subcommand)]
pub(crate) enum Holds {
    /// Set units aside, on one or more scopes
    #[command(after_help = LIMIT_HELP)]
    Place(Place),
    /// A hold as it stands
    Show {
        /// Which one
        id: HoldId,
    },
    /// Live holds on a scope, soonest to expire first
    List {
        /// Where
        scope: Scope,
        /// Only those after this place, as the page before told it
        #[arg(long, value_name = "CURSOR", value_parser = cursor)]
        after: Option<(Time, HoldId)>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        most: u16,
    },
    /// Post what it really cost, and free the rest
    Commit {
        /// Which one
        id: HoldId,
        /// What it cost: N, or SCOPE=N for each charge; what was held unless said
        #[arg(long, value_name = "N|SCOPE=N", value_parser = cost, allow_hyphen_values = true)]
        actual: Vec<Cost>,
        /// Do it once, however often it is asked for under this key
        #[arg(long)]
        key: Option<IdempotencyKey>,
    },
    /// Free it
    Release {
        /// Which one
        id: HoldId,
        /// Why, for the journal
        #[arg(long)]
        reason: Option<String>,
        /// Do it once, however often it is asked for under this key
        #[arg(long)]
        key: Option<IdempotencyKey>,
    },
    /// Put off its expiry
    Extend {
        /// Which one
        id: HoldId,
        /// By how much
        #[arg(long, value_name = "MS")]
        by_ms: u64,
    },
    /// What happened to it, newest first
    History {
        /// Which one
        id: HoldId,
    },
}

/// Units to be set aside.
#[derive(Args)]
pub(crate) struct Place {
    /// How many units, and where
    #[arg(value_name = "SCOPE=AMOUNT", required = true, value_parser = charge)]
    charges: Vec<(Scope, i64)>,
    /// A limit for every charge beside the registered ones; then no budget is needed
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    limits: Vec<Limit>,
    /// For how long; as the budget says unless said
    #[arg(long, value_name = "MS")]
    ttl_ms: Option<u64>,
    /// Do it once, however often it is asked for under this key
    #[arg(long)]
    key: Option<IdempotencyKey>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// Units to be spent.
#[derive(Args)]
#[command(after_help = LIMIT_HELP)]
pub(crate) struct Post {
    /// How many units, and where
    #[arg(value_name = "SCOPE=AMOUNT", required = true, value_parser = charge)]
    charges: Vec<(Scope, i64)>,
    /// A limit for every charge beside the registered ones; then no budget is needed
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    limits: Vec<Limit>,
    /// Do it once, however often it is asked for under this key
    #[arg(long)]
    key: Option<IdempotencyKey>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// What a hold cost, on its only charge or on one of several.
#[derive(Clone, Debug)]
pub(crate) enum Cost {
    All(i64),
    On(Scope, i64),
}

fn cost(text: &str) -> Result<Cost, bursar::Invalid> {
    match text.parse() {
        Ok(amount) => Ok(Cost::All(amount)),
        Err(_) => charge(text).map(|(scope, amount)| Cost::On(scope, amount)),
    }
}

/// Does what was asked for.
pub(crate) async fn run(args: Holds, session: &Session) -> Result<(), Problem> {
    match args {
        Holds::Place(Place { charges, limits, ttl_ms, key, reason }) => {
            let settle = Settle::Hold { ttl: ttl_ms.map(Span::from_millis) };
            let receipt = charge_all(charges, &limits, settle, key, &session.because(reason.as_deref())).await?;
            command::answer(&receipt, false, session)
        }
        Holds::Show { id } => show(id, session).await,
        Holds::List { scope, after, most } => list(&scope, after, usize::from(most), session).await,
        Holds::Commit { id, actual, key } => {
            let op = Op::Commit { hold: id, actual: sum(actual)? };
            settled(session.ask(op, key).await?.answer, session)
        }
        Holds::Release { id, reason, key } => {
            let op = Op::Release { hold: id };
            settled(session.because(reason.as_deref()).ask(op, key).await?.answer, session)
        }
        Holds::Extend { id, by_ms } => extend(id, Span::from_millis(by_ms), session).await,
        Holds::History { id } => {
            find(id, session).await?;
            journal::history(&Stream::Hold(id), 1_000, session).await
        }
    }
}

/// Spends at once.
pub(crate) async fn post(args: Post, session: &Session) -> Result<(), Problem> {
    let Post { charges, limits, key, reason } = args;
    let receipt = charge_all(charges, &limits, Settle::Now, key, &session.because(reason.as_deref())).await?;
    command::answer(&receipt, false, session)
}

async fn charge_all(
    charges: Vec<(Scope, i64)>,
    limits: &[Limit],
    settle: Settle,
    key: Option<IdempotencyKey>,
    session: &Session,
) -> Result<Receipt, Problem> {
    let charge = |(scope, amount)| Charge::new(scope, amount).within(limits.iter().cloned());
    let command = Command { charges: charges.into_iter().map(charge).collect(), settle, ..Command::default() };
    Ok(Receipt::from(session.ask(Op::Submit(command), key).await?))
}

fn sum(costs: Vec<Cost>) -> Result<Actual, Problem> {
    let (mut all, mut each) = (None, Vec::new());
    for cost in costs {
        match cost {
            Cost::All(_) if all.is_some() => {
                return Err(Problem::invalid("actual".into(), "actual is given twice: say SCOPE=N for each charge"));
            }
            Cost::All(amount) => all = Some(amount),
            Cost::On(scope, amount) => each.push((scope, amount)),
        }
    }
    Ok(actual(all, each)?)
}

async fn find(id: HoldId, session: &Session) -> Result<Hold, Problem> {
    session.bursar.ledger().find(id).await?.ok_or_else(|| Problem::not_found(format_args!("hold {id}")))
}

async fn show(id: HoldId, session: &Session) -> Result<(), Problem> {
    let hold = find(id, session).await?;
    let now = session.bursar.now().await?;
    session.out.data(&HoldAnswer::at(&hold, now), || listed(std::slice::from_ref(&hold), now))
}

async fn list(scope: &Scope, after: Option<(Time, HoldId)>, most: usize, session: &Session) -> Result<(), Problem> {
    let now = session.bursar.now().await?;
    let mut holds = session.bursar.ledger().live(scope, after, most).await?;
    let last = if holds.len() >= most { holds.last() } else { None };
    let next = last.map(|hold| format!("{}.{}", hold.expires_at.micros(), hold.id));
    // What expired counts no more, swept or not.
    holds.retain(|hold| hold.state_at(now) == bursar::HoldState::Held);
    let page = Page { items: holds.iter().map(|hold| HoldAnswer::at(hold, now)).collect(), next };
    session.out.data(&page, || listed(&holds, now))?;
    if let Some(next) = &page.next {
        session.out.note(&format!("there may be more: --after {next}"));
    }
    Ok(())
}

/// Where a page of live holds ended: the expiry of the last one, in microseconds since 1970, and its id.
fn cursor(text: &str) -> Result<(Time, HoldId), String> {
    let parts = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    parts.map(|(at, id)| (Time::from_micros(at), id)).ok_or_else(|| "is not where a page ended".to_owned())
}

fn listed(holds: &[Hold], now: Time) -> String {
    let rows = holds.iter().flat_map(|hold| {
        hold.charges.iter().map(move |charge| {
            vec![
                hold.id.to_string(),
                hold.state_at(now).to_string(),
                charge.scope.to_string(),
                charge.amount.to_string(),
                cell(charge.actual),
                cell(stamp(hold.expires_at)),
                cell(hold.job),
            ]
        })
    });
    table(&["HOLD", "STATE", "SCOPE", "HELD", "ACTUAL", "EXPIRES", "JOB"], &rows.collect::<Vec<_>>())
}

fn settled(answer: Answer, session: &Session) -> Result<(), Problem> {
    let Answer::Settled(settled) = answer else { return Err(unexpected()) };
    session.out.data(&SettledAnswer::from(&settled), || describe(&settled))?;
    for warning in settled.warnings() {
        session.out.note(&format!("warning: {warning}"));
    }
    Ok(())
}

/// A settled hold for people.
pub(crate) fn describe(settled: &Settled) -> String {
    let mut lines = vec![format!("{} is {}", settled.hold, settled.state)];
    for charged in &settled.charges {
        let Charged { scope, amount, actual, .. } = charged;
        lines.push(match actual {
            Some(actual) if actual <= amount => {
                format!("{scope}: {amount} was held, {actual} is spent, {} came back", amount - actual)
            }
            Some(actual) => format!("{scope}: {amount} was held, {actual} is spent, {} more", actual - amount),
            None => format!("{scope}: {amount} came back"),
        });
    }
    lines.push(left(&settled.charges));
    lines.join("\n")
}

/// What the limits left, as a table.
pub(crate) fn left(charges: &[Charged]) -> String {
    let rows = charges.iter().flat_map(|charged| {
        charged.balances.iter().map(|left| {
            let scope = left.scope.as_ref().unwrap_or(&charged.scope);
            vec![scope.to_string(), left.window.to_string(), left.limit.to_string(), left.remaining.to_string()]
        })
    });
    table(&["SCOPE", "WINDOW", "LIMIT", "REMAINING"], &rows.collect::<Vec<_>>())
}

async fn extend(id: HoldId, by: Span, session: &Session) -> Result<(), Problem> {
    let outcome = session.ask(Op::Extend { hold: id, by }, None).await?;
    let Answer::Extended { hold, expires_at } = outcome.answer else { return Err(unexpected()) };
    let answer = json!({ "id": hold, "expires_at": wire::stamp(expires_at) });
    session.out.data(&answer, || format!("{hold} expires at {expires_at}"))
}
