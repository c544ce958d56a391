//! One transaction on PostgreSQL: what is loaded, and how it is locked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::name::FlowKey;
use bursar_core::payload::Payload;
use bursar_core::request::Fingerprint;
use bursar_core::scope::{Due, DueAsk, Past, ScopeState};
use bursar_core::state::{JobKey, KeyKey, KeyRow, LineKey, QueueKey, ScheduleKey, ScopeKey, Workspace};
use bursar_core::time::Time;
use sqlx::PgConnection;
use uuid::Uuid;

use super::error::{Trouble, store_error, trouble};
use super::{PostgresStore, scopes};
use crate::codec::{Carries, Packed, from_json};
use crate::error::StoreError;
use crate::rows::{ClaimAsk, Claimed, Found, PastAsk, Rows};

/// How rows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// Locked, where nobody else has them locked.
    Skip,
    /// Locked, after waiting for them.
    Wait,
    /// Only looked at.
    Look,
    /// Only looked at, by one who keeps everybody else out and writes.
    Alone,
}

/// A transaction on a connection.
pub(super) struct PgRows<'c> {
    pub(super) conn: &'c mut PgConnection,
    pub(super) store: &'c PostgresStore,
    pub(super) taking: Taking,
    /// What stood in the way, for whoever decides whether to try again.
    pub(super) trouble: Option<Trouble>,
    /// The database's clock, read after the scopes were locked.
    pub(super) clock: Option<Time>,
}

/// A statement in its three ways of taking rows.
macro_rules! taking {
    ($taking:expr, $before:literal, $after:literal) => {
        match $taking {
            Taking::Skip => concat!($before, " FOR UPDATE SKIP LOCKED ", $after),
            Taking::Wait => concat!($before, " FOR UPDATE ", $after),
            // Keeps the planner from making a join of it that reads the whole table.
            Taking::Look | Taking::Alone => concat!($before, " OFFSET 0 ", $after),
        }
    };
}
pub(super) use taking;

impl<'c> PgRows<'c> {
    pub(super) fn new(conn: &'c mut PgConnection, store: &'c PostgresStore, taking: Taking) -> PgRows<'c> {
        PgRows { conn, store, taking, trouble: None, clock: None }
    }

    /// Notes what stood in the way.
    pub(super) fn failed(&mut self, error: sqlx::Error) -> StoreError {
        self.trouble = trouble(&error);
        store_error(error)
    }

    /// Takes rows by their ids. Which of the missing ones somebody else has locked is asked only when some are missing:
    /// to join both answers in one statement takes the server time that grows with the square of their number.
    async fn take<V: Packed>(
        &mut self,
        taking: &'static str,
        there: &'static str,
        ids: Vec<Uuid>,
    ) -> Result<Found<u128, V>, StoreError> {
        let rows: Vec<(Uuid, Vec<u8>)> =
            sqlx::query_as(taking).bind(&ids).fetch_all(&mut *self.conn).await.map_err(|e| self.failed(e))?;
        let mut found = Found::all(Vec::with_capacity(rows.len()));
        for (id, data) in &rows {
            found.rows.push((id.as_u128(), V::unpack(data)?));
        }
        // Who waited for a row that is not there has seen it go.
        if rows.len() < ids.len() && self.taking == Taking::Skip {
            let taken: HashSet<Uuid> = rows.into_iter().map(|(id, _)| id).collect();
            let missing: Vec<Uuid> = ids.into_iter().filter(|id| !taken.contains(id)).collect();
            let locked = sqlx::query_scalar::<_, Uuid>(there).bind(missing).fetch_all(&mut *self.conn).await;
            found.blocked = locked.map_err(|e| self.failed(e))?.into_iter().map(|id| id.as_u128()).collect();
        }
        Ok(found)
    }
}

pub(super) fn uuids<T: Copy>(ids: &[T], number: impl Fn(T) -> u128) -> Vec<Uuid> {
    ids.iter().map(|id| Uuid::from_u128(number(*id))).collect()
}

/// Payloads that are kept beside their rows.
pub(super) async fn payloads(conn: &mut PgConnection, ids: &[Uuid]) -> Result<HashMap<u128, Payload>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(Uuid, String)> = sqlx::query_as(
        "SELECT p.id, p.data FROM unnest($1::uuid[]) AS w(id)
         CROSS JOIN LATERAL (SELECT p.id, p.data FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p",
    )
    .bind(ids)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(id, data)| (id.as_u128(), Payload::trusted(&data))).collect())
}

