//! Notifications between processes by a watch on the write-ahead log: every commit writes to it, and the operating system reports the
//! write. A write is reported before its commit can be read, so a listener must poll for a short time after it. On systems without such a
//! watch, processes only poll.

use std::path::Path;
use std::sync::Arc;

use crate::wakeup::Notifier;

/// Returns a watch on the write-ahead log of a database, if the operating system supports it.
pub(super) fn notifier(database: &Path) -> Option<Arc<dyn Notifier>> {
    #[cfg(target_os = "linux")]
    return Some(Arc::new(inotify::WalWatch::of(database)));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = database;
        None
    }
}

#[cfg(target_os = "linux")]
mod inotify {
    use std::io;
    use std::path::{Path, PathBuf};

    use async_trait::async_trait;
    use rustix::fs::inotify::{CreateFlags, ReadFlags, WatchFlags, add_watch, init};
    use tokio::net::unix::pipe::Receiver;

    use crate::error::StoreError;
    use crate::wakeup::{Listener, Notification, Notifier};

    /// The size of an event on a file: watch, mask, cookie, and the length of the name, which is zero.
    const EVENT_BYTES: usize = 16;

    pub(super) struct WalWatch {
        log: PathBuf,
    }

    impl WalWatch {
        pub(super) fn of(database: &Path) -> WalWatch {
            // For a symbolic link, SQLite keeps the log beside the link's target.
            let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
            let mut log = database.into_os_string();
            log.push("-wal");
            WalWatch { log: log.into() }
        }

        fn watch(&self) -> io::Result<Receiver> {
            let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            add_watch(&watch, &self.log, WatchFlags::MODIFY | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF)?;
            // An inotify descriptor is read like a pipe.
            Receiver::from_owned_fd_unchecked(watch)
        }
    }

    #[async_trait]
    impl Notifier for WalWatch {
        /// A write to the log is the notification.
        fn needs_sending(&self) -> bool {
            false
        }

        async fn send(&self, _: &Notification) -> Result<(), StoreError> {
            Ok(())
        }

        async fn listen(&self) -> Result<Box<dyn Listener>, StoreError> {
            let watch = self.watch().map_err(watch_error)?;
            Ok(Box::new(WalListener { watch }))
        }
    }

    struct WalListener {
        watch: Receiver,
    }

    #[async_trait]
    impl Listener for WalListener {
        async fn next(&mut self) -> Result<Notification, StoreError> {
            let mut events = [0; 64 * EVENT_BYTES];
            loop {
                self.watch.readable().await.map_err(watch_error)?;
                match self.watch.try_read(&mut events) {
                    Ok(length) if events[..length].chunks_exact(EVENT_BYTES).any(is_end) => {
                        return Err(watch_error(io::Error::other("the write-ahead log was moved or deleted")));
                    }
                    Ok(_) => return Ok(Notification::of_a_write()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(watch_error(error)),
                }
            }
        }

        async fn close(self: Box<Self>) {}
    }

    /// Returns whether an event is the last one, because the log was moved or deleted.
    fn is_end(event: &[u8]) -> bool {
        let mask = u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
        let ends = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        ReadFlags::from_bits_retain(mask).intersects(ends)
    }

    fn watch_error(error: io::Error) -> StoreError {
        StoreError::Unavailable {
            what: format!("the write-ahead log cannot be watched: {error}"),
            hint: "Bursar polls for commits of other processes instead",
            permanent: false,
            source: Some(Box::new(error)),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::wakeup::Notification;

    #[tokio::test]
    async fn the_log_of_a_linked_database_is_watched() {
        let folder = tempfile::tempdir().unwrap();
        let (database, link) = (folder.path().join("b.db"), folder.path().join("link.db"));
        std::fs::File::create(&database).unwrap();
        std::fs::File::create(folder.path().join("b.db-wal")).unwrap();
        std::os::unix::fs::symlink(&database, &link).unwrap();
        assert!(notifier(&link).unwrap().listen().await.is_ok());
    }

    #[tokio::test]
    async fn a_write_and_the_end_of_the_log_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (database, log) = (folder.path().join("b.db"), folder.path().join("b.db-wal"));
        let notifier = notifier(&database).unwrap();
        assert!(notifier.listen().await.is_err(), "there is no log yet");

        let mut file = std::fs::File::create(&log).unwrap();
        let mut listener = notifier.listen().await.unwrap();
        assert!(listener.next().now_or_never().is_none(), "nothing was written");
        let timeout = Duration::from_secs(60);
        for _ in 0..3 {
            file.write_all(b"a page").unwrap();
            assert_eq!(
                tokio::time::timeout(timeout, listener.next()).await.unwrap().unwrap(),
                Notification::of_a_write()
            );
            assert!(listener.next().now_or_never().is_none(), "a write is reported once");
        }
        drop(file);
        std::fs::remove_file(&log).unwrap();
        assert!(
            tokio::time::timeout(timeout, listener.next()).await.unwrap().is_err(),
            "a deleted log ends the listener"
        );
    }
}
