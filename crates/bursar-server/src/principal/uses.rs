//! That tokens are used is written down, each once an hour.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bursar::GrantId;
use tokio::time::Instant;

/// How often the use of one token is written down by one node.
const EVERY: Duration = Duration::from_secs(3_600);
/// Tokens that are remembered at most.
const REMEMBERED: usize = 10_000;

/// When the use of tokens was written down last.
#[derive(Default)]
pub(crate) struct Uses {
    written: Mutex<HashMap<GrantId, Instant>>,
}

impl Uses {
    /// Whether it is to be written down now. Who is told so is to do it.
    pub(crate) fn due(&self, token: GrantId) -> bool {
        let now = Instant::now();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get(&token).is_some_and(|at| now.duration_since(*at) < EVERY) {
            return false;
        }
        if written.len() >= REMEMBERED {
            written.retain(|_, at| now.duration_since(*at) < EVERY);
        }
        // With more tokens than are remembered some are not written down, rather than all of them all the time.
        if written.len() >= REMEMBERED {
            return false;
        }
        written.insert(token, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_token_is_due_once_an_hour() {
        let uses = Uses::default();
        assert!(uses.due(GrantId(1)) && !uses.due(GrantId(1)) && uses.due(GrantId(2)));
        tokio::time::advance(EVERY).await;
        assert!(uses.due(GrantId(1)));
    }
}
