//! Limits of the server: how much at once, how large, how long.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

/// Bytes of a body, unless a route takes more.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of a body with many jobs or many reports.
pub(crate) const BULK_BYTES_MAX: usize = 32 << 20;
/// Bytes of the head of a request.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Items on one page.
pub(crate) const PAGE_MAX: usize = 1_000;
/// Items on one page unless it is said.
pub(crate) const PAGE_DEFAULT: usize = 100;

/// What can be set of the server's limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; one more waits to be accepted.
    pub connections: usize,
    /// Requests at once; one more is `overloaded`.
    pub requests: usize,
    /// Requests at once that wait for jobs or listen to events, beside those.
    pub waiting: usize,
    /// Bytes of a body; of routes that do not take many items 4 MiB at most.
    pub body_bytes: usize,
    /// How long the head of a request may take, and an idle connection is kept.
    pub head: Duration,
    /// How long a body may take.
    pub body: Duration,
    /// How often a listener to events hears something, and is looked at whether it may still listen.
    pub heartbeat: Duration,
    /// How long a listener may take nothing of what it is sent.
    pub listener: Duration,
    /// How long requests under way may take to end when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 20_000,
            requests: 1_024,
            waiting: 10_000,
            body_bytes: BULK_BYTES_MAX,
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            listener: Duration::from_secs(10),
            drain: Duration::from_secs(30),
        }
    }
}

/// Places for requests.
pub(crate) struct Places {
    requests: Semaphore,
    waiting: Semaphore,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Places {
        Places { requests: Semaphore::new(limits.requests), waiting: Semaphore::new(limits.waiting) }
    }

    /// Places that are taken: by requests, and by those that wait.
    pub(crate) fn taken(&self, limits: &Limits) -> (usize, usize) {
        let taken = |most: usize, places: &Semaphore| most.saturating_sub(places.available_permits());
        (taken(limits.requests, &self.requests), taken(limits.waiting, &self.waiting))
    }

    /// A place for a request, or the advice to come again: it is better than to take all and serve none.
    pub(crate) fn take(&self, route: &Route) -> Result<SemaphorePermit<'_>, Problem> {
        let places = if route.waits { &self.waiting } else { &self.requests };
        places.try_acquire().map_err(|_| {
            Problem::new(Kind::Overloaded, "the server has as many requests as it takes; try again later")
                .retry_after(Duration::from_secs(1))
        })
    }
}
