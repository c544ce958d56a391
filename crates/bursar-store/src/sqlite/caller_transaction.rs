//! A caller's own writes and Bursar's in one transaction, on the writer's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bursar_core::answer::Outcome;
use bursar_core::event::Entry;
use bursar_core::refusal::Refusal;
use bursar_core::request::CheckedRequest;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::error::StoreError;
use crate::sqlite::error::failed;
use crate::sqlite::writer::{Shared, Writer, decide_in};
use crate::store::RequestOutcome;

/// A transaction that a caller's closure writes in.
pub struct SqliteTx<'a> {
    shared: &'a Shared,
    conn: &'a Connection,
    told: Vec<Arc<Entry>>,
    /// A request failed in the middle: what it left behind must not be committed.
    broken: bool,
}

impl SqliteTx<'_> {
    /// The connection, for the caller's own statements. Transaction control, `ATTACH` and `PRAGMA` are refused.
    pub fn connection(&self) -> &Connection {
        self.conn
    }

    /// Does a request within the transaction. After an error nothing of the transaction is kept, whatever the closure
    /// makes of it.
    pub fn request(&mut self, request: &CheckedRequest) -> Result<Result<Outcome, Refusal>, StoreError> {
        loop {
            // Without a transaction each statement would be a transaction of its own.
            still_open(self.conn)?;
            let outcomes = decide_in(self.shared, self.conn, &[request]);
            self.broken |= outcomes.is_err();
            match outcomes?.pop().expect("one request has one outcome") {
                RequestOutcome::Answered(answer) => {
                    self.told.extend(answer.as_ref().ok().and_then(|outcome| outcome.entry.clone()));
                    return Ok(answer);
                }
                RequestOutcome::Again | RequestOutcome::Blocked(_) | RequestOutcome::Failed(_) => {}
            }
        }
    }
}

/// A conflict clause, a trigger, a full disk or a failing one ends the transaction beneath a closure, which may not
/// notice or not care.
pub(super) fn still_open(conn: &Connection) -> Result<(), StoreError> {
    if conn.is_autocommit() {
        return Err(StoreError::Closure("went on after an error had ended its transaction".into()));
    }
    Ok(())
}

/// What a closure came to, and what it did that is to be told now that it is durable.
pub(super) type Told<T> = (T, Vec<Arc<Entry>>);

impl Writer {
    /// Runs a caller's closure in a transaction of its own, for a bounded time.
    pub(super) fn run_closure<T, E>(
        &mut self,
        limit: Duration,
        work: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, E>,
    ) -> Result<Result<Told<T>, E>, StoreError> {
        let over = Arc::new(AtomicBool::new(false));
        let watch = Watch::start(limit, over.clone());
        let mut refused = None;
        let done = self.transaction(|shared, conn| {
            let guard = Guard::put(conn, over.clone())?;
            let mut tx = SqliteTx { shared, conn, told: Vec::new(), broken: false };
            let answer = work(&mut tx);
            let SqliteTx { told, broken, .. } = tx;
            drop(guard);
            if over.load(Ordering::SeqCst) {
                return Err(StoreError::Closure("did not end in time".into()));
            }
            match answer {
                Ok(_) if broken => Err(StoreError::Closure("went on after a request had failed".into())),
                Ok(answer) => Ok((answer, told)),
                Err(error) => {
                    refused = Some(error);
                    Err(StoreError::Closure("failed".into()))
                }
            }
        });
        drop(watch);
        // Whatever the closure left behind, the next transaction starts without its guards.
        Guard::lift(&self.conn)?;
        match (done, refused) {
            (Ok(done), _) => Ok(Ok(done)),
            (Err(StoreError::Closure(_)), Some(error)) => Ok(Err(error)),
            (Err(error), _) => Err(error),
        }
    }
}

/// Keeps a closure from ending the transaction itself and from running on for ever.
struct Guard<'a>(&'a Connection);

impl<'a> Guard<'a> {
    fn put(conn: &'a Connection, over: Arc<AtomicBool>) -> Result<Guard<'a>, StoreError> {
        conn.authorizer(Some(|context: AuthContext<'_>| match context.action {
            AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
            | AuthAction::Pragma { .. } => Authorization::Deny,
            _ => Authorization::Allow,
        }))
        .map_err(failed)?;
        conn.progress_handler(1_000, Some(move || over.load(Ordering::SeqCst))).map_err(failed)?;
        // Only what runs after the transaction was ended beneath the closure would commit by itself: it is rolled back.
        conn.commit_hook(Some(|| true)).map_err(failed)?;
        Ok(Guard(conn))
    }

    fn lift(conn: &Connection) -> Result<(), StoreError> {
        conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(failed)?;
        conn.commit_hook(None::<fn() -> bool>).map_err(failed)?;
        conn.progress_handler(0, None::<fn() -> bool>).map_err(failed)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let _ = Guard::lift(self.0);
    }
}

/// Says when the time is over.
struct Watch(Option<std::sync::mpsc::Sender<()>>);

impl Watch {
    fn start(limit: Duration, over: Arc<AtomicBool>) -> Watch {
        let (stop, stopped) = std::sync::mpsc::channel();
        thread::spawn(move || {
            if stopped.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                over.store(true, Ordering::SeqCst);
            }
        });
        Watch(Some(stop))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.take();
    }
}
