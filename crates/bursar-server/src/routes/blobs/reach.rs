//! Which blobs a caller reaches. Workers reach those of the namespaces in their capabilities; any other blob looks to them like one that
//! does not exist. The namespace of a blob never changes, so it can be checked before the request is executed.
//!
//! The engine itself checks the blobs that a completed job made, because the report may have to be billed first (`Reporter`).

use std::collections::BTreeSet;

use bursar::{Blob, BlobId, JobSpec, NamedReference, Namespace};

use crate::call::Call;
use crate::principal::permissions::Role;
use crate::principal::{Principal, forbidden};
use crate::wire::problem::Problem;

/// Returns a blob that the caller may read, in any state.
pub(crate) async fn readable(call: &Call, id: BlobId) -> Result<Blob, Problem> {
    let found = call.bursar().blob_records().find(id).await?;
    let found = found.filter(|blob| call.principal.reads_blobs_of(&blob.namespace));
    found.ok_or_else(|| Problem::unknown_blob(id))
}

/// Fails if the caller may not write a blob. A blob that does not exist passes; the engine reports it.
pub(crate) async fn check_writable(call: &Call, id: BlobId) -> Result<(), Problem> {
    check_each(call, BTreeSet::from([id]), Principal::writes_blobs_of).await
}

/// Fails if the caller may not read the blobs that new jobs use.
pub(crate) async fn check_used(call: &Call, jobs: &[JobSpec]) -> Result<(), Problem> {
    let used = jobs.iter().flat_map(|job| &job.blobs).copied().collect();
    check_each(call, used, Principal::reads_blobs_of).await
}

/// Fails if the caller may not write the blobs that the application begins to refer to.
pub(crate) async fn check_referenced(call: &Call, references: &[NamedReference]) -> Result<(), Problem> {
    let referenced = references.iter().map(|reference| reference.blob).collect();
    check_each(call, referenced, Principal::writes_blobs_of).await
}

async fn check_each(
    call: &Call,
    blobs: BTreeSet<BlobId>,
    reaches: fn(&Principal, &Namespace) -> bool,
) -> Result<(), Problem> {
    if call.principal.role != Some(Role::Worker) {
        return Ok(());
    }
    let bursar = call.bursar();
    for id in blobs {
        let found = bursar.blob_records().find(id).await?;
        if found.is_some_and(|blob| !reaches(&call.principal, &blob.namespace)) {
            return Err(Problem::unknown_blob(id));
        }
    }
    Ok(())
}

/// Fails if the caller may not list the blobs of a namespace, or of all.
pub(crate) fn check_listed(call: &Call, namespace: Option<&Namespace>) -> Result<(), Problem> {
    let principal = &call.principal;
    match namespace {
        Some(namespace) if !principal.reads_blobs_of(namespace) => {
            Err(forbidden(format!("this worker's capabilities do not include reading the namespace {namespace}")))
        }
        None if !principal.reads_all_blobs() => {
            Err(forbidden("this worker's capabilities do not include every namespace; name one with `namespace`"))
        }
        _ => Ok(()),
    }
}
