//! Blobs in the model: references, deletion and collection.

use bursar_core::answer::{Answer, Submitted};
use bursar_core::blob::{BlobState, NamespaceConfig, Reference};
use bursar_core::event::Event;
use bursar_core::id::{BlobId, JobId};
use bursar_core::name::{Backend, Referrer};
use bursar_core::refusal::Refusal;
use bursar_core::request::Command;
use bursar_core::time::Time;

use super::blobs::{BlobModel, after, kept_until};
use super::event_cursor::EventCursor;
use super::expect::{Case, Check, is};
use super::model::Model;

impl Model {
    /// Returns the refusal of the first blob that cannot be referred to.
    fn unavailable(&self, case: &Case<'_>, mut wanted: impl Iterator<Item = BlobId>) -> Option<Refusal> {
        let is_available = |id: BlobId| self.blob(case, id).is_some_and(BlobModel::is_available);
        wanted.find(|id| !is_available(*id)).map(|blob| Refusal::UnknownBlob { blob })
    }

    pub(super) fn reference(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        by: &Referrer,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        if let Some(refusal) = self.unavailable(case, [id].into_iter()) {
            return case.refused(&refusal).map_err(|what| format!("references: {what}"));
        }
        is("a reference", case.answer()?, &Answer::Done)?;
        if case.request.dry_run || self.blobs[&id].names.contains(by) {
            return Ok(false);
        }
        self.named(id, by, events.next("a reference")?)?;
        Ok(true)
    }

    fn named(&mut self, id: BlobId, by: &Referrer, event: &Event) -> Check {
        let expected = Event::BlobReferenced { blob: id, by: Reference::Name(by.clone()) };
        is("references: of the application", event, &expected)?;
        self.blob_mut(id).names.insert(by.clone());
        Ok(())
    }

    fn used(&mut self, id: BlobId, job: JobId, event: &Event) -> Check {
        let expected = Event::BlobReferenced { blob: id, by: Reference::Job(job) };
        is("references: of a job", event, &expected)?;
        self.blob_mut(id).jobs.insert(job);
        self.jobs.get_mut(&job).expect("the job was found above").blobs.push(id);
        Ok(())
    }

    pub(super) fn unreference(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        by: &Referrer,
        config: &NamespaceConfig,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let Some(blob) = self.blob(case, id) else { return case.refused(&Refusal::UnknownBlob { blob: id }) };
        is("a released reference", case.answer()?, &Answer::Done)?;
        if case.request.dry_run || !blob.names.contains(by) {
            return Ok(false);
        }
        let due_at = if blob.deleted { blob.due_at } else { kept_until(config, case.now) };
        let (by, at) = (Reference::Name(by.clone()), Time::from_micros(due_at));
        let expected = Event::BlobReleased { blob: id, by: by.clone(), due_at: at };
        is("references: released", events.next("a released reference")?, &expected)?;
        let blob = self.blob_mut(id);
        blob.due_at = due_at;
        blob.names.retain(|name| Reference::Name(name.clone()) != by);
        Ok(true)
    }

    /// Returns the refusal of a command because of the blobs that it or its new jobs name.
    pub(super) fn refused_blobs(&self, case: &Case<'_>, command: &Command) -> Option<Refusal> {
        let made: Vec<bool> = match case.answer() {
            Ok(Answer::Submitted(answered)) => answered.jobs.iter().map(|job| job.created).collect(),
            _ => self.new_jobs(case, command),
        };
        let of_jobs = command.jobs.iter().zip(made).filter(|(_, made)| *made).flat_map(|(job, _)| &job.blobs);
        let named = command.references.iter().map(|reference| reference.blob);
        self.unavailable(case, named.chain(of_jobs.copied()))
    }

    /// Returns which jobs of a command do not exist yet.
    fn new_jobs(&self, case: &Case<'_>, command: &Command) -> Vec<bool> {
        let key = |place: usize| {
            let job = &command.jobs[place];
            Some((case.tenant().clone(), job.queue.clone(), job.idempotency_key.clone()?))
        };
        let is_new = |place: usize| {
            let Some(own) = key(place) else { return true };
            !self.job_keys.contains_key(&own) && !(0..place).any(|other| key(other).as_ref() == Some(&own))
        };
        (0..command.jobs.len()).map(is_new).collect()
    }

