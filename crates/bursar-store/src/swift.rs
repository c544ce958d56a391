//! Batches without locks: which may be done so, when, and what may come of it. How, is an engine's affair.
//!
//! Rows are looked at, and written in one step if nobody has changed them meanwhile. It is for commands and new grants, which
//! write all that they rely on: the scopes they charge, the grants they redeem, their names. Where others are at the same
//! rows, batches lock for a while.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bursar_core::request::{Op, Request};
use bursar_core::time::Time;
use tokio::time::Instant;

use crate::error::StoreError;
use crate::store::Verdict;

/// So long batches lock their rows after somebody was in the way.
pub const WARY: Duration = Duration::from_secs(1);
/// So long one waits for what somebody else has locked: once it is free it is mostly not as it was seen any more.
pub const WAIT: Duration = Duration::from_millis(5);

/// How batches fared.
#[derive(Debug, Default)]
pub struct Wary {
    /// Until then they lock their rows.
    until: Mutex<Option<Instant>>,
}

/// What came of an attempt without locks. Unless it was done, nothing has happened.
#[derive(Debug)]
pub enum Attempted {
    /// It was done: what the requests come to, and the instant it was decided at.
    Done(Vec<Verdict>, Time),
    /// It needs locks.
    Unfit,
    /// Somebody was in the way: for so long batches lock.
    Spoiled(Duration),
}

impl Wary {
    /// Does requests without locks, if they may be done so, and takes note of how that went. `None` where they need locks.
    pub async fn attempt<E>(
        &self,
        requests: &[&Request],
        attempt: impl Future<Output = Result<Attempted, E>>,
    ) -> Result<Option<(Vec<Verdict>, Time)>, E> {
        if self.is_at(Instant::now()) || !requests.iter().all(|request| fits(request)) {
            return Ok(None);
        }
        match attempt.await? {
            Attempted::Done(verdicts, now) => Ok(Some((verdicts, now))),
            Attempted::Unfit => Ok(None),
            Attempted::Spoiled(wary) => {
                self.begin(Instant::now() + wary);
                Ok(None)
            }
        }
    }

    /// Whether batches lock their rows at an instant.
    fn is_at(&self, now: Instant) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }

    /// From now on they do, until then.
    fn begin(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

/// Whether a request may be done without locks. A dry run relies on what it does not write. Who enters a line would mostly meet
/// those who lease from it, and make all others lock.
fn fits(request: &Request) -> bool {
    match &request.op {
        _ if request.dry_run => false,
        Op::Submit(command) => command.jobs.iter().all(|job| job.key.is_none()),
        Op::Mint(_) => true,
        _ => false,
    }
}

/// What an engine answers that is asked for more scopes than it has seen at once, when nothing is locked. A chain of budgets that
/// was seen in two looks need not have been one at any moment: somebody may be refused for what was never above it, and the chain
/// may have no end. (What is read beside a scope's row makes that row be written, and so is found out.)
pub fn seen_in_parts() -> StoreError {
    StoreError::Busy("scopes were not seen at once".into())
}

#[cfg(test)]
mod tests {
    use bursar_core::grant::TokenDigest;
    use bursar_core::id::GrantId;
    use bursar_core::name::{Purpose, Subject};
    use bursar_core::payload::Payload;
    use bursar_core::request::Mint;
    use bursar_core::time::Span;

    use super::*;

    #[test]
    fn batches_lock_for_a_while_after_somebody_was_in_the_way() {
        let (wary, now) = (Wary::default(), Instant::now());
        assert!(!wary.is_at(now));
        wary.begin(now + WARY);
        assert!(wary.is_at(now + WARY / 2));
        wary.begin(now + WARY * 3 / 2);
        assert!(wary.is_at(now + WARY), "it began anew");
        assert!(!wary.is_at(now + WARY * 3 / 2));
    }

    #[tokio::test]
    async fn only_who_was_in_the_way_makes_others_lock() {
        let mint = Mint {
            id: GrantId(1),
            digest: TokenDigest([0; 32]),
            purpose: Purpose::new("read").expect("a name"),
            subject: Subject::new("a reader").expect("a name"),
            payload: Payload::default(),
            ttl: Span::from_secs(1),
        };
        let (wary, request) = (Wary::default(), Request::from(Op::Mint(mint)));
        let attempt = async |came_of_it: Attempted| {
            let done = wary.attempt(&[&request], async { Ok::<_, ()>(came_of_it) }).await;
            done.expect("nothing fails").is_some()
        };
        assert!(!attempt(Attempted::Unfit).await);
        assert!(attempt(Attempted::Done(Vec::new(), Time::MIN)).await);
        assert!(!attempt(Attempted::Spoiled(Duration::from_secs(3_600))).await);
        assert!(!attempt(Attempted::Done(Vec::new(), Time::MIN)).await, "it is not even tried");
    }
}
