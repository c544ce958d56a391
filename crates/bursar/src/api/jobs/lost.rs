//! Usage reported under a lost lease in a caller's own transaction: it is charged even if that transaction is rolled back.

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

/// A lost lease and the usage reported under it in a caller's own transaction. The usage is charged in that transaction,
/// so a rollback would undo the charge.
///
/// [`LostLease::bill`] charges the usage outside the transaction and returns when that is durable. If the last clone is
/// dropped before, a background task charges it. Each lease is charged once, even if the transaction commits after all.
#[derive(Clone)]
pub struct LostLease(Arc<ReportedUsage>);

struct ReportedUsage {
    bursar: Bursar,
    item: Finish,
    refusal: Refusal,
    /// Whether the usage is charged: by the transaction, which has committed, or outside of it.
    settled: AtomicBool,
}

impl LostLease {
    /// Returns the lost leases of a request in a caller's own transaction whose usage was charged there.
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
        let leases = lost.map(|(item, refusal)| {
            let bursar = bursar.in_context(request.context.clone());
            LostLease(Arc::new(ReportedUsage { bursar, item, refusal, settled: AtomicBool::new(false) }))
        });
        leases.collect()
    }

    /// Returns why the lease is lost.
    pub fn refusal(&self) -> &Refusal {
        &self.0.refusal
    }

    /// Charges the usage once, outside the caller's transaction. Call it after that transaction has ended; before, it would
    /// wait for the transaction's locks.
    pub async fn bill(&self) -> Result<(), Error> {
        if !self.0.settled.load(Ordering::Acquire) {
            charge(&self.0.bursar, &self.0.item).await?;
            self.mark_settled();
        }
        Ok(())
    }

    /// Records that the usage is charged, so that nothing is left to do.
    pub(crate) fn mark_settled(&self) {
        self.0.settled.store(true, Ordering::Release);
    }
}

impl fmt::Debug for LostLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostLease").field("item", &self.0.item).field("refusal", &self.0.refusal).finish()
    }
}

impl Drop for ReportedUsage {
    fn drop(&mut self) {
        if *self.settled.get_mut() {
            return;
        }
        let (bursar, item) = (self.bursar.clone(), self.item.clone());
        let runtime = bursar.inner.runtime.clone();
        runtime.spawn(charge_dropped(bursar, Uncharged(Some(item))));
    }
}

/// Charges the usage by ending the lease again. Because the lease is lost, this changes nothing else.
async fn charge(bursar: &Bursar, item: &Finish) -> Result<(), Error> {
    let job = bursar.jobs().find(item.job).await?;
    // If the rolled-back transaction itself took the lease away, the lease is valid again and its worker ends it.
    if job.is_some_and(|job| job.life.lease.is_some() && job.life.fence == item.fence) {
        return Ok(());
    }
    match bursar.jobs().finish(item.clone()).await {
        Err(error) if !(error.is_lease_lost() || error.is_unknown_job()) => Err(error),
        _ => Ok(()),
    }
}

/// Usage that is still to be charged. A runtime that shuts down drops it, which is logged.
struct Uncharged(Option<Finish>);

impl Drop for Uncharged {
    fn drop(&mut self) {
        if let Some(item) = &self.0 {
            tracing::error!(?item, "usage of a lost lease not charged: Bursar's runtime has shut down");
        }
    }
}

/// Charges the usage of a dropped [`LostLease`], retrying transient errors.
async fn charge_dropped(bursar: Bursar, mut uncharged: Uncharged) {
    let item = uncharged.0.clone().expect("the item is taken only at the end");
    let on_retry = |error: &Error| {
        tracing::warn!(job = %item.job, fence = item.fence, %error, "charging the usage of a lost lease failed, retrying");
    };
    let charged = retry_on_drop::retry_transient(|| charge(&bursar, &item), on_retry).await;
    uncharged.0 = None;
    if let Err(error) = charged {
        tracing::error!(?item, %error, "usage of a lost lease not charged");
    }
}
