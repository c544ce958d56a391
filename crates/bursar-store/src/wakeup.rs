//! Notifications between processes that share a database, on stores that support them.
//!
//! A notification is a hint: it may get lost, arrive twice or be a false alarm. So a waiting process also polls
//! [`change_counter`](crate::store::Notify::change_counter), at a longer interval.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::state::QueueKey;

use crate::error::StoreError;

/// How long a process may cache that no other process listens. A new listener polls often for this long, because others may not notify
/// it yet.
pub const LISTENERS_CACHED: Duration = Duration::from_secs(1);

/// The most queues that one notification names. With more, it concerns every queue.
const QUEUES_MAX: usize = 100;

/// A message to other processes: jobs may be ready, or the database is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notification {
    /// The hashes of queues with jobs to lease.
    queues: BTreeSet<u64>,
    /// Whether every queue may have jobs to lease.
    any: bool,
    /// Whether a process, perhaps this one, is writing to the database.
    write: bool,
}

impl Notification {
    /// Creates a notification that a process is writing to the database. The write can be read once it is committed.
    pub fn of_a_write() -> Notification {
        Notification { write: true, ..Notification::default() }
    }

    /// Returns whether it only announces a write.
    pub fn is_of_a_write(&self) -> bool {
        *self == Notification::of_a_write()
    }

    /// Adds a queue with jobs to lease.
    pub fn add_queue(&mut self, key: &QueueKey) {
        if self.queues.len() < QUEUES_MAX {
            self.queues.insert(hash(key));
        } else if !self.queues.contains(&hash(key)) {
            self.any = true;
        }
    }

    /// Returns whether it announces nothing.
    pub fn is_empty(&self) -> bool {
        *self == Notification::default()
    }

    /// Returns whether a queue may have jobs to lease.
    pub fn concerns(&self, key: &QueueKey) -> bool {
        self.any || self.queues.contains(&hash(key))
    }

    /// Encodes it as words of letters and digits, at most 2,000 characters together.
    pub(crate) fn to_text(&self) -> String {
        let mut words: Vec<String> = self.queues.iter().map(|queue| format!("q{queue:x}")).collect();
        words.extend(self.any.then(|| "any".to_owned()));
        words.join(" ")
    }

    /// Decodes it. An unknown word, as of a newer version, stands for every queue.
    pub(crate) fn from_text(text: &str) -> Notification {
        let mut notification = Notification::default();
        for word in text.split_whitespace() {
            match word.strip_prefix('q').map(|digits| u64::from_str_radix(digits, 16)) {
                Some(Ok(queue)) => drop(notification.queues.insert(queue)),
                _ => notification.any = true,
            }
        }
        notification
    }
}

/// Returns the hash of a queue (FNV-1a), which is the same in every process and version. Two queues with the same hash wake each other's
/// workers.
fn hash((tenant, queue): &QueueKey) -> u64 {
    let bytes = tenant.as_str().bytes().chain([0]).chain(queue.as_str().bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Sends and receives notifications.
#[async_trait]
pub trait Notifier: Send + Sync + 'static {
    /// Returns whether notifications must be sent. If not, writing to the database itself notifies the listeners.
    fn needs_sending(&self) -> bool {
        true
    }
    /// Notifies all listeners. Cheap when there are none.
    async fn send(&self, notification: &Notification) -> Result<(), StoreError>;
    /// Starts to listen, and checks that notifications arrive.
    async fn listen(&self) -> Result<Box<dyn Listener>, StoreError>;
}

/// A listener for notifications. Other processes can see that there is one until it is closed or dropped.
#[async_trait]
pub trait Listener: Send {
    /// Waits for the next notification. After an error the listener is closed. Cancelling the wait loses no notification.
    async fn next(&mut self) -> Result<Notification, StoreError>;
    /// Stops listening.
    async fn close(self: Box<Self>);
}

#[cfg(test)]
mod tests {
    use bursar_core::name::{Queue, Tenant};

    use super::*;

    fn key(tenant: &str, queue: &str) -> QueueKey {
        (Tenant::new(tenant).unwrap(), Queue::new(queue).unwrap())
    }

    #[test]
    fn a_notification_is_decoded_as_it_was_encoded() {
        let mut notification = Notification::default();
        assert!(notification.is_empty());
        notification.add_queue(&key("a", "q"));
        let decoded = Notification::from_text(&notification.to_text());
        assert_eq!(decoded, notification);
        assert!(decoded.concerns(&key("a", "q")));
        assert!(!decoded.concerns(&key("a", "r")) && !decoded.concerns(&key("b", "q")));
        // Other versions of this program must decode it the same way.
        assert_eq!(notification.to_text(), "qe5d2a8190426802f");
    }

    #[test]
    fn a_notification_of_too_many_queues_concerns_any() {
        let mut notification = Notification::default();
        (0..QUEUES_MAX).for_each(|queue| notification.add_queue(&key("a", &format!("q{queue}"))));
        assert!(!notification.concerns(&key("a", "other")));
        notification.add_queue(&key("a", "q0"));
        assert!(!notification.concerns(&key("a", "other")), "a queue it names already changes nothing");
        notification.add_queue(&key("a", "one-more"));
        assert!(Notification::from_text(&notification.to_text()).concerns(&key("a", "other")));
        assert!(notification.to_text().len() < 2_000);
    }

    #[test]
    fn an_unknown_word_concerns_any_queue() {
        let notification = Notification::from_text("q12 moon");
        assert!(notification.concerns(&key("a", "q")));
    }
}
