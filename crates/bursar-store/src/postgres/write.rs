//! Writes all changes of a batch in one statement.
//!
//! The statement has a part for each kind of row that changed. A part without rows would cost the server as much as a row or two, so it
//! is left out.
//!
//! - Rows under a new id are inserted without `ON CONFLICT`, which would cost a second WAL record for each row.
//! - Rows under a name that callers choose are inserted with `ON CONFLICT DO NOTHING` and counted. Another transaction may have taken the
//!   name since it was looked up; then the batch is decided again. A unique violation would tell the same, but the server would log it.
//! - Rows that this transaction has locked are updated at their location ([`RowLocations`](super::row_locations::RowLocations)). They are
//!   counted; if one is missing, the batch is decided again.
//! - Other existing rows are written by `ON CONFLICT … DO UPDATE`, which uses the primary key whatever the planner's statistics say.

use bursar_core::event::Batch;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::scope::ScopeState;
use bursar_core::state::{Change, IdempotencyRowKey, KeyRow, ScopeKey, Workspace};
use bursar_core::time::Time;
use sqlx::AssertSqlSafe;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use super::blobs;
use super::error::code;
use super::pg_types::Ctid;
use super::rows::{LockMode, PgRows};
use super::statement::Statement;
use crate::codec::{Packed, PayloadRow, grant_state, hold_state, to_json};
use crate::error::StoreError;

/// The SQLSTATE of an insert whose name is taken.
const UNIQUE_VIOLATION: &str = "23505";

const INSERT_HOLDS: &str = "INSERT INTO bursar.holds (id, tenant, state, expires_at, data) SELECT @";
const PUT_HOLDS: &str = "INSERT INTO bursar.holds (id, tenant, state, expires_at, data) SELECT @
    ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, expires_at = EXCLUDED.expires_at, data = EXCLUDED.data";
const UPDATE_HOLDS: &str = "UPDATE bursar.holds h SET state = w.state, expires_at = w.expires_at, data = w.data
    FROM (SELECT @) AS w(place, state, expires_at, data) WHERE h.ctid = w.place";
const DELETE_CHARGES: &str = "DELETE FROM bursar.live_charges WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM (SELECT @) AS w(tenant, scope, at, hold)
        CROSS JOIN LATERAL (
            SELECT c.ctid FROM bursar.live_charges c
            WHERE c.tenant = w.tenant AND c.scope = w.scope AND c.expires_at = w.at AND c.hold = w.hold
            OFFSET 0) c))";
const INSERT_CHARGES: &str =
    "INSERT INTO bursar.live_charges (tenant, scope, expires_at, hold, placed_at, amount, on_expiry) SELECT @";
const INSERT_POSTINGS: &str = "INSERT INTO bursar.postings (tenant, scope, at, seq, amount, hold) SELECT @";
const PUT_SCOPES: &str = "INSERT INTO bursar.scopes AS s (tenant, scope, version, state, budget) SELECT @
    ON CONFLICT (tenant, scope) DO UPDATE SET version = EXCLUDED.version, state = EXCLUDED.state, budget = EXCLUDED.budget";
const UPDATE_SCOPES: &str = "UPDATE bursar.scopes s SET version = w.version, state = w.state
    FROM (SELECT @) AS w(place, version, state) WHERE s.ctid = w.place";
const UPDATE_REDEFINED: &str = "UPDATE bursar.scopes s SET version = w.version, state = w.state, budget = w.budget
    FROM (SELECT @) AS w(place, version, state, budget) WHERE s.ctid = w.place";
const INSERT_JOURNAL: &str = "INSERT INTO bursar.journal (id, at, count, prev, entries) SELECT @";
const INSERT_JOURNAL_NEW: &str = "INSERT INTO bursar.journal_new (id, count) SELECT @";
const INSERT_KEYS: &str = "INSERT INTO bursar.keys (tenant, key, fingerprint, batch, command, until) SELECT @
    ON CONFLICT DO NOTHING";
const REUSE_KEYS: &str = "INSERT INTO bursar.keys AS k (tenant, key, fingerprint, batch, command, until)
    SELECT w.tenant, w.key, w.fingerprint, w.batch, w.command, w.until
    FROM (SELECT @) AS w(tenant, key, fingerprint, batch, command, until)
    ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, batch = EXCLUDED.batch,
        command = EXCLUDED.command, until = EXCLUDED.until
    WHERE k.until <= #";
