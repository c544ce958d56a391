//! A manual clock that several processes share.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bursar_core::time::{Span, Time};
use bursar_store::Clock;

/// A manual clock that keeps its time in a small file, so that several processes can share it.
#[derive(Debug)]
pub struct FileClock(File);

impl FileClock {
    /// Opens the clock of this file; a new file starts at `now`.
    ///
    /// # Panics
    /// When the file cannot be used.
    pub fn open(path: &Path, now: Time) -> FileClock {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let clock = FileClock(file.expect("the file of a test clock can be opened"));
        if clock.0.metadata().expect("a file has metadata").len() == 0 {
            clock.set(now);
        }
        clock
    }

    /// Sets the time, forward or back, in all processes.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set(&self, now: Time) {
        self.0.write_all_at(&now.micros().to_le_bytes(), 0).expect("a test clock can be set");
    }

    /// Advances the time. Only one process may do so at a time.
    pub fn advance(&self, span: Span) {
        self.set(self.now().after(span));
    }
}

impl Clock for FileClock {
    fn now(&self) -> Time {
        let mut bytes = [0u8; 8];
        self.0.read_exact_at(&mut bytes, 0).expect("a test clock can be read");
        Time::from_micros(i64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_on_one_file_show_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let one = FileClock::open(&path, Time::from_micros(5));
        let other = FileClock::open(&path, Time::from_micros(99));
        assert_eq!(other.now(), Time::from_micros(5));
        one.advance(Span::from_micros(7));
        assert_eq!(other.now(), Time::from_micros(12));
        other.set(Time::from_micros(-1));
        assert_eq!(one.now(), Time::from_micros(-1));
    }
}
