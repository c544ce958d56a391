//! Commands, settled holds and the balances they leave.

use bursar_wire::command::{ChargeAnswer, CommandAnswer};
use bursar_wire::hold::SettledAnswer;

use crate::output::table;

/// Describes what a command did.
pub(crate) fn command(done: &CommandAnswer) -> String {
    let outcome = match (done.dry_run, done.replayed) {
        (true, _) => "would be done; nothing was written (dry run)",
        (_, true) => "was done before under this key; this is the first answer (replay)",
        _ => "done",
    };
    let amounts = |charges: &[ChargeAnswer]| -> Vec<String> {
        charges.iter().map(|charged| format!("  {} on {}", charged.amount, charged.scope)).collect()
    };
    let mut lines = vec![format!("{} {outcome}", done.id)];
    if let Some(hold) = &done.hold {
        lines.push(format!("{} is held until {}", hold.id, hold.expires_at.as_deref().unwrap_or("its job ends")));
        lines.extend(amounts(&hold.charges));
        lines.push(remaining(&hold.charges));
    }
    if !done.posted.is_empty() {
        lines.push("posted".into());
        lines.extend(amounts(&done.posted));
        lines.push(remaining(&done.posted));
    }
    for grant in &done.grants {
        let payload = grant.payload.as_ref().map_or("(payload no longer stored)", |payload| payload.as_str());
        lines.push(format!("redeemed {}: {payload}", grant.purpose));
    }
    lines.extend(done.jobs.iter().map(|job| enqueued(&job.id.to_string(), job.created)));
    lines.join("\n")
}

/// Describes an enqueued job, or one that its idempotency key found.
pub(crate) fn enqueued(id: &str, created: bool) -> String {
    format!("{id} {}", if created { "enqueued" } else { "was already enqueued under this key" })
}

/// Describes a hold that was committed or released.
pub(crate) fn settled(settled: &SettledAnswer) -> String {
    let mut lines = vec![format!("{} is {}", settled.id, settled.state)];
    for ChargeAnswer { scope, amount, actual, .. } in &settled.charges {
        lines.push(match actual {
            Some(actual) if actual <= amount => {
                format!("{scope}: held {amount}, spent {actual}, freed {}", amount - actual)
            }
            Some(actual) => format!("{scope}: held {amount}, spent {actual}, overrun {}", actual - amount),
            None => format!("{scope}: held {amount}, freed {amount}"),
        });
    }
    lines.push(remaining(&settled.charges));
    lines.join("\n")
}

/// Formats what charges left of each limit.
pub(crate) fn remaining(charges: &[ChargeAnswer]) -> String {
    let rows = charges.iter().flat_map(|charged| {
        charged.balances.iter().map(|balance| {
            let scope = balance.scope.as_ref().unwrap_or(&charged.scope);
            let window = balance.window.shown(Some(balance.limit));
            vec![scope.to_string(), window, balance.limit.to_string(), balance.remaining.to_string()]
        })
    });
    table(&["SCOPE", "WINDOW", "LIMIT", "REMAINING"], &rows.collect::<Vec<_>>())
}
