//! What notifies: how a process learns that another process has committed.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::wakeup::Notifier;

/// The part of an engine that notifies.
#[async_trait]
pub trait Notify: Send + Sync + 'static {
    /// A number that changes soon after any process has committed. Cheap enough to be polled every few milliseconds.
    async fn change_counter(&self) -> Result<u64, StoreError>;
    /// How processes notify each other without polling, on engines that support it.
    fn notifier(&self) -> Option<Arc<dyn Notifier>> {
        None
    }
}
