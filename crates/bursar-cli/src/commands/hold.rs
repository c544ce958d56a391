//! `bursar hold` and `bursar post`.

use std::time::Duration;

use bursar::{HoldId, IdempotencyKey, Limit, Scope};
use clap::{Args, Subcommand};

use crate::args::{LIMIT_HELP, Most, charge, limit};
use crate::commands::{command, journal};
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::command::{ChargeAnswer, ChargeBody, CommandBody, ContextBody, SettleWord};
use bursar_server::wire::hold::{ActualBody, CommitBody, HoldAnswer, SettledAnswer};
use bursar_server::wire::problem::Problem;

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
        after: Option<String>,
        #[command(flatten)]
        most: Most,
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
    let holds = session.client.holds();
    match args {
        Holds::Place(Place { charges, limits, ttl_ms, key, reason }) => {
            let ttl_ms = ttl_ms.map(|ttl| i64::try_from(ttl).unwrap_or(i64::MAX));
            let body = CommandBody { settle: SettleWord::Hold, ttl_ms, ..charged(charges, &limits, reason) };
            command::answer(&*session.keyed(key).commands().submit(&body).await?, session)
        }
        Holds::Show { id } => {
            let hold = holds.show(id).await?.into_inner();
            session.out.data(&hold, || listed(std::slice::from_ref(&hold)))
        }
        Holds::List { scope, after, most } => {
            // What expired counts no more, swept or not.
            let page = holds.list(&scope, Some("held"), after.as_deref(), usize::from(most)).await?;
            session.out.data(&*page, || listed(&page.items))?;
            session.out.more(page.next.as_deref());
            Ok(())
        }
        Holds::Commit { id, actual, key } => {
            settled(&*session.keyed(key).holds().commit(id, &sum(actual)?).await?, session)
        }
        Holds::Release { id, reason, key } => {
            settled(&*session.keyed(key).holds().release(id, reason.as_deref()).await?, session)
        }
        Holds::Extend { id, by_ms } => {
            let extended = holds.extend(id, Duration::from_millis(by_ms)).await?;
            session.out.data(&*extended, || format!("{id} expires at {}", cell(extended.expires_at.as_ref())))
        }
        Holds::History { id } => journal::show(holds.history(id, None, 1_000).await?.into_inner().items, session),
    }
}

/// Spends at once.
pub(crate) async fn post(args: Post, session: &Session) -> Result<(), Problem> {
    let Post { charges, limits, key, reason } = args;
    let body = charged(charges, &limits, reason);
    command::answer(&*session.keyed(key).commands().submit(&body).await?, session)
}

/// A command of charges, each under all of these limits.
fn charged(charges: Vec<(Scope, i64)>, limits: &[Limit], reason: Option<String>) -> CommandBody {
    let charge = |(scope, amount)| ChargeBody {
        limits: limits.iter().map(Into::into).collect(),
        ..ChargeBody::new(scope, amount)
    };
    CommandBody {
        charges: charges.into_iter().map(charge).collect(),
        context: ContextBody { correlation_id: None, reason },
        ..CommandBody::default()
    }
}

fn sum(costs: Vec<Cost>) -> Result<CommitBody, Problem> {
    let mut body = CommitBody::default();
    for cost in costs {
        match cost {
            Cost::All(_) if body.actual.is_some() => {
                return Err(Problem::invalid("actual".into(), "actual is given twice: say SCOPE=N for each charge"));
            }
            Cost::All(amount) => body.actual = Some(amount),
            Cost::On(scope, amount) => body.actuals.push(ActualBody { scope, amount }),
        }
    }
    Ok(body)
}

/// Where a page of live holds ended: the expiry of the last one, in microseconds since 1970, and its id.
fn cursor(text: &str) -> Result<String, String> {
    let parts = text.split_once('.').filter(|(at, id)| at.parse::<i64>().is_ok() && id.parse::<HoldId>().is_ok());
    parts.map(|_| text.to_owned()).ok_or_else(|| "is not where a page ended".to_owned())
}

fn listed(holds: &[HoldAnswer]) -> String {
    let rows = holds.iter().flat_map(|hold| {
        hold.charges.iter().map(move |charge| {
            vec![
                hold.id.to_string(),
                hold.state.to_string(),
                charge.scope.to_string(),
                charge.amount.to_string(),
                cell(charge.actual),
                cell(hold.expires_at.as_ref()),
                cell(hold.job),
            ]
        })
    });
    table(&["HOLD", "STATE", "SCOPE", "HELD", "ACTUAL", "EXPIRES", "JOB"], &rows.collect::<Vec<_>>())
}

fn settled(settled: &SettledAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(settled, || describe(settled))?;
    for warning in &settled.warnings {
        session.out.note(&format!("warning: {warning}"));
    }
    Ok(())
}

/// A settled hold for people.
pub(crate) fn describe(settled: &SettledAnswer) -> String {
    let mut lines = vec![format!("{} is {}", settled.id, settled.state)];
    for charged in &settled.charges {
        let ChargeAnswer { scope, amount, actual, .. } = charged;
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
pub(crate) fn left(charges: &[ChargeAnswer]) -> String {
    let rows = charges.iter().flat_map(|charged| {
        charged.balances.iter().map(|left| {
            let scope = left.scope.as_ref().unwrap_or(&charged.scope);
            let window = left.window.shown(Some(left.limit));
            vec![scope.to_string(), window, left.limit.to_string(), left.remaining.to_string()]
        })
    });
    table(&["SCOPE", "WINDOW", "LIMIT", "REMAINING"], &rows.collect::<Vec<_>>())
}
