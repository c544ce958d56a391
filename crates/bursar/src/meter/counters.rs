//! What a meter has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What a meter has done since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct MeterCounters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        /// The same, while it is counted.
        #[derive(Default)]
        pub(crate) struct Counting {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl Counting {
            pub(crate) fn told(&self) -> MeterCounters {
                MeterCounters { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }

        impl MeterCounters {
            /// Each of them, with its name and what it counts.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),+), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Requests that were charged and served.
    admitted,
    /// Requests beyond their caller's quota.
    exceeded,
    /// Requests that cost nothing by their path, their caller or because the meter is off.
    bypassed,
    /// Requests whose caller made no sense or was missing.
    rejected,
    /// Requests that were served although the quota could not be asked.
    failed_open,
    /// Requests that were refused because the quota could not be asked.
    failed_closed,
    /// Requests that were settled after their caller had left or their handler had failed.
    abandoned,
    /// Requests whose second phase failed: what they held is free again once it expires.
    unsettled,
    /// Costs that were reported for operations that have one phase only.
    unasked,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
