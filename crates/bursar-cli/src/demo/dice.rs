//! A seeded generator: the same seed gives the same numbers, so every run of the demo is alike.

use std::ops::RangeInclusive;

/// A generator of evenly distributed numbers (`SplitMix64`). Not for secrets.
pub(super) struct Dice(u64);

impl Dice {
    /// Creates a generator whose numbers depend on a name only.
    pub(super) fn of(name: &str) -> Dice {
        Dice(
            name.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)),
        )
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number of a range.
    pub(super) fn draw(&mut self, range: &RangeInclusive<u32>) -> u32 {
        let (low, high) = (u64::from(*range.start()), u64::from(*range.end()));
        let drawn = low + self.next() % (high - low + 1);
        u32::try_from(drawn).unwrap_or(*range.end())
    }

    /// Returns an element of a list that is not empty.
    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.next() % from.len() as u64).unwrap_or_default()]
    }
}
