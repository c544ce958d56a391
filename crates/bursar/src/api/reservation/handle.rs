//! The handle of a reservation, which ends it once.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bursar_core::id::HoldId;
use bursar_core::request::Actual;
use bursar_core::time::Time;

use super::{NotEnded, ReservationError};
use crate::api::command::Receipt;
use crate::api::held::{self, Held, NotSettled};
use crate::api::instance::Bursar;

/// The handle of a reservation. `commit` and `release` consume it, so ending a reservation twice does not compile. If they fail and the
/// reservation can still be ended, the error gives the handle back ([`NotEnded`]).
///
/// If the handle is dropped, a background task releases the reservation, and the drop is logged.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is released"]
pub struct Reservation {
    held: Held,
    remaining: i64,
}

impl Reservation {
    /// Returns the id of its hold.
    pub fn id(&self) -> HoldId {
        self.held.id()
    }

    /// Returns when it expires unless it is committed.
    pub fn expires_at(&self) -> Time {
        self.held.expires_at()
    }

    /// Returns the capacity that was left when it was placed.
    pub fn remaining(&self) -> i64 {
        self.remaining
    }

    /// Commits the reservation, so that it no longer expires.
    pub async fn commit(self) -> Result<(), NotEnded> {
        let remaining = self.remaining;
        self.held.commit(Actual::Held).await.map(drop).map_err(|error| not_ended(error, remaining))
    }

    /// Releases the reservation, which frees its capacity. The reason is recorded in the journal.
    pub async fn release(self, reason: impl Into<ReleaseReason>) -> Result<(), NotEnded> {
        let remaining = self.remaining;
        let released = self.held.release(reason.into().to_string()).await;
        released.map(drop).map_err(|error| not_ended(error, remaining))
    }

    /// Extends its expiry by `by` and returns the new one.
    pub async fn extend(&mut self, by: Duration) -> Result<Time, ReservationError> {
        Ok(self.held.extend(by).await?)
    }

    /// Drops the handle without ending the reservation, which can then be ended by its id, or expires.
    pub fn detach(self) -> HoldId {
        self.held.detach()
    }
}

fn not_ended(not_settled: NotSettled, remaining: i64) -> NotEnded {
    let NotSettled { error, held } = not_settled;
    NotEnded { error: error.into(), reservation: held.map(|held| Reservation { held, remaining }) }
}

/// A reservation in the caller's own transaction, which has not committed yet. If the transaction is rolled back, there is no reservation.
#[must_use = "after the commit of its transaction, `committed` gives the handle"]
pub struct UncommittedReservation {
    pub(super) bursar: Bursar,
    pub(super) id: HoldId,
    pub(super) expires_at: Time,
    pub(super) remaining: i64,
    pub(super) receipt: Receipt,
}

impl UncommittedReservation {
    /// Returns the id of its hold.
    pub fn id(&self) -> HoldId {
        self.id
    }

    /// Returns when it expires unless it is committed.
    pub fn expires_at(&self) -> Time {
        self.expires_at
    }

    /// Returns the capacity that is left.
    pub fn remaining(&self) -> i64 {
        self.remaining
    }

    /// Returns the receipt, to pass to [`Bursar::announce`] after a commit on PostgreSQL.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Returns the handle. Call it after the transaction has committed; the handle of a reservation that was rolled back cannot be ended.
    pub fn committed(self) -> Reservation {
        let UncommittedReservation { bursar, id, expires_at, remaining, receipt: _ } = self;
        Reservation { held: Held::new(bursar, id, expires_at, None), remaining }
    }
}

impl fmt::Debug for UncommittedReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UncommittedReservation { id, expires_at, remaining, receipt, bursar: _ } = self;
        f.debug_struct("UncommittedReservation")
            .field("id", id)
            .field("expires_at", expires_at)
            .field("remaining", remaining)
            .field("receipt", receipt)
            .finish_non_exhaustive()
    }
}

/// Why a reservation is released. The journal records its text form, from which it can be read back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseReason {
    /// The customer does not want it any more.
    Cancelled,
    /// The payment failed.
    PaymentFailed,
    /// Another reservation replaces it.
    Replaced,
    /// The handle was dropped.
    Dropped,
    /// Any other reason.
    Other(String),
}

impl fmt::Display for ReleaseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReleaseReason::Cancelled => "cancelled",
            ReleaseReason::PaymentFailed => "the payment failed",
            ReleaseReason::Replaced => "replaced by another",
            ReleaseReason::Dropped => held::DROPPED,
            ReleaseReason::Other(text) => text,
        })
    }
}

impl From<&str> for ReleaseReason {
    fn from(text: &str) -> ReleaseReason {
        use ReleaseReason::{Cancelled, Dropped, PaymentFailed, Replaced};
        let known = [Cancelled, PaymentFailed, Replaced, Dropped].into_iter().find(|known| known.to_string() == text);
        known.unwrap_or_else(|| ReleaseReason::Other(text.to_owned()))
    }
}

impl From<String> for ReleaseReason {
    fn from(text: String) -> ReleaseReason {
        text.as_str().into()
    }
}

impl FromStr for ReleaseReason {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<ReleaseReason, Infallible> {
        Ok(text.into())
    }
}
