//! Spend of a lost lease that was told in a caller's own transaction: it is charged also where that is rolled back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bursar_core::answer::{Answer, Outcome};
use bursar_core::job::Finish;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Op, Request};

use crate::api::instance::Bursar;
use crate::error::Error;
use crate::maintenance::retry_on_drop;

/// A lease that was lost, with what was spent under it. In the transaction in which that was told it is charged already, and with
/// its rollback it would be gone.
///
/// [`LostLease::bill`] charges it outside, and says when that is durable. Dropped without that it is charged in the background.
/// Whatever is done, each lease is charged once: also if the transaction is committed after all.
#[derive(Clone)]
pub struct LostLease(Arc<Spent>);

struct Spent {
    bursar: Bursar,
    item: Finish,
    refusal: Refusal,
    /// It is charged, or somebody else sees to it.
    settled: AtomicBool,
}

impl LostLease {
    /// The leases of a request in a caller's own transaction that were lost, and whose spend was charged there.
    pub(crate) fn of(bursar: &Bursar, request: &Request, outcome: &Outcome) -> Vec<LostLease> {
        let (Op::Finish { items }, Answer::Finished(answers)) = (&request.op, &outcome.answer) else {
            return Vec::new();
        };
        if request.dry_run {
            return Vec::new();
        }
        let lost = items.iter().zip(answers).filter_map(|(item, answer)| match answer {
            Err(refusal @ Refusal::LeaseLost { billed: true, .. }) => Some((item.clone(), refusal.clone())),
            _ => None,
        });
        let spent = lost.map(|(item, refusal)| {
            let bursar = bursar.in_context(request.context.clone());
            LostLease(Arc::new(Spent { bursar, item, refusal, settled: AtomicBool::new(false) }))
        });
        spent.collect()
    }

    /// Why the lease is no good.
    pub fn refusal(&self) -> &Refusal {
        &self.0.refusal
    }

    /// Charges what was spent, once, outside the transaction in which it was told, which must have ended: until then it is waited
    /// for its locks.
    pub async fn bill(&self) -> Result<(), Error> {
        if !self.0.settled.load(Ordering::Acquire) {
            charge(&self.0.bursar, &self.0.item).await?;
            self.settled();
        }
        Ok(())
    }

    /// Nothing is left to do: the transaction was committed.
    pub(crate) fn settled(&self) {
        self.0.settled.store(true, Ordering::Release);
    }
}

impl fmt::Debug for LostLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostLease").field("item", &self.0.item).field("refusal", &self.0.refusal).finish()
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        if *self.settled.get_mut() {
            return;
        }
        let (bursar, item) = (self.bursar.clone(), self.item.clone());
        let runtime = bursar.inner.runtime.clone();
        runtime.spawn(charge_dropped(bursar, Owed(Some(item))));
    }
}

/// The lease was lost before: so the same end of it changes nothing but the bill.
async fn charge(bursar: &Bursar, item: &Finish) -> Result<(), Error> {
    let job = bursar.jobs().find(item.job).await?;
    // Where the lease was taken from its worker in the transaction itself, a rollback gave it back: it is the worker's to end.
    if job.is_some_and(|job| job.life.lease.is_some() && job.life.fence == item.fence) {
        return Ok(());
    }
    match bursar.jobs().finish(item.clone()).await {
        Err(error) if !(error.is_lease_lost() || error.is_unknown_job()) => Err(error),
        _ => Ok(()),
    }
}

/// What is still to be charged. A runtime that ends drops it, also before it has begun.
struct Owed(Option<Finish>);

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(item) = &self.0 {
            tracing::error!(?item, "what a lost lease spent was not charged: Bursar's runtime has ended");
        }
    }
}

/// Charges what nobody else will.
async fn charge_dropped(bursar: Bursar, mut owed: Owed) {
    let item = owed.0.clone().expect("it was just dropped");
    let again = |error: &Error| {
        tracing::warn!(job = %item.job, fence = item.fence, %error, "what a lost lease spent is not charged yet; it is tried again");
    };
    let charged = retry_on_drop::attempts(|| charge(&bursar, &item), again).await;
    owed.0 = None;
    if let Err(error) = charged {
        tracing::error!(?item, %error, "what a lost lease spent could not be charged");
    }
}
