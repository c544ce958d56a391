//! Results of commands.

use std::borrow::Cow;

use bursar::Receipt;

use crate::wire::command::{CommandAnswer, EnqueuedAnswer, PlacedAnswer, RedeemedAnswer, charges};

/// Returns the result of a command that was executed or, for a dry run, checked.
pub fn command_answer(receipt: &Receipt, dry_run: bool) -> CommandAnswer {
    let done = &receipt.done;
    CommandAnswer {
        id: receipt.command,
        replayed: receipt.replayed,
        dry_run,
        hold: done.hold.as_ref().map(PlacedAnswer::from),
        posted: charges(&done.posted),
        grants: done.grants.iter().map(RedeemedAnswer::from).collect(),
        jobs: done.jobs.iter().copied().map(EnqueuedAnswer::from).collect(),
        warnings: done.warnings().into_iter().map(Cow::from).collect(),
    }
}
