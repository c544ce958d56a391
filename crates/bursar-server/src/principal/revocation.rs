//! Whether the token of a request that takes long is still good: one that waits for jobs, or listens to events.

use std::time::Duration;

use bursar::Clock;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::call::Call;
use crate::principal::Principal;

/// How often a waiting request looks for a revocation by another node, and for the end of its token.
const RECHECK: Duration = Duration::from_secs(5);

/// Counts the tokens that this node has revoked or replaced, so that waiting requests look at once.
#[derive(Default)]
pub(crate) struct Revocations(watch::Sender<u64>);

impl Revocations {
    /// Notes that a token was revoked or replaced.
    pub(crate) fn note(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// Returns whether the token of a request has been revoked or has expired. An error of the database does not end a request.
pub(crate) async fn is_denied(call: &Call) -> bool {
    let Principal { credential, valid_until, .. } = &call.principal;
    let now = call.app.clock.now().micros() / 1_000_000;
    if valid_until.is_some_and(|until| until <= now) {
        return true;
    }
    match credential {
        Some(token) => matches!(call.bursar().credentials().admit(token).await, Ok(Err(_))),
        None => false,
    }
}

/// Waits until the token of a request is revoked or expires.
pub(crate) async fn denied(call: &Call) {
    let mut revoked = call.app.revocations.0.subscribe();
    loop {
        let _ = timeout(RECHECK, revoked.changed()).await;
        if is_denied(call).await {
            return;
        }
    }
}
