//! A second thread beside the writer's: it decides large batches and makes the text of the journal while rows are written, and
//! frees what a batch leaves behind.

use std::cell::OnceCell;
use std::sync::{Arc, mpsc};
use std::thread;

use bursar_core::event::Batch;
use bursar_core::payload::Payload;

use crate::codec::to_json;

/// Entries that are worth a second thread; the hand-over takes longer than to write fewer.
const WORTH_IT: usize = 8;

/// The way to the thread, which is started when there is enough to do.
#[derive(Default)]
pub(super) struct Scribe(OnceCell<Option<mpsc::Sender<Work>>>);

/// Something to do on the thread.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// The texts of a row of the journal.
pub(super) struct Texts {
    pub(super) prev: String,
    pub(super) entries: String,
}

impl Texts {
    fn of(batch: &Batch) -> Texts {
        Texts { prev: to_json(&batch.prev), entries: to_json(&batch.entries) }
    }
}

/// A row of the journal whose texts are on their way.
pub(super) struct Writing {
    batch: Arc<Batch>,
    /// What is kept beside it.
    payloads: Vec<(u128, Payload)>,
    texts: Option<mpsc::Receiver<Texts>>,
}

impl Writing {
    /// A row whose texts are made when it is finished.
    fn of(mut batch: Batch) -> Writing {
        let payloads = batch.detach_payloads();
        Writing { batch: Arc::new(batch), payloads, texts: None }
    }

    /// The row, and the work of making its texts, for another thread.
    pub(super) fn begun(batch: Batch) -> (Writing, impl FnOnce() + Send + 'static) {
        let writing = Writing::of(batch);
        let (send, texts) = mpsc::sync_channel(1);
        let read = writing.batch.clone();
        let work = move || {
            let _ = send.send(Texts::of(&read));
        };
        (Writing { texts: Some(texts), ..writing }, work)
    }

    pub(super) fn payloads(&self) -> &[(u128, Payload)] {
        &self.payloads
    }

    /// The row and its texts, once they are there.
    pub(super) fn finish(self) -> (Arc<Batch>, Texts) {
        let texts = self.texts.and_then(|texts| texts.recv().ok());
        let texts = texts.unwrap_or_else(|| Texts::of(&self.batch));
        (self.batch, texts)
    }
}

impl Scribe {
    /// Begins to write the texts of a batch.
    pub(super) fn begin(&self, batch: Batch) -> Writing {
        if batch.entries.len() < WORTH_IT {
            return Writing::of(batch);
        }
        let (writing, work) = Writing::begun(batch);
        self.hand_over(Box::new(work));
        writing
    }

    /// Frees something that took so many requests to fill.
    pub(super) fn free(&self, what: impl Send + 'static, requests: usize) {
        if requests >= WORTH_IT {
            self.hand_over(Box::new(move || drop(what)));
        }
    }

    /// Has something done; by whoever asks when there is no such thread.
    pub(super) fn hand_over(&self, work: Work) {
        let thread = self.0.get_or_init(|| {
            let (work, waiting) = mpsc::channel::<Work>();
            let named = thread::Builder::new().name("bursar-scribe".into());
            let started = named.spawn(move || waiting.into_iter().for_each(|work| work()));
            started.is_ok().then_some(work)
        });
        match thread {
            Some(thread) => thread.send(work).unwrap_or_else(|refused| refused.0()),
            None => work(),
        }
    }
}
