//! Checks of blobs.

use bursar_core::blob::{Blob, BlobState};
use bursar_core::id::BlobId;
use bursar_core::time::Time;

use super::{JobCounts, Report};
use crate::codec::blob_state;

impl Report {
    /// Checks one blob: that its columns have its state and instant, that uploads of the same bytes find it only while it is live, and
    /// that it counts the jobs that refer to it. `found` is the blob that is found by its digest. A live blob need not be found: it may
    /// have been restored while uploads found another copy, which was deleted later.
    pub(crate) fn check_blob(&mut self, blob: &Blob, columns: (i16, Time), found: Option<BlobId>, jobs: &JobCounts) {
        self.blobs += 1;
        if columns != (blob_state(blob.state), blob.maintained_at()) {
            self.violation(format!("{}: the columns for its state or instant are wrong", blob.id));
        }
        if !blob.is_available() && found == Some(blob.id) {
            self.violation(format!("{}: it is {}, but found by its digest", blob.id, described(blob)));
        }
        let counted = jobs.blobs.get(&blob.id).copied().unwrap_or(0);
        if counted != blob.jobs {
            self.violation(format!("{}: it counts {} jobs, {counted} refer to it", blob.id, blob.jobs));
        }
        if blob.is_referenced() && blob.state != BlobState::Live {
            self.violation(format!("{}: it is {}, but something refers to it", blob.id, blob.state));
        }
    }

    /// Reports a digest whose blob has no row.
    pub(crate) fn check_missing_blob(&mut self, blob: BlobId) {
        self.violation(format!("{blob}: a digest names it, but it does not exist"));
    }
}

fn described(blob: &Blob) -> &'static str {
    if blob.deleted_at.is_some() { "deleted" } else { blob.state.as_str() }
}
