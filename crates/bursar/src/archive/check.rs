//! Proves that no event is missing: from the first segment to the last row of the table.

use std::collections::BTreeSet;

use bursar_store::segment::Chain;
use bursar_store::{Segment, StoreError};

use super::reader::{gap, read_whole};
use super::{ArchivePlace, JournalReader, PROBE, bad_segment, not_configured, unreachable};

/// The rows of the table that are read at once.
const PAGE: usize = 200;
/// The bad segments that an error describes.
const NAMED_MAX: usize = 20;

/// What a check of the journal has proved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalProof {
    /// The segments, all of whose bytes were read.
    pub segments: u64,
    /// The bytes of the segments.
    pub bytes: u64,
    /// The rows of the segments.
    pub archived_rows: u64,
    /// The last archived position; 0 if nothing is archived.
    pub archived: u64,
    /// The digest of the last segment, which stands for all of them.
    pub digest: Option<String>,
    /// The rows of the table after the last segment.
    pub table_rows: u64,
    /// The last position.
    pub position: u64,
    /// Files in the archive that no recorded segment has, such as of a process that ended before it recorded its segment.
    pub unknown_files: Vec<String>,
}

impl JournalReader {
    /// Reads every segment and every row of the table. Fails if one is missing, damaged or out of place; the error names every such
    /// segment.
    pub(crate) async fn prove(&self) -> Result<JournalProof, StoreError> {
        let segments = self.segments().await?;
        let mut proof = JournalProof::default();
        if let Some(first) = segments.first() {
            let options = self.options().ok_or_else(|| not_configured(first))?;
            let place = &*options.place;
            let mut chain = Chain::of(self.store().database_id().await?);
            let mut bad = Vec::new();
            for segment in &segments {
                match prove_segment(segment, place, &mut chain).await {
                    Ok(()) => {}
                    Err(error) if is_permanent(&error) => {
                        bad.push(error);
                        chain.skip(segment.last, segment.digest);
                    }
                    Err(error) => return Err(error),
                }
                proof.segments += 1;
                proof.bytes += segment.bytes;
                proof.archived_rows += segment.rows;
            }
            fail_with(bad)?;
            proof.archived = chain.next() - 1;
            proof.digest = Some(chain.digest().to_string());
        }
        if let Some(options) = self.options() {
            let known: BTreeSet<String> = segments.iter().map(Segment::name).collect();
            let files = options.place.list().await.map_err(|error| unreachable("list", &*options.place, error))?;
            proof.unknown_files = files.into_iter().filter(|name| !known.contains(name) && name != PROBE).collect();
        }
        self.prove_table(&mut proof).await?;
        Ok(proof)
    }

    /// Reads the rows of the table after the last segment.
    async fn prove_table(&self, proof: &mut JournalProof) -> Result<(), StoreError> {
        let mut next = proof.archived + 1;
        loop {
            let page = self.store().list_journal(next - 1, PAGE).await?;
            if page.is_empty() {
                proof.position = next - 1;
                return Ok(());
            }
            for row in page {
                if row.position != next {
                    return Err(gap(next, row.position));
                }
                next += row.batch.count() as u64;
                proof.table_rows += 1;
            }
        }
    }
}

/// Reads a segment, and checks that it follows the one before it.
async fn prove_segment(segment: &Segment, place: &dyn ArchivePlace, chain: &mut Chain) -> Result<(), StoreError> {
    let (head, rows) = read_whole(segment, place).await?;
    chain.follow(&head, segment.digest).map_err(|error| bad_segment(&segment.name(), place, &error))?;
    if (head.first, head.last, rows.len() as u64) != (segment.first, segment.last, segment.rows) {
        return Err(gap(segment.first, segment.last + 1));
    }
    Ok(())
}

/// Whether it stays so until the archive or the database is repaired.
fn is_permanent(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Unavailable { permanent: true, .. })
}

/// Fails with an error that names all bad segments, if there are any.
fn fail_with(mut bad: Vec<StoreError>) -> Result<(), StoreError> {
    if bad.len() < 2 {
        return bad.pop().map_or(Ok(()), Err);
    }
    let named = bad.iter().take(NAMED_MAX).map(|error| match error {
        StoreError::Unavailable { what, .. } => what.clone(),
        other => other.to_string(),
    });
    let mut what = format!("{} segments cannot be used: {}", bad.len(), named.collect::<Vec<_>>().join("; "));
    if bad.len() > NAMED_MAX {
        what.push_str(&format!("; and {} more", bad.len() - NAMED_MAX));
    }
    let hint = "nothing was changed; restore the files from a copy of the archive";
    Err(StoreError::Unavailable { what, hint, permanent: true, source: None })
}
