//! The names of objects in a backend. They are made from ids, so no name from outside reaches a path.

use bursar_core::blob::Sha256Digest;
use bursar_core::id::BlobId;
use object_store::path::Path;
use sha2::{Digest, Sha256};

/// Where the bytes of live blobs are.
pub(crate) const OBJECTS: &str = "objects";
/// Where signed uploads put their bytes, until they are committed.
pub(crate) const STAGED: &str = "staged";
/// Where resumable uploads put the parts that have arrived.
pub(crate) const CHUNKS: &str = "chunks";

/// Where the segments of the archived journal are.
pub(crate) const JOURNAL: &str = "journal";

/// Returns the object with the bytes of a blob. The last digits of an id are random, so directories fill evenly.
pub(crate) fn object(id: BlobId) -> Path {
    let name = id.to_string();
    let shard = &name[name.len() - 2..];
    Path::from(format!("{OBJECTS}/{shard}/{name}"))
}

/// Returns the object that a signed upload writes.
pub(crate) fn staged(id: BlobId) -> Path {
    Path::from(format!("{STAGED}/{id}"))
}

/// Returns the folder with the parts of a resumable upload.
pub(crate) fn chunks(id: BlobId) -> Path {
    Path::from(format!("{CHUNKS}/{id}"))
}

/// Returns the part of a resumable upload that begins at a position, and that the holder of a fence writes.
pub(crate) fn chunk(id: BlobId, offset: u64, fence: u64) -> Path {
    Path::from(format!("{CHUNKS}/{id}/{offset:020}-{fence}"))
}

/// Returns the position and the fence of a part, from its name.
pub(crate) fn parse_chunk(name: &str) -> Option<(u64, u64)> {
    let (offset, fence) = name.split_once('-')?;
    Some((offset.parse().ok()?, fence.parse().ok()?))
}

/// Returns the blob that an object belongs to; `None` if Bursar did not write it.
pub(crate) fn blob_of(path: &Path) -> Option<BlobId> {
    let parts: Vec<String> = path.parts().map(|part| part.as_ref().to_owned()).collect();
    let id = match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [OBJECTS, _, id] | [STAGED, id] | [CHUNKS, id, _] => id,
        _ => return None,
    };
    id.parse().ok()
}

/// Returns the SHA-256 of bytes.
pub(crate) fn digest(bytes: &[u8]) -> Sha256Digest {
    Sha256Digest(Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_after_ids_and_lead_back_to_them() {
        let id = BlobId(7 << 80 | 33);
        assert_eq!(object(id).as_ref(), format!("objects/11/{id}"));
        for path in [object(id), staged(id), chunk(id, 5, 2)] {
            assert_eq!(blob_of(&path), Some(id), "{path}");
        }
        assert_eq!(chunk(id, 5, 2).filename().and_then(parse_chunk), Some((5, 2)));
        for path in ["other", "objects/11", "objects/11/nonsense", "staged/a/b", "probe/object"] {
            assert_eq!(blob_of(&Path::from(path)), None, "{path}");
        }
    }
}
