//! Blobs in the model: their states, the namespaces' rules, and by which digests uploads find them.

use std::collections::BTreeSet;

use bursar_core::answer::{Answer, BlobAnswer};
use bursar_core::blob::{Blob, BlobSpec, BlobState, NamespaceConfig, Sha256Digest};
use bursar_core::bounds::UPLOAD_STEP;
use bursar_core::event::{Event, GrownBlob, StartedBlob, StoredBlob};
use bursar_core::id::{BlobId, HoldId, JobId};
use bursar_core::name::{Backend, Namespace, Referrer, Scope, Tenant};
use bursar_core::refusal::Refusal;
use bursar_core::request::BlobOp;
use bursar_core::state::{BlobDigestKey, NamespaceKey};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::memory::Writes;

use super::event_cursor::EventCursor;
use super::expect::{Case, Check, is};
use super::model::{Micros, Model};

/// A blob that has a row.
#[derive(Clone, Debug)]
pub(crate) struct BlobModel {
    pub(crate) tenant: Tenant,
    pub(crate) namespace: Namespace,
    pub(crate) state: BlobState,
    pub(crate) size: Option<u64>,
    pub(crate) digest: Option<Sha256Digest>,
    pub(crate) backend: Backend,
    pub(crate) charge: Option<Scope>,
    pub(crate) holds: Vec<HoldId>,
    /// The bytes that storing posted, by hold.
    pub(crate) posted: Vec<(HoldId, i64)>,
    pub(crate) deleted: bool,
    pub(crate) due_at: Micros,
    pub(crate) jobs: BTreeSet<JobId>,
    pub(crate) names: BTreeSet<Referrer>,
}

impl BlobModel {
    pub(crate) fn is_available(&self) -> bool {
        self.state == BlobState::Live && !self.deleted
    }

    /// Returns whether it may be doomed.
    pub(super) fn is_due(&self, now: Micros) -> bool {
        self.state != BlobState::Doomed && self.due_at <= now && self.jobs.is_empty() && self.names.is_empty()
    }

    /// Returns whether the collection has something to do: to doom it, or to delete its bytes.
    fn needs_collection(&self, now: Micros) -> bool {
        self.state == BlobState::Doomed && self.due_at <= now || self.is_due(now)
    }

    pub(super) fn digest_key(&self) -> Option<BlobDigestKey> {
        Some((self.tenant.clone(), self.namespace.clone(), self.digest?))
    }
}

/// The values of a row over time, each with the number of commits before it. Such a row is read without a lock, so that a transaction
/// may have read any value since it began.
#[derive(Clone, Debug)]
pub(crate) struct History<T>(Vec<(u64, T)>);

impl<T> Default for History<T> {
    fn default() -> History<T> {
        History(Vec::new())
    }
}

