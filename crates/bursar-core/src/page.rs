//! Pages of lists, bounded by a number of items and by approximate bytes.

use crate::blob::Blob;
use crate::bounds::PAGE_BYTES_MAX;
use crate::event::{Batch, CheckpointedJob, Event};
use crate::grant::Grant;
use crate::hold::Hold;
use crate::job::{Emit, Job, Schedule};
use crate::payload::Payload;

/// The approximate bytes of an item without payloads and charges.
const ITEM_BYTES: usize = 512;
/// The approximate bytes of a charge.
const CHARGE_BYTES: usize = 256;

/// Returns the bytes of a payload; 0 if it is stored elsewhere and was not loaded.
fn bytes_of(payload: &Payload) -> usize {
    if payload.is_elsewhere() { 0 } else { payload.as_str().len() }
}

fn text_of(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

/// An item of a page, with a size.
pub trait PageItem {
    /// Returns its approximate size in bytes.
    fn bytes(&self) -> usize;
}

impl PageItem for Job {
    fn bytes(&self) -> usize {
        let payloads = [&self.payload, &self.metadata, &self.life.result].map(bytes_of);
        let error = self.life.error.as_ref().map_or(0, |error| error.kind.len() + error.message.len());
        let report =
            self.life.progress.as_ref().map_or(0, |report| text_of(report.message.as_ref()) + bytes_of(&report.data));
        let reported = report + self.life.checkpoint.as_ref().map_or(0, bytes_of);
        ITEM_BYTES + payloads.iter().sum::<usize>() + error + reported + self.life.cost.len() * CHARGE_BYTES
    }
}

impl PageItem for Grant {
    fn bytes(&self) -> usize {
        ITEM_BYTES + bytes_of(&self.payload)
    }
}

impl PageItem for Hold {
    fn bytes(&self) -> usize {
        ITEM_BYTES + self.charges.len() * CHARGE_BYTES
    }
}

impl PageItem for Blob {
    fn bytes(&self) -> usize {
        let names = self.references.iter().map(|name| name.as_str().len()).sum::<usize>();
        ITEM_BYTES + bytes_of(&self.metadata) + names
    }
}

impl PageItem for Schedule {
    fn bytes(&self) -> usize {
        ITEM_BYTES + self.spec.job.tags.len() * CHARGE_BYTES + bytes_of(&self.spec.job.payload)
    }
}

impl PageItem for Event {
    fn bytes(&self) -> usize {
        let reported = match self {
            Event::JobFailed { error, .. } | Event::JobRescued { error, .. } => error.kind.len() + error.message.len(),
            Event::JobCheckpointed(CheckpointedJob { checkpoint, message, data, .. }) => {
                bytes_of(checkpoint) + text_of(message.as_ref()) + bytes_of(data)
            }
            Event::JobEmitted(Emit { data, .. }) => bytes_of(data),
            _ => 0,
        };
        let payload = self.payload().map_or(0, bytes_of);
        ITEM_BYTES + payload + reported + self.scopes().len() * CHARGE_BYTES
    }
}

impl PageItem for Batch {
    fn bytes(&self) -> usize {
        self.entries.iter().flat_map(|entry| &entry.events).map(|recorded| recorded.e.bytes()).sum()
    }
}

impl<N, T: PageItem> PageItem for (N, T) {
    fn bytes(&self) -> usize {
        self.1.bytes()
    }
}

/// A page that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct PageFill {
    items: usize,
    bytes: usize,
    limit: usize,
}

impl PageFill {
    /// Starts a page of at most `limit` items.
    pub fn new(limit: usize) -> PageFill {
        PageFill { items: 0, bytes: 0, limit }
    }

    /// Counts an item.
    pub fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes;
    }

    /// Returns whether the page is full. The item that reaches the bound is still part of the page, so no page is empty
    /// because of a large item.
    pub fn is_full(&self) -> bool {
        self.items >= self.limit || self.bytes >= PAGE_BYTES_MAX
    }
}

/// Returns whether a page of at most `limit` items is full, so that more items may follow.
pub fn is_full<T: PageItem>(items: &[T], limit: usize) -> bool {
    let mut page = PageFill::new(limit);
    items.iter().for_each(|item| page.add(item.bytes()));
    page.is_full()
}

/// Truncates items to one page.
pub fn cut<T: PageItem>(mut items: Vec<T>, limit: usize) -> Vec<T> {
    let mut page = PageFill::new(limit);
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

    impl PageItem for Thing {
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
