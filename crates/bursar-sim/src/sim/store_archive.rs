//! No simulated world archives its journal: `tests/archive.rs` has a test of its own for that.

use async_trait::async_trait;
use bursar_core::id::BatchId;
use bursar_core::payload::Payload;
use bursar_core::time::Time;
use bursar_store::{Archive, ArchivedRow, ArchivedRows, Journaled, Segment, StoreError};

use super::store::SimStore;
use super::store_reads::not_simulated;

#[async_trait]
impl Archive for SimStore {
    async fn database_id(&self) -> Result<u128, StoreError> {
        not_simulated()
    }

    async fn archivable(&self, _: u64, _: Time, _: usize) -> Result<Vec<ArchivedRow>, StoreError> {
        not_simulated()
    }

    async fn keep_payloads(&self, _: &[ArchivedRow], _: &[(u128, Payload)]) -> Result<bool, StoreError> {
        not_simulated()
    }

    async fn record_segment(&self, _: &Segment) -> Result<bool, StoreError> {
        not_simulated()
    }

    async fn prune_journal(&self, _: usize) -> Result<usize, StoreError> {
        not_simulated()
    }

    async fn restore_segment(&self, _: &Segment, _: Vec<ArchivedRow>) -> Result<bool, StoreError> {
        not_simulated()
    }

    async fn list_segments(&self, _: u64, _: usize) -> Result<Vec<Segment>, StoreError> {
        Ok(Vec::new())
    }

    async fn last_segment(&self) -> Result<Option<Segment>, StoreError> {
        Ok(None)
    }

    async fn segments_with(&self, _: BatchId) -> Result<Vec<Segment>, StoreError> {
        Ok(Vec::new())
    }

    async fn read_archived(&self, _: Vec<ArchivedRow>, _: usize) -> Result<Vec<Journaled>, StoreError> {
        not_simulated()
    }

    async fn rebuild_from(&self, _: ArchivedRows) -> Result<u64, StoreError> {
        not_simulated()
    }
}
