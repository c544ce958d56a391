//! The chain of segments.

use bursar_core::blob::Sha256Digest;

use super::{Head, NO_SEGMENT, SegmentError};

/// The end of a chain of segments, to which the next one is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    database: u128,
    next: u64,
    digest: Sha256Digest,
}

impl Chain {
    /// The chain of a database before its first segment.
    pub fn of(database: u128) -> Chain {
        Chain { database, next: 1, digest: NO_SEGMENT }
    }

    /// Returns the position that follows the last segment.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the digest of the last segment; zeros before the first one.
    pub fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// Adds the next segment.
    ///
    /// # Errors
    /// When it does not follow the last one.
    pub fn follow(&mut self, head: &Head, digest: Sha256Digest) -> Result<(), SegmentError> {
        if head.database != self.database {
            return Err(SegmentError::Foreign { expected: self.database, found: head.database });
        }
        if head.first != self.next {
            return Err(SegmentError::WrongPosition { expected: self.next, found: head.first });
        }
        if head.previous != self.digest {
            return Err(SegmentError::BrokenChain { expected: self.digest, found: head.previous });
        }
        self.skip(head.last, digest);
        Ok(())
    }

    /// Adds a segment of which only its last position and its digest are known, so that the one after it can be checked.
    pub fn skip(&mut self, last: u64, digest: Sha256Digest) {
        self.next = last + 1;
        self.digest = digest;
    }
}
