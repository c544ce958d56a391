//! `bursar budget`.

use bursar::{Budget, Cover, HoldId, HoldPolicy, Limit, Scope, Time};
use bursar_wire::Page;
use bursar_wire::budget::{BudgetAnswer, BudgetBody, CreditBody, FreezeAnswer, SpentAnswer};
use bursar_wire::problem::Problem;
use clap::{Args, Subcommand, ValueEnum};

use crate::args::{LIMIT_HELP, PageSize, limit};
use crate::context::Context;
use crate::input::read_input;
use crate::output::{cell, table};
use crate::view::{charges, events};

/// The subcommands of `bursar budget`.
#[derive(Subcommand)]
pub(crate) enum Budgets {
    /// Create or replace a budget
    #[command(after_help = LIMIT_HELP)]
    Define(Box<Define>),
    /// Show a budget and its balances
    Show {
        /// Scope of the budget
        scope: Scope,
    },
    /// List budgets by name
    List {
        /// List only scopes with this prefix
        #[arg(long, default_value = "", hide_default_value = true)]
        prefix: String,
        /// Start after this scope
        #[arg(long, value_name = "SCOPE")]
        after: Option<Scope>,
        #[command(flatten)]
        most: PageSize,
    },
    /// Show every event that affected a scope, newest first
    History {
        /// Scope of the budget
        scope: Scope,
        #[command(flatten)]
        most: PageSize,
    },
    /// Refuse new charges until the scope is unfrozen
    Freeze(FreezeArgs),
    /// Lift a freeze
    Unfreeze(FreezeArgs),
    /// Credit units to a scope
    Credit {
        /// Scope to credit
        scope: Scope,
        /// Number of units
        #[arg(allow_negative_numbers = true)]
        amount: i64,
        /// Hold to correct: the credit counts at the time the hold was placed
        #[arg(long, value_name = "ID")]
        hold: Option<HoldId>,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
        /// Idempotency key: repeating the request with it returns the first answer
        #[arg(long)]
        key: Option<bursar::IdempotencyKey>,
    },
    /// Show the units posted in a period
    Spent {
        /// Scope to report on
        scope: Scope,
        /// Start of the period (RFC 3339), at most rules.postings_kept_ms ago [default: the first posting]
        #[arg(long, value_name = "TIME")]
        from: Option<Time>,
        /// End of the period (RFC 3339), exclusive [default: now]
        #[arg(long, value_name = "TIME")]
        to: Option<Time>,
    },
}

/// The arguments of `freeze` and `unfreeze`.
#[derive(Args)]
pub(crate) struct FreezeArgs {
    /// Scope of the budget
    scope: Scope,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// The definition of a budget.
#[derive(Args)]
pub(crate) struct Define {
    /// Scope to limit
    scope: Scope,
    /// JSON file with the whole budget, instead of options; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["limits", "parent", "unit", "ttl_min", "ttl", "ttl_max",
        "life_max", "late", "overrun", "trip", "thresholds"])]
    file: Option<String>,
    /// Limit: an amount per window; repeatable, and every limit must admit a charge
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true, required_unless_present = "file")]
    limits: Vec<Limit>,
    /// Parent budget, which every charge counts against as well
    #[arg(long, value_name = "SCOPE")]
    parent: Option<Scope>,
    /// Name of the unit, for display, such as micro_usd
    #[arg(long, default_value = "", hide_default_value = true)]
    unit: String,
    /// Minimum time to live of a hold
    #[arg(long, value_name = "MS")]
    ttl_min: Option<u64>,
    /// Time to live of a hold that is placed without --ttl-ms [default: rules.hold_ttl_ms]
    #[arg(long, value_name = "MS")]
    ttl: Option<u64>,
    /// Maximum time to live of a hold
    #[arg(long, value_name = "MS")]
    ttl_max: Option<u64>,
    /// Maximum time from placing to expiry, including extensions
    #[arg(long, value_name = "MS")]
    life_max: Option<u64>,
    /// Policy for a commit after expiry
    #[arg(long, default_value = "charge")]
    late: CoverWord,
    /// Policy for a commit above the held amount
    #[arg(long, default_value = "charge")]
    overrun: CoverWord,
    /// Freeze the scope automatically when spend passes this limit
    #[arg(long, value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    trip: Option<Limit>,
    /// Record an event when posted spend reaches this percentage of a limit; repeatable
    #[arg(long = "threshold", value_name = "PERCENT")]
    thresholds: Vec<u32>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// The policy for spend that its hold does not cover.
#[derive(Clone, Copy, ValueEnum)]
enum CoverWord {
    Charge,
    Refuse,
}

impl From<CoverWord> for Cover {
    fn from(word: CoverWord) -> Cover {
        match word {
            CoverWord::Charge => Cover::Charge,
            CoverWord::Refuse => Cover::Refuse,
        }
    }
}

impl Define {
    /// Builds the request body from the file or the options.
    fn into_body(self) -> Result<BudgetBody, Problem> {
        if let Some(file) = &self.file {
            let body: BudgetBody = bursar_wire::read(&read_input(file)?)?;
            return Ok(BudgetBody { reason: self.reason.or(body.reason), ..body });
        }
        let defaults = HoldPolicy::default();
        let span = |millis: Option<u64>, default| millis.map_or(default, bursar::Span::from_millis);
        let hold = HoldPolicy {
            ttl_min: span(self.ttl_min, defaults.ttl_min),
            ttl: self.ttl.map(bursar::Span::from_millis),
            ttl_max: span(self.ttl_max, defaults.ttl_max),
            life_max: self.life_max.map(bursar::Span::from_millis),
            late: self.late.into(),
            overrun: self.overrun.into(),
        };
        let Define { unit, parent, limits, trip, thresholds, reason, .. } = self;
        let budget = Budget { unit, parent, hold, trip, thresholds, ..Budget::new(limits) };
        Ok(BudgetBody { reason, ..BudgetBody::from(&budget) })
    }
}

