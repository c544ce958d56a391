//! Loading the rows of a transaction: loops of prepared statements on one connection. With one writer no row needs a lock.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::bounds::CLAIM_BYTES_MAX;
use bursar_core::bounds::FOLD_STEP;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::live::{ChargeMark, LiveCharge};
use bursar_core::name::FlowKey;
use bursar_core::page::{PageFill, PageItem};
use bursar_core::payload::Payload;
use bursar_core::request::Fingerprint;
use bursar_core::scope::{Due, DueQuery, DueStep, Posting, PostingMark, ScopeState, WindowHistory};
use bursar_core::state::{
    BlobDigestKey, IdempotencyRowKey, JobKey, KeyRow, LineKey, NamespaceKey, QueueKey, ScheduleKey, ScopeKey, Workspace,
};
use bursar_core::time::Time;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Params, Row, StatementStatus, params};
use serde::de::DeserializeOwned;

use crate::clock::Clock;
use crate::codec::{Budgets, Packed, PayloadRow, from_json};
use crate::error::StoreError;
use crate::memory::ROLL_UP_STEP;
use crate::segment::ArchivedRow;
use crate::sqlite::error::store_error;
use crate::sqlite::scope_cache::ScopeCache;
use crate::sqlite::second_thread::SecondThread;
use crate::sqlite::writer::Counters;
use crate::transaction::rows::{ClaimQuery, Claimed, Found, HistoryQuery, Rows};

/// The transaction that is open on a connection.
pub(super) struct SqliteRows<'a> {
    pub(super) conn: &'a Connection,
    pub(super) clock: &'a dyn Clock,
    pub(super) budgets: &'a Budgets,
    pub(super) effort: &'a Counters,
    /// The scopes that this connection wrote last. `None` outside of batches.
    pub(super) scope_cache: Option<&'a RefCell<ScopeCache>>,
    /// The thread that encodes journal rows. `None` outside of batches.
    pub(super) second_thread: Option<&'a SecondThread>,
}

/// Encodes a 128-bit id as it is stored: big-endian, so that ids sort by time.
pub(super) fn id(id: u128) -> [u8; 16] {
    id.to_be_bytes()
}

pub(super) fn get_id(row: &Row<'_>, column: usize) -> rusqlite::Result<u128> {
    row.get::<_, [u8; 16]>(column).map(u128::from_be_bytes)
}

pub(super) fn get_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Time> {
    row.get(column).map(Time::from_micros)
}

pub(super) fn seq(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// A prepared statement that counts its runs and steps.
pub(super) struct Statement<'a> {
    inner: CachedStatement<'a>,
    effort: &'a Counters,
    runs: u64,
}

impl<'a> Statement<'a> {
    pub(super) fn run(&mut self, params: impl Params) -> Result<usize, StoreError> {
        self.runs += 1;
        self.inner.execute(params).map_err(store_error)
    }

    /// Returns the statement for one run with values that are bound one by one.
    pub(super) fn raw(&mut self) -> &mut CachedStatement<'a> {
        self.runs += 1;
        &mut self.inner
    }

    fn one<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.runs += 1;
        let mut rows = self.inner.query(params).map_err(store_error)?;
        rows.next().map_err(store_error)?.map(read).transpose()
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        let steps = self.inner.reset_status(StatementStatus::VmStep).unsigned_abs();
        self.effort.statements.fetch_add(self.runs, Ordering::Relaxed);
        self.effort.steps.fetch_add(steps.into(), Ordering::Relaxed);
    }
}

const SCOPE: &str = "SELECT state, budget FROM bursar_scopes WHERE tenant = ?1 AND scope = ?2";
const HOLD: &str = "SELECT data FROM bursar_holds WHERE id = ?1";
const GRANT: &str = "SELECT data FROM bursar_grants WHERE id = ?1";

