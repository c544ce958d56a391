//! Puts the rows of segments back into the table, the last segment first. A process may end between any two segments: what is left is an
//! archive with fewer segments.

use bursar_store::{Segment, StoreError};

use super::reader::read_whole;
use super::{JournalReader, not_configured};

/// Puts the rows of all segments back into the table, and returns the segments. Their files stay.
pub(crate) async fn undo(journal: &JournalReader) -> Result<Vec<Segment>, StoreError> {
    let mut segments = journal.segments().await?;
    segments.reverse();
    for segment in &segments {
        let options = journal.options().ok_or_else(|| not_configured(segment))?;
        let (_, rows) = read_whole(segment, &*options.place).await?;
        if !journal.store().restore_segment(segment, rows).await? {
            return Err(overtaken(segment));
        }
    }
    Ok(segments)
}

/// The error for a segment that another process follows up, or has put back itself.
fn overtaken(segment: &Segment) -> StoreError {
    StoreError::Unavailable {
        what: format!("segment {} is not the last one any more: another process archives the journal", segment.name()),
        hint: "the segments after it are in the table again, this one is unchanged; remove the setting `journal.archive` of \
               all servers of this database or stop them, and repeat the command",
        permanent: true,
        source: None,
    }
}
