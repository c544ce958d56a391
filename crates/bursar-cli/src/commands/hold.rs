//! `bursar hold` and `bursar post`.

use std::time::Duration;

use bursar::{HoldId, IdempotencyKey, Limit, Scope};
use bursar_wire::command::{ChargeBody, CommandBody, ContextBody, SettleWord};
use bursar_wire::hold::{ActualBody, CommitBody, HoldAnswer, SettledAnswer};
use bursar_wire::problem::Problem;
use clap::{Args, Subcommand};

use crate::args::{LIMIT_HELP, PageSize, charge, limit, millis};
use crate::context::Context;
use crate::output::{cell, table};
use crate::view::{charges, events};

/// The subcommands of `bursar hold`.
#[derive(Subcommand)]
pub(crate) enum Holds {
    /// Set units aside on one or more scopes
    #[command(after_help = LIMIT_HELP)]
    Place(PlaceArgs),
    /// Show a hold
    Show {
        /// Hold id
        id: HoldId,
    },
    /// List the live holds on a scope, soonest to expire first
    List {
        /// Scope to list
        scope: Scope,
        /// Start after this cursor: `next` of the previous page
        #[arg(long, value_name = "CURSOR", value_parser = cursor)]
        after: Option<String>,
        #[command(flatten)]
        most: PageSize,
    },
    /// Commit a hold: post the actual cost and free the rest
    Commit {
        /// Hold id
        id: HoldId,
        /// Actual cost: N, or SCOPE=N for each charge; repeatable [default: the held amount]
        #[arg(long, value_name = "N|SCOPE=N", value_parser = cost, allow_hyphen_values = true)]
        actual: Vec<Cost>,
        /// Idempotency key: repeating the request with it returns the first answer
        #[arg(long)]
        key: Option<IdempotencyKey>,
    },
    /// Release a hold without spending
    Release {
        /// Hold id
        id: HoldId,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
        /// Idempotency key: repeating the request with it returns the first answer
        #[arg(long)]
        key: Option<IdempotencyKey>,
    },
    /// Extend a hold's expiry
    Extend {
        /// Hold id
        id: HoldId,
        /// Time to add
        #[arg(long, value_name = "MS")]
        by_ms: u64,
    },
    /// Show the events of a hold, newest first
    History {
        /// Hold id
        id: HoldId,
    },
}

/// The arguments of `bursar hold place`.
#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// Scope to charge, and the number of units; repeatable
    #[arg(value_name = "SCOPE=AMOUNT", required = true, value_parser = charge)]
    charges: Vec<(Scope, i64)>,
    /// Limit for every charge, in addition to the budgets' limits; needs no budget; repeatable
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    limits: Vec<Limit>,
    /// Time until the hold expires [default: the budget's setting]
    #[arg(long, value_name = "MS")]
    ttl_ms: Option<u64>,
    /// Idempotency key: repeating the request with it returns the first answer
    #[arg(long)]
    key: Option<IdempotencyKey>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// The arguments of `bursar post`.
#[derive(Args)]
#[command(after_help = LIMIT_HELP)]
pub(crate) struct Post {
    /// Scope to charge, and the number of units; repeatable
    #[arg(value_name = "SCOPE=AMOUNT", required = true, value_parser = charge)]
    charges: Vec<(Scope, i64)>,
    /// Limit for every charge, in addition to the budgets' limits; needs no budget; repeatable
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    limits: Vec<Limit>,
    /// Idempotency key: repeating the request with it returns the first answer
    #[arg(long)]
    key: Option<IdempotencyKey>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// The actual cost of a hold: of its only charge, or of one of several.
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

/// Runs the command.
pub(crate) async fn run(args: Holds, context: &Context) -> Result<(), Problem> {
    let holds = context.client.holds();
    match args {
        Holds::Place(PlaceArgs { charges, limits, ttl_ms, key, reason }) => {
            let (settle, ttl_ms) = (SettleWord::Hold, ttl_ms.map(millis));
            submit(CommandBody { settle, ttl_ms, ..charged(charges, &limits, reason) }, key, context).await
        }
        Holds::Show { id } => {
            let hold = holds.show(id).await?.into_inner();
            context.out.data(&hold, || listed(std::slice::from_ref(&hold)))
        }
        Holds::List { scope, after, most } => {
            // An expired hold no longer counts, whether or not it has been swept.
            let page = holds.list(&scope, Some("held"), after.as_deref(), usize::from(most)).await?;
            context.out.data(&*page, || listed(&page.items))?;
            context.out.next_page(page.next.as_deref());
            Ok(())
        }
        Holds::Commit { id, actual, key } => {
            settled(&*context.keyed(key).holds().commit(id, &commit_body(actual)?).await?, context)
        }
        Holds::Release { id, reason, key } => {
            settled(&*context.keyed(key).holds().release(id, reason.as_deref()).await?, context)
        }
        Holds::Extend { id, by_ms } => {
            let extended = holds.extend(id, Duration::from_millis(by_ms)).await?;
            context.out.data(&*extended, || format!("{id} expires at {}", cell(extended.expires_at.as_ref())))
        }
        Holds::History { id } => {
            events::print_history(holds.history(id, None, 1_000).await?.into_inner().items, context)
        }
    }
}

/// Runs `bursar post`.
pub(crate) async fn post(args: Post, context: &Context) -> Result<(), Problem> {
    let Post { charges, limits, key, reason } = args;
    submit(charged(charges, &limits, reason), key, context).await
}

async fn submit(body: CommandBody, key: Option<IdempotencyKey>, context: &Context) -> Result<(), Problem> {
    let done = context.keyed(key).commands().submit(&body).await?;
    context.out.data(&*done, || charges::command(&done))
}

/// Builds a command of charges, each under all of these limits.
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

fn commit_body(costs: Vec<Cost>) -> Result<CommitBody, Problem> {
    let mut body = CommitBody::default();
    for cost in costs {
        match cost {
            Cost::All(_) if body.actual.is_some() => {
                return Err(Problem::invalid(
                    "actual".into(),
                    "--actual N is given twice; nothing was changed; pass SCOPE=N for each charge",
                ));
            }
            Cost::All(amount) => body.actual = Some(amount),
            Cost::On(scope, amount) => body.actuals.push(ActualBody { scope, amount }),
        }
    }
    Ok(body)
}

/// Checks a cursor: the expiry of the last hold of a page, in microseconds since 1970, a dot, and its id.
fn cursor(text: &str) -> Result<String, String> {
    let parts = text.split_once('.').filter(|(at, id)| at.parse::<i64>().is_ok() && id.parse::<HoldId>().is_ok());
    parts.map(|_| text.to_owned()).ok_or_else(|| "must be `next` of a previous page".to_owned())
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

fn settled(settled: &SettledAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(settled, || charges::settled(settled))?;
    for warning in &settled.warnings {
        context.out.note(&format!("warning: {warning}"));
    }
    Ok(())
}
