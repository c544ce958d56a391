//! Collection: what nothing needs any more is doomed in the database first, then its bytes are deleted, then its record.
//!
//! Only the database decides, so collection can run on every node at once. A reference that is made before a blob is doomed keeps it.

use std::collections::BTreeMap;

use bursar::{Bursar, Context};
use bursar_core::blob::{Blob, BlobState};
use bursar_core::id::BlobId;
use bursar_core::name::Tenant;

use crate::blobs::{Blobs, delete};
use crate::error::BlobError;
use crate::object;
use crate::resumable::delete_chunks;

/// The most blobs that one run collects.
pub(crate) const COLLECT_MAX: usize = 1_000;

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectReport {
    /// The blobs that were due.
    pub due: usize,
    /// The blobs whose bytes and records were removed.
    pub collected: usize,
    /// The bytes of these.
    pub bytes: u64,
    /// The blobs whose bytes could not be deleted. The next run tries them again.
    pub failed: usize,
    /// Whether the run ended at its limit, so that more may be due.
    pub more: bool,
}

impl Blobs {
    /// Collects the blobs of all tenants that are due, at most `limit` (at most 1,000). With `dry_run` it only counts them.
    pub async fn collect(&self, bursar: &Bursar, limit: usize, dry_run: bool) -> Result<CollectReport, BlobError> {
        let limit = limit.clamp(1, COLLECT_MAX);
        let due = bursar.blob_records().due(limit).await?;
        let mut report = CollectReport { due: due.len(), more: due.len() == limit, ..CollectReport::default() };
        if dry_run {
            report.bytes = due.iter().filter_map(|blob| blob.size).sum();
            return Ok(report);
        }
        let mut by_tenant: BTreeMap<Tenant, Vec<Blob>> = BTreeMap::new();
        for blob in due {
            by_tenant.entry(blob.tenant.clone()).or_default().push(blob);
        }
        for (tenant, blobs) in by_tenant {
            self.collect_of(&of_tenant(bursar, tenant), blobs, &mut report).await?;
        }
        Ok(report)
    }

    /// Collects blobs of one tenant.
    async fn collect_of(&self, bursar: &Bursar, blobs: Vec<Blob>, report: &mut CollectReport) -> Result<(), BlobError> {
        let records = bursar.blob_records();
        let undoomed: Vec<BlobId> =
            blobs.iter().filter(|blob| blob.state != BlobState::Doomed).map(|blob| blob.id).collect();
        if !undoomed.is_empty() {
            records.doom(undoomed).await?;
        }
        let mut deleted = Vec::with_capacity(blobs.len());
        for blob in blobs {
            // A reference may have come first.
            let doomed = blob.state == BlobState::Doomed
                || records.find(blob.id).await?.is_some_and(|blob| blob.state == BlobState::Doomed);
            if !doomed {
                continue;
            }
            match self.delete_bytes(&blob).await {
                Ok(()) => deleted.push(blob),
                Err(error) => {
                    tracing::warn!(blob = %blob.id, %error, "deleting the bytes of a blob failed, retrying later");
                    report.failed += 1;
                }
            }
        }
        if !deleted.is_empty() {
            report.collected += records.collect(deleted.iter().map(|blob| blob.id).collect()).await?;
            report.bytes += deleted.iter().filter_map(|blob| blob.size).sum::<u64>();
        }
        Ok(())
    }

    /// Deletes everything that a blob may have in its backend.
    async fn delete_bytes(&self, blob: &Blob) -> Result<(), BlobError> {
        let backend = self.backend_of(blob)?;
        delete(backend, &object::object(blob.id)).await?;
        backend.delete_unfinished_of(&object::object(blob.id)).await?;
        if blob.staged {
            delete(backend, &object::staged(blob.id)).await?;
            backend.delete_unfinished_of(&object::staged(blob.id)).await?;
        } else {
            delete_chunks(backend, blob.id).await?;
        }
        Ok(())
    }
}

/// Returns a handle that acts for a tenant.
pub(crate) fn of_tenant(bursar: &Bursar, tenant: Tenant) -> Bursar {
    bursar.in_context(Context::of(tenant))
}
