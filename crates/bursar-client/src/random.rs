//! Random idempotency keys and backoff with jitter.

use std::time::Duration;

use bursar_core::name::IdempotencyKey;

/// The upper bound of the first delay between attempts, before it is doubled.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest delay between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Generates a unique idempotency key.
pub(crate) fn key() -> IdempotencyKey {
    let digits = u128::from_be_bytes(bytes());
    IdempotencyKey::new(format!("client-{digits:032x}")).expect("letters, digits and a hyphen form a valid key")
}

/// Returns how long to wait after `attempts` failed attempts. Half of the delay is random, so that clients that failed together do not
/// retry together.
pub(crate) fn backoff(attempts: u32) -> Duration {
    let max = BACKOFF_MIN.saturating_mul(1 << attempts.min(10)).min(BACKOFF_MAX);
    let part = f64::from(u32::from_be_bytes(bytes())) / f64::from(u32::MAX);
    max.mul_f64(0.5 + part / 2.0)
}

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system supplies random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_maximum_and_keys_differ() {
        for (attempts, min, max) in [(0, 25, 50), (3, 200, 400), (7, 2_500, 5_000), (40, 2_500, 5_000)] {
            let delay = backoff(attempts);
            let expected = Duration::from_millis(min)..=Duration::from_millis(max);
            assert!(expected.contains(&delay), "{attempts}: {delay:?}");
        }
        assert_ne!(key(), key());
    }
}