impl<'a> SqliteRows<'a> {
    pub(super) fn prepare(&self, sql: &str) -> Result<Statement<'a>, StoreError> {
        Ok(Statement { inner: self.conn.prepare_cached(sql).map_err(store_error)?, effort: self.effort, runs: 0 })
    }

    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.prepare(sql)?.one(params, read)
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare(sql)?;
        statement.runs += 1;
        let mut rows = statement.inner.query(params).map_err(store_error)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// Reads rows until a page is full, by number or by bytes.
    pub(super) fn page<T: PageItem>(
        &self,
        sql: &str,
        params: impl Params,
        limit: usize,
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare(sql)?;
        statement.runs += 1;
        let mut rows = statement.inner.query(params).map_err(store_error)?;
        let (mut page, mut found) = (PageFill::new(limit), Vec::new());
        while !page.is_full()
            && let Some(row) = rows.next().map_err(store_error)?
        {
            let item = read(row)?;
            page.add(item.bytes());
            found.push(item);
        }
        Ok(found)
    }

    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        self.prepare(sql)?.run(params)
    }

    pub(super) fn read_scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        self.scope_with(&mut self.prepare(SCOPE)?, key)
    }

    fn scope_with(&self, statement: &mut Statement<'_>, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        statement.one(params![key.0.as_str(), key.1.as_str()], |row| {
            let mut state: ScopeState = unpack(row, 0)?;
            state.budget = match row.get_ref(1).map_err(store_error)? {
                ValueRef::Null => None,
                text => Some(self.budgets.parse(text.as_str().map_err(|e| StoreError::corrupt("budget", e))?)?),
            };
            Ok(state)
        })
    }

    pub(super) fn read_hold(&self, hold: HoldId) -> Result<Option<Hold>, StoreError> {
        self.prepare(HOLD)?.one([id(hold.0)], |row| unpack(row, 0))
    }

    pub(super) fn read_grant(&self, grant: GrantId) -> Result<Option<Grant>, StoreError> {
        self.read_with_payload(&mut self.prepare(GRANT)?, grant.0)
    }

    fn read_with_payload<T: PayloadRow>(
        &self,
        statement: &mut Statement<'_>,
        owner: u128,
    ) -> Result<Option<T>, StoreError> {
        let found: Option<T> = statement.one([id(owner)], |row| unpack(row, 0))?;
        found.map(|found| self.attach(found, owner)).transpose()
    }

    /// Loads a large payload, which is stored in a table of its own, into its row.
    pub(super) fn attach<T: PayloadRow>(&self, mut row: T, owner: u128) -> Result<T, StoreError> {
        if row.payload().is_elsewhere() {
            *row.payload() = self.payload(owner)?.unwrap_or_default();
        }
        Ok(row)
    }

    pub(super) fn payload(&self, owner: u128) -> Result<Option<Payload>, StoreError> {
        self.one("SELECT data FROM bursar_payloads WHERE id = ?1", [id(owner)], |row| {
            Ok(Payload::trusted(&row.get::<_, String>(0).map_err(store_error)?))
        })
    }

    /// Reads the journal row that starts at a position.
    pub(super) fn read_batch(&self, position: i64) -> Result<Option<Batch>, StoreError> {
        let sql = "SELECT position, at, prev, entries FROM bursar_journal WHERE position = ?1";
        self.one(sql, [position], |row| self.unpack_batch(row))
    }

    pub(super) fn unpack_batch(&self, row: &Row<'_>) -> Result<Batch, StoreError> {
        let position: i64 = row.get(0).map_err(store_error)?;
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        let at = get_time(row, 1).map_err(store_error)?;
        self.batch(BatchId(position as u128), at, &text(2)?, &text(3)?)
    }

    /// Decodes a row that a segment has, with its payloads.
    pub(super) fn batch_of(&self, row: &ArchivedRow) -> Result<Batch, StoreError> {
        self.batch(row.id, row.at, &row.prev, &row.entries)
    }

    fn batch(&self, id: BatchId, at: Time, prev: &str, entries: &str) -> Result<Batch, StoreError> {
        let (prev, entries) = (from_json("journal row", prev)?, from_json("journal row", entries)?);
        let mut batch = Batch { id, at, prev, entries };
        let mut payloads = std::collections::HashMap::new();
        for owner in batch.detached() {
            payloads.insert(owner, self.payload(owner)?.unwrap_or_default());
        }
        batch.attach_payloads(|owner| payloads.remove(&owner));
        Ok(batch)
    }

    /// Returns the next position and the instant of the last event.
    pub(super) fn end_of_journal(&self) -> Result<(u64, Option<Time>), StoreError> {
        let sql = "SELECT position + count, at FROM bursar_journal ORDER BY position DESC LIMIT 1";
        let last = self.one(sql, [], |row| {
            Ok((row.get::<_, i64>(0).map_err(store_error)?, get_time(row, 1).map_err(store_error)?))
        })?;
        Ok(last.map_or((1, None), |(next, at)| (next as u64, Some(at))))
    }

    fn due_charges(&self, key: &ScopeKey, mark: ChargeMark, now: Time) -> Result<DueStep<LiveCharge>, StoreError> {
        let due = "SELECT expires_at, hold, placed_at, amount, on_expiry FROM bursar_live_charges
            WHERE tenant = ?1 AND scope = ?2 AND (expires_at, hold) > (?3, ?4) AND expires_at <= ?5
            ORDER BY expires_at, hold LIMIT ?6";
        let (tenant, scope) = (key.0.as_str(), key.1.as_str());
        let limit = FOLD_STEP as i64 + 1;
        let items =
            self.all(due, params![tenant, scope, mark.0.micros(), id(mark.1.0), now.micros(), limit], live_charge)?;
        let next = "SELECT expires_at FROM bursar_live_charges
            WHERE tenant = ?1 AND scope = ?2 AND expires_at > ?3 ORDER BY expires_at LIMIT 1";
        let next = self.one(next, params![tenant, scope, now.micros()], |row| get_time(row, 0).map_err(store_error))?;
        Ok(due_step(items, next))
    }

    fn due_postings(&self, key: &ScopeKey, mark: PostingMark, until: Time) -> Result<DueStep<Posting>, StoreError> {
        let due = "SELECT at, seq, amount, hold FROM bursar_postings
            WHERE tenant = ?1 AND scope = ?2 AND (at, seq) > (?3, ?4) AND at <= ?5
            ORDER BY at, seq LIMIT ?6";
        let (tenant, scope) = (key.0.as_str(), key.1.as_str());
        let limit = FOLD_STEP as i64 + 1;
        let items =
            self.all(due, params![tenant, scope, mark.0.micros(), seq(mark.1), until.micros(), limit], posting)?;
        let next = "SELECT at FROM bursar_postings
            WHERE tenant = ?1 AND scope = ?2 AND at > ?3 ORDER BY at LIMIT 1";
        let next =
            self.one(next, params![tenant, scope, until.micros()], |row| get_time(row, 0).map_err(store_error))?;
        Ok(due_step(items, next))
    }
}

