//! `bursar budget`.

use bursar::{Amount, Budget, Cover, HoldId, HoldPolicy, Limit, Scope, Span, Time, Unit, bounds};
use bursar_wire::Page;
use bursar_wire::budget::{BalanceAnswer, BudgetAnswer, BudgetBody, CreditBody, FreezeAnswer, SpentAnswer};
use bursar_wire::problem::Problem;
use bursar_wire::window::LimitBody;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::args::{LIMIT_HELP, PageSize, PastMoment, WrittenLimit, amount, duration, limit, percent, whole};
use crate::context::Context;
use crate::input::read_input;
use crate::moment::moment_in;
use crate::output::{cell, table};
use crate::suggest;
use crate::units::Units;
use crate::view::{balances, charges, events};

/// The subcommands of `bursar budget`.
#[derive(Subcommand)]
pub(crate) enum Budgets {
    /// Create or replace a budget
    #[command(after_help = LIMIT_HELP)]
    Define(Box<Define>),
    /// Show a budget, its balances and those of its parents, which must admit its charges too
    Show {
        /// Scope of the budget
        scope: Scope,
        #[command(flatten)]
        moment: PastMoment,
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
    /// Delete a budget; refused while units are held on it, or while it has child budgets. Its spend stays recorded
    Delete(FreezeArgs),
    /// Credit units to a scope
    Credit {
        /// Scope to credit
        scope: Scope,
        /// Amount, in the unit of the budget
        #[arg(allow_negative_numbers = true, value_parser = amount)]
        amount: Amount,
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

impl Budgets {
    /// Whether the command only reads.
    pub(crate) fn reads(&self) -> bool {
        matches!(self, Budgets::Show { .. } | Budgets::List { .. } | Budgets::History { .. } | Budgets::Spent { .. })
    }
}

/// The arguments of `freeze`, `unfreeze` and `delete`.
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["limits", "parent", "unit", "unit_symbol", "unit_decimals", "ttl_min", "ttl", "ttl_max",
        "life_max", "late", "overrun", "trip", "thresholds", "shadow"])]
    file: Option<String>,
    /// Limit: an amount per window; repeatable, and every limit must admit a charge
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true, required_unless_present = "file")]
    limits: Vec<WrittenLimit>,
    /// Parent budget, which every charge counts against as well
    #[arg(long, value_name = "SCOPE")]
    parent: Option<Scope>,
    /// Unit that amounts are written and shown in, such as tokens; usd, eur and gbp have a symbol and 6 decimals [default: the
    /// unit of --limit]
    #[arg(long)]
    unit: Option<String>,
    /// Symbol to show before amounts, such as CHF
    #[arg(long, value_name = "SYMBOL")]
    unit_symbol: Option<String>,
    /// Decimals of the unit, which HTTP and the library count in its smallest part
    #[arg(long, value_name = "N", value_parser = |text: &str| whole::<u8>(text, 0..=12))]
    unit_decimals: Option<u8>,
    /// Minimum time to live of a hold [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl_min: Option<Span>,
    /// Time to live of a hold that is placed without --ttl [default: that of the server, 1m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Span>,
    /// Maximum time to live of a hold; a longer one is shortened, with a warning
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl_max: Option<Span>,
    /// Maximum time from placing to expiry, including extensions
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    life_max: Option<Span>,
    /// Policy for a commit after expiry
    #[arg(long, default_value = "charge")]
    late: CoverWord,
    /// Policy for a commit above the held amount
    #[arg(long, default_value = "charge")]
    overrun: CoverWord,
    /// Freeze the scope automatically when spend passes this limit
    #[arg(long, value_name = "AMOUNT:WINDOW", value_parser = limit, allow_hyphen_values = true)]
    trip: Option<WrittenLimit>,
    /// Record an event when posted spend reaches this percentage of a limit; repeatable
    #[arg(long = "threshold", value_name = "PERCENT", value_parser = percent)]
    thresholds: Vec<u32>,
    /// Try the budget out: it refuses nothing, and records what it would have refused
    #[arg(long)]
    shadow: bool,
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
        let unit = self.display_unit();
        let defaults = HoldPolicy::default();
        let hold = HoldPolicy {
            ttl_min: self.ttl_min.unwrap_or(defaults.ttl_min),
            ttl: self.ttl,
            ttl_max: self.ttl_max,
            life_max: self.life_max,
            late: self.late.into(),
            overrun: self.overrun.into(),
        };
        let Define { parent, limits, trip, thresholds, shadow, reason, .. } = self;
        let limits = limits.iter().map(|limit| limit.of(&unit)).collect::<Result<Vec<Limit>, _>>()?;
        let trip = trip.map(|trip| trip.of(&unit)).transpose()?;
        let budget = Budget { parent, hold, trip, thresholds, shadow, ..Budget::new(limits) };
        Ok(BudgetBody { reason, ..BudgetBody::from(&budget.counting(&unit)) })
    }

    /// Returns the unit of `--unit`, or the one that a limit is written in.
    fn display_unit(&self) -> Unit {
        let written = || self.limits.iter().chain(&self.trip).find_map(WrittenLimit::unit);
        let name = self.unit.clone().or_else(written).unwrap_or_default();
        Unit::of(&name, self.unit_symbol.as_deref(), self.unit_decimals)
    }
}

