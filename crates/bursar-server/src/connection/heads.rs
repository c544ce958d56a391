//! Heads of requests that are being read, counted before anybody knows who asks: a large one has a place among the bytes in flight.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::in_flight::{Account, InFlight, Reserved};

/// Bytes of a head that are not counted: most are shorter.
const UNCOUNTED: usize = 8 << 10;

/// Whether a connection is serving a request: what is read meanwhile is a body, which is counted elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Serving(Arc<Counts>);

#[derive(Default)]
struct Counts {
    /// Requests that were begun: what was read before the last of them is no head any more.
    begun: AtomicUsize,
    under_way: AtomicUsize,
}

impl Serving {
    /// A request is served until what this returns is dropped.
    pub(crate) fn begin(&self) -> impl Drop + use<> {
        struct Served(Arc<Counts>);
        impl Drop for Served {
            fn drop(&mut self) {
                self.0.under_way.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        Served(self.0.clone())
    }

    fn is_idle(&self) -> bool {
        self.0.under_way.load(Ordering::Acquire) == 0
    }
}

/// Counts the heads that are read from one connection.
pub(crate) struct Heads {
    serving: Serving,
    bytes: InFlight,
    account: Account,
    /// Bytes read since the last request, and how many requests had begun then.
    read: usize,
    begun: usize,
    reserved: Option<Reserved>,
}

impl Heads {
    pub(crate) fn new(serving: Serving, bytes: InFlight, account: Account) -> Heads {
        Heads { serving, bytes, account, read: 0, begun: 0, reserved: None }
    }

    /// Counts what was read; an error where there is no room for it.
    pub(super) fn count(&mut self, bytes: usize) -> io::Result<()> {
        let begun = self.serving.0.begun.load(Ordering::Acquire);
        if begun != self.begun || !self.serving.is_idle() {
            (self.read, self.begun, self.reserved) = (0, begun, None);
        }
        if !self.serving.is_idle() {
            return Ok(());
        }
        self.read += bytes;
        if self.read <= UNCOUNTED {
            return Ok(());
        }
        self.reserved = None;
        let reserved = self.bytes.reserve(&self.account, self.read);
        self.reserved = Some(reserved.map_err(|_| io::Error::other("too many large heads are being read"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_heads_are_counted_and_bodies_are_not() {
        let bytes = InFlight::new(50_000, 50_000);
        let serving = Serving::default();
        let mut heads = Heads::new(serving.clone(), bytes.clone(), "heads".into());
        heads.count(5_000).unwrap();
        assert_eq!(bytes.total(), 0, "most heads are short");
        heads.count(35_000).unwrap();
        assert_eq!(bytes.total(), 40_000);
        let served = serving.begin();
        for _ in 0..5 {
            heads.count(40_000).unwrap();
            assert_eq!(bytes.total(), 0);
        }
        drop(served);
        // One request after the other on a connection that is kept: nothing is read while they are served.
        for _ in 0..100 {
            heads.count(20_000).unwrap();
            drop(serving.begin());
        }
        heads.count(1_000).unwrap();
        assert_eq!(bytes.total(), 0, "what was read for requests that were served is not counted any more");
        drop(serving.begin());
        heads.count(30_000).unwrap();
        let other = bytes.reserve(&"other".into(), 5_000).unwrap();
        assert!(heads.count(30_000).is_err(), "there is no room for a head of 60,000 bytes");
        drop((other, heads));
        assert_eq!(bytes.total(), 0);
    }
}
