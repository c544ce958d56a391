//! Copies of whole databases, and the way back.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bursar_core::decide::Rules;
use bursar_store::postgres::is_empty;
use bursar_store::sqlite::{backup, restore};
use bursar_store::{Copied, CopyOptions, CopyProgress, Setup};

use crate::api::instance::Bursar;
use crate::error::Error;
use crate::ids::RandomIds;

impl Bursar {
    /// Copies a SQLite database, which may be in use by any number of processes, to a file. Everything that was answered before is
    /// in the copy; who writes meanwhile waits for nothing. `progress` is told bytes that are copied, of how many.
    pub async fn back_up(
        database: impl AsRef<Path>,
        to: impl AsRef<Path>,
        how: CopyOptions,
        progress: CopyProgress,
    ) -> Result<Copied, Error> {
        Ok(backup(database.as_ref(), to.as_ref(), how, setup(), progress).await?)
    }

    /// Makes a SQLite database from such a copy. What is wrong with the copy is found before anything is changed, and a database
    /// that somebody uses is not replaced.
    pub async fn restore(
        copy: impl AsRef<Path>,
        database: impl AsRef<Path>,
        how: CopyOptions,
        progress: CopyProgress,
    ) -> Result<Copied, Error> {
        Ok(restore(copy.as_ref(), database.as_ref(), how, setup(), progress).await?)
    }

    /// Whether a database of PostgreSQL has no table at all, so that a dump can be restored into it.
    pub async fn is_empty(url: &str) -> Result<bool, Error> {
        Ok(is_empty(url).await?)
    }
}

fn setup() -> Setup {
    let ids = Arc::new(Mutex::new(RandomIds::default()));
    Setup { rules: Rules::default(), clock: None, ids, migrate: false }
}
