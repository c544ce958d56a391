//! The second phase: charging what a request really cost, whatever became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::api::held::Held;
use crate::meter::Meter;
use crate::meter::cost::Price;
use crate::meter::counters::count;
use crate::meter::standing::Standing;

/// What a request of an operation in two phases really cost, as its handler says it.
///
/// The meter puts one among the extensions of the request, to be set while the handler runs: what was set last counts also when
/// the caller leaves or the handler panics. One among the extensions of the response counts before it. Where neither says
/// anything the estimate is charged. It is there too where it counts for nothing: in operations of one phase, for callers who
/// pay nothing, and while the meter is off.
#[derive(Clone, Debug)]
pub struct ActualCost(Arc<Report>);

#[derive(Debug)]
struct Report {
    /// Negative: nothing was said.
    units: AtomicI64,
    at_end: AtomicBool,
}

impl ActualCost {
    /// It cost so much: to be put among the extensions of a response.
    pub fn of(units: i64) -> ActualCost {
        let cost = ActualCost::unsaid();
        cost.set(units);
        cost
    }

    pub(crate) fn unsaid() -> ActualCost {
        ActualCost(Arc::new(Report { units: AtomicI64::new(-1), at_end: AtomicBool::new(false) }))
    }

    /// It cost so much, as far as is known now. A negative number is none.
    pub fn set(&self, units: i64) {
        self.0.units.store(units.max(0), Ordering::Release);
    }

    /// What it cost is known only when the body of the response has been sent: to be settled then, or when the caller leaves.
    pub fn at_end(&self) {
        self.0.at_end.store(true, Ordering::Release);
    }

    fn said(&self) -> Option<i64> {
        Some(self.0.units.load(Ordering::Acquire)).filter(|units| *units >= 0)
    }

    fn is_at_end(&self) -> bool {
        self.0.at_end.load(Ordering::Acquire)
    }
}

/// How much of a payload has come, whose size nobody tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streamed(Arc<(AtomicU64, AtomicBool)>);

impl Streamed {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.0.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// Nothing more comes, or nobody takes it.
    pub(crate) fn end(&self) {
        self.0.1.store(true, Ordering::Release);
    }

    fn bytes(&self) -> u64 {
        self.0.0.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.0.1.load(Ordering::Acquire)
    }
}

/// What is set aside for a request, until it is settled. Dropped before that, because the caller left or the handler panicked, it
/// is settled in the background.
pub(crate) struct Settlement(Option<Box<Open>>);

/// A settlement that is to come.
pub(crate) struct Open {
    pub(crate) meter: Meter,
    pub(crate) held: Held,
    pub(crate) standing: Standing,
    pub(crate) estimate: i64,
    pub(crate) price: Price,
    pub(crate) streamed: Option<Streamed>,
    pub(crate) report: ActualCost,
}

impl Settlement {
    pub(crate) fn new(open: Open) -> Settlement {
        Settlement(Some(Box::new(open)))
    }

    /// Where the handler says what it cost.
    pub(crate) fn report(&self) -> ActualCost {
        self.open().report.clone()
    }

    /// The response says what it cost.
    pub(crate) fn reported(&mut self, report: ActualCost) {
        if let Some(open) = &mut self.0 {
            open.report = report;
        }
    }

    /// How the caller stood when it was admitted.
    pub(crate) fn standing(&self) -> &Standing {
        &self.open().standing
    }

    /// What it cost is not known before the body of the response has been sent.
    pub(crate) fn waits_for_end(&self) -> bool {
        let Open { report, streamed, .. } = self.open();
        report.is_at_end() || streamed.as_ref().is_some_and(|streamed| !streamed.is_over())
    }

    /// Charges what it cost. Whoever leaves meanwhile is charged all the same.
    pub(crate) async fn settle(mut self) -> Standing {
        let open = self.0.take().expect(OPEN);
        let meter = open.meter.clone();
        let standing = open.standing.clone();
        meter.apart(async move { Ok(open.commit().await) }).await.unwrap_or(standing)
    }

    /// The same, without waiting for it.
    pub(crate) fn settle_in_background(mut self) {
        let open = self.0.take().expect(OPEN);
        open.meter.bursar.inner.runtime.clone().spawn(open.commit());
    }

    fn open(&self) -> &Open {
        self.0.as_ref().expect(OPEN)
    }
}

const OPEN: &str = "a settlement is over when it is settled";

impl Open {
    fn actual(&self) -> i64 {
        match (self.report.said(), &self.streamed) {
            (Some(units), _) => units,
            (None, Some(streamed)) => self.price.with_payload(streamed.bytes()),
            (None, None) => self.estimate,
        }
    }

    async fn commit(self) -> Standing {
        let actual = self.actual();
        let Open { meter, held, standing, .. } = self;
        let settled = meter.commit(&standing.caller, held, actual).await;
        settled.unwrap_or_else(|error| {
            count(&meter.inner.counters.unsettled);
            tracing::error!(caller = %standing.caller, %error, actual, "a request could not be settled, and costs nothing");
            standing
        })
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            count(&open.meter.inner.counters.abandoned);
            let actual = open.actual();
            // Dropped with a floor a hold is committed with it, in the background and with patience.
            drop(open.held.with_floor(actual));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_last_counts() {
        let cost = ActualCost::unsaid();
        assert_eq!((cost.said(), cost.is_at_end()), (None, false));
        let same = cost.clone();
        cost.set(5);
        same.set(7);
        same.at_end();
        assert_eq!((cost.said(), cost.is_at_end()), (Some(7), true));
        cost.set(-3);
        assert_eq!(cost.said(), Some(0));
        assert_eq!(ActualCost::of(0).said(), Some(0));
    }
}
