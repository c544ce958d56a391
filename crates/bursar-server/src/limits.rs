//! Limits of the server: how much at once, how large, how long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::Pace;
use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

/// Bytes of a body, unless a route takes more.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of a body with many jobs or many reports.
pub(crate) const BULK_BYTES_MAX: usize = 32 << 20;
/// Bytes of the head of a request.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Room that is made for a page of a list: what is read, and what is answered.
pub(crate) const PAGE_ANSWER_BYTES: usize = 2 * bursar::bounds::PAGE_BYTES_MAX;
/// Room that is made for an item with its payload and its result.
pub(crate) const ITEM_ANSWER_BYTES: usize = 3 * bursar::bounds::PAYLOAD_BYTES_MAX;
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
    /// How long a body may take in all.
    pub body: Duration,
    /// How often a listener to events hears something, and is looked at whether it may still listen.
    pub heartbeat: Duration,
    /// How long a connection may move nothing of a body or an answer.
    pub stall: Duration,
    /// Bytes a second that it must move on average once that long has passed.
    pub rate: usize,
    /// Bytes in flight: bodies, answers and events that the server keeps at once.
    pub bytes: usize,
    /// Bytes in flight of one principal.
    pub principal_bytes: usize,
    /// How long requests under way may take to end when the server stops.
    pub drain: Duration,
}

impl Limits {
    /// The least that a connection must move.
    pub(crate) fn pace(&self) -> Pace {
        Pace { stall: self.stall, rate: self.rate }
    }
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
            stall: Duration::from_secs(10),
            rate: 8 << 10,
            bytes: 128 << 20,
            principal_bytes: 32 << 20,
            drain: Duration::from_secs(30),
        }
    }
}

/// Places for requests.
pub(crate) struct Places {
    requests: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    health: Arc<Semaphore>,
}

/// Requests for health and metrics at once. They have places of their own, so that a full server can still be looked at.
const HEALTH_MAX: usize = 64;

impl Places {
    pub(crate) fn new(limits: &Limits) -> Places {
        let [requests, waiting, health] =
            [limits.requests, limits.waiting, HEALTH_MAX].map(|most| Arc::new(Semaphore::new(most)));
        Places { requests, waiting, health }
    }

    /// Places that are taken: by requests, and by those that wait.
    pub(crate) fn taken(&self, limits: &Limits) -> (usize, usize) {
        let taken = |most: usize, places: &Semaphore| most.saturating_sub(places.available_permits());
        (taken(limits.requests, &self.requests), taken(limits.waiting, &self.waiting))
    }

    /// A place for a request, or the advice to come again: it is better than to take all and serve none.
    pub(crate) fn take(&self, route: &Route) -> Result<OwnedSemaphorePermit, Problem> {
        let places = match (route.health, route.waits) {
            (true, _) => &self.health,
            (false, true) => &self.waiting,
            (false, false) => &self.requests,
        };
        places.clone().try_acquire_owned().map_err(|_| {
            Problem::new(Kind::Overloaded, "the server has as many requests as it takes; try again later")
                .retry_after(Duration::from_secs(1))
        })
    }
}
