//! The error of every fallible call.

use std::sync::Arc;

use bursar_core::refusal::{Invalid, Refusal};
use bursar_store::StoreError;
use bursar_worker::SourceError;

use crate::api::jobs::LostLease;

/// Why a request was not executed. Unless a variant says otherwise, nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was refused by a rule: it is invalid, or the current state does not allow it. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A lease that was ended in the caller's own transaction is lost ([`Refusal::LeaseLost`]). The reported usage is
    /// charged in that transaction only, so a rollback undoes the charge. [`Error::bill`] charges it outside; if it is not
    /// called, a background task does it. `Bursar::transaction` charges it before it returns.
    #[error("{}", .0.refusal())]
    LeaseLost(LostLease),
    /// The queue of waiting requests is full. Nothing was changed; retry later.
    #[error("overloaded: {waiting} requests are waiting; nothing was changed; retry later")]
    Overloaded {
        /// The number of waiting requests.
        waiting: usize,
    },
    /// The database failed. Nothing was changed, except after [`StoreError::UnknownOutcome`].
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// A worker could not start, or stopped by itself, for a reason that the other variants do not describe.
    #[error(transparent)]
    Worker(Arc<SourceError>),
    /// A bug in Bursar: a request made the engine panic, which is logged and changes nothing, or returned an unexpected
    /// answer.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Returns whether Bursar is closed or closing.
    pub fn is_closed(&self) -> bool {
        matches!(self, Error::Store(error) if matches!(**error, StoreError::Closed))
    }

    /// Returns whether other transactions held a needed lock for too long. The same request can be retried. In the
    /// caller's own transaction ([`StoreError::RetryTransaction`]), roll that transaction back and run it again.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Store(error) if matches!(**error, StoreError::Busy(_) | StoreError::RetryTransaction(_)))
    }

    /// Returns whether the lease is lost: it has expired or was ended, or another worker has the job. Reports under this
    /// lease no longer change the job.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self.refusal(), Some(Refusal::LeaseLost { .. }))
    }

    /// Returns whether this tenant has no such job.
    pub fn is_unknown_job(&self) -> bool {
        matches!(self, Error::Refused(Refusal::UnknownJob { .. }))
    }

    /// Returns whether the state of the job does not allow the operation.
    pub fn is_wrong_state(&self) -> bool {
        matches!(self, Error::Refused(Refusal::WrongState { .. }))
    }

    /// Returns whether the error is transient, so that a request that is safe to repeat can be retried. Requests with an
    /// idempotency key are, and so are workers' requests, because of the fence. After an unknown outcome the request may
    /// have been executed.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Overloaded { .. } => true,
            Error::Store(error) => {
                matches!(
                    **error,
                    StoreError::Busy(_)
                        | StoreError::Unavailable { permanent: false, .. }
                        | StoreError::UnknownOutcome(_)
                )
            }
            Error::Worker(error) => matches!(**error, SourceError::Transient(_)),
            Error::Refused(_) | Error::LeaseLost(_) | Error::Internal(_) => false,
        }
    }

    /// Charges the usage that was reported under a lost lease in the caller's own transaction. Call it after that
    /// transaction has ended; see [`LostLease::bill`]. Does nothing for any other error.
    pub async fn bill(&self) -> Result<(), Error> {
        match self {
            Error::LeaseLost(lost) => lost.bill().await,
            _ => Ok(()),
        }
    }

    /// Returns the refusal, if the error is one.
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

/// So that `worker.start().await?` works where other calls do.
impl From<SourceError> for Error {
    fn from(error: SourceError) -> Error {
        match error {
            SourceError::Refused(refusal) => Error::Refused(refusal),
            SourceError::Closed => StoreError::Closed.into(),
            SourceError::Transient(source) => own(source, SourceError::Transient),
            SourceError::Denied(source) => own(source, SourceError::Denied),
            SourceError::Failed(source) => own(source, SourceError::Failed),
            other => Error::Worker(Arc::new(other)),
        }
    }
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the error of this library that a worker's error carries, or the worker's error.
fn own(source: BoxedError, wrap: fn(BoxedError) -> SourceError) -> Error {
    match source.downcast::<Error>() {
        Ok(error) => *error,
        Err(source) => Error::Worker(Arc::new(wrap(source))),
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
            Error::Worker(error) if matches!(**error, SourceError::Transient(_)) => return FailureClass::Unavailable,
            Error::Worker(_) | Error::Internal(_) => return FailureClass::Internal,
            Error::Store(error) => &**error,
        };
        match store {
            StoreError::Busy(_) | StoreError::RetryTransaction(_) => FailureClass::Busy,
            StoreError::UnknownOutcome(_) => FailureClass::UnknownOutcome,
            StoreError::BadUrl(_) => FailureClass::Invalid { field: None },
            StoreError::Unavailable { permanent: false, .. } | StoreError::Closed => FailureClass::Unavailable,
            StoreError::Unavailable { permanent: true, .. }
            | StoreError::NewerSchema { .. }
            | StoreError::NotMigrated { .. }
            | StoreError::Corrupt { .. } => FailureClass::Unusable,
            _ => FailureClass::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_worker_becomes_the_error_it_carries() {
        let refusal = Refusal::Invalid(Invalid::new("queues", "must not be empty"));
        let converted = Error::from(SourceError::Refused(refusal.clone()));
        assert_eq!(converted.refusal(), Some(&refusal));
        assert!(Error::from(SourceError::Closed).is_closed());
        let busy = Error::Overloaded { waiting: 3 };
        let carried = Error::from(SourceError::Transient(Box::new(busy)));
        assert!(matches!(carried, Error::Overloaded { waiting: 3 }), "{carried:?}");
        let foreign = Error::from(SourceError::Denied("the token has expired".into()));
        assert_eq!((foreign.to_string().as_str(), foreign.is_transient()), ("the token has expired", false));
        assert!(Error::from(SourceError::Transient("connection reset".into())).is_transient());
    }
}
