//! The errors of reservations.

use std::fmt;

use bursar_core::hold::HoldState;
use bursar_core::id::HoldId;
use bursar_core::refusal::{Refusal, Violation};

use super::{Reservation, Source};
use crate::error::Error;
use crate::wakeup::Missed;

/// Why a reservation was not placed, settled or extended. Nothing was changed, except where [`Error`] says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// The capacity that is left is not enough.
    #[error("reservation: {requested} requested, {available} of {capacity} available")]
    Insufficient {
        /// The units requested.
        requested: i64,
        /// The units left.
        available: i64,
        /// The capacity of the resource.
        capacity: i64,
    },
    /// The reservation is in another state: it was settled, or has expired.
    #[error("reservation: {id} is {actual}, not {expected}")]
    ConflictingState {
        /// The id of the reservation.
        id: HoldId,
        /// The required state.
        expected: HoldState,
        /// The current state.
        actual: HoldState,
    },
    /// There is no such reservation.
    #[error("reservation: there is no {id}")]
    NotFound {
        /// The id requested.
        id: HoldId,
    },
    /// A function of the application's [`Resource`](super::Resource) could not read the capacity or the units that are taken.
    #[error("reservation: the capacity could not be read: {0}")]
    Capacity(#[source] Source),
    /// Any other error.
    #[error("reservation: {0}")]
    Other(#[source] Error),
}

impl From<Error> for ReservationError {
    fn from(error: Error) -> ReservationError {
        match error {
            Error::Refused(Refusal::Refused(violations)) => match violations.as_slice() {
                [Violation::Limit { limit, requested, available, .. }, ..] => {
                    ReservationError::Insufficient { requested: *requested, available: *available, capacity: *limit }
                }
                _ => ReservationError::Other(Error::Refused(Refusal::Refused(violations))),
            },
            Error::Refused(Refusal::AlreadySettled { hold, state }) => {
                ReservationError::ConflictingState { id: hold, expected: HoldState::Held, actual: state }
            }
            Error::Refused(Refusal::LateRefused { hold, .. } | Refusal::HoldExpired { hold, .. }) => {
                ReservationError::ConflictingState { id: hold, expected: HoldState::Held, actual: HoldState::Expired }
            }
            Error::Refused(Refusal::UnknownHold { hold }) => ReservationError::NotFound { id: hold },
            other => ReservationError::Other(other),
        }
    }
}

/// A reservation that was not committed or released. `?` converts it to [`ReservationError`], and then drops the handle, if there is one:
/// a background task goes on with the commit or the release.
#[derive(Debug)]
pub struct NotEnded {
    /// Why not.
    pub error: ReservationError,
    /// The handle, to try again; `None` if the reservation cannot be settled any more, or Bursar is closed.
    pub reservation: Option<Reservation>,
}

impl fmt::Display for NotEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotEnded {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<NotEnded> for ReservationError {
    fn from(not_ended: NotEnded) -> ReservationError {
        not_ended.error
    }
}

/// Why a listener did not get an event. The next call continues after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationListenError {
    /// The listener lagged behind and lost events.
    #[error("reservation: {0}")]
    Missed(#[source] Missed),
    /// The reservation of an event could not be read.
    #[error("reservation: an event was lost, because the reservation could not be read: {0}")]
    Unreadable(#[source] Error),
}
