//! Locks and reads the rows of a transaction.
//!
//! One statement locks and reads all rows of a kind, in sorted order. PostgreSQL re-reads a row after it has waited for its lock, so a
//! locked row is always the latest version. Each row is returned with its location (`ctid`), at which it is written later, and with the
//! server's clock, which is read after the lock was taken.

use std::collections::HashSet;
use std::sync::Arc;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::bounds::CLAIM_BYTES_MAX;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::name::FlowKey;
use bursar_core::needs::Needs;
use bursar_core::request::Fingerprint;
use bursar_core::scope::{Due, DueQuery, ScopeState, WindowHistory};
use bursar_core::state::{
    BlobDigestKey, IdempotencyRowKey, JobKey, KeyRow, LineKey, NamespaceKey, QueueKey, ScheduleKey, ScopeKey, Workspace,
};
use bursar_core::time::Time;
use serde::de::DeserializeOwned;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use super::conn::Conn;
use super::error::{Conflict, conflict, store_error};
use super::payloads::attach_payloads;
use super::pg_types::{Ctid, Timestamp};
use super::row_locations::RowLocations;
use super::{PostgresStore, scopes};
use crate::codec::{Packed, from_json};
use crate::error::StoreError;
use crate::transaction::lock_order::{Lock, LockOrder};
use crate::transaction::rows::{ClaimQuery, Claimed, Found, HistoryQuery, Rows};

/// How rows are locked when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockMode {
    /// Lock rows, and skip those that another transaction has locked.
    Skip,
    /// Lock rows, and wait for those that another transaction has locked.
    Wait,
    /// Lock nothing: a reader.
    Read,
    /// Lock nothing: a writer that has excluded every other writer.
    Exclusive,
}

/// One transaction on a connection.
pub(super) struct PgRows<'c> {
    pub(super) conn: Conn<'c>,
    pub(super) store: &'c PostgresStore,
    pub(super) mode: LockMode,
    /// How far it has come in the lock order, if it has waited for a row.
    pub(super) order: Option<LockOrder>,
    /// Why the last statement failed, to decide whether to retry.
    pub(super) conflict: Option<Conflict>,
    /// The clock of the database, read after the latest locks were taken.
    pub(super) clock: Option<Time>,
    /// Where the locked rows are stored.
    pub(super) locations: RowLocations,
    pub(super) prefetched: Prefetched,
    /// Whether the transaction is rolled back and run again if scopes have to be created.
    pub(super) restarts: bool,
    /// The scopes to create before it runs again.
    pub(super) uncreated: Vec<ScopeKey>,
}

/// Grants and scopes that were loaded together, in advance of `Rows::grants` and `Rows::scopes`.
#[derive(Default)]
pub(super) struct Prefetched {
    grants: Option<Vec<Grant>>,
    scopes: Option<Found<ScopeKey, ScopeState>>,
}

/// The text of a statement for a lock mode.
macro_rules! in_mode {
    ($mode:expr, $sql:ident) => {
        match $mode {
            LockMode::Skip => $sql!(" FOR UPDATE SKIP LOCKED"),
            LockMode::Wait => $sql!(" FOR UPDATE"),
            // `OFFSET 0` keeps the planner from flattening the subquery into a join that scans the whole table.
            LockMode::Read | LockMode::Exclusive => $sql!(" OFFSET 0"),
        }
    };
}
pub(super) use in_mode;

