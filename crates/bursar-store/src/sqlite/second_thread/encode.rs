//! Journal rows whose JSON is encoded by two threads.
//!
//! The entries of a row are split into chunks. The second thread encodes them from the last chunk backwards. The writer thread, when
//! it is ready to write the row, encodes the chunks that are still missing from the first one on.

use std::sync::{Arc, OnceLock};

use bursar_core::event::Batch;
use bursar_core::payload::Payload;

use super::Task;
use crate::codec::to_json;

/// A row of the journal, to be written at the end of a transaction.
pub(in crate::sqlite) struct JournalRow {
    entries: Arc<EncodedEntries>,
    /// Large payloads, which are stored in a table of their own, each with the id of its job or grant.
    payloads: Vec<(u128, Payload)>,
}

impl JournalRow {
    pub(super) fn new(mut batch: Batch) -> JournalRow {
        let payloads = batch.detach_payloads();
        JournalRow { entries: Arc::new(EncodedEntries::new(batch)), payloads }
    }

    /// Returns a task that encodes the entries, for the second thread.
    pub(super) fn encode_task(&self) -> Task {
        let entries = self.entries.clone();
        Box::new(move || {
            for chunk in (0..entries.chunks.len()).rev() {
                entries.chunk(chunk);
            }
        })
    }

    pub(in crate::sqlite) fn payloads(&self) -> &[(u128, Payload)] {
        &self.payloads
    }

    pub(in crate::sqlite) fn batch(&self) -> &Batch {
        &self.entries.batch
    }

    /// Returns the columns `prev` and `entries` as JSON. Encodes whatever the second thread has not encoded yet.
    pub(in crate::sqlite) fn json(&self) -> (String, String) {
        (to_json(&self.entries.batch.prev), self.entries.json())
    }
}

/// A batch, and its entries as JSON in chunks. Each chunk is encoded once, by the thread that needs it first.
struct EncodedEntries {
    batch: Batch,
    chunks: Vec<OnceLock<String>>,
}

impl EncodedEntries {
    /// The entries in one chunk.
    const CHUNK: usize = 32;

    fn new(batch: Batch) -> EncodedEntries {
        let chunks = batch.entries.chunks(EncodedEntries::CHUNK).map(|_| OnceLock::new()).collect();
        EncodedEntries { batch, chunks }
    }

    /// Returns the JSON of one chunk, without the brackets of the array.
    fn chunk(&self, index: usize) -> &str {
        let json = self.chunks[index].get_or_init(|| {
            let from = index * EncodedEntries::CHUNK;
            let to = self.batch.entries.len().min(from + EncodedEntries::CHUNK);
            to_json(&self.batch.entries[from..to])
        });
        &json[1..json.len() - 1]
    }

    /// Returns all entries as one JSON array.
    fn json(&self) -> String {
        let chunks: Vec<&str> = (0..self.chunks.len()).map(|index| self.chunk(index)).collect();
        let mut json = String::with_capacity(chunks.iter().map(|chunk| chunk.len() + 1).sum::<usize>() + 2);
        json.push('[');
        for (index, chunk) in chunks.into_iter().enumerate() {
            json.push_str(if index == 0 { "" } else { "," });
            json.push_str(chunk);
        }
        json.push(']');
        json
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use bursar_core::event::Entry;
    use bursar_core::id::{BatchId, CommandId};
    use bursar_core::time::Time;

    use super::*;

    #[test]
    fn two_threads_encode_the_same_json_as_one() {
        const CHUNK: usize = EncodedEntries::CHUNK;
        for count in [0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK, 511] {
            let entry = |n: usize| {
                let id = CommandId(u128::try_from(n).expect("a small number"));
                let (context, wakes) = (Default::default(), Default::default());
                Entry { id, context, key: None, events: Vec::new(), wakes, attempts: Vec::new() }
            };
            let entries: Vec<Arc<Entry>> = (0..count).map(|n| Arc::new(entry(n))).collect();
            let expected = to_json(&entries);
            let batch = Batch { id: BatchId(7), at: Time::MIN, prev: Default::default(), entries };
            let by_one = JournalRow::new(batch.clone());
            let by_two = JournalRow::new(batch);
            let second = thread::spawn(by_two.encode_task());
            assert_eq!(by_two.json(), (to_json(&by_two.batch().prev), expected.clone()), "{count} entries");
            second.join().expect("the second thread ends");
            assert_eq!(by_one.json().1, expected, "{count} entries, one thread");
        }
    }
}
