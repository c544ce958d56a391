//! Answers of a server.

use std::ops::Deref;

/// What a server answered, with what it said beside it.
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

    /// The answer alone.
    pub fn into_inner(self) -> T {
        self.answer
    }

    /// The digest of what is defined, for [`Client::if_match`](crate::Client::if_match).
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// It is the answer of an earlier request with the same key.
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
