//! `bursar budget`.

use bursar::{Budget, Cover, HoldId, HoldPolicy, Limit, Scope, Time};
use clap::{Args, Subcommand, ValueEnum};

use crate::args::{LIMIT_HELP, Most, limit};
use crate::commands::journal;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::budget::{BudgetAnswer, BudgetBody, CreditBody, FreezeAnswer, SpentAnswer};
use bursar_server::wire::problem::Problem;
use bursar_server::wire::{self, Page};

/// What can be done with budgets.
#[derive(Subcommand)]
pub(crate) enum Budgets {
    /// Make a budget, or replace what it says
    #[command(after_help = LIMIT_HELP)]
    Define(Box<Define>),
    /// What a budget says, and what is posted, held and left
    Show {
        /// Which one
        scope: Scope,
    },
    /// Budgets by name
    List {
        /// Only those whose names begin with this
        #[arg(long, default_value = "")]
        prefix: String,
        /// Only those after this name
        #[arg(long, value_name = "SCOPE")]
        after: Option<Scope>,
        #[command(flatten)]
        most: Most,
    },
    /// Everything that moved a scope, newest first
    History {
        /// Which one
        scope: Scope,
        #[command(flatten)]
        most: Most,
    },
    /// Refuse new spend until it is unfrozen
    Freeze(Order),
    /// Admit spend again
    Unfreeze(Order),
    /// Give units back
    Credit {
        /// Where
        scope: Scope,
        /// How many
        #[arg(allow_negative_numbers = true)]
        amount: i64,
        /// The hold it corrects: the credit counts when that was placed
        #[arg(long, value_name = "ID")]
        hold: Option<HoldId>,
        /// Why, for the journal
        #[arg(long)]
        reason: Option<String>,
        /// Do it once, however often it is asked for under this key
        #[arg(long)]
        key: Option<bursar::IdempotencyKey>,
    },
    /// Units posted in a stretch of time
    Spent {
        /// Where
        scope: Scope,
        /// From when on (RFC 3339), as far back as single postings are kept; ever unless said
        #[arg(long, value_name = "TIME")]
        from: Option<Time>,
        /// Until before when (RFC 3339); now unless said
        #[arg(long, value_name = "TIME")]
        to: Option<Time>,
    },
}

/// An order about a scope.
#[derive(Args)]
pub(crate) struct Order {
    /// Which one
    scope: Scope,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// What a budget shall say.
#[derive(Args)]
pub(crate) struct Define {
    /// The scope it limits
    scope: Scope,
    /// A JSON file with the whole budget instead of options; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["limits", "parent", "unit", "ttl_min", "ttl", "ttl_max",
        "life_max", "late", "overrun", "trip", "thresholds"])]
    file: Option<String>,
    /// An amount over a window; several must all admit
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true, required_unless_present = "file")]
    limits: Vec<Limit>,
    /// The budget that every charge is charged to as well
    #[arg(long, value_name = "SCOPE")]
    parent: Option<Scope>,
    /// What is counted, for people: micro_usd
    #[arg(long, default_value = "")]
    unit: String,
    /// The least time to live of a hold
    #[arg(long, value_name = "MS")]
    ttl_min: Option<u64>,
    /// The time to live of a hold that asks for none, instead of the server-wide one
    #[arg(long, value_name = "MS")]
    ttl: Option<u64>,
    /// The most time to live of a hold
    #[arg(long, value_name = "MS")]
    ttl_max: Option<u64>,
    /// The most time from placing to expiry over all extensions
    #[arg(long, value_name = "MS")]
    life_max: Option<u64>,
    /// What to do with a commit after expiry
    #[arg(long, default_value = "charge")]
    late: CoverWord,
    /// What to do with a commit above the held amount
    #[arg(long, default_value = "charge")]
    overrun: CoverWord,
    /// Freezes the scope by itself when spend passes this
    #[arg(long, value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    trip: Option<Limit>,
    /// A percentage of posted spend, for each limit, that is told when crossed
    #[arg(long = "threshold", value_name = "PERCENT")]
    thresholds: Vec<u32>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// What to do with spend that its hold does not cover.
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
    /// The budget, and why.
    fn into_body(self) -> Result<BudgetBody, Problem> {
        if let Some(file) = &self.file {
            let body: BudgetBody = wire::read(&super::input(file)?)?;
            return Ok(BudgetBody { reason: self.reason.or(body.reason), ..body });
        }
        let usual = HoldPolicy::default();
        let span = |millis: Option<u64>, usual| millis.map_or(usual, bursar::Span::from_millis);
        let hold = HoldPolicy {
            ttl_min: span(self.ttl_min, usual.ttl_min),
            ttl: self.ttl.map(bursar::Span::from_millis),
            ttl_max: span(self.ttl_max, usual.ttl_max),
            life_max: self.life_max.map(bursar::Span::from_millis),
            late: self.late.into(),
            overrun: self.overrun.into(),
        };
        let Define { unit, parent, limits, trip, thresholds, reason, .. } = self;
        let budget = Budget { unit, parent, limits, hold, trip, thresholds, by_default: false };
        Ok(BudgetBody { reason, ..BudgetBody::from(&budget) })
    }
}

