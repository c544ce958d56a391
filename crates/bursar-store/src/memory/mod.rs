//! An engine that keeps everything in maps: for tests, and as the simplest model of what every engine does.

mod check;
mod forget;
mod jobs;
mod maintain;
mod read;
mod rows;
#[cfg(test)]
mod zones;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bursar_core::event::Batch;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::live::LiveCharge;
use bursar_core::payload::Payload;
use bursar_core::request::CheckedRequest;
use bursar_core::scope::{Posting, ScopeState};
use bursar_core::state::{CostKey, HeldKey, IdempotencyRowKey, JobKey, KeyRow, QueueKey, ScheduleKey, ScopeKey, Tally};
use bursar_core::time::Time;
use futures_util::FutureExt;

use self::rows::MemoryRows;
use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;
use crate::store::{Commit, LockPolicy, Notify, RequestOutcome, Setup};
use crate::transaction::rows::Rows;
use crate::transaction::{self, BatchStart};

/// The most postings that one transaction rolls up, oldest first; the same on every engine.
pub(crate) const ROLL_UP_STEP: usize = 10_000;

/// A store in memory. Its data is lost when it is dropped.
pub struct MemoryStore {
    setup: Setup,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

/// The tables, one map each.
#[derive(Clone, Default, Debug, PartialEq)]
pub(crate) struct Tables {
    pub(crate) scopes: BTreeMap<ScopeKey, ScopeState>,
    pub(crate) holds: BTreeMap<HoldId, Hold>,
    pub(crate) grants: BTreeMap<GrantId, Grant>,
    pub(crate) keys: BTreeMap<IdempotencyRowKey, KeyRow>,
    pub(crate) job_keys: BTreeMap<JobKey, JobId>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) queues: BTreeMap<QueueKey, QueueState>,
    pub(crate) schedules: BTreeMap<ScheduleKey, Schedule>,
    pub(crate) tallies: BTreeMap<Tally, i64>,
    pub(crate) costs: BTreeMap<CostKey, i64>,
    pub(crate) held: BTreeMap<HeldKey, i128>,
    pub(crate) live: BTreeMap<(ScopeKey, Time, HoldId), LiveCharge>,
    pub(crate) postings: BTreeMap<(ScopeKey, Time, u64), Posting>,
    pub(crate) rollups: BTreeMap<ScopeKey, i64>,
    pub(crate) payloads: BTreeMap<u128, Payload>,
    pub(crate) journal: BTreeMap<u64, Batch>,
    /// The instant of the latest decision. No later decision has an earlier instant.
    pub(crate) latest: Time,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(setup: Setup) -> MemoryStore {
        let clock = setup.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        MemoryStore { setup, clock, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Tables {
    fn next_position(&self) -> u64 {
        self.journal.last_key_value().map_or(1, |(position, batch)| position + batch.count() as u64)
    }

    fn last_event_at(&self) -> Option<Time> {
        self.journal.last_key_value().map(|(_, batch)| batch.at)
    }

    /// Returns a copy of a batch with its large payloads.
    fn with_payloads(&self, batch: &Batch) -> Batch {
        let mut batch = batch.clone();
        batch.attach_payloads(|id| self.payloads.get(&id).cloned());
        batch
    }
}

#[async_trait]
impl Commit for MemoryStore {
    async fn commit(&self, requests: &[Arc<CheckedRequest>], _: LockPolicy) -> Result<Vec<RequestOutcome>, StoreError> {
        let mut tables = self.tables();
        let start = BatchStart { floor: tables.latest, batch: BatchId(u128::from(tables.next_position())) };
        let mut ids = self.setup.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut rows = MemoryRows { tables: &mut tables, clock: &*self.clock };
        let requests: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
        let work = async {
            let (mut ws, outcomes) =
                transaction::run(&mut rows, &requests, &self.setup.rules, start, &mut *ids).await?;
            let batch = ws.take_batch();
            rows.store(&ws, batch).await?;
            rows.tables.latest = ws.now;
            Ok(outcomes)
        };
        work.now_or_never().expect("memory never waits")
    }
}

#[async_trait]
impl Notify for MemoryStore {
    async fn change_counter(&self) -> Result<u64, StoreError> {
        Ok(self.tables().next_position())
    }
}
