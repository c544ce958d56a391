//! Puts the rows of segments back into the table, the last segment first. A process may end between any two segments: what is left is an
//! archive with fewer segments.

use bursar_store::{Segment, StoreError};

use super::reader::read_whole;
use super::{JournalReader, not_configured};

/// Puts the rows of all segments back into the table, and returns the segments. Their files stay.
pub(crate) async fn undo(journal: &JournalReader) -> Result<Vec<Segment>, StoreError> {
    let mut segments = journal.segments().await?;
    segments.reverse();
    for (done, segment) in segments.iter().enumerate() {
        put_back(journal, segment, done > 0).await?;
    }
    Ok(segments)
}

/// Puts the rows of a segment back, as the first one or after others.
async fn put_back(journal: &JournalReader, segment: &Segment, after_others: bool) -> Result<(), StoreError> {
    let options = journal.options().ok_or_else(|| not_configured(segment))?;
    let read = read_whole(segment, &*options.place).await;
    let (_, rows) = read.map_err(|error| if after_others { interrupted(error) } else { error })?;
    if journal.store().restore_segment(segment, rows).await? { Ok(()) } else { Err(overtaken(segment)) }
}

/// Adds to the error of a segment that cannot be read that others were put back before.
fn interrupted(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { what, hint: _, permanent, source } => StoreError::Unavailable {
            what: format!("{what}; the rows of the segments after it are in the table again"),
            hint: "check the file and the setting `journal.archive`, and repeat the command, which goes on with the rest",
            permanent,
            source,
        },
        error => error,
    }
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
