//! Random ids and secrets.

use bursar_core::id::{IdSource, uuid_v7};
use bursar_core::time::Time;

/// A source of increasing UUIDv7 ids. Within one millisecond they count up from a random start.
#[derive(Debug, Default)]
pub(crate) struct RandomIds {
    last: u128,
    pool: RandomPool,
}

/// Random bytes, read from the system in bulk to save system calls.
#[derive(Debug)]
struct RandomPool {
    bytes: [u8; 512],
    used: usize,
}

impl Default for RandomPool {
    fn default() -> RandomPool {
        RandomPool { bytes: [0; 512], used: 512 }
    }
}

impl IdSource for RandomIds {
    fn next_id(&mut self, now: Time) -> u128 {
        // If the clock stops or goes back, ids must still not sort before earlier ones.
        let advanced = uuid_v7(now, 0) >> MILLIS_SHIFT > self.last >> MILLIS_SHIFT;
        self.last = if advanced { uuid_v7(now, u128::from_be_bytes(self.pool.take())) } else { successor(self.last) };
        self.last
    }
}

/// The number of bits below the millisecond timestamp of a UUIDv7.
const MILLIS_SHIFT: u32 = 80;

/// Returns the next id, with the same version and variant. Carries into the timestamp if the lower bits are used up.
fn successor(id: u128) -> u128 {
    let low = id & 0x3fff_ffff_ffff_ffff;
    if low < 0x3fff_ffff_ffff_ffff { id + 1 } else { (id - low) + (1 << MILLIS_SHIFT) }
}

impl RandomPool {
    fn take(&mut self) -> [u8; 16] {
        if self.used + 16 > self.bytes.len() {
            random(&mut self.bytes);
            self.used = 0;
        }
        let taken = self.bytes[self.used..self.used + 16].try_into().expect("16 bytes");
        self.used += 16;
        taken
    }
}

/// Fills a buffer with cryptographically secure random bytes.
pub(crate) fn random(buffer: &mut [u8]) {
    getrandom::fill(buffer).expect("the system provides random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_even_if_the_clock_goes_back() {
        let mut ids = RandomIds::default();
        let mut last = 0;
        for step in [1_000_000, 1_000_000, 5, 1_000_001, 2_000_000, 1_999_999] {
            for _ in 0..1_000 {
                let id = ids.next_id(Time::from_micros(step));
                assert!(id > last);
                assert_eq!(((id >> 76) & 0xf, (id >> 62) & 3), (7, 2), "version and variant");
                last = id;
            }
        }
    }
}
