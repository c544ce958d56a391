//! What can come of a request that was not done.

use std::sync::Arc;

use bursar_core::refusal::{Invalid, Refusal};
use bursar_store::StoreError;

use crate::jobs::LostLease;

/// Why a request was not done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rules say no. Nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A lease that was ended in the caller's own transaction is lost ([`Refusal::LeaseLost`]), and what was reported as spent is
    /// charged there only: with a rollback it would be gone. [`Error::bill`] charges it outside; it is done in the background if
    /// nobody does it. `Bursar::transaction` has done it when it returns.
    #[error("{}", .0.refusal())]
    LeaseLost(LostLease),
    /// Too much is waiting already. Nothing has changed; try again later.
    #[error("overloaded: {waiting} requests are waiting; try again later")]
    Overloaded {
        /// How many are waiting.
        waiting: usize,
    },
    /// The database could not do it.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The engine stumbled over the request; the error was logged. Nothing has changed.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Bursar is closed, or closing.
    pub fn is_closed(&self) -> bool {
        matches!(self, Error::Store(error) if matches!(**error, StoreError::Closed))
    }

    /// Others held what was needed for too long: the same request may be tried again. Within a transaction of the
    /// caller's own ([`StoreError::RetryTransaction`]), that transaction: roll it back and run it again.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Store(error) if matches!(**error, StoreError::Busy(_) | StoreError::RetryTransaction(_)))
    }

    /// The lease is over, or somebody else has the job: nothing that is done for it counts any more.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self.refusal(), Some(Refusal::LeaseLost { .. }))
    }

    /// There is no such job of this tenant.
    pub fn is_unknown_job(&self) -> bool {
        matches!(self, Error::Refused(Refusal::UnknownJob { .. }))
    }

    /// The job is in a state in which this cannot be done.
    pub fn is_wrong_state(&self) -> bool {
        matches!(self, Error::Refused(Refusal::WrongState { .. }))
    }

    /// It may go away by itself: what is safe to repeat may be tried again. Work on jobs is, for fences make it so.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Overloaded { .. } => true,
            Error::Store(error) => {
                matches!(**error, StoreError::Busy(_) | StoreError::Unavailable { .. } | StoreError::UnknownOutcome(_))
            }
            Error::Refused(_) | Error::LeaseLost(_) | Error::Internal(_) => false,
        }
    }

    /// Charges what was spent under a lost lease and told in the caller's own transaction, which has ended by now; see
    /// [`LostLease::bill`]. For any other error there is nothing to do.
    pub async fn bill(&self) -> Result<(), Error> {
        match self {
            Error::LeaseLost(lost) => lost.bill().await,
            _ => Ok(()),
        }
    }

    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused(refusal) => Some(refusal),
            Error::LeaseLost(lost) => Some(lost.refusal()),
            _ => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(Arc::new(error))
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Error {
        Error::Refused(Refusal::Invalid(invalid))
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Error {
        match never {}
    }
}

impl bursar_core::failure::Classify for Error {
    fn class(&self) -> bursar_core::failure::FailureClass<'_> {
        use bursar_core::failure::FailureClass;
        let store = match self {
            Error::Refused(refusal) => return FailureClass::Refused(refusal),
            Error::LeaseLost(lost) => return FailureClass::Refused(lost.refusal()),
            Error::Overloaded { .. } => return FailureClass::Overloaded,
            Error::Internal(_) => return FailureClass::Internal,
            Error::Store(error) => &**error,
        };
        match store {
            StoreError::Busy(_) | StoreError::RetryTransaction(_) => FailureClass::Busy,
            StoreError::UnknownOutcome(_) => FailureClass::UnknownOutcome,
            StoreError::BadUrl(_) => FailureClass::Invalid { field: None },
            StoreError::Unavailable { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::NotMigrated { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Closed => FailureClass::Unavailable,
            _ => FailureClass::Internal,
        }
    }
}
