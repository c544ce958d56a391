//! Token buckets: the level of a bucket, how it refills, and what a new bucket takes over from the one it replaces.
//!
//! The level is stored as `tokens * refill period in microseconds`. In this unit each elapsed microsecond adds exactly
//! `refill`, so refilling in many small steps or in one large step gives the same level. A bucket starts full, never
//! rises above its capacity, and can go below zero by an overrun.

use crate::mutant::Mutant;
use crate::scope::Balance;
use crate::time::Time;
use crate::window::Window;

impl Balance {
    /// Returns the whole tokens in the bucket; 0 for other windows.
    pub(crate) fn tokens(&self) -> i128 {
        match self.window {
            Window::Bucket { length, .. } => self.level.div_euclid(i128::from(length.micros())),
            _ => 0,
        }
    }

    /// Takes tokens out of a bucket, or puts them back if `amount` is negative; never above its capacity.
    pub(crate) fn draw(&mut self, amount: i64) {
        if let Window::Bucket { length, .. } = self.window {
            self.level = (self.level - i128::from(amount) * i128::from(length.micros())).min(full(&self.window));
        }
    }

    /// Takes over the tokens missing from the bucket that this one replaces, unless more are missing from this one.
    pub(crate) fn carry(&mut self, old: &Balance) {
        let Window::Bucket { capacity, .. } = old.window else { return };
        let mut carried = Balance { since: old.since, held: old.held, level: full(&self.window), ..self.clone() };
        carried.draw(clamp(i128::from(capacity) - old.tokens()));
        if carried.level <= self.level && !Mutant::RedefiningFills.on() {
            *self = carried;
        }
    }

    /// Adds the tokens gained since the last refill.
    pub(crate) fn refill(&mut self, to: Time) {
        let Window::Bucket { refill, .. } = self.window else { return };
        if to <= self.level_at {
            return;
        }
        let elapsed = i128::from(to.micros()) - i128::from(self.level_at.micros());
        let refilled = self.level.saturating_add(elapsed.saturating_mul(i128::from(refill)));
        self.level = if Mutant::BucketOverflows.on() { refilled } else { refilled.min(full(&self.window)) };
        self.level_at = to;
    }
}

/// Returns the level of a full bucket; 0 for other windows.
pub(crate) fn full(window: &Window) -> i128 {
    match window {
        Window::Bucket { capacity, length, .. } => i128::from(*capacity) * i128::from(length.micros()),
        _ => 0,
    }
}

/// Clamps a number to 64 bits.
pub(crate) fn clamp(amount: i128) -> i64 {
    amount.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
