//! Chance that a seed repeats.

/// Numbers of splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `most`.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.roll() % most.max(1)
    }

    /// A number from `least` to `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Dice of their own for somebody else.
    pub(crate) fn fork(&mut self) -> Dice {
        Dice(self.roll())
    }

    /// Takes one out at random.
    pub(crate) fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        let place = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        (!from.is_empty()).then(|| from.swap_remove(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers() {
        let (mut one, mut same, mut other) = (Dice::new(3), Dice::new(3), Dice::new(4));
        let rolls: Vec<u64> = (0..100).map(|_| one.between(5, 9)).collect();
        assert!(rolls.iter().all(|roll| *roll == same.between(5, 9) && (5..=9).contains(roll)));
        assert_ne!(one.roll(), other.roll());
    }
}