const INSERT_GRANTS: &str = "INSERT INTO bursar.grants (id, tenant, expires_at, state, data) SELECT @";
const PUT_GRANTS: &str = "INSERT INTO bursar.grants (id, tenant, expires_at, state, data) SELECT @
    ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, expires_at = EXCLUDED.expires_at, data = EXCLUDED.data";
const UPDATE_GRANTS: &str = "UPDATE bursar.grants g SET state = w.state, expires_at = w.expires_at, data = w.data
    FROM (SELECT @) AS w(place, state, expires_at, data) WHERE g.ctid = w.place";
const DELETE_GRANTS: &str = "DELETE FROM bursar.grants WHERE ctid = ANY (ARRAY(
        SELECT g.ctid FROM (SELECT @) AS w(id)
        CROSS JOIN LATERAL (SELECT g.ctid FROM bursar.grants g WHERE g.id = w.id OFFSET 0) g))";
pub(super) const DELETE_PAYLOADS: &str = "DELETE FROM bursar.payloads WHERE ctid = ANY (ARRAY(
        SELECT p.ctid FROM (SELECT @) AS w(id)
        CROSS JOIN LATERAL (SELECT p.ctid FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p))";
const INSERT_PAYLOADS: &str = "INSERT INTO bursar.payloads (id, data) SELECT @";

