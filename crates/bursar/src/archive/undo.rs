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
        put_back(journal, segment).await.map_err(|error| interrupted(error, done))?;
    }
    Ok(segments)
}

async fn put_back(journal: &JournalReader, segment: &Segment) -> Result<(), StoreError> {
    let options = journal.options().ok_or_else(|| not_configured(segment))?;
    let (_, rows) = read_whole(segment, &*options.place).await?;
    if journal.store().restore_segment(segment, rows).await? { Ok(()) } else { Err(overtaken(segment)) }
}

/// Tells in an error how many segments were put back before it.
fn interrupted(error: StoreError, done: usize) -> StoreError {
    match error {
        StoreError::Unavailable { what, hint: _, permanent, source } if done > 0 => StoreError::Unavailable {
            what: format!("{what}; {done} segments after it were put back"),
            hint: "correct that, and repeat the command, which goes on with the rest",
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
