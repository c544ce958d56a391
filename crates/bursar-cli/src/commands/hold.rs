//! `bursar hold` and `bursar post`.

use bursar::{Amount, HoldId, IdempotencyKey, Scope, Span};
use bursar_wire::command::{ChargeBody, CommandBody, ContextBody, SettleWord};
use bursar_wire::hold::{ActualBody, ClampedAnswer, CommitBody, HoldAnswer, OnExpiryBody, SettledAnswer};
use bursar_wire::problem::Problem;
use bursar_wire::window::LimitBody;
use clap::{Args, Subcommand};

use crate::args::{LIMIT_HELP, PageSize, PastMoment, WrittenLimit, amount, charge, duration, limit};
use crate::context::Context;
use crate::moment::moment;
use crate::output::{cell, table};
use crate::suggest;
use crate::units::Units;
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
        #[command(flatten)]
        moment: PastMoment,
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
        /// Actual cost: AMOUNT, or SCOPE=AMOUNT for each charge; repeatable [default: the held amount]
        #[arg(long, value_name = "[SCOPE=]AMOUNT", value_parser = cost, allow_hyphen_values = true)]
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
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        by: Span,
    },
    /// Show the events of a hold, newest first
    History {
        /// Hold id
        id: HoldId,
    },
}

impl Holds {
    /// Whether the command only reads.
    pub(crate) fn reads(&self) -> bool {
        matches!(self, Holds::Show { .. } | Holds::List { .. } | Holds::History { .. })
    }
}

/// The arguments of `bursar hold place`.
#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// Scope to charge, and the amount in the unit of its budget; repeatable
    #[arg(value_name = "SCOPE=AMOUNT", required = true, value_parser = charge)]
    charges: Vec<(Scope, Amount)>,
    /// Limit for every charge, in addition to the budgets' limits; needs no budget; repeatable
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    limits: Vec<WrittenLimit>,
    /// Time until the hold expires [default: the budget's setting]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Span>,
    /// Amount of each charge to spend if the hold expires [default: none; the expiry frees the held amount]
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    on_expiry_charge: Option<Amount>,
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
    /// Scope to charge, and the amount in the unit of its budget; repeatable
    #[arg(value_name = "SCOPE=AMOUNT", required = true, value_parser = charge)]
    charges: Vec<(Scope, Amount)>,
    /// Limit for every charge, in addition to the budgets' limits; needs no budget; repeatable
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    limits: Vec<WrittenLimit>,
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
    All(Amount),
    On(Scope, Amount),
}

fn cost(text: &str) -> Result<Cost, bursar::Invalid> {
    match text.contains('=') {
        true => charge(text).map(|(scope, amount)| Cost::On(scope, amount)),
        false => amount(text).map(Cost::All),
    }
}

/// Runs the command.
pub(crate) async fn run(args: Holds, context: &Context) -> Result<(), Problem> {
    let holds = context.client.holds();
    match args {
        Holds::Place(PlaceArgs { charges, limits, ttl, on_expiry_charge, key, reason }) => {
            let (units, body) = charged(&charges, &limits, reason, context).await?;
            // All charges of a hold whose expiry charges an amount must be in one unit, that of the first scope.
            let on_expiry = on_expiry_charge.map(|amount| units.amount(&charges[0].0, &amount)).transpose()?;
            let on_expiry = on_expiry.map(|charge| OnExpiryBody { charge });
            let body = CommandBody { settle: SettleWord::Hold, ttl_ms: ttl.map(Span::millis), on_expiry, ..body };
            submit(&body, units, key, context).await
        }
        Holds::Show { id, moment } => {
            let hold = holds.show_at(id, moment.get()).await?.into_inner();
            let units = Units::read(hold.charges.iter().map(|charge| &charge.scope), context).await?;
            context.out.data(&hold, || listed(std::slice::from_ref(&hold), &units))
        }
        Holds::List { scope, after, most } => {
            // An expired hold no longer counts, whether or not it has been swept.
            let page = holds.list(&scope, Some("held"), after.as_deref(), usize::from(most)).await;
            let page = suggest::scope(page, [&scope], context).await?;
            if page.items.is_empty() {
                // A scope without holds may not exist.
                suggest::scope(context.client.budgets().show(&scope).await, [&scope], context).await?;
            }
            let scopes = page.items.iter().flat_map(|hold| hold.charges.iter().map(|charge| &charge.scope));
            let units = Units::read(scopes, context).await?;
            context.out.data(&*page, || listed(&page.items, &units))?;
            context.out.next_page(page.next.as_deref());
            Ok(())
        }
        Holds::Commit { id, actual, key } => {
            let body = commit_body(id, actual, context).await?;
            settled(&*context.keyed(key).holds().commit(id, &body).await?, context).await
        }
        Holds::Release { id, reason, key } => {
            settled(&*context.keyed(key).holds().release(id, reason.as_deref()).await?, context).await
        }
        Holds::Extend { id, by } => {
            let extended = holds.extend(id, by.into()).await?;
            context.out.data(&*extended, || format!("{id} expires {}", moment(extended.expires_at.as_ref())))?;
            warn_of_clamp(extended.clamped.as_ref(), context);
            Ok(())
        }
        Holds::History { id } => {
            events::print_history(holds.history(id, None, 1_000).await?.into_inner().items, context).await
        }
    }
}

