//! Segments in a local directory.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use super::place::ArchivePlace;

/// What the names of unfinished files begin with.
const UNFINISHED: &str = ".unfinished-";

/// Distinguishes the unfinished files of one process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A directory with the segments of one database, which the first segment creates. Files and the directory are synced to disk.
#[derive(Clone, Debug)]
pub struct DirectoryPlace {
    path: PathBuf,
}

impl DirectoryPlace {
    /// The place at a path.
    pub fn new(path: impl AsRef<Path>) -> DirectoryPlace {
        DirectoryPlace { path: path.as_ref().to_owned() }
    }

    /// Runs a function that may block, on a thread for that.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || work(&path)).await.map_err(io::Error::other)?
    }
}

#[async_trait]
impl ArchivePlace for DirectoryPlace {
    fn describe(&self) -> String {
        format!("directory {}", self.path.display())
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let name = name.to_owned();
        self.run(move |directory| {
            create_directory(directory)?;
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let unfinished = directory.join(format!("{UNFINISHED}{}-{number}-{name}", std::process::id()));
            let written = write(&unfinished, &bytes).and_then(|()| fs::rename(&unfinished, directory.join(&name)));
            if written.is_err() {
                let _ = fs::remove_file(&unfinished);
            }
            written.and_then(|()| sync_directory(directory))
        })
        .await
    }

    async fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let name = name.to_owned();
        self.run(move |directory| {
            let mut file = File::open(directory.join(name))?;
            file.seek(SeekFrom::Start(range.start))?;
            let mut bytes = Vec::new();
            file.take(range.end.saturating_sub(range.start)).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
        .await
    }

    async fn list(&self) -> io::Result<Vec<String>> {
        self.run(|directory| {
            let entries = match fs::read_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let mut names = Vec::new();
            for entry in entries {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if !name.starts_with(UNFINISHED) {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        })
        .await
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates a directory with its parents, and makes their names durable.
fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty()).try_for_each(sync_directory)
}

/// Makes the names in a directory durable.
#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Differs from Unix in that the file system makes names durable by itself.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
