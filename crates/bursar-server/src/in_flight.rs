//! Bytes in flight: the memory that requests occupy, counted for the whole server and for each principal.
//!
//! Bodies are counted before they are received, pages before they are read from the database, responses until they are written to
//! the socket, and events until no listener needs them. A request that does not fit is refused before it has any effect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::wire::problem::{Kind, Problem};

/// Bodies, responses and frames up to this many bytes are not counted; the limit on connections bounds them.
pub(crate) const UNCOUNTED: usize = 16 << 10;
/// How long a request waits for room before it is refused.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The name that bytes are counted under: a principal, the events of a tenant, or the heads of all connections.
pub(crate) type Account = Arc<str>;

/// The count of bytes in flight, with its limits.
#[derive(Clone)]
pub(crate) struct BytesInFlight(Arc<Shared>);

struct Shared {
    total_max: usize,
    account_max: usize,
    usage: Mutex<Usage>,
    /// Notified whenever bytes become free.
    freed: Notify,
}

#[derive(Default)]
struct Usage {
    total: usize,
    accounts: HashMap<Account, usize>,
}

/// The limit that a reservation would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The limit of the server (`limits.bytes`).
    Server,
    /// The limit of one account (`limits.principal_bytes`).
    Account,
}

impl From<Full> for Problem {
    fn from(full: Full) -> Problem {
        let (kind, detail) = match full {
            Full::Server => (
                Kind::Overloaded,
                "the server has reached its limit on bytes in flight (limits.bytes); nothing was changed; retry later",
            ),
            Full::Account => (
                Kind::TooManyBytes,
                "this principal has reached its limit on bytes in flight (limits.principal_bytes); read the \
                 outstanding responses, then retry",
            ),
        };
        Problem::new(kind, detail).retry_after(Duration::from_secs(1))
    }
}

impl BytesInFlight {
    pub(crate) fn new(total_max: usize, account_max: usize) -> BytesInFlight {
        BytesInFlight(Arc::new(Shared { total_max, account_max, usage: Mutex::default(), freed: Notify::new() }))
    }

    /// Returns the number of bytes in flight now.
    pub(crate) fn total(&self) -> usize {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Reserves bytes, if they fit.
    pub(crate) fn reserve(&self, account: &Account, bytes: usize) -> Result<Reservation, Full> {
        let mut usage = self.0.usage.lock().unwrap_or_else(PoisonError::into_inner);
        // A reservation above the limit is allowed if nothing else is in flight; other limits bound its size.
        let fits = |used: usize, most: usize| used == 0 || used.saturating_add(bytes) <= most;
        if !fits(usage.accounts.get(account).copied().unwrap_or(0), self.0.account_max) {
            return Err(Full::Account);
        }
        if !fits(usage.total, self.0.total_max) {
            return Err(Full::Server);
        }
        usage.add(account, bytes);
        Ok(Reservation { shared: self.0.clone(), account: account.clone(), bytes })
    }

    /// Reserves bytes, waiting up to two seconds for room.
    pub(crate) async fn reserve_or_wait(&self, account: &Account, bytes: usize) -> Result<Reservation, Full> {
        let until = Instant::now() + WAIT_MAX;
        loop {
            // Registered before the attempt, so bytes freed in between are not missed.
            let freed = self.0.freed.notified();
            let full = match self.reserve(account, bytes) {
                Ok(reservation) => return Ok(reservation),
                Err(full) => full,
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(full);
            }
        }
    }

    /// Counts bytes that are in memory already, even if they exceed a limit.
    pub(crate) fn count(&self, account: &Account, bytes: usize) -> Reservation {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner).add(account, bytes);
        Reservation { shared: self.0.clone(), account: account.clone(), bytes }
    }
}

impl Usage {
    fn add(&mut self, account: &Account, bytes: usize) {
        self.total += bytes;
        match self.accounts.get_mut(account) {
            Some(used) => *used += bytes,
            None => drop(self.accounts.insert(account.clone(), bytes)),
        }
    }

    fn subtract(&mut self, account: &Account, bytes: usize) {
        self.total -= bytes;
        if let Some(used) = self.accounts.get_mut(account) {
            *used -= bytes;
            if *used == 0 {
                self.accounts.remove(account);
            }
        }
    }
}

/// Bytes that count as in flight until this is dropped.
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    account: Account,
    bytes: usize,
}

impl Reservation {
    /// Returns how many bytes are reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the number of reserved bytes, even beyond a limit.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let mut usage = self.shared.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.subtract(&self.account, self.bytes);
        usage.add(&self.account, bytes);
        self.bytes = bytes;
        drop(usage);
        self.shared.freed.notify_waiters();
    }

    /// Ties the reservation to a buffer: it lasts until the last clone or slice of the buffer is dropped.
    pub(crate) fn bind(mut self, bytes: Bytes) -> Bytes {
        if bytes.len() <= UNCOUNTED {
            return bytes;
        }
        self.resize(bytes.len());
        Bytes::from_owner(ReservedBytes { bytes, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.usage.lock().unwrap_or_else(PoisonError::into_inner).subtract(&self.account, self.bytes);
        self.shared.freed.notify_waiters();
    }
}

/// A buffer with its reservation.
struct ReservedBytes {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reservation_above_a_limit_fails_until_bytes_are_freed() {
        let (one, other): (Account, Account) = ("one".into(), "other".into());
        let bytes = BytesInFlight::new(100, 60);
        let first = bytes.reserve(&one, 50).unwrap();
        assert_eq!(bytes.reserve(&one, 11).err(), Some(Full::Account));
        let second = bytes.reserve(&other, 40).unwrap();
        assert_eq!(bytes.reserve(&other, 11).err(), Some(Full::Server));
        let waiting = tokio::spawn({
            let (bytes, other) = (bytes.clone(), other.clone());
            async move { bytes.reserve_or_wait(&other, 20).await.is_ok() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap(), "freed bytes wake a waiting request");
        assert_eq!(bytes.reserve_or_wait(&other, 50).await.err(), Some(Full::Account), "the wait ends");
        drop(second);
        assert_eq!(bytes.total(), 0);
        assert!(bytes.0.usage.lock().unwrap().accounts.is_empty(), "an empty account is removed");
        assert!(bytes.reserve(&one, 1_000).is_ok(), "a single large reservation is allowed");
    }

    #[test]
    fn a_response_counts_until_its_last_slice_is_dropped() {
        let (one, bytes): (Account, BytesInFlight) = ("one".into(), BytesInFlight::new(1 << 20, 1 << 20));
        let answer = bytes.reserve(&one, 1 << 20).unwrap().bind(Bytes::from(vec![7; 100_000]));
        assert_eq!(bytes.total(), 100_000, "the reservation shrinks to the buffer");
        let slice = answer.slice(5..10);
        drop(answer);
        assert_eq!((bytes.total(), slice.as_ref()), (100_000, &[7; 5][..]));
        drop(slice);
        assert_eq!(bytes.total(), 0);
    }
}
