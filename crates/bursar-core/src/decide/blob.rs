//! Decides operations on blobs: uploads, references, deletion and collection.
//!
//! A blob that something refers to is not doomed, and a doomed blob can no longer be referred to. Both are decided on the
//! locked row, so of a reference and a collection at the same time the first one wins.
//!
//! Bytes are charged like any other spend. An upload holds its announced length, or a growing number of bytes if it
//! announced none. Storing commits the real length, and collecting credits it.

use crate::answer::{Answer, BlobAnswer};
use crate::blob::{Blob, BlobSpec, BlobState, NamespaceConfig, Reference, Sha256Digest, digest_key};
use crate::bounds::{BLOB_REFERENCES_MAX, JOB_BLOBS_MAX, UPLOAD_STEP};
use crate::context::Context;
use crate::decide::decision::{Decision, Stop};
use crate::decide::{Rules, admit, hold, submit};
use crate::event::{Event, GrownBlob, StartedBlob, StoredBlob};
use crate::hold::HoldState;
use crate::id::{BlobId, HoldId, JobId};
use crate::mutant::Mutant;
use crate::name::{Backend, Namespace, Referrer, Scope, Tenant};
use crate::refusal::{Invalid, Refusal};
use crate::request::{Actual, BlobOp, Charge, Command, Settle};
use crate::state::Workspace;
use crate::time::{Span, Time};
use crate::window::Window;

/// Decides an operation on blobs.
pub(super) fn operate(decision: &mut Decision<'_>, op: &BlobOp, rules: &Rules) -> Result<Option<Answer>, Stop> {
    match op {
        BlobOp::DefineNamespace { namespace, config } => define(decision, namespace, config)?,
        BlobOp::Start { spec, ttl } => return start(decision, spec, *ttl, rules).map(Some),
        BlobOp::Grow { blob, size, ttl } => grow(decision, *blob, *size, *ttl, rules)?,
        BlobOp::Store { blob, size, digest } => return store(decision, *blob, *size, *digest).map(Some),
        BlobOp::Abandon { blob } => return Ok(Some(Answer::Swept { count: abandon(decision, *blob)? })),
        BlobOp::Reference { blob, by } => reference(decision, *blob, by)?,
        BlobOp::Release { blob, by } => release(decision, *blob, by)?,
        BlobOp::Delete { blob } => delete(decision, *blob)?,
        BlobOp::Restore { blob } => restore(decision, *blob)?,
        BlobOp::Move { blob, backend } => move_to(decision, *blob, backend)?,
        BlobOp::Doom { blobs } => return Ok(Some(Answer::Swept { count: doom(decision, blobs) })),
        BlobOp::Collect { blobs } => return Ok(Some(Answer::Swept { count: collect(decision, blobs) })),
    }
    Ok(Some(Answer::Done))
}

/// Returns the rules of a namespace, or the default rules if it has none.
pub(super) fn config(ws: &Workspace, tenant: &Tenant, namespace: &Namespace) -> NamespaceConfig {
    let row = ws.namespaces.get(&(tenant.clone(), namespace.clone()));
    row.map(|row| row.config.clone()).unwrap_or_default()
}

/// Defines a namespace. Bytes stay charged for as long as they are stored, so only a budget without other windows than
/// the lifetime can count them.
fn define(decision: &mut Decision<'_>, namespace: &Namespace, config: &NamespaceConfig) -> Result<(), Refusal> {
    if let Some(scope) = &config.charge {
        let row = admit::row(decision.ws, &decision.context.tenant, scope);
        let budget = row.and_then(|row| row.budget.as_ref());
        let budget = budget.ok_or_else(|| Refusal::UnknownScope { scope: scope.clone() })?;
        if budget.windows().any(|window| *window != Window::Lifetime) {
            let problem =
                format!("is {scope}, whose budget has other windows than the lifetime: stored bytes need that one");
            return Err(Invalid::new("charge", problem).into());
        }
    }
    let config = Box::new(config.clone());
    decision.record(vec![Event::NamespaceDefined { namespace: namespace.clone(), config }]);
    Ok(())
}

