//! `bursar meter`.

use bursar::{IdempotencyKey, Limit};
use clap::{Args, Subcommand};

use crate::args::{LIMIT_HELP, limit};
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::meter::{QuotaAnswer, QuotaLimitBody};
use bursar_server::wire::problem::Problem;
use bursar_server::wire::window::LimitBody;

/// What can be done with quotas.
#[derive(Subcommand)]
pub(crate) enum Meters {
    /// How a caller stands with its quota
    Show {
        /// Which caller; who asks, unless said
        caller: Option<String>,
    },
    /// Give a caller limits of its own
    #[command(after_help = LIMIT_HELP)]
    Limit(SetLimit),
}

/// Limits of one caller's own.
#[derive(Args)]
pub(crate) struct SetLimit {
    /// Which caller
    caller: String,
    /// So much in the window of the quota that everybody has
    #[arg(value_name = "AMOUNT", required_unless_present = "limits", conflicts_with = "limits")]
    amount: Option<i64>,
    /// An amount over a window instead; several must all admit
    #[arg(long = "limit", value_name = "AMOUNT:WINDOW", value_parser = limit)]
    limits: Vec<Limit>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
    /// Do it once, however often it is asked for under this key
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// Does what was asked for.
pub(crate) async fn run(args: Meters, session: &Session) -> Result<(), Problem> {
    match args {
        Meters::Show { caller } => show(&*session.client.meter().quota(caller.as_deref()).await?, session),
        Meters::Limit(SetLimit { caller, amount, limits, reason, key }) => {
            let limits: Vec<LimitBody> = limits.iter().map(LimitBody::from).collect();
            let limits = Some(limits).filter(|limits| !limits.is_empty());
            let body = QuotaLimitBody { agent_id: caller, limit: amount, limits, reason };
            show(&*session.keyed(key).meter().set_limit(&body).await?, session)
        }
    }
}

fn show(quota: &QuotaAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(quota, || {
        let rows = quota.limits.iter().map(|limit| {
            vec![
                limit.window.shown(Some(limit.limit)),
                limit.limit.to_string(),
                limit.used.to_string(),
                limit.remaining.to_string(),
                cell(limit.reset_at),
            ]
        });
        let limits = table(&["WINDOW", "LIMIT", "USED", "LEFT", "RESET (UNIX)"], &rows.collect::<Vec<_>>());
        format!("caller  {}\nbudget  {}\n{limits}", quota.agent_id, quota.scope)
    })
}
