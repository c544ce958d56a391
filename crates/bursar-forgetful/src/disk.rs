//! What of the files would survive.
//!
//! The rules are those of POSIX and no better: a write counts when its file was synced after it; until then each sector
//! of it is kept or lost on its own. A name counts when its directory was synced; until then making or deleting it is
//! kept or lost on its own. Bytes that were not written never change.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The part of a write that is kept or lost as a whole.
pub const SECTOR: usize = 512;

/// A file as it is after a power loss.
pub type Survivor = (PathBuf, Vec<u8>);

/// What is told of a power loss.
type Tell = Box<dyn FnMut(Vec<Survivor>) + Send>;

/// The files of one folder, as they would survive.
pub struct Disk(Mutex<State>);

struct State {
    /// What each name means now, and what it would mean after a power loss.
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    /// Changes of names since the directory was synced.
    entries: Vec<Entry>,
    files: Vec<File>,
    calls: u64,
    syncs: u64,
    losses: VecDeque<u64>,
    chance: u64,
    tell: Tell,
}

enum Entry {
    Made(PathBuf, usize),
    Deleted(PathBuf),
}

#[derive(Default)]
struct File {
    synced: Vec<u8>,
    /// What was done since the last sync, in order.
    changes: Vec<Change>,
}

enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Disk {
    /// A disk with what is in `folder` on it, all of it synced. At each of the calls in `losses`, counted from 1, `tell`
    /// is given what would survive.
    pub fn load(
        folder: &Path,
        seed: u64,
        losses: Vec<u64>,
        tell: impl FnMut(Vec<Survivor>) + Send + 'static,
    ) -> io::Result<Disk> {
        let (mut names, mut files) = (BTreeMap::new(), Vec::new());
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            names.insert(path.clone(), files.len());
            files.push(File { synced: std::fs::read(&path)?, changes: Vec::new() });
        }
        let mut losses = losses;
        losses.sort_unstable();
        Ok(Disk(Mutex::new(State {
            durable: names.clone(),
            names,
            entries: Vec::new(),
            files,
            calls: 0,
            syncs: 0,
            losses: losses.into(),
            chance: seed,
            tell: Box::new(tell),
        })))
    }

    /// Power losses that are still to come.
    pub fn losses_left(&self) -> usize {
        self.state().losses.len()
    }

    /// Calls and syncs so far.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.calls, state.syncs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is opened; returns its number. Made if it is not there, and then true.
    pub(crate) fn open(&self, path: &Path) -> (usize, bool) {
        let mut state = self.state();
        state.tick();
        if let Some(file) = state.names.get(path) {
            return (*file, false);
        }
        let file = state.files.len();
        state.files.push(File::default());
        state.names.insert(path.to_owned(), file);
        state.entries.push(Entry::Made(path.to_owned(), file));
        (file, true)
    }

    pub(crate) fn write(&self, file: usize, at: usize, bytes: &[u8]) {
        let mut state = self.state();
        state.tick();
        state.files[file].changes.push(Change::Write(at, bytes.to_owned()));
    }

    pub(crate) fn truncate(&self, file: usize, size: usize) {
        let mut state = self.state();
        state.tick();
        state.files[file].changes.push(Change::Cut(size));
    }

    pub(crate) fn sync(&self, file: usize, directory: bool) {
        let mut state = self.state();
        state.tick();
        state.syncs += 1;
        let File { synced, changes } = &mut state.files[file];
        for change in std::mem::take(changes) {
            change.apply(synced);
        }
        if directory {
            state.sync_directory();
        }
    }

    pub(crate) fn delete(&self, path: &Path, directory: bool) {
        let mut state = self.state();
        state.tick();
        if state.names.remove(path).is_some() {
            state.entries.push(Entry::Deleted(path.to_owned()));
        }
        if directory {
            state.sync_directory();
        }
    }
}

impl State {
    /// Counts a call. If the power goes now, that is before the call has had its effect.
    fn tick(&mut self) {
        self.calls += 1;
        while self.losses.front().is_some_and(|call| *call <= self.calls) {
            self.losses.pop_front();
            let survivors = self.survivors();
            (self.tell)(survivors);
        }
    }

    fn sync_directory(&mut self) {
        for entry in std::mem::take(&mut self.entries) {
            entry.apply(&mut self.durable);
        }
    }

