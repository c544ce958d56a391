//! A second thread beside the writer's: it decides large batches and makes the text of the journal while rows are written, and
//! frees what a batch leaves behind.

use std::cell::OnceCell;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use bursar_core::event::Batch;
use bursar_core::payload::Payload;

use crate::codec::to_json;

/// Entries that are worth a second thread; the hand-over takes longer than to write fewer.
const ENTRIES_MIN: usize = 8;

/// The way to the thread, which is started when there is enough to do.
#[derive(Default)]
pub(super) struct JournalEncoder(OnceCell<Option<mpsc::Sender<Work>>>);

/// Something to do on the thread.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// A row of the journal, and the texts of its entries, which two threads make: one from the end, and who needs them from the
/// beginning, as far as they are not there.
struct Row {
    batch: Batch,
    texts: Vec<OnceLock<String>>,
}

impl Row {
    /// Entries that make a text.
    const STEP: usize = 32;

    fn of(batch: Batch) -> Row {
        let texts = batch.entries.chunks(Row::STEP).map(|_| OnceLock::new()).collect();
        Row { batch, texts }
    }

    /// Some entries, as they stand in the list of all.
    fn text(&self, place: usize) -> &str {
        let text = self.texts[place].get_or_init(|| {
            let from = place * Row::STEP;
            let to = self.batch.entries.len().min(from + Row::STEP);
            to_json(&self.batch.entries[from..to])
        });
        &text[1..text.len() - 1]
    }

    fn entries(&self) -> String {
        let texts: Vec<&str> = (0..self.texts.len()).map(|place| self.text(place)).collect();
        let mut entries = String::with_capacity(texts.iter().map(|text| text.len() + 1).sum::<usize>() + 2);
        entries.push('[');
        for (place, text) in texts.into_iter().enumerate() {
            entries.push_str(if place == 0 { "" } else { "," });
            entries.push_str(text);
        }
        entries.push(']');
        entries
    }
}

/// A row of the journal whose texts are on their way.
pub(super) struct EncodedRow {
    row: Arc<Row>,
    /// What is kept beside it.
    payloads: Vec<(u128, Payload)>,
}

impl EncodedRow {
    fn of(mut batch: Batch) -> EncodedRow {
        let payloads = batch.detach_payloads();
        EncodedRow { row: Arc::new(Row::of(batch)), payloads }
    }

    /// The row, and the work of making its texts, for another thread.
    pub(super) fn begun(batch: Batch) -> (EncodedRow, impl FnOnce() + Send + 'static) {
        let writing = EncodedRow::of(batch);
        let row = writing.row.clone();
        let work = move || {
            for place in (0..row.texts.len()).rev() {
                let _ = row.text(place);
            }
        };
        (writing, work)
    }

    pub(super) fn payloads(&self) -> &[(u128, Payload)] {
        &self.payloads
    }

    pub(super) fn batch(&self) -> &Batch {
        &self.row.batch
    }

    /// The text of what it follows, and that of its entries.
    pub(super) fn texts(&self) -> (String, String) {
        (to_json(&self.row.batch.prev), self.row.entries())
    }
}

impl JournalEncoder {
    /// Begins to write the texts of a batch.
    pub(super) fn begin(&self, batch: Batch) -> EncodedRow {
        if batch.entries.len() < ENTRIES_MIN {
            return EncodedRow::of(batch);
        }
        let (writing, work) = EncodedRow::begun(batch);
        self.hand_over(Box::new(work));
        writing
    }

    /// Frees something that took so many requests to fill.
    pub(super) fn free(&self, what: impl Send + 'static, requests: usize) {
        if requests >= ENTRIES_MIN {
            self.hand_over(Box::new(move || drop(what)));
        }
    }

    /// Has something done; by whoever asks when there is no such thread.
    pub(super) fn hand_over(&self, work: Work) {
        let thread = self.0.get_or_init(|| {
            let (work, waiting) = mpsc::channel::<Work>();
            let named = thread::Builder::new().name("bursar-encoder".into());
            let started = named.spawn(move || waiting.into_iter().for_each(|work| work()));
            started.is_ok().then_some(work)
        });
        match thread {
            Some(thread) => thread.send(work).unwrap_or_else(|refused| refused.0()),
            None => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::event::Entry;
    use bursar_core::id::{BatchId, CommandId};
    use bursar_core::time::Time;

    use super::*;

    #[test]
    fn two_threads_make_the_text_that_one_would_make() {
        for count in [0, 1, 2, Row::STEP - 1, Row::STEP, Row::STEP + 1, 5 * Row::STEP, 511] {
            let entry = |n: usize| {
                let id = CommandId(u128::try_from(n).expect("it is small"));
                Entry { id, context: Default::default(), key: None, events: Vec::new(), wakes: Default::default() }
            };
            let entries: Vec<Arc<Entry>> = (0..count).map(|n| Arc::new(entry(n))).collect();
            let all = to_json(&entries);
            let batch = Batch { id: BatchId(7), at: Time::MIN, prev: Default::default(), entries };
            let alone = EncodedRow::of(batch.clone());
            let (shared, work) = EncodedRow::begun(batch);
            let other = thread::spawn(work);
            assert_eq!(shared.texts(), (to_json(&shared.batch().prev), all.clone()), "{count} entries");
            other.join().expect("it ends");
            assert_eq!(alone.texts().1, all, "{count} entries by one");
        }
    }
}
