//! Resumable uploads: the bytes arrive in several requests, each of which may break.
//!
//! What a request brings is stored as an object of its own, named after its position. So the state of an upload is in the backend, any
//! node can continue it, and a broken request loses nothing that was received. When all bytes are there they are put together.
//!
//! Requests on several nodes may continue an upload at the same position. Each takes a *fence*: the version of the record, which the
//! request raises before it reads its body, and again when its part is stored. A request whose fence is not the last one any more gives its
//! part up, so that only one of them is told that its bytes are kept: the one that came last. The others may hang in a broken connection.

use bursar::Bursar;
use bursar_core::blob::{Blob, BlobState};
use bursar_core::id::BlobId;
use bursar_core::refusal::Refusal;
use futures_util::TryStreamExt;

use crate::backend::Backend;
use crate::blobs::{Announced, Blobs, BodyStream, NewBlob, Stored, UPLOAD_TTL, delete, read};
use crate::error::{BackendError, BlobError};
use crate::object;
use crate::writer::Writer;

/// How far a resumable upload has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The bytes that are stored.
    pub offset: u64,
    /// The bytes of the whole blob.
    pub size: u64,
    /// The blob, once all bytes are there.
    pub stored: Option<Stored>,
}

/// Marks an upload as continued by a request of this process.
struct Continued<'a>(&'a Blobs, BlobId);

impl Drop for Continued<'_> {
    fn drop(&mut self) {
        self.0.continued.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&self.1);
    }
}

impl Blobs {
    /// Begins a resumable upload of a blob whose length is known. It is collected after a day in which no byte arrived.
    pub async fn begin(&self, bursar: &Bursar, new: NewBlob) -> Result<BlobId, BlobError> {
        let spec = new.spec(self.backends.primary());
        Ok(bursar.blob_records().start(spec, UPLOAD_TTL, None).await?.blob)
    }

    /// Returns how far an upload has come. One whose bytes are all there is completed first, if an earlier request was cut off
    /// before it could do that.
    pub async fn progress(&self, bursar: &Bursar, id: BlobId) -> Result<Progress, BlobError> {
        let (blob, size) = self.resumable(bursar, id).await?;
        if blob.state == BlobState::Live {
            return Ok(Progress { offset: size, size, stored: Some(Stored { blob, found: false }) });
        }
        let backend = self.backend_of(&blob)?;
        let offset = length(&chunks(backend, id).await?);
        if offset < size {
            return Ok(Progress { offset, size, stored: None });
        }
        let _continued = self.continue_only_here(id)?;
        let stored = self.assemble(bursar, backend, &blob, size).await?;
        Ok(Progress { offset, size, stored: Some(stored) })
    }

    /// Continues an upload at `offset`. If the body breaks, what arrived before is kept.
    pub async fn resume(
        &self,
        bursar: &Bursar,
        id: BlobId,
        offset: u64,
        mut body: BodyStream,
    ) -> Result<Progress, BlobError> {
        // Only the tenant of an upload may lock it, or learn that it is locked.
        self.resumable(bursar, id).await?;
        let _continued = self.continue_only_here(id)?;
        let (blob, size) = self.resumable(bursar, id).await?;
        let over = bursar::Refusal::UploadOver { blob: id, state: blob.state };
        if blob.state != BlobState::Pending {
            return Err(bursar::Error::from(over).into());
        }
        let backend = self.backend_of(&blob)?;
        let stored = length(&chunks(backend, id).await?);
        if stored != offset {
            return Err(BlobError::Offset { offset: stored });
        }
        let fence = advance(bursar, id, blob.version, stored).await?;
        let part = object::chunk(id, offset, fence);
        let mut writer = Writer::new(backend, part.clone(), Some(size - offset));
        let broken = loop {
            match body.try_next().await {
                Ok(None) => break None,
                Err(error) => break Some(BlobError::Interrupted(error)),
                Ok(Some(bytes)) => {
                    let received = offset + writer.size() + bytes.len() as u64;
                    if received > size {
                        writer.abort().await;
                        return Err(BlobError::Length { announced: size, received });
                    }
                    writer.write(bytes).await?;
                }
            }
        };
        let mut reached = offset;
        if writer.size() > 0 {
            reached += writer.finish().await?.0;
            if let Err(error) = advance(bursar, id, fence, reached).await {
                delete(backend, &part).await?;
                return Err(error);
            }
        }
        match broken {
            Some(error) => Err(error),
            None if reached < size => Ok(Progress { offset: reached, size, stored: None }),
            None => {
                let stored = self.assemble(bursar, backend, &blob, size).await?;
                Ok(Progress { offset: reached, size, stored: Some(stored) })
            }
        }
    }

    /// Gives an upload up.
    pub async fn cancel(&self, bursar: &Bursar, id: BlobId) -> Result<(), BlobError> {
        let (blob, _) = self.resumable(bursar, id).await?;
        bursar.blob_records().abandon(id).await?;
        let backend = self.backend_of(&blob)?;
        Ok(delete_chunks(backend, id).await?)
    }

