//! Notifications: how a process learns that another process has committed.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::wakeup::Notifier;

/// The part of a store that notifies other processes.
#[async_trait]
pub trait Notify: Send + Sync + 'static {
    /// Returns a number that changes soon after any process has committed. A poll every few milliseconds is cheap.
    async fn change_counter(&self) -> Result<u64, StoreError>;
    /// Returns the means to send and receive notifications, on stores that support them.
    fn notifier(&self) -> Option<Arc<dyn Notifier>> {
        None
    }
}
