//! Counts large request heads as bytes in flight while they are being received, before the caller is authenticated.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::in_flight::{Account, BytesInFlight, Reservation};

/// Heads up to this many bytes are not counted; most are shorter.
const UNCOUNTED: usize = 8 << 10;

/// The requests of one connection. While one is running, the bytes read are its body, which is counted elsewhere.
#[derive(Clone, Default)]
pub(crate) struct ConnectionRequests(Arc<Counts>);

#[derive(Default)]
struct Counts {
    /// Requests started so far. Bytes read before the last start no longer belong to a pending head.
    started: AtomicUsize,
    /// Requests running now.
    running: AtomicUsize,
}

impl ConnectionRequests {
    /// Marks a request as running until the returned guard is dropped.
    pub(crate) fn start(&self) -> impl Drop + use<> {
        struct Running(Arc<Counts>);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.running.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.0.started.fetch_add(1, Ordering::AcqRel);
        self.0.running.fetch_add(1, Ordering::AcqRel);
        Running(self.0.clone())
    }

    fn is_idle(&self) -> bool {
        self.0.running.load(Ordering::Acquire) == 0
    }
}

/// Counts the heads that are received on one connection.
pub(crate) struct HeadCounter {
    requests: ConnectionRequests,
    bytes: BytesInFlight,
    account: Account,
    /// Bytes read since the last request started.
    read: usize,
    /// The number of started requests when `read` was last reset.
    started: usize,
    reservation: Option<Reservation>,
}

impl HeadCounter {
    pub(crate) fn new(requests: ConnectionRequests, bytes: BytesInFlight, account: Account) -> HeadCounter {
        HeadCounter { requests, bytes, account, read: 0, started: 0, reservation: None }
    }

    /// Counts bytes that were read; fails if the server has no room for them.
    pub(super) fn count(&mut self, bytes: usize) -> io::Result<()> {
        let started = self.requests.0.started.load(Ordering::Acquire);
        if started != self.started || !self.requests.is_idle() {
            (self.read, self.started, self.reservation) = (0, started, None);
        }
        if !self.requests.is_idle() {
            return Ok(());
        }
        self.read += bytes;
        if self.read <= UNCOUNTED {
            return Ok(());
        }
        self.reservation = None;
        let reservation = self.bytes.reserve(&self.account, self.read);
        self.reservation = Some(reservation.map_err(|_| io::Error::other("too many large request heads in flight"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_heads_are_counted_and_bodies_are_not() {
        let bytes = BytesInFlight::new(50_000, 50_000);
        let requests = ConnectionRequests::default();
        let mut heads = HeadCounter::new(requests.clone(), bytes.clone(), "heads".into());
        heads.count(5_000).unwrap();
        assert_eq!(bytes.total(), 0, "short heads are not counted");
        heads.count(35_000).unwrap();
        assert_eq!(bytes.total(), 40_000);
        let running = requests.start();
        for _ in 0..5 {
            heads.count(40_000).unwrap();
            assert_eq!(bytes.total(), 0);
        }
        drop(running);
        // Many requests one after the other on a kept-alive connection.
        for _ in 0..100 {
            heads.count(20_000).unwrap();
            drop(requests.start());
        }
        heads.count(1_000).unwrap();
        assert_eq!(bytes.total(), 0, "heads of earlier requests are not counted");
        drop(requests.start());
        heads.count(30_000).unwrap();
        let other = bytes.reserve(&"other".into(), 5_000).unwrap();
        assert!(heads.count(30_000).is_err(), "a head of 60,000 bytes does not fit");
        drop((other, heads));
        assert_eq!(bytes.total(), 0);
    }
}
