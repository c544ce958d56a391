//! The scan for orphans, in both directions: objects that no record names, and live records whose bytes are missing.

use std::time::Duration;

use bursar::Bursar;
use bursar_core::blob::{Blob, BlobState};
use bursar_core::id::BlobId;
use bursar_core::time::Span;
use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::backend::Backend;
use crate::blobs::{Blobs, delete};
use crate::error::BlobError;
use crate::object::{CHUNKS, OBJECTS, STAGED, blob_of, object};

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanReport {
    /// The objects that were looked at.
    pub objects: u64,
    /// The live records that were looked at.
    pub blobs: u64,
    /// Objects that no record names, at most 1,000 of them.
    pub orphans: Vec<Orphan>,
    /// The number of all such objects.
    pub orphans_total: u64,
    /// The bytes of all such objects.
    pub orphan_bytes: u64,
    /// How many of them were deleted.
    pub deleted: u64,
    /// Live blobs whose bytes are missing, at most 1,000 of them.
    pub missing: Vec<BlobId>,
    /// The number of all such blobs.
    pub missing_total: u64,
}

/// An object that no record names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The backend that has it.
    pub backend: String,
    /// Its name.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

impl OrphanReport {
    fn add(&mut self, backend: &Backend, path: &str, bytes: u64) {
        self.orphans_total += 1;
        self.orphan_bytes += bytes;
        if self.orphans.len() < LISTED_MAX {
            self.orphans.push(Orphan { backend: backend.name().to_string(), path: path.to_owned(), bytes });
        }
    }
}

/// The most orphans and missing blobs that a report lists.
pub(crate) const LISTED_MAX: usize = 1_000;
/// The records that are read at once.
const PAGE: usize = 1_000;
/// The age below which an object is no orphan: its record may be on its way to a reader of an older snapshot.
pub const ORPHAN_AGE: Duration = Duration::from_secs(3_600);

impl Blobs {
    /// Compares all objects of all backends with all records. With `remove` it deletes the objects that no record names and that are
    /// older than `age`.
    pub async fn orphans(&self, bursar: &Bursar, age: Duration, remove: bool) -> Result<OrphanReport, BlobError> {
        let mut report = OrphanReport::default();
        let newest = bursar.now().await?.before(Span::from(age)).micros();
        for backend in self.backends.all() {
            for folder in [OBJECTS, STAGED, CHUNKS] {
                self.scan(bursar, backend, folder, newest, remove, &mut report).await?;
            }
        }
        let mut after = None;
        loop {
            let page = bursar.blob_records().list_all(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(report) };
            after = Some(last.id);
            for blob in page.iter().filter(|blob| blob.state == BlobState::Live) {
                report.blobs += 1;
                if self.is_missing(bursar, blob).await? {
                    report.missing_total += 1;
                    if report.missing.len() < LISTED_MAX {
                        report.missing.push(blob.id);
                    }
                }
            }
        }
    }

    /// Looks for objects of a folder that no record names.
    async fn scan(
        &self,
        bursar: &Bursar,
        backend: &Backend,
        folder: &'static str,
        newest: i64,
        remove: bool,
        report: &mut OrphanReport,
    ) -> Result<(), BlobError> {
        let mut listed = backend.store.list(Some(&Path::from(folder)));
        while let Some(found) = listed.try_next().await.map_err(|error| backend.failed(error))? {
            report.objects += 1;
            let Some(id) = blob_of(&found.location) else { continue };
            let record = bursar.blob_records().find_any(id).await?;
            // A live blob needs no parts and no staged bytes: an upload was cut off after it became live.
            let needed = |blob: &Blob| folder == OBJECTS || blob.state != BlobState::Live;
            let owned = record.is_some_and(|blob| blob.backend == *backend.name() && needed(&blob));
            if owned || found.last_modified.timestamp_micros() > newest {
                continue;
            }
            report.add(backend, found.location.as_ref(), found.size);
            if remove {
                delete(backend, &found.location).await?;
                report.deleted += 1;
            }
        }
        for unfinished in backend.unfinished(folder).await? {
            report.objects += 1;
            let Some(id) = blob_of(&unfinished.object) else { continue };
            // A live blob needs no half-written file: another attempt has succeeded.
            let record = bursar.blob_records().find_any(id).await?;
            let owned = record.is_some_and(|blob| blob.state == BlobState::Pending && blob.backend == *backend.name());
            if owned || unfinished.modified > newest {
                continue;
            }
            report.add(backend, &unfinished.name, unfinished.bytes);
            if remove {
                backend.delete_unfinished(&unfinished).await?;
                report.deleted += 1;
            }
        }
        Ok(())
    }

    /// Returns whether the bytes of a live blob are missing. A blob that was moved or collected meanwhile is not.
    async fn is_missing(&self, bursar: &Bursar, blob: &Blob) -> Result<bool, BlobError> {
        if !self.lacks(blob).await? {
            return Ok(false);
        }
        match bursar.blob_records().find_any(blob.id).await? {
            Some(now) if now.state == BlobState::Live => self.lacks(&now).await,
            _ => Ok(false),
        }
    }

    async fn lacks(&self, blob: &Blob) -> Result<bool, BlobError> {
        let Ok(backend) = self.backend_of(blob) else { return Ok(true) };
        match backend.store.head(&object(blob.id)).await {
            Ok(found) => Ok(Some(found.size) != blob.size),
            Err(object_store::Error::NotFound { .. }) => Ok(true),
            Err(error) => Err(backend.failed(error).into()),
        }
    }
}