/// Runs `bursar post`.
pub(crate) async fn post(args: Post, context: &Context) -> Result<(), Problem> {
    let Post { charges, limits, key, reason } = args;
    let (units, body) = charged(&charges, &limits, reason, context).await?;
    submit(&body, units, key, context).await
}

/// Submits a command and prints its answer, with amounts in the units of the budgets that are not known yet.
pub(crate) async fn submit(
    body: &CommandBody,
    mut units: Units,
    key: Option<IdempotencyKey>,
    context: &Context,
) -> Result<(), Problem> {
    let submitted = context.keyed(key).commands().submit(body).await;
    let done = match suggest::scope(submitted, body.charges.iter().map(|charge| &charge.scope), context).await {
        Ok(done) => done,
        Err(problem) => return Err(units.explain(problem, context).await),
    };
    if !context.out.is_json() {
        let held = done.hold.iter().flat_map(|hold| charges::scopes(&hold.charges));
        units.add(held.chain(charges::scopes(&done.posted)), context).await?;
    }
    context.out.data(&*done, || charges::command(&done, &units))?;
    warn_of_clamp(done.hold.as_ref().and_then(|hold| hold.clamped.as_ref()), context);
    Ok(())
}

/// Warns that a hold lives shorter or longer than requested.
fn warn_of_clamp(clamped: Option<&ClampedAnswer>, context: &Context) {
    if let Some(clamped) = clamped {
        context.out.note(&format!("warning: {}", charges::clamped(clamped)));
    }
}

/// Builds a command of charges, each under all of these limits. Reads the budgets, because they have the units.
pub(crate) async fn charged(
    charges: &[(Scope, Amount)],
    limits: &[WrittenLimit],
    reason: Option<String>,
    context: &Context,
) -> Result<(Units, CommandBody), Problem> {
    let units = Units::read(charges.iter().map(|(scope, _)| scope), context).await?;
    let mut bodies = Vec::with_capacity(charges.len());
    for (scope, amount) in charges {
        if limits.is_empty() && units.is_missing(scope) && units.amount(scope, amount).is_err() {
            // The amount may be right for the budget that was meant.
            suggest::scope(context.client.budgets().show(scope).await, [scope], context).await?;
        }
        let limits = limits.iter().map(|limit| Ok(LimitBody::from(&units.limit(scope, limit)?)));
        let limits = limits.collect::<Result<_, Problem>>()?;
        bodies.push(ChargeBody { limits, ..ChargeBody::new(scope.clone(), units.amount(scope, amount)?) });
    }
    let context = ContextBody { correlation_id: None, reason };
    Ok((units, CommandBody { charges: bodies, context, ..CommandBody::default() }))
}

async fn commit_body(id: HoldId, costs: Vec<Cost>, context: &Context) -> Result<CommitBody, Problem> {
    let mut body = CommitBody::default();
    if costs.is_empty() {
        return Ok(body);
    }
    let hold = context.client.holds().show(id).await?;
    let units = Units::read(hold.charges.iter().map(|charge| &charge.scope), context).await?;
    for cost in costs {
        match cost {
            Cost::All(_) if body.actual.is_some() => {
                return Err(Problem::invalid(
                    "actual".into(),
                    "--actual AMOUNT is given twice; nothing was changed; pass SCOPE=AMOUNT for each charge",
                ));
            }
            Cost::All(amount) => {
                let scope = hold.charges.first().map(|charge| &charge.scope);
                body.actual = scope.map(|scope| units.amount(scope, &amount)).transpose()?;
            }
            Cost::On(scope, amount) => {
                let amount = units.amount(&scope, &amount)?;
                body.actuals.push(ActualBody { scope, amount });
            }
        }
    }
    Ok(body)
}

/// Checks a cursor: the expiry of the last hold of a page, in microseconds since 1970, a dot, and its id.
fn cursor(text: &str) -> Result<String, String> {
    let parts = text.split_once('.').filter(|(at, id)| at.parse::<i64>().is_ok() && id.parse::<HoldId>().is_ok());
    parts.map(|_| text.to_owned()).ok_or_else(|| "must be `next` of a previous page".to_owned())
}

fn listed(holds: &[HoldAnswer], units: &Units) -> String {
    let rows = holds.iter().flat_map(|hold| {
        hold.charges.iter().map(move |charge| {
            vec![
                hold.id.to_string(),
                hold.state.to_string(),
                charge.scope.to_string(),
                units.show(&charge.scope, charge.amount),
                cell(charge.actual.map(|actual| units.show(&charge.scope, actual))),
                moment(hold.expires_at.as_ref()),
                cell(hold.job),
            ]
        })
    });
    table(&["HOLD", "STATE", "SCOPE", "HELD", "ACTUAL", "EXPIRES", "JOB"], &rows.collect::<Vec<_>>())
}

async fn settled(settled: &SettledAnswer, context: &Context) -> Result<(), Problem> {
    let units = match context.out.is_json() {
        true => Units::default(),
        false => Units::read(charges::scopes(&settled.charges), context).await?,
    };
    context.out.data(settled, || charges::settled(settled, &units))?;
    for warning in &settled.warnings {
        context.out.note(&format!("warning: {}", warning_text(warning)));
    }
    Ok(())
}

/// Describes a warning in words.
fn warning_text(warning: &str) -> String {
    match warning {
        "committed_after_expiry" => "the hold had expired; its cost was charged anyway".to_owned(),
        "overrun" => "the cost is above the held amount and was charged in full".to_owned(),
        other => other.replace('_', " "),
    }
}
