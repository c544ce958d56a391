//! The leases of a worker, and the heartbeats that extend them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::bounds::ITEMS_MAX;
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, HeartbeatItem, Order};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::context::Stop;
use crate::reports::WeakReports;
use crate::source::{LeasedJob, NotTaken, Source};

/// The current leases of a worker.
#[derive(Default)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    /// Signals that a new lease needs a heartbeat before the planned one.
    earlier: Notify,
}

#[derive(Default)]
struct Table {
    leases: HashMap<JobId, Lease>,
    /// When the next heartbeat is planned.
    planned: Option<Instant>,
}

struct Lease {
    fence: u64,
    length: Duration,
    /// When the next heartbeat is due.
    beat_at: Instant,
    /// When the lease expires unless a heartbeat extends it.
    expires_at: Instant,
    /// Whether a handler has started.
    started: bool,
    stop: watch::Sender<Option<Stop>>,
}

impl Lease {
    /// Plans the next heartbeat after a third of the lease, so that two heartbeats may fail.
    fn renew(&mut self, now: Instant) {
        self.beat_at = now + self.length / 3;
        self.expires_at = now + self.length;
    }

    /// Tells the handler to stop, unless it already has a reason that is at least as strong.
    fn stop(&self, stop: Stop) {
        self.stop.send_if_modified(|known| {
            let stronger = known.is_none_or(|known| (known as u8) < (stop as u8));
            if stronger {
                *known = Some(stop);
            }
            stronger
        });
    }
}

impl Leases {
    /// Adds new leases, whose heartbeats are sent from now on.
    pub(crate) fn add(&self, jobs: &[LeasedJob]) {
        let now = Instant::now();
        let mut table = self.table();
        let mut soonest: Option<Instant> = None;
        for job in jobs {
            let mut lease = Lease {
                fence: job.fence,
                length: job.lease,
                beat_at: now,
                expires_at: now,
                started: false,
                stop: watch::Sender::new(None),
            };
            lease.renew(now);
            soonest = Some(soonest.map_or(lease.beat_at, |known| known.min(lease.beat_at)));
            // A job whose lease expired unnoticed may be leased to the same worker again.
            if let Some(expired) = table.leases.insert(job.id, lease) {
                expired.stop(Stop::Lost);
            }
        }
        if soonest.is_some_and(|soonest| table.planned.is_none_or(|planned| soonest < planned)) {
            self.earlier.notify_one();
        }
    }

    /// Marks a job as started and returns the stop signal of its handler; `None` if the worker has lost the lease.
    pub(crate) fn start(&self, job: &LeasedJob) -> Option<watch::Receiver<Option<Stop>>> {
        let mut table = self.table();
        let lease = table.leases.get_mut(&job.id).filter(|lease| lease.fence == job.fence)?;
        lease.started = true;
        Some(lease.stop.subscribe())
    }

    /// Removes a lease that has ended.
    pub(crate) fn end(&self, job: JobId, fence: u64) {
        let mut table = self.table();
        if table.leases.get(&job).is_some_and(|lease| lease.fence == fence) {
            table.leases.remove(&job);
        }
    }

    /// Tells every running handler to stop.
    pub(crate) fn stop_all(&self, stop: Stop) {
        self.table().leases.values().filter(|lease| lease.started).for_each(|lease| lease.stop(stop));
    }

    /// Sends heartbeats when they are due; never returns.
    pub(crate) async fn send_heartbeats(&self, source: &Arc<dyn Source>, reports: &WeakReports) {
        loop {
            match self.plan_next() {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.earlier.notified() => continue,
                },
                None => {
                    self.earlier.notified().await;
                    continue;
                }
            }
            let due = self.take_due(Instant::now());
            for beats in due.chunks(ITEMS_MAX) {
                self.send_beats(source, reports, beats).await;
            }
        }
    }

    fn plan_next(&self) -> Option<Instant> {
        let mut table = self.table();
        table.planned = table.leases.values().map(|lease| lease.beat_at).min();
        table.planned
    }

    /// Returns the heartbeats that are due now or soon, so that one call carries many of them.
    fn take_due(&self, now: Instant) -> Vec<HeartbeatItem> {
        let mut table = self.table();
        let due = table.leases.iter_mut().filter(|(_, lease)| lease.beat_at <= now + lease.length / 10);
        due.map(|(job, lease)| {
            // This is the time of the retry if the call fails.
            lease.beat_at = now + lease.length / 6;
            HeartbeatItem::new(*job, lease.fence)
        })
        .collect()
    }

    async fn send_beats(&self, source: &Arc<dyn Source>, reports: &WeakReports, beats: &[HeartbeatItem]) {
        let sent_at = Instant::now();
        let answers = match source.heartbeat(beats.to_vec()).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(%error, jobs = beats.len(), "heartbeats failed, retrying");
                self.drop_expired(Instant::now());
                return;
            }
        };
        for (beat, answer) in beats.iter().zip(answers) {
            let returned = self.apply_answer(beat, &answer, sent_at);
            if let Some(item) = returned {
                reports.send(item).await;
            }
        }
    }

    /// Applies the answer to a heartbeat; returns the end of a lease that the worker must return unstarted.
    fn apply_answer(&self, beat: &HeartbeatItem, answer: &Result<Order, NotTaken>, sent_at: Instant) -> Option<Finish> {
        let mut table = self.table();
        let lease = table.leases.get_mut(&beat.job).filter(|lease| lease.fence == beat.fence)?;
        let started = lease.started;
        match answer {
            Ok(order) => {
                lease.renew(sent_at);
                match order {
                    Order::Cancel if started => lease.stop(Stop::Cancelled),
                    Order::Cancel | Order::Drain if !started => {
                        table.leases.remove(&beat.job);
                        return Some(Finish { job: beat.job, fence: beat.fence, end: End::Return });
                    }
                    _ => {}
                }
            }
            Err(NotTaken::Lost(_)) => {
                tracing::info!(job = %beat.job, fence = beat.fence, "lease lost");
                lease.stop(Stop::Lost);
                // The end of the job is still reported, because its usage is charged.
                table.leases.remove(&beat.job);
            }
            Err(NotTaken::Refused(why)) => tracing::warn!(job = %beat.job, why, "heartbeat refused"),
        }
        None
    }

    /// Removes leases that expired because no heartbeat got through.
    fn drop_expired(&self, now: Instant) {
        let mut table = self.table();
        table.leases.retain(|job, lease| {
            let expired = lease.expires_at <= now;
            if expired {
                tracing::warn!(%job, "lease expired, no heartbeat was confirmed in time");
                lease.stop(Stop::Lost);
            }
            !expired
        });
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