/// Runs the command.
pub(crate) async fn run(args: Budgets, context: &Context) -> Result<(), Problem> {
    let budgets = context.client.budgets();
    match args {
        Budgets::Define(define) => {
            let scope = define.scope.clone();
            show(&*budgets.define(&scope, &define.into_body()?).await?, context)
        }
        Budgets::Show { scope } => show(&*budgets.show(&scope).await?, context),
        Budgets::List { prefix, after, most } => {
            let after = after.as_ref().map(Scope::as_str);
            list(&*budgets.list(&prefix, after, usize::from(most)).await?, context)
        }
        Budgets::History { scope, most } => {
            events::print_history(budgets.history(&scope, None, usize::from(most)).await?.into_inner().items, context)
        }
        Budgets::Freeze(FreezeArgs { scope, reason }) => {
            show(&*budgets.freeze(&scope, reason.as_deref()).await?, context)
        }
        Budgets::Unfreeze(FreezeArgs { scope, reason }) => {
            show(&*budgets.unfreeze(&scope, reason.as_deref()).await?, context)
        }
        Budgets::Credit { scope, amount, hold, reason, key } => {
            let client = context.keyed(key);
            let charged = client.budgets().credit(&scope, &CreditBody { amount, hold, reason }).await?.into_inner();
            context.out.data(&charged, || {
                let remaining = charges::remaining(std::slice::from_ref(&charged));
                format!("credited {amount} to {}\n{remaining}", charged.scope)
            })
        }
        Budgets::Spent { scope, from, to } => {
            let text = |time: Option<Time>| time.map(|time| time.to_string());
            spent(&*budgets.spent(&scope, text(from).as_deref(), text(to).as_deref()).await?, context)
        }
    }
}

fn show(budget: &BudgetAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(budget, || describe(budget))
}

fn list(page: &Page<BudgetAnswer>, context: &Context) -> Result<(), Problem> {
    context.out.data(page, || {
        let rows = page.items.iter().flat_map(|view| {
            let parent = view.budget.as_ref().and_then(|budget| budget.parent.clone());
            let frozen = if view.frozen { "frozen" } else { "" };
            let limited = view.balances.iter().filter(|balance| balance.limit.is_some());
            limited.map(move |balance| {
                vec![
                    view.scope.to_string(),
                    cell(parent.as_ref()),
                    balance.window.shown(balance.limit),
                    cell(balance.limit),
                    balance.posted.to_string(),
                    balance.held.to_string(),
                    cell(balance.remaining),
                    frozen.to_owned(),
                ]
            })
        });
        table(&["SCOPE", "PARENT", "WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING", ""], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn spent(answer: &SpentAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(answer, || {
        let SpentAnswer { scope, from, to, spent } = answer;
        let from = from.as_deref().unwrap_or("the first posting");
        format!("{spent} spent on {scope} from {from} to {}", cell(to.as_ref()))
    })
}

/// Describes a budget and its balances.
fn describe(view: &BudgetAnswer) -> String {
    let mut lines = vec![format!("scope   {}", view.scope)];
    match &view.budget {
        None => lines.push("budget  none; requests must pass limits".into()),
        Some(budget) => {
            if !budget.unit.is_empty() {
                lines.push(format!("unit    {}", budget.unit));
            }
            lines.extend(budget.parent.as_ref().map(|parent| format!("parent  {parent}")));
            let hold = &budget.hold;
            let ttl = hold.ttl_ms.map_or("server default".into(), |ttl| format!("{ttl} ms"));
            lines.push(format!(
                "holds   ttl {ttl} ({} to {} ms), late commit: {}, overrun: {}",
                hold.ttl_ms_min,
                hold.ttl_ms_max,
                word(hold.late),
                word(hold.overrun),
            ));
            lines.extend(budget.trip.as_ref().map(|trip| format!("trip    {} over {}", trip.amount, trip.shown())));
            if !budget.thresholds.is_empty() {
                let percents: Vec<String> = budget.thresholds.iter().map(|percent| format!("{percent} %")).collect();
                lines.push(format!("alerts  at {}", percents.join(", ")));
            }
        }
    }
    lines.extend(view.freeze.as_ref().map(frozen));
    lines.push(balances(view));
    lines.join("\n")
}

/// Formats the balances of a scope as a table.
fn balances(view: &BudgetAnswer) -> String {
    let rows = view.balances.iter().map(|balance| {
        vec![
            balance.window.shown(balance.limit),
            cell(balance.limit),
            balance.posted.to_string(),
            balance.held.to_string(),
            cell(balance.remaining),
            cell(balance.end.as_ref()),
        ]
    });
    table(&["WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING", "RESETS"], &rows.collect::<Vec<_>>())
}

fn frozen(freeze: &FreezeAnswer) -> String {
    match freeze {
        FreezeAnswer::Order { reason: Some(reason), .. } => format!("frozen  until unfrozen ({reason})"),
        FreezeAnswer::Order { reason: None, .. } => "frozen  until unfrozen".into(),
        FreezeAnswer::Trip { window, until } => {
            let until = until.as_ref().map(|until| format!("{until} or ")).unwrap_or_default();
            format!("frozen  until {until}unfrozen: spend passed the trip limit over {}", window.shown(None))
        }
    }
}

fn word(cover: Cover) -> &'static str {
    match cover {
        Cover::Charge => "charge",
        Cover::Refuse => "refuse",
    }
}
