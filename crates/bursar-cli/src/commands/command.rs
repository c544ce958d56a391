//! `bursar command`.

use bursar::IdempotencyKey;
use clap::Subcommand;

use crate::commands::hold;
use crate::session::Session;
use bursar_server::wire;
use bursar_server::wire::command::{CommandAnswer, CommandBody};
use bursar_server::wire::problem::Problem;

/// What can be done with commands.
#[derive(Subcommand)]
pub(crate) enum Commands {
    /// Do what a JSON file asks for: charges, redemptions and jobs in one transaction
    #[command(after_help = "\
The file is the body of POST /v1/commands: charges [{ scope, amount, limits }], settle (now, hold, job), ttl_ms,
redeem [{ purpose, subject, token }], jobs [{ queue, kind, payload, … }], context { correlation_id, reason }, dry_run.
Example: {\"charges\":[{\"scope\":\"agent:1\",\"amount\":50000}],\"settle\":\"hold\",\"ttl_ms\":60000}")]
    Submit {
        /// The file; - for standard input
        file: String,
        /// Do it once, however often it is asked for under this key
        #[arg(long)]
        key: Option<IdempotencyKey>,
        /// Decide and answer, but write nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Does what was asked for.
pub(crate) async fn run(args: Commands, session: &Session) -> Result<(), Problem> {
    let Commands::Submit { file, key, dry_run } = args;
    let mut body: CommandBody = wire::read(&super::input(&file)?)?;
    body.dry_run |= dry_run;
    answer(&*session.keyed(key).commands().submit(&body).await?, session)
}

/// Prints what a command did.
pub(crate) fn answer(answer: &CommandAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(answer, || describe(answer))
}

/// What a command did, for people.
pub(crate) fn describe(done: &CommandAnswer) -> String {
    let how = match (done.dry_run, done.replayed) {
        (true, _) => "would be done; nothing was written",
        (_, true) => "was done before under this key; this is the first answer again",
        _ => "done",
    };
    let mut lines = vec![format!("{} {how}", done.id)];
    if let Some(hold) = &done.hold {
        lines.push(format!("{} holds until {}", hold.id, hold.expires_at.as_deref().unwrap_or("its job ends")));
        lines.extend(hold.charges.iter().map(|charged| format!("  {} on {}", charged.amount, charged.scope)));
        lines.push(hold::left(&hold.charges));
    }
    if !done.posted.is_empty() {
        lines.push("spent".into());
        lines.extend(done.posted.iter().map(|charged| format!("  {} on {}", charged.amount, charged.scope)));
        lines.push(hold::left(&done.posted));
    }
    for grant in &done.grants {
        let payload = grant.payload.as_ref().map_or("no longer kept", |payload| payload.as_str());
        lines.push(format!("redeemed {}: {payload}", grant.purpose));
    }
    for job in &done.jobs {
        lines.push(format!("{} {}", job.id, if job.created { "enqueued" } else { "was there already" }));
    }
    lines.join("\n")
}
