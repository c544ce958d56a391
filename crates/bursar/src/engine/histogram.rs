//! How often something was how much: counted as it happens, read by whoever watches.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of what was measured, by bounds that are fixed when it is made.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is beyond the last.
    counts: Box<[AtomicU64]>,
    /// In millionths, which an atomic can add up.
    sum: AtomicU64,
}

/// What a histogram has counted so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// For each bound, how many were not above it.
    pub buckets: Vec<(f64, u64)>,
    /// All of them.
    pub count: u64,
    /// Added up.
    pub sum: f64,
}

impl Histogram {
    /// With these bounds, in ascending order.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts one.
    pub fn add(&self, value: f64) {
        let place = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn read(&self) -> Distribution {
        let mut count = 0;
        let mut up_to = self.counts.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let buckets = self.bounds.iter().copied().zip(up_to.by_ref()).collect();
        // What is beyond the last bound is counted with all of them.
        up_to.for_each(drop);
        Distribution { buckets, count, sum: self.sum.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_in_every_bucket_it_fits_in() {
        let histogram = Histogram::new(&[1.0, 10.0]);
        [0.5, 1.0, 1.5, 10.0, 11.0].iter().for_each(|value| histogram.add(*value));
        let read = Distribution { buckets: vec![(1.0, 2), (10.0, 4)], count: 5, sum: 24.0 };
        assert_eq!(histogram.read(), read);
    }
}
