//! Segments of the archived journal, beside the blobs of a backend.

use std::io;
use std::ops::Range;

use async_trait::async_trait;
use bursar::ArchivePlace;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt};

use crate::backend::Backend;
use crate::object::JOURNAL;

/// The folder of a backend with the segments of a journal.
#[derive(Clone, Debug)]
pub struct JournalObjects {
    backend: Backend,
}

impl JournalObjects {
    /// Stores segments in a backend.
    pub fn new(backend: Backend) -> JournalObjects {
        JournalObjects { backend }
    }
}

fn path(name: &str) -> Path {
    Path::from(format!("{JOURNAL}/{name}"))
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::NotFound { .. } => io::Error::new(io::ErrorKind::NotFound, error),
        error => io::Error::other(error),
    }
}

#[async_trait]
impl ArchivePlace for JournalObjects {
    fn describe(&self) -> String {
        format!("{}, folder {JOURNAL}", self.backend.place())
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.backend.store.put(&path(name), bytes.into()).await.map(drop).map_err(io_error)
    }

    async fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        Ok(self.backend.store.get_range(&path(name), range).await.map_err(io_error)?.into())
    }

    async fn list(&self) -> io::Result<Vec<String>> {
        let objects: Vec<_> =
            self.backend.store.list(Some(&Path::from(JOURNAL))).try_collect().await.map_err(io_error)?;
        let mut names: Vec<String> =
            objects.iter().filter_map(|object| object.location.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }
}