impl<T: Clone + Default + PartialEq> History<T> {
    pub(super) fn current(&self) -> T {
        self.0.last().map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub(super) fn set(&mut self, case: &Case<'_>, value: T) {
        self.0.push((case.commits, value));
    }

    /// Returns the values that a decision may have read, the latest one first.
    pub(super) fn readable(&self, case: &Case<'_>) -> Vec<T> {
        let mut values: Vec<T> = Vec::new();
        let since = self.0.iter().rev().take_while(|(commits, _)| *commits > case.began);
        let before = self.0.iter().rev().find(|(commits, _)| *commits <= case.began).map(|(_, value)| value.clone());
        for value in since.map(|(_, value)| value.clone()).chain([before.unwrap_or_default()]) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

pub(super) fn after(now: Micros, span: Span) -> Micros {
    Time::from_micros(now).after(span).micros()
}

/// Returns until when a blob without references is kept.
pub(super) fn kept_until(config: &NamespaceConfig, now: Micros) -> Micros {
    config.unreferenced.map_or(Time::NEVER.micros(), |kept| after(now, kept))
}

fn too_large(size: u64, config: &NamespaceConfig) -> Option<Refusal> {
    (size > config.bytes_max).then_some(Refusal::BlobTooLarge { size, most: config.bytes_max })
}

/// Expects a refusal because the upload is not as announced.
fn mismatched(case: &Case<'_>, id: BlobId) -> Check<bool> {
    match case.answered {
        Err(Refusal::BlobMismatch { blob, .. }) if *blob == id => Ok(false),
        answered => Err(format!("the upload of {id} is not as announced, but answered {answered:?}")),
    }
}

impl Model {
    /// Judges an operation on blobs.
    pub(super) fn blob_op(&mut self, case: &Case<'_>, op: &BlobOp) -> Check<bool> {
        if let BlobOp::DefineNamespace { namespace, config } = op {
            return self.define_namespace(case, namespace, config);
        }
        let namespace = match op {
            BlobOp::Start { spec, .. } => Some((case.tenant().clone(), spec.namespace.clone())),
            _ => op.blobs().first().and_then(|id| self.blobs.get(id)).map(|b| (b.tenant.clone(), b.namespace.clone())),
        };
        let configs = namespace.map_or_else(|| vec![NamespaceConfig::default()], |key| self.rules(case, &key));
        if let [config] = configs.as_slice() {
            return self.judge_blob_op(case, op, config);
        }
        let mut judged = Err("a namespace has rules".to_owned());
        for config in configs {
            let mut trial = self.clone();
            judged = trial.judge_blob_op(case, op, &config);
            if judged.is_ok() {
                *self = trial;
                break;
            }
        }
        judged
    }

    /// Returns the rules of a namespace that a decision may have read.
    pub(super) fn rules(&self, case: &Case<'_>, key: &NamespaceKey) -> Vec<NamespaceConfig> {
        self.namespaces.get(key).map_or_else(|| vec![NamespaceConfig::default()], |known| known.readable(case))
    }

    fn judge_blob_op(&mut self, case: &Case<'_>, op: &BlobOp, config: &NamespaceConfig) -> Check<bool> {
        let mut events = EventCursor::of(case);
        let effect = match op {
            BlobOp::DefineNamespace { .. } => unreachable!("it was judged before"),
            BlobOp::Start { spec, ttl } => self.start(case, spec, *ttl, config, &mut events),
            BlobOp::Grow { blob, size, ttl } => self.grow(case, *blob, *size, *ttl, config, &mut events),
            BlobOp::Store { blob, size, digest } => self.store(case, *blob, (*size, *digest), config, &mut events),
            BlobOp::Abandon { blob } => self.abandon(case, *blob, &mut events),
            BlobOp::Reference { blob, by } => self.reference(case, *blob, by, &mut events),
            BlobOp::Release { blob, by } => self.unreference(case, *blob, by, config, &mut events),
            BlobOp::Delete { blob } => self.delete(case, *blob, config, &mut events),
            BlobOp::Restore { blob } => self.restore(case, *blob, config, &mut events),
            BlobOp::Move { blob, backend } => self.moved(case, *blob, backend, &mut events),
            BlobOp::Doom { blobs } => self.doom(case, blobs, &mut events),
            BlobOp::Collect { blobs } => self.collect(case, blobs, &mut events),
        }?;
        self.follow_all(case, events)?;
        Ok(effect)
    }

    /// Judges the definition of a namespace, whose row is locked.
    fn define_namespace(&mut self, case: &Case<'_>, namespace: &Namespace, config: &NamespaceConfig) -> Check<bool> {
        if let Some(scope) = &config.charge {
            let budget = self.scopes.get(&case.key(scope)).and_then(|scope| scope.budget.as_ref());
            let Some(budget) = budget else { return case.refused(&Refusal::UnknownScope { scope: scope.clone() }) };
            if budget.windows().any(|window| *window != Window::Lifetime) {
                return match case.answered {
                    Err(Refusal::Invalid(invalid)) if invalid.field == "charge" => Ok(false),
                    answered => Err(format!("bytes: a window ends, but answered {answered:?}")),
                };
            }
        }
        is("a namespace", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let key = (case.tenant().clone(), namespace.clone());
        self.namespaces.entry(key).or_default().set(case, config.clone());
        Ok(true)
    }

    /// Returns a blob of the request's tenant.
    pub(super) fn blob(&self, case: &Case<'_>, id: BlobId) -> Option<&BlobModel> {
        self.blobs.get(&id).filter(|blob| blob.tenant == *case.tenant())
    }

    pub(super) fn blob_mut(&mut self, id: BlobId) -> &mut BlobModel {
        self.blobs.get_mut(&id).expect("the blob was found above")
    }

    /// Returns a blob that is being uploaded; otherwise checks the refusal.
    fn uploading(&self, case: &Case<'_>, id: BlobId) -> Result<BlobModel, Check<bool>> {
        match self.blob(case, id) {
            None => Err(case.refused(&Refusal::UnknownBlob { blob: id })),
            Some(blob) if blob.state == BlobState::Pending => Ok(blob.clone()),
            Some(blob) => Err(case.refused(&Refusal::UploadOver { blob: id, state: blob.state })),
        }
    }

    /// Judges whether an upload finds a live blob with the same bytes: returns the one that was answered, if it may.
    fn found(&self, case: &Case<'_>, key: &BlobDigestKey) -> Check<Option<BlobId>> {
        let mut readable = self.digests.get(key).map_or_else(|| vec![None], |known| known.readable(case));
        if let Some(unsure) = self.unsure_digests.get(key) {
            readable.extend([Some(*unsure), None]);
        }
        let answered = match case.answered {
            Ok(outcome) => match &outcome.answer {
                Answer::Blob(BlobAnswer { blob, found: true }) => Some(*blob),
                _ => None,
            },
            Err(_) => None,
        };
        if readable.contains(&answered) {
            return Ok(answered);
        }
        Err(format!("dedup: {answered:?} is found for {key:?}, expected one of {readable:?}"))
    }

    fn list_digest(&mut self, case: &Case<'_>, key: BlobDigestKey, id: Option<BlobId>) {
        self.digests.entry(key).or_default().set(case, id);
    }

    fn start(
        &mut self,
        case: &Case<'_>,
        spec: &BlobSpec,
        ttl: Span,
        config: &NamespaceConfig,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        if let Some(refusal) = spec.size.and_then(|size| too_large(size, config)) {
            return case.refused(&refusal);
        }
        let key = spec.digest.map(|digest| (case.tenant().clone(), spec.namespace.clone(), digest));
        if let Some(key) = key
            && self.found(case, &key)?.is_some()
        {
            return Ok(false);
        }
        let first = spec.size.unwrap_or(UPLOAD_STEP.min(config.bytes_max));
        let tries = if spec.size.is_some() { vec![first] } else { vec![first, 1] };
        let admitted = match &config.charge {
            None => None,
            Some(scope) => match self.admit_bytes(case, scope, &tries) {
                Ok(bytes) => Some((scope, bytes)),
                Err(refused) => return refused,
            },
        };
        let Answer::Blob(BlobAnswer { blob, found: false }) = case.answer()? else {
            return Err(format!("the start of an upload is answered with {:?}", case.answered));
        };
        if case.request.dry_run {
            return Ok(false);
        }
        let hold = admitted.map(|(scope, bytes)| self.place_bytes(case, scope, bytes, ttl, events)).transpose()?;
        let (spec, charge, due_at) = (Box::new(spec.clone()), config.charge.clone(), after(case.now, ttl));
        let model = BlobModel {
            tenant: case.tenant().clone(),
            namespace: spec.namespace.clone(),
            state: BlobState::Pending,
            size: spec.size,
            digest: spec.digest,
            backend: spec.backend.clone(),
            charge: charge.clone(),
            holds: hold.into_iter().collect(),
            posted: Vec::new(),
            deleted: false,
            due_at,
            jobs: BTreeSet::new(),
            names: BTreeSet::new(),
        };
        let due_at = Time::from_micros(due_at);
        let expected = Event::BlobStarted(StartedBlob { blob: *blob, spec, due_at, charge, hold });
        is("the start of an upload", events.next("the start of an upload")?, &expected)?;
        if self.blobs.insert(*blob, model).is_some() {
            return Err(format!("{blob} exists already"));
        }
        Ok(true)
    }

    fn grow(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        size: u64,
        ttl: Span,
        config: &NamespaceConfig,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let blob = match self.uploading(case, id) {
            Ok(blob) => blob,
            Err(refused) => return refused,
        };
        if let Some(refusal) = too_large(size, config) {
            return case.refused(&refusal);
        }
        if blob.size.is_some_and(|announced| size > announced) {
            return mismatched(case, id);
        }
        let covered: u64 = blob.holds.iter().map(|hold| self.held_bytes(*hold).unsigned_abs()).sum();
        let mut admitted = None;
        if let Some(scope) = blob.charge.as_ref().filter(|_| size > covered) {
            // Twice as many bytes as before are held, or the needed ones where these have no room.
            let doubled = size.max(2 * covered).min(config.bytes_max);
            let tries = if doubled > size { vec![doubled - covered, size - covered] } else { vec![size - covered] };
            admitted = match self.admit_bytes(case, scope, &tries) {
                Ok(bytes) => Some((scope, bytes)),
                Err(refused) => return refused,
            };
        }
        is("the growth of an upload", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let hold = admitted.map(|(scope, bytes)| self.place_bytes(case, scope, bytes, ttl, events)).transpose()?;
        let due_at = after(case.now, ttl);
        let grown = GrownBlob { blob: id, due_at: Time::from_micros(due_at), hold };
        is("the growth of an upload", events.next("the growth of an upload")?, &Event::BlobGrown(grown))?;
        let blob = self.blob_mut(id);
        blob.due_at = due_at;
        blob.holds.extend(hold);
        Ok(true)
    }

    fn store(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        (size, digest): (u64, Sha256Digest),
        config: &NamespaceConfig,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let stored = Answer::Blob(BlobAnswer { blob: id, found: false });
        let is_again =
            |blob: &BlobModel| blob.state == BlobState::Live && (blob.size, blob.digest) == (Some(size), Some(digest));
        if self.blob(case, id).is_some_and(is_again) {
            return is("an upload that was stored before", case.answer()?, &stored).map(|()| false);
        }
        let blob = match self.uploading(case, id) {
            Ok(blob) => blob,
            Err(refused) => return refused,
        };
        if let Some(refusal) = too_large(size, config) {
            return case.refused(&refusal);
        }
        let differs =
            blob.size.is_some_and(|announced| announced != size) || blob.digest.is_some_and(|known| known != digest);
        if differs {
            return mismatched(case, id);
        }
        let key = (blob.tenant.clone(), blob.namespace.clone(), digest);
        let found = self.found(case, &key)?;
        if found.is_some() {
            if case.request.dry_run {
                return Ok(false);
            }
            self.release_bytes(case, &blob, events)?;
            return self.doomed(case, id, found, events).map(|()| true);
        }
        let parts = match self.committed_parts(case, &blob, size) {
            Ok(parts) => parts,
            Err(refusal) => return case.refused(&refusal),
        };
        is("the end of an upload", case.answer()?, &stored)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let other = self.digests.get(&key).and_then(History::current);
        if let Some(other) = other.filter(|_| case.is_alone()) {
            return Err(format!("dedup: {id} is stored, but {other} has the same bytes"));
        }
        self.commit_bytes(case, &parts, events)?;
        let due_at = kept_until(config, case.now);
        let expected = StoredBlob { blob: id, size, digest, due_at: Time::from_micros(due_at) };
        is("the end of an upload", events.next("the end of an upload")?, &Event::BlobStored(expected))?;
        let blob = self.blob_mut(id);
        (blob.state, blob.due_at, blob.posted) = (BlobState::Live, due_at, parts);
        (blob.size, blob.digest) = (Some(size), Some(digest));
        match other {
            None => self.list_digest(case, key, Some(id)),
            // A digest is inserted at the end of a transaction, which notices the copy unless it has deleted its own blob by then.
            Some(other) => self.unnoticed_copies.push((id, other)),
        }
        Ok(true)
    }

    fn abandon(&mut self, case: &Case<'_>, id: BlobId, events: &mut EventCursor<'_>) -> Check<bool> {
        if self.blob(case, id).is_some_and(|blob| blob.state == BlobState::Doomed) {
            return is("an upload that is over", case.answer()?, &Answer::Swept { count: 0 }).map(|()| false);
        }
        let blob = match self.uploading(case, id) {
            Ok(blob) => blob,
            Err(refused) => return refused,
        };
        is("an upload that is given up", case.answer()?, &Answer::Swept { count: 1 })?;
        if case.request.dry_run {
            return Ok(false);
        }
        self.release_bytes(case, &blob, events)?;
        self.doomed(case, id, None, events).map(|()| true)
    }

    pub(super) fn doomed(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        found: Option<BlobId>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        is("a doomed blob", events.next("a doomed blob")?, &Event::BlobDoomed { blob: id, found })?;
        self.unlist_digest(case, id);
        let blob = self.blob_mut(id);
        (blob.state, blob.due_at) = (BlobState::Doomed, case.now);
        Ok(())
    }

    pub(super) fn unlist_digest(&mut self, case: &Case<'_>, id: BlobId) {
        let Some(key) = self.blobs[&id].digest_key().filter(|_| self.blobs[&id].state == BlobState::Live) else {
            return;
        };
        if self.unsure_digests.get(&key) == Some(&id) {
            self.unsure_digests.remove(&key);
        }
        if self.digests.get(&key).and_then(History::current) == Some(id) {
            self.list_digest(case, key, None);
        }
    }

    /// Returns the blobs that are to be doomed, or whose bytes are to be deleted.
    pub(crate) fn blobs_to_collect(&self, now: Micros) -> BTreeSet<BlobId> {
        self.blobs.iter().filter(|(_, blob)| blob.needs_collection(now)).map(|(id, _)| *id).collect()
    }

    /// Returns the live blobs by the digests under which uploads find them.
    pub(crate) fn listed_digests(&self) -> impl Iterator<Item = (&BlobDigestKey, BlobId)> {
        self.digests.iter().filter_map(|(key, listed)| Some((key, listed.current()?)))
    }

    /// Compares the blobs and digests that a transaction writes, and learns which digests it has listed where that was open.
    pub(crate) fn compare_blob_writes(&mut self, commits: u64, writes: &Writes) -> Check {
        for (key, id) in std::mem::take(&mut self.unsure_digests) {
            if writes.blob_digests.get(&key) == Some(&Some(id)) {
                self.digests.entry(key).or_default().0.push((commits, Some(id)));
            }
        }
        for (id, other) in std::mem::take(&mut self.unnoticed_copies) {
            if self.blobs.get(&id).is_some_and(BlobModel::is_available) {
                return Err(format!("dedup: {id} is stored, but {other} has the same bytes"));
            }
        }
        for (key, listed) in &writes.blob_digests {
            let expected = self.digests.get(key).and_then(History::current);
            is(&format!("dedup: the blob of {key:?}"), listed, &expected)?;
        }
        writes.blobs.iter().try_for_each(|(id, row)| self.compare_blob(*id, row.as_ref()))
    }

    /// Compares a row with the model.
    pub(crate) fn compare_blob(&self, id: BlobId, row: Option<&Blob>) -> Check {
        let (row, blob) = match (row, self.blobs.get(&id)) {
            (None, None) => return Ok(()),
            (Some(row), Some(blob)) => (row, blob),
            (row, known) => return Err(format!("references: {id} is {row:?}, expected {known:?}")),
        };
        let counted = (row.jobs, &row.references);
        is(&format!("references: to {id}"), &counted, &(blob.jobs.len() as u64, &blob.names))?;
        is(&format!("bytes: of {id}"), &(&row.charge, &row.holds), &(&blob.charge, &blob.holds))?;
        let stored = (row.state, row.deleted_at.is_some(), row.due_at.micros());
        is(&format!("the state of {id}"), &stored, &(blob.state, blob.deleted, blob.due_at))?;
        let what = (row.size, row.digest, &row.tenant, &row.namespace, &row.backend);
        let expected = (blob.size, blob.digest, &blob.tenant, &blob.namespace, &blob.backend);
        is(&format!("the bytes of {id}"), &what, &expected)
    }
}
