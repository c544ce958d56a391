//! An engine that keeps everything in maps: for tests, and as the simplest model of what every engine does.
//!
//! [`MemoryStore`] is the engine. The types under it are public, so that a simulated database can use the same tables with its own
//! locks and faults:
//!
//! - [`Tables`]: the committed rows, with the reads and the maintenance that need no transaction.
//! - [`Writes`]: what one transaction has written. [`Writes::take`] adds the changes of a workspace; [`Tables::apply`] commits them, and
//!   dropping them is a rollback.
//! - [`View`]: the committed rows overlaid with the writes of a transaction, which is what the transaction reads.
//! - [`Journal`]: the batches in the order of commits.
//!
//! All rows are in ordered maps, so that the same requests read the same rows in the same order in every run.

mod archive;
mod blobs;
mod check;
mod forget;
mod jobs;
mod journal;
mod maintain;
mod read;
mod rows;
mod tables;
mod view;
mod writes;
#[cfg(test)]
mod zones;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bursar_core::id::BatchId;
use bursar_core::request::CheckedRequest;
use futures_util::FutureExt;

pub use self::journal::Journal;
use self::rows::MemoryRows;
pub use self::tables::Tables;
pub use self::view::View;
pub use self::writes::{Changes, Writes};
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

#[async_trait]
impl Commit for MemoryStore {
    async fn commit(&self, requests: &[Arc<CheckedRequest>], _: LockPolicy) -> Result<Vec<RequestOutcome>, StoreError> {
        let mut tables = self.tables();
        let start = BatchStart { floor: tables.latest, batch: BatchId(u128::from(tables.journal.next_position())) };
        let mut ids = self.setup.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut rows = MemoryRows::new(&tables, self.clock.now());
        let requests: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
        let work = async {
            let (mut ws, outcomes) =
                transaction::run(&mut rows, &requests, &self.setup.rules, start, &mut *ids).await?;
            let batch = ws.take_batch();
            rows.store(&ws, batch).await?;
            Ok(outcomes)
        };
        let outcomes: Result<_, StoreError> = work.now_or_never().expect("memory never waits");
        let writes = rows.into_writes();
        let outcomes = outcomes?;
        tables.apply(writes);
        Ok(outcomes)
    }
}

#[async_trait]
impl Notify for MemoryStore {
    async fn change_counter(&self) -> Result<u64, StoreError> {
        Ok(self.tables().journal.next_position())
    }
}
