//! The handle of a hold, which settles it once.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bursar_core::answer::{Answer, Settled};
use bursar_core::hold::ClampedTtl;
use bursar_core::id::HoldId;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Op};
use bursar_core::time::{Span, Time};

use crate::api::instance::Bursar;
use crate::error::Error;
use crate::maintenance::retry_on_drop;

/// The reason that the journal has for what a dropped handle did.
pub(crate) const DROPPED: &str = "the handle was dropped";

/// The handle of a hold. `commit` and `release` consume it, so settling a hold twice does not compile. If they fail and the hold can still
/// be settled, the error gives the handle back ([`NotSettled`]).
///
/// If the handle is dropped, a background task releases the hold, or commits the floor set by [`Held::with_floor`]. The
/// drop is logged. The same happens if the future of `commit` or `release` is dropped: the background task goes on with what it was to do.
#[must_use = "a hold that is dropped is released"]
pub struct Held {
    bursar: Option<Bursar>,
    id: HoldId,
    expires_at: Time,
    clamped: Option<ClampedTtl>,
    floor: Option<Actual>,
    /// A commit or release whose outcome is open, which a drop goes on with.
    tried: Option<Op>,
}

impl Held {
    pub(crate) fn new(bursar: Bursar, id: HoldId, expires_at: Time, clamped: Option<ClampedTtl>) -> Held {
        Held { bursar: Some(bursar), id, expires_at, clamped, floor: None, tried: None }
    }

    /// Returns the id of the hold.
    pub fn id(&self) -> HoldId {
        self.id
    }

    /// Returns when the hold expires.
    pub fn expires_at(&self) -> Time {
        self.expires_at
    }

    /// Returns the time to live that was requested and the one that the hold got, if the budgets' policies changed it. Also
    /// set by an extension that was cut.
    pub fn clamped(&self) -> Option<ClampedTtl> {
        self.clamped
    }

    /// Sets the units that dropping the handle commits, instead of releasing the hold. Use this once something has been
    /// spent. For a hold of several charges, name each with [`Actual::Each`]; a charge not named there is committed in
    /// full.
    pub fn with_floor(mut self, floor: impl Into<Actual>) -> Held {
        self.floor = Some(floor.into());
        self
    }

    /// Commits the hold: posts the actual units and frees the rest. Units above the held amount, and a commit after
    /// expiry, are charged and flagged, or refused if the hold's policy says so.
    pub async fn commit(self, actual: impl Into<Actual>) -> Result<Settled, NotSettled> {
        let (bursar, op) = (self.bursar().clone(), Op::Commit { hold: self.id, actual: actual.into() });
        self.settle(&bursar, op).await
    }

    /// Releases the hold: frees all its units. `reason` is recorded in the journal.
    pub async fn release(self, reason: impl Into<String>) -> Result<Settled, NotSettled> {
        let (bursar, op) = (self.bursar().because(reason), Op::Release { hold: self.id });
        self.settle(&bursar, op).await
    }

    async fn settle(mut self, bursar: &Bursar, op: Op) -> Result<Settled, NotSettled> {
        self.tried = Some(op.clone());
        let error = match settle(bursar, op).await {
            Ok(settled) => {
                self.disarm();
                return Ok(settled);
            }
            Err(error) => error,
        };
        if is_over(&error) {
            self.disarm();
            return Err(NotSettled { error, held: None });
        }
        if matches!(error, Error::Refused(_)) {
            self.tried = None;
        }
        Err(NotSettled { error, held: Some(self) })
    }

