//! Writing rows again on PostgreSQL: each transaction is one autocommitted statement over `unnest` arrays, so that it takes one
//! round trip. There are as many connections as Bursar has lanes.

use std::collections::HashMap;
use std::time::Duration;

use bursar::HoldId;
use bursar_core::id::GrantId;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Charge, Transaction};
use crate::error::BenchError;
use crate::plan::Bench;
use crate::postgres::PgDatabase;

pub(super) struct Writer {
    from: PgConnection,
    lanes: [PgConnection; 2],
    named: PgDatabase,
}

type StoredScope = (String, String, i64, Vec<u8>);
type StoredHold = (Uuid, String, i64, Vec<u8>);
type StoredJob = (Uuid, String, String, String, String, i16, i64, i64, Vec<u8>, Vec<u8>);
type StoredJournal = (Uuid, i64, i32, String, String);

/// The stored rows.
struct Stored {
    scopes: HashMap<(String, String), StoredScope>,
    holds: HashMap<u128, StoredHold>,
    grants: HashMap<u128, StoredHold>,
    jobs: HashMap<u128, StoredJob>,
    journal: HashMap<u128, StoredJournal>,
}

/// A part of the statement with `@` for its columns, and their types.
type StatementPart = (&'static str, &'static [&'static str]);

const SCOPES: StatementPart = (
    "s AS (UPDATE bursar.scopes s SET version = w.version, state = w.state
     FROM (SELECT @) AS w(tenant, scope, version, state) WHERE s.tenant = w.tenant AND s.scope = w.scope)",
    &["text", "text", "bigint", "bytea"],
);
const PLACED: StatementPart = (
    "h AS (INSERT INTO bursar.holds (id, tenant, state, expires_at, data)
     SELECT w.id, w.tenant, 0, w.expires_at, w.data FROM (SELECT @) AS w(id, tenant, expires_at, data))",
    &["uuid", "text", "bigint", "bytea"],
);
const LIVE: StatementPart = (
    "c AS (INSERT INTO bursar.live_charges (tenant, scope, expires_at, hold, placed_at, amount) SELECT @)",
    &["text", "text", "bigint", "uuid", "bigint", "bigint"],
);
const REDEEMED: StatementPart = (
    "g AS (UPDATE bursar.grants g SET state = 1, data = w.data FROM (SELECT @) AS w(id, data) WHERE g.id = w.id)",
    &["uuid", "bytea"],
);
const JOBS: StatementPart = (
    "j AS (INSERT INTO bursar.jobs (id, tenant, queue, kind, flow, state, rank, at, spec, life) SELECT @)",
    &["uuid", "text", "text", "text", "text", "smallint", "bigint", "bigint", "bytea", "bytea"],
);
/// The columns of jobs; the others have their defaults in a new job.
const JOBS_WRITTEN: &str =
    "SELECT id, tenant, queue, kind, flow, state, rank, at, spec, life FROM bursar.jobs WHERE id = ANY ($1)";
const GRANTS_WRITTEN: &str = "SELECT id, tenant, expires_at, data FROM bursar.grants WHERE id = ANY ($1)";
const SETTLED: StatementPart = (
    "e AS (UPDATE bursar.holds h SET state = 1, expires_at = w.expires_at, data = w.data
     FROM (SELECT @) AS w(id, expires_at, data) WHERE h.id = w.id)",
    &["uuid", "bigint", "bytea"],
);
const ENDED: StatementPart = (
    "d AS (DELETE FROM bursar.live_charges c USING (SELECT @) AS w(tenant, scope, expires_at, hold)
     WHERE c.tenant = w.tenant AND c.scope = w.scope AND c.expires_at = w.expires_at AND c.hold = w.hold)",
    &["text", "text", "bigint", "uuid"],
);
const POSTED: StatementPart = (
    "p AS (INSERT INTO bursar.postings (tenant, scope, at, seq, amount, hold) SELECT @)",
    &["text", "text", "bigint", "bigint", "bigint", "uuid"],
);
const SEQUENCED: StatementPart = ("n AS (INSERT INTO bursar.journal_new (id, count) SELECT @)", &["uuid", "integer"]);
const JOURNAL: StatementPart = (
    "INSERT INTO bursar.journal (id, at, count, prev, entries) SELECT @",
    &["uuid", "bigint", "integer", "text", "text"],
);

