//! A large batch is decided by two threads, so that its first rows are written while the rest is decided.
//!
//! The second thread decides and the writer writes, as long as there is something to write. When the second one is behind, or
//! has no core to run on yet, the writer decides too: what is undecided lies between them, and who is free takes it.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bursar_core::request::CheckedRequest;
use bursar_core::state::Workspace;

use crate::error::StoreError;
use crate::sqlite::journal_encoder::{EncodedRow, JournalEncoder, Work};
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::write::Part;
use crate::sqlite::writer::Shared;
use crate::store::RequestOutcome;
use crate::transaction::LoadedBatch;

/// Requests that are decided before their rows are handed on.
const PART: usize = 32;

/// Requests that are worth it.
pub(super) const REQUESTS_MIN: usize = 2 * PART;

/// A batch that is decided, of which some is written already.
pub(super) struct DecidedBatch {
    pub(super) ws: Workspace,
    pub(super) outcomes: Vec<RequestOutcome>,
    pub(super) journal: Option<EncodedRow>,
}

/// Decides what is loaded, and writes meanwhile what is ready.
pub(super) fn decide(
    shared: &Arc<Shared>,
    encoder: &JournalEncoder,
    rows: &SqliteRows<'_>,
    loaded: LoadedBatch,
    requests: &Arc<[Arc<CheckedRequest>]>,
) -> Result<DecidedBatch, StoreError> {
    let (shared, requests) = (shared.clone(), requests.clone());
    let queue = Arc::new(WorkQueue::new(UndecidedBatch { loaded, requests, shared }));
    let (helped, mut left) = (queue.clone(), Left(Some(&queue)));
    encoder.hand_over(Box::new(move || helped.help()));
    let mut written = Vec::new();
    let decided = loop {
        match queue.next() {
            Next::Part(part) => {
                rows.write_part(&part)?;
                written.push(part);
            }
            Next::All(decided) => break *decided,
            Next::Panic(panic) => resume_unwind(panic),
        }
    };
    left.0 = None;
    // Where it was made, memory is freed best.
    encoder.free(written, decided.outcomes.len());
    Ok(decided)
}

/// What two threads share.
struct WorkQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Unless somebody is at it.
    undecided: Option<Box<UndecidedBatch>>,
    /// What is to be written.
    parts: VecDeque<Box<Part>>,
    /// What is left, once everything is decided.
    all: Option<Box<DecidedBatch>>,
    /// The making of the journal's text, for the second thread.
    texts: Option<Work>,
    panic: Option<Box<dyn Any + Send>>,
    /// One of the two waits for the other.
    waited_for: bool,
    /// The writer has failed, and the batch with it.
    left: bool,
}

/// What the writer is to do next.
enum Next {
    Part(Box<Part>),
    All(Box<DecidedBatch>),
    Panic(Box<dyn Any + Send>),
}

impl WorkQueue {
    fn new(undecided: UndecidedBatch) -> WorkQueue {
        let state = State { undecided: Some(Box::new(undecided)), ..State::default() };
        WorkQueue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the other one has changed something.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waited_for = true;
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the other one, if it waits; to tell somebody who does not would cost as much.
    fn tell(&self, state: &mut State) {
        if std::mem::take(&mut state.waited_for) {
            self.changed.notify_one();
        }
    }

    /// Waits for something to do; where nobody is at it, decides some more.
    fn next(&self) -> Next {
        let mut state = self.state();
        loop {
            if let Some(part) = state.parts.pop_front() {
                return Next::Part(part);
            }
            if let Some(panic) = state.panic.take() {
                return Next::Panic(panic);
            }
            if let Some(all) = state.all.take() {
                return Next::All(all);
            }
            state = match state.undecided.take() {
                Some(undecided) => self.go_on(state, undecided),
                None => self.wait(state),
            };
        }
    }

    /// Decides, and then makes texts, until all is done.
    fn help(&self) {
        let mut state = self.state();
        while !state.left && state.panic.is_none() {
            if let Some(texts) = state.texts.take() {
                drop(state);
                return texts();
            }
            state = match state.undecided.take() {
                Some(undecided) => self.go_on(state, undecided),
                None => self.wait(state),
            };
        }
    }

    /// Decides some more, while the other one may see to the rest.
    fn go_on<'a>(&'a self, state: MutexGuard<'a, State>, undecided: Box<UndecidedBatch>) -> MutexGuard<'a, State> {
        drop(state);
        let done = catch_unwind(AssertUnwindSafe(|| undecided.go_on()));
        let mut state = self.state();
        match done {
            Ok((part, Rest::UndecidedBatch(rest))) => {
                state.parts.extend(part);
                state.undecided = Some(rest);
            }
            Ok((part, Rest::All(all, texts))) => {
                state.parts.extend(part);
                (state.all, state.texts) = (Some(all), Some(texts));
            }
            Err(panic) => state.panic = Some(panic),
        }
        self.tell(&mut state);
        state
    }
}

/// Tells the second thread that nobody waits for it any more, unless it is taken away.
struct Left<'a>(Option<&'a WorkQueue>);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            let mut state = queue.state();
            state.left = true;
            queue.tell(&mut state);
        }
    }
}

