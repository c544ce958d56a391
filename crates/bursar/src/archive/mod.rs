//! The archive of the journal: moves old rows of the journal into segments, reads them from there, and proves that none is missing.
//!
//! - `place`, `directory`: where segments are stored. `bursar-blobs` has a place in object storage.
//! - `step`: makes one segment: choose rows, write, read back, record, delete.
//! - `reader`: the only code that decides whether a row is read from the table or from a segment.
//! - `undo`: puts rows of segments back into the table.
//! - `check`: verifies the chain of segments, and that it joins the table.

mod check;
mod directory;
mod place;
mod reader;
mod step;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use bursar_core::time::Span;
use bursar_store::{Segment, SegmentError, StoreError};

pub use self::check::JournalProof;
pub use self::directory::DirectoryPlace;
pub use self::place::{ArchivePlace, MemoryPlace};
pub(crate) use self::reader::{JournalReader, feed};
pub(crate) use self::step::{ArchiveCounters, preview, step, step_all};
pub use self::step::{ArchiveCounts, Archived};
pub(crate) use self::undo::undo;

/// The name of the file that is written to see whether an archive can be written. It stays there, because a place deletes nothing.
const PROBE: &str = "bursar-probe";

/// Where and when the journal is archived.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// Where segments are stored.
    pub place: Arc<dyn ArchivePlace>,
    /// The age from which rows are archived.
    pub after: Duration,
}

impl ArchiveOptions {
    /// The default of [`ArchiveOptions::after`]: 30 days.
    pub const AFTER: Duration = Duration::from_secs(30 * 86_400);

    /// Archives rows of the default age.
    pub fn at(place: impl ArchivePlace) -> ArchiveOptions {
        ArchiveOptions { place: Arc::new(place), after: ArchiveOptions::AFTER }
    }

    /// Sets the age from which rows are archived.
    #[must_use]
    pub fn after(self, after: Duration) -> ArchiveOptions {
        ArchiveOptions { after, ..self }
    }

    pub(crate) fn age(&self) -> Span {
        self.after.into()
    }
}

/// The state of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// Where segments are stored, without secrets; `None` if the setting is not set.
    pub place: Option<String>,
    /// The last segment; `None` if nothing has been archived.
    pub last: Option<Segment>,
    /// The last position of the journal.
    pub position: u64,
    /// How long the oldest row that may be archived has been due for it; `None` if there is none, or no archive is set.
    pub overdue: Option<Span>,
}

/// The error for a segment that cannot be used.
fn bad_segment(name: &str, place: &dyn ArchivePlace, error: &SegmentError) -> StoreError {
    StoreError::Unavailable {
        what: format!("segment {name} of the journal in {} cannot be used: {error}", place.describe()),
        hint: "nothing was changed; run `bursar journal verify`, and restore the file from a copy of the archive",
        permanent: true,
        source: None,
    }
}

/// The error for a place that failed.
fn unreachable(name: &str, place: &dyn ArchivePlace, error: std::io::Error) -> StoreError {
    let permanent = error.kind() == std::io::ErrorKind::NotFound;
    let reason = if permanent { "is missing".to_owned() } else { format!("cannot be read or written: {error}") };
    StoreError::Unavailable {
        what: format!("segment {name} of the journal {reason} in {}", place.describe()),
        hint: "nothing was changed; check the setting `journal.archive`, and that the archive can be reached",
        permanent,
        source: Some(error.into()),
    }
}

/// The error for a place that cannot be written.
fn not_writable(place: &dyn ArchivePlace, error: std::io::Error) -> StoreError {
    StoreError::Unavailable {
        what: format!("the archive of the journal in {} cannot be written: {error}", place.describe()),
        hint: "nothing was changed; check the setting `journal.archive`, and that this user may write there",
        permanent: false,
        source: Some(error.into()),
    }
}

/// The error for archived rows of a database that was opened without an archive.
fn not_configured(segment: &Segment) -> StoreError {
    StoreError::Unavailable {
        what: format!(
            "positions {} to {} of the journal are archived, and no archive is set",
            segment.first, segment.last
        ),
        hint: "nothing was changed; set `journal.archive` to where the archive is",
        permanent: true,
        source: None,
    }
}
