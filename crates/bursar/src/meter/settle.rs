//! The second phase: charges the actual cost of a request, even if its client disconnected or its handler panicked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::api::held::Held;
use crate::meter::Meter;
use crate::meter::cost::Price;
use crate::meter::counters::count;
use crate::meter::standing::Standing;

/// The actual cost of a request, as its handler reports it. It applies to two-phase operations.
///
/// The meter adds one to the extensions of every request, and the handler sets it while it runs. The value set last is
/// charged, even if the client disconnects or the handler panics. An `ActualCost` in the extensions of the response takes
/// precedence. If neither is set, the estimate is charged, or for a streamed payload the cost of the bytes that arrived.
/// For one-phase operations, callers that are not charged, and while the meter is off, it is ignored.
#[derive(Clone, Debug)]
pub struct ActualCost(Arc<Report>);

#[derive(Debug)]
struct Report {
    /// Negative if not set.
    units: AtomicI64,
    at_end: AtomicBool,
}

impl ActualCost {
    /// Creates a cost of `units`, for the extensions of a response.
    pub fn of(units: i64) -> ActualCost {
        let cost = ActualCost::unset();
        cost.set(units);
        cost
    }

    pub(crate) fn unset() -> ActualCost {
        ActualCost(Arc::new(Report { units: AtomicI64::new(-1), at_end: AtomicBool::new(false) }))
    }

    /// Sets the cost known so far, in units. A negative number counts as zero.
    pub fn set(&self, units: i64) {
        self.0.units.store(units.max(0), Ordering::Release);
    }

    /// Delays the settlement until the body of the response has been sent or the client disconnects, because the cost is
    /// known only then.
    pub fn at_end(&self) {
        self.0.at_end.store(true, Ordering::Release);
    }

    fn get(&self) -> Option<i64> {
        Some(self.0.units.load(Ordering::Acquire)).filter(|units| *units >= 0)
    }

    fn is_at_end(&self) -> bool {
        self.0.at_end.load(Ordering::Acquire)
    }
}

/// The bytes received so far of a payload whose size is not known in advance, and whether it has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamedBytes(Arc<(AtomicU64, AtomicBool)>);

impl StreamedBytes {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.0.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// Records that the payload has ended, or is not read any further.
    pub(crate) fn end(&self) {
        self.0.1.store(true, Ordering::Release);
    }

    fn bytes(&self) -> u64 {
        self.0.0.load(Ordering::Acquire)
    }

    fn has_ended(&self) -> bool {
        self.0.1.load(Ordering::Acquire)
    }
}

/// The held estimate of a request, until it is settled. If it is dropped before, because the client disconnected or the
/// handler panicked, it is settled in the background.
pub(crate) struct Settlement(Option<Box<PendingSettlement>>);

/// What is needed to settle a request.
pub(crate) struct PendingSettlement {
    pub(crate) meter: Meter,
    pub(crate) held: Held,
    pub(crate) standing: Standing,
    pub(crate) estimate: i64,
    pub(crate) price: Price,
    pub(crate) streamed: Option<StreamedBytes>,
    pub(crate) report: ActualCost,
}

impl Settlement {
    pub(crate) fn new(pending: PendingSettlement) -> Settlement {
        Settlement(Some(Box::new(pending)))
    }

    /// Returns the handle with which the handler reports the actual cost.
    pub(crate) fn report(&self) -> ActualCost {
        self.pending().report.clone()
    }

    /// Uses the actual cost that the response reports.
    pub(crate) fn set_report(&mut self, report: ActualCost) {
        if let Some(pending) = &mut self.0 {
            pending.report = report;
        }
    }

    /// Returns what was left of the caller's quota when the request was admitted.
    pub(crate) fn standing(&self) -> &Standing {
        &self.pending().standing
    }

    /// Returns whether the cost is known only after the body of the response has been sent.
    pub(crate) fn waits_for_end(&self) -> bool {
        let PendingSettlement { report, streamed, .. } = self.pending();
        report.is_at_end() || streamed.as_ref().is_some_and(|streamed| !streamed.has_ended())
    }

    /// Charges the actual cost, even if the client disconnects meanwhile. Returns what is left of the quota.
    pub(crate) async fn settle(mut self) -> Standing {
        let pending = self.0.take().expect(PENDING);
        let meter = pending.meter.clone();
        let standing = pending.standing.clone();
        meter.run_to_end(async move { Ok(pending.commit().await) }).await.unwrap_or(standing)
    }

    /// Charges the actual cost without waiting for the result.
    pub(crate) fn settle_in_background(mut self) {
        let pending = self.0.take().expect(PENDING);
        pending.meter.bursar.inner.runtime.clone().spawn(pending.commit());
    }

    fn pending(&self) -> &PendingSettlement {
        self.0.as_ref().expect(PENDING)
    }
}

const PENDING: &str = "settling consumes the settlement";

impl PendingSettlement {
    fn actual(&self) -> i64 {
        match (self.report.get(), &self.streamed) {
            (Some(units), _) => units,
            (None, Some(streamed)) => self.price.with_payload(streamed.bytes()),
            (None, None) => self.estimate,
        }
    }

    async fn commit(self) -> Standing {
        let actual = self.actual();
        let PendingSettlement { meter, held, standing, .. } = self;
        let settled = meter.commit(&standing.caller, held, actual).await;
        settled.unwrap_or_else(|error| {
            count(&meter.inner.counters.unsettled);
            tracing::error!(caller = %standing.caller, %error, actual, "settling a request failed; after a transient error it is tried again in the background");
            standing
        })
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if let Some(pending) = self.0.take() {
            count(&pending.meter.inner.counters.abandoned);
            let actual = pending.actual();
            // Dropping a hold with a floor commits the floor in the background, with retries.
            drop(pending.held.with_floor(actual));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_set_last_applies() {
        let cost = ActualCost::unset();
        assert_eq!((cost.get(), cost.is_at_end()), (None, false));
        let same = cost.clone();
        cost.set(5);
        same.set(7);
        same.at_end();
        assert_eq!((cost.get(), cost.is_at_end()), (Some(7), true));
        cost.set(-3);
        assert_eq!(cost.get(), Some(0));
        assert_eq!(ActualCost::of(0).get(), Some(0));
    }
}