/// Returns what a new definition does not have any more.
fn lost(before: &BudgetBody, now: &BudgetBody) -> Vec<String> {
    let unit = before.display_unit();
    let kept = |limit: &LimitBody| now.limits.iter().any(|new| new.shown() == limit.shown());
    let limits = before.limits.iter().filter(|limit| !kept(limit));
    let mut lost: Vec<String> = limits
        .map(|limit| format!("and the limit of {} over {} is gone", unit.format(limit.amount), limit.shown_in(&unit)))
        .collect();
    if let Some(parent) = before.parent.as_ref().filter(|parent| now.parent.as_ref() != Some(*parent)) {
        lost.push(format!("and charges do not count for its former parent {parent} any more"));
    }
    if !before.unit.is_empty() && before.unit != now.unit {
        lost.push(format!("and amounts that were {} are shown in another unit now", before.unit));
    }
    lost
}

/// Runs the command.
pub(crate) async fn run(args: Budgets, context: &Context) -> Result<(), Problem> {
    let budgets = context.client.budgets();
    match args {
        Budgets::Define(define) => {
            let scope = define.scope.clone();
            let parent = define.parent.clone();
            let before = budgets.show(&scope).await.ok().and_then(|before| before.into_inner().budget);
            let defined = budgets.define(&scope, &define.into_body()?).await;
            let defined = suggest::scope(defined, parent.iter(), context).await?;
            show(&defined, context)?;
            for lost in before.iter().zip(&defined.budget).flat_map(|(before, now)| lost(before, now)) {
                context.out.note(&format!("warning: the definition was replaced, {lost}"));
            }
            Ok(())
        }
        Budgets::Show { scope, moment } => {
            let budget = budgets.show_at(&scope, moment.get()).await;
            let budget = suggest::scope(budget, [&scope], context).await?.into_inner();
            let parents = parents(&budget, moment.get(), context).await?;
            show_chain(&budget, &parents, context)
        }
        Budgets::List { prefix, after, most } => {
            let after = after.as_ref().map(Scope::as_str);
            list(&*budgets.list(&prefix, after, usize::from(most)).await?, context)
        }
        Budgets::History { scope, most } => {
            let history = budgets.history(&scope, None, usize::from(most)).await;
            let history = suggest::scope(history, [&scope], context).await?.into_inner();
            events::print_history(history.items, context).await
        }
        Budgets::Freeze(FreezeArgs { scope, reason }) => {
            let frozen = budgets.freeze(&scope, reason.as_deref()).await;
            show(&*suggest::scope(frozen, [&scope], context).await?, context)
        }
        Budgets::Unfreeze(FreezeArgs { scope, reason }) => {
            let unfrozen = budgets.unfreeze(&scope, reason.as_deref()).await;
            show(&*suggest::scope(unfrozen, [&scope], context).await?, context)
        }
        Budgets::Delete(FreezeArgs { scope, reason }) => {
            let removed = budgets.remove(&scope, reason.as_deref()).await;
            suggest::scope(removed, [&scope], context).await?;
            context
                .out
                .data(&json!({ "scope": scope, "removed": true }), || format!("the budget of {scope} is deleted"))
        }
        Budgets::Credit { scope, amount, hold, reason, key } => {
            let client = context.keyed(key);
            let mut units = Units::read([&scope], context).await?;
            let amount = units.amount(&scope, &amount)?;
            let credited = client.budgets().credit(&scope, &CreditBody { amount, hold, reason }).await;
            let credited = suggest::scope(credited, [&scope], context).await?.into_inner();
            let charged = std::slice::from_ref(&credited.charge);
            units.add(charges::scopes(charged), context).await?;
            if credited.excess > 0 {
                let excess = units.show(&scope, credited.excess);
                context.out.note(&format!(
                    "warning: {excess} more than {scope} has spent, so its limits admit that much more"
                ));
            }
            context.out.data(&credited, || {
                format!("credited {} to {scope}\n{}", units.show(&scope, amount), charges::remaining(charged, &units))
            })
        }
        Budgets::Spent { scope, from, to } => {
            let text = |time: Option<Time>| time.map(|time| time.to_string());
            let answer = budgets.spent(&scope, text(from).as_deref(), text(to).as_deref()).await;
            let answer = suggest::scope(answer, [&scope], context).await?;
            spent(&answer, &Units::read([&scope], context).await?, context)
        }
    }
}

