//! The leases that a worker has, and the heartbeats that keep them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::bounds::ITEMS_MAX;
use bursar_core::id::JobId;
use bursar_core::job::{Beat, End, Finish, Order};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::context::Stop;
use crate::reports::WeakReports;
use crate::source::{LeasedJob, NotTaken, Source};

#[derive(Default)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    sooner: Notify,
}

#[derive(Default)]
struct Table {
    held: HashMap<JobId, Held>,
    /// When the next heartbeat is planned.
    planned: Option<Instant>,
}

struct Held {
    fence: u64,
    length: Duration,
    beat_at: Instant,
    /// Without a heartbeat it has lapsed by then.
    lapses_at: Instant,
    started: bool,
    stop: watch::Sender<Option<Stop>>,
}

impl Held {
    /// A third of a lease: two heartbeats may be lost.
    fn renew(&mut self, now: Instant) {
        self.beat_at = now + self.length / 3;
        self.lapses_at = now + self.length;
    }

    fn tell(&self, stop: Stop) {
        let worse = |known: &Option<Stop>| match known {
            None => true,
            Some(known) => (*known as u8) < (stop as u8),
        };
        self.stop.send_if_modified(|known| {
            let worse = worse(known);
            if worse {
                *known = Some(stop);
            }
            worse
        });
    }
}

impl Leases {
    /// Takes leases on; from now on they are kept alive.
    pub(crate) fn add(&self, jobs: &[LeasedJob]) {
        let now = Instant::now();
        let mut table = self.table();
        let mut soonest: Option<Instant> = None;
        for job in jobs {
            let mut held = Held {
                fence: job.fence,
                length: job.lease,
                beat_at: now,
                lapses_at: now,
                started: false,
                stop: watch::Sender::new(None),
            };
            held.renew(now);
            soonest = Some(soonest.map_or(held.beat_at, |known| known.min(held.beat_at)));
            // A job that was lost without a word can come back to the same worker.
            if let Some(lost) = table.held.insert(job.id, held) {
                lost.tell(Stop::Lost);
            }
        }
        if soonest.is_some_and(|soonest| table.planned.is_none_or(|planned| soonest < planned)) {
            self.sooner.notify_one();
        }
    }

    /// A handler begins with a job; `None` if the job is not this worker's any more.
    pub(crate) fn start(&self, job: &LeasedJob) -> Option<watch::Receiver<Option<Stop>>> {
        let mut table = self.table();
        let held = table.held.get_mut(&job.id).filter(|held| held.fence == job.fence)?;
        held.started = true;
        Some(held.stop.subscribe())
    }

    /// A lease is over.
    pub(crate) fn end(&self, job: JobId, fence: u64) {
        let mut table = self.table();
        if table.held.get(&job).is_some_and(|held| held.fence == fence) {
            table.held.remove(&job);
        }
    }

    /// Every handler is to let go of its job.
    pub(crate) fn tell_all(&self, stop: Stop) {
        self.table().held.values().filter(|held| held.started).for_each(|held| held.tell(stop));
    }

    /// Keeps leases alive for ever.
    pub(crate) async fn keep(&self, source: &Arc<dyn Source>, reports: &WeakReports) {
        loop {
            match self.plan() {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.sooner.notified() => continue,
                },
                None => {
                    self.sooner.notified().await;
                    continue;
                }
            }
            let due = self.due(Instant::now());
            for beats in due.chunks(ITEMS_MAX) {
                self.beat(source, reports, beats).await;
            }
        }
    }

    fn plan(&self) -> Option<Instant> {
        let mut table = self.table();
        table.planned = table.held.values().map(|held| held.beat_at).min();
        table.planned
    }

    /// Those whose heartbeat is due, with those who would be next: one call for many.
    fn due(&self, now: Instant) -> Vec<Beat> {
        let mut table = self.table();
        let due = table.held.iter_mut().filter(|(_, held)| held.beat_at <= now + held.length / 10);
        due.map(|(job, held)| {
            // Asked again soon if the answer does not come.
            held.beat_at = now + held.length / 6;
            Beat { job: *job, fence: held.fence }
        })
        .collect()
    }

    async fn beat(&self, source: &Arc<dyn Source>, reports: &WeakReports, beats: &[Beat]) {
        let asked = Instant::now();
        let answers = match source.heartbeat(beats.to_vec()).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(%error, jobs = beats.len(), "heartbeats were not taken; they are tried again");
                self.lapse(Instant::now());
                return;
            }
        };
        for (beat, answer) in beats.iter().zip(answers) {
            let back = self.answered(beat, &answer, asked);
            if let Some(item) = back {
                reports.send(item).await;
            }
        }
    }

    /// Takes an answer in; a lease that is to be handed back is told.
    fn answered(&self, beat: &Beat, answer: &Result<Order, NotTaken>, asked: Instant) -> Option<Finish> {
        let mut table = self.table();
        let held = table.held.get_mut(&beat.job).filter(|held| held.fence == beat.fence)?;
        let started = held.started;
        match answer {
            Ok(order) => {
                held.renew(asked);
                match order {
                    Order::Cancel if started => held.tell(Stop::Cancelled),
                    // What has not begun can be let go of at once.
                    Order::Cancel | Order::Drain if !started => {
                        table.held.remove(&beat.job);
                        return Some(Finish { job: beat.job, fence: beat.fence, end: End::Return });
                    }
                    _ => {}
                }
            }
            Err(NotTaken::Lost(_)) => {
                tracing::info!(job = %beat.job, fence = beat.fence, "the lease is lost");
                held.tell(Stop::Lost);
                // What was reported of it is still sent: it may be charged.
                table.held.remove(&beat.job);
            }
            Err(NotTaken::Refused(why)) => tracing::warn!(job = %beat.job, why, "a heartbeat was refused"),
        }
        None
    }

    /// Nobody could be told in time that these are still worked on: they count as lost.
    fn lapse(&self, now: Instant) {
        let mut table = self.table();
        table.held.retain(|job, held| {
            let lost = held.lapses_at <= now;
            if lost {
                tracing::warn!(%job, "the lease has lapsed without an answer to a heartbeat");
                held.tell(Stop::Lost);
            }
            !lost
        });
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
