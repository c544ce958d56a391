//! Batches: load, decide, store, commit; again where that is safe.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::needs::Needs;
use bursar_core::request::Request;
use bursar_core::time::Time;
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::error::{Trouble, commit_error, store_error, trouble};
use super::rows::{PgRows, Taking};
use super::{GATE, PostgresStore, READ_COMMITTED, no_answer};
use crate::error::StoreError;
use crate::rows::Rows;
use crate::store::{Lock, Patience, Verdict};
use crate::work::{self, When};

/// How often a batch is tried.
const ATTEMPTS: u32 = 6;
/// How often a batch is cut in halves for the sake of keys that somebody else is about to take.
const CUTS_MAX: usize = 16;

/// Why an attempt came to nothing. All of these leave no trace.
enum Setback {
    /// A key that was free has been taken meanwhile: what was decided is out of date.
    Taken,
    /// A key is about to be taken by somebody who takes his time.
    KeyLocked,
    /// Beside the row that was waited for, others are locked.
    Contended,
    /// The same attempt may succeed the next time.
    Passing(StoreError),
    /// Trying again would be of no use, or is not known to be safe.
    Final(StoreError),
}

/// A transaction that only needs to be committed.
struct Prepared {
    tx: Transaction<'static, Postgres>,
    verdicts: Vec<Verdict>,
    /// The instant it was decided at.
    now: Time,
}