    /// Judges the references that a command makes for the application and for its new jobs. Returns whether there are any.
    pub(super) fn refer(&mut self, case: &Case<'_>, command: &Command, answered: &Submitted) -> Check<bool> {
        let mut events = case.events().filter(|event| matches!(event, Event::BlobReferenced { .. }));
        let mut next = || events.next().ok_or("references: one of a command is missing");
        let mut any = false;
        for reference in &command.references {
            if !self.blobs[&reference.blob].names.contains(&reference.by) {
                self.named(reference.blob, &reference.by, next()?)?;
                any = true;
            }
        }
        for (job, spec) in answered.jobs.iter().zip(&command.jobs).filter(|(job, _)| job.created) {
            for blob in &spec.blobs {
                if !self.jobs[&job.id].blobs.contains(blob) {
                    self.used(*blob, job.id, next()?)?;
                    any = true;
                }
            }
        }
        events.next().map_or(Ok(any), |event| Err(format!("references: {event:?} is not expected")))
    }

    /// Returns the refusal of the end of a lease because of the blobs that it names as made: first of those in namespaces that the
    /// reporter does not reach, then of those that are not live.
    pub(super) fn refused_made(&self, case: &Case<'_>, job: JobId, made: &[BlobId]) -> Option<Refusal> {
        let known = &self.jobs[&job].blobs;
        let reaches = |id: &BlobId| {
            let (Some(reporter), Some(blob)) = (&case.request.context.reporter, self.blobs.get(id)) else {
                return true;
            };
            reporter.namespaces.iter().any(|pattern| pattern.to_string() == blob.namespace.as_str())
        };
        let beyond = made.iter().find(|id| !known.contains(id) && !reaches(id));
        beyond.map(|blob| Refusal::UnknownBlob { blob: *blob }).or_else(|| self.unavailable(case, made.iter().copied()))
    }

    /// Judges the references to the blobs that a job has made.
    pub(super) fn made(&mut self, job: JobId, made: &[BlobId], events: &mut EventCursor<'_>) -> Check {
        for blob in made {
            if !self.jobs[&job].blobs.contains(blob) {
                self.used(*blob, job, events.next("a reference to a blob that was made")?)?;
            }
        }
        Ok(())
    }

    /// Judges that the references of a removed job end.
    pub(super) fn release_job(&mut self, case: &Case<'_>, job: JobId, events: &mut EventCursor<'_>) -> Check {
        for id in self.jobs[&job].blobs.clone() {
            let event = events.next("a released reference of a job")?;
            let Event::BlobReleased { blob, by: Reference::Job(by), due_at } = event else {
                return Err(format!("references: {event:?} comes before the release of {id} by {job}"));
            };
            is("references: released by a job", &(*blob, *by), &(id, job))?;
            let known = &self.blobs[&id];
            let rules = self.rules(case, &(known.tenant.clone(), known.namespace.clone()));
            let right = match known.deleted {
                true => due_at.micros() == known.due_at,
                false => rules.iter().any(|config| kept_until(config, case.now) == due_at.micros()),
            };
            if !right {
                return Err(format!("references: {id} is due at {due_at}: {known:?}"));
            }
            let blob = self.blob_mut(id);
            blob.jobs.remove(&job);
            blob.due_at = due_at.micros();
        }
        Ok(())
    }

    pub(super) fn delete(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        config: &NamespaceConfig,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let blob = self.blob(case, id).filter(|blob| blob.state == BlobState::Live);
        let Some(blob) = blob else { return case.refused(&Refusal::UnknownBlob { blob: id }) };
        is("a deletion", case.answer()?, &Answer::Done)?;
        if case.request.dry_run || blob.deleted {
            return Ok(false);
        }
        let due_at = after(case.now, config.grace);
        let expected = Event::BlobDeleted { blob: id, due_at: Time::from_micros(due_at) };
        is("a deletion", events.next("a deletion")?, &expected)?;
        self.unlist_digest(case, id);
        let blob = self.blob_mut(id);
        (blob.deleted, blob.due_at) = (true, due_at);
        Ok(true)
    }

    pub(super) fn restore(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        config: &NamespaceConfig,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let blob = self.blob(case, id).filter(|blob| blob.state == BlobState::Live);
        let Some(blob) = blob else { return case.refused(&Refusal::UnknownBlob { blob: id }) };
        is("a restored blob", case.answer()?, &Answer::Done)?;
        if case.request.dry_run || !blob.deleted {
            return Ok(false);
        }
        let key = blob.digest_key().ok_or("a live blob has a digest")?;
        let due_at = kept_until(config, case.now);
        let expected = Event::BlobRestored { blob: id, due_at: Time::from_micros(due_at) };
        is("a restored blob", events.next("a restored blob")?, &expected)?;
        let blob = self.blob_mut(id);
        (blob.deleted, blob.due_at) = (false, due_at);
        let listed = self.digests.entry(key.clone()).or_default();
        match (listed.current(), listed.readable(case).iter().any(Option::is_some)) {
            (Some(_), _) => {}
            (None, false) => listed.set(case, Some(id)),
            // The transaction may have read the digest of a copy that was deleted meanwhile.
            (None, true) => drop(self.unsure_digests.insert(key, id)),
        }
        Ok(true)
    }

