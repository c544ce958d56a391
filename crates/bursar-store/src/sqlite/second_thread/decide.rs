//! Deciding a large batch on two threads.
//!
//! The requests of a batch are decided in order, in steps, by one thread at a time: the batch lies in a [`WorkQueue`], and a free
//! thread takes it, decides one step and puts it back. The writer thread prefers to write rows that are ready. The second thread only
//! decides, so most of the time one thread decides while the other writes. A row that changes in a later step is written again.
//!
//! Every request may charge any scope, so scopes are written after all requests are decided.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bursar_core::request::CheckedRequest;
use bursar_core::state::Workspace;

use super::encode::JournalRow;
use super::{SecondThread, Task};
use crate::error::StoreError;
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::write::EncodedRows;
use crate::sqlite::writer::Shared;
use crate::store::RequestOutcome;
use crate::transaction::LoadedBatch;

/// The requests that are decided in one step.
const STEP: usize = 32;
/// The fewest requests of a batch that is decided on two threads.
pub(in crate::sqlite) const REQUESTS_MIN: usize = 2 * STEP;

/// A batch whose requests are all decided, and some of whose rows are written.
pub(in crate::sqlite) struct DecidedBatch {
    pub(in crate::sqlite) ws: Workspace,
    pub(in crate::sqlite) outcomes: Vec<RequestOutcome>,
    pub(in crate::sqlite) journal: Option<JournalRow>,
}

/// Decides a batch on this thread and the second one, and writes rows on this one as they become ready. The rows that are left are
/// in the workspace of the result.
pub(in crate::sqlite) fn decide(
    shared: &Arc<Shared>,
    second_thread: &SecondThread,
    rows: &SqliteRows<'_>,
    loaded: LoadedBatch,
    requests: &Arc<[Arc<CheckedRequest>]>,
) -> Result<DecidedBatch, StoreError> {
    let (shared, requests) = (shared.clone(), requests.clone());
    let queue = Arc::new(WorkQueue::new(UndecidedBatch { loaded, requests, shared }));
    let mut abandon = AbandonOnDrop(Some(&queue));
    let second = queue.clone();
    second_thread.run(Box::new(move || second.run_second_thread()));
    let mut written = Vec::new();
    let decided = loop {
        match queue.next_for_writer() {
            WriterWork::Write(encoded) => {
                rows.write_encoded(&encoded)?;
                written.push(encoded);
            }
            WriterWork::Finish(decided) => break *decided,
            WriterWork::Panic(panic) => resume_unwind(panic),
        }
    };
    abandon.0 = None;
    // Memory is freed fastest on the thread that allocated it.
    second_thread.free(written, decided.outcomes.len());
    Ok(decided)
}

/// The state of one batch, shared by both threads.
struct WorkQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The batch, as long as it has undecided requests and no thread is deciding them.
    undecided: Option<Box<UndecidedBatch>>,
    /// Rows that the writer thread can write.
    encoded: VecDeque<Box<EncodedRows>>,
    /// The decided batch, for the writer thread.
    decided: Option<Box<DecidedBatch>>,
    /// The encoding of the journal, for the second thread. It is set together with `decided`.
    encode_journal: Option<Task>,
    /// A panic in a decision, on either thread.
    panic: Option<Box<dyn Any + Send>>,
    /// Whether one of the threads waits for a change.
    has_waiter: bool,
    /// Whether the writer thread has failed and no longer needs a result.
    abandoned: bool,
}

/// The next work of the writer thread.
enum WriterWork {
    Write(Box<EncodedRows>),
    Finish(Box<DecidedBatch>),
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

    /// Waits until the other thread has changed the state.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.has_waiter = true;
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the other thread if it waits. Without a waiter this saves a system call.
    fn notify(&self, state: &mut State) {
        if std::mem::take(&mut state.has_waiter) {
            self.changed.notify_one();
        }
    }

    /// Returns the next work of the writer thread. While there is none, takes a step of the batch or waits.
    fn next_for_writer(&self) -> WriterWork {
        let mut state = self.state();
        loop {
            if let Some(encoded) = state.encoded.pop_front() {
                return WriterWork::Write(encoded);
            }
            if let Some(panic) = state.panic.take() {
                return WriterWork::Panic(panic);
            }
            if let Some(decided) = state.decided.take() {
                return WriterWork::Finish(decided);
            }
            state = self.step_or_wait(state);
        }
    }

    /// Takes steps until the batch is decided, and then encodes the journal.
    fn run_second_thread(&self) {
        let mut state = self.state();
        while !state.abandoned && state.panic.is_none() {
            if let Some(encode_journal) = state.encode_journal.take() {
                drop(state);
                return encode_journal();
            }
            state = self.step_or_wait(state);
        }
    }

    /// Takes one step of the batch, with the state unlocked meanwhile. Waits if the other thread has the batch, or if it is decided.
    fn step_or_wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(undecided) = state.undecided.take() else { return self.wait(state) };
        drop(state);
        let step = catch_unwind(AssertUnwindSafe(|| undecided.step()));
        let mut state = self.state();
        match step {
            Ok(Step::Rows(encoded, undecided)) => {
                state.encoded.push_back(encoded);
                state.undecided = Some(undecided);
            }
            Ok(Step::Done(decided, encode_journal)) => {
                (state.decided, state.encode_journal) = (Some(decided), Some(encode_journal));
            }
            Err(panic) => state.panic = Some(panic),
        }
        self.notify(&mut state);
        state
    }
}

/// Ends the work of the second thread when the writer thread fails. Set to `None` once the batch is decided.
struct AbandonOnDrop<'a>(Option<&'a WorkQueue>);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            let mut state = queue.state();
            state.abandoned = true;
            queue.notify(&mut state);
        }
    }
}

