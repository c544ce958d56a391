//! `bursar verify`, `bursar rebuild` and `bursar sweep`.

use std::io::{BufRead, IsTerminal, Write};

use bursar::bounds;
use clap::Args;
use serde_json::json;

use crate::exit::Exit;
use crate::progress::watched;
use crate::session::Session;
use bursar_server::wire::problem::Problem;
use bursar_server::wire::report::{CheckedAnswer, VerifyAnswer};

/// How to rebuild.
#[derive(Args)]
pub(crate) struct Rebuild {
    /// Do it without asking
    #[arg(long)]
    yes: bool,
}

/// How to sweep.
#[derive(Args)]
pub(crate) struct Sweep {
    /// At most so many holds
    #[arg(long, value_name = "N", default_value_t = bounds::SWEEP_DEFAULT as u64,
        value_parser = clap::value_parser!(u64).range(1..=bounds::SWEEP_MAX as u64))]
    most: u64,
}

/// Checks that balances are what holds and postings say.
pub(crate) async fn verify(session: &Session) -> Result<Exit, Problem> {
    let report = watched("checking the books", session.client.verify()).await?;
    session.out.data(&*report, || describe(&report))?;
    if !report.ok {
        session.out.note("hint: `bursar doctor --fix` makes the tables anew from the journal");
    }
    Ok(if report.ok { Exit::Done } else { Exit::Failed })
}

/// A report for people.
pub(crate) fn describe(report: &VerifyAnswer) -> String {
    let CheckedAnswer { scopes, holds, jobs } = &report.checked;
    let checked = format!("{scopes} scopes, {holds} holds and {jobs} jobs checked");
    if report.ok {
        return format!("{checked}: every balance is what its holds and postings say");
    }
    format!("{checked}: {} things are wrong\n{}", report.violations.len(), report.violations.join("\n"))
}

/// Makes the tables anew.
pub(crate) async fn rebuild(args: Rebuild, session: &Session) -> Result<Exit, Problem> {
    let health = session.bursar()?.health().await?;
    session.out.note(&format!(
        "every table of {} but the journal and the payloads will be emptied and made anew from {} events, in one \
         transaction; writers wait meanwhile",
        health.place, health.position
    ));
    if !args.yes && !confirmed(session)? {
        session.out.note("nothing was done");
        return Ok(Exit::Failed);
    }
    let events = watched("making the tables anew", session.bursar()?.rebuild()).await?;
    session.out.data(&json!({ "events": events }), || format!("rebuilt from {events} events"))?;
    Ok(Exit::Done)
}

/// Asks a person; nobody else can say yes without `--yes`.
fn confirmed(session: &Session) -> Result<bool, Problem> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Problem::invalid("yes".into(), "this is not a terminal: say --yes to rebuild without being asked"));
    }
    let _ = write!(std::io::stderr(), "go on? [y/N] ");
    let mut line = String::new();
    if let Err(error) = input.lock().read_line(&mut line) {
        session.out.note(&format!("no answer could be read: {error}"));
    }
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Writes down which holds have expired.
pub(crate) async fn sweep(args: Sweep, session: &Session) -> Result<(), Problem> {
    let most = usize::try_from(args.most).unwrap_or(bounds::SWEEP_DEFAULT);
    let swept = watched("sweeping", session.bursar()?.sweep(most)).await?;
    let answer = json!({ "expired_count": swept.expired_count, "scanned_at": swept.scanned_at.to_string() });
    session.out.data(&answer, || format!("{} holds had expired by {}", swept.expired_count, swept.scanned_at))
}
