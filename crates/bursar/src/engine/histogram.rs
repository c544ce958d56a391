//! Histograms that many tasks can add to without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of measured values in buckets with fixed upper bounds.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One count for each bound, and one for values above the last.
    counts: Box<[AtomicU64]>,
    /// The sum of the values in millionths, because atomics add integers.
    sum: AtomicU64,
}

/// The values that a histogram has counted so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Each upper bound with the number of values that do not exceed it.
    pub buckets: Vec<(f64, u64)>,
    /// The number of values.
    pub count: u64,
    /// The sum of the values.
    pub sum: f64,
}

impl Histogram {
    /// Creates a histogram with these upper bounds, in ascending order.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn add(&self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    /// Returns the values counted so far.
    pub fn read(&self) -> Distribution {
        let mut count = 0;
        let mut cumulative = self.counts.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let buckets = self.bounds.iter().copied().zip(cumulative.by_ref()).collect();
        // Adds the values above the last bound to the total.
        cumulative.for_each(drop);
        Distribution { buckets, count, sum: self.sum.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_it_does_not_exceed() {
        let histogram = Histogram::new(&[1.0, 10.0]);
        [0.5, 1.0, 1.5, 10.0, 11.0].iter().for_each(|value| histogram.add(*value));
        let read = Distribution { buckets: vec![(1.0, 2), (10.0, 4)], count: 5, sum: 24.0 };
        assert_eq!(histogram.read(), read);
    }
}