    /// Extends the expiry by `by` and returns the new one, which the budgets' longest life of a hold may cap. Fails if the
    /// hold has expired, was settled, or is on a frozen scope.
    pub async fn extend(&mut self, by: Duration) -> Result<Time, Error> {
        match self.bursar().execute(Op::Extend { hold: self.id, by: Span::from(by) }).await? {
            Answer::Extended { expires_at, clamped, .. } => {
                self.expires_at = expires_at;
                self.clamped = clamped;
                Ok(expires_at)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Drops the handle without settling the hold, which can then be settled by its id, or expires.
    pub fn detach(mut self) -> HoldId {
        self.disarm();
        self.id
    }

    fn bursar(&self) -> &Bursar {
        self.bursar.as_ref().expect("only settling consumes the handle")
    }

    /// Leaves nothing to do for a drop.
    fn disarm(&mut self) {
        self.bursar = None;
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { id, expires_at, floor, .. } = self;
        f.debug_struct("Held")
            .field("id", id)
            .field("expires_at", expires_at)
            .field("floor", floor)
            .finish_non_exhaustive()
    }
}

/// A hold that was not settled. `?` converts it to [`Error`], and then drops the handle: after a failure the background task goes on with the
/// commit or the release; if that is refused, or was, it commits the floor or releases the hold.
#[derive(Debug)]
pub struct NotSettled {
    /// Why not. After an unknown outcome the hold may be settled nevertheless; then another try is refused as already settled.
    pub error: Error,
    /// The handle, with its floor, to try again; `None` if the hold cannot be settled any more, belongs to a job, or Bursar is closed.
    pub held: Option<Held>,
}

impl fmt::Display for NotSettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotSettled {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<NotSettled> for Error {
    fn from(not_settled: NotSettled) -> Error {
        not_settled.error
    }
}

/// Whether the hold cannot be settled any more, or not by this handle.
fn is_over(error: &Error) -> bool {
    let is_settled = matches!(
        error,
        Error::Refused(
            Refusal::AlreadySettled { .. }
                | Refusal::LateRefused { .. }
                | Refusal::UnknownHold { .. }
                | Refusal::OwnedByJob { .. }
        )
    );
    is_settled || error.is_closed()
}

pub(crate) async fn settle(bursar: &Bursar, op: Op) -> Result<Settled, Error> {
    match bursar.execute(op).await? {
        Answer::Settled(settled) => Ok(settled),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn unexpected(answer: &Answer) -> Error {
    Error::Internal(format!("unexpected answer {answer:?}"))
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(bursar) = self.bursar.take() else { return };
        let (hold, floor) = (self.id, self.floor.take());
        tracing::warn!(%hold, ?floor, "hold dropped without being settled, settling it in the background");
        let end = match floor {
            Some(actual) => Op::Commit { hold, actual },
            None => Op::Release { hold },
        };
        // A commit whose outcome is open may be refused, for example as an overrun.
        let ops = self.tried.take().into_iter().chain([end]).collect();
        // Not in the current runtime, if there is one: it may shut down before the hold is settled.
        let runtime = bursar.inner.runtime.clone();
        let unsettled = Unsettled(ops);
        runtime.spawn(settle_dropped(bursar.because(DROPPED), hold, unsettled));
    }
}

/// What settles a dropped hold, each if the one before is refused; empty once it is done. A runtime that shuts down drops it, which is
/// logged.
struct Unsettled(VecDeque<Op>);

impl Drop for Unsettled {
    fn drop(&mut self) {
        if let Some(op) = self.0.front() {
            tracing::error!(
                ?op,
                "dropped hold not settled: Bursar's runtime has shut down; the hold stays until it expires"
            );
        }
    }
}

/// Settles a dropped hold, retrying transient errors.
async fn settle_dropped(bursar: Bursar, hold: HoldId, mut unsettled: Unsettled) {
    while let Some(op) = unsettled.0.front().cloned() {
        let attempt = || async {
            match settle(&bursar, op.clone()).await {
                // An earlier attempt whose answer was lost may have settled it.
                Ok(_) | Err(Error::Refused(Refusal::AlreadySettled { .. })) => Ok(()),
                Err(error) => Err(error),
            }
        };
        let on_retry = |error: &Error| tracing::warn!(%hold, %error, "settling a dropped hold failed, retrying");
        let settled = retry_on_drop::retry_transient(attempt, on_retry).await;
        unsettled.0.pop_front();
        match settled {
            Ok(()) => unsettled.0.clear(),
            Err(error @ Error::Refused(_)) if !unsettled.0.is_empty() => {
                tracing::warn!(%hold, ?op, %error, "settling a dropped hold was refused, falling back");
            }
            Err(error) => {
                unsettled.0.clear();
                tracing::error!(%hold, ?op, %error, "dropped hold not settled; the hold stays until it expires");
            }
        }
    }
}
