//! The file of a SQLite database, and its folder.

use std::path::Path;

use bursar_wire::problem::{Kind, Problem, shell_quoted};

use crate::config::DATABASE_DEFAULT;
pub(crate) use crate::config::sqlite_path;

/// Creates the folder of the default database. The folder of any other database must exist: a mistyped path must not
/// create one.
pub(crate) fn prepare_folder(url: &str) -> Result<(), Problem> {
    match sqlite_path(url).and_then(Path::parent) {
        Some(folder) if url == DATABASE_DEFAULT => create_folder(folder),
        _ => require_folder(url),
    }
}

/// Fails if the folder of a SQLite file does not exist.
pub(crate) fn require_folder(url: &str) -> Result<(), Problem> {
    let Some(folder) = sqlite_path(url).and_then(Path::parent) else { return Ok(()) };
    if folder.as_os_str().is_empty() || folder.exists() {
        return Ok(());
    }
    let (shown, typed) = (folder.display(), shell_quoted(&folder.display().to_string()));
    let detail = format!("the folder {shown} of the database {url} does not exist; nothing was changed");
    Err(Problem::new(
        Kind::Unusable,
        format!("{detail}; correct the path, or create the folder with `mkdir -p {typed}`"),
    ))
}

/// Fails if a SQLite file does not exist, with the command that creates it.
pub(crate) fn require_file(url: &str) -> Result<(), Problem> {
    let Some(path) = sqlite_path(url).filter(|path| !path.exists()) else { return Ok(()) };
    let missing = format!("the database file {} does not exist", path.display());
    let detail = match url {
        DATABASE_DEFAULT => {
            format!(
                "{missing}; create it with `bursar migrate`, or run `bursar dev` for a demo database in ./bursar-data"
            )
        }
        url => {
            require_folder(url)?;
            format!("{missing}; correct the path, or create it with `bursar --database {} migrate`", shell_quoted(url))
        }
    };
    Err(Problem::new(Kind::Unusable, detail))
}

/// Creates a folder and its parents.
pub(crate) fn create_folder(folder: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let detail = format!("the folder {} cannot be created ({error}); choose another one", folder.display());
        Problem::new(Kind::Unusable, detail)
    })
}