impl PostgresStore {
    /// Does the requests in one transaction; in several where some of them wait for a stranger's keys.
    pub(super) async fn commit_all(
        &self,
        requests: &[&Request],
        patience: Patience,
    ) -> Result<Vec<Verdict>, StoreError> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; requests.len()];
        let mut parts: Vec<Range<usize>> = Vec::new();
        parts.push(0..requests.len());
        let mut cuts = 0;
        while let Some(part) = parts.pop() {
            let error = match self.commit_part(&requests[part.clone()], &patience, cuts > 0).await {
                Ok(some) => {
                    verdicts[part].iter_mut().zip(some).for_each(|(slot, verdict)| *slot = Some(verdict));
                    continue;
                }
                Err(Setback::KeyLocked) if part.len() > 1 && cuts < CUTS_MAX => {
                    cuts += 1;
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                    continue;
                }
                Err(Setback::KeyLocked) => {
                    for place in part {
                        verdicts[place] = Some(Verdict::Blocked(names(requests[place])));
                    }
                    continue;
                }
                Err(Setback::Taken | Setback::Contended) => StoreError::Busy("keys were taken again and again".into()),
                Err(Setback::Passing(error) | Setback::Final(error)) => error,
            };
            if part.len() == requests.len() {
                return Err(error);
            }
            // What is done must be told, whatever becomes of the rest.
            let error = Arc::new(error);
            verdicts[part].iter_mut().for_each(|slot| *slot = Some(Verdict::Failed(error.clone())));
        }
        Ok(verdicts.into_iter().map(|verdict| verdict.expect("every part has its verdicts")).collect())
    }

    async fn commit_part(
        &self,
        requests: &[&Request],
        patience: &Patience,
        cut: bool,
    ) -> Result<Vec<Verdict>, Setback> {
        // Somebody who takes his time is there: it is only a question of whose requests he is in the way of.
        let wait = if cut { self.options.key_patience / 20 } else { self.options.key_patience };
        let mut first = match patience {
            Patience::Skip => None,
            Patience::First(lock @ (Lock::Key(_) | Lock::JobKey(_)), wait) => {
                self.wait_for_name(lock, *wait).await.map_err(Setback::Final)?;
                None
            }
            Patience::First(lock, wait) => Some((lock, *wait)),
        };
        let mut attempt = 1;
        loop {
            match self.attempt(requests, first, wait).await {
                // To wait any longer would keep others from what is held already: see instead what is in the way.
                Err(Setback::Contended) => first = None,
                Err(Setback::Taken) if attempt < ATTEMPTS => {}
                Err(Setback::Passing(error)) if attempt < ATTEMPTS => {
                    tracing::debug!(%error, attempt, "a batch is tried again");
                    tokio::time::sleep(Duration::from_millis(5 << attempt)).await;
                }
                end => return end,
            }
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Vec<Verdict>, Setback> {
        let within = self.options.answer_within;
        let waits = wait + first.map_or(Duration::ZERO, |(_, wait)| wait);
        let tx = self.begin(READ_COMMITTED).await.map_err(Setback::Final)?;
        let prepared = tokio::time::timeout(within + waits, self.prepare(tx, requests, first, wait)).await;
        let Prepared { tx, verdicts, now } =
            prepared.unwrap_or_else(|_| Err(Setback::Final(no_answer(within + waits))))?;
        match tokio::time::timeout(within, tx.commit()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if trouble(&error) == Some(Trouble::Deadlock) => {
                return Err(Setback::Passing(store_error(error)));
            }
            Ok(Err(error)) => return Err(Setback::Final(commit_error(error))),
            Err(late) => return Err(Setback::Final(StoreError::UnknownOutcome(Box::new(late)))),
        }
        // Also where nothing was written: what was refused as expired stays expired.
        self.seen(now);
        Ok(verdicts)
    }

    /// Everything but the commit. What comes to nothing has let go of its rows before anybody hears of it: whoever asks
    /// again must not find them locked by the attempt before.
    async fn prepare(
        &self,
        mut tx: Transaction<'static, Postgres>,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared, Setback> {
        match self.prepare_in(&mut tx, requests, first, wait).await {
            Ok((verdicts, now)) => Ok(Prepared { tx, verdicts, now }),
            Err(setback) => {
                // A connection that cannot do even this is lost, and its locks with it.
                let _ = tx.rollback().await;
                Err(setback)
            }
        }
    }

    async fn prepare_in(
        &self,
        tx: &mut Transaction<'static, Postgres>,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<(Vec<Verdict>, Time), Setback> {
        let entered = async {
            if let Some((lock, patience)) = first {
                enter(tx, patience).await?;
                lock_row(tx, lock).await?;
            }
            enter(tx, wait).await
        };
        entered.await.map_err(|error| tried(trouble(&error), store_error(error)))?;
        let when = When { floor: self.floor(), batch: self.next_batch() };
        // With the row in hand that was waited for, those it is wanted with are worth a moment.
        let taking = if first.is_some() { Taking::Wait } else { Taking::Skip };
        let mut rows = PgRows::new(tx, self, taking);
        let run = work::run(&mut rows, requests, &self.setup.rules, when, &mut self.ids()).await;
        let (mut ws, verdicts) = run.map_err(|error| match rows.trouble {
            Some(Trouble::LockTimeout) if taking == Taking::Wait => Setback::Contended,
            trouble => tried(trouble, error),
        })?;
        let batch = ws.take_batch();
        let now = ws.now;
        match rows.store(&ws, batch).await {
            Ok(true) => Ok((verdicts, now)),
            Ok(false) => Err(Setback::Taken),
            Err(_) if rows.trouble == Some(Trouble::LockTimeout) => Err(Setback::KeyLocked),
            Err(error) => Err(tried(rows.trouble, error)),
        }
    }
}

/// The names a request takes, on one of which somebody else is sitting.
fn names(request: &Request) -> Vec<Lock> {
    let needs = Needs::of(request);
    needs.keys.into_iter().map(Lock::Key).chain(needs.job_keys.into_iter().map(Lock::JobKey)).collect()
}

impl PostgresStore {
    /// Waits for a name that somebody is about to take, by trying to take it: in a transaction that is rolled back.
    async fn wait_for_name(&self, lock: &Lock, patience: Duration) -> Result<(), StoreError> {
        let mut tx = self.begin(READ_COMMITTED).await?;
        enter(&mut tx, patience).await.map_err(store_error)?;
        let waited = lock_row(&mut tx, lock).await.map_err(store_error);
        tx.rollback().await.map_err(store_error)?;
        waited
    }
}

/// Locks one row, waiting for it as long as the transaction waits for locks.
async fn lock_row(conn: &mut PgConnection, lock: &Lock) -> Result<(), sqlx::Error> {
    let none = Uuid::nil();
    let statement = match lock {
        Lock::Scope((tenant, scope)) => {
            let sql = "SELECT 1 FROM bursar.scopes WHERE tenant = $1 AND scope = $2 FOR UPDATE";
            sqlx::query(sql).bind(tenant.as_str()).bind(scope.as_str())
        }
        Lock::Hold(id) => {
            sqlx::query("SELECT 1 FROM bursar.holds WHERE id = $1 FOR UPDATE").bind(Uuid::from_u128(id.0))
        }
        Lock::Grant(id) => {
            sqlx::query("SELECT 1 FROM bursar.grants WHERE id = $1 FOR UPDATE").bind(Uuid::from_u128(id.0))
        }
        Lock::Key((tenant, key)) => {
            let sql = "INSERT INTO bursar.keys (tenant, key, fingerprint, batch, command, until) VALUES ($1, $2, $3, $3, $3, 0) ON CONFLICT DO NOTHING";
            sqlx::query(sql).bind(tenant.as_str()).bind(key.as_str()).bind(none)
        }
        Lock::JobKey((tenant, queue, key)) => {
            let sql =
                "INSERT INTO bursar.job_keys (tenant, queue, key, job) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            sqlx::query(sql).bind(tenant.as_str()).bind(queue.as_str()).bind(key.as_str()).bind(none)
        }
    };
    statement.execute(conn).await.map(drop)
}

/// Sets how long this transaction waits for locks, has its commit wait for the disk, and joins the writers.
pub(super) async fn enter(conn: &mut PgConnection, wait: Duration) -> Result<(), sqlx::Error> {
    // A plan is made once and kept. One made while a table is small would read all of it by and by: not that one.
    let settings = "SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true),
                        set_config('synchronous_commit', coalesce(
                            nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),
                        pg_advisory_xact_lock_shared($2)";
    sqlx::query(settings)
        // Zero would mean to wait for ever.
        .bind(format!("{}ms", wait.as_millis().clamp(1, i32::MAX as u128)))
        .bind(GATE)
        .execute(conn)
        .await
        .map(drop)
}

/// Before the commit nothing has happened: what passes by itself is tried again. Whoever waited for a lock has waited.
fn tried(trouble: Option<Trouble>, error: StoreError) -> Setback {
    match trouble {
        Some(Trouble::Deadlock | Trouble::Lost) => Setback::Passing(error),
        Some(Trouble::LockTimeout) | None => Setback::Final(error),
    }
}
