//! Pages of lists: they end after so many items, and where their bytes come to a bound.

use crate::bounds::PAGE_BYTES_MAX;
use crate::event::{Batch, Event};
use crate::grant::Grant;
use crate::hold::Hold;
use crate::job::{Job, Schedule};
use crate::payload::Payload;

/// What an item without payloads and charges comes to at most, near enough.
const ITEM_BYTES: usize = 512;
/// What a charge of an event or a hold comes to.
const CHARGE_BYTES: usize = 256;

/// The bytes of a payload. One that is kept elsewhere and was not read is counted by whoever knows its size.
fn bytes_of(payload: &Payload) -> usize {
    if payload.is_elsewhere() { 0 } else { payload.as_str().len() }
}

/// Something that stands on a page.
pub trait Weighs {
    /// The bytes it comes to, near enough.
    fn bytes(&self) -> usize;
}

impl Weighs for Job {
    fn bytes(&self) -> usize {
        let payloads = [&self.payload, &self.metadata, &self.life.result].map(bytes_of);
        let error = self.life.error.as_ref().map_or(0, |error| error.kind.len() + error.message.len());
        ITEM_BYTES + payloads.iter().sum::<usize>() + error + self.life.cost.len() * CHARGE_BYTES
    }
}

impl Weighs for Grant {
    fn bytes(&self) -> usize {
        ITEM_BYTES + bytes_of(&self.payload)
    }
}

impl Weighs for Hold {
    fn bytes(&self) -> usize {
        ITEM_BYTES + self.charges.len() * CHARGE_BYTES
    }
}

impl Weighs for Schedule {
    fn bytes(&self) -> usize {
        ITEM_BYTES + self.spec.job.tags.len() * CHARGE_BYTES + bytes_of(&self.spec.job.payload)
    }
}

impl Weighs for Event {
    fn bytes(&self) -> usize {
        let error = match self {
            Event::JobFailed { error, .. } | Event::JobRescued { error, .. } => error.kind.len() + error.message.len(),
            _ => 0,
        };
        let payload = self.payload().map_or(0, bytes_of);
        ITEM_BYTES + payload + error + self.scopes().len() * CHARGE_BYTES
    }
}

impl Weighs for Batch {
    fn bytes(&self) -> usize {
        self.entries.iter().flat_map(|entry| &entry.events).map(|recorded| recorded.e.bytes()).sum()
    }
}

impl<N, T: Weighs> Weighs for (N, T) {
    fn bytes(&self) -> usize {
        self.1.bytes()
    }
}

/// A page that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    items: usize,
    bytes: usize,
    limit: usize,
}

impl Filling {
    /// A page of at most so many items.
    pub fn new(limit: usize) -> Filling {
        Filling { items: 0, bytes: 0, limit }
    }

    /// Counts an item.
    pub fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes;
    }

    /// Whether nothing more goes onto it. The item that takes it to the bound is still on it, so that there is always one.
    pub fn is_full(&self) -> bool {
        self.items >= self.limit || self.bytes >= PAGE_BYTES_MAX
    }
}

/// Whether a page of at most `limit` items is full, so that there may be more behind it.
pub fn is_full<T: Weighs>(items: &[T], limit: usize) -> bool {
    let mut page = Filling::new(limit);
    items.iter().for_each(|item| page.add(item.bytes()));
    page.is_full()
}

/// Cuts what was found to a page.
pub fn cut<T: Weighs>(mut items: Vec<T>, limit: usize) -> Vec<T> {
    let mut page = Filling::new(limit);
    let end = items.iter().position(|item| {
        let full = page.is_full();
        page.add(item.bytes());
        full
    });
    items.truncate(end.unwrap_or(items.len()));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(usize);

    impl Weighs for Thing {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn a_page_ends_with_the_item_that_fills_it() {
        let half = PAGE_BYTES_MAX / 2;
        for (sizes, limit, kept, full) in [
            (vec![1, 1, 1], 5, 3, false),
            (vec![1, 1, 1], 3, 3, true),
            (vec![1, 1, 1], 2, 2, true),
            (vec![half, half, 1], 5, 2, true),
            (vec![half, half - 1, half, 1], 5, 3, true),
            (vec![10 * PAGE_BYTES_MAX, 1], 5, 1, true),
            (vec![], 5, 0, false),
        ] {
            let things = cut(sizes.iter().copied().map(Thing).collect(), limit);
            assert_eq!((things.len(), is_full(&things, limit)), (kept, full), "{sizes:?}");
        }
    }
}
