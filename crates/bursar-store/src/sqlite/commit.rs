//! Commits: batches run one after the other on the writer thread.

use std::sync::Arc;

use async_trait::async_trait;
use bursar_core::request::CheckedRequest;

use super::SqliteStore;
use crate::error::StoreError;
use crate::store::{Commit, LockPolicy, RequestOutcome};

#[async_trait]
impl Commit for SqliteStore {
    /// The lock policy does not matter: with one writer no row is locked.
    async fn commit(&self, requests: &[Arc<CheckedRequest>], _: LockPolicy) -> Result<Vec<RequestOutcome>, StoreError> {
        let requests: Arc<[Arc<CheckedRequest>]> = requests.into();
        self.writer()?.call(move |writer| writer.commit(&requests)).await
    }
}