/// A loaded batch that needs more steps.
struct UndecidedBatch {
    loaded: LoadedBatch,
    requests: Arc<[Arc<CheckedRequest>]>,
    shared: Arc<Shared>,
}

/// The result of one step.
enum Step {
    /// Rows that can be written, and the batch, which needs more steps.
    Rows(Box<EncodedRows>, Box<UndecidedBatch>),
    /// The decided batch, and the encoding of its journal.
    Done(Box<DecidedBatch>, Task),
}

impl UndecidedBatch {
    /// Decides the next requests. When all are decided, encodes scopes; when these are encoded too, the batch is done.
    fn step(mut self: Box<Self>) -> Step {
        if self.loaded.outcomes.len() < self.requests.len() {
            let setup = &self.shared.setup;
            let mut ids = setup.ids.lock().unwrap_or_else(PoisonError::into_inner);
            self.loaded.decide(&self.requests, STEP, &setup.rules, &mut *ids);
            drop(ids);
            return Step::Rows(Box::new(EncodedRows::take_all_but_scopes(&mut self.loaded.ws)), self);
        }
        if let Some(scopes) = EncodedRows::take_scopes(&mut self.loaded.ws, 2 * STEP) {
            return Step::Rows(Box::new(scopes), self);
        }
        let LoadedBatch { mut ws, outcomes, .. } = self.loaded;
        let journal = ws.take_batch().map(JournalRow::new);
        let encode_journal = journal.as_ref().map(JournalRow::encode_task);
        let encode_journal: Task = encode_journal.unwrap_or_else(|| Box::new(|| ()));
        Step::Done(Box::new(DecidedBatch { ws, outcomes, journal }), encode_journal)
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
    use bursar_core::request::{Charge, Command, Op, Request, Settle};
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
    const SCOPES: usize = 100;

    /// A hold and a job on one of [`SCOPES`] scopes.
    fn request(number: usize) -> Arc<CheckedRequest> {
        let scope = Scope::new(format!("room/{}", number % SCOPES)).unwrap();
        let charge = Charge::new(scope, 10).within([Limit::new(1_000, Window::Lifetime)]);
        let job = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), Payload::default());
        let (charges, jobs, settle) = (vec![charge], vec![job], Settle::Hold { ttl: None });
        let request = Request::from(Op::Submit(Command { charges, jobs, settle, ..Command::default() }));
        Arc::new(CheckedRequest::new(request).unwrap())
    }

    /// A database in memory, and requests for it.
    struct TestBatch {
        writer: Writer,
        requests: Arc<[Arc<CheckedRequest>]>,
    }

    impl TestBatch {
        fn new() -> TestBatch {
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
                read_only: false,
            };
            let mut writer = Writer::open(Arc::new(shared)).unwrap();
            writer.transaction(|_, conn| schema::migrate(conn)).unwrap();
            TestBatch { writer, requests: (0..7 * STEP + 3).map(request).collect() }
        }

        fn queue(&self) -> Arc<WorkQueue> {
            let requests: Vec<&CheckedRequest> = self.requests.iter().map(|request| &**request).collect();
            let start = BatchStart { floor: NOW, batch: BatchId(1) };
            let mut rows = self.writer.shared.rows(&self.writer.conn);
            let loaded = LoadedBatch::load(&mut rows, &requests, start).now_or_never().unwrap().unwrap();
            let (requests, shared) = (self.requests.clone(), self.writer.shared.clone());
            Arc::new(WorkQueue::new(UndecidedBatch { loaded, requests, shared }))
        }

        /// Runs the writer's side of the queue. Returns all rows that were written, and in how many steps before the end.
        fn write(&self, queue: &WorkQueue) -> (Vec<Vec<Value>>, usize) {
            let rows = self.writer.shared.rows(&self.writer.conn);
            let mut steps = 0;
            let decided = loop {
                match queue.next_for_writer() {
                    WriterWork::Write(encoded) => {
                        rows.write_encoded(&encoded).unwrap();
                        steps += 1;
                    }
                    WriterWork::Finish(decided) => break decided,
                    WriterWork::Panic(_) => panic!("a decision panicked"),
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
            (tables.concat(), steps)
        }
    }

    #[test]
    fn the_rows_do_not_depend_on_which_thread_decides() {
        let batch = TestBatch::new();
        let (by_writer, steps) = batch.write(&batch.queue());
        assert_eq!(by_writer.len(), 2 * batch.requests.len() + SCOPES + 1, "holds and jobs, scopes, one journal row");
        assert_eq!(steps, 8 + 2, "steps of requests, and of scopes");

        let batch = TestBatch::new();
        let queue = batch.queue();
        queue.run_second_thread();
        assert!(queue.state().undecided.is_none(), "the second thread decided the whole batch");
        assert_eq!(batch.write(&queue), (by_writer.clone(), steps));

        for _ in 0..20 {
            let batch = TestBatch::new();
            let queue = batch.queue();
            let shared = queue.clone();
            let second = thread::spawn(move || shared.run_second_thread());
            assert!(batch.write(&queue) == (by_writer.clone(), steps), "two threads wrote other rows than one");
            second.join().unwrap();
        }
    }

    #[test]
    fn the_second_thread_ends_when_the_writer_has_failed() {
        let batch = TestBatch::new();
        let queue = batch.queue();
        // The second thread waits, as if the writer thread were deciding.
        let undecided = queue.state().undecided.take();
        let abandon = AbandonOnDrop(Some(&queue));
        let shared = queue.clone();
        let second = thread::spawn(move || shared.run_second_thread());
        drop(abandon);
        second.join().unwrap();
        drop(undecided);
    }
}
