//! Rows of tokens, read together: who asks while a row is being read shares the next reading with all who came meanwhile.
//!
//! Nobody is given what was read before it asked, so that a token that was revoked is no good from the next request on, on every node:
//! nothing is kept from one reading to the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Readings that are under way, with those who wait for the next one. There are no more of them than requests.
pub(crate) struct Readings<T> {
    lines: Arc<Lines<T>>,
}

type Lines<T> = Mutex<HashMap<String, Vec<oneshot::Sender<T>>>>;

impl<T> Default for Readings<T> {
    fn default() -> Readings<T> {
        Readings { lines: Arc::default() }
    }
}

impl<T: Clone + Send + 'static> Readings<T> {
    /// What a reading says that begins after this was asked; `None` where it failed.
    pub(crate) async fn read<F>(&self, key: &str, reading: impl Fn() -> F + Send + 'static) -> Option<T>
    where
        F: Future<Output = Option<T>> + Send,
    {
        let (tell, told) = oneshot::channel();
        let first = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            match lines.get_mut(key) {
                Some(line) => {
                    line.push(tell);
                    None
                }
                None => {
                    lines.insert(key.to_owned(), vec![tell]);
                    Some(Line { lines: self.lines.clone(), key: key.to_owned() })
                }
            }
        };
        if let Some(line) = first {
            // A task of its own: who asked first may leave before it is answered.
            tokio::spawn(async move {
                loop {
                    // Those whose requests are here already come along: a reading takes longer than to let them ask.
                    tokio::task::yield_now().await;
                    let Some(waiting) = line.next() else { break };
                    // Where it failed they are told nothing, and each finds out for itself.
                    if let Some(read) = reading().await {
                        waiting.into_iter().for_each(|tell| drop(tell.send(read.clone())));
                    }
                }
            });
        }
        told.await.ok()
    }
}

/// Those who wait for one row. It goes when nobody does, also after a panic.
struct Line<T> {
    lines: Arc<Lines<T>>,
    key: String,
}

impl<T> Line<T> {
    /// Those who came since the last reading began; `None` when nobody did, and the line is gone.
    fn next(&self) -> Option<Vec<oneshot::Sender<T>>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = lines.get_mut(&self.key).map(std::mem::take).filter(|waiting| !waiting.is_empty());
        if waiting.is_none() {
            lines.remove(&self.key);
        }
        waiting
    }
}

impl<T> Drop for Line<T> {
    fn drop(&mut self) {
        // After the last reading the line is gone, and may be somebody else's by now; only a panic leaves it behind.
        if std::thread::panicking() {
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A row that changes, and how often it was read. A reading sees the row as it is when it begins, and ends when it is let.
    struct Row {
        value: AtomicU32,
        read: AtomicU32,
        let_go: Semaphore,
    }

    impl Row {
        async fn look(self: Arc<Row>) -> Option<u32> {
            let seen = self.value.load(Ordering::SeqCst);
            self.read.fetch_add(1, Ordering::SeqCst);
            self.let_go.acquire().await.ok()?.forget();
            (seen != 13).then_some(seen)
        }
    }

    async fn turn() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn nobody_is_given_what_was_read_before_it_asked() {
        let row = Arc::new(Row { value: AtomicU32::new(1), read: AtomicU32::new(0), let_go: Semaphore::new(0) });
        let readings = Arc::new(Readings::default());
        let ask = || {
            let (readings, row) = (readings.clone(), row.clone());
            tokio::spawn(async move { readings.read("token", move || row.clone().look()).await })
        };
        let first = ask();
        turn().await;
        // It is revoked while the first reading is under way.
        row.value.store(2, Ordering::SeqCst);
        let later: Vec<_> = (0..100).map(|_| ask()).collect();
        turn().await;
        // Who leaves takes nobody along.
        first.abort();
        row.let_go.add_permits(2);
        for asked in later {
            assert_eq!(asked.await.unwrap(), Some(2));
        }
        assert_eq!(row.read.load(Ordering::SeqCst), 2, "a hundred share one reading");
        turn().await;
        assert!(readings.lines.lock().unwrap().is_empty(), "nothing is kept");
        // One that fails is told as such, and the next begins anew.
        row.value.store(13, Ordering::SeqCst);
        row.let_go.add_permits(1);
        assert_eq!(ask().await.unwrap(), None);
        row.value.store(3, Ordering::SeqCst);
        row.let_go.add_permits(1);
        assert_eq!(ask().await.unwrap(), Some(3));
    }

    #[tokio::test]
    async fn a_reading_that_panics_leaves_no_line_behind() {
        let readings: Readings<u32> = Readings::default();
        assert_eq!(readings.read("token", || async { panic!("a row that cannot be read") }).await, None);
        assert_eq!(readings.read("token", || async { Some(7) }).await, Some(7));
    }
}