/// Begins an upload.
fn start(decision: &mut Decision<'_>, spec: &BlobSpec, ttl: Span, rules: &Rules) -> Result<Answer, Stop> {
    let tenant = &decision.context.tenant;
    let config = config(decision.ws, tenant, &spec.namespace);
    check_size(spec.size, &config)?;
    if let Some(found) = spec.digest.and_then(|digest| live_with(decision.ws, tenant, &spec.namespace, digest)) {
        return Ok(Answer::Blob(BlobAnswer { blob: found, found: true }));
    }
    let bytes = spec.size.unwrap_or(UPLOAD_STEP.min(config.bytes_max));
    let placed = match &config.charge {
        None => None,
        Some(scope) => Some(match hold_bytes(decision, scope, bytes, ttl, rules) {
            // An upload of unknown length may be shorter than the first step.
            Err(Refusal::Refused(_)) if spec.size.is_none() => hold_bytes(decision, scope, 1, ttl, rules)?,
            placed => placed?,
        }),
    };
    let (hold, placed) = placed.unzip();
    let blob = BlobId(decision.ids.next_id(decision.ws.now));
    let started = StartedBlob {
        blob,
        spec: Box::new(spec.clone()),
        due_at: decision.now().after(ttl),
        charge: config.charge,
        hold,
    };
    decision.record(placed.into_iter().flatten().chain([Event::BlobStarted(started)]).collect());
    Ok(Answer::Blob(BlobAnswer { blob, found: false }))
}

/// Continues an upload.
fn grow(decision: &mut Decision<'_>, id: BlobId, size: u64, ttl: Span, rules: &Rules) -> Result<(), Stop> {
    let blob = pending(decision.ws, decision.context, id)?;
    let config = config(decision.ws, &blob.tenant, &blob.namespace);
    check_size(Some(size), &config)?;
    if blob.size.is_some_and(|announced| size > announced) {
        return Err(mismatch(blob, "is longer than announced").into());
    }
    let (charge, covered) = (blob.charge.clone(), covered(decision.ws, blob));
    let mut events = Vec::with_capacity(2);
    let mut hold = None;
    if let Some(scope) = charge.filter(|_| size > covered) {
        // Where the doubled length has no room, the needed one may.
        let doubled = size.max(covered.saturating_mul(2)).min(config.bytes_max);
        let (id, placed) = match hold_bytes(decision, &scope, doubled - covered, ttl, rules) {
            Err(Refusal::Refused(_)) if doubled > size => hold_bytes(decision, &scope, size - covered, ttl, rules)?,
            placed => placed?,
        };
        hold = Some(id);
        events.extend(placed);
    }
    let due_at = decision.now().after(ttl);
    events.push(Event::BlobGrown(GrownBlob { blob: id, due_at, hold }));
    decision.record(events);
    Ok(())
}

/// Ends an upload: the blob becomes live, unless a live one has the same bytes.
fn store(decision: &mut Decision<'_>, id: BlobId, size: u64, digest: Sha256Digest) -> Result<Answer, Stop> {
    let blob = match named(decision.ws, decision.context, id)? {
        // A repeated report has no second effect.
        blob if blob.state == BlobState::Live && (blob.size, blob.digest) == (Some(size), Some(digest)) => {
            return Ok(Answer::Blob(BlobAnswer { blob: id, found: false }));
        }
        _ => pending(decision.ws, decision.context, id)?.clone(),
    };
    let config = config(decision.ws, &blob.tenant, &blob.namespace);
    check_size(Some(size), &config)?;
    if blob.size.is_some_and(|announced| announced != size) {
        return Err(mismatch(&blob, "has another length than announced").into());
    }
    if blob.digest.is_some_and(|announced| announced != digest) {
        return Err(mismatch(&blob, "has another digest than announced").into());
    }
    if let Some(found) = live_with(decision.ws, &blob.tenant, &blob.namespace, digest) {
        release_holds(decision, &blob);
        decision.record(vec![Event::BlobDoomed { blob: id, found: Some(found) }]);
        return Ok(Answer::Blob(BlobAnswer { blob: found, found: true }));
    }
    commit_holds(decision, &blob, size)?;
    let due_at = unreferenced_until(&config, decision.now());
    decision.record(vec![Event::BlobStored(StoredBlob { blob: id, size, digest, due_at })]);
    Ok(Answer::Blob(BlobAnswer { blob: id, found: false }))
}

/// Gives up an upload. Returns how many were given up: none if it was over already.
fn abandon(decision: &mut Decision<'_>, id: BlobId) -> Result<usize, Refusal> {
    let blob = named(decision.ws, decision.context, id)?;
    match blob.state {
        BlobState::Doomed => Ok(0),
        BlobState::Live => Err(not_pending(blob)),
        BlobState::Pending => {
            let blob = blob.clone();
            release_holds(decision, &blob);
            decision.record(vec![Event::BlobDoomed { blob: id, found: None }]);
            Ok(1)
        }
    }
}

