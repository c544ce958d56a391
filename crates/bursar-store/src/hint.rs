//! What processes on one database tell each other at once, on engines that have a way for it. A hint may get lost, come twice or
//! mean nothing: whoever waits looks from time to time all the same.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::state::QueueKey;

use crate::error::StoreError;

/// So long a process may go by what it knows: that nobody else listens. Whoever begins to listen looks for itself until that time
/// is over.
pub const UNHEARD: Duration = Duration::from_secs(1);

/// Queues that one hint names at most; more are told as any.
const QUEUES_MAX: usize = 100;

/// Something that others may wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Queues with more to lease, each as a number of its own.
    queues: BTreeSet<u64>,
    /// Any queue may have more to lease.
    any: bool,
    /// Somebody writes, who may be this process: it is to be looked what comes of it.
    write: bool,
}

impl Hint {
    /// Somebody writes to the database. What it is can be seen once it is committed.
    pub fn of_a_write() -> Hint {
        Hint { write: true, ..Hint::default() }
    }

    /// Whether it tells only that somebody writes.
    pub fn is_of_a_write(&self) -> bool {
        *self == Hint::of_a_write()
    }

    /// A queue has more to lease.
    pub fn add_queue(&mut self, key: &QueueKey) {
        if self.queues.len() < QUEUES_MAX {
            self.queues.insert(number(key));
        } else if !self.queues.contains(&number(key)) {
            self.any = true;
        }
    }

    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        *self == Hint::default()
    }

    /// Whether the queue may have more to lease.
    pub fn is_of(&self, key: &QueueKey) -> bool {
        self.any || self.queues.contains(&number(key))
    }

    /// Words of letters and digits, at most two thousand characters.
    pub(crate) fn to_text(&self) -> String {
        let mut words: Vec<String> = self.queues.iter().map(|queue| format!("q{queue:x}")).collect();
        words.extend(self.any.then(|| "any".to_owned()));
        words.join(" ")
    }

    /// What it does not know, as a newer version may say, it takes for anything.
    pub(crate) fn from_text(text: &str) -> Hint {
        let mut hint = Hint::default();
        for word in text.split_whitespace() {
            match word.strip_prefix('q').map(|digits| u64::from_str_radix(digits, 16)) {
                Some(Ok(queue)) => drop(hint.queues.insert(queue)),
                _ => hint.any = true,
            }
        }
        hint
    }
}

/// A number of the queue that every process and version gives it (FNV-1a). Two queues with one number wake each other's workers.
fn number((tenant, queue): &QueueKey) -> u64 {
    let bytes = tenant.as_str().bytes().chain([0]).chain(queue.as_str().bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A way to tell other processes, and to be told.
#[async_trait]
pub trait Hints: Send + Sync + 'static {
    /// Whether others hear only of what is rung.
    fn is_rung(&self) -> bool {
        true
    }
    /// Tells whoever else listens. Cheap where nobody does.
    async fn ring(&self, hint: &Hint) -> Result<(), StoreError>;
    /// Begins to listen, and makes sure that what others ring arrives. An error where it does not.
    async fn listen(&self) -> Result<Box<dyn Ear>, StoreError>;
}

/// What listens. Until it is closed or dropped others know that somebody does.
#[async_trait]
pub trait Ear: Send {
    /// The next hint of another process. After an error there is none any more. Nothing is lost by who stops waiting.
    async fn next(&mut self) -> Result<Hint, StoreError>;
    /// Ends listening.
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
    fn hint_is_read_as_it_was_told() {
        let mut hint = Hint::default();
        assert!(hint.is_empty());
        hint.add_queue(&key("a", "q"));
        let told = Hint::from_text(&hint.to_text());
        assert_eq!(told, hint);
        assert!(told.is_of(&key("a", "q")));
        assert!(!told.is_of(&key("a", "r")) && !told.is_of(&key("b", "q")));
        // What other versions of this program were told must be understood for ever.
        assert_eq!(hint.to_text(), "qe5d2a8190426802f");
    }

    #[test]
    fn more_queues_than_a_hint_names_are_any() {
        let mut hint = Hint::default();
        (0..QUEUES_MAX).for_each(|queue| hint.add_queue(&key("a", &format!("q{queue}"))));
        assert!(!hint.is_of(&key("a", "other")));
        hint.add_queue(&key("a", "q0"));
        assert!(!hint.is_of(&key("a", "other")), "one that it names already is no more");
        hint.add_queue(&key("a", "one-more"));
        assert!(Hint::from_text(&hint.to_text()).is_of(&key("a", "other")));
        assert!(hint.to_text().len() < 2_000);
    }

    #[test]
    fn what_a_newer_version_says_may_be_anything() {
        let hint = Hint::from_text("q12 moon");
        assert!(hint.is_of(&key("a", "q")));
    }
}
