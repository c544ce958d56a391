//! Writing: everything a batch changed, in one statement.
//!
//! New rows are inserted plainly: a name that somebody else took meanwhile fails the statement, and the batch is decided
//! anew. (`ON CONFLICT` for all of them would cost a second WAL record a row.) Rows that were there are written by
//! `ON CONFLICT … DO UPDATE`, which goes by the primary key whatever the planner knows of the table.

use bursar_core::event::Batch;
use bursar_core::grant::Grant;
use bursar_core::id::JobId;
use bursar_core::job::Job;
use bursar_core::payload::Payload;
use bursar_core::state::{Change, JobKey, KeyKey, KeyRow, Workspace};
use bursar_core::time::Time;
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use uuid::Uuid;

use super::error::code;
use super::rows::{PgRows, Taking};
use crate::codec::{Carries, Packed, grant_state, hold_state, to_json};
use crate::error::StoreError;

/// What a plain insert of a name fails with that is taken.
const UNIQUE_VIOLATION: &str = "23505";

/// Holds, charges, postings, balances and the journal. What is counted here is locked by its scopes.
macro_rules! counted {
    () => {
        "
    h AS (
        INSERT INTO bursar.holds (id, tenant, state, expires_at, data)
        SELECT w.id, w.tenant, w.state, w.expires_at, w.data
        FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::bigint[], $5::bytea[], $6::boolean[])
            AS w(id, tenant, state, expires_at, data, new)
        WHERE w.new),
    h2 AS (
        INSERT INTO bursar.holds (id, tenant, state, expires_at, data)
        SELECT w.id, w.tenant, w.state, w.expires_at, w.data
        FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::bigint[], $5::bytea[], $6::boolean[])
            AS w(id, tenant, state, expires_at, data, new)
        WHERE NOT w.new
        ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, expires_at = EXCLUDED.expires_at, data = EXCLUDED.data),
    ended AS (
        DELETE FROM bursar.live_charges WHERE ctid = ANY (ARRAY(
            SELECT c.ctid FROM unnest($7::text[], $8::text[], $9::bigint[], $10::uuid[]) AS w(tenant, scope, at, hold)
            CROSS JOIN LATERAL (
                SELECT c.ctid FROM bursar.live_charges c
                WHERE c.tenant = w.tenant AND c.scope = w.scope AND c.expires_at = w.at AND c.hold = w.hold
                OFFSET 0) c))),
    live AS (
        INSERT INTO bursar.live_charges (tenant, scope, expires_at, hold, placed_at, amount)
        SELECT * FROM unnest($11::text[], $12::text[], $13::bigint[], $14::uuid[], $15::bigint[], $16::bigint[])),
    posted AS (
        INSERT INTO bursar.postings (tenant, scope, at, seq, amount, hold)
        SELECT * FROM unnest($17::text[], $18::text[], $19::bigint[], $20::bigint[], $21::bigint[], $22::uuid[])),
    s AS (
        INSERT INTO bursar.scopes AS s (tenant, scope, version, state, budget)
        SELECT * FROM unnest($23::text[], $24::text[], $25::bigint[], $26::bytea[], $27::text[])
        ON CONFLICT (tenant, scope) DO UPDATE SET version = EXCLUDED.version, state = EXCLUDED.state,
            budget = coalesce(EXCLUDED.budget, s.budget)),
    journal AS (
        INSERT INTO bursar.journal (id, at, count, prev, entries)
        SELECT * FROM unnest($28::uuid[], $29::bigint[], $30::integer[], $31::text[], $32::text[])),
    numbered AS (
        INSERT INTO bursar.journal_new (id, count) SELECT * FROM unnest($28::uuid[], $30::integer[]))"
    };
}

