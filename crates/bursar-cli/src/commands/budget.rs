//! `bursar budget`.

use bursar::{Answer, Budget, BudgetView, Cover, Freeze, HoldId, HoldPolicy, Limit, Op, Scope, Stream, Time};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::args::{LIMIT_HELP, limit};
use crate::commands::journal;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::budget::{BudgetAnswer, BudgetBody};
use bursar_server::wire::command::ChargeAnswer;
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
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        most: u16,
    },
    /// Everything that moved a scope, newest first
    History {
        /// Which one
        scope: Scope,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        most: u16,
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
    fn into_budget(self) -> Result<(Budget, Option<String>), Problem> {
        if let Some(file) = &self.file {
            let mut body: BudgetBody = wire::read(&super::input(file)?)?;
            let reason = self.reason.or(body.reason.take());
            return Ok((Budget::try_from(body)?, reason));
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
        Ok((Budget { unit, parent, limits, hold, trip, thresholds, by_default: false }, reason))
    }
}

/// Does what was asked for.
pub(crate) async fn run(args: Budgets, session: &Session) -> Result<(), Problem> {
    match args {
        Budgets::Define(define) => {
            let scope = define.scope.clone();
            let (budget, reason) = define.into_budget()?;
            let op = Op::Define { scope: scope.clone(), budget };
            session.because(reason.as_deref()).ask(op, None).await?;
            show(&scope, session).await
        }
        Budgets::Show { scope } => show(&scope, session).await,
        Budgets::List { prefix, after, most } => list(&prefix, after.as_ref(), usize::from(most), session).await,
        Budgets::History { scope, most } => {
            // A scope nobody ever named has no history to be empty.
            find(&scope, session).await?;
            let stream = Stream::Scope(session.context.tenant.clone(), scope);
            journal::history(&stream, usize::from(most), session).await
        }
        Budgets::Freeze(Order { scope, reason }) => {
            session.because(reason.as_deref()).ask(Op::Freeze { scope: scope.clone() }, None).await?;
            show(&scope, session).await
        }
        Budgets::Unfreeze(Order { scope, reason }) => {
            session.because(reason.as_deref()).ask(Op::Unfreeze { scope: scope.clone() }, None).await?;
            show(&scope, session).await
        }
        Budgets::Credit { scope, amount, hold, reason, key } => {
            let op = Op::Credit { scope, amount, hold };
            let outcome = session.because(reason.as_deref()).ask(op, key).await?;
            let Answer::Credited(charged) = outcome.answer else { return Err(unexpected()) };
            session.out.data(&ChargeAnswer::from(&charged), || {
                let left = super::hold::left(std::slice::from_ref(&charged));
                format!("{amount} given back to {}\n{left}", charged.scope)
            })
        }
        Budgets::Spent { scope, from, to } => spent(&scope, from.unwrap_or(Time::MIN), to, session).await,
    }
}

async fn find(scope: &Scope, session: &Session) -> Result<BudgetView, Problem> {
    let found = session.bursar.ledger().budget(scope).await?;
    found.ok_or_else(|| Problem::not_found(format_args!("budget {scope}, and nothing was ever charged to it")))
}

async fn show(scope: &Scope, session: &Session) -> Result<(), Problem> {
    let view = find(scope, session).await?;
    session.out.data(&BudgetAnswer::from(&view), || describe(&view))
}

async fn list(prefix: &str, after: Option<&Scope>, most: usize, session: &Session) -> Result<(), Problem> {
    let found = session.bursar.ledger().budgets(prefix, after, most).await?;
    let answers = found.iter().map(BudgetAnswer::from).collect();
    let page = Page::of(answers, most, |last: &BudgetAnswer| last.scope.to_string());
    session.out.data(&page, || {
        let rows = found.iter().flat_map(|view| {
            let parent = view.budget.as_ref().and_then(|budget| budget.parent.clone());
            let frozen = if view.frozen.is_some() { "frozen" } else { "" };
            let limited = view.balances.iter().filter(|balance| balance.limit.is_some());
            limited.map(move |balance| {
                vec![
                    view.scope.to_string(),
                    cell(parent.as_ref()),
                    balance.window.to_string(),
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
    if let Some(next) = &page.next {
        session.out.note(&format!("there may be more: --after {next}"));
    }
    Ok(())
}

async fn spent(scope: &Scope, from: Time, to: Option<Time>, session: &Session) -> Result<(), Problem> {
    let to = match to {
        Some(to) => to,
        None => session.bursar.now().await?,
    };
    find(scope, session).await?;
    let spent = session.bursar.ledger().spent(scope, from, to).await?;
    let since = (from > Time::MIN).then(|| from.to_string());
    let answer = json!({ "scope": scope, "from": since, "to": to.to_string(), "spent": spent });
    session.out.data(&answer, || format!("{spent} on {scope} from {} to {to}", since.as_deref().unwrap_or("ever")))
}

/// A budget for people.
pub(crate) fn describe(view: &BudgetView) -> String {
    let mut lines = vec![format!("scope   {}", view.scope)];
    match &view.budget {
        None => lines.push("budget  none: only limits given with requests".into()),
        Some(budget) => {
            if !budget.unit.is_empty() {
                lines.push(format!("unit    {}", budget.unit));
            }
            lines.extend(budget.parent.as_ref().map(|parent| format!("parent  {parent}")));
            let hold = &budget.hold;
            let ttl = hold.ttl.map_or("as long as the server says".into(), |ttl| format!("{} ms", ttl.millis()));
            lines.push(format!(
                "holds   live {ttl} unless asked otherwise, {} to {} ms; late {}, overrun {}",
                hold.ttl_min.millis(),
                hold.ttl_max.millis(),
                word(hold.late),
                word(hold.overrun),
            ));
            lines.extend(budget.trip.as_ref().map(|trip| format!("trip    {} over {}", trip.amount, trip.window)));
            if !budget.thresholds.is_empty() {
                let percents: Vec<String> = budget.thresholds.iter().map(|percent| format!("{percent} %")).collect();
                lines.push(format!("alerts  at {}", percents.join(", ")));
            }
        }
    }
    lines.extend(view.frozen.as_ref().map(frozen));
    lines.push(balances(view));
    lines.join("\n")
}

/// The balances of a scope as a table.
pub(crate) fn balances(view: &BudgetView) -> String {
    let rows = view.balances.iter().map(|balance| {
        vec![
            balance.window.to_string(),
            cell(balance.limit),
            balance.posted.to_string(),
            balance.held.to_string(),
            cell(balance.remaining),
            cell(balance.end),
        ]
    });
    table(&["WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING", "TURNS"], &rows.collect::<Vec<_>>())
}

fn frozen(freeze: &Freeze) -> String {
    match freeze {
        Freeze::Order { reason: Some(reason), .. } => format!("frozen  until unfrozen: {reason}"),
        Freeze::Order { reason: None, .. } => "frozen  until unfrozen".into(),
        Freeze::Trip { window, until: Some(until) } => {
            format!("frozen  passed its trip limit over {window}; until {until} or unfrozen")
        }
        Freeze::Trip { window, until: None } => format!("frozen  passed its trip limit over {window}; until unfrozen"),
    }
}

fn word(cover: Cover) -> &'static str {
    match cover {
        Cover::Charge => "charge",
        Cover::Refuse => "refuse",
    }
}

/// The library answered something that does not belong to the question.
pub(crate) fn unexpected() -> Problem {
    Problem::new(wire::problem::Kind::Internal, "the answer does not belong to the question: this is a bug of bursar")
}