fn parts(bench: Bench) -> Vec<StatementPart> {
    let mut parts = match bench {
        Bench::Hold => vec![SCOPES, PLACED, LIVE],
        Bench::Command => vec![SCOPES, PLACED, LIVE, REDEEMED, JOBS],
        Bench::Settle => vec![SCOPES, PLACED, LIVE, SETTLED, ENDED, POSTED],
        _ => vec![JOBS],
    };
    parts.extend([SEQUENCED, JOURNAL]);
    parts
}

/// Returns the statement; all parts but the last are its `WITH` clauses.
fn statement(bench: Bench) -> String {
    let mut number = 0;
    let mut filled = Vec::new();
    for (sql, types) in parts(bench) {
        let arrays: Vec<String> = types
            .iter()
            .map(|kind| {
                number += 1;
                format!("unnest(${number}::{kind}[])")
            })
            .collect();
        filled.push(sql.replace('@', &arrays.join(", ")));
    }
    let last = filled.pop().unwrap_or_default();
    format!("WITH {} {last}", filled.join(", "))
}

impl Writer {
    /// Creates a writer that reads one database and writes to another with the same schema.
    pub(super) async fn new(from: &PgDatabase, named: PgDatabase) -> Result<Writer, BenchError> {
        let from = from.connect().await?;
        let mut lanes = [named.connect().await?, named.connect().await?];
        for lane in &mut lanes {
            // Force index scans: the planner has no statistics for these tables.
            let set = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off;
                SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off";
            sqlx::raw_sql(set).execute(lane).await?;
        }
        Ok(Writer { from, lanes, named })
    }

    /// Writes the transactions again; returns how long it took.
    pub(super) async fn write(&mut self, bench: Bench, transactions: &[Transaction]) -> Result<Duration, BenchError> {
        let stored = self.load(transactions).await?;
        let (sql, waits) = (statement(bench), waits(transactions));
        let work = Work { bench, sql: &sql, transactions, waits: &waits, stored: &stored };
        let [first, second] = &mut self.lanes;
        let done = [watch::Sender::new(0), watch::Sender::new(0)];
        let begun = Instant::now();
        tokio::try_join!(lane(first, 0, &work, &done), lane(second, 1, &work, &done))?;
        Ok(begun.elapsed())
    }

    /// Copies grants as not yet redeemed.
    pub(super) async fn copy_grants(&mut self, grants: &[GrantId]) -> Result<(), BenchError> {
        let grants: Vec<StoredHold> = sqlx::query_as(GRANTS_WRITTEN)
            .bind(grants.iter().map(|id| Uuid::from_u128(id.0)).collect::<Vec<_>>())
            .fetch_all(&mut self.from)
            .await?;
        let grants: Vec<&StoredHold> = grants.iter().collect();
        sqlx::query(
            "INSERT INTO bursar.grants (id, tenant, expires_at, state, data)
             SELECT w.id, w.tenant, w.expires_at, 0, w.data
             FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bytea[]) AS w(id, tenant, expires_at, data)",
        )
        .bind(column(&grants, |row| row.0))
        .bind(column(&grants, |row| row.1.as_str()))
        .bind(column(&grants, |row| row.2))
        .bind(column(&grants, |row| row.3.as_slice()))
        .execute(&mut self.lanes[0])
        .await?;
        Ok(())
    }

    async fn load(&mut self, transactions: &[Transaction]) -> Result<Stored, BenchError> {
        let ids = |pick: fn(&Transaction) -> Vec<u128>| -> Vec<Uuid> {
            transactions.iter().flat_map(pick).map(Uuid::from_u128).collect()
        };
        let from = &mut self.from;
        let scopes: Vec<StoredScope> =
            sqlx::query_as("SELECT tenant, scope, version, state FROM bursar.scopes").fetch_all(&mut *from).await?;
        let holds: Vec<StoredHold> =
            sqlx::query_as("SELECT id, tenant, expires_at, data FROM bursar.holds WHERE id = ANY ($1)")
                .bind(ids(|wrote| wrote.placed.iter().chain(&wrote.settled).map(|id| id.0).collect()))
                .fetch_all(&mut *from)
                .await?;
        let grants: Vec<StoredHold> = sqlx::query_as(GRANTS_WRITTEN)
            .bind(ids(|wrote| wrote.redeemed.iter().map(|id| id.0).collect()))
            .fetch_all(&mut *from)
            .await?;
        let jobs: Vec<StoredJob> = sqlx::query_as(JOBS_WRITTEN)
            .bind(ids(|wrote| wrote.jobs.iter().map(|id| id.0).collect()))
            .fetch_all(&mut *from)
            .await?;
        let journal: Vec<StoredJournal> =
            sqlx::query_as("SELECT id, at, count, prev, entries FROM bursar.journal WHERE id = ANY ($1)")
                .bind(ids(|wrote| vec![wrote.journal]))
                .fetch_all(&mut *from)
                .await?;
        Ok(Stored {
            scopes: scopes.into_iter().map(|row| ((row.0.clone(), row.1.clone()), row)).collect(),
            holds: holds.into_iter().map(|row| (row.0.as_u128(), row)).collect(),
            grants: grants.into_iter().map(|row| (row.0.as_u128(), row)).collect(),
            jobs: jobs.into_iter().map(|row| (row.0.as_u128(), row)).collect(),
            journal: journal.into_iter().map(|row| (row.0.as_u128(), row)).collect(),
        })
    }

    pub(super) async fn close(self) -> Result<PgDatabase, BenchError> {
        let [first, second] = self.lanes;
        for conn in [self.from, first, second] {
            conn.close().await?;
        }
        Ok(self.named)
    }
}