macro_rules! holds {
    ($lock:literal) => {
        concat!(
            "SELECT w.n, h.ctid, clock_timestamp(), h.data FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, n)
             CROSS JOIN LATERAL (SELECT h.ctid, h.data FROM bursar.holds h WHERE h.id = w.id",
            $lock,
            ") h"
        )
    };
}

// A statement that waits for no lock can lock grants in any order, by one index scan. The others lock them in order of ids.
macro_rules! grants {
    (" FOR UPDATE SKIP LOCKED", $ids:literal) => {
        concat!(
            "SELECT -1::bigint, g.ctid, clock_timestamp(), g.data, NULL FROM (
                 SELECT g.ctid, g.data FROM bursar.grants g WHERE g.id = ANY (",
            $ids,
            "::uuid[]) FOR UPDATE SKIP LOCKED) g"
        )
    };
    ($lock:tt) => {
        grants!($lock, "$1")
    };
    ($lock:literal, $ids:literal) => {
        concat!(
            "SELECT -w.n, g.ctid, clock_timestamp(), g.data, NULL FROM unnest(",
            $ids,
            "::uuid[]) WITH ORDINALITY AS w(id, n)
             CROSS JOIN LATERAL (SELECT g.ctid, g.data FROM bursar.grants g WHERE g.id = w.id",
            $lock,
            ") g"
        )
    };
}

macro_rules! scopes_by_name {
    ($lock:literal) => {
        concat!(
            "SELECT w.n, s.ctid, clock_timestamp(), s.state, s.budget
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, scope, n)
             CROSS JOIN LATERAL (
                 SELECT s.ctid, s.state, s.budget FROM bursar.scopes s
                 WHERE s.tenant = w.tenant AND s.scope = w.scope",
            $lock,
            ") s"
        )
    };
}
pub(super) use scopes_by_name;

/// Grants, with negative ordinals, and then scopes. The server executes the parts of a `UNION ALL` in order, which keeps the lock order.
macro_rules! grants_and_scopes {
    ($lock:tt) => {
        concat!(grants!($lock, "$3"), " UNION ALL ", scopes_by_name!($lock))
    };
}

impl<'c> PgRows<'c> {
    pub(super) fn new(conn: Conn<'c>, store: &'c PostgresStore, mode: LockMode) -> PgRows<'c> {
        PgRows {
            conn,
            store,
            mode,
            order: None,
            conflict: None,
            clock: None,
            locations: RowLocations::default(),
            prefetched: Prefetched::default(),
            restarts: false,
            uncreated: Vec::new(),
        }
    }

    /// Splits sorted keys by the lock mode of their rows. A transaction that has waited for a row skips locked rows that come before
    /// that row in the lock order.
    pub(super) fn in_lock_order<'k, K, L: Fn(&K) -> Lock>(
        &mut self,
        keys: &'k [K],
        lock: L,
    ) -> impl Iterator<Item = (LockMode, &'k [K])> + use<'k, K, L> {
        let early = self.order.as_ref().map_or(0, |order| keys.partition_point(|key| !order.may_wait(&lock(key))));
        if let (Some(order), Some(last)) = (&mut self.order, keys.last()) {
            order.reach(lock(last));
        }
        let (early, rest) = keys.split_at(early);
        [(LockMode::Skip, early), (self.mode, rest)].into_iter().filter(|(_, keys)| !keys.is_empty())
    }

    /// Returns whether locked rows may have been skipped.
    pub(super) fn may_skip(&self) -> bool {
        self.mode == LockMode::Skip || self.order.is_some()
    }

    /// Returns whether rows are locked when they are read.
    pub(super) fn locks(&self) -> bool {
        matches!(self.mode, LockMode::Skip | LockMode::Wait)
    }

    /// Records why a statement failed, and translates its error.
    pub(super) fn statement_error(&mut self, error: sqlx::Error) -> StoreError {
        self.conflict = conflict(&error);
        store_error(error)
    }

    /// Runs a statement that reads rows.
    pub(super) async fn fetch(
        &mut self,
        statement: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, StoreError> {
        statement.fetch_all(&mut self.conn).await.map_err(|e| self.statement_error(e))
    }

    /// Decodes the columns that every locking statement begins with: ordinal, location, clock and data. Keeps the latest clock.
    pub(super) fn lock_columns<'r>(&mut self, row: &'r PgRow) -> Result<(i64, Ctid, &'r [u8]), StoreError> {
        let mut read = || -> Result<_, sqlx::Error> {
            let Timestamp(clock) = row.try_get_unchecked(2)?;
            self.clock = self.clock.max(Some(clock));
            Ok((row.try_get_unchecked(0)?, row.try_get_unchecked(1)?, row.try_get_unchecked(3)?))
        };
        read().map_err(store_error)
    }

    /// Reads rows by their ids, each with its location.
    pub(super) async fn fetch_by_id<V: Packed + DeserializeOwned>(
        &mut self,
        sql: &'static str,
        ids: &[Uuid],
    ) -> Result<Vec<(u128, Ctid, V)>, StoreError> {
        let rows = self.fetch(sqlx::query(sql).bind(ids)).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let (n, ctid, data) = self.lock_columns(row)?;
            found.push((ids[index(n)].as_u128(), ctid, V::unpack(data)?));
        }
        Ok(found)
    }

    /// Returns which of the missing rows exist, and so are locked by another transaction. This is a second statement because in one
    /// statement the time on the server would grow with the square of the number of rows.
    pub(super) async fn find_locked(
        &mut self,
        exists: &'static str,
        missing: Vec<Uuid>,
    ) -> Result<Vec<u128>, StoreError> {
        // A transaction that waits finds every row that exists.
        if missing.is_empty() || !self.may_skip() {
            return Ok(Vec::new());
        }
        let locked = sqlx::query_scalar::<_, Uuid>(exists).bind(missing).fetch_all(&mut self.conn).await;
        Ok(locked.map_err(|e| self.statement_error(e))?.into_iter().map(|id| id.as_u128()).collect())
    }

    /// Reads grants, without their large payloads.
    async fn fetch_grants(&mut self, ids: &[Uuid]) -> Result<Vec<Grant>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for (mode, ids) in self.in_lock_order(ids, |id| Lock::Grant(GrantId(id.as_u128()))) {
            for row in &self.fetch(sqlx::query(in_mode!(mode, grants)).bind(ids)).await? {
                let (_, ctid, data) = self.lock_columns(row)?;
                found.push(self.unpack_grant(data, ctid)?);
            }
        }
        Ok(found)
    }

    fn unpack_grant(&mut self, data: &[u8], ctid: Ctid) -> Result<Grant, StoreError> {
        let grant = Grant::unpack(data)?;
        if self.locks() {
            self.locations.grants.insert(grant.id.0, ctid);
        }
        Ok(grant)
    }

    /// Reads grants and then scopes in one round trip.
    async fn fetch_together(&mut self, grants: &[Uuid], scopes: &[ScopeKey]) -> Result<(), StoreError> {
        let sql = in_mode!(self.mode, grants_and_scopes);
        let (tenants, names) = scopes::key_columns(scopes);
        let rows = self.fetch(sqlx::query(sql).bind(tenants).bind(names).bind(grants)).await?;
        let mut found_grants = Vec::with_capacity(grants.len());
        let mut found = Found::all(Vec::with_capacity(scopes.len()));
        for row in &rows {
            let (n, ctid, data) = self.lock_columns(row)?;
            if n < 0 {
                found_grants.push(self.unpack_grant(data, ctid)?);
            } else {
                let key = &scopes[index(n)];
                found.rows.push((key.clone(), self.unpack_scope(row, key, data, ctid)?));
            }
        }
        self.add_locked_scopes(&mut found, scopes).await?;
        self.prefetched = Prefetched { grants: Some(found_grants), scopes: Some(found) };
        Ok(())
    }

    /// Takes the scopes that were loaded together with grants.
    pub(super) fn prefetched_scopes(&mut self) -> Option<Found<ScopeKey, ScopeState>> {
        self.prefetched.scopes.take()
    }
}

