//! Answers of a server.

use std::ops::Deref;

/// The body of an answer, with what its headers say.
#[derive(Clone, Debug)]
pub struct Answered<T> {
    answer: T,
    etag: Option<String>,
    replayed: bool,
}

impl<T> Answered<T> {
    pub(crate) fn new(answer: T, etag: Option<String>, replayed: bool) -> Answered<T> {
        Answered { answer, etag, replayed }
    }

    /// Returns the body.
    pub fn into_inner(self) -> T {
        self.answer
    }

    /// Returns the ETag of a definition, for [`Client::if_match`](crate::Client::if_match).
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Returns whether this is the stored answer of an earlier request with the same idempotency key.
    pub fn is_replayed(&self) -> bool {
        self.replayed
    }
}

impl<T> Deref for Answered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.answer
    }
}
