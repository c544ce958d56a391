//! Limits how often the use of a token is recorded in the database: once an hour per token and node.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bursar::GrantId;
use tokio::time::Instant;

/// How often one node records the use of one token.
const INTERVAL: Duration = Duration::from_secs(3_600);
/// Maximum number of tokens in the table.
const TOKENS_MAX: usize = 10_000;

/// When this node last recorded the use of each token.
#[derive(Default)]
pub(crate) struct TokenUses {
    recorded: Mutex<HashMap<GrantId, Instant>>,
}

impl TokenUses {
    /// Returns whether the use of a token is to be recorded now. The caller must then do so.
    pub(crate) fn due(&self, token: GrantId) -> bool {
        let now = Instant::now();
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.get(&token).is_some_and(|at| now.duration_since(*at) < INTERVAL) {
            return false;
        }
        if recorded.len() >= TOKENS_MAX {
            recorded.retain(|_, at| now.duration_since(*at) < INTERVAL);
        }
        // If the table is full, the use of further tokens is not recorded; recording it on every request would cost more.
        if recorded.len() >= TOKENS_MAX {
            return false;
        }
        recorded.insert(token, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_token_is_due_once_an_hour() {
        let uses = TokenUses::default();
        assert!(uses.due(GrantId(1)) && !uses.due(GrantId(1)) && uses.due(GrantId(2)));
        tokio::time::advance(INTERVAL).await;
        assert!(uses.due(GrantId(1)));
    }
}
