//! Failed attempts: so many from one address, and then an address that fails on is told to wait.
//!
//! A token that is good is taken whatever its address did. Only answers to bad ones change: callers behind one gateway are not shut out
//! by one among them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures of one address before it has to wait.
const BURST: f64 = 20.0;
/// Failures a second that are forgotten.
const FORGOTTEN: f64 = 1.0;
/// Addresses that are remembered at most.
const REMEMBERED: usize = 10_000;

/// Addresses among which one is chosen to be forgotten.
const LOOKED_AT: usize = 16;

/// Who has failed how often.
#[derive(Default)]
pub(crate) struct Attempts {
    failed: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl Attempts {
    /// What this address has shown was not good; an error says how long it has to wait, where it has failed too often.
    pub(crate) fn failed(&self, from: IpAddr) -> Result<(), Duration> {
        let (now, from) = (Instant::now(), holder(from));
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() >= REMEMBERED && !failed.contains_key(&from) {
            // Of some that are there, in no order, the one that failed least goes: one that failed often stays.
            let some = failed.iter().take(LOOKED_AT).map(|(address, (count, at))| (left(*count, *at, now), *address));
            let least = some.min_by(|one, other| one.0.total_cmp(&other.0));
            least.map(|(_, address)| failed.remove(&address));
        }
        let (count, at) = failed.entry(from).or_insert((0.0, now));
        *count = (left(*count, *at, now) + 1.0).min(2.0 * BURST);
        *at = now;
        if *count <= BURST { Ok(()) } else { Err(Duration::from_secs_f64((*count - BURST) / FORGOTTEN)) }
    }
}

/// Failures that are not forgotten yet.
fn left(count: f64, at: Instant, now: Instant) -> f64 {
    (count - now.duration_since(at).as_secs_f64() * FORGOTTEN).max(0.0)
}

/// What one caller has for itself: of IPv6 a whole network of 64 bits.
fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let attempts = Attempts::default();
        let (thief, home): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        for _ in 0..20 {
            assert_eq!(attempts.failed(thief), Ok(()));
        }
        let wait = attempts.failed(thief).unwrap_err();
        assert_eq!(attempts.failed(home), Ok(()), "others are not meant");
        tokio::time::advance(wait + Duration::from_secs(1)).await;
        assert_eq!(attempts.failed(thief), Ok(()));
        for _ in 0..1_000 {
            let _ = attempts.failed(thief);
        }
        assert!(attempts.failed(thief).unwrap_err() <= Duration::from_secs(20), "nobody waits for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_who_failed_often_stays_in_it() {
        let attempts = Attempts::default();
        let thief: IpAddr = "10.0.0.1".parse().unwrap();
        for _ in 0..20 {
            attempts.failed(thief).unwrap();
        }
        for number in 0..2 * REMEMBERED as u32 {
            let _ = attempts.failed(std::net::Ipv4Addr::from_bits(0x0b00_0000 + number).into());
        }
        assert_eq!(attempts.failed.lock().unwrap().len(), REMEMBERED);
        assert!(attempts.failed(thief).is_err());
        let one = |text: &str| holder(text.parse().unwrap());
        assert_eq!(one("2001:db8::1"), one("2001:db8::ffff:1"), "one caller has all of a network");
        assert_ne!(one("2001:db8::1"), one("2001:db8:0:1::1"));
    }
}
