//! Rows as bytes, made by the second thread before the writer comes to them.

use bursar_core::job::Job;
use bursar_core::state::{Change, Workspace};

use crate::codec::{Carries, Packed};
use crate::job_row::{Moving, Spec, ended};

/// What is to be written of a workspace, as bytes: of each table in the order of its changes.
#[derive(Default)]
pub(super) struct Packs {
    pub(super) scopes: Pack,
    pub(super) holds: Pack,
    pub(super) grants: Pack,
    pub(super) specs: Pack,
    pub(super) lives: Pack,
}

impl Packs {
    pub(super) fn of(ws: &Workspace) -> Packs {
        let mut packs = Packs::default();
        for (_, change) in ws.scopes.changes() {
            packs.scopes.add(&change, |row, room| row.pack_to(room));
        }
        for (_, change) in ws.holds.changes() {
            packs.holds.add(&change, |row, room| row.pack_to(room));
        }
        for (_, change) in ws.grants.changes() {
            packs.grants.add(&change, |row, room| row.pack_light_to(room));
        }
        for (_, change) in ws.jobs.changes() {
            // Of one that was there already only what moves is written.
            let new = match change {
                Change::Insert(job) if !job.life.state.is_final() => Some(job),
                _ => None,
            };
            packs.specs.put(new, spec);
            packs.lives.add(&change, life);
        }
        packs
    }
}

/// What of a job never changes.
pub(super) fn spec<'a>(job: &Job, room: &'a mut Vec<u8>) -> &'a [u8] {
    Spec::of(job).pack_to(room)
}

/// What of a job that lives does change; all of one that has ended.
pub(super) fn life<'a>(job: &Job, room: &'a mut Vec<u8>) -> &'a [u8] {
    if job.life.state.is_final() { ended(job).pack_to(room) } else { Moving::of(job).pack_to(room) }
}

/// Rows of one kind as bytes, one after the other. Those that were not made beforehand are made when they are asked for.
#[derive(Default)]
pub(super) struct Pack {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    room: Vec<u8>,
}

impl Pack {
    fn add<V>(&mut self, change: &Change<'_, V>, pack: impl for<'a> Fn(&V, &'a mut Vec<u8>) -> &'a [u8]) {
        let row = match change {
            Change::Insert(row) | Change::Update(row) => Some(*row),
            Change::Delete => None,
        };
        self.put(row, pack);
    }

    fn put<V>(&mut self, row: Option<&V>, pack: impl for<'a> Fn(&V, &'a mut Vec<u8>) -> &'a [u8]) {
        if let Some(row) = row {
            self.bytes.extend_from_slice(pack(row, &mut self.room));
        }
        self.ends.push(self.bytes.len());
    }

    /// The bytes of the row at a place.
    pub(super) fn get<'a, V>(
        &'a mut self,
        place: usize,
        row: &V,
        pack: impl FnOnce(&V, &'a mut Vec<u8>) -> &'a [u8],
    ) -> &'a [u8] {
        let begin = if place == 0 { Some(0) } else { self.ends.get(place - 1).copied() };
        let made = begin.zip(self.ends.get(place).copied()).map(|(begin, end)| begin..end);
        // No row is without bytes.
        match made.filter(|made| !made.is_empty()) {
            Some(made) => &self.bytes[made],
            None => pack(row, &mut self.room),
        }
    }
}
