//! The speed of the fleet, and the signal that stops it.

use std::time::Duration;

use bursar::Span;
use tokio::sync::watch;

/// How many times faster than usual the fleet works. Tests use more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speed(pub(crate) u32);

impl Speed {
    /// The speed for people who watch.
    pub(crate) const USUAL: Speed = Speed(1);

    /// Returns how long something takes that usually takes `millis`.
    pub(super) fn millis(self, millis: u32) -> Duration {
        Duration::from_millis(u64::from(millis)) / self.0
    }

    /// Returns how long something takes that usually takes `secs`, for settings of Bursar.
    pub(super) fn secs(self, secs: u64) -> Span {
        Span::from(Duration::from_secs(secs) / self.0)
    }

    /// Returns the cron expression of something that usually happens every minute.
    pub(super) fn every_minute(self) -> &'static str {
        if self == Speed::USUAL { "* * * * *" } else { "* * * * * *" }
    }
}

/// The pace of one task of the fleet.
#[derive(Clone)]
pub(super) struct Pace {
    pub(super) speed: Speed,
    stop: watch::Receiver<bool>,
}

impl Pace {
    pub(super) fn new(speed: Speed, stop: watch::Receiver<bool>) -> Pace {
        Pace { speed, stop }
    }

    /// Waits; returns whether the fleet goes on. Returns early if the fleet is stopped.
    pub(super) async fn wait(&self, millis: u32) -> bool {
        let mut stop = self.stop.clone();
        // A fleet that is dropped has stopped as well.
        let stopped = async { stop.wait_for(|stop| *stop).await.is_ok() };
        tokio::time::timeout(self.speed.millis(millis), stopped).await.is_err()
    }
}
