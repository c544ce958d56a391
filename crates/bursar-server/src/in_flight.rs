//! Bytes in flight: what requests make the server keep in memory, counted for the whole server and for each principal.
//!
//! Bodies are counted before they are read, pages before they are made, answers until they are written, and events until no listener
//! needs them. What does not fit is refused, before anything is done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::wire::problem::{Kind, Problem};

/// A body, an answer or a frame of at most so many bytes is not counted: the limit on connections bounds them.
pub(crate) const UNCOUNTED: usize = 16 << 10;
/// How long a request waits for room before it is refused.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whose bytes they are.
pub(crate) type Account = Arc<str>;

/// The bytes in flight.
#[derive(Clone)]
pub(crate) struct InFlight(Arc<Shared>);

struct Shared {
    total_max: usize,
    account_max: usize,
    counted: Mutex<Counted>,
    freed: Notify,
}

#[derive(Default)]
struct Counted {
    total: usize,
    accounts: HashMap<Account, usize>,
}

/// Why bytes do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The server has as many as it keeps.
    Server,
    /// The principal has as many as one may.
    Account,
}

impl From<Full> for Problem {
    fn from(full: Full) -> Problem {
        let (kind, detail) = match full {
            Full::Server => (Kind::Overloaded, "the server has as many bytes in flight as it keeps; try again later"),
            Full::Account => (
                Kind::TooManyBytes,
                "this principal has as many bytes in flight as one may; read its answers, then try again",
            ),
        };
        Problem::new(kind, detail).retry_after(Duration::from_secs(1))
    }
}

impl InFlight {
    pub(crate) fn new(total_max: usize, account_max: usize) -> InFlight {
        InFlight(Arc::new(Shared { total_max, account_max, counted: Mutex::default(), freed: Notify::new() }))
    }

    /// Bytes that are in flight now.
    pub(crate) fn total(&self) -> usize {
        self.0.counted.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Counts bytes, if they fit.
    pub(crate) fn reserve(&self, account: &Account, bytes: usize) -> Result<Reserved, Full> {
        let mut counted = self.0.counted.lock().unwrap_or_else(PoisonError::into_inner);
        // Something that is larger than all there is goes when nothing else is in flight: it is bounded elsewhere.
        let fits = |used: usize, most: usize| used == 0 || used.saturating_add(bytes) <= most;
        if !fits(counted.accounts.get(account).copied().unwrap_or(0), self.0.account_max) {
            return Err(Full::Account);
        }
        if !fits(counted.total, self.0.total_max) {
            return Err(Full::Server);
        }
        counted.add(account, bytes);
        Ok(Reserved { shared: self.0.clone(), account: account.clone(), bytes })
    }

    /// Counts bytes, and waits a moment for room.
    pub(crate) async fn reserve_soon(&self, account: &Account, bytes: usize) -> Result<Reserved, Full> {
        let until = Instant::now() + PATIENCE;
        loop {
            // Before it is looked: what is freed in between is heard.
            let freed = self.0.freed.notified();
            let full = match self.reserve(account, bytes) {
                Ok(reserved) => return Ok(reserved),
                Err(full) => full,
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(full);
            }
        }
    }

    /// Counts bytes that are there already, whether they fit or not.
    pub(crate) fn count(&self, account: &Account, bytes: usize) -> Reserved {
        self.0.counted.lock().unwrap_or_else(PoisonError::into_inner).add(account, bytes);
        Reserved { shared: self.0.clone(), account: account.clone(), bytes }
    }
}

impl Counted {
    fn add(&mut self, account: &Account, bytes: usize) {
        self.total += bytes;
        match self.accounts.get_mut(account) {
            Some(used) => *used += bytes,
            None => drop(self.accounts.insert(account.clone(), bytes)),
        }
    }

    fn take(&mut self, account: &Account, bytes: usize) {
        self.total -= bytes;
        if let Some(used) = self.accounts.get_mut(account) {
            *used -= bytes;
            if *used == 0 {
                self.accounts.remove(account);
            }
        }
    }
}

/// Bytes that are counted, until this is dropped.
pub(crate) struct Reserved {
    shared: Arc<Shared>,
    account: Account,
    bytes: usize,
}

impl Reserved {
    /// How many they are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// It came to fewer bytes, or to more.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let mut counted = self.shared.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.take(&self.account, self.bytes);
        counted.add(&self.account, bytes);
        self.bytes = bytes;
        drop(counted);
        self.shared.freed.notify_waiters();
    }

    /// Binds the count to bytes: it lasts as long as anybody has them.
    pub(crate) fn bind(mut self, bytes: Bytes) -> Bytes {
        if bytes.len() <= UNCOUNTED {
            return bytes;
        }
        self.resize(bytes.len());
        Bytes::from_owner(Kept { bytes, _reserved: self })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shared.counted.lock().unwrap_or_else(PoisonError::into_inner).take(&self.account, self.bytes);
        self.shared.freed.notify_waiters();
    }
}

struct Kept {
    bytes: Bytes,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_refused_and_comes_back() {
        let (one, other): (Account, Account) = ("one".into(), "other".into());
        let bytes = InFlight::new(100, 60);
        let first = bytes.reserve(&one, 50).unwrap();
        assert_eq!(bytes.reserve(&one, 11).err(), Some(Full::Account));
        let second = bytes.reserve(&other, 40).unwrap();
        assert_eq!(bytes.reserve(&other, 11).err(), Some(Full::Server));
        let waiting = tokio::spawn({
            let (bytes, other) = (bytes.clone(), other.clone());
            async move { bytes.reserve_soon(&other, 20).await.is_ok() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap(), "whoever waits hears that there is room");
        assert_eq!(bytes.reserve_soon(&other, 50).await.err(), Some(Full::Account), "and gives up when there is none");
        drop(second);
        assert_eq!(bytes.total(), 0);
        assert!(bytes.0.counted.lock().unwrap().accounts.is_empty(), "no account is kept for who has nothing");
        assert!(bytes.reserve(&one, 1_000).is_ok(), "alone it goes, as its own bound lets it");
    }

    #[test]
    fn an_answer_is_counted_as_long_as_somebody_has_it() {
        let (one, bytes): (Account, InFlight) = ("one".into(), InFlight::new(1 << 20, 1 << 20));
        let answer = bytes.reserve(&one, 1 << 20).unwrap().bind(Bytes::from(vec![7; 100_000]));
        assert_eq!(bytes.total(), 100_000, "it came to less than was reserved");
        let part = answer.slice(5..10);
        drop(answer);
        assert_eq!((bytes.total(), part.as_ref()), (100_000, &[7; 5][..]));
        drop(part);
        assert_eq!(bytes.total(), 0);
    }
}
