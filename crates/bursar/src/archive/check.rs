//! Proves that no event is missing: from the first segment to the last row of the table.

use std::collections::BTreeSet;

use bursar_store::segment::Chain;
use bursar_store::{Segment, StoreError};

use super::reader::{gap, read_whole};
use super::{JournalReader, bad_segment, not_configured, unreachable};

/// The rows of the table that are read at once.
const PAGE: usize = 200;

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
    /// Reads every segment and every row of the table. Fails if one is missing, damaged or out of place.
    pub(crate) async fn prove(&self) -> Result<JournalProof, StoreError> {
        let segments = self.segments().await?;
        let mut proof = JournalProof::default();
        if let Some(first) = segments.first() {
            let options = self.options().ok_or_else(|| not_configured(first))?;
            let place = &*options.place;
            let mut chain = Chain::of(self.store().database_id().await?);
            for segment in &segments {
                let (head, rows) = read_whole(segment, place).await?;
                let follows = chain.follow(&head, segment.digest);
                follows.map_err(|error| bad_segment(&segment.name(), place, &error))?;
                if (head.first, head.last, rows.len() as u64) != (segment.first, segment.last, segment.rows) {
                    return Err(gap(segment.first, segment.last + 1));
                }
                proof.segments += 1;
                proof.bytes += segment.bytes;
                proof.archived_rows += segment.rows;
            }
            proof.archived = chain.next() - 1;
            proof.digest = Some(chain.digest().to_string());
        }
        if let Some(options) = self.options() {
            let known: BTreeSet<String> = segments.iter().map(Segment::name).collect();
            let files = options.place.list().await.map_err(|error| unreachable("list", &*options.place, error))?;
            proof.unknown_files = files.into_iter().filter(|name| !known.contains(name)).collect();
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