/// What has a name that others may take at the same time, and what hangs on it.
macro_rules! named {
    () => {
        "
    k AS (
        INSERT INTO bursar.keys (tenant, key, fingerprint, batch, command, until)
        SELECT w.tenant, w.key, w.fingerprint, w.batch, w.command, w.until
        FROM unnest($33::text[], $34::text[], $35::uuid[], $36::uuid[], $37::uuid[], $38::bigint[], $39::boolean[])
            AS w(tenant, key, fingerprint, batch, command, until, new)
        WHERE w.new),
    over AS (
        INSERT INTO bursar.keys AS k (tenant, key, fingerprint, batch, command, until)
        SELECT w.tenant, w.key, w.fingerprint, w.batch, w.command, w.until
        FROM unnest($33::text[], $34::text[], $35::uuid[], $36::uuid[], $37::uuid[], $38::bigint[], $39::boolean[])
            AS w(tenant, key, fingerprint, batch, command, until, new)
        WHERE NOT w.new
        ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, batch = EXCLUDED.batch,
            command = EXCLUDED.command, until = EXCLUDED.until
        WHERE k.until <= $40
        RETURNING 1),
    jk AS (
        INSERT INTO bursar.job_keys (tenant, queue, key, job)
        SELECT * FROM unnest($41::text[], $42::text[], $43::text[], $44::uuid[])),
    j AS (
        INSERT INTO bursar.jobs (id, tenant, queue, kind, run_at, data)
        SELECT w.id, w.tenant, w.queue, w.kind, w.run_at, w.data
        FROM unnest($45::uuid[], $46::text[], $47::text[], $48::text[], $49::bigint[], $50::bytea[], $51::boolean[])
            AS w(id, tenant, queue, kind, run_at, data, new)
        WHERE w.new),
    j2 AS (
        INSERT INTO bursar.jobs (id, tenant, queue, kind, run_at, data)
        SELECT w.id, w.tenant, w.queue, w.kind, w.run_at, w.data
        FROM unnest($45::uuid[], $46::text[], $47::text[], $48::text[], $49::bigint[], $50::bytea[], $51::boolean[])
            AS w(id, tenant, queue, kind, run_at, data, new)
        WHERE NOT w.new
        ON CONFLICT (id) DO UPDATE SET run_at = EXCLUDED.run_at, data = EXCLUDED.data),
    g AS (
        INSERT INTO bursar.grants (id, tenant, expires_at, state, data)
        SELECT w.id, w.tenant, w.expires_at, w.state, w.data
        FROM unnest($52::uuid[], $53::text[], $54::bigint[], $55::smallint[], $56::bytea[], $57::boolean[])
            AS w(id, tenant, expires_at, state, data, new)
        WHERE w.new),
    g2 AS (
        INSERT INTO bursar.grants (id, tenant, expires_at, state, data)
        SELECT w.id, w.tenant, w.expires_at, w.state, w.data
        FROM unnest($52::uuid[], $53::text[], $54::bigint[], $55::smallint[], $56::bytea[], $57::boolean[])
            AS w(id, tenant, expires_at, state, data, new)
        WHERE NOT w.new
        ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, data = EXCLUDED.data),
    gone AS (
        DELETE FROM bursar.grants WHERE ctid = ANY (ARRAY(
            SELECT g.ctid FROM unnest($58::uuid[]) AS w(id)
            CROSS JOIN LATERAL (SELECT g.ctid FROM bursar.grants g WHERE g.id = w.id OFFSET 0) g))),
    gone_payloads AS (
        DELETE FROM bursar.payloads WHERE ctid = ANY (ARRAY(
            SELECT p.ctid FROM unnest($58::uuid[]) AS w(id)
            CROSS JOIN LATERAL (SELECT p.ctid FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p))),
    p AS (
        INSERT INTO bursar.payloads (id, data) SELECT * FROM unnest($59::uuid[], $60::text[]))"
    };
}

const COUNTED: &str = concat!("WITH", counted!(), " SELECT 0::bigint");
/// Says how many keys were taken over.
const ALL: &str = concat!("WITH", named!(), ",", counted!(), " SELECT count(*) FROM over");

impl PgRows<'_> {
    /// Writes what a batch changed, in one statement. False when a name was taken meanwhile.
    pub(super) async fn write(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        let mut batch = batch;
        let payloads = batch.as_mut().map(Batch::detach_payloads).unwrap_or_default();
        let names = Names::of(ws);
        let holds: Vec<_> = ws.holds.changes().map(|(_, change)| (kept(&change), is_new(&change))).collect();
        let mut scopes: Vec<_> = ws.scopes.changes().map(|(key, change)| (key, kept(&change))).collect();
        scopes.sort_by_key(|(key, _)| *key);
        let ended: Vec<_> = ws.live.iter().filter(|(_, charge)| charge.is_none()).map(|(key, _)| key).collect();
        let live: Vec<_> = ws.live.iter().filter_map(|(key, charge)| Some((&key.0, charge.as_ref()?))).collect();
        let nothing = holds.is_empty() && scopes.is_empty() && ws.live.is_empty() && ws.postings.is_empty();
        if nothing && batch.is_none() && names.is_empty() {
            return Ok(true);
        }
        // A budget that is still the one that was loaded need not be written again.
        let budgets = all(&scopes, |(_, row)| row.budget.as_deref().filter(|_| row.redefined).map(to_json));
        let batch = batch.as_slice();
        let statement = sqlx::query_scalar::<_, i64>(if names.is_empty() { COUNTED } else { ALL })
            .bind(all(&holds, |(hold, _)| Uuid::from_u128(hold.id.0)))
            .bind(all(&holds, |(hold, _)| hold.tenant.as_str()))
            .bind(all(&holds, |(hold, _)| hold_state(hold.state)))
            .bind(all(&holds, |(hold, _)| hold.expires_at.micros()))
            .bind(all(&holds, |(hold, _)| hold.pack()))
            .bind(all(&holds, |(_, new)| *new))
            .bind(all(&ended, |((tenant, _), _, _)| tenant.as_str()))
            .bind(all(&ended, |((_, scope), _, _)| scope.as_str()))
            .bind(all(&ended, |(_, at, _)| at.micros()))
            .bind(all(&ended, |(_, _, hold)| Uuid::from_u128(hold.0)))
            .bind(all(&live, |(key, _)| key.0.as_str()))
            .bind(all(&live, |(key, _)| key.1.as_str()))
            .bind(all(&live, |(_, charge)| charge.expires_at.micros()))
            .bind(all(&live, |(_, charge)| Uuid::from_u128(charge.hold.0)))
            .bind(all(&live, |(_, charge)| charge.placed_at.micros()))
            .bind(all(&live, |(_, charge)| charge.amount))
            .bind(all(&ws.postings, |(key, _)| key.0.as_str()))
            .bind(all(&ws.postings, |(key, _)| key.1.as_str()))
            .bind(all(&ws.postings, |(_, posting)| posting.at.micros()))
            .bind(all(&ws.postings, |(_, posting)| count(posting.seq)))
            .bind(all(&ws.postings, |(_, posting)| posting.amount))
            .bind(all(&ws.postings, |(_, posting)| posting.hold.map(|hold| Uuid::from_u128(hold.0))))
            .bind(all(&scopes, |(key, _)| key.0.as_str()))
            .bind(all(&scopes, |(key, _)| key.1.as_str()))
            .bind(all(&scopes, |(_, row)| count(row.version)))
            .bind(all(&scopes, |(_, row)| row.pack()))
            .bind(budgets)
            .bind(all(batch, |batch| Uuid::from_u128(batch.id.0)))
            .bind(all(batch, |batch| batch.at.micros()))
            .bind(all(batch, |batch| i32::try_from(batch.count()).expect("a batch is bounded")))
            .bind(all(batch, |batch| to_json(&batch.prev)))
            .bind(all(batch, |batch| to_json(&batch.entries)));
        // What the journal says of a key is so, whatever the clock said when it was forgotten or taken over.
        let free_by = if self.taking == Taking::Alone { Time::NEVER } else { ws.now };
        let statement = if names.is_empty() { statement } else { names.bind(statement, free_by, &payloads) };
        match statement.fetch_one(&mut *self.conn).await {
            Ok(taken_over) => Ok(usize::try_from(taken_over) == Ok(names.taken_over())),
            Err(error) if code(&error).as_deref() == Some(UNIQUE_VIOLATION) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }
}

/// What a batch gives names to, and what hangs on them.
struct Names<'a> {
    keys: Vec<(&'a KeyKey, &'a KeyRow, bool)>,
    job_keys: Vec<(&'a JobKey, &'a JobId)>,
    jobs: Vec<(&'a Job, bool)>,
    grants: Vec<(&'a Grant, bool)>,
    gone: Vec<Uuid>,
}

type Writing<'q> = QueryScalar<'q, Postgres, i64, PgArguments>;

impl<'a> Names<'a> {
    fn of(ws: &'a Workspace) -> Names<'a> {
        let mut keys: Vec<_> = ws.keys.changes().map(|(key, change)| (key, kept(&change), is_new(&change))).collect();
        let mut job_keys: Vec<_> = ws.job_keys.changes().map(|(key, change)| (key, kept(&change))).collect();
        // Two batches that want the same names take them in the same order.
        keys.sort_by_key(|(key, ..)| *key);
        job_keys.sort_by_key(|(key, _)| *key);
        let jobs = ws.jobs.changes().map(|(_, change)| (kept(&change), is_new(&change))).collect();
        let (mut grants, mut gone) = (Vec::new(), Vec::new());
        for (id, change) in ws.grants.changes() {
            match change {
                Change::Insert(grant) => grants.push((grant, true)),
                Change::Update(grant) => grants.push((grant, false)),
                Change::Delete => gone.push(Uuid::from_u128(id.0)),
            }
        }
        Names { keys, job_keys, jobs, grants, gone }
    }

    fn is_empty(&self) -> bool {
        let Names { keys, job_keys, jobs, grants, gone } = self;
        keys.is_empty() && job_keys.is_empty() && jobs.is_empty() && grants.is_empty() && gone.is_empty()
    }

    /// Keys whose time was over when they were looked up.
    fn taken_over(&self) -> usize {
        self.keys.iter().filter(|(.., new)| !new).count()
    }

    fn bind<'q>(&'q self, statement: Writing<'q>, free_by: Time, payloads: &'q [(u128, Payload)]) -> Writing<'q>
    where
        'a: 'q,
    {
        let Names { keys, job_keys, jobs, grants, gone } = self;
        statement
            .bind(all(keys, |(key, ..)| key.0.as_str()))
            .bind(all(keys, |(key, ..)| key.1.as_str()))
            .bind(all(keys, |(_, row, _)| Uuid::from_u128(row.fingerprint.0)))
            .bind(all(keys, |(_, row, _)| Uuid::from_u128(row.batch.0)))
            .bind(all(keys, |(_, row, _)| Uuid::from_u128(row.command.0)))
            .bind(all(keys, |(_, row, _)| row.until.micros()))
            .bind(all(keys, |(.., new)| *new))
            .bind(free_by.micros())
            .bind(all(job_keys, |(key, _)| key.0.as_str()))
            .bind(all(job_keys, |(key, _)| key.1.as_str()))
            .bind(all(job_keys, |(key, _)| key.2.as_str()))
            .bind(all(job_keys, |(_, job)| Uuid::from_u128(job.0)))
            .bind(all(jobs, |(job, _)| Uuid::from_u128(job.id.0)))
            .bind(all(jobs, |(job, _)| job.tenant.as_str()))
            .bind(all(jobs, |(job, _)| job.queue.as_str()))
            .bind(all(jobs, |(job, _)| job.kind.as_str()))
            .bind(all(jobs, |(job, _)| job.life.run_at.micros()))
            .bind(all(jobs, |(job, _)| job.pack_light()))
            .bind(all(jobs, |(_, new)| *new))
            .bind(all(grants, |(grant, _)| Uuid::from_u128(grant.id.0)))
            .bind(all(grants, |(grant, _)| grant.tenant.as_str()))
            .bind(all(grants, |(grant, _)| grant.expires_at.micros()))
            .bind(all(grants, |(grant, _)| grant_state(grant.state)))
            .bind(all(grants, |(grant, _)| grant.pack_light()))
            .bind(all(grants, |(_, new)| *new))
            .bind(gone.clone())
            .bind(all(payloads, |(id, _)| Uuid::from_u128(*id)))
            .bind(all(payloads, |(_, payload)| payload.as_str()))
    }
}

fn all<'a, T, C>(rows: &'a [T], column: impl Fn(&'a T) -> C) -> Vec<C> {
    rows.iter().map(column).collect()
}

/// The row after a change that leaves one. Of all rows only grants are ever taken away by an event.
fn kept<'a, V>(change: &Change<'a, V>) -> &'a V {
    match change {
        Change::Insert(row) | Change::Update(row) => row,
        Change::Delete => panic!("no event deletes a row of this kind"),
    }
}

fn is_new<V>(change: &Change<'_, V>) -> bool {
    matches!(change, Change::Insert(_))
}

fn count(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}
