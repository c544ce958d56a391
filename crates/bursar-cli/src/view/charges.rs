//! Commands, settled holds and the balances they leave.

use bursar::{Scope, Span};
use bursar_wire::budget::WouldRefuseAnswer;
use bursar_wire::command::{ChargeAnswer, CommandAnswer};
use bursar_wire::hold::{ClampedAnswer, SettledAnswer};

use crate::moment::moment;
use crate::output::table;
use crate::units::Units;

/// Describes what a command did.
pub(crate) fn command(done: &CommandAnswer, units: &Units) -> String {
    let outcome = match (done.dry_run, done.replayed) {
        (true, _) => "would be done; nothing was written (dry run)",
        (_, true) => "was done before under this key; this is the first answer (replay)",
        _ => "done",
    };
    let amounts = |charges: &[ChargeAnswer]| -> Vec<String> {
        let amount = |charged: &ChargeAnswer| units.show(&charged.scope, charged.amount);
        charges.iter().map(|charged| format!("  {} on {}", amount(charged), charged.scope)).collect()
    };
    let mut lines = vec![match done.id {
        Some(id) => format!("{id} {outcome}"),
        None => outcome.to_owned(),
    }];
    if let Some(hold) = &done.hold {
        let expiry = match &hold.expires_at {
            Some(_) => format!("expires {}", moment(hold.expires_at.as_ref())),
            None => "is held until its job ends".to_owned(),
        };
        lines.push(match hold.id {
            Some(id) => format!("{id} {expiry}"),
            None => format!("a hold that {expiry}"),
        });
        lines.extend(amounts(&hold.charges));
        lines.extend(some_remaining(&hold.charges, units));
    }
    if !done.posted.is_empty() {
        lines.push("posted".into());
        lines.extend(amounts(&done.posted));
        lines.extend(some_remaining(&done.posted, units));
    }
    lines.extend(done.would_refuse.iter().map(|shadowed| would_refuse(shadowed, units)));
    for grant in &done.grants {
        let payload = grant.payload.as_ref().map_or("(payload no longer stored)", |payload| payload.as_str());
        lines.push(format!("redeemed {}: {payload}", grant.purpose));
    }
    lines.extend(done.jobs.iter().map(|job| enqueued(&job.id.to_string(), job.created)));
    lines.join("\n")
}

/// Describes what a budget in shadow mode would have refused.
fn would_refuse(shadowed: &WouldRefuseAnswer, units: &Units) -> String {
    match shadowed {
        WouldRefuseAnswer::Limit { scope, window, limit, requested, available } => {
            let show = |amount: i64| Scope::new(scope).map_or(amount.to_string(), |named| units.show(&named, amount));
            format!(
                "{scope}, in shadow mode, would have refused it: {} left of {} over {}, {} requested",
                show(*available),
                show(*limit),
                window.shown(Some(*limit)),
                show(*requested)
            )
        }
        WouldRefuseAnswer::Frozen { scope, .. } => {
            format!("{scope}, in shadow mode, would have refused it: its trip limit has frozen it")
        }
    }
}

/// Describes an enqueued job, or one that its idempotency key found.
pub(crate) fn enqueued(id: &str, created: bool) -> String {
    format!("{id} {}", if created { "enqueued" } else { "was already enqueued under this key" })
}

/// Describes a hold that was committed or released.
pub(crate) fn settled(settled: &SettledAnswer, units: &Units) -> String {
    let mut lines = vec![format!("{} is {}", settled.id, settled.state)];
    for ChargeAnswer { scope, amount, actual, .. } in &settled.charges {
        let show = |amount: i64| units.show(scope, amount);
        let held = show(*amount);
        lines.push(match *actual {
            Some(actual) if actual <= *amount => {
                format!("{scope}: held {held}, spent {}, freed {}", show(actual), show(amount - actual))
            }
            Some(actual) => {
                format!(
                    "{scope}: held {held}, spent {}, overrun {}",
                    show(actual),
                    show(actual.saturating_sub(*amount))
                )
            }
            None => format!("{scope}: held {held}, freed {held}"),
        });
    }
    lines.push(remaining(&settled.charges, units));
    lines.join("\n")
}

/// Formats what charges left of each limit. The answer about an earlier hold has no balances.
fn some_remaining(charges: &[ChargeAnswer], units: &Units) -> Option<String> {
    charges.iter().any(|charged| !charged.balances.is_empty()).then(|| remaining(charges, units))
}

/// Formats what charges left of each limit.
pub(crate) fn remaining(charges: &[ChargeAnswer], units: &Units) -> String {
    let rows = charges.iter().flat_map(|charged| {
        charged.balances.iter().map(|balance| {
            let scope = balance.scope.as_ref().unwrap_or(&charged.scope);
            let window = balance.window.shown_in(Some(balance.limit), units.of(scope));
            vec![scope.to_string(), window, units.show(scope, balance.limit), units.show(scope, balance.remaining)]
        })
    });
    table(&["SCOPE", "WINDOW", "LIMIT", "REMAINING"], &rows.collect::<Vec<_>>())
}

/// Describes a time to live or an extension that the budgets changed.
pub(crate) fn clamped(clamped: &ClampedAnswer) -> String {
    let [requested, granted] =
        [clamped.requested_ms, clamped.granted_ms].map(|millis| Span::from_millis(millis.unsigned_abs()));
    let (bound, flag) = if granted < requested { ("most", "--ttl-max") } else { ("least", "--ttl-min") };
    format!("the budgets allow {granted} at {bound}, not {requested}; `bursar budget define` changes it with {flag}")
}

/// Returns the scopes whose amounts are shown: those charged, and their ancestors.
pub(crate) fn scopes(charges: &[ChargeAnswer]) -> impl Iterator<Item = &Scope> {
    charges.iter().flat_map(|charged| {
        let ancestors = charged.balances.iter().filter_map(|balance| balance.scope.as_ref());
        std::iter::once(&charged.scope).chain(ancestors)
    })
}
