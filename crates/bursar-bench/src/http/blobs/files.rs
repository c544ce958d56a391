//! Plain files: bytes copied with their SHA-256, and synced like a blob.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::error::BenchError;
use crate::load::{Round, closed_loop};

/// Bytes read, hashed and written at a time.
const CHUNK: usize = 1 << 20;

/// A folder of files.
pub(super) struct Files {
    folder: Arc<PathBuf>,
    callers: usize,
}

const SOURCE: &str = "source";

impl Files {
    pub(super) fn create(folder: PathBuf, callers: usize) -> Result<Files, BenchError> {
        fs::create_dir(&folder)?;
        Ok(Files { folder: Arc::new(folder), callers })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file to serve.
    pub(super) fn write(&self, number: usize, bytes: &[u8]) -> Result<(), BenchError> {
        Ok(fs::write(self.folder.join(number.to_string()), bytes)?)
    }

    /// Writes the file that is copied.
    pub(super) fn with_source(self, bytes: &[u8]) -> Result<Files, BenchError> {
        fs::write(self.folder.join(SOURCE), bytes)?;
        Ok(self)
    }

    /// Runs a round of callers that copy, and deletes the copies.
    pub(super) async fn round(&self, time: Duration) -> Result<Round, BenchError> {
        let folder = self.folder.clone();
        let round = closed_loop(self.callers, time, usize::MAX, move |number| {
            let folder = folder.clone();
            async move { tokio::task::spawn_blocking(move || copy(&folder, number)).await? }
        })
        .await?;
        for entry in fs::read_dir(&*self.folder)? {
            let path = entry?.path();
            if path.extension().is_some() {
                fs::remove_file(path)?;
            }
        }
        Ok(round)
    }
}

/// Copies the source: the file is complete, hashed and durable under its name, or not there.
fn copy(folder: &Path, number: usize) -> Result<(), BenchError> {
    let (mut source, mut digest) = (File::open(folder.join(SOURCE))?, Sha256::new());
    let (partial, whole) = (folder.join(format!("{number}.partial")), folder.join(format!("{number}.copy")));
    let mut target = File::create(&partial)?;
    let mut chunk = vec![0; CHUNK.min(usize::try_from(source.metadata()?.len()).unwrap_or(CHUNK))];
    loop {
        let read = source.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        digest.update(&chunk[..read]);
        target.write_all(&chunk[..read])?;
    }
    // The digest is not compared, but must be computed.
    std::hint::black_box(digest.finalize());
    target.sync_all()?;
    fs::rename(partial, whole)?;
    Ok(File::open(folder)?.sync_all()?)
}
