//! Where the journal is archived, from the settings.

use bursar::{ArchiveOptions, DirectoryPlace};
use bursar_blobs::JournalObjects;
use bursar_wire::problem::Problem;

use super::{Config, JournalArchive};

/// The value of `journal.archive` that stands for the storage of blobs.
const BLOBS: &str = "blobs";

impl Default for JournalArchive {
    fn default() -> JournalArchive {
        JournalArchive { archive: None, archived_after: ArchiveOptions::AFTER }
    }
}

impl Config {
    /// Returns the archive of a database's journal. Nothing is created or contacted yet.
    pub(crate) fn journal_archive(&self, url: &str) -> Result<Option<ArchiveOptions>, Problem> {
        let options = match self.journal.archive.as_deref() {
            None | Some("") => return Ok(None),
            Some(BLOBS) => {
                let storage = self.blobs.open(url)?;
                ArchiveOptions::at(JournalObjects::new(storage.backends().primary().clone()))
            }
            Some(directory) => ArchiveOptions::at(DirectoryPlace::new(directory)),
        };
        Ok(Some(options.after(self.journal.archived_after)))
    }
}
