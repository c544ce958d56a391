//! Reproducible random numbers.

/// A stream of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns a number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Returns true with a probability of `chance` percent.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns an independent stream.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// Removes a random element.
    pub(crate) fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        let index = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        (!from.is_empty()).then(|| from.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers() {
        let (mut one, mut same, mut other) = (Random::new(3), Random::new(3), Random::new(4));
        let numbers: Vec<u64> = (0..100).map(|_| one.between(5, 9)).collect();
        assert!(numbers.iter().all(|number| *number == same.between(5, 9) && (5..=9).contains(number)));
        assert_ne!(one.next(), other.next());
    }
}