fn reference(decision: &mut Decision<'_>, id: BlobId, by: &Referrer) -> Result<(), Refusal> {
    let events = references(decision.ws, &decision.context.tenant, &[(id, by)])?;
    decision.record(events);
    Ok(())
}

/// Builds the events for references of the application. Repeating one has no second effect.
pub(super) fn references(
    ws: &Workspace,
    tenant: &Tenant,
    wanted: &[(BlobId, &Referrer)],
) -> Result<Vec<Event>, Refusal> {
    let mut events = Vec::with_capacity(wanted.len());
    for (place, (id, by)) in wanted.iter().enumerate() {
        let blob = available(ws, tenant, *id)?;
        let earlier = || wanted[..place].iter().filter(|(other, _)| other == id);
        if blob.is_referenced_by(by) || earlier().any(|(_, other)| other == by) {
            continue;
        }
        if blob.references.len() + earlier().count() >= BLOB_REFERENCES_MAX {
            return Err(Refusal::TooManyReferences { blob: *id });
        }
        events.push(Event::BlobReferenced { blob: *id, by: Reference::Name((*by).clone()) });
    }
    Ok(events)
}

/// Builds the events for the references of a job to blobs that it uses or made, apart from those in `known`.
pub(super) fn job_references(
    ws: &Workspace,
    tenant: &Tenant,
    job: JobId,
    wanted: &[BlobId],
    known: &[BlobId],
) -> Result<Vec<Event>, Refusal> {
    let mut events = Vec::with_capacity(wanted.len());
    for (place, id) in wanted.iter().enumerate() {
        available(ws, tenant, *id)?;
        if !known.contains(id) && !wanted[..place].contains(id) {
            events.push(Event::BlobReferenced { blob: *id, by: Reference::Job(job) });
        }
    }
    if known.len() + events.len() > JOB_BLOBS_MAX {
        let problem = format!("has more than {JOB_BLOBS_MAX} entries together with those that the job uses");
        return Err(Invalid::new("blobs", problem).into());
    }
    Ok(events)
}

/// Refuses a principal that names blobs of a namespace it does not reach, as if they did not exist. Those that the job uses are
/// known to its worker.
pub(super) fn check_reach(decision: &Decision<'_>, blobs: &[BlobId], known: &[BlobId]) -> Result<(), Refusal> {
    let reporter = decision.context.reporter.as_ref().filter(|_| !Mutant::ReachAnyNamespace.on());
    let Some(reporter) = reporter else { return Ok(()) };
    let beyond = |id: &&BlobId| {
        let blob = decision.ws.blobs.get(*id).filter(|_| !known.contains(*id));
        blob.is_some_and(|blob| !reporter.may_make_in(&blob.namespace))
    };
    match blobs.iter().find(beyond) {
        Some(id) => Err(Refusal::UnknownBlob { blob: *id }),
        None => Ok(()),
    }
}

/// Removes a reference of the application; does nothing if there is none.
fn release(decision: &mut Decision<'_>, id: BlobId, by: &Referrer) -> Result<(), Refusal> {
    let blob = named(decision.ws, decision.context, id)?;
    if blob.is_referenced_by(by) {
        let released = released(decision.ws, blob, Reference::Name(by.clone()));
        decision.record(vec![released]);
    }
    Ok(())
}

/// Removes the references of a job that is forgotten.
pub(super) fn release_job(decision: &mut Decision<'_>, job: JobId, blobs: &[BlobId]) {
    for id in blobs.iter().filter(|_| !Mutant::KeepJobReferences.on()) {
        // A blob that is referred to has a row, unless the database is damaged.
        let Some(blob) = decision.ws.blobs.get(id) else { continue };
        let released = released(decision.ws, blob, Reference::Job(job));
        decision.record(vec![released]);
    }
}

fn released(ws: &Workspace, blob: &Blob, by: Reference) -> Event {
    let due_at = match blob.deleted_at {
        Some(_) => blob.due_at,
        None => unreferenced_until(&config(ws, &blob.tenant, &blob.namespace), ws.now),
    };
    Event::BlobReleased { blob: blob.id, by, due_at }
}

/// Deletes a blob; does nothing if it is deleted.
fn delete(decision: &mut Decision<'_>, id: BlobId) -> Result<(), Refusal> {
    let blob = named(decision.ws, decision.context, id)?;
    match (blob.state, blob.deleted_at) {
        (BlobState::Live, None) => {
            let grace = config(decision.ws, &blob.tenant, &blob.namespace).grace;
            let due_at = decision.now().after(grace);
            decision.record(vec![Event::BlobDeleted { blob: id, due_at }]);
            Ok(())
        }
        (BlobState::Live, Some(_)) => Ok(()),
        (BlobState::Pending | BlobState::Doomed, _) => Err(Refusal::UnknownBlob { blob: id }),
    }
}

