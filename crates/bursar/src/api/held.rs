//! The handle of a hold: used once.

use std::time::Duration;

use bursar_core::answer::{Answer, Settled};
use bursar_core::id::HoldId;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Op};
use bursar_core::time::{Span, Time};

use crate::api::instance::Bursar;
use crate::error::Error;
use crate::maintenance::retry_on_drop;

/// A hold that is to be settled. `commit` and `release` take it by value, so that settling twice does not compile.
///
/// Dropped without being settled it releases the hold, or commits the floor that was declared; either is logged.
#[must_use = "a hold that is dropped is released"]
pub struct Held {
    bursar: Option<Bursar>,
    id: HoldId,
    expires_at: Time,
    floor: Option<Actual>,
}

impl Held {
    pub(crate) fn new(bursar: Bursar, id: HoldId, expires_at: Time) -> Held {
        Held { bursar: Some(bursar), id, expires_at, floor: None }
    }

    /// Its id.
    pub fn id(&self) -> HoldId {
        self.id
    }

    /// When it expires.
    pub fn expires_at(&self) -> Time {
        self.expires_at
    }

    /// Declares what is spent at least: dropping the handle commits this instead of releasing. For a hold of several
    /// charges name each with [`Actual::Each`]; what is not named there counts as spent in full.
    pub fn with_floor(mut self, floor: impl Into<Actual>) -> Held {
        self.floor = Some(floor.into());
        self
    }

    /// Posts what it really cost and frees the rest.
    pub async fn commit(mut self, actual: impl Into<Actual>) -> Result<Settled, Error> {
        let bursar = self.take();
        settle(&bursar, Op::Commit { hold: self.id, actual: actual.into() }).await
    }

    /// Frees it.
    pub async fn release(mut self, reason: impl Into<String>) -> Result<Settled, Error> {
        let bursar = self.take().because(reason);
        settle(&bursar, Op::Release { hold: self.id }).await
    }

    /// Puts off its expiry.
    pub async fn extend(&mut self, by: Duration) -> Result<Time, Error> {
        let bursar = self.bursar.as_ref().expect("only settling takes it");
        match bursar.execute(Op::Extend { hold: self.id, by: Span::from(by) }).await? {
            Answer::Extended { expires_at, .. } => {
                self.expires_at = expires_at;
                Ok(expires_at)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Gives the handle up and leaves the hold to be settled by its id, or to expire.
    pub fn detach(mut self) -> HoldId {
        self.take();
        self.id
    }

    fn take(&mut self) -> Bursar {
        self.bursar.take().expect("a handle is used once")
    }
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
        tracing::warn!(%hold, ?floor, "a hold was dropped without being settled");
        let op = match floor {
            Some(actual) => Op::Commit { hold, actual },
            None => Op::Release { hold },
        };
        // Not in the runtime of whoever drops it, if there is one at all: that may end before the hold is settled.
        let runtime = bursar.inner.runtime.clone();
        let unsettled = Unsettled(Some(op));
        runtime.spawn(settle_dropped(bursar.because("the handle was dropped"), hold, unsettled));
    }
}

/// What is to be done about a dropped hold, until it is done. A runtime that ends drops it, also before it has begun.
struct Unsettled(Option<Op>);

impl Drop for Unsettled {
    fn drop(&mut self) {
        if let Some(op) = &self.0 {
            tracing::error!(
                ?op,
                "a dropped hold could not be settled: Bursar's runtime has ended; it stays until it expires"
            );
        }
    }
}

/// Settles a hold that nobody else will.
async fn settle_dropped(bursar: Bursar, hold: HoldId, mut unsettled: Unsettled) {
    let op = unsettled.0.clone().expect("it was just dropped");
    let attempt = || async {
        match settle(&bursar, op.clone()).await {
            // An attempt of which nothing was heard may have settled it.
            Ok(_) | Err(Error::Refused(Refusal::AlreadySettled { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    };
    let again = |error: &Error| tracing::warn!(%hold, %error, "a dropped hold could not be settled; it is tried again");
    let settled = retry_on_drop::attempts(attempt, again).await;
    unsettled.0 = None;
    if let Err(error) = settled {
        tracing::error!(%hold, ?op, %error, "a dropped hold could not be settled; it stays until it expires");
    }
}
