//! The classes of failed requests.
//!
//! Errors of different crates are turned into the same outputs: an HTTP answer, an exit code, an error of a client. That code only needs
//! the [`FailureClass`], so it does not depend on the crate that defines the error.

use crate::refusal::{Invalid, Refusal};

/// The class of a failed request.
#[derive(Clone, Copy, Debug)]
pub enum FailureClass<'a> {
    /// A rule refused the request.
    Refused(&'a Refusal),
    /// The request, or a setting, is wrong in itself. Nothing changed.
    Invalid {
        /// The field that is wrong, if the error names one.
        field: Option<&'a str>,
    },
    /// Too many requests are waiting. Nothing changed; retry later.
    Overloaded,
    /// Other transactions held the needed locks for too long. Nothing changed; retry.
    Busy,
    /// The connection was lost during the commit: the request may have been executed or not.
    UnknownOutcome,
    /// The database cannot be used at the moment. Nothing changed; retry later.
    Unavailable,
    /// The database cannot be used until it is repaired or upgraded, or its permissions are changed. Nothing changed.
    Unusable,
    /// A defect of this program or an unexpected answer of the database.
    Internal,
}

/// An error with a class.
pub trait Classify: std::error::Error {
    /// Returns the class of the failure.
    fn class(&self) -> FailureClass<'_>;
}

impl Classify for Refusal {
    fn class(&self) -> FailureClass<'_> {
        FailureClass::Refused(self)
    }
}

impl Classify for Invalid {
    fn class(&self) -> FailureClass<'_> {
        FailureClass::Invalid { field: Some(&self.field) }
    }
}