    fn survivors(&mut self) -> Vec<Survivor> {
        let mut chance = Chance(self.roll());
        let mut names = self.durable.clone();
        for entry in &self.entries {
            if chance.percent(50) {
                entry.apply(&mut names);
            }
        }
        let content = |(path, file): (PathBuf, usize)| {
            let File { synced, changes } = &self.files[file];
            let mut bytes = synced.clone();
            // From a disk that had written nearly nothing to one that lacked a sector or two.
            let kept = [0, 10, 50, 90, 98, 100][chance.below(6)];
            for change in changes {
                change.apply_partly(&mut bytes, kept, &mut chance);
            }
            (path, bytes)
        };
        names.into_iter().map(content).collect()
    }

    fn roll(&mut self) -> u64 {
        let mut chance = Chance(self.chance);
        self.chance = chance.roll();
        self.chance
    }
}

impl Entry {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Entry::Made(path, file) => drop(names.insert(path.clone(), *file)),
            Entry::Deleted(path) => drop(names.remove(path)),
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, written) => put(bytes, *at, written),
            Change::Cut(size) => bytes.resize(*size, 0),
        }
    }

    /// Each sector of a write is kept or lost on its own.
    fn apply_partly(&self, bytes: &mut Vec<u8>, kept: usize, chance: &mut Chance) {
        match self {
            Change::Write(at, written) => {
                let (mut at, mut rest) = (*at, written.as_slice());
                while !rest.is_empty() {
                    let (part, more) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                    if chance.percent(kept) {
                        put(bytes, at, part);
                    }
                    (at, rest) = (at + part.len(), more);
                }
            }
            Change::Cut(_) if chance.percent(kept) => self.apply(bytes),
            Change::Cut(_) => {}
        }
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    let end = at + part.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(part);
}

/// Numbers that a seed repeats: splitmix64.
struct Chance(u64);

impl Chance {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() % most as u64).unwrap_or(0)
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// What survives at each of the first so many calls.
    fn lost(calls: u64, seed: u64, work: impl FnOnce(&Disk)) -> Vec<Vec<Survivor>> {
        let folder = std::env::temp_dir().join(format!("bursar-forgetful-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (tell, told) = mpsc::channel();
        let disk = Disk::load(&folder, seed, (1..=calls).collect(), move |image| tell.send(image).unwrap()).unwrap();
        work(&disk);
        std::fs::remove_dir(&folder).unwrap();
        drop(disk);
        told.into_iter().collect()
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_by_sectors() {
        let path = Path::new("file");
        let (mut torn, mut nameless) = (false, false);
        for seed in 0..50 {
            let images = lost(6, seed, |disk| {
                let (file, made) = disk.open(path);
                assert!(made);
                disk.write(file, 0, &[1; 2_048]);
                disk.sync(file, true);
                disk.write(file, 512, &[2; 1_536]);
                disk.sync(file, false);
                disk.truncate(file, 512);
            });
            assert_eq!(images[0], [], "before it was made");
            nameless |= images[1].is_empty();
            let before = &images[3][0].1;
            assert_eq!(*before, [1; 2_048], "synced, whatever comes next");
            let parts: Vec<u8> = images[4][0].1.chunks(SECTOR).map(|sector| sector[0]).collect();
            assert!(images[4][0].1.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            assert_eq!(parts[0], 1, "what was not written does not change");
            torn |= parts.contains(&2) && parts[1..].contains(&1);
            let after: Vec<u8> = images[5][0].1.chunks(SECTOR).map(|sector| sector[0]).collect();
            assert_eq!(after, [1, 2, 2, 2], "the cut comes after this");
        }
        assert!(torn, "a write is torn in some of fifty cases");
        assert!(nameless, "a name that was not synced is lost in some of fifty cases");
    }

    #[test]
    fn a_deleted_name_may_come_back_until_its_directory_is_synced() {
        let path = Path::new("file");
        let (mut back, mut gone) = (0, 0);
        for seed in 100..150 {
            let images = lost(5, seed, |disk| {
                let (file, _) = disk.open(path);
                disk.sync(file, true);
                disk.delete(path, false);
                disk.delete(Path::new("other"), true);
                disk.open(Path::new("third"));
            });
            back += usize::from(!images[3].is_empty());
            gone += usize::from(images[3].is_empty());
            assert_eq!(images[4], [], "now it is gone for good");
        }
        assert!(back > 0 && gone > 0, "{back} {gone}");
    }
}
