//! Limits of the server on concurrency, sizes and durations.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::MinPace;
use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

/// Maximum size of a body in bytes, unless the route sets another.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;
/// Maximum size of a body with many jobs or reports, in bytes.
pub(crate) const BULK_BYTES_MAX: usize = 32 << 20;
/// Maximum size of the request line and headers, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes reserved for one page of a list: its rows, and the response made of them.
pub(crate) const PAGE_ANSWER_BYTES: usize = 2 * bursar::bounds::PAGE_BYTES_MAX;
/// Bytes reserved for one item with its payload and result.
pub(crate) const ITEM_ANSWER_BYTES: usize = 3 * bursar::bounds::PAYLOAD_BYTES_MAX;
/// Bytes reserved for one job that is handed to a worker: its row, and the response made of it.
pub(crate) const LEASED_ANSWER_BYTES: usize = 2 * (bursar::bounds::PAYLOAD_BYTES_MAX + (64 << 10));
/// Maximum number of items on a page.
pub(crate) const PAGE_MAX: usize = 1_000;
/// Default number of items on a page.
pub(crate) const PAGE_DEFAULT: usize = 100;

/// The limits that can be configured.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of open connections. A few more are accepted, on which only health routes are served.
    pub connections: usize,
    /// Maximum number of requests running at once; further ones fail with `overloaded`.
    pub requests: usize,
    /// Maximum number of requests that wait for jobs or listen to events, in addition to `requests`.
    pub waiting: usize,
    /// Maximum size of a body in bytes. Routes that do not take many items accept at most 4 MiB.
    pub body_bytes: usize,
    /// How long receiving a request's head may take, and how long an idle connection is kept.
    pub head: Duration,
    /// How long receiving a whole body may take.
    pub body: Duration,
    /// Interval at which an event stream sends a heartbeat and checks that its token is still valid.
    pub heartbeat: Duration,
    /// Interval at which blobs that nothing needs any more are collected.
    pub collection: Duration,
    /// How long the transfer of a body or response may stand still.
    pub stall: Duration,
    /// Minimum average transfer rate in bytes per second, required once `stall` has passed.
    pub rate: usize,
    /// Maximum bytes in flight: bodies, responses and events in memory at once.
    pub bytes: usize,
    /// Maximum bytes in flight of one principal.
    pub principal_bytes: usize,
    /// Maximum number of queues with metrics of their own, from 0 to 1,000. The others share theirs.
    pub metric_queues: usize,
    /// How long a shutdown waits for running requests.
    pub drain: Duration,
}

impl Limits {
    /// Returns the minimum pace of transfers.
    pub(crate) fn min_pace(&self) -> MinPace {
        MinPace { stall: self.stall, rate: self.rate }
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
            collection: Duration::from_secs(60),
            stall: Duration::from_secs(10),
            rate: 8 << 10,
            bytes: 128 << 20,
            principal_bytes: 32 << 20,
            metric_queues: 100,
            drain: Duration::from_secs(30),
        }
    }
}

/// Slots for requests that run at once: one pool for ordinary requests, one for waiting ones, one for health routes.
pub(crate) struct RequestSlots {
    requests: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    health: Arc<Semaphore>,
}

/// Maximum number of health and metrics requests at once. Their own pool keeps them available on an overloaded server.
const HEALTH_MAX: usize = 64;

impl RequestSlots {
    pub(crate) fn new(limits: &Limits) -> RequestSlots {
        let [requests, waiting, health] =
            [limits.requests, limits.waiting, HEALTH_MAX].map(|most| Arc::new(Semaphore::new(most)));
        RequestSlots { requests, waiting, health }
    }

    /// Returns how many slots are in use by ordinary and by waiting requests.
    pub(crate) fn in_use(&self, limits: &Limits) -> (usize, usize) {
        let in_use = |most: usize, slots: &Semaphore| most.saturating_sub(slots.available_permits());
        (in_use(limits.requests, &self.requests), in_use(limits.waiting, &self.waiting))
    }

    /// Takes a slot for a request of a route, or fails at once with `overloaded`.
    pub(crate) fn take(&self, route: &Route) -> Result<OwnedSemaphorePermit, Problem> {
        let (slots, limit) = match (route.health, route.waits) {
            (true, _) => (&self.health, "health requests"),
            (false, true) => (&self.waiting, "waiting requests (limits.waiting)"),
            (false, false) => (&self.requests, "requests (limits.requests)"),
        };
        slots.clone().try_acquire_owned().map_err(|_| {
            Problem::new(
                Kind::Overloaded,
                format!("the server has reached its limit on {limit}; nothing was changed; retry later"),
            )
            .retry_after(Duration::from_secs(1))
        })
    }
}
