//! The textbook design on SQLite: `BEGIN IMMEDIATE`, a connection and a thread per caller.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, params};
use tokio::time::Instant;

use super::{Work, history_times, now, window_start};
use crate::error::BenchError;
use crate::load::Round;
use crate::plan::Bench;
use crate::sqlite::File;
use crate::subject::AMPLE_LIMIT;

pub(crate) struct Textbook {
    file: File,
    work: Work,
    connections: Vec<Connection>,
    /// Grants created so far.
    grants: usize,
}

const TABLES: &str = "
    CREATE TABLE charges (id INTEGER PRIMARY KEY, scope TEXT NOT NULL, at INTEGER NOT NULL, amount INTEGER NOT NULL,
        state INTEGER NOT NULL);
    CREATE INDEX charges_by_scope ON charges (scope, at, amount);
    CREATE TABLE grants (id INTEGER PRIMARY KEY, purpose TEXT NOT NULL, subject TEXT NOT NULL, redeemed_at INTEGER);
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, charge INTEGER NOT NULL, queue TEXT NOT NULL, kind TEXT NOT NULL,
        payload TEXT NOT NULL, run_at INTEGER NOT NULL);";
/// Concurrent writers wait for each other in SQLite's busy handler.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl Textbook {
    pub(super) fn new(file: File, work: Work, history: u64) -> Result<Textbook, BenchError> {
        let conn = file.connect()?;
        conn.execute_batch(TABLES)?;
        let (start, step) = history_times(history);
        conn.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
             INSERT INTO charges (scope, at, amount, state)
             SELECT printf('agent:%06d', i % ?2), ?3 + i * ?4, 1, 1 FROM n",
            params![i64::try_from(history).unwrap_or(i64::MAX), work.scopes as i64, start, step],
        )?;
        conn.execute_batch("ANALYZE")?;
        let mut connections = vec![conn];
        while connections.len() < work.connections() {
            connections.push(file.connect()?);
        }
        for conn in &connections {
            conn.busy_timeout(BUSY_TIMEOUT)?;
        }
        Ok(Textbook { file, work, connections, grants: 0 })
    }

    pub(super) fn round(&mut self, time: Duration, grants: usize) -> Result<(Round, usize), BenchError> {
        if self.work.bench == Bench::Command {
            self.connections[0].execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO grants (purpose, subject) SELECT 'upload', 'session-7' FROM n",
                [grants as i64],
            )?;
        }
        let (next, first) = (AtomicUsize::new(0), self.grants);
        self.grants += grants;
        let (work, stop, busy) = (&self.work, AtomicBool::new(false), AtomicUsize::new(0));
        let begun = Instant::now();
        let caller = |conn: &mut Connection| -> Result<Vec<Duration>, BenchError> {
            let (mut done, mut tried) = (Vec::new(), false);
            while (!tried || begun.elapsed() < time) && !stop.load(Ordering::Relaxed) {
                tried = true;
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= grants {
                    break;
                }
                match operation(conn, work, number, first + number + 1) {
                    Ok(()) => done.push(begun.elapsed()),
                    Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                        busy.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        return Err(error.into());
                    }
                }
            }
            Ok(done)
        };
        let done: Result<Vec<Vec<Duration>>, BenchError> = thread::scope(|scope| {
            let callers: Vec<_> = self.connections.iter_mut().map(|conn| scope.spawn(|| caller(conn))).collect();
            let stopped = |_| BenchError::Failed("a caller of the textbook design stopped".into());
            callers.into_iter().map(|caller| caller.join().map_err(stopped)?).collect()
        });
        let (done, took) = in_time(&done?.concat(), time, begun.elapsed());
        Ok((Round { done, took, p50_ms: 0.0, p99_ms: 0.0 }, busy.into_inner()))
    }

    pub(super) fn close(self) -> File {
        self.file
    }
}

/// Returns the operations done within the round, and its length. Callers that wait at its end finish slowly, because SQLite
/// makes them poll; their operations count only if there are no others.
fn in_time(done: &[Duration], time: Duration, until: Duration) -> (usize, Duration) {
    match done.iter().filter(|at| **at <= time).count() {
        0 => (done.len(), until),
        within => (within, time.min(until)),
    }
}

fn operation(conn: &mut Connection, work: &Work, number: usize, grant: usize) -> rusqlite::Result<()> {
    let scope = work.scope(number);
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let sum = "SELECT coalesce(sum(amount), 0) FROM charges WHERE scope = ?1 AND at >= ?2";
    let spent: i64 = tx.prepare_cached(sum)?.query_row(params![scope, window_start()], |row| row.get(0))?;
    if spent >= AMPLE_LIMIT {
        return Err(rusqlite::Error::QueryReturnedNoRows);
    }
    let insert = "INSERT INTO charges (scope, at, amount, state) VALUES (?1, ?2, ?3, 0)";
    let charge = tx.prepare_cached(insert)?.insert(params![scope, now(), 1])?;
    if work.bench == Bench::Command {
        let redeem = "UPDATE grants SET redeemed_at = ?2
            WHERE id = ?1 AND purpose = 'upload' AND subject = 'session-7' AND redeemed_at IS NULL";
        if tx.prepare_cached(redeem)?.execute(params![grant as i64, now()])? != 1 {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        }
        let enqueue = "INSERT INTO jobs (charge, queue, kind, payload, run_at) VALUES (?1, ?2, ?3, ?4, ?5)";
        let job = params![charge, "media", "video.generate", "\"a red fox, running\"", now()];
        tx.prepare_cached(enqueue)?.execute(job)?;
    }
    tx.commit()?;
    if work.bench == Bench::Settle {
        let settle = "UPDATE charges SET amount = ?2, state = 1 WHERE id = ?1 AND state = 0";
        conn.prepare_cached(settle)?.execute(params![charge, 1])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_operations_count_only_if_there_are_no_others() {
        let [one, two, three] = [1, 2, 3].map(Duration::from_secs);
        assert_eq!(in_time(&[one, two, three], two, three), (2, two));
        assert_eq!(in_time(&[three], two, three), (1, three));
        assert_eq!(in_time(&[one], three, two), (1, two), "the round ended early because all grants were used");
    }
}