/// Restores a deleted blob; does nothing if it is not deleted.
fn restore(decision: &mut Decision<'_>, id: BlobId) -> Result<(), Refusal> {
    let blob = named(decision.ws, decision.context, id)?;
    match (blob.state, blob.deleted_at) {
        (BlobState::Live, Some(_)) => {
            let due_at = unreferenced_until(&config(decision.ws, &blob.tenant, &blob.namespace), decision.now());
            decision.record(vec![Event::BlobRestored { blob: id, due_at }]);
            Ok(())
        }
        (BlobState::Live, None) => Ok(()),
        (BlobState::Pending | BlobState::Doomed, _) => Err(Refusal::UnknownBlob { blob: id }),
    }
}

fn move_to(decision: &mut Decision<'_>, id: BlobId, backend: &Backend) -> Result<(), Refusal> {
    let blob = named(decision.ws, decision.context, id)?;
    if blob.state != BlobState::Live {
        return Err(Refusal::UnknownBlob { blob: id });
    }
    if blob.backend != *backend {
        decision.record(vec![Event::BlobMoved { blob: id, backend: backend.clone() }]);
    }
    Ok(())
}

/// Dooms those of the blobs that are due and that nothing refers to.
fn doom(decision: &mut Decision<'_>, blobs: &[BlobId]) -> usize {
    let mut count = 0;
    for id in blobs {
        let Ok(blob) = named(decision.ws, decision.context, *id) else { continue };
        let instead = match blob.state {
            BlobState::Doomed => false,
            _ if Mutant::DoomReferenced.on() => blob.due_at <= decision.now(),
            _ => Mutant::DoomEarly.on() && !blob.is_referenced(),
        };
        if !blob.is_due(decision.now()) && !instead {
            continue;
        }
        if blob.state == BlobState::Pending {
            let blob = blob.clone();
            release_holds(decision, &blob);
        }
        decision.record(vec![Event::BlobDoomed { blob: *id, found: None }]);
        count += 1;
    }
    count
}

/// Removes those of the blobs that are doomed, and credits their bytes.
fn collect(decision: &mut Decision<'_>, blobs: &[BlobId]) -> usize {
    let mut count = 0;
    for id in blobs {
        let Ok(blob) = named(decision.ws, decision.context, *id) else { continue };
        if blob.state != BlobState::Doomed && !Mutant::CollectUndoomed.on() {
            continue;
        }
        let holds = blob.holds.clone();
        holds.into_iter().filter(|_| !Mutant::CollectUncredited.on()).for_each(|hold| credit(decision, hold));
        decision.record(vec![Event::BlobCollected { blob: *id }]);
        count += 1;
    }
    count
}

/// Gives the bytes of a committed hold back. A scope whose row is gone needs no credit.
fn credit(decision: &mut Decision<'_>, id: HoldId) {
    let Some(hold) = decision.ws.holds.get(&id).filter(|hold| hold.state == HoldState::Committed) else { return };
    let charges: Vec<(Scope, i64)> =
        hold.charges.iter().filter_map(|charge| Some((charge.scope.clone(), charge.actual?))).collect();
    for (scope, amount) in charges.into_iter().filter(|(_, amount)| *amount > 0) {
        if let Ok(events) = hold::credit(decision.ws, decision.context, &scope, amount, Some(id)) {
            decision.record(events);
        }
    }
}

/// Returns the events that place a hold for bytes on a scope.
fn hold_bytes(
    decision: &mut Decision<'_>,
    scope: &Scope,
    bytes: u64,
    ttl: Span,
    rules: &Rules,
) -> Result<(HoldId, Vec<Event>), Refusal> {
    let amount = i64::try_from(bytes).map_err(|_| Refusal::Overflow { scope: scope.clone() })?;
    let charges = vec![Charge::new(scope.clone(), amount)];
    let command = Command { charges, settle: Settle::Hold { ttl: Some(ttl) }, ..Command::default() };
    let events = submit::submit(decision.ws, decision.context, &command, rules, decision.ids)?;
    let hold = events.iter().find_map(|event| match event {
        Event::HoldPlaced { hold, .. } => Some(*hold),
        _ => None,
    });
    Ok((hold.expect("a command that holds places a hold"), events))
}

