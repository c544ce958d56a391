//! Hears that somebody writes to the file, in whatever process, from the operating system: whoever waits for that costs nothing
//! until it happens. Where the system has no way for it, the bell is looked at instead.

use std::path::Path;
use std::sync::Arc;

use crate::hint::Hints;

/// A way to hear of writes to the write-ahead log of a database, where there is one.
pub(super) fn of(database: &Path) -> Option<Arc<dyn Hints>> {
    #[cfg(target_os = "linux")]
    return Some(Arc::new(inotify::Stirs::of(database)));
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
    use crate::hint::{Ear, Hint, Hints};

    /// An event of a file is so long: which watch, what, a number for pairs, and the length of a name that it does not have.
    const EVENT: usize = 16;

    pub(super) struct Stirs {
        log: PathBuf,
    }

    impl Stirs {
        pub(super) fn of(database: &Path) -> Stirs {
            // The log stands beside the file itself, wherever a link to it stands.
            let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
            let mut log = database.into_os_string();
            log.push("-wal");
            Stirs { log: log.into() }
        }

        fn watch(&self) -> io::Result<Receiver> {
            let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            add_watch(&watch, &self.log, WatchFlags::MODIFY | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF)?;
            // It is read like a pipe: bytes come, or it would block.
            Receiver::from_owned_fd_unchecked(watch)
        }
    }

    #[async_trait]
    impl Hints for Stirs {
        /// Writing is telling.
        fn is_rung(&self) -> bool {
            false
        }

        async fn ring(&self, _: &Hint) -> Result<(), StoreError> {
            Ok(())
        }

        async fn listen(&self) -> Result<Box<dyn Ear>, StoreError> {
            let watch = self.watch().map_err(lost)?;
            Ok(Box::new(LogEar { watch }))
        }
    }

    struct LogEar {
        watch: Receiver,
    }

    #[async_trait]
    impl Ear for LogEar {
        async fn next(&mut self) -> Result<Hint, StoreError> {
            let mut events = [0; 64 * EVENT];
            loop {
                self.watch.readable().await.map_err(lost)?;
                match self.watch.try_read(&mut events) {
                    Ok(length) if events[..length].chunks_exact(EVENT).any(is_gone) => {
                        return Err(lost(io::Error::other("the log was put elsewhere")));
                    }
                    Ok(_) => return Ok(Hint::of_a_write()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(lost(error)),
                }
            }
        }

        async fn close(self: Box<Self>) {}
    }

    /// Whether an event says that there is nothing more to be heard.
    fn is_gone(event: &[u8]) -> bool {
        let what = u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        ReadFlags::from_bits_retain(what).intersects(gone)
    }

    fn lost(error: io::Error) -> StoreError {
        StoreError::Unavailable {
            what: format!("writes of other processes are not heard: {error}"),
            hint: "they are looked for instead",
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
    use crate::hint::Hint;

    #[tokio::test]
    async fn the_log_of_a_linked_database_stands_beside_the_file_itself() {
        let folder = tempfile::tempdir().unwrap();
        let (database, link) = (folder.path().join("b.db"), folder.path().join("link.db"));
        std::fs::File::create(&database).unwrap();
        std::fs::File::create(folder.path().join("b.db-wal")).unwrap();
        std::os::unix::fs::symlink(&database, &link).unwrap();
        assert!(of(&link).unwrap().listen().await.is_ok());
    }

    #[tokio::test]
    async fn a_write_is_heard_and_the_end_of_the_log_too() {
        let folder = tempfile::tempdir().unwrap();
        let (database, log) = (folder.path().join("b.db"), folder.path().join("b.db-wal"));
        let hints = of(&database).unwrap();
        assert!(hints.listen().await.is_err(), "there is no log yet");

        let mut file = std::fs::File::create(&log).unwrap();
        let mut ear = hints.listen().await.unwrap();
        assert!(ear.next().now_or_never().is_none(), "nobody has written");
        let patience = Duration::from_secs(60);
        for _ in 0..3 {
            file.write_all(b"a page").unwrap();
            assert_eq!(tokio::time::timeout(patience, ear.next()).await.unwrap().unwrap(), Hint::of_a_write());
            assert!(ear.next().now_or_never().is_none(), "it is told once");
        }
        drop(file);
        std::fs::remove_file(&log).unwrap();
        assert!(tokio::time::timeout(patience, ear.next()).await.unwrap().is_err(), "whoever hears nothing is to know");
    }
}
