//! Backup and restore of SQLite databases.

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
    /// Copies a SQLite database to a file. The database may be in use by any number of processes, and writers are not
    /// blocked. The copy contains every commit that finished before the call. The file appears at `to` only when it is
    /// complete and synced to disk. With [`CopyOptions::verify`], the copy is opened and its balances are verified before
    /// that.
    ///
    /// `progress` is called with the number of bytes copied so far and the total. Fails if `to` exists, unless
    /// [`CopyOptions::replace`] is set.
    pub async fn back_up(
        database: impl AsRef<Path>,
        to: impl AsRef<Path>,
        how: CopyOptions,
        progress: CopyProgress,
    ) -> Result<Copied, Error> {
        Ok(backup(database.as_ref(), to.as_ref(), how, setup(), progress).await?)
    }

    /// Restores a SQLite database from a copy made by [`Bursar::back_up`]. The copy is only read, and is checked before
    /// anything is changed. Fails if `database` exists, unless [`CopyOptions::replace`] is set, and always if `database` is
    /// in use.
    pub async fn restore(
        copy: impl AsRef<Path>,
        database: impl AsRef<Path>,
        how: CopyOptions,
        progress: CopyProgress,
    ) -> Result<Copied, Error> {
        Ok(restore(copy.as_ref(), database.as_ref(), how, setup(), progress).await?)
    }

    /// Returns whether a PostgreSQL database has no tables, so that a dump can be restored into it.
    pub async fn is_empty(url: &str) -> Result<bool, Error> {
        Ok(is_empty(url).await?)
    }
}

fn setup() -> Setup {
    let ids = Arc::new(Mutex::new(RandomIds::default()));
    Setup { rules: Rules::default(), clock: None, ids, migrate: false }
}