/// Returns the bytes that a hold of an upload covers.
fn held_bytes(ws: &Workspace, hold: HoldId) -> i64 {
    ws.holds.get(&hold).map_or(0, |hold| hold.charges.iter().map(|charge| charge.amount).sum())
}

/// Returns the bytes that all holds of an upload cover.
fn covered(ws: &Workspace, blob: &Blob) -> u64 {
    blob.holds.iter().map(|hold| held_bytes(ws, *hold).unsigned_abs()).sum()
}

/// Commits the holds of an upload, with its real length together. Checks all of them before it changes anything.
fn commit_holds(decision: &mut Decision<'_>, blob: &Blob, size: u64) -> Result<(), Refusal> {
    let mut left = i64::try_from(size).unwrap_or(i64::MAX);
    let mut parts = Vec::with_capacity(blob.holds.len());
    for (place, id) in blob.holds.iter().enumerate() {
        let last = place + 1 == blob.holds.len();
        let part = if last { left } else { left.min(held_bytes(decision.ws, *id)) };
        left -= part;
        parts.push((*id, part));
    }
    for (id, part) in &parts {
        hold::commit(decision.ws, decision.context, *id, &Actual::Amount(*part))?;
    }
    if let Some(scope) = blob.charge.as_ref() {
        let chain = decision.ws.ancestors(&blob.tenant, scope);
        for scope in std::iter::once(scope).chain(&chain) {
            let total = i64::try_from(size).unwrap_or(i64::MAX);
            if admit::row(decision.ws, &blob.tenant, scope).is_some_and(|row| !row.can_take(0, total)) {
                return Err(Refusal::Overflow { scope: scope.clone() });
            }
        }
    }
    for (id, part) in parts.into_iter().filter(|_| !Mutant::StoreUncharged.on()) {
        let events = hold::commit(decision.ws, decision.context, id, &Actual::Amount(part))?;
        decision.record(events);
    }
    Ok(())
}

/// Releases the holds of an upload that have not expired.
fn release_holds(decision: &mut Decision<'_>, blob: &Blob) {
    for id in blob.holds.iter().filter(|_| !Mutant::KeepUploadHold.on()) {
        if let Ok(events) = hold::release(decision.ws, decision.context, *id) {
            decision.record(events);
        }
    }
}

/// Returns a blob of the request's tenant. A blob of another tenant is reported as unknown.
fn named<'a>(ws: &'a Workspace, context: &Context, id: BlobId) -> Result<&'a Blob, Refusal> {
    let blob = ws.blobs.get(&id).filter(|blob| blob.tenant == context.tenant);
    blob.ok_or(Refusal::UnknownBlob { blob: id })
}

/// Returns a blob that is being uploaded.
fn pending<'a>(ws: &'a Workspace, context: &Context, id: BlobId) -> Result<&'a Blob, Refusal> {
    let blob = named(ws, context, id)?;
    if blob.state == BlobState::Pending { Ok(blob) } else { Err(not_pending(blob)) }
}

/// Returns a blob that can be referred to.
fn available<'a>(ws: &'a Workspace, tenant: &Tenant, id: BlobId) -> Result<&'a Blob, Refusal> {
    let blob = ws.blobs.get(&id).filter(|blob| blob.tenant == *tenant);
    let is_doomed = |blob: &Blob| Mutant::ReferToDoomed.on() && blob.state == BlobState::Doomed;
    blob.filter(|blob| blob.is_available() || is_doomed(blob)).ok_or(Refusal::UnknownBlob { blob: id })
}

/// Returns the live blob of a namespace that uploads of the same bytes find.
fn live_with(ws: &Workspace, tenant: &Tenant, namespace: &Namespace, digest: Sha256Digest) -> Option<BlobId> {
    ws.blob_digests.get(&digest_key(tenant, namespace, digest)).copied()
}

fn unreferenced_until(config: &NamespaceConfig, now: Time) -> Time {
    config.unreferenced.map_or(Time::NEVER, |kept| now.after(kept))
}

fn check_size(size: Option<u64>, config: &NamespaceConfig) -> Result<(), Refusal> {
    match size {
        Some(size) if size > config.bytes_max => Err(Refusal::BlobTooLarge { size, most: config.bytes_max }),
        _ => Ok(()),
    }
}

fn not_pending(blob: &Blob) -> Refusal {
    Refusal::UploadOver { blob: blob.id, state: blob.state }
}

fn mismatch(blob: &Blob, problem: &'static str) -> Refusal {
    Refusal::BlobMismatch { blob: blob.id, problem }
}