fn show(budget: &BudgetAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(budget, || describe(budget, &[]))
}

/// Prints a budget and those above it. In JSON, they are its `parents`.
fn show_chain(budget: &BudgetAnswer, parents: &[BudgetAnswer], context: &Context) -> Result<(), Problem> {
    let mut answer = serde_json::to_value(budget).unwrap_or_default();
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("parents".into(), serde_json::to_value(parents).unwrap_or_default());
    }
    context.out.data(&answer, || {
        let own = describe(budget, parents);
        let rows: Vec<Vec<String>> = parents.iter().flat_map(limits_of).collect();
        if rows.is_empty() {
            return own;
        }
        let headings = [&["PARENT"], balances::HEADINGS.as_slice()].concat();
        format!("{own}\n\nA charge to {} counts for its parents as well:\n{}", budget.scope, table(&headings, &rows))
    })
}

/// Formats the limited balances of a parent.
fn limits_of(parent: &BudgetAnswer) -> impl Iterator<Item = Vec<String>> {
    let unit = parent.display_unit();
    let limited = parent.balances.iter().filter(|balance| balance.limit.is_some());
    limited.map(move |balance| [vec![parent.scope.to_string()], balances::row(balance, &unit)].concat())
}

/// Reads the budgets above one, nearest first.
async fn parents(budget: &BudgetAnswer, moment: Option<&str>, context: &Context) -> Result<Vec<BudgetAnswer>, Problem> {
    let parent_of = |budget: &BudgetAnswer| budget.budget.as_ref().and_then(|budget| budget.parent.clone());
    let mut parents: Vec<BudgetAnswer> = Vec::new();
    while let Some(scope) = parent_of(parents.last().unwrap_or(budget)).filter(|_| parents.len() < bounds::DEPTH_MAX) {
        parents.push(context.client.budgets().show_at(&scope, moment).await?.into_inner());
    }
    Ok(parents)
}

