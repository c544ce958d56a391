//! The file of a SQLite database, and its folder.

use std::path::Path;

use bursar_wire::problem::{Kind, Problem};

use crate::config::DATABASE_DEFAULT;

/// Returns the file of a SQLite URL; `None` for PostgreSQL and for a database in memory.
pub(crate) fn sqlite_path(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"))?;
    (!path.is_empty() && path != ":memory:").then(|| Path::new(path))
}

/// Creates the folder of the default database. The folder of any other database must exist: a mistyped path must not
/// create one.
pub(crate) fn create_default_folder(url: &str) -> Result<(), Problem> {
    match sqlite_path(url).and_then(Path::parent) {
        Some(folder) if url == DATABASE_DEFAULT => create_folder(folder),
        _ => Ok(()),
    }
}

/// Creates a folder and its parents.
pub(crate) fn create_folder(folder: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let detail = format!("the folder {} cannot be created ({error}); choose another one", folder.display());
        Problem::new(Kind::Unusable, detail)
    })
}
