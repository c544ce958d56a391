//! Failed attempts: so many from one address, and no more for a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// Failures of one address before it has to wait.
const BURST: f64 = 20.0;
/// Failures a second that are forgotten.
const FORGOTTEN: f64 = 1.0;
/// Addresses and good tokens that are remembered at most.
const REMEMBERED: usize = 10_000;

/// Who has failed how often. A token that was good here a short time ago is looked at again whatever its address did: one who
/// guesses behind a gateway does not shut out those who share it.
#[derive(Default)]
pub(crate) struct Attempts {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    failed: HashMap<IpAddr, (f64, Instant)>,
    good: HashMap<[u8; 32], Instant>,
}

/// How long a good token is remembered as such.
const GOOD_FOR: Duration = Duration::from_secs(600);

impl Attempts {
    /// Whether what this address shows is looked at now; otherwise how long it has to wait.
    pub(crate) fn admit(&self, from: IpAddr, shown: &str) -> Result<(), Duration> {
        let now = Instant::now();
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((count, at)) = inner.failed.get(&from) else { return Ok(()) };
        let left = count - now.duration_since(*at).as_secs_f64() * FORGOTTEN;
        let known = || inner.good.get(&digest(shown)).is_some_and(|at| now.duration_since(*at) < GOOD_FOR);
        match left < BURST || known() {
            true => Ok(()),
            false => Err(Duration::from_secs_f64((left - BURST + 1.0) / FORGOTTEN)),
        }
    }

    /// What was shown was not good.
    pub(crate) fn failed(&self, from: IpAddr) {
        let now = Instant::now();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.failed.len() >= REMEMBERED {
            inner.failed.retain(|_, (count, at)| *count > now.duration_since(*at).as_secs_f64() * FORGOTTEN);
        }
        if inner.failed.len() >= REMEMBERED {
            inner.failed.clear();
        }
        let (count, at) = inner.failed.entry(from).or_insert((0.0, now));
        *count = (*count - now.duration_since(*at).as_secs_f64() * FORGOTTEN).max(0.0) + 1.0;
        *at = now;
    }

    /// What was shown was good.
    pub(crate) fn good(&self, shown: &str) {
        let now = Instant::now();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // Only where somebody fails does it matter who does not.
        if inner.failed.is_empty() {
            return;
        }
        if inner.good.len() >= REMEMBERED {
            inner.good.clear();
        }
        inner.good.insert(digest(shown), now);
    }
}

fn digest(shown: &str) -> [u8; 32] {
    Sha256::digest(shown).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_fails_too_often_waits_and_who_was_good_does_not() {
        let attempts = Attempts::default();
        let (thief, home): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        for _ in 0..5 {
            attempts.failed(thief);
        }
        attempts.good("mine");
        for _ in 0..15 {
            assert_eq!(attempts.admit(thief, "guess"), Ok(()));
            attempts.failed(thief);
        }
        let wait = attempts.admit(thief, "guess").unwrap_err();
        assert_eq!(attempts.admit(home, "guess"), Ok(()), "others are not meant");
        assert_eq!(attempts.admit(thief, "mine"), Ok(()), "nor is who was good here before");
        tokio::time::advance(wait).await;
        assert_eq!(attempts.admit(thief, "guess"), Ok(()));
    }
}
