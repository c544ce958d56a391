//! Batches without locks: which may be done so, when, and what may come of it. How, is an engine's affair.
//!
//! Rows are looked at, and written in one step if nobody has changed them meanwhile. It is for commands and new grants, which
//! write all that they rely on: the scopes they charge, the lines that jobs enter, the grants they redeem, their names. Where others are at the same
//! rows, batches lock for a while.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bursar_core::request::{Op, Request};
use bursar_core::state::Workspace;
use tokio::time::Instant;

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

impl Wary {
    /// Whether batches lock their rows at an instant.
    pub fn is_at(&self, now: Instant) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }

    /// From now on they do, until then.
    pub fn begin(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

/// Whether a request may be done without locks. A dry run relies on what it does not write.
pub fn fits(request: &Request) -> bool {
    !request.dry_run && matches!(request.op, Op::Submit(_) | Op::Mint(_))
}

/// Whether what was decided without locks may be written and told. Who has an effect finds out when it is written whether what it
/// goes by was changed meanwhile. Who came to nothing does not, and goes by what was so once if all rows were seen at once: what
/// is spent above a scope need not have been above it then. (What is read beside a scope's row makes that row be written.)
pub fn stands(ws: &Workspace, verdicts: &[Verdict], seen_at_once: bool) -> bool {
    let told = seen_at_once || !verdicts.iter().any(Verdict::came_to_nothing);
    told && ws.relies_on_what_it_writes()
}

#[cfg(test)]
mod tests {
    use bursar_core::answer::{Answer, Outcome};
    use bursar_core::id::{BatchId, CommandId};
    use bursar_core::name::Scope;
    use bursar_core::refusal::Refusal;
    use bursar_core::time::Time;

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

    #[test]
    fn who_comes_to_nothing_goes_by_what_was_seen_at_once() {
        let ws = Workspace::new(Time::MIN, BatchId(1));
        let scope = Scope::new("a").expect("a name");
        let refused = || Verdict::Answered(Err(Refusal::UnknownScope { scope: scope.clone() }));
        let replayed = || {
            let (command, answer) = (CommandId(1), Answer::Done);
            Verdict::Answered(Ok(Outcome { command, answer, replayed: true, entry: None }))
        };
        assert!(stands(&ws, &[refused()], true));
        assert!(!stands(&ws, &[replayed(), refused()], false));
        assert!(stands(&ws, &[replayed(), Verdict::Again], false), "neither was refused");
    }
}