    pub(super) fn moved(
        &mut self,
        case: &Case<'_>,
        id: BlobId,
        backend: &Backend,
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let blob = self.blob(case, id).filter(|blob| blob.state == BlobState::Live);
        let Some(blob) = blob else { return case.refused(&Refusal::UnknownBlob { blob: id }) };
        is("a moved blob", case.answer()?, &Answer::Done)?;
        if case.request.dry_run || blob.backend == *backend {
            return Ok(false);
        }
        let expected = Event::BlobMoved { blob: id, backend: backend.clone() };
        is("a moved blob", events.next("a moved blob")?, &expected)?;
        self.blob_mut(id).backend = backend.clone();
        Ok(true)
    }

    /// Judges which blobs are doomed: those that are due. Blobs that another transaction had locked may be left for later.
    pub(super) fn doom(&mut self, case: &Case<'_>, requested: &[BlobId], events: &mut EventCursor<'_>) -> Check<bool> {
        let is_due = |model: &Model, id: BlobId| model.blob(case, id).is_some_and(|blob| blob.is_due(case.now));
        if case.request.dry_run {
            return swept_at_most(case, requested.iter().filter(|id| is_due(self, **id)).count());
        }
        let mut count = 0;
        for id in requested {
            if !is_due(self, *id) {
                continue;
            }
            let blob = self.blobs[id].clone();
            let is_doomed = match events.peek() {
                Some(Event::BlobDoomed { blob, .. }) => blob == id,
                Some(Event::HoldReleased { hold, .. }) => blob.holds.contains(hold),
                _ => false,
            };
            if is_doomed {
                if blob.state == BlobState::Pending {
                    self.release_bytes(case, &blob, events)?;
                }
                self.doomed(case, *id, None, events)?;
                count += 1;
            } else if case.is_alone() {
                return Err(format!("references: {id} is due, but not doomed: {blob:?}"));
            }
        }
        if let Some(event) = events.peek() {
            return Err(format!("references: {event:?} comes although the blob is not due"));
        }
        is("doomed blobs", case.answer()?, &Answer::Swept { count }).map(|()| count > 0)
    }

    /// Judges which blobs are collected: doomed ones, and their bytes are credited. Blobs that another transaction had locked may be left
    /// for later.
    pub(super) fn collect(
        &mut self,
        case: &Case<'_>,
        requested: &[BlobId],
        events: &mut EventCursor<'_>,
    ) -> Check<bool> {
        let is_doomed =
            |model: &Model, id: BlobId| model.blob(case, id).is_some_and(|blob| blob.state == BlobState::Doomed);
        if case.request.dry_run {
            return swept_at_most(case, requested.iter().filter(|id| is_doomed(self, **id)).count());
        }
        let mut count = 0;
        for id in requested {
            if !is_doomed(self, *id) {
                continue;
            }
            let blob = self.blobs[id].clone();
            let is_collected = match events.peek() {
                Some(Event::BlobCollected { blob }) => blob == id,
                Some(Event::Credited { hold: Some(hold), .. }) => blob.holds.contains(hold),
                _ => false,
            };
            if is_collected {
                self.credit_bytes(case, &blob, events)?;
                is("a collected blob", events.next("a collected blob")?, &Event::BlobCollected { blob: *id })?;
                self.blobs.remove(id);
                count += 1;
            } else if case.is_alone() {
                return Err(format!("references: {id} is doomed, but not collected: {blob:?}"));
            }
        }
        if let Some(event) = events.peek() {
            return Err(format!("references: {event:?} comes although the blob is not doomed"));
        }
        is("collected blobs", case.answer()?, &Answer::Swept { count }).map(|()| count > 0)
    }
}

/// Checks that a dry run counts no more blobs than a sweep would change.
fn swept_at_most(case: &Case<'_>, most: usize) -> Check<bool> {
    match case.answer()? {
        Answer::Swept { count } if *count <= most => Ok(false),
        answered => Err(format!("{answered:?} is answered, but at most {most} blobs can be swept")),
    }
}
