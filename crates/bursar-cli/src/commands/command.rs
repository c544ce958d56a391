//! `bursar command`.

use bursar::IdempotencyKey;
use bursar_wire::command::CommandBody;
use bursar_wire::problem::Problem;
use clap::Subcommand;

use crate::commands::hold;
use crate::context::Context;
use crate::input::read_input;
use crate::units::Units;

/// The subcommands of `bursar command`.
#[derive(Subcommand)]
pub(crate) enum Commands {
    /// Submit a command from a JSON file: charges, redemptions and jobs in one transaction
    #[command(after_help = "\
The file is the body of POST /v1/commands: charges [{ scope, amount, limits }], settle (now, hold, job), ttl_ms,
redeem [{ purpose, subject, token }], jobs [{ queue, kind, payload, … }], context { correlation_id, reason }, dry_run.
Example: {\"charges\":[{\"scope\":\"agent:1\",\"amount\":50000}],\"settle\":\"hold\",\"ttl_ms\":60000}")]
    Submit {
        /// JSON file; - reads standard input
        file: String,
        /// Idempotency key: repeating the request with it returns the first answer
        #[arg(long)]
        key: Option<IdempotencyKey>,
        /// Check the command and print the answer without writing anything
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs the command.
pub(crate) async fn run(args: Commands, context: &Context) -> Result<(), Problem> {
    let Commands::Submit { file, key, dry_run } = args;
    let mut body: CommandBody = bursar_wire::read(&read_input(&file)?)?;
    body.dry_run |= dry_run;
    hold::submit(&body, Units::default(), key, context).await
}
