//! Files of a local directory that a crash left half-written.
//!
//! An object is written to a file whose name ends in `#` and a number, and renamed when it is complete. Such a file is no object, so the
//! backend does not list it: it is looked for here.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::time::UNIX_EPOCH;

use object_store::path::Path;

use crate::backend::Backend;
use crate::error::BackendError;

/// A half-written file.
pub(crate) struct Unfinished {
    /// The object that it would have become.
    pub(crate) object: Path,
    /// Its name below the directory.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) bytes: u64,
    /// When it was last written, in microseconds since 1970.
    pub(crate) modified: i64,
}

impl Backend {
    /// Finds the half-written files of a folder. A bucket has none: it discards incomplete uploads by its own rules.
    pub(crate) async fn unfinished(&self, folder: &'static str) -> Result<Vec<Unfinished>, BackendError> {
        let Some(directory) = self.directory.clone() else { return Ok(Vec::new()) };
        let walk = move || {
            let mut found = Vec::new();
            walk(&directory, folder, &mut found).map(|()| found)
        };
        self.blocking(walk).await
    }

    /// Deletes a half-written file.
    pub(crate) async fn delete_unfinished(&self, unfinished: &Unfinished) -> Result<(), BackendError> {
        let file = unfinished.file.clone();
        self.blocking(move || ignore_missing(std::fs::remove_file(file))).await
    }

    /// Deletes what was half-written of one object. The numbers of such files begin at 1.
    pub(crate) async fn delete_unfinished_of(&self, object: &Path) -> Result<(), BackendError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let object = directory.join(object.as_ref());
        let remove = move || {
            for number in 1_u64.. {
                let mut name = object.clone().into_os_string();
                name.push(format!("#{number}"));
                match std::fs::remove_file(name) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        self.blocking(remove).await
    }

    /// Deletes a folder of a local directory with everything in it.
    pub(crate) async fn delete_folder(&self, folder: &Path) -> Result<(), BackendError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let folder = directory.join(folder.as_ref());
        self.blocking(move || ignore_missing(std::fs::remove_dir_all(folder))).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, BackendError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            self.failed(object_store::Error::Generic { store: "local", source })
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|error| failed(error.into())),
            Err(error) => Err(failed(error.into())),
        }
    }
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Adds the half-written files below `name`. What disappears meanwhile is left out.
fn walk(directory: &FilePath, name: &str, found: &mut Vec<Unfinished>) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(part) = entry.file_name().into_string() else { continue };
        let name = format!("{name}/{part}");
        let metadata = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_dir() {
            walk(directory, &name, found)?;
            continue;
        }
        let Some((object, number)) = name.rsplit_once('#') else { continue };
        if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
            continue;
        }
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified = i64::try_from(modified.as_micros()).unwrap_or(i64::MAX);
        let (object, bytes) = (Path::from(object), metadata.len());
        found.push(Unfinished { object, file: entry.path(), bytes, modified, name });
    }
    Ok(())
}
