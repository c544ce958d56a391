//! Notifications: a watch on the write-ahead log, and a counter for polling.

use std::sync::Arc;

use async_trait::async_trait;

use super::{SqliteStore, wal_watch};
use crate::error::StoreError;
use crate::store::Notify;
use crate::wakeup::Notifier;

#[async_trait]
impl Notify for SqliteStore {
    async fn change_counter(&self) -> Result<u64, StoreError> {
        self.change_counter.read(self.writer()?, &self.shared).await
    }

    fn notifier(&self) -> Option<Arc<dyn Notifier>> {
        wal_watch::notifier(self.shared.path.as_deref()?)
    }
}