/// The shared input of the lanes.
struct Work<'a> {
    bench: Bench,
    sql: &'a str,
    transactions: &'a [Transaction],
    waits: &'a [Option<usize>],
    stored: &'a Stored,
}

/// Returns for each transaction the last earlier one on the other lane that placed a hold which it settles, and for which
/// Bursar's callers waited too. Earlier transactions of its own lane are done.
fn waits(transactions: &[Transaction]) -> Vec<Option<usize>> {
    let mut placed: HashMap<HoldId, usize> = HashMap::new();
    let mut waits = Vec::with_capacity(transactions.len());
    for (index, wrote) in transactions.iter().enumerate() {
        let first = wrote.settled.iter().filter_map(|hold| placed.get(hold).copied());
        waits.push(first.filter(|first| first % 2 != index % 2).max());
        placed.extend(wrote.placed.iter().map(|hold| (*hold, index)));
    }
    waits
}

/// Writes every other transaction on one connection and publishes its progress.
async fn lane(
    conn: &mut PgConnection,
    own: usize,
    work: &Work<'_>,
    done: &[watch::Sender<usize>; 2],
) -> Result<(), BenchError> {
    let mut other = done[1 - own].subscribe();
    for (index, wrote) in work.transactions.iter().enumerate().skip(own).step_by(2) {
        if let Some(first) = work.waits[index] {
            let ended = |_| BenchError::Failed("the other lane has ended".into());
            other.wait_for(|done| *done > first).await.map_err(ended)?;
        }
        let query = sqlx::query(AssertSqlSafe(work.sql));
        bind(query, work.bench, wrote, work.stored)?.execute(&mut *conn).await?;
        done[own].send_replace(index + 1);
    }
    Ok(())
}

type BoundQuery<'q> = Query<'q, Postgres, PgArguments>;