    /// Returns the record of a resumable upload, and its length.
    async fn resumable(&self, bursar: &Bursar, id: BlobId) -> Result<(Blob, u64), BlobError> {
        let found = bursar.blob_records().find(id).await?;
        let found = found.filter(|blob| !blob.staged && blob.state != BlobState::Doomed);
        match found.and_then(|blob| blob.size.map(|size| (blob, size))) {
            Some(found) => Ok(found),
            None => Err(bursar::Error::from(bursar::Refusal::UnknownBlob { blob: id }).into()),
        }
    }

    fn continue_only_here(&self, id: BlobId) -> Result<Continued<'_>, BlobError> {
        let mut continued = self.continued.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if continued.insert(id) { Ok(Continued(self, id)) } else { Err(BlobError::Locked) }
    }

    /// Puts the parts of an upload together.
    async fn assemble(&self, bursar: &Bursar, backend: &Backend, blob: &Blob, size: u64) -> Result<Stored, BlobError> {
        let announced = Announced { size: Some(size), digest: None, content_type: Some(&blob.content_type) };
        let mut writer = Writer::new(backend, object::object(blob.id), Some(size));
        for Chunk { offset, fence, .. } in chunks(backend, blob.id).await? {
            let mut part = read(backend, &object::chunk(blob.id, offset, fence), None).await?;
            while let Some(bytes) = part.try_next().await? {
                writer.write(bytes).await?;
            }
        }
        let typed = announced.check_type(writer.head());
        let written = match typed {
            Ok(()) => announced.check(writer.finish().await?),
            Err(error) => {
                writer.abort().await;
                Err(error)
            }
        };
        let stored = match written {
            Ok((size, digest)) => bursar.blob_records().store(blob.id, size, digest).await.map_err(BlobError::from),
            Err(error) => Err(error),
        };
        match stored {
            Ok(answer) => {
                delete_chunks(backend, blob.id).await?;
                self.stored(bursar, answer).await
            }
            Err(error) => {
                // Bytes of another type never become valid. Other failures can be tried again.
                if matches!(error, BlobError::Type { .. } | BlobError::Length { .. }) {
                    self.give_up(bursar, blob.id, backend, &object::object(blob.id)).await;
                    delete_chunks(backend, blob.id).await?;
                }
                Err(error)
            }
        }
    }
}

/// Records that a request continues an upload, unless another one has since its record had this version. Returns the new version.
async fn advance(bursar: &Bursar, id: BlobId, version: u64, size: u64) -> Result<u64, BlobError> {
    match bursar.blob_records().grow_unchanged(id, version, size, UPLOAD_TTL).await {
        Ok(()) => Ok(version + 1),
        Err(bursar::Error::Refused(Refusal::Changed { .. })) => Err(BlobError::Locked),
        Err(error) => Err(error.into()),
    }
}

/// A part that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Chunk {
    offset: u64,
    fence: u64,
    size: u64,
}

/// Lists the parts that have arrived, up to the first gap.
async fn chunks(backend: &Backend, id: BlobId) -> Result<Vec<Chunk>, BackendError> {
    let listed: Vec<_> =
        backend.store.list(Some(&object::chunks(id))).try_collect().await.map_err(|error| backend.failed(error))?;
    let parts = listed.iter().filter_map(|part| {
        let (offset, fence) = object::parse_chunk(part.location.filename()?)?;
        Some(Chunk { offset, fence, size: part.size })
    });
    Ok(whole(parts.collect()))
}

/// Returns the parts that follow each other from the beginning. Of those at the same position, the one with the last fence counts.
fn whole(mut parts: Vec<Chunk>) -> Vec<Chunk> {
    parts.sort_unstable();
    let mut found: Vec<Chunk> = Vec::new();
    while let Some(next) = parts.iter().rfind(|part| part.offset == length(&found) && part.size > 0) {
        found.push(*next);
    }
    found
}

fn length(parts: &[Chunk]) -> u64 {
    parts.last().map_or(0, |part| part.offset + part.size)
}

/// Deletes the parts of an upload.
pub(crate) async fn delete_chunks(backend: &Backend, id: BlobId) -> Result<(), BackendError> {
    let listed: Vec<_> =
        backend.store.list(Some(&object::chunks(id))).try_collect().await.map_err(|error| backend.failed(error))?;
    for part in listed {
        delete(backend, &part.location).await?;
    }
    backend.delete_folder(&object::chunks(id)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_up_to_the_first_gap_and_the_last_fence_counts() {
        type Parts = &'static [(u64, u64, u64)];
        let part = |(offset, fence, size)| Chunk { offset, fence, size };
        let cases: [(Parts, Parts); 6] = [
            (&[], &[]),
            (&[(5, 1, 5)], &[]),
            (&[(0, 3, 5), (5, 5, 5), (11, 7, 5)], &[(0, 3, 5), (5, 5, 5)]),
            (&[(0, 3, 5), (0, 4, 8), (8, 6, 2), (5, 3, 9)], &[(0, 4, 8), (8, 6, 2)]),
            (&[(0, 10, 5), (0, 9, 8)], &[(0, 10, 5)]),
            (&[(0, 1, 0)], &[]),
        ];
        for (parts, expected) in cases {
            let found = whole(parts.iter().copied().map(part).collect());
            assert_eq!(found, expected.iter().copied().map(part).collect::<Vec<_>>(), "{parts:?}");
        }
    }
}
