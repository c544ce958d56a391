//! Rate limit on invalid tokens, per address: after a burst, an invalid token gets 429 with a time to wait instead of 401.
//!
//! A valid token always works, whatever its address did before, so one bad caller cannot lock out others behind the same gateway.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures that one address has before it must wait.
const BURST: f64 = 20.0;
/// Failures per second that leave the count again.
const DECAY: f64 = 1.0;
/// Maximum number of addresses in the table.
const ADDRESSES_MAX: usize = 10_000;
/// Number of addresses that eviction chooses from.
const EVICTION_SAMPLE: usize = 16;

/// The recent failures of each address: a count that decays, and when it was last updated.
#[derive(Default)]
pub(crate) struct FailedAttempts {
    counts: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl FailedAttempts {
    /// Records an invalid token from an address. Returns the time to wait as an error if the address has failed too often.
    pub(crate) fn record(&self, from: IpAddr) -> Result<(), Duration> {
        let (now, from) = (Instant::now(), address_block(from));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&from) {
            // Evicts the lowest count of an arbitrary sample, so an address with many failures stays.
            let sample =
                counts.iter().take(EVICTION_SAMPLE).map(|(address, (count, at))| (decayed(*count, *at, now), *address));
            let least = sample.min_by(|one, other| one.0.total_cmp(&other.0));
            least.map(|(_, address)| counts.remove(&address));
        }
        let (count, at) = counts.entry(from).or_insert((0.0, now));
        *count = (decayed(*count, *at, now) + 1.0).min(2.0 * BURST);
        *at = now;
        if *count <= BURST { Ok(()) } else { Err(Duration::from_secs_f64((*count - BURST) / DECAY)) }
    }
}

/// Returns what is left of a count after the time since its last update.
fn decayed(count: f64, at: Instant, now: Instant) -> f64 {
    (count - now.duration_since(at).as_secs_f64() * DECAY).max(0.0)
}

/// Returns the block of addresses that one caller typically controls: a /64 network in IPv6, a single address in IPv4.
fn address_block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_with_many_failures_must_wait() {
        let attempts = FailedAttempts::default();
        let (attacker, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        for _ in 0..20 {
            assert_eq!(attempts.record(attacker), Ok(()));
        }
        let wait = attempts.record(attacker).unwrap_err();
        assert_eq!(attempts.record(other), Ok(()), "other addresses are not affected");
        tokio::time::advance(wait + Duration::from_secs(1)).await;
        assert_eq!(attempts.record(attacker), Ok(()));
        for _ in 0..1_000 {
            let _ = attempts.record(attacker);
        }
        assert!(attempts.record(attacker).unwrap_err() <= Duration::from_secs(20), "the wait is bounded");
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_keeps_frequent_failures() {
        let attempts = FailedAttempts::default();
        let attacker: IpAddr = "10.0.0.1".parse().unwrap();
        for _ in 0..20 {
            attempts.record(attacker).unwrap();
        }
        for number in 0..2 * ADDRESSES_MAX as u32 {
            let _ = attempts.record(std::net::Ipv4Addr::from_bits(0x0b00_0000 + number).into());
        }
        assert_eq!(attempts.counts.lock().unwrap().len(), ADDRESSES_MAX);
        assert!(attempts.record(attacker).is_err());
        let block = |text: &str| address_block(text.parse().unwrap());
        assert_eq!(block("2001:db8::1"), block("2001:db8::ffff:1"), "a /64 network counts as one address");
        assert_ne!(block("2001:db8::1"), block("2001:db8:0:1::1"));
    }
}
