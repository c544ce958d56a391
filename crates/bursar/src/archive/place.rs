//! Where segments are stored.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

/// A place for the segments of a journal: files that are written once and never changed.
#[async_trait]
pub trait ArchivePlace: Send + Sync + fmt::Debug + 'static {
    /// Returns what it is, without secrets, such as `directory /var/lib/bursar/journal`.
    fn describe(&self) -> String;
    /// Stores a file durably under a name. If there is one of this name, it has the same bytes and may be replaced. A reader sees the
    /// whole file or none.
    async fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;
    /// Returns a part of a file, shorter if the file ends before. Fails with [`io::ErrorKind::NotFound`] if there is no such file.
    async fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;
    /// Lists the names of all files.
    async fn list(&self) -> io::Result<Vec<String>>;
}

/// A place in the memory of this process, for tests. Clones share their files.
#[derive(Clone, Debug, Default)]
pub struct MemoryPlace {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl MemoryPlace {
    /// Calls a function with the files, to look at them or to damage them.
    pub fn with_files<T>(&self, look: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        look(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl ArchivePlace for MemoryPlace {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.with_files(|files| files.insert(name.to_owned(), bytes));
        Ok(())
    }

    async fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.with_files(|files| {
            let file = files.get(name).ok_or(io::ErrorKind::NotFound)?;
            let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(file.len());
            let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
            Ok(file[start..end].to_vec())
        })
    }

    async fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.with_files(|files| files.keys().cloned().collect()))
    }
}