/// Puts payloads back into rows that carry them; one that was erased is `null`.
pub(super) async fn attach<R: Carries>(
    conn: &mut PgConnection,
    rows: &mut [R],
    id: impl Fn(&R) -> u128,
) -> Result<(), sqlx::Error> {
    let mut wanted = Vec::new();
    for row in rows.iter_mut() {
        if row.payload().is_elsewhere() {
            wanted.push(Uuid::from_u128(id(row)));
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut kept = payloads(conn, &wanted).await?;
    for row in rows.iter_mut().filter_map(|row| row.payload().is_elsewhere().then_some(row)) {
        *row.payload() = kept.remove(&id(row)).unwrap_or_default();
    }
    Ok(())
}

impl Rows for PgRows<'_> {
    async fn keys(&mut self, keys: &[KeyKey]) -> Result<Vec<(KeyKey, KeyRow)>, StoreError> {
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
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        let row = |(n, fingerprint, batch, command, until): (i64, Uuid, Uuid, Uuid, i64)| {
            let row = KeyRow {
                fingerprint: Fingerprint(fingerprint.as_u128()),
                batch: BatchId(batch.as_u128()),
                command: CommandId(command.as_u128()),
                until: Time::from_micros(until),
            };
            (keys[place(n)].clone(), row)
        };
        Ok(rows.into_iter().map(row).collect())
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let mut ids = uuids(wanted, |(batch, _)| batch.0);
        ids.sort_unstable();
        ids.dedup();
        let rows: Vec<(Uuid, String)> = sqlx::query_as(
            "SELECT j.id, j.entries FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT j.id, j.entries FROM bursar.journal j WHERE j.id = w.id OFFSET 0) j",
        )
        .bind(ids)
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        let mut found = Vec::with_capacity(wanted.len());
        for (id, entries) in rows {
            let entries: Vec<Arc<Entry>> = from_json("journal row", &entries)?;
            let asked = |entry: &Arc<Entry>| wanted.contains(&(BatchId(id.as_u128()), entry.id));
            found.extend(entries.into_iter().filter(asked));
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
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        Ok(rows.into_iter().map(|(n, job)| (keys[place(n)].clone(), JobId(job.as_u128()))).collect())
    }

    async fn jobs(&mut self, ids: &[JobId], _: bool) -> Result<Found<JobId, Job>, StoreError> {
        let rows: Vec<(Uuid, Vec<u8>)> = sqlx::query_as(
            "SELECT j.id, j.data FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT j.id, j.data FROM bursar.jobs j WHERE j.id = w.id OFFSET 0) j",
        )
        .bind(uuids(ids, |id| id.0))
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        let rows = rows.into_iter().map(|(id, data)| Ok((JobId(id.as_u128()), Job::unpack(&data)?)));
        Ok(Found::all(rows.collect::<Result<_, StoreError>>()?))
    }

    async fn queues(&mut self, _: &[QueueKey], _: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        Ok(Vec::new())
    }

    async fn schedules(&mut self, _: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        Ok(Found::all(Vec::new()))
    }

    async fn claim(&mut self, asks: &[ClaimAsk], _: Time) -> Result<Vec<Claimed>, StoreError> {
        Ok(vec![Claimed::default(); asks.len()])
    }

    async fn behind(&mut self, _: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        Ok(Vec::new())
    }

    async fn barred(&mut self, _: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        Ok(Vec::new())
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        let taking = taking!(
            self.taking,
            "SELECT h.id, h.data FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT h.id, h.data FROM bursar.holds h WHERE h.id = w.id",
            ") h"
        );
        let there = "SELECT h.id FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT h.id FROM bursar.holds h WHERE h.id = w.id OFFSET 0) h";
        let found = self.take(taking, there, uuids(ids, |id| id.0)).await?;
        Ok(Found {
            rows: found.rows.into_iter().map(|(id, hold)| (HoldId(id), hold)).collect(),
            blocked: found.blocked.into_iter().map(HoldId).collect(),
        })
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        let taking = taking!(
            self.taking,
            "SELECT g.id, g.data FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT g.id, g.data FROM bursar.grants g WHERE g.id = w.id",
            ") g"
        );
        let there = "SELECT g.id FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT g.id FROM bursar.grants g WHERE g.id = w.id OFFSET 0) g";
        let found = self.take::<Grant>(taking, there, uuids(ids, |id| id.0)).await?;
        let mut grants: Vec<Grant> = found.rows.into_iter().map(|(_, grant)| grant).collect();
        attach(self.conn, &mut grants, |grant| grant.id.0).await.map_err(|e| self.failed(e))?;
        Ok(Found {
            rows: grants.into_iter().map(|grant| (grant.id, grant)).collect(),
            blocked: found.blocked.into_iter().map(GrantId).collect(),
        })
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        self.take_scopes(keys).await
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        if let Some(clock) = &self.store.setup.clock {
            return Ok(clock.now());
        }
        match self.clock {
            Some(clock) => Ok(clock),
            None => scopes::clock(&mut *self.conn).await.map_err(|e| self.failed(e)),
        }
    }

    async fn due(&mut self, asks: &[(ScopeKey, DueAsk)], now: Time) -> Result<Vec<Due>, StoreError> {
        self.read_due(asks, now).await
    }

    async fn past(&mut self, asks: &[PastAsk]) -> Result<Vec<Past>, StoreError> {
        self.read_past(asks).await
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        self.write_rollups(scopes).await
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        self.write(ws, batch).await
    }
}

/// Ordinality counts from one.
pub(super) fn place(n: i64) -> usize {
    usize::try_from(n - 1).expect("ordinality counts from one")
}
