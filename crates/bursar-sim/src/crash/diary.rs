//! What a caller writes down outside the database: before it asks, and when it is told.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bursar::JobId;
use serde::{Deserialize, Serialize};

use super::act::{Act, Told};

/// A line of a diary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// This is about to be asked.
    Asks { key: String, act: Act },
    /// This was answered.
    Told { key: String, told: Told },
    /// A worker was told that it has this lease.
    Leased { job: JobId, fence: u64 },
    /// It was told that it has ended the lease in this way.
    Ended { job: JobId, fence: u64, end: String },
    /// It was told that the lease is lost, and whether what it spent is charged.
    Lost { job: JobId, fence: u64, billed: bool },
}

/// A diary that is being written. What is written survives the end of the process, as the system has it by then.
pub(crate) struct Diary(Mutex<File>);

impl Diary {
    pub(crate) fn open(path: &Path) -> io::Result<Diary> {
        Ok(Diary(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Writes a line, all at once.
    pub(crate) fn write(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())
    }
}

/// Reads a diary as far as it was written; a last line without its end was not.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<Line>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let text = &text[..text.len().min(usize::try_from(bytes_max).unwrap_or(usize::MAX))];
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(io::Error::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_was_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("diary");
        assert_eq!(read(&path, u64::MAX).unwrap(), []);
        let line = Line::Asks { key: "k".into(), act: Act::Post { scope: "s".into(), amount: 1 } };
        let diary = Diary::open(&path).unwrap();
        diary.write(&line).unwrap();
        let one = std::fs::metadata(&path).unwrap().len();
        diary.write(&line).unwrap();
        assert_eq!(read(&path, u64::MAX).unwrap(), [line.clone(), line.clone()]);
        assert_eq!(read(&path, one + 5).unwrap(), [line]);
    }
}