impl PgRows<'_> {
    /// Writes what a batch changed, in one statement. Returns false if the decisions are outdated: a name was taken, or a row is gone.
    pub(super) async fn write(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        let statement = self.statement(ws, batch);
        if statement.is_empty() {
            return Ok(true);
        }
        // Writing a row changes its location.
        self.locations.clear();
        let (sql, arguments, expected) = statement.finish();
        match self.execute(sql, arguments).await {
            Ok(written) => Ok(written == expected),
            Err(error) if code(&error).as_deref() == Some(UNIQUE_VIOLATION) => Ok(false),
            Err(error) => Err(self.statement_error(error)),
        }
    }

    async fn execute(&mut self, sql: String, arguments: Result<PgArguments, BoxDynError>) -> Result<i64, sqlx::Error> {
        let arguments = arguments.map_err(sqlx::Error::Encode)?;
        sqlx::query_scalar_with::<_, i64, _>(AssertSqlSafe(sql), arguments).fetch_one(&mut self.conn).await
    }

    fn statement(&self, ws: &Workspace, batch: Option<Batch>) -> Statement {
        let mut batch = batch;
        let payloads = batch.as_mut().map(Batch::detach_payloads).unwrap_or_default();
        // Keys that expired by this instant may be reused. A rebuild does not check: in the journal, a later use of a key is always valid.
        let expired_by = if self.mode == LockMode::Exclusive { Time::NEVER } else { ws.now };
        let mut statement = Statement::default();
        write_keys(&mut statement, ws, expired_by);
        self.write_jobs(&mut statement, ws);
        blobs::write(&mut statement, ws);
        self.write_grants(&mut statement, ws);
        statement.part(INSERT_PAYLOADS, &payloads, |part, rows| {
            part.array(rows.iter().map(|(id, _)| Uuid::from_u128(*id)));
            part.array(rows.iter().map(|(_, payload)| payload.as_str()));
        });
        self.write_holds(&mut statement, ws);
        write_charges(&mut statement, ws);
        self.write_scopes(&mut statement, ws);
        write_journal(&mut statement, batch.as_slice());
        statement
    }

    fn write_grants(&self, statement: &mut Statement, ws: &Workspace) {
        let (mut new, mut located, mut other, mut deleted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, change) in ws.grants.changes() {
            match (change, self.locations.grants.get(&id.0)) {
                (Change::Insert(grant), _) => new.push(grant),
                (Change::Update(grant), Some(ctid)) => located.push((*ctid, grant)),
                (Change::Update(grant), None) => other.push(grant),
                (Change::Delete, _) => deleted.push(Uuid::from_u128(id.0)),
            }
        }
        // Ids grow with time. Sorted, rows go to neighbouring pages of the index.
        new.sort_unstable_by_key(|grant| grant.id);
        statement.part(INSERT_GRANTS, &new, grant_columns);
        statement.part(PUT_GRANTS, &other, grant_columns);
        statement.counted_part(UPDATE_GRANTS, &located, |part, rows| {
            part.array(rows.iter().map(|(ctid, _)| *ctid));
            part.array(rows.iter().map(|(_, grant)| grant_state(grant.state)));
            part.array(rows.iter().map(|(_, grant)| grant.expires_at.micros()));
            part.array(rows.iter().map(|(_, grant)| grant.pack_detached()));
        });
        for sql in [DELETE_GRANTS, DELETE_PAYLOADS] {
            statement.part(sql, &deleted, |part, rows| part.array(rows.iter().copied()));
        }
    }

    fn write_holds(&self, statement: &mut Statement, ws: &Workspace) {
        let (mut new, mut located, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for (id, change) in ws.holds.changes() {
            match (new_row(&change), is_new(&change), self.locations.holds.get(&id.0)) {
                (hold, true, _) => new.push(hold),
                (hold, false, Some(ctid)) => located.push((*ctid, hold)),
                (hold, false, None) => other.push(hold),
            }
        }
        new.sort_unstable_by_key(|hold| hold.id);
        statement.part(INSERT_HOLDS, &new, hold_columns);
        statement.part(PUT_HOLDS, &other, hold_columns);
        statement.counted_part(UPDATE_HOLDS, &located, |part, rows| {
            part.array(rows.iter().map(|(ctid, _)| *ctid));
            part.array(rows.iter().map(|(_, hold)| hold_state(hold.state)));
            part.array(rows.iter().map(|(_, hold)| hold.expires_at.micros()));
            part.array(rows.iter().map(|(_, hold)| hold.pack()));
        });
    }

    /// Writes scopes. The budget of a scope is written only if the batch defined it.
    fn write_scopes(&self, statement: &mut Statement, ws: &Workspace) {
        let (mut located, mut redefined, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for (key, change) in ws.scopes.changes() {
            let row: &ScopeState = new_row(&change);
            match self.locations.scopes.get(key) {
                Some(ctid) if row.redefined => redefined.push((*ctid, row)),
                Some(ctid) => located.push((*ctid, row)),
                None => other.push((key, row)),
            }
        }
        let state = |part: &mut Statement, rows: &[(Ctid, &ScopeState)]| {
            part.array(rows.iter().map(|(ctid, _)| *ctid));
            part.array(rows.iter().map(|(_, row)| to_bigint(row.version)));
            part.array(rows.iter().map(|(_, row)| row.pack()));
        };
        // Sorted, so that two transactions that insert the same rows do so in the same order.
        other.sort_unstable_by_key(|(key, _): &(&ScopeKey, _)| *key);
        statement.counted_part(UPDATE_SCOPES, &located, state);
        statement.counted_part(UPDATE_REDEFINED, &redefined, |part, rows| {
            state(part, rows);
            part.array(rows.iter().map(|(_, row)| row.budget.as_deref().map(to_json)));
        });
        statement.part(PUT_SCOPES, &other, |part, rows| {
            part.array(rows.iter().map(|(key, _)| key.0.as_str()));
            part.array(rows.iter().map(|(key, _)| key.1.as_str()));
            part.array(rows.iter().map(|(_, row)| to_bigint(row.version)));
            part.array(rows.iter().map(|(_, row)| row.pack()));
            part.array(rows.iter().map(|(_, row)| row.budget.as_deref().map(to_json)));
        });
    }
}

/// Writes idempotency keys, sorted, so that transactions that insert the same keys do not deadlock.
fn write_keys(statement: &mut Statement, ws: &Workspace, expired_by: Time) {
    let mut keys: Vec<_> = ws.keys.changes().map(|(key, change)| (key, new_row(&change), is_new(&change))).collect();
    keys.sort_unstable_by_key(|(key, ..)| *key);
    // A key that exists already had expired when it was looked up.
    let (new, expired): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(.., new)| *new);
    for (sql, rows, is_expired) in [(INSERT_KEYS, new, false), (REUSE_KEYS, expired, true)] {
        let columns = |part: &mut Statement, rows: &[(&IdempotencyRowKey, &KeyRow, bool)]| {
            part.array(rows.iter().map(|(key, ..)| key.0.as_str()));
            part.array(rows.iter().map(|(key, ..)| key.1.as_str()));
            part.array(rows.iter().map(|(_, row, _)| Uuid::from_u128(row.fingerprint.0)));
            part.array(rows.iter().map(|(_, row, _)| Uuid::from_u128(row.batch.0)));
            part.array(rows.iter().map(|(_, row, _)| Uuid::from_u128(row.command.0)));
            part.array(rows.iter().map(|(_, row, _)| row.until.micros()));
        };
        statement.counted_part(sql, &rows, |part, rows| {
            columns(part, rows);
            if is_expired {
                part.one(expired_by.micros());
            }
        });
    }
}

