//! Results of commands.

use std::borrow::Cow;

use bursar::{Placed, Receipt};

use crate::wire::budget::WouldRefuseAnswer;
use crate::wire::command::{CommandAnswer, EnqueuedAnswer, PlacedAnswer, RedeemedAnswer, charges};

/// Returns the result of a command that was executed or, for a dry run, checked.
pub fn command_answer(receipt: &Receipt, dry_run: bool) -> CommandAnswer {
    let done = &receipt.done;
    // What a dry run would create does not exist, so its ids are left out.
    let placed = |placed: &Placed| {
        let answer = PlacedAnswer::from(placed);
        PlacedAnswer { id: answer.id.filter(|_| !dry_run), ..answer }
    };
    let jobs = done.jobs.iter().filter(|job| !(dry_run && job.created));
    CommandAnswer {
        id: (!dry_run).then_some(receipt.command),
        replayed: receipt.replayed,
        dry_run,
        hold: done.hold.as_ref().map(placed),
        posted: charges(&done.posted),
        grants: done.grants.iter().map(RedeemedAnswer::from).collect(),
        jobs: jobs.copied().map(EnqueuedAnswer::from).collect(),
        warnings: done.warnings().into_iter().map(Cow::from).collect(),
        would_refuse: done.would_refuse().iter().map(WouldRefuseAnswer::from).collect(),
    }
}
