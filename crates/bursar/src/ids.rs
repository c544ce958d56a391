//! Ids and secrets from the system's randomness.

use bursar_core::id::{IdSource, uuid_v7};
use bursar_core::time::Time;

/// UUIDv7 ids that grow: within one millisecond they count up from a random start.
#[derive(Debug, Default)]
pub(crate) struct RandomIds {
    last: u128,
    pool: Pool,
}

#[derive(Debug)]
struct Pool {
    bytes: [u8; 512],
    used: usize,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { bytes: [0; 512], used: 512 }
    }
}

impl IdSource for RandomIds {
    fn next_id(&mut self, now: Time) -> u128 {
        // A clock that stands or goes back must not make ids that sort before earlier ones.
        let passed = uuid_v7(now, 0) >> MILLIS > self.last >> MILLIS;
        self.last = if passed { uuid_v7(now, u128::from_be_bytes(self.pool.take())) } else { bump(self.last) };
        self.last
    }
}

/// Below the bits that tell the millisecond.
const MILLIS: u32 = 80;

/// The next id after one, with version and variant kept.
fn bump(id: u128) -> u128 {
    let low = id & 0x3fff_ffff_ffff_ffff;
    if low < 0x3fff_ffff_ffff_ffff { id + 1 } else { (id - low) + (1 << 80) }
}

impl Pool {
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

/// Fills a buffer with randomness fit for secrets.
pub(crate) fn random(buffer: &mut [u8]) {
    getrandom::fill(buffer).expect("the system has randomness");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_also_when_the_clock_does_not() {
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
