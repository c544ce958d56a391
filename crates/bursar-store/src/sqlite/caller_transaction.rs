//! Callers' closures: a caller's own writes and Bursar's in one transaction, on the writer thread.
//!
//! A closure gets a transaction of its own and a time limit. SQLite hooks keep it from ending the transaction itself. The transaction
//! commits only if the closure succeeds in time, no request in it failed, and the transaction is still open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bursar_core::answer::Outcome;
use bursar_core::event::Entry;
use bursar_core::refusal::Refusal;
use bursar_core::request::CheckedRequest;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::error::StoreError;
use crate::sqlite::error::store_error;
use crate::sqlite::writer::{Shared, Writer, run_in};
use crate::store::RequestOutcome;

/// The transaction of a caller's closure.
pub struct SqliteTx<'a> {
    shared: &'a Shared,
    conn: &'a Connection,
    /// The journal entries of the requests so far, published after the commit.
    entries: Vec<Arc<Entry>>,
    /// Whether a request failed after it may have written some of its rows. Such a transaction is not committed.
    request_failed: bool,
}

impl SqliteTx<'_> {
    /// The connection, for the caller's own statements. Transaction control, `ATTACH` and `PRAGMA` are refused.
    pub fn connection(&self) -> &Connection {
        self.conn
    }

    /// Runs a request within the transaction. After an error the transaction is rolled back, even if the closure succeeds.
    pub fn request(&mut self, request: &CheckedRequest) -> Result<Result<Outcome, Refusal>, StoreError> {
        loop {
            // Without an open transaction, each statement would commit by itself.
            check_open(self.conn)?;
            let outcomes = run_in(self.shared, self.conn, &[request]);
            self.request_failed |= outcomes.is_err();
            match outcomes?.pop().expect("one request has one outcome") {
                RequestOutcome::Answered(answer) => {
                    self.entries.extend(answer.as_ref().ok().and_then(|outcome| outcome.entry.clone()));
                    return Ok(answer);
                }
                RequestOutcome::Again | RequestOutcome::Blocked(_) | RequestOutcome::Failed(_) => {}
            }
        }
    }
}

/// Fails if the transaction on a connection has ended. A conflict clause, a trigger or an error of the disk can roll it back, and a
/// closure may ignore the error.
pub(super) fn check_open(conn: &Connection) -> Result<(), StoreError> {
    if conn.is_autocommit() {
        return Err(StoreError::Closure("continued after an error had ended its transaction".into()));
    }
    Ok(())
}

/// The result of a closure, and the journal entries to publish now that they are durable.
pub(super) type Committed<T> = (T, Vec<Arc<Entry>>);

impl Writer {
    /// Runs a caller's closure in a transaction of its own, within a time limit.
    pub(super) fn run_closure<T, E>(
        &mut self,
        limit: Duration,
        run: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, E>,
    ) -> Result<Result<Committed<T>, E>, StoreError> {
        let expired = Arc::new(AtomicBool::new(false));
        let timer = Timer::start(limit, expired.clone());
        let mut closure_error = None;
        let result = self.transaction(|shared, conn| {
            let hooks = ClosureHooks::install(conn, expired.clone())?;
            let mut tx = SqliteTx { shared, conn, entries: Vec::new(), request_failed: false };
            let answer = run(&mut tx);
            let SqliteTx { entries, request_failed, .. } = tx;
            drop(hooks);
            if expired.load(Ordering::SeqCst) {
                return Err(StoreError::Closure("did not end in time".into()));
            }
            match answer {
                Ok(_) if request_failed => Err(StoreError::Closure("continued after a request had failed".into())),
                Ok(answer) => Ok((answer, entries)),
                Err(error) => {
                    closure_error = Some(error);
                    Err(StoreError::Closure("failed".into()))
                }
            }
        });
        drop(timer);
        // Dropping the hooks ignores an error, so they are removed again here.
        ClosureHooks::remove(&self.conn)?;
        match (result, closure_error) {
            (Ok(committed), _) => Ok(Ok(committed)),
            (Err(StoreError::Closure(_)), Some(error)) => Ok(Err(error)),
            (Err(error), _) => Err(error),
        }
    }
}

/// Hooks on the connection that keep a closure from ending its transaction and from exceeding its time limit. Dropping this removes
/// them.
struct ClosureHooks<'a>(&'a Connection);

impl<'a> ClosureHooks<'a> {
    fn install(conn: &'a Connection, expired: Arc<AtomicBool>) -> Result<ClosureHooks<'a>, StoreError> {
        conn.authorizer(Some(|context: AuthContext<'_>| match context.action {
            AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
            | AuthAction::Pragma { .. } => Authorization::Deny,
            _ => Authorization::Allow,
        }))
        .map_err(store_error)?;
        conn.progress_handler(1_000, Some(move || expired.load(Ordering::SeqCst))).map_err(store_error)?;
        // After an error has ended the transaction, each further statement would commit by itself. This rolls it back.
        conn.commit_hook(Some(|| true)).map_err(store_error)?;
        Ok(ClosureHooks(conn))
    }

    fn remove(conn: &Connection) -> Result<(), StoreError> {
        conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(store_error)?;
        conn.commit_hook(None::<fn() -> bool>).map_err(store_error)?;
        conn.progress_handler(0, None::<fn() -> bool>).map_err(store_error)
    }
}

impl Drop for ClosureHooks<'_> {
    fn drop(&mut self) {
        let _ = ClosureHooks::remove(self.0);
    }
}

/// A thread that sets a flag after a time limit. Dropping this ends the thread.
struct Timer(Option<mpsc::Sender<()>>);

impl Timer {
    fn start(limit: Duration, expired: Arc<AtomicBool>) -> Timer {
        let (stop, stopped) = mpsc::channel();
        thread::spawn(move || {
            if stopped.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                expired.store(true, Ordering::SeqCst);
            }
        });
        Timer(Some(stop))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.take();
    }
}
