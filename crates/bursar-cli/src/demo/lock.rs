//! One `bursar dev` per folder: two would run two fleets on one database. The lock ends with its process, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use bursar_wire::problem::{Kind, Problem};

/// The file in the folder that is locked. It names the address and the process that serves the folder.
const FILE: &str = "dev.lock";

/// The right to serve a folder, until dropped.
pub(crate) struct FolderLock(File);

impl FolderLock {
    /// Locks a folder. Fails if another `bursar dev` serves it, and says where.
    pub(crate) fn take(folder: &Path) -> Result<FolderLock, Problem> {
        let path = folder.join(FILE);
        let unusable = |error: std::io::Error| {
            let detail = format!("{} cannot be locked ({error}); nothing was started", path.display());
            Problem::new(Kind::Unusable, format!("{detail}; choose another folder with --data"))
        };
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {
                // What an earlier process has written is not true any more.
                file.set_len(0).map_err(unusable)?;
                Ok(FolderLock(file))
            }
            Err(TryLockError::WouldBlock) => Err(already_served(folder, &path)),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    /// Writes where this process serves the folder, for those that find it locked.
    pub(crate) fn publish(&self, address: SocketAddr) {
        // Without it, they only learn that the folder is served.
        let _ = write!(&self.0, "http://{address} (process {})", std::process::id());
    }
}

fn already_served(folder: &Path, lock: &Path) -> Problem {
    let served_at = std::fs::read_to_string(lock).unwrap_or_default();
    let place = match served_at.trim() {
        "" => "and is just starting".to_owned(),
        place => format!("at {place}"),
    };
    let detail = format!("`bursar dev` already serves {} {place}; nothing was started", folder.display());
    let todo =
        "use the link and the token that it has printed, stop it with Ctrl-C, or choose another folder with --data";
    Problem::new(Kind::Conflict, format!("{detail}; {todo}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_served_once_and_free_again_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::take(folder.path()).unwrap();
        let second = || FolderLock::take(folder.path()).err().map(|problem| (problem.kind, problem.detail));
        assert!(second().unwrap().1.contains("and is just starting"));
        lock.publish("127.0.0.1:7441".parse().unwrap());
        let (kind, detail) = second().unwrap();
        let place = format!("at http://127.0.0.1:7441 (process {})", std::process::id());
        assert!(kind == Kind::Conflict && detail.contains(&place), "{detail}");
        drop(lock);
        assert_eq!(second(), None);
        assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), "", "the old address is gone");
    }
}