fn bind<'q>(
    query: BoundQuery<'q>,
    bench: Bench,
    wrote: &'q Transaction,
    stored: &'q Stored,
) -> Result<BoundQuery<'q>, BenchError> {
    let query = if bench.is_on_jobs() { query } else { bind_holds(query, wrote, stored)? };
    let query = match bench {
        Bench::Hold => query,
        Bench::Command => {
            let redeemed = found(wrote.redeemed.iter().map(|id| &id.0), &stored.grants)?;
            let query = query.bind(column(&redeemed, |row| row.0)).bind(column(&redeemed, |row| row.3.as_slice()));
            bind_jobs(query, wrote, stored)?
        }
        Bench::Settle => {
            let settled = found(wrote.settled.iter().map(|id| &id.0), &stored.holds)?;
            let query = query
                .bind(column(&settled, |row| row.0))
                .bind(column(&settled, |row| row.2))
                .bind(column(&settled, |row| row.3.as_slice()));
            let postings = &wrote.postings;
            bind_charge_keys(query, &wrote.ended)
                .bind(column(postings, |(charge, _)| charge.tenant.as_str()))
                .bind(column(postings, |(charge, _)| charge.scope.as_str()))
                .bind(column(postings, |(charge, _)| charge.placed_at))
                .bind(column(postings, |(_, seq)| *seq))
                .bind(column(postings, |(charge, _)| charge.amount))
                .bind(column(postings, |(charge, _)| Uuid::from_u128(charge.hold.0)))
        }
        _ => bind_jobs(query, wrote, stored)?,
    };
    let journal = found(std::iter::once(&wrote.journal), &stored.journal)?;
    Ok(query
        .bind(column(&journal, |row| row.0))
        .bind(column(&journal, |row| row.2))
        .bind(column(&journal, |row| row.0))
        .bind(column(&journal, |row| row.1))
        .bind(column(&journal, |row| row.2))
        .bind(column(&journal, |row| row.3.as_str()))
        .bind(column(&journal, |row| row.4.as_str())))
}

/// Binds the rows of scopes, holds and live charges.
fn bind_holds<'q>(
    query: BoundQuery<'q>,
    wrote: &'q Transaction,
    stored: &'q Stored,
) -> Result<BoundQuery<'q>, BenchError> {
    let scopes = found(wrote.scopes.iter(), &stored.scopes)?;
    let placed = found(wrote.placed.iter().map(|id| &id.0), &stored.holds)?;
    let query = query
        .bind(column(&scopes, |row| row.0.as_str()))
        .bind(column(&scopes, |row| row.1.as_str()))
        .bind(column(&scopes, |row| row.2))
        .bind(column(&scopes, |row| row.3.as_slice()))
        .bind(column(&placed, |row| row.0))
        .bind(column(&placed, |row| row.1.as_str()))
        .bind(column(&placed, |row| row.2))
        .bind(column(&placed, |row| row.3.as_slice()));
    Ok(bind_charge_keys(query, &wrote.live)
        .bind(column(&wrote.live, |charge| charge.placed_at))
        .bind(column(&wrote.live, |charge| charge.amount)))
}

fn bind_jobs<'q>(
    query: BoundQuery<'q>,
    wrote: &'q Transaction,
    stored: &'q Stored,
) -> Result<BoundQuery<'q>, BenchError> {
    let jobs = found(wrote.jobs.iter().map(|id| &id.0), &stored.jobs)?;
    Ok(query
        .bind(column(&jobs, |row| row.0))
        .bind(column(&jobs, |row| row.1.as_str()))
        .bind(column(&jobs, |row| row.2.as_str()))
        .bind(column(&jobs, |row| row.3.as_str()))
        .bind(column(&jobs, |row| row.4.as_str()))
        .bind(column(&jobs, |row| row.5))
        .bind(column(&jobs, |row| row.6))
        .bind(column(&jobs, |row| row.7))
        .bind(column(&jobs, |row| row.8.as_slice()))
        .bind(column(&jobs, |row| row.9.as_slice())))
}

/// Binds the key columns of live charges.
fn bind_charge_keys<'q>(query: BoundQuery<'q>, charges: &'q [Charge]) -> BoundQuery<'q> {
    query
        .bind(column(charges, |charge| charge.tenant.as_str()))
        .bind(column(charges, |charge| charge.scope.as_str()))
        .bind(column(charges, |charge| charge.expires_at))
        .bind(column(charges, |charge| Uuid::from_u128(charge.hold.0)))
}

fn column<'a, T, C>(rows: &'a [T], pick: impl Fn(&'a T) -> C) -> Vec<C> {
    rows.iter().map(pick).collect()
}

fn found<'a, K: std::hash::Hash + Eq + 'a, V>(
    keys: impl Iterator<Item = &'a K>,
    stored: &'a HashMap<K, V>,
) -> Result<Vec<&'a V>, BenchError> {
    let missing = || BenchError::Failed("a row named in the journal does not exist".into());
    keys.map(|key| stored.get(key).ok_or_else(missing)).collect()
}
