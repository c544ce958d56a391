//! Applies the events of blobs and namespaces.

use crate::blob::{Blob, BlobState, NamespaceConfig, NamespaceState, Reference};
use crate::context::Context;
use crate::event::{Event, GrownBlob, StartedBlob, StoredBlob, Stream};
use crate::id::{BlobId, HoldId, JobId};
use crate::mutant::Mutant;
use crate::name::{Namespace, Tenant};
use crate::state::Workspace;

/// Applies an event of a blob or a namespace.
pub(super) fn apply(ws: &mut Workspace, context: &Context, event: &Event) -> u64 {
    match event {
        Event::NamespaceDefined { namespace, config } => defined(ws, &context.tenant, namespace, config),
        Event::BlobStarted(start) => started(ws, context, start),
        Event::BlobGrown(GrownBlob { blob, due_at, hold }) => {
            hold.iter().for_each(|hold| pay(ws, *hold, *blob));
            change(ws, *blob, |row| {
                row.due_at = *due_at;
                row.holds.extend(hold);
            })
        }
        Event::BlobStored(StoredBlob { blob, size, digest, due_at }) => {
            let version = change(ws, *blob, |row| {
                row.state = BlobState::Live;
                (row.size, row.digest) = (Some(*size), Some(*digest));
                row.due_at = *due_at;
            });
            list_digest(ws, *blob);
            version
        }
        Event::BlobReferenced { blob, by } => {
            if let Reference::Job(job) = by {
                add_to_job(ws, *job, *blob);
            }
            count_reference(ws, *blob, by)
        }
        Event::BlobReleased { blob, by, due_at } => change(ws, *blob, |row| {
            match by {
                _ if Mutant::CountReleased.on() => {}
                Reference::Job(_) => row.jobs = row.jobs.saturating_sub(1),
                Reference::Name(name) => drop(row.references.remove(name)),
            }
            row.due_at = *due_at;
        }),
        Event::BlobDeleted { blob, due_at } => {
            if !Mutant::FindDeleted.on() {
                unlist_digest(ws, *blob);
            }
            let now = ws.now;
            change(ws, *blob, |row| (row.deleted_at, row.due_at) = (Some(now), *due_at))
        }
        Event::BlobRestored { blob, due_at } => {
            let version = change(ws, *blob, |row| {
                row.state = BlobState::Live;
                (row.deleted_at, row.due_at) = (None, *due_at);
            });
            list_digest(ws, *blob);
            version
        }
        Event::BlobMoved { blob, backend } => change(ws, *blob, |row| row.backend = backend.clone()),
        Event::BlobDoomed { blob, .. } => {
            unlist_digest(ws, *blob);
            let now = ws.now;
            change(ws, *blob, |row| (row.state, row.due_at) = (BlobState::Doomed, now))
        }
        Event::BlobCollected { blob } => {
            let version = change(ws, *blob, |_| {});
            ws.blobs.remove(blob);
            version
        }
        _ => unreachable!("`apply` passes events of blobs and namespaces only"),
    }
}

/// Adds a blob to those that a job refers to.
pub(super) fn add_to_job(ws: &mut Workspace, job: JobId, blob: BlobId) {
    let row = ws.jobs.get_mut(&job).expect("a job is enqueued before it refers to a blob");
    row.life.blobs.push(blob);
}

/// Counts a reference in the row of the blob. Returns its new version.
pub(super) fn count_reference(ws: &mut Workspace, blob: BlobId, by: &Reference) -> u64 {
    change(ws, blob, |row| match by {
        Reference::Job(_) => row.jobs += 1,
        Reference::Name(name) => drop(row.references.insert(name.clone())),
    })
}

fn started(ws: &mut Workspace, context: &Context, start: &StartedBlob) -> u64 {
    let StartedBlob { blob: id, spec, due_at, charge, hold } = start;
    hold.iter().for_each(|hold| pay(ws, *hold, *id));
    let blob = Blob {
        id: *id,
        tenant: context.tenant.clone(),
        namespace: spec.namespace.clone(),
        state: BlobState::Pending,
        filename: spec.filename.clone(),
        content_type: spec.content_type.clone(),
        metadata: spec.metadata.clone(),
        size: spec.size,
        digest: spec.digest,
        backend: spec.backend.clone(),
        staged: spec.staged,
        charge: charge.clone(),
        holds: hold.iter().copied().collect(),
        created_at: ws.now,
        created_by: context.actor.clone(),
        deleted_at: None,
        due_at: *due_at,
        jobs: 0,
        references: Default::default(),
        version: 1,
        last: Some(ws.batch),
    };
    ws.blobs.put(*id, blob);
    1
}

fn defined(ws: &mut Workspace, tenant: &Tenant, namespace: &Namespace, config: &NamespaceConfig) -> u64 {
    let (key, batch) = ((tenant.clone(), namespace.clone()), ws.batch);
    let row = ws.namespaces.get_or_put(&key, NamespaceState::default);
    row.config = config.clone();
    row.version += 1;
    let version = row.version;
    let last = row.last.replace(batch);
    ws.link(|| Stream::Namespace(tenant.clone(), namespace.clone()), last);
    version
}

/// Records which blob a hold pays for. The hold was placed in the same request.
fn pay(ws: &mut Workspace, hold: HoldId, blob: BlobId) {
    ws.holds.get_mut(&hold).expect("the hold was just placed").blob = Some(blob);
}

/// Makes uploads of the same bytes find a blob, unless they find another one already.
fn list_digest(ws: &mut Workspace, id: BlobId) {
    let key = ws.blobs.get(&id).and_then(Blob::digest_key).expect("a live blob has a digest");
    if ws.blob_digests.get(&key).is_none() {
        ws.blob_digests.put(key, id);
    }
}

/// Makes uploads of the same bytes no longer find a blob.
fn unlist_digest(ws: &mut Workspace, id: BlobId) {
    let row = ws.blobs.get(&id).filter(|row| row.state == BlobState::Live);
    let Some(key) = row.and_then(Blob::digest_key) else { return };
    if ws.blob_digests.get(&key) == Some(&id) {
        ws.blob_digests.remove(&key);
    }
}

fn change(ws: &mut Workspace, id: BlobId, change: impl FnOnce(&mut Blob)) -> u64 {
    let batch = ws.batch;
    let row = ws.blobs.get_mut(&id).expect("an upload begins before the other events of its blob");
    change(row);
    row.version += 1;
    let version = row.version;
    let last = row.last.replace(batch);
    ws.link(|| Stream::Blob(id), last);
    version
}
