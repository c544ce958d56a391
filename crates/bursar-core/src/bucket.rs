//! Token buckets: what a balance over one keeps, how it refills, and what becomes of it when it is redefined.

use crate::mutant::Mutant;
use crate::scope::Balance;
use crate::time::Time;
use crate::window::Window;

impl Balance {
    pub(crate) fn tokens(&self) -> i128 {
        match self.window {
            Window::Bucket { length, .. } => self.level.div_euclid(i128::from(length.micros())),
            _ => 0,
        }
    }

    /// Takes tokens out of a bucket, or puts them back; never above its capacity.
    pub(crate) fn draw(&mut self, amount: i64) {
        if let Window::Bucket { length, .. } = self.window {
            self.level = (self.level - i128::from(amount) * i128::from(length.micros())).min(full(&self.window));
        }
    }

    /// Takes over what was taken out of the bucket this one replaces, unless more has been taken out of this one.
    pub(crate) fn carry(&mut self, old: &Balance) {
        let Window::Bucket { capacity, .. } = old.window else { return };
        let mut carried = Balance { since: old.since, held: old.held, level: full(&self.window), ..self.clone() };
        carried.draw(clamp(i128::from(capacity) - old.tokens()));
        if carried.level <= self.level && !Mutant::RedefiningFills.on() {
            *self = carried;
        }
    }

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

/// The level of a full bucket.
pub(crate) fn full(window: &Window) -> i128 {
    match window {
        Window::Bucket { capacity, length, .. } => i128::from(*capacity) * i128::from(length.micros()),
        _ => 0,
    }
}

pub(crate) fn clamp(amount: i128) -> i64 {
    amount.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