fn list(page: &Page<BudgetAnswer>, context: &Context) -> Result<(), Problem> {
    context.out.data(page, || {
        let rows = page.items.iter().flat_map(|view| {
            let parent = cell(view.budget.as_ref().and_then(|budget| budget.parent.as_ref()));
            let shadow = view.budget.as_ref().is_some_and(|budget| budget.shadow).then_some("shadow");
            let state: Vec<&str> = shadow.into_iter().chain(view.frozen.then_some("frozen")).collect();
            let state = state.join(", ");
            balances::limited(view).map(move |balance| {
                [vec![view.scope.to_string(), parent.clone()], balance, vec![state.clone()]].concat()
            })
        });
        table(&["SCOPE", "PARENT", "WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING", ""], &rows.collect::<Vec<_>>())
    })?;
    if page.items.is_empty() {
        context.out.note("no budgets; define one with `bursar budget define SCOPE --limit AMOUNT:WINDOW`");
    }
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn spent(answer: &SpentAnswer, units: &Units, context: &Context) -> Result<(), Problem> {
    context.out.data(answer, || {
        let SpentAnswer { scope, from, to, spent } = answer;
        let from = from.as_deref().unwrap_or("the first posting");
        let spent = units.show(scope, *spent);
        format!("{spent} spent on {scope} from {from} to {}", cell(to.as_ref()))
    })
}

/// Describes a budget and its balances, and which of its parents are frozen.
fn describe(view: &BudgetAnswer, parents: &[BudgetAnswer]) -> String {
    let mut lines = vec![format!("scope   {}", view.scope)];
    match &view.budget {
        None => lines.push("budget  none; requests must pass limits".into()),
        Some(budget) => {
            if !budget.unit.is_empty() {
                lines.push(format!("unit    {}", describe_unit(&budget.display_unit())));
            }
            lines.extend(budget.parent.as_ref().map(|parent| format!("parent  {parent}")));
            let hold = &budget.hold;
            let ttl = hold.ttl_ms.map_or("the server's default".into(), shown_millis);
            let most = hold.ttl_ms_max.map_or("the server's maximum".into(), shown_millis);
            lines.push(format!(
                "holds   last {ttl}, from {} to {most}; a late commit is {}, an overrun is {}",
                shown_millis(hold.ttl_ms_min),
                word(hold.late),
                word(hold.overrun),
            ));
            lines.extend(budget.trip.as_ref().map(|trip| {
                let unit = budget.display_unit();
                format!("trip    freezes above {} over {}", unit.format(trip.amount), trip.shown_in(&unit))
            }));
            if budget.shadow {
                let look = format!("bursar journal list --kind budget.would_refuse --stream scope:{}", view.scope);
                lines.push(format!("shadow  it refuses nothing; what it would have refused: `{look}`"));
            }
            if !budget.thresholds.is_empty() {
                let percents: Vec<String> = budget.thresholds.iter().map(|percent| format!("{percent} %")).collect();
                lines.push(format!("events  at {} of a limit", percents.join(", ")));
            }
        }
    }
    lines.extend(view.freeze.as_ref().map(|freeze| format!("frozen  {}", frozen(freeze, &view.display_unit()))));
    lines.extend(parents.iter().filter_map(|parent| {
        let until = frozen(parent.freeze.as_ref()?, &parent.display_unit());
        Some(format!("frozen  by its parent {}, {until}", parent.scope))
    }));
    lines.push(all_balances(view));
    lines.join("\n")
}

/// Formats the balances of a scope as a table. The total, which every scope has, comes last unless it is limited.
fn all_balances(view: &BudgetAnswer) -> String {
    let unit = view.display_unit();
    let is_total = |balance: &&BalanceAnswer| balance.limit.is_none() && balance.window.window == "lifetime";
    let rows = view.balances.iter().filter(|balance| !is_total(balance)).map(|balance| balances::row(balance, &unit));
    let total = view.balances.iter().filter(is_total).map(|balance| {
        let mut row = vec!["total so far".to_owned()];
        row.extend(balances::amounts(balance, &unit));
        row.push("-".to_owned());
        row
    });
    table(&balances::HEADINGS, &rows.chain(total).collect::<Vec<_>>())
}

/// Describes a unit: its name, and what an amount looks like.
fn describe_unit(unit: &Unit) -> String {
    match unit.decimals {
        0 if unit.symbol.is_none() => unit.name.clone(),
        decimals => {
            format!("{} ({decimals} decimals, shown as {})", unit.name, unit.format(25 * 10_i64.pow(decimals.into())))
        }
    }
}

fn shown_millis(millis: i64) -> String {
    Span::from_millis(millis.unsigned_abs()).to_string()
}

/// Describes until when a freeze lasts, and why.
fn frozen(freeze: &FreezeAnswer, unit: &Unit) -> String {
    match freeze {
        FreezeAnswer::Order { reason: Some(reason), .. } => format!("until unfrozen ({reason})"),
        FreezeAnswer::Order { reason: None, .. } => "until unfrozen".into(),
        FreezeAnswer::Trip { window, until } => {
            let until = until.as_ref().map(|_| moment_in(until.as_ref(), window.zone.as_deref()) + " or ");
            let until = until.unwrap_or_default();
            format!("until {until}unfrozen: spend passed the trip limit over {}", window.shown_in(None, unit))
        }
    }
}

fn word(cover: Cover) -> &'static str {
    match cover {
        Cover::Charge => "charged",
        Cover::Refuse => "refused",
    }
}