pub(super) fn unpack<T: Packed + DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    let bytes = row.get_ref(column).map_err(store_error)?;
    T::unpack(bytes.as_blob().map_err(|e| StoreError::corrupt(T::WHAT, e))?)
}

fn live_charge(row: &Row<'_>) -> Result<LiveCharge, StoreError> {
    let read = || -> rusqlite::Result<LiveCharge> {
        Ok(LiveCharge {
            expires_at: get_time(row, 0)?,
            hold: HoldId(get_id(row, 1)?),
            placed_at: get_time(row, 2)?,
            amount: row.get(3)?,
            on_expiry: row.get(4)?,
        })
    };
    read().map_err(store_error)
}

fn posting(row: &Row<'_>) -> Result<Posting, StoreError> {
    let read = || -> rusqlite::Result<Posting> {
        Ok(Posting {
            at: get_time(row, 0)?,
            seq: row.get::<_, i64>(1)? as u64,
            amount: row.get(2)?,
            hold: row.get::<_, Option<[u8; 16]>>(3)?.map(|bytes| HoldId(u128::from_be_bytes(bytes))),
        })
    };
    read().map_err(store_error)
}

fn due_step<T>(mut items: Vec<T>, next: Option<Time>) -> DueStep<T> {
    let more = items.len() > FOLD_STEP;
    items.truncate(FOLD_STEP);
    DueStep { items, more, next: next.unwrap_or(Time::NEVER) }
}

