//! `bursar verify`, `bursar rebuild` and `bursar sweep`.

use std::io::{BufRead, IsTerminal, Write};

use bursar::bounds;
use bursar_wire::problem::Problem;
use clap::Args;
use serde_json::json;

use crate::args::whole;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::counted;
use crate::progress::with_progress;
use crate::view::report;

/// The arguments of `bursar rebuild`.
#[derive(Args)]
pub(crate) struct Rebuild {
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// The arguments of `bursar sweep`.
#[derive(Args)]
pub(crate) struct Sweep {
    /// Maximum number of holds to record
    #[arg(long, value_name = "N", default_value_t = bounds::SWEEP_DEFAULT as u64,
        value_parser = |text: &str| whole::<u64>(text, 1..=bounds::SWEEP_MAX as u64))]
    most: u64,
}

/// Runs `bursar verify`.
pub(crate) async fn verify(context: &Context) -> Result<Exit, Problem> {
    let report = with_progress("verifying", context.client.verify()).await?;
    context.out.data(&*report, || report::describe(&report))?;
    if !report.ok {
        context.out.note("hint: `bursar doctor --fix` rebuilds the tables from the journal");
    }
    Ok(if report.ok { Exit::Done } else { Exit::Failed })
}

/// Runs `bursar rebuild`.
pub(crate) async fn rebuild(args: Rebuild, context: &Context) -> Result<Exit, Problem> {
    let health = context.bursar()?.health().await?;
    context.out.note(&format!(
        "every table of {} except the journal and the payloads will be emptied and rebuilt from {} events, in one \
         transaction; writers are blocked until it commits",
        health.place, health.position
    ));
    if !args.yes && !confirmed(context)? {
        context.out.note("nothing was changed");
        return Ok(Exit::Failed);
    }
    let events = with_progress("rebuilding the tables", context.bursar()?.rebuild()).await?;
    context.out.data(&json!({ "events": events }), || format!("rebuilt from {}", counted(events, "event")))?;
    Ok(Exit::Done)
}

/// Asks for confirmation on a terminal.
fn confirmed(context: &Context) -> Result<bool, Problem> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Problem::invalid(
            "yes".into(),
            "standard input is not a terminal, so nothing was changed; pass --yes to rebuild without confirmation",
        ));
    }
    let _ = write!(std::io::stderr(), "continue? [y/N] ");
    let mut line = String::new();
    if let Err(error) = input.lock().read_line(&mut line) {
        context.out.note(&format!("the answer cannot be read: {error}"));
    }
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Runs `bursar sweep`.
pub(crate) async fn sweep(args: Sweep, context: &Context) -> Result<(), Problem> {
    let most = usize::try_from(args.most).unwrap_or(bounds::SWEEP_DEFAULT);
    let swept = with_progress("sweeping", context.bursar()?.sweep(most)).await?;
    let answer = json!({ "expired_count": swept.expired_count, "scanned_at": swept.scanned_at.to_string() });
    context.out.data(&answer, || {
        format!("recorded {} as expired, as of {}", counted(swept.expired_count, "hold"), swept.scanned_at)
    })
}
