//! How the processes of a run open its database.

use std::path::PathBuf;
use std::time::Duration;

use bursar::{ArchiveOptions, Bursar, DirectoryPlace, Options, PostgresOptions, Rules, Span};
use serde::{Deserialize, Serialize};

/// How long ended holds, expired grants and ended jobs are kept: less than a round takes.
pub(crate) const KEPT: Span = Span::from_millis(300);
/// How long idempotency keys are kept if the journal is archived, because the rows that answer them stay in the table.
const KEYS_KEPT: Span = Span::from_secs(3);
/// How long a process goes on with a request, if keys are deleted: less than they are kept.
const PATIENCE: Duration = Duration::from_secs(1);
/// The age from which rows of the journal are archived.
const ARCHIVED_AFTER: Duration = Duration::from_millis(100);
/// How often keys and rows that were kept for long enough are deleted.
const REMOVED_EVERY: Duration = Duration::from_millis(40);

/// What runs besides requests and workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// Ended holds, expired grants and ended jobs are deleted after a fraction of a second.
    pub retention: bool,
    /// Rows of the journal are archived after a fraction of a second.
    pub archive: bool,
    /// Processes reach PostgreSQL through PgBouncer.
    pub pooler: bool,
}

/// The database of a run, and how every process opens it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) url: String,
    /// The URL without the pooler, if there is one.
    pub(crate) direct_url: Option<String>,
    pub(crate) archive: Option<PathBuf>,
    pub(crate) retention: bool,
}

impl Opening {
    /// Returns how to open a plain database.
    pub(crate) fn plain(url: String) -> Opening {
        Opening { url, direct_url: None, archive: None, retention: false }
    }

    /// Returns the options of a process that maintains the database.
    pub(crate) fn options(&self) -> Options {
        let mut options = Bursar::options(&self.url).rules(self.rules(Span::ZERO));
        if let Some(archive) = self.archive() {
            // A request whose outcome is unknown is sent again for this long.
            options = options.archive(archive).patience(PATIENCE);
        }
        if self.retention || self.archive.is_some() {
            options = options.upkeep(Some(REMOVED_EVERY));
        }
        options.postgres(self.postgres())
    }

    /// Returns the options for PostgreSQL.
    pub(crate) fn postgres(&self) -> PostgresOptions {
        let pooled = self.direct_url.is_some();
        PostgresOptions { pooled, direct_url: self.direct_url.clone(), ..PostgresOptions::default() }
    }

    /// Returns the archive.
    pub(crate) fn archive(&self) -> Option<ArchiveOptions> {
        let folder = self.archive.as_ref()?;
        Some(ArchiveOptions::at(DirectoryPlace::new(folder)).after(ARCHIVED_AFTER))
    }

    /// Returns how long rows are kept, if any are deleted.
    pub(crate) fn kept(&self) -> Option<Span> {
        self.retention.then_some(KEPT)
    }

    /// Returns how long idempotency keys are kept, if any are deleted.
    pub(crate) fn keys_kept(&self) -> Option<Span> {
        self.archive.is_some().then_some(KEYS_KEPT)
    }

    /// Returns the rules for a clock that is `ahead` of the one that ended the rows.
    pub(crate) fn rules(&self, ahead: Span) -> Rules {
        let mut rules = Rules::default();
        if let Some(kept) = self.kept() {
            let kept = Span::from_micros(kept.micros() + ahead.micros());
            (rules.holds_kept, rules.grants_kept) = (kept, kept);
        }
        rules.key_kept = self.keys_kept().unwrap_or(rules.key_kept);
        rules
    }
}
