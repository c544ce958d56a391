//! Histograms of measured values, updated without locks.

use std::sync::atomic::{AtomicU64, Ordering};

/// A histogram with fixed bucket bounds.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One count for each bound, and one for values above the last bound.
    counts: Box<[AtomicU64]>,
    /// The sum of the values in millionths, so that an integer atomic can hold it.
    sum: AtomicU64,
}

/// A snapshot of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// For each bound, the number of values up to it. The numbers are cumulative.
    pub buckets: Vec<(f64, u64)>,
    /// The number of all values.
    pub count: u64,
    /// The sum of all values.
    pub sum: f64,
}

impl Histogram {
    /// Creates a histogram with these bounds, in ascending order.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Adds a value, which must not be negative.
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
        // Adds the values above the last bound to `count`.
        cumulative.for_each(drop);
        Distribution { buckets, count, sum: self.sum.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_that_includes_it() {
        let histogram = Histogram::new(&[1.0, 10.0]);
        [0.5, 1.0, 1.5, 10.0, 11.0].iter().for_each(|value| histogram.add(*value));
        let read = Distribution { buckets: vec![(1.0, 2), (10.0, 4)], count: 5, sum: 24.0 };
        assert_eq!(histogram.read(), read);
    }
}
