//! `bursar meter`.

use bursar::{Amount, IdempotencyKey, Unit};
use bursar_wire::meter::{QuotaAnswer, QuotaLimitBody};
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
    /// Give a caller its own limits, instead of the default quota
    #[command(after_help = LIMIT_HELP)]
    Limit(SetLimit),
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
    context.out.data(quota, || {
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
    })
}