/// A batch that is not decided to the end.
struct UndecidedBatch {
    loaded: LoadedBatch,
    requests: Arc<[Arc<CheckedRequest>]>,
    shared: Arc<Shared>,
}

enum Rest {
    UndecidedBatch(Box<UndecidedBatch>),
    All(Box<DecidedBatch>, Work),
}

impl UndecidedBatch {
    /// Decides some of it, or hands on what every request may add to: says what can be written, and what is left.
    fn go_on(mut self: Box<Self>) -> (Option<Box<Part>>, Rest) {
        if self.loaded.outcomes.len() < self.requests.len() {
            let setup = &self.shared.setup;
            let mut ids = setup.ids.lock().unwrap_or_else(PoisonError::into_inner);
            self.loaded.decide(&self.requests, PART, &setup.rules, &mut *ids);
            drop(ids);
            return (Some(Box::new(Part::early(&mut self.loaded.ws))), Rest::UndecidedBatch(self));
        }
        if let Some(scopes) = Part::scopes(&mut self.loaded.ws, 2 * PART) {
            return (Some(Box::new(scopes)), Rest::UndecidedBatch(self));
        }
        let LoadedBatch { mut ws, outcomes, .. } = self.loaded;
        let (journal, texts) = ws.take_batch().map(EncodedRow::begun).unzip();
        let texts: Work = Box::new(move || texts.into_iter().for_each(|make| make()));
        (None, Rest::All(Box::new(DecidedBatch { ws, outcomes, journal }), texts))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;
    use std::thread;

    use bursar_core::budget::Limit;
    use bursar_core::decide::Rules;
    use bursar_core::id::BatchId;
    use bursar_core::job::JobSpec;
    use bursar_core::name::{JobKind, Queue, Scope};
    use bursar_core::payload::Payload;
    use bursar_core::request::{Charge, Command, Op, Settle};
    use bursar_core::time::Time;
    use bursar_core::window::Window;
    use bursar_testkit::SeqIds;
    use futures_util::FutureExt;
    use rusqlite::types::Value;

    use super::*;
    use crate::clock::ManualClock;
    use crate::codec::Budgets;
    use crate::sqlite::schema;
    use crate::sqlite::writer::{Counters, Writer};
    use crate::store::Setup;
    use crate::transaction::BatchStart;

    const NOW: Time = Time::from_micros(1_794_823_200_000_000);

    fn request(number: usize) -> Arc<CheckedRequest> {
        let scope = Scope::new(format!("room/{}", number % 100)).unwrap();
        let charge = Charge::new(scope, 10).within([Limit::new(1_000, Window::Lifetime)]);
        let job = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), Payload::default());
        let (charges, jobs, settle) = (vec![charge], vec![job], Settle::Hold { ttl: None });
        let op = Op::Submit(Command { charges, jobs, settle, ..Command::default() });
        Arc::new(CheckedRequest::new(op.into()).unwrap())
    }

    struct World {
        writer: Writer,
        requests: Arc<[Arc<CheckedRequest>]>,
    }

    impl World {
        fn new() -> World {
            let ids = Arc::new(Mutex::new(SeqIds::new(1)));
            let clock = Arc::new(ManualClock::at(NOW));
            let shared = Shared {
                setup: Setup { rules: Rules::default(), clock: Some(clock.clone()), ids, migrate: true },
                clock,
                budgets: Budgets::default(),
                effort: Counters::default(),
                latest: AtomicI64::new(i64::MIN),
                path: None,
                files: None,
            };
            let mut writer = Writer::open(Arc::new(shared)).unwrap();
            writer.transaction(|_, conn| schema::migrate(conn)).unwrap();
            World { writer, requests: (0..7 * PART + 3).map(request).collect() }
        }

        fn queue(&self) -> Arc<WorkQueue> {
            let asked: Vec<&CheckedRequest> = self.requests.iter().map(|request| &**request).collect();
            let when = BatchStart { floor: NOW, batch: BatchId(1) };
            let mut rows = self.writer.shared.rows(&self.writer.conn);
            let loaded = LoadedBatch::load(&mut rows, &asked, when).now_or_never().unwrap().unwrap();
            let (requests, shared) = (self.requests.clone(), self.writer.shared.clone());
            Arc::new(WorkQueue::new(UndecidedBatch { loaded, requests, shared }))
        }

        /// Writes what the queue says; tells the rows of all tables that it wrote to, and how many parts there were.
        fn written(&self, queue: &WorkQueue) -> (Vec<Vec<Value>>, usize) {
            let rows = self.writer.shared.rows(&self.writer.conn);
            let mut parts = 0;
            let decided = loop {
                match queue.next() {
                    Next::Part(part) => {
                        rows.write_part(&part).unwrap();
                        parts += 1;
                    }
                    Next::All(decided) => break decided,
                    Next::Panic(_) => panic!("nobody fails here"),
                }
            };
            assert_eq!(decided.outcomes.len(), self.requests.len());
            rows.write(&decided.ws, decided.journal.as_ref()).unwrap();
            let tables = ["scopes", "holds", "live_charges", "jobs", "journal"].map(|table| {
                let mut select = self.writer.conn.prepare(&format!("SELECT * FROM bursar_{table}")).unwrap();
                let width = select.column_count();
                let row = |row: &rusqlite::Row<'_>| (0..width).map(|column| row.get(column)).collect();
                let found: rusqlite::Result<Vec<Vec<Value>>> = select.query_map([], row).unwrap().collect();
                found.unwrap()
            });
            (tables.concat(), parts)
        }
    }

    #[test]
    fn whoever_decides_the_same_is_written() {
        let alone = World::new();
        let (by_the_writer, parts) = alone.written(&alone.queue());
        assert_eq!(by_the_writer.len(), 2 * alone.requests.len() + 100 + 1, "holds and jobs, scopes, the journal");
        assert_eq!(parts, 8 + 2, "of requests, and of scopes");

        let first = World::new();
        let queue = first.queue();
        queue.help();
        assert!(queue.state().undecided.is_none(), "the other one decided all");
        assert_eq!(first.written(&queue), (by_the_writer.clone(), parts));

        for _ in 0..20 {
            let both = World::new();
            let queue = both.queue();
            let helped = queue.clone();
            let other = thread::spawn(move || helped.help());
            assert!(both.written(&queue) == (by_the_writer.clone(), parts), "other rows than by one thread");
            other.join().unwrap();
        }
    }

    #[test]
    fn the_other_one_ends_when_the_writer_has_failed() {
        let world = World::new();
        let queue = world.queue();
        // As if the writer were at it.
        let undecided = queue.state().undecided.take();
        let left = Left(Some(&queue));
        let helped = queue.clone();
        let other = thread::spawn(move || helped.help());
        drop(left);
        other.join().unwrap();
        drop(undecided);
    }
}
