//! Reproducible ids.

use bursar_core::id::{IdSource, uuid_v7};
use bursar_core::time::Time;

/// Ids that count up from a seed, easy to read in a failed test.
#[derive(Clone, Debug)]
pub struct SeqIds {
    seed: u128,
    count: u128,
}

impl SeqIds {
    /// Creates a source; two seeds never produce the same id.
    pub fn new(seed: u64) -> SeqIds {
        SeqIds { seed: u128::from(seed) & 0x3fff_ffff, count: 0 }
    }
}

impl IdSource for SeqIds {
    fn next_id(&mut self, now: Time) -> u128 {
        self.count += 1;
        uuid_v7(now, (self.count << 30 | self.seed) & 0x3fff_ffff_ffff_ffff)
    }
}

/// Ids with random bits from a seed, increasing within one source as the trait requires.
#[derive(Clone, Debug)]
pub struct RandomIds {
    state: u64,
    last: u128,
}

impl RandomIds {
    /// Creates a source with this seed.
    pub fn new(seed: u64) -> RandomIds {
        RandomIds { state: seed, last: 0 }
    }

    /// Returns the next number of splitmix64.
    fn next_random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl IdSource for RandomIds {
    fn next_id(&mut self, now: Time) -> u128 {
        let random = u128::from(self.next_random()) << 64 | u128::from(self.next_random());
        let id = uuid_v7(now, random);
        // Within a millisecond the last id grows by a random step, as RFC 9562 suggests.
        let grown = if id > self.last { id } else { self.last + 1 + u128::from(self.next_random() >> 32) };
        self.last = grown;
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_and_repeat_with_the_seed() {
        let now = Time::from_micros(1_700_000_000_000_000);
        let sources: [fn() -> Box<dyn IdSource>; 2] = [|| Box::new(SeqIds::new(7)), || Box::new(RandomIds::new(7))];
        for source in sources {
            let (mut one, mut same) = (source(), source());
            let ids: Vec<u128> = (0..1_000).map(|_| one.next_id(now)).collect();
            assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]));
            assert!(ids.iter().all(|id| *id == same.next_id(now)));
        }
    }
}
