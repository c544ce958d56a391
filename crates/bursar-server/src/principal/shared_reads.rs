//! Shared reads of token rows: requests with the same token that arrive during a read share the next one.
//!
//! A request only gets a result whose read began after the request arrived, and no result is cached. A revoked token therefore
//! fails from the next request on, on every node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// The reads in progress, by key, with the requests that wait for the next read of each key.
pub(crate) struct SharedReads<T> {
    waiters: Arc<WaiterMap<T>>,
}

type WaiterMap<T> = Mutex<HashMap<String, Vec<oneshot::Sender<T>>>>;

impl<T> Default for SharedReads<T> {
    fn default() -> SharedReads<T> {
        SharedReads { waiters: Arc::default() }
    }
}

impl<T: Clone + Send + 'static> SharedReads<T> {
    /// Returns the result of a read that begins after this call; `None` if the read failed.
    pub(crate) async fn read<F>(&self, key: &str, read: impl Fn() -> F + Send + 'static) -> Option<T>
    where
        F: Future<Output = Option<T>> + Send,
    {
        let (sender, receiver) = oneshot::channel();
        let new_loop = {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            match waiters.get_mut(key) {
                Some(senders) => {
                    senders.push(sender);
                    None
                }
                None => {
                    waiters.insert(key.to_owned(), vec![sender]);
                    Some(ReadLoop { waiters: self.waiters.clone(), key: key.to_owned() })
                }
            }
        };
        if let Some(read_loop) = new_loop {
            // A separate task, because the first request may be cancelled while others wait.
            tokio::spawn(async move {
                loop {
                    // Lets requests that have already arrived join this read.
                    tokio::task::yield_now().await;
                    let Some(senders) = read_loop.take_waiters() else { break };
                    // If the read fails the senders are dropped, and each request reads for itself.
                    if let Some(result) = read().await {
                        senders.into_iter().for_each(|sender| drop(sender.send(result.clone())));
                    }
                }
            });
        }
        receiver.await.ok()
    }
}

/// The task that reads one key as long as requests wait for it.
struct ReadLoop<T> {
    waiters: Arc<WaiterMap<T>>,
    key: String,
}

impl<T> ReadLoop<T> {
    /// Returns the requests that arrived since the last read began; if there are none, removes the key and returns `None`.
    fn take_waiters(&self) -> Option<Vec<oneshot::Sender<T>>> {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let senders = waiters.get_mut(&self.key).map(std::mem::take).filter(|senders| !senders.is_empty());
        if senders.is_none() {
            waiters.remove(&self.key);
        }
        senders
    }
}

impl<T> Drop for ReadLoop<T> {
    fn drop(&mut self) {
        // After a regular end the key is already removed, and may belong to a newer loop. Only a panic leaves it behind.
        if std::thread::panicking() {
            self.waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A row that changes, and how often it was read. A read returns the value at its beginning, and ends when the test permits.
    struct Row {
        value: AtomicU32,
        reads: AtomicU32,
        finish: Semaphore,
    }

    /// The value for which a read fails.
    const FAILING: u32 = 13;

    impl Row {
        async fn read(self: Arc<Row>) -> Option<u32> {
            let seen = self.value.load(Ordering::SeqCst);
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.finish.acquire().await.ok()?.forget();
            (seen != FAILING).then_some(seen)
        }
    }

    /// Lets the other tasks run.
    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_result_is_never_older_than_its_request() {
        let row = Arc::new(Row { value: AtomicU32::new(1), reads: AtomicU32::new(0), finish: Semaphore::new(0) });
        let reads = Arc::new(SharedReads::default());
        let request = || {
            let (reads, row) = (reads.clone(), row.clone());
            tokio::spawn(async move { reads.read("token", move || row.clone().read()).await })
        };
        let first = request();
        settle().await;
        // The row changes while the first read is in progress.
        row.value.store(2, Ordering::SeqCst);
        let later: Vec<_> = (0..100).map(|_| request()).collect();
        settle().await;
        // A cancelled request does not affect the others.
        first.abort();
        row.finish.add_permits(2);
        for request in later {
            assert_eq!(request.await.unwrap(), Some(2));
        }
        assert_eq!(row.reads.load(Ordering::SeqCst), 2, "a hundred requests share one read");
        settle().await;
        assert!(reads.waiters.lock().unwrap().is_empty(), "the key is removed");
        // A failed read returns nothing, and the next request reads again.
        row.value.store(FAILING, Ordering::SeqCst);
        row.finish.add_permits(1);
        assert_eq!(request().await.unwrap(), None);
        row.value.store(3, Ordering::SeqCst);
        row.finish.add_permits(1);
        assert_eq!(request().await.unwrap(), Some(3));
    }

    #[tokio::test]
    async fn a_read_that_panics_removes_its_key() {
        let reads: SharedReads<u32> = SharedReads::default();
        assert_eq!(reads.read("token", || async { panic!("the read fails") }).await, None);
        assert_eq!(reads.read("token", || async { Some(7) }).await, Some(7));
    }
}
