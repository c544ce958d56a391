//! Chance: keys that nobody else makes, and pauses that differ.

use std::time::Duration;

use bursar_core::name::IdempotencyKey;

/// The shortest and the longest pause between tries of a call.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A key that nobody else makes.
pub(crate) fn key() -> IdempotencyKey {
    let digits = u128::from_be_bytes(bytes());
    IdempotencyKey::new(format!("client-{digits:032x}")).expect("letters and digits are a key")
}

/// How long to wait before try number `tried + 1`: from half of it on, so that those who failed together do not come back together.
pub(crate) fn pause(tried: u32) -> Duration {
    let most = PAUSE_MIN.saturating_mul(1 << tried.min(10)).min(PAUSE_MAX);
    let part = f64::from(u32::from_be_bytes(bytes())) / f64::from(u32::MAX);
    most.mul_f64(0.5 + part / 2.0)
}

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_keys_differ() {
        for (tried, least, most) in [(0, 25, 50), (3, 200, 400), (7, 2_500, 5_000), (40, 2_500, 5_000)] {
            let pause = pause(tried);
            assert!(
                pause >= Duration::from_millis(least) && pause <= Duration::from_millis(most),
                "{tried}: {pause:?}"
            );
        }
        assert_ne!(key(), key());
    }
}