/// Writes the live charges of holds, and postings. The locks on their scopes protect these rows.
fn write_charges(statement: &mut Statement, ws: &Workspace) {
    let ended: Vec<_> = ws.live.iter().filter(|(_, charge)| charge.is_none()).map(|(key, _)| key).collect();
    statement.part(DELETE_CHARGES, &ended, |part, rows| {
        part.array(rows.iter().map(|((tenant, _), _, _)| tenant.as_str()));
        part.array(rows.iter().map(|((_, scope), _, _)| scope.as_str()));
        part.array(rows.iter().map(|(_, at, _)| at.micros()));
        part.array(rows.iter().map(|(_, _, hold)| Uuid::from_u128(hold.0)));
    });
    let live: Vec<_> = ws.live.iter().filter_map(|(key, charge)| Some((&key.0, charge.as_ref()?))).collect();
    statement.part(INSERT_CHARGES, &live, |part, rows| {
        part.array(rows.iter().map(|(key, _)| key.0.as_str()));
        part.array(rows.iter().map(|(key, _)| key.1.as_str()));
        part.array(rows.iter().map(|(_, charge)| charge.expires_at.micros()));
        part.array(rows.iter().map(|(_, charge)| Uuid::from_u128(charge.hold.0)));
        part.array(rows.iter().map(|(_, charge)| charge.placed_at.micros()));
        part.array(rows.iter().map(|(_, charge)| charge.amount));
        part.array(rows.iter().map(|(_, charge)| charge.on_expiry));
    });
    statement.part(INSERT_POSTINGS, &ws.postings, |part, rows| {
        part.array(rows.iter().map(|(key, _)| key.0.as_str()));
        part.array(rows.iter().map(|(key, _)| key.1.as_str()));
        part.array(rows.iter().map(|(_, posting)| posting.at.micros()));
        part.array(rows.iter().map(|(_, posting)| to_bigint(posting.seq)));
        part.array(rows.iter().map(|(_, posting)| posting.amount));
        part.array(rows.iter().map(|(_, posting)| posting.hold.map(|hold| Uuid::from_u128(hold.0))));
    });
}

fn write_journal(statement: &mut Statement, batch: &[Batch]) {
    let id = |batch: &Batch| Uuid::from_u128(batch.id.0);
    let events = |batch: &Batch| i32::try_from(batch.count()).expect("the size of a batch is bounded");
    statement.part(INSERT_JOURNAL, batch, |part, rows| {
        part.array(rows.iter().map(id));
        part.array(rows.iter().map(|batch| batch.at.micros()));
        part.array(rows.iter().map(events));
        part.array(rows.iter().map(|batch| to_json(&batch.prev)));
        part.array(rows.iter().map(|batch| to_json(&batch.entries)));
    });
    statement.part(INSERT_JOURNAL_NEW, batch, |part, rows| {
        part.array(rows.iter().map(id));
        part.array(rows.iter().map(events));
    });
}

fn grant_columns(part: &mut Statement, rows: &[&Grant]) {
    part.array(rows.iter().map(|grant| Uuid::from_u128(grant.id.0)));
    part.array(rows.iter().map(|grant| grant.tenant.as_str()));
    part.array(rows.iter().map(|grant| grant.expires_at.micros()));
    part.array(rows.iter().map(|grant| grant_state(grant.state)));
    part.array(rows.iter().map(|grant| grant.pack_detached()));
}

fn hold_columns(part: &mut Statement, rows: &[&Hold]) {
    part.array(rows.iter().map(|hold| Uuid::from_u128(hold.id.0)));
    part.array(rows.iter().map(|hold| hold.tenant.as_str()));
    part.array(rows.iter().map(|hold| hold_state(hold.state)));
    part.array(rows.iter().map(|hold| hold.expires_at.micros()));
    part.array(rows.iter().map(|hold| hold.pack()));
}

/// Returns the row after a change. Events delete no rows of the kinds for which this is called.
fn new_row<'a, V>(change: &Change<'a, V>) -> &'a V {
    match change {
        Change::Insert(row) | Change::Update(row) => row,
        Change::Delete => panic!("no event deletes a row of this kind"),
    }
}

fn is_new<V>(change: &Change<'_, V>) -> bool {
    matches!(change, Change::Insert(_))
}

fn to_bigint(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}
