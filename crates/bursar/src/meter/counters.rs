//! The counters of a meter.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of a meter and its clones since it was built.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct MeterCounters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        /// The live counters behind [`MeterCounters`].
        #[derive(Default)]
        pub(crate) struct LiveCounters {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl LiveCounters {
            pub(crate) fn read(&self) -> MeterCounters {
                MeterCounters { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }

        impl MeterCounters {
            /// Returns the name, the description and the value of each counter.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),+), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Requests charged to a quota and served.
    admitted,
    /// Requests admitted from memory; they are among the admitted ones.
    sliced,
    /// Holds placed to admit requests from memory.
    slices,
    /// Requests refused because their caller's quota was exhausted.
    exceeded,
    /// Requests that cost nothing because of their path or their caller, or because the meter is off.
    bypassed,
    /// Requests whose caller was missing or invalid, or whose signature was refused.
    rejected,
    /// Requests served although the quota could not be checked.
    failed_open,
    /// Requests refused because the quota could not be checked.
    failed_closed,
    /// Requests settled after their caller had disconnected or their handler had failed.
    abandoned,
    /// Requests whose second phase failed. Their hold stays until it expires.
    unsettled,
    /// Costs reported for operations that have only one phase.
    unasked,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