/// Looks up each key and returns those that exist.
fn find_each<K: Clone, V>(
    keys: &[K],
    mut find: impl FnMut(&K) -> Result<Option<V>, StoreError>,
) -> Result<Vec<(K, V)>, StoreError> {
    keys.iter().filter_map(|key| find(key).transpose().map(|found| Ok((key.clone(), found?)))).collect()
}

impl Rows for SqliteRows<'_> {
    async fn keys(&mut self, keys: &[IdempotencyRowKey]) -> Result<Vec<(IdempotencyRowKey, KeyRow)>, StoreError> {
        let sql = "SELECT fingerprint, batch, command, until FROM bursar_keys WHERE tenant = ?1 AND key = ?2";
        let mut statement = self.prepare(sql)?;
        find_each(keys, |key| {
            statement.one(params![key.0.as_str(), key.1.as_str()], |row| {
                let read = || -> rusqlite::Result<KeyRow> {
                    Ok(KeyRow {
                        fingerprint: Fingerprint(get_id(row, 0)?),
                        batch: BatchId(get_id(row, 1)?),
                        command: CommandId(get_id(row, 2)?),
                        until: get_time(row, 3)?,
                    })
                };
                read().map_err(store_error)
            })
        })
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let mut found = Vec::new();
        for (batch, command) in wanted {
            let batch = self.read_batch(batch.0 as i64)?;
            found.extend(batch.and_then(|batch| batch.entries.into_iter().find(|entry| entry.id == *command)));
        }
        Ok(found)
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        let sql = "SELECT job FROM bursar_job_keys WHERE tenant = ?1 AND queue = ?2 AND key = ?3";
        let mut statement = self.prepare(sql)?;
        find_each(keys, |(tenant, queue, key)| {
            let params = params![tenant.as_str(), queue.as_str(), key.as_str()];
            statement.one(params, |row| get_id(row, 0).map(JobId).map_err(store_error))
        })
    }

    async fn jobs(&mut self, ids: &[JobId], _: bool) -> Result<Found<JobId, Job>, StoreError> {
        find_each(ids, |job| self.find_job(*job)).map(Found::all)
    }

    async fn queues(&mut self, keys: &[QueueKey], _: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        find_each(keys, |key| self.read_queue(key))
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        find_each(keys, |key| self.read_schedule(key)).map(Found::all)
    }

    async fn claim(&mut self, queries: &[ClaimQuery], now: Time) -> Result<Vec<Claimed>, StoreError> {
        let mut bytes_left = CLAIM_BYTES_MAX;
        queries.iter().map(|query| self.claim_one(query, now, &mut bytes_left)).collect()
    }

    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        let found: Result<Vec<_>, _> = lines.iter().map(|(line, count)| self.jobs_behind(line, *count)).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        let found: Result<Vec<_>, _> = keys.iter().map(|(queue, key)| self.barred_jobs(queue, key)).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    async fn blobs(&mut self, ids: &[BlobId]) -> Result<Found<BlobId, Blob>, StoreError> {
        find_each(ids, |blob| self.read_blob(*blob)).map(Found::all)
    }

    async fn blob_digests(&mut self, keys: &[BlobDigestKey]) -> Result<Vec<(BlobDigestKey, BlobId)>, StoreError> {
        find_each(keys, |key| self.read_blob_digest(key))
    }

    async fn namespaces(
        &mut self,
        keys: &[NamespaceKey],
        _: bool,
    ) -> Result<Vec<(NamespaceKey, NamespaceState)>, StoreError> {
        find_each(keys, |key| self.read_namespace(key))
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        let mut statement = self.prepare(HOLD)?;
        find_each(ids, |hold| statement.one([id(hold.0)], |row| unpack(row, 0))).map(Found::all)
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        let mut statement = self.prepare(GRANT)?;
        find_each(ids, |grant| self.read_with_payload(&mut statement, grant.0)).map(Found::all)
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        let mut statement = self.prepare(SCOPE)?;
        let mut rows = Vec::with_capacity(keys.len());
        for (key, create) in keys {
            let cached = self.scope_cache.and_then(|cache| cache.borrow_mut().take(key));
            let found = match cached {
                Some(row) => Some(row),
                None => self.scope_with(&mut statement, key)?,
            };
            let found = found.or_else(|| create.then(ScopeState::default));
            rows.extend(found.map(|row| (key.clone(), row)));
        }
        Ok(Found::all(rows))
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        Ok(self.clock.now())
    }

    async fn due(&mut self, queries: &[(ScopeKey, DueQuery)], now: Time) -> Result<Vec<Due>, StoreError> {
        let mut found = Vec::with_capacity(queries.len());
        for (key, query) in queries {
            let mut due = Due::default();
            if let Some(mark) = query.charges_after {
                due.charges = self.due_charges(key, mark, now)?;
            }
            for (balance, mark, until) in &query.postings {
                due.postings.push((*balance, self.due_postings(key, *mark, *until)?));
            }
            found.push(due);
        }
        Ok(found)
    }

    async fn window_histories(&mut self, queries: &[HistoryQuery]) -> Result<Vec<WindowHistory>, StoreError> {
        let posted = "SELECT coalesce(sum(amount), 0), min(at) FROM bursar_postings
            WHERE tenant = ?1 AND scope = ?2 AND (at, seq) > (?3, ?4) AND at < ?5";
        let held = "SELECT coalesce(sum(amount), 0) FROM bursar_live_charges
            WHERE tenant = ?1 AND scope = ?2 AND (expires_at, hold) > (?3, ?4) AND placed_at >= ?5";
        let mut found = Vec::with_capacity(queries.len());
        for query in queries {
            let (tenant, scope) = (query.scope.0.as_str(), query.scope.1.as_str());
            let params = params![tenant, scope, query.after.0.micros(), seq(query.after.1), query.until.micros()];
            let (posted, oldest) = self
                .prepare(posted)?
                .inner
                .query_row(params, |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.map(Time::from_micros))))
                .map_err(store_error)?;
            let params =
                params![tenant, scope, query.unfolded.0.micros(), id(query.unfolded.1.0), query.placed_from.micros()];
            let held = self.prepare(held)?.inner.query_row(params, |row| row.get(0)).map_err(store_error)?;
            found.push(WindowHistory { posted, held, oldest });
        }
        Ok(found)
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        let beyond = "SELECT at, seq FROM bursar_postings WHERE tenant = ?1 AND scope = ?2 AND at < ?3
            ORDER BY at, seq LIMIT 1 OFFSET ?4";
        let sum = "SELECT sum(amount) FROM bursar_postings WHERE tenant = ?1 AND scope = ?2 AND (at, seq) < (?3, ?4)";
        let add = "INSERT INTO bursar_rollups (tenant, scope, amount) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount";
        let delete = "DELETE FROM bursar_postings WHERE tenant = ?1 AND scope = ?2 AND (at, seq) < (?3, ?4)";
        let mut left = ROLL_UP_STEP;
        for (key, before) in scopes {
            let (tenant, scope, before) = (key.0.as_str(), key.1.as_str(), before.micros());
            let mark = |row: &Row<'_>| {
                Ok((row.get::<_, i64>(0).map_err(store_error)?, row.get::<_, i64>(1).map_err(store_error)?))
            };
            let (at, seq) = self.one(beyond, params![tenant, scope, before, left as i64], mark)?.unwrap_or((before, 0));
            let sum = self
                .one(sum, params![tenant, scope, at, seq], |row| row.get::<_, Option<i64>>(0).map_err(store_error))?;
            if let Some(sum) = sum.flatten() {
                self.run(add, params![tenant, scope, sum])?;
                left -= self.run(delete, params![tenant, scope, at, seq])?;
            }
        }
        Ok(())
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        let journal = batch.map(|batch| self.second_thread.unwrap_or(&SecondThread::default()).encode(batch));
        self.write(ws, journal.as_ref())?;
        Ok(true)
    }
}
