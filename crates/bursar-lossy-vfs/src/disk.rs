//! The durable state of the files.
//!
//! The rules are what POSIX guarantees, and no more. A write is durable once its file was synced after it; until then
//! each sector of it is kept or lost independently. Creating or deleting a name is durable once its directory was
//! synced; until then each such change is kept or lost independently. Bytes that were not written never change.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a write that are kept or lost as a whole.
pub const SECTOR: usize = 512;

/// A file after a power loss: its path and contents.
pub type Survivor = (PathBuf, Vec<u8>);

/// Receives the files that survive a power loss.
type Report = Box<dyn FnMut(Vec<Survivor>) + Send>;

/// The durable state of one folder's files.
pub struct Disk(Mutex<State>);

struct State {
    /// The file of each name now, and after a power loss.
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    /// Created and deleted names since the directory was last synced.
    name_changes: Vec<NameChange>,
    files: Vec<File>,
    calls: u64,
    syncs: u64,
    losses: VecDeque<u64>,
    random_state: u64,
    report: Report,
}

enum NameChange {
    Created(PathBuf, usize),
    Deleted(PathBuf),
}

#[derive(Default)]
struct File {
    synced: Vec<u8>,
    /// Changes since the last sync, in order.
    changes: Vec<Change>,
}

enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Disk {
    /// Loads the files of `folder` as synced. At each call number in `losses`, counted from 1, `report` receives the files
    /// that a power loss at that call would leave.
    pub fn load(
        folder: &Path,
        seed: u64,
        losses: Vec<u64>,
        report: impl FnMut(Vec<Survivor>) + Send + 'static,
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
            name_changes: Vec::new(),
            files,
            calls: 0,
            syncs: 0,
            losses: losses.into(),
            random_state: seed,
            report: Box::new(report),
        })))
    }

    /// Returns the number of power losses still to come.
    pub fn losses_left(&self) -> usize {
        self.state().losses.len()
    }

    /// Returns the numbers of calls and of syncs so far.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.calls, state.syncs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file, creating it if needed; returns its number and whether it was created.
    pub(crate) fn open(&self, path: &Path) -> (usize, bool) {
        let mut state = self.state();
        state.tick();
        if let Some(file) = state.names.get(path) {
            return (*file, false);
        }
        let file = state.files.len();
        state.files.push(File::default());
        state.names.insert(path.to_owned(), file);
        state.name_changes.push(NameChange::Created(path.to_owned(), file));
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
        state.files[file].changes.push(Change::Truncate(size));
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
            state.name_changes.push(NameChange::Deleted(path.to_owned()));
        }
        if directory {
            state.sync_directory();
        }
    }
}

impl State {
    /// Counts a call. A power loss at this call comes before the call has any effect.
    fn tick(&mut self) {
        self.calls += 1;
        while self.losses.front().is_some_and(|call| *call <= self.calls) {
            self.losses.pop_front();
            let survivors = self.survivors();
            (self.report)(survivors);
        }
    }

    fn sync_directory(&mut self) {
        for change in std::mem::take(&mut self.name_changes) {
            change.apply(&mut self.durable);
        }
    }

    fn survivors(&mut self) -> Vec<Survivor> {
        let mut random = Random(self.next_random());
        let mut names = self.durable.clone();
        for change in &self.name_changes {
            if random.percent(50) {
                change.apply(&mut names);
            }
        }
        let content = |(path, file): (PathBuf, usize)| {
            let File { synced, changes } = &self.files[file];
            let mut bytes = synced.clone();
            // The percentage of sectors that reached the disk: from none to all.
            let kept = [0, 10, 50, 90, 98, 100][random.below(6)];
            for change in changes {
                change.apply_partly(&mut bytes, kept, &mut random);
            }
            (path, bytes)
        };
        names.into_iter().map(content).collect()
    }

    fn next_random(&mut self) -> u64 {
        self.random_state = Random(self.random_state).next();
        self.random_state
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Created(path, file) => drop(names.insert(path.clone(), *file)),
            NameChange::Deleted(path) => drop(names.remove(path)),
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, written) => put(bytes, *at, written),
            Change::Truncate(size) => bytes.resize(*size, 0),
        }
    }

    /// Applies each sector of a write, or a truncation, with a probability of `kept` percent.
    fn apply_partly(&self, bytes: &mut Vec<u8>, kept: usize, random: &mut Random) {
        match self {
            Change::Write(at, written) => {
                let (mut at, mut rest) = (*at, written.as_slice());
                while !rest.is_empty() {
                    let (part, more) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                    if random.percent(kept) {
                        put(bytes, at, part);
                    }
                    (at, rest) = (at + part.len(), more);
                }
            }
            Change::Truncate(_) if random.percent(kept) => self.apply(bytes),
            Change::Truncate(_) => {}
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

/// Reproducible random numbers: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Returns the files that survive a power loss at each of the first `calls` calls.
    fn survivors(calls: u64, seed: u64, work: impl FnOnce(&Disk)) -> Vec<Vec<Survivor>> {
        let folder = std::env::temp_dir().join(format!("bursar-lossy-vfs-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (sender, images) = mpsc::channel();
        let disk = Disk::load(&folder, seed, (1..=calls).collect(), move |image| sender.send(image).unwrap()).unwrap();
        work(&disk);
        std::fs::remove_dir(&folder).unwrap();
        drop(disk);
        images.into_iter().collect()
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_sectors_may_be_lost() {
        let path = Path::new("file");
        let (mut torn, mut name_lost) = (false, false);
        for seed in 0..50 {
            let images = survivors(6, seed, |disk| {
                let (file, created) = disk.open(path);
                assert!(created);
                disk.write(file, 0, &[1; 2_048]);
                disk.sync(file, true);
                disk.write(file, 512, &[2; 1_536]);
                disk.sync(file, false);
                disk.truncate(file, 512);
            });
            assert_eq!(images[0], [], "before the file was created");
            name_lost |= images[1].is_empty();
            let before = &images[3][0].1;
            assert_eq!(*before, [1; 2_048], "synced bytes survive");
            let parts: Vec<u8> = images[4][0].1.chunks(SECTOR).map(|sector| sector[0]).collect();
            assert!(images[4][0].1.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            assert_eq!(parts[0], 1, "bytes that were not written do not change");
            torn |= parts.contains(&2) && parts[1..].contains(&1);
            let after: Vec<u8> = images[5][0].1.chunks(SECTOR).map(|sector| sector[0]).collect();
            assert_eq!(after, [1, 2, 2, 2], "the truncation comes after this call");
        }
        assert!(torn, "a write is torn in some of fifty cases");
        assert!(name_lost, "an unsynced name is lost in some of fifty cases");
    }

    #[test]
    fn a_deleted_name_may_come_back_until_its_directory_is_synced() {
        let path = Path::new("file");
        let (mut restored, mut deleted) = (0, 0);
        for seed in 100..150 {
            let images = survivors(5, seed, |disk| {
                let (file, _) = disk.open(path);
                disk.sync(file, true);
                disk.delete(path, false);
                disk.delete(Path::new("other"), true);
                disk.open(Path::new("third"));
            });
            restored += usize::from(!images[3].is_empty());
            deleted += usize::from(images[3].is_empty());
            assert_eq!(images[4], [], "the deletion is durable now");
        }
        assert!(restored > 0 && deleted > 0, "{restored} {deleted}");
    }
}
