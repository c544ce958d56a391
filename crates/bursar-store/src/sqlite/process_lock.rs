//! A fair lock between processes that write to one file.
//!
//! SQLite lets writers race for its lock. The process that wrote last usually wins again, and others starve. Here a process locks two
//! files beside the database before it writes: first `-gate`, then `-turn`. It releases the gate when it has the turn, and the turn when
//! it has written. The process that waits for the turn holds the gate, so the process that just wrote cannot overtake it.

use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::StoreError;

/// Two lock files beside the database. The operating system releases their locks when a process ends.
pub(super) struct ProcessLock {
    files: Option<(File, File)>,
    /// Whether the last `enter` had to wait, which means that other processes write too.
    waited: Cell<bool>,
}

/// The right to write, until dropped.
pub(super) struct WriteTurn<'a>(Option<&'a File>);

/// The pauses between attempts of a statement, each of which waits for `BUSY_TIMEOUT` inside SQLite.
pub(super) const WAITS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];
/// How long SQLite itself waits for its lock.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a process waits for its turn.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The first and the shortest pause between attempts to lock the gate. Each is half as long as the one before, so the process that has
/// waited longest tries most often.
const GATE_STEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_micros(50));
/// How long a process that had to wait pauses before its next write, so that processes that sleep between attempts can lock the gate
/// first.
const YIELD: Duration = Duration::from_micros(400);
/// The first and the shortest pause between attempts to lock the turn, for which only one process waits.
const TURN_STEPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(50));

impl ProcessLock {
    /// Opens the lock files of a database file.
    pub(super) fn beside(database: &Path) -> Result<ProcessLock, StoreError> {
        let open = |suffix: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            let path = PathBuf::from(path);
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(|source| {
                StoreError::Unavailable {
                    what: format!("the lock file beside the database cannot be opened ({})", path.display()),
                    hint: "make the folder of the database writable",
                    permanent: true,
                    source: Some(Box::new(source)),
                }
            })
        };
        Ok(ProcessLock { files: Some((open("-gate")?, open("-turn")?)), waited: Cell::new(false) })
    }

    /// No lock, for a database in memory.
    pub(super) fn none() -> ProcessLock {
        ProcessLock { files: None, waited: Cell::new(false) }
    }

    /// Waits for the turn, up to `TIMEOUT`.
    pub(super) fn enter(&self) -> Result<WriteTurn<'_>, StoreError> {
        let Some((gate, turn)) = &self.files else { return Ok(WriteTurn(None)) };
        if self.waited.get() {
            thread::sleep(YIELD);
        }
        let mut waited = Duration::ZERO;
        lock(gate, GATE_STEPS, &mut waited)?;
        let locked = lock(turn, TURN_STEPS, &mut waited);
        let _ = gate.unlock();
        self.waited.set(!waited.is_zero());
        locked.map(|()| WriteTurn(Some(turn)))
    }
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.0 {
            let _ = turn.unlock();
        }
    }
}

/// Polls for a lock, because waiting for a file lock cannot be given a timeout.
fn lock(file: &File, steps: (Duration, Duration), waited: &mut Duration) -> Result<(), StoreError> {
    let (mut step, least) = steps;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if *waited >= TIMEOUT => {
                return Err(StoreError::Busy("other processes are writing to the database file".into()));
            }
            Err(TryLockError::WouldBlock) => {
                thread::sleep(step);
                *waited += step;
                step = (step / 2).max(least);
            }
            Err(TryLockError::Error(source)) => {
                return Err(StoreError::Unavailable {
                    what: "the lock file beside the database cannot be locked".into(),
                    hint: "use a local disk: network file systems often lack locks",
                    permanent: true,
                    source: Some(Box::new(source)),
                });
            }
        }
    }
}
