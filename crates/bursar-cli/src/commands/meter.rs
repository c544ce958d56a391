//! `bursar meter`.

use bursar::{Amount, IdempotencyKey, Unit};
use bursar_wire::meter::{MeteredOperationBody, QuotaAnswer, QuotaCheckBody, QuotaLimitBody};
use bursar_wire::problem::Problem;
use bursar_wire::window::LimitBody;
use clap::{Args, Subcommand};

use crate::args::{LIMIT_HELP, WrittenLimit, amount, limit};
use crate::context::Context;
use crate::moment::moment_of_seconds;
use crate::output::table;

/// The subcommands of `bursar meter`.
#[derive(Subcommand)]
pub(crate) enum Meters {
    /// Show the quota of a caller and what is left of it
    Show {
        /// Name of the caller [default: the caller of this command]
        caller: Option<String>,
    },
    /// Charge a caller's quota if it admits the cost; if not, nothing is charged and the exit code is 3
    Check(Check),
    /// Give a caller its own limits, instead of the default quota
    #[command(after_help = LIMIT_HELP)]
    Limit(SetLimit),
}

/// The arguments of `bursar meter check`.
#[derive(Args)]
pub(crate) struct Check {
    /// Name of the caller
    caller: String,
    /// Units to charge
    #[arg(required_unless_present = "path", conflicts_with = "path", value_parser = amount)]
    cost: Option<Amount>,
    /// Path of the caller's request, to charge what the prices in the configuration say instead of COST
    #[arg(long)]
    path: Option<String>,
    /// HTTP method of the caller's request
    #[arg(long, default_value = "GET", requires = "path", conflicts_with = "cost")]
    method: String,
    /// Size of the payload of the caller's request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "path", conflicts_with = "cost")]
    payload_bytes: u64,
    /// Idempotency key: repeating the request with it charges nothing more
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// The arguments of `bursar meter limit`.
#[derive(Args)]
pub(crate) struct SetLimit {
    /// Name of the caller
    caller: String,
    /// Amount per window of the default quota; for another window use --limit
    #[arg(value_name = "AMOUNT", required_unless_present = "limits", conflicts_with = "limits", value_parser = amount)]
    amount: Option<Amount>,
    /// Amount per window, instead of AMOUNT; repeatable, and every limit must admit a request
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit)]
    limits: Vec<WrittenLimit>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
    /// Idempotency key: repeating the request with it returns the first answer
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// Runs the command.
pub(crate) async fn run(args: Meters, context: &Context) -> Result<(), Problem> {
    match args {
        Meters::Show { caller } => show(&*context.client.meter().quota(caller.as_deref()).await?, context),
        Meters::Check(Check { caller, cost, path, method, payload_bytes, key }) => {
            let cost = cost.map(|cost| cost.in_unit(&Unit::default())).transpose()?;
            let operation = path.map(|path| MeteredOperationBody { method, path, payload_bytes });
            let body = QuotaCheckBody { agent_id: caller, cost, operation };
            let answer = context.keyed(key).meter().check(&body).await?;
            context
                .out
                .data(&*answer, || format!("charged {}\n{}", Unit::default().format(answer.cost), text(&answer.quota)))
        }
        Meters::Limit(SetLimit { caller, amount, limits, reason, key }) => {
            // Quotas count units without a name.
            let unit = Unit::default();
            let limits = limits.iter().map(|limit| Ok(LimitBody::from(&limit.of(&unit)?)));
            let limits = limits.collect::<Result<Vec<LimitBody>, Problem>>()?;
            let limits = Some(limits).filter(|limits| !limits.is_empty());
            let limit = amount.map(|amount| amount.in_unit(&unit)).transpose()?;
            let body = QuotaLimitBody { agent_id: caller, limit, limits, reason };
            show(&*context.keyed(key).meter().set_limit(&body).await?, context)
        }
    }
}

fn show(quota: &QuotaAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(quota, || text(quota))
}

fn text(quota: &QuotaAnswer) -> String {
    let unit = Unit::default();
    let rows = quota.limits.iter().map(|limit| {
        vec![
            limit.window.shown(Some(limit.limit)),
            unit.format(limit.limit),
            unit.format(limit.used),
            unit.format(limit.remaining),
            moment_of_seconds(limit.reset_at, limit.window.zone.as_deref()),
        ]
    });
    let limits = table(&["WINDOW", "LIMIT", "USED", "REMAINING", "RESETS"], &rows.collect::<Vec<_>>());
    format!("caller  {}\nbudget  {}\n{limits}", quota.agent_id, quota.scope)
}
