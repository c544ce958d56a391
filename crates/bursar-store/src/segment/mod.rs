//! Segments: the format of the archived journal.
//!
//! A segment is a file with consecutive rows of the journal. It is never changed.
//!
//! ```text
//! magic and version      8 bytes
//! length of the head     4 bytes, little-endian
//! head                   database, positions, digest of the segment before, and one entry for each block
//! blocks                 compressed rows
//! ```
//!
//! The digest of a segment is the SHA-256 of everything up to the end of the head. The head has the SHA-256 of each block, so that the
//! digest covers the whole file, and a reader can trust a single block that it has read from the middle. The head also has the digest of
//! the segment before: a segment that is changed, missing, foreign or out of order breaks the chain at its place.
//!
//! A block names its positions and the range of its transaction ids. The history of a stream follows links from transaction to transaction
//! ([`Batch::prev`](bursar_core::event::Batch)), so that it reads only the blocks with its transactions, and no index of streams is needed.
//!
//! Rows are stored as the engines store them: the same JSON on both, but without payloads. Those stay in the database, as long as their job
//! or grant, so that they can be erased.
//!
//! This module has no I/O.

mod chain;
mod format;
#[cfg(test)]
mod tests;

use bursar_core::blob::Sha256Digest;
use bursar_core::event::Batch;
use bursar_core::id::BatchId;
use bursar_core::time::Time;

use crate::codec::from_json;
use crate::error::StoreError;

pub use self::chain::Chain;
pub use self::format::{Block, Encoded, Head, check, decode_block, encode, head_bytes};

/// A row of the journal as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedRow {
    /// The position of its first event.
    pub position: u64,
    /// The id of the transaction.
    pub id: BatchId,
    /// Its instant.
    pub at: Time,
    /// The number of its events.
    pub count: u32,
    /// The links to earlier transactions, as JSON.
    pub prev: String,
    /// The entries, as JSON.
    pub entries: String,
}

impl ArchivedRow {
    /// Returns the position of its last event.
    pub fn last(&self) -> u64 {
        self.position + u64::from(self.count).saturating_sub(1)
    }

    /// Returns its transaction, with markers in the place of payloads that are stored elsewhere.
    pub(crate) fn batch(&self) -> Result<Batch, StoreError> {
        let (prev, entries) = (from_json("journal row", &self.prev)?, from_json("journal row", &self.entries)?);
        Ok(Batch { id: self.id, at: self.at, prev, entries })
    }

    /// Returns its size before compression.
    pub fn bytes(&self) -> usize {
        ROW_OVERHEAD + self.prev.len() + self.entries.len()
    }
}

/// About how many bytes of a row are not text.
const ROW_OVERHEAD: usize = 48;

/// What a database knows of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The position of its first event.
    pub first: u64,
    /// The position of its last event.
    pub last: u64,
    /// The number of its rows.
    pub rows: u64,
    /// The lowest and the highest id of its transactions.
    pub ids: (BatchId, BatchId),
    /// The earliest and the latest instant of its transactions.
    pub times: (Time, Time),
    /// The bytes of the file.
    pub bytes: u64,
    /// The bytes up to the end of the head.
    pub head_bytes: u64,
    /// The bytes of its rows before compression.
    pub plain_bytes: u64,
    /// Its digest.
    pub digest: Sha256Digest,
    /// The digest of the segment before; zeros for the first one.
    pub previous: Sha256Digest,
}

impl Segment {
    /// Returns the name of the file. It contains a part of the digest: after a restore of an older backup, a segment with the same
    /// positions and other contents gets a file of its own.
    pub fn name(&self) -> String {
        let digest = self.digest.to_string();
        format!("journal-{:020}-{:020}-{}", self.first, self.last, &digest[..16])
    }
}

/// The digest that the first segment has as that of the segment before.
pub const NO_SEGMENT: Sha256Digest = Sha256Digest([0; 32]);

/// Why a segment cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The file does not begin like a segment.
    #[error("it is not a segment of a journal")]
    NotASegment,
    /// A later version of the format.
    #[error("it has the format version {0}, which this build does not know; use a newer bursar")]
    UnknownVersion(u8),
    /// The file is shorter or longer than its head says.
    #[error("it has {found} bytes instead of {expected}")]
    WrongLength {
        /// The bytes it should have.
        expected: u64,
        /// The bytes it has.
        found: u64,
    },
    /// The head cannot be read, or contradicts itself.
    #[error("its head is damaged: {0}")]
    DamagedHead(&'static str),
    /// A block differs from what the head says.
    #[error("block {index} (from position {position}) is damaged: {problem}")]
    DamagedBlock {
        /// The number of the block, from 0.
        index: usize,
        /// The first position of the block.
        position: u64,
        /// The problem.
        problem: &'static str,
    },
    /// The digest is not the one that the database or the next segment has.
    #[error("its digest is {found} instead of {expected}")]
    WrongDigest {
        /// The digest it should have.
        expected: Sha256Digest,
        /// The digest it has.
        found: Sha256Digest,
    },
    /// It does not begin where the segment before ends.
    #[error("it begins at position {found} instead of {expected}")]
    WrongPosition {
        /// The position it should begin at.
        expected: u64,
        /// The position it begins at.
        found: u64,
    },
    /// It does not follow the segment before.
    #[error("it follows a segment with the digest {found} instead of {expected}")]
    BrokenChain {
        /// The digest of the segment before.
        expected: Sha256Digest,
        /// The digest that it names.
        found: Sha256Digest,
    },
    /// It belongs to another database.
    #[error("it belongs to another database ({found:032x} instead of {expected:032x})")]
    Foreign {
        /// The database it should belong to.
        expected: u128,
        /// The database it belongs to.
        found: u128,
    },
}
