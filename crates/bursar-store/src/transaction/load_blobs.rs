//! Loads blobs, the digests by which they are found, and the rules of their namespaces.

use bursar_core::id::BlobId;
use bursar_core::needs::Needs;
use bursar_core::state::{BlobDigestKey, NamespaceKey, Workspace};

use super::blocked::Blocked;
use super::rows::Rows;
use crate::error::StoreError;

/// Loads the blobs that requests and jobs to forget name. Adds the rows that these refer to to the needs.
pub(super) async fn load<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    needs: &mut Needs,
    blocked: &mut Blocked,
) -> Result<(), StoreError> {
    let forgotten: Vec<BlobId> =
        needs.forgets.iter().filter_map(|id| ws.jobs.get(id)).flat_map(|job| job.life.blobs.iter().copied()).collect();
    needs.blobs.extend(forgotten);
    let wanted: Vec<BlobId> = needs.blobs.iter().copied().collect();
    if !wanted.is_empty() {
        let found = rows.blobs(&wanted).await?;
        for (id, blob) in found.rows {
            needs.add_blob(&blob);
            ws.blobs.load(id, Some(blob));
        }
        blocked.blobs.extend(found.blocked);
        wanted.into_iter().for_each(|id| ws.blobs.load(id, None));
    }
    for (keys, locked) in [(&needs.namespaces_defined, true), (&needs.namespaces, false)] {
        let wanted: Vec<NamespaceKey> = keys.iter().filter(|key| !ws.namespaces.is_loaded(*key)).cloned().collect();
        if wanted.is_empty() {
            continue;
        }
        for (key, namespace) in rows.namespaces(&wanted, locked).await? {
            ws.namespaces.load(key, Some(namespace));
        }
        wanted.into_iter().for_each(|key| ws.namespaces.load(key, None));
    }
    let loaded: Vec<_> = ws.namespaces.iter().map(|(key, row)| (key.clone(), row.config.clone())).collect();
    loaded.iter().for_each(|(key, config)| needs.add_namespace(key, config));
    let wanted: Vec<BlobDigestKey> = needs.blob_digests.iter().cloned().collect();
    if !wanted.is_empty() {
        for (key, id) in rows.blob_digests(&wanted).await? {
            ws.blob_digests.load(key, Some(id));
        }
        wanted.into_iter().for_each(|key| ws.blob_digests.load(key, None));
    }
    Ok(())
}
