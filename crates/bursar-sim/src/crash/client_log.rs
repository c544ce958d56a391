//! The log that a client process writes outside of the database: each request before it is sent, and each response.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bursar::JobId;
use serde::{Deserialize, Serialize};

use super::client_request::{ClientRequest, Response};

/// A line of a client log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LogLine {
    /// The request is about to be sent.
    Sent { key: String, request: ClientRequest },
    /// The response arrived.
    Received { key: String, response: Response },
    /// A worker received this lease.
    Leased { job: JobId, fence: u64 },
    /// A worker received the acknowledgement that it ended the lease in this way.
    Ended { job: JobId, fence: u64, end: String },
    /// A worker was refused because the lease is lost; `billed` says whether its spend is charged.
    Lost { job: JobId, fence: u64, billed: bool },
    /// A process received the acknowledgement that it archived a segment of the journal, which ends at this position.
    Archived { last: u64 },
}

/// A log being written. Lines survive a kill of the process because the kernel has them.
pub(crate) struct ClientLog(Mutex<File>);

impl ClientLog {
    pub(crate) fn open(path: &Path) -> io::Result<ClientLog> {
        Ok(ClientLog(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Appends a line in one write.
    pub(crate) fn write(&self, line: &LogLine) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())
    }
}

/// Reads the complete lines of a log within its first `bytes_max` bytes.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<LogLine>> {
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
    fn an_incomplete_last_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert_eq!(read(&path, u64::MAX).unwrap(), []);
        let line = LogLine::Sent { key: "k".into(), request: ClientRequest::Post { scope: "s".into(), amount: 1 } };
        let log = ClientLog::open(&path).unwrap();
        log.write(&line).unwrap();
        let one = std::fs::metadata(&path).unwrap().len();
        log.write(&line).unwrap();
        assert_eq!(read(&path, u64::MAX).unwrap(), [line.clone(), line.clone()]);
        assert_eq!(read(&path, one + 5).unwrap(), [line]);
    }
}
