//! The fleet: everything that works in the demo.

use bursar::{Bursar, Error, RunningWorker};
use bursar_wire::problem::{Kind, Problem};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::agents::AGENTS;
use super::orders::Orders;
use super::pace::{Pace, Speed};
use super::workers::workers;
use super::{REASON, company};

/// A running fleet. Dropping it stops agents and orders, but only [`Fleet::stop`] drains the workers.
pub(crate) struct Fleet {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    workers: Vec<RunningWorker>,
}

/// How often expired grants are deleted.
const PURGE_MS: u32 = 60_000;

impl Fleet {
    /// Defines the company if it does not exist, and starts its agents, orders and workers.
    pub(crate) async fn start(bursar: &Bursar, speed: Speed) -> Result<Fleet, Problem> {
        company::define(&bursar.because(REASON), speed).await?;
        let (stop, stopped) = watch::channel(false);
        let pace = Pace::new(speed, stopped);
        let mut fleet = Fleet { stop, tasks: JoinSet::new(), workers: Vec::new() };
        for worker in workers(bursar, speed) {
            match worker.start() {
                Ok(running) => fleet.workers.push(running),
                Err(error) => {
                    fleet.stop().await;
                    return Err(Problem::new(Kind::Internal, format!("a worker of the demo did not start: {error}")));
                }
            }
        }
        for agent in AGENTS {
            fleet.tasks.spawn(agent.run(bursar.clone(), pace.clone()));
        }
        for orders in Orders::ALL {
            fleet.tasks.spawn(orders.run(bursar.clone(), pace.clone()));
        }
        fleet.tasks.spawn(purge_grants(bursar.clone(), pace));
        Ok(fleet)
    }

    /// Stops the fleet: agents release their holds, and workers return their jobs.
    pub(crate) async fn stop(self) {
        let Fleet { stop, mut tasks, workers } = self;
        // There is no receiver if all tasks have ended.
        let _ = stop.send(true);
        while tasks.join_next().await.is_some() {}
        for worker in workers {
            if let Err(error) = worker.drain().await {
                tracing::warn!(%error, "a worker of the demo did not drain; its leases expire by themselves");
            }
        }
    }
}

/// Deletes grants that expired, so that a demo that runs for days does not collect them.
async fn purge_grants(bursar: Bursar, pace: Pace) {
    while pace.wait(PURGE_MS).await {
        match bursar.grants().purge_expired().await {
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(error) => tracing::warn!(%error, "deleting expired grants of the demo failed"),
        }
    }
}
