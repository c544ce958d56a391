//! Fair turns for several processes on one file.
//!
//! SQLite lets writers race for its lock: whoever wrote last asks first again, and others starve. Here a writer takes
//! the gate, then the turn, leaves the gate and writes. Whoever waits for the turn holds the gate, so that the one who
//! just wrote queues behind him.

use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::StoreError;

/// Two lock files beside the database. Locks end with their process, however it ends.
pub(super) struct Turnstile {
    files: Option<(File, File)>,
    /// The last time it had to wait: others are there.
    waited: Cell<bool>,
}

/// The turn, until dropped.
pub(super) struct Turn<'a>(Option<&'a File>);

/// How long a writer waits for others: SQLite's own wait of 500 ms and three more tries with 10, 50 and 250 ms between.
pub(super) const WAITS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];
/// SQLite's own wait.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

const PATIENCE: Duration = Duration::from_secs(5);
/// How long whoever just came to the gate sleeps, and half as long each time, down to the shortest: who has waited
/// longest asks most often, so that the one who just wrote does not slip in before him.
const GATE_STEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_micros(50));
/// Those who wait at the gate are asleep most of the time. So whoever wrote while others waited lets them ask first.
const COURTESY: Duration = Duration::from_micros(400);
/// Only one waits for the turn.
const TURN_STEPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(50));

impl Turnstile {
    /// For a database in a file.
    pub(super) fn beside(database: &Path) -> Result<Turnstile, StoreError> {
        let open = |suffix: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            let path = PathBuf::from(path);
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(|source| {
                StoreError::Unavailable {
                    what: format!("the lock file beside the database cannot be opened ({})", path.display()),
                    hint: "make the folder of the database writable",
                    source: Some(Box::new(source)),
                }
            })
        };
        Ok(Turnstile { files: Some((open("-gate")?, open("-turn")?)), waited: Cell::new(false) })
    }

    /// For a database nobody else can reach.
    pub(super) fn none() -> Turnstile {
        Turnstile { files: None, waited: Cell::new(false) }
    }

    /// Waits for the turn, a bounded time.
    pub(super) fn enter(&self) -> Result<Turn<'_>, StoreError> {
        let Some((gate, turn)) = &self.files else { return Ok(Turn(None)) };
        if self.waited.get() {
            thread::sleep(COURTESY);
        }
        let mut waited = Duration::ZERO;
        lock(gate, GATE_STEPS, &mut waited)?;
        let taken = lock(turn, TURN_STEPS, &mut waited);
        let _ = gate.unlock();
        self.waited.set(!waited.is_zero());
        taken.map(|()| Turn(Some(turn)))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.0 {
            let _ = turn.unlock();
        }
    }
}

/// Tries until it has the lock. Polling, as a wait for a file lock cannot be given an end.
fn lock(file: &File, steps: (Duration, Duration), waited: &mut Duration) -> Result<(), StoreError> {
    let (mut step, least) = steps;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if *waited >= PATIENCE => {
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
                    source: Some(Box::new(source)),
                });
            }
        }
    }
}