/// Returns the ids that were not found.
pub(super) fn missing(ids: &[Uuid], found: impl ExactSizeIterator<Item = u128>) -> Vec<Uuid> {
    if found.len() == ids.len() {
        return Vec::new();
    }
    let found: HashSet<u128> = found.collect();
    ids.iter().filter(|id| !found.contains(&id.as_u128())).copied().collect()
}

pub(super) fn uuids<T: Copy>(ids: &[T], number: impl Fn(T) -> u128) -> Vec<Uuid> {
    ids.iter().map(|id| Uuid::from_u128(number(*id))).collect()
}

impl Rows for PgRows<'_> {
    async fn keys(&mut self, keys: &[IdempotencyRowKey]) -> Result<Vec<(IdempotencyRowKey, KeyRow)>, StoreError> {
        let tenants: Vec<&str> = keys.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let names: Vec<&str> = keys.iter().map(|(_, key)| key.as_str()).collect();
        let rows: Vec<(i64, Uuid, Uuid, Uuid, i64)> = sqlx::query_as(
            "SELECT w.n, k.fingerprint, k.batch, k.command, k.until
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, key, n)
             CROSS JOIN LATERAL (
                 SELECT k.* FROM bursar.keys k WHERE k.tenant = w.tenant AND k.key = w.key OFFSET 0) k",
        )
        .bind(tenants)
        .bind(names)
        .fetch_all(&mut self.conn)
        .await
        .map_err(|e| self.statement_error(e))?;
        let row = |(n, fingerprint, batch, command, until): (i64, Uuid, Uuid, Uuid, i64)| {
            let row = KeyRow {
                fingerprint: Fingerprint(fingerprint.as_u128()),
                batch: BatchId(batch.as_u128()),
                command: CommandId(command.as_u128()),
                until: Time::from_micros(until),
            };
            (keys[index(n)].clone(), row)
        };
        Ok(rows.into_iter().map(row).collect())
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let mut ids = uuids(wanted, |(batch, _)| batch.0);
        ids.sort_unstable();
        ids.dedup();
        let rows: Vec<(Uuid, String)> = sqlx::query_as(
            // A function, because row-level security hides the journal from transactions that do not read all of it.
            "SELECT id, entries FROM bursar.journal_rows($1)",
        )
        .bind(ids)
        .fetch_all(&mut self.conn)
        .await
        .map_err(|e| self.statement_error(e))?;
        let mut found = Vec::with_capacity(wanted.len());
        for (id, entries) in rows {
            let entries: Vec<Arc<Entry>> = from_json("journal row", &entries)?;
            let is_wanted = |entry: &Arc<Entry>| wanted.contains(&(BatchId(id.as_u128()), entry.id));
            found.extend(entries.into_iter().filter(is_wanted));
        }
        Ok(found)
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        let tenants: Vec<&str> = keys.iter().map(|(tenant, _, _)| tenant.as_str()).collect();
        let queues: Vec<&str> = keys.iter().map(|(_, queue, _)| queue.as_str()).collect();
        let names: Vec<&str> = keys.iter().map(|(_, _, key)| key.as_str()).collect();
        let rows: Vec<(i64, Uuid)> = sqlx::query_as(
            "SELECT w.n, k.job
             FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w(tenant, queue, key, n)
             CROSS JOIN LATERAL (
                 SELECT k.job FROM bursar.job_keys k
                 WHERE k.tenant = w.tenant AND k.queue = w.queue AND k.key = w.key OFFSET 0) k",
        )
        .bind(tenants)
        .bind(queues)
        .bind(names)
        .fetch_all(&mut self.conn)
        .await
        .map_err(|e| self.statement_error(e))?;
        Ok(rows.into_iter().map(|(n, job)| (keys[index(n)].clone(), JobId(job.as_u128()))).collect())
    }

    async fn jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError> {
        self.fetch_jobs(ids, locked).await
    }

    async fn queues(&mut self, keys: &[QueueKey], locked: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        self.fetch_queues(keys, locked).await
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        self.fetch_schedules(keys).await
    }

    async fn claim(&mut self, queries: &[ClaimQuery], now: Time) -> Result<Vec<Claimed>, StoreError> {
        let mut claimed = Vec::with_capacity(queries.len());
        let mut room = CLAIM_BYTES_MAX;
        for query in queries {
            claimed.push(self.claim_one(query, now, &mut room).await?);
        }
        Ok(claimed)
    }

    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        self.fetch_behind(lines).await
    }

    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        self.fetch_barred(keys).await
    }

    async fn prefetch(&mut self, needs: &Needs) -> Result<(), StoreError> {
        // The scopes of holds are not known before the holds are read, and all scopes must be locked in one sorted statement. A
        // transaction that has waited for a row splits the keys of each kind by lock mode, so it locks each kind separately.
        let separately = !self.locks() || self.order.is_some() || !needs.holds.is_empty();
        if separately || needs.grants.is_empty() || needs.scopes.is_empty() {
            return Ok(());
        }
        let scopes = needs.scopes.iter().map(|(key, need)| (key.clone(), need.create)).collect();
        let wanted: Vec<ScopeKey> = self.with_known_ancestors(scopes).await?.into_keys().collect();
        let grants: Vec<Uuid> = needs.grants.iter().map(|id| Uuid::from_u128(id.0)).collect();
        self.fetch_together(&grants, &wanted).await
    }

    async fn blobs(&mut self, ids: &[BlobId]) -> Result<Found<BlobId, Blob>, StoreError> {
        self.fetch_blobs(ids).await
    }

    async fn blob_digests(&mut self, keys: &[BlobDigestKey]) -> Result<Vec<(BlobDigestKey, BlobId)>, StoreError> {
        self.fetch_blob_digests(keys).await
    }

    async fn namespaces(
        &mut self,
        keys: &[NamespaceKey],
        locked: bool,
    ) -> Result<Vec<(NamespaceKey, NamespaceState)>, StoreError> {
        self.fetch_namespaces(keys, locked).await
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        let exists = "SELECT h.id FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT h.id FROM bursar.holds h WHERE h.id = w.id OFFSET 0) h";
        let ids = uuids(ids, |id| id.0);
        let mut found = Vec::with_capacity(ids.len());
        for (mode, ids) in self.in_lock_order(&ids, |id| Lock::Hold(HoldId(id.as_u128()))) {
            for (id, ctid, hold) in self.fetch_by_id::<Hold>(in_mode!(mode, holds), ids).await? {
                if self.locks() {
                    self.locations.holds.insert(id, ctid);
                }
                found.push((id, hold));
            }
        }
        let blocked = self.find_locked(exists, missing(&ids, found.iter().map(|(id, _)| *id))).await?;
        Ok(Found {
            rows: found.into_iter().map(|(id, hold)| (HoldId(id), hold)).collect(),
            blocked: blocked.into_iter().map(HoldId).collect(),
        })
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        let exists = "SELECT g.id FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT g.id FROM bursar.grants g WHERE g.id = w.id OFFSET 0) g";
        let ids = uuids(ids, |id| id.0);
        let mut grants = match self.prefetched.grants.take() {
            Some(found) => found,
            None => self.fetch_grants(&ids).await?,
        };
        let blocked = self.find_locked(exists, missing(&ids, grants.iter().map(|grant| grant.id.0))).await?;
        attach_payloads(&mut self.conn, &mut grants, |grant| grant.id.0).await.map_err(|e| self.statement_error(e))?;
        Ok(Found {
            rows: grants.into_iter().map(|grant| (grant.id, grant)).collect(),
            blocked: blocked.into_iter().map(GrantId).collect(),
        })
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        self.fetch_scopes(keys).await
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        if let Some(clock) = &self.store.setup.clock {
            return Ok(clock.now());
        }
        match self.clock {
            Some(clock) => Ok(clock),
            None => scopes::clock(&mut self.conn).await.map_err(|e| self.statement_error(e)),
        }
    }

    async fn due(&mut self, queries: &[(ScopeKey, DueQuery)], now: Time) -> Result<Vec<Due>, StoreError> {
        self.read_due(queries, now).await
    }

    async fn window_histories(&mut self, queries: &[HistoryQuery]) -> Result<Vec<WindowHistory>, StoreError> {
        self.read_window_histories(queries).await
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        self.write_rollups(scopes).await
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        self.write(ws, batch).await
    }
}

/// Returns the index of a row from its ordinality, which counts from one.
pub(super) fn index(n: i64) -> usize {
    usize::try_from(n - 1).expect("ordinality counts from one")
}
