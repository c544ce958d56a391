//! Clocks. No other module reads the time of the system.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use bursar_core::time::{Span, Time};

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Time;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Time {
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => Time::from_micros(-i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX)),
        }
    }
}

/// A clock that changes only when it is set or moved, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock that shows `now`.
    pub fn at(now: Time) -> ManualClock {
        ManualClock(AtomicI64::new(now.micros()))
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, now: Time) {
        self.0.store(now.micros(), Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: Span) {
        self.0.fetch_add(span.micros(), Ordering::SeqCst);
    }

    /// Moves the clock back.
    pub fn turn_back(&self, span: Span) {
        self.0.fetch_sub(span.micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Time {
        (**self).now()
    }
}