/// Does what was asked for.
pub(crate) async fn run(args: Budgets, session: &Session) -> Result<(), Problem> {
    let budgets = session.client.budgets();
    match args {
        Budgets::Define(define) => {
            let scope = define.scope.clone();
            show(&*budgets.define(&scope, &define.into_body()?).await?, session)
        }
        Budgets::Show { scope } => show(&*budgets.show(&scope).await?, session),
        Budgets::List { prefix, after, most } => {
            let after = after.as_ref().map(Scope::as_str);
            list(&*budgets.list(&prefix, after, usize::from(most)).await?, session)
        }
        Budgets::History { scope, most } => {
            journal::show(budgets.history(&scope, None, usize::from(most)).await?.into_inner().items, session)
        }
        Budgets::Freeze(Order { scope, reason }) => show(&*budgets.freeze(&scope, reason.as_deref()).await?, session),
        Budgets::Unfreeze(Order { scope, reason }) => {
            show(&*budgets.unfreeze(&scope, reason.as_deref()).await?, session)
        }
        Budgets::Credit { scope, amount, hold, reason, key } => {
            let client = session.keyed(key);
            let charged = client.budgets().credit(&scope, &CreditBody { amount, hold, reason }).await?.into_inner();
            session.out.data(&charged, || {
                let left = super::hold::left(std::slice::from_ref(&charged));
                format!("{amount} given back to {}\n{left}", charged.scope)
            })
        }
        Budgets::Spent { scope, from, to } => {
            let text = |time: Option<Time>| time.map(|time| time.to_string());
            spent(&*budgets.spent(&scope, text(from).as_deref(), text(to).as_deref()).await?, session)
        }
    }
}

fn show(budget: &BudgetAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(budget, || describe(budget))
}

fn list(page: &Page<BudgetAnswer>, session: &Session) -> Result<(), Problem> {
    session.out.data(page, || {
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
    session.out.more(page.next.as_deref());
    Ok(())
}

fn spent(answer: &SpentAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(answer, || {
        let SpentAnswer { scope, from, to, spent } = answer;
        format!("{spent} on {scope} from {} to {}", from.as_deref().unwrap_or("ever"), cell(to.as_ref()))
    })
}

/// A budget for people.
pub(crate) fn describe(view: &BudgetAnswer) -> String {
    let mut lines = vec![format!("scope   {}", view.scope)];
    match &view.budget {
        None => lines.push("budget  none: only limits given with requests".into()),
        Some(budget) => {
            if !budget.unit.is_empty() {
                lines.push(format!("unit    {}", budget.unit));
            }
            lines.extend(budget.parent.as_ref().map(|parent| format!("parent  {parent}")));
            let hold = &budget.hold;
            let ttl = hold.ttl_ms.map_or("as long as the server says".into(), |ttl| format!("{ttl} ms"));
            lines.push(format!(
                "holds   live {ttl} unless asked otherwise, {} to {} ms; late {}, overrun {}",
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

/// The balances of a scope as a table.
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
    table(&["WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING", "TURNS"], &rows.collect::<Vec<_>>())
}

fn frozen(freeze: &FreezeAnswer) -> String {
    match freeze {
        FreezeAnswer::Order { reason: Some(reason), .. } => format!("frozen  until unfrozen: {reason}"),
        FreezeAnswer::Order { reason: None, .. } => "frozen  until unfrozen".into(),
        FreezeAnswer::Trip { window, until } => {
            let until = until.as_ref().map(|until| format!("{until} or ")).unwrap_or_default();
            format!("frozen  passed its trip limit over {}; until {until}unfrozen", window.shown(None))
        }
    }
}

fn word(cover: Cover) -> &'static str {
    match cover {
        Cover::Charge => "charge",
        Cover::Refuse => "refuse",
    }
}
