//! Writing: everything a batch changed, in one statement.
//!
//! The statement has a part for each kind of row that there is something of: a part with nothing to do would cost the
//! server as much as a row or two. New rows are inserted plainly: a name that somebody else took meanwhile fails the
//! statement, and the batch is decided anew. (`ON CONFLICT` for all of them would cost a second WAL record a row.) Rows that
//! this transaction has locked are written where they lie, and so are those it has only looked at, if they still are as they were. Other rows that were there are written by
//! `ON CONFLICT … DO UPDATE`, which goes by the primary key whatever the planner knows of the table.

use bursar_core::event::Batch;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::scope::ScopeState;
use bursar_core::state::{Change, KeyKey, KeyRow, ScopeKey, Workspace};
use bursar_core::time::Time;
use futures_util::future::join;
use sqlx::AssertSqlSafe;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use super::GATE;
use super::error::code;
use super::rows::{PgRows, Taking};
use super::statement::{SPOILED, Statement};
use super::wire::{Place, Writer};
use crate::codec::{Carries, Packed, grant_state, hold_state, to_json};
use crate::error::StoreError;

/// What a plain insert of a name fails with that is taken.
const UNIQUE_VIOLATION: &str = "23505";

const INSERT_HOLDS: &str = "INSERT INTO bursar.holds (id, tenant, state, expires_at, data) SELECT @";
const PUT_HOLDS: &str = "INSERT INTO bursar.holds (id, tenant, state, expires_at, data) SELECT @
    ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, expires_at = EXCLUDED.expires_at, data = EXCLUDED.data";
const UPDATE_HOLDS: &str = "UPDATE bursar.holds h SET state = w.state, expires_at = w.expires_at, data = w.data
    FROM (SELECT @) AS w(place, state, expires_at, data) WHERE h.ctid = w.place";
const END_CHARGES: &str = "DELETE FROM bursar.live_charges WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM (SELECT @) AS w(tenant, scope, at, hold)
        CROSS JOIN LATERAL (
            SELECT c.ctid FROM bursar.live_charges c
            WHERE c.tenant = w.tenant AND c.scope = w.scope AND c.expires_at = w.at AND c.hold = w.hold
            OFFSET 0) c))";
const INSERT_CHARGES: &str =
    "INSERT INTO bursar.live_charges (tenant, scope, expires_at, hold, placed_at, amount) SELECT @";
const INSERT_POSTINGS: &str = "INSERT INTO bursar.postings (tenant, scope, at, seq, amount, hold) SELECT @";
const PUT_SCOPES: &str = "INSERT INTO bursar.scopes AS s (tenant, scope, version, state, budget) SELECT @
    ON CONFLICT (tenant, scope) DO UPDATE SET version = EXCLUDED.version, state = EXCLUDED.state,
        budget = coalesce(EXCLUDED.budget, s.budget)";
const UPDATE_SCOPES: &str = "UPDATE bursar.scopes s SET version = w.version, state = w.state
    FROM (SELECT @) AS w(place, writer, tenant, scope, version, state)
    WHERE s.ctid = w.place AND s.xmin = w.writer AND s.tenant = w.tenant AND s.scope = w.scope";
const UPDATE_REDEFINED: &str = "UPDATE bursar.scopes s SET version = w.version, state = w.state, budget = w.budget
    FROM (SELECT @) AS w(place, writer, tenant, scope, version, state, budget)
    WHERE s.ctid = w.place AND s.xmin = w.writer AND s.tenant = w.tenant AND s.scope = w.scope";
const INSERT_JOURNAL: &str = "INSERT INTO bursar.journal (id, at, count, prev, entries) SELECT @";
const NUMBER_JOURNAL: &str = "INSERT INTO bursar.journal_new (id, count) SELECT @";
const INSERT_KEYS: &str = "INSERT INTO bursar.keys (tenant, key, fingerprint, batch, command, until) SELECT @";
const TAKE_OVER_KEYS: &str = "INSERT INTO bursar.keys AS k (tenant, key, fingerprint, batch, command, until)
    SELECT w.tenant, w.key, w.fingerprint, w.batch, w.command, w.until
    FROM (SELECT @) AS w(tenant, key, fingerprint, batch, command, until)
    ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, batch = EXCLUDED.batch,
        command = EXCLUDED.command, until = EXCLUDED.until
    WHERE k.until <= #";
const INSERT_GRANTS: &str = "INSERT INTO bursar.grants (id, tenant, expires_at, state, data) SELECT @";
const PUT_GRANTS: &str = "INSERT INTO bursar.grants (id, tenant, expires_at, state, data) SELECT @
    ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, expires_at = EXCLUDED.expires_at, data = EXCLUDED.data";
const UPDATE_GRANTS: &str = "UPDATE bursar.grants g SET state = w.state, expires_at = w.expires_at, data = w.data
    FROM (SELECT @) AS w(place, writer, id, state, expires_at, data)
    WHERE g.ctid = w.place AND g.xmin = w.writer AND g.id = w.id";
const END_GRANTS: &str = "DELETE FROM bursar.grants g USING (SELECT @) AS w(place, writer, id)
    WHERE g.ctid = w.place AND g.xmin = w.writer AND g.id = w.id";
const DELETE_GRANTS: &str = "DELETE FROM bursar.grants WHERE ctid = ANY (ARRAY(
        SELECT g.ctid FROM (SELECT @) AS w(id)
        CROSS JOIN LATERAL (SELECT g.ctid FROM bursar.grants g WHERE g.id = w.id OFFSET 0) g))";
pub(super) const DELETE_PAYLOADS: &str = "DELETE FROM bursar.payloads WHERE ctid = ANY (ARRAY(
        SELECT p.ctid FROM (SELECT @) AS w(id)
        CROSS JOIN LATERAL (SELECT p.ctid FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p))";
const INSERT_PAYLOADS: &str = "INSERT INTO bursar.payloads (id, data) SELECT @";

impl PgRows<'_> {
    /// Writes what a batch changed, in one statement. False when a name was taken meanwhile, or something changed that was only
    /// looked at.
    pub(super) async fn write(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        let statement = self.statement(ws, batch);
        if statement.is_empty() {
            return Ok(true);
        }
        // A row lies elsewhere once it is written.
        self.places.clear();
        let (sql, arguments, expected) = statement.finish();
        match self.execute(sql, arguments).await {
            Ok(done) => Ok(done == expected),
            Err(error) if code(&error).as_deref() == Some(UNIQUE_VIOLATION) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The same by a statement that is a transaction of its own. It does not wait for who makes the tables anew, and would have to
    /// wait for it. What was not looked at is not written over.
    pub(super) async fn write_alone(&mut self, ws: Workspace, batch: Option<Batch>) -> Result<bool, sqlx::Error> {
        if !self.has_places_of(&ws) {
            return Ok(false);
        }
        let statement = self.statement(&ws, batch);
        if statement.is_empty() {
            return Ok(true);
        }
        let condition =
            format!("pg_try_advisory_xact_lock_shared({GATE}) AND current_setting('synchronous_commit') <> 'off'");
        let (sql, arguments) = statement.finish_alone(&condition);
        // There is time to clear the table while the server is at work.
        let (done, ()) = join(self.execute(sql, arguments), async { drop(ws) }).await;
        match done {
            Ok(_) => Ok(true),
            Err(error) if matches!(code(&error).as_deref(), Some(UNIQUE_VIOLATION | SPOILED)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn execute(&mut self, sql: String, arguments: Result<PgArguments, BoxDynError>) -> Result<i64, sqlx::Error> {
        let arguments = arguments.map_err(sqlx::Error::Encode)?;
        sqlx::query_scalar_with::<_, i64, _>(AssertSqlSafe(sql), arguments).fetch_one(&mut *self.conn).await
    }

    fn statement(&self, ws: &Workspace, batch: Option<Batch>) -> Statement {
        let mut batch = batch;
        let payloads = batch.as_mut().map(Batch::detach_payloads).unwrap_or_default();
        // What the journal says of a key is so, whatever the clock said when it was forgotten or taken over.
        let free_by = if self.taking == Taking::Alone { Time::NEVER } else { ws.now };
        let mut statement = Statement::default();
        write_keys(&mut statement, ws, free_by);
        self.write_work(&mut statement, ws);
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
        let (mut new, mut moved, mut other) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ended, mut deleted, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (id, change) in ws.grants.changes() {
            match (change, self.places.grants.get(&id.0)) {
                (Change::Insert(grant), _) => new.push(grant),
                (Change::Update(grant), Some(seen)) => moved.push((*seen, grant)),
                (Change::Update(grant), None) => other.push(grant),
                (Change::Delete, seen) => {
                    gone.push(Uuid::from_u128(id.0));
                    match seen {
                        Some(seen) => ended.push((*id, *seen)),
                        None => deleted.push(Uuid::from_u128(id.0)),
                    }
                }
            }
        }
        // In the order of time, so that neighbours in an index are written together.
        new.sort_unstable_by_key(|grant| grant.id);
        statement.part(INSERT_GRANTS, &new, whole_grants);
        statement.part(PUT_GRANTS, &other, whole_grants);
        // Two that want the same ones, which neither has locked, take them in the same order.
        moved.sort_unstable_by_key(|(_, grant)| grant.id);
        ended.sort_unstable_by_key(|(id, _)| *id);
        // What was only looked at may have been changed since: then there is no such row.
        statement.counted_part(UPDATE_GRANTS, &moved, |part, rows| {
            part.array(rows.iter().map(|((place, _), _)| *place));
            part.array(rows.iter().map(|((_, writer), _)| *writer));
            part.array(rows.iter().map(|(_, grant)| Uuid::from_u128(grant.id.0)));
            part.array(rows.iter().map(|(_, grant)| grant_state(grant.state)));
            part.array(rows.iter().map(|(_, grant)| grant.expires_at.micros()));
            part.array(rows.iter().map(|(_, grant)| grant.pack_light()));
        });
        statement.counted_part(END_GRANTS, &ended, |part, rows| {
            part.array(rows.iter().map(|(_, (place, _))| *place));
            part.array(rows.iter().map(|(_, (_, writer))| *writer));
            part.array(rows.iter().map(|(id, _)| Uuid::from_u128(id.0)));
        });
        for (sql, rows) in [(DELETE_GRANTS, &deleted), (DELETE_PAYLOADS, &gone)] {
            statement.part(sql, rows, |part, rows| part.array(rows.iter().copied()));
        }
    }

    fn write_holds(&self, statement: &mut Statement, ws: &Workspace) {
        let (mut new, mut moved, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for (id, change) in ws.holds.changes() {
            match (kept(&change), is_new(&change), self.places.holds.get(&id.0)) {
                (hold, true, _) => new.push(hold),
                (hold, false, Some(place)) => moved.push((*place, hold)),
                (hold, false, None) => other.push(hold),
            }
        }
        new.sort_unstable_by_key(|hold| hold.id);
        statement.part(INSERT_HOLDS, &new, whole_holds);
        statement.part(PUT_HOLDS, &other, whole_holds);
        statement.counted_part(UPDATE_HOLDS, &moved, |part, rows| {
            part.array(rows.iter().map(|(place, _)| *place));
            part.array(rows.iter().map(|(_, hold)| hold_state(hold.state)));
            part.array(rows.iter().map(|(_, hold)| hold.expires_at.micros()));
            part.array(rows.iter().map(|(_, hold)| hold.pack()));
        });
    }

    /// A budget that is still the one that was loaded is not written again.
    fn write_scopes(&self, statement: &mut Statement, ws: &Workspace) {
        let (mut moved, mut redefined, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for (key, change) in ws.scopes.changes() {
            let row: &ScopeState = kept(&change);
            match self.places.scopes.get(key) {
                Some(seen) if row.redefined => redefined.push((key, *seen, row)),
                Some(seen) => moved.push((key, *seen, row)),
                None => other.push((key, row)),
            }
        }
        let all = |part: &mut Statement, rows: &[(&ScopeKey, (Place, Writer), &ScopeState)]| {
            part.array(rows.iter().map(|(_, (place, _), _)| *place));
            part.array(rows.iter().map(|(_, (_, writer), _)| *writer));
            part.array(rows.iter().map(|(key, ..)| key.0.as_str()));
            part.array(rows.iter().map(|(key, ..)| key.1.as_str()));
            part.array(rows.iter().map(|(.., row)| count(row.version)));
            part.array(rows.iter().map(|(.., row)| row.pack()));
        };
        // Two that want the same rows take them in the same order.
        moved.sort_unstable_by_key(|(key, ..)| *key);
        redefined.sort_unstable_by_key(|(key, ..)| *key);
        other.sort_unstable_by_key(|(key, _): &(&ScopeKey, _)| *key);
        statement.counted_part(UPDATE_SCOPES, &moved, all);
        statement.counted_part(UPDATE_REDEFINED, &redefined, |part, rows| {
            all(part, rows);
            part.array(rows.iter().map(|(.., row)| row.budget.as_deref().map(to_json)));
        });
        statement.part(PUT_SCOPES, &other, |part, rows| {
            part.array(rows.iter().map(|(key, _)| key.0.as_str()));
            part.array(rows.iter().map(|(key, _)| key.1.as_str()));
            part.array(rows.iter().map(|(_, row)| count(row.version)));
            part.array(rows.iter().map(|(_, row)| row.pack()));
            part.array(rows.iter().map(|(_, row)| row.budget.as_deref().filter(|_| row.redefined).map(to_json)));
        });
    }
}

/// Idempotency keys and keys of jobs: in one order, so that two who want the same ones do not wait for each other.
fn write_keys(statement: &mut Statement, ws: &Workspace, free_by: Time) {
    let mut keys: Vec<_> = ws.keys.changes().map(|(key, change)| (key, kept(&change), is_new(&change))).collect();
    keys.sort_unstable_by_key(|(key, ..)| *key);
    // Others are keys whose time was over when they were looked up.
    let (new, over): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(.., new)| *new);
    for (sql, rows, is_over) in [(INSERT_KEYS, new, false), (TAKE_OVER_KEYS, over, true)] {
        let columns = |part: &mut Statement, rows: &[(&KeyKey, &KeyRow, bool)]| {
            part.array(rows.iter().map(|(key, ..)| key.0.as_str()));
            part.array(rows.iter().map(|(key, ..)| key.1.as_str()));
            part.array(rows.iter().map(|(_, row, _)| Uuid::from_u128(row.fingerprint.0)));
            part.array(rows.iter().map(|(_, row, _)| Uuid::from_u128(row.batch.0)));
            part.array(rows.iter().map(|(_, row, _)| Uuid::from_u128(row.command.0)));
            part.array(rows.iter().map(|(_, row, _)| row.until.micros()));
        };
        if is_over {
            statement.counted_part(sql, &rows, |part, rows| {
                columns(part, rows);
                part.one(free_by.micros());
            });
        } else {
            statement.part(sql, &rows, columns);
        }
    }
}

/// What holds count on scopes, and what was spent. It is locked by its scopes.
fn write_charges(statement: &mut Statement, ws: &Workspace) {
    let ended: Vec<_> = ws.live.iter().filter(|(_, charge)| charge.is_none()).map(|(key, _)| key).collect();
    statement.part(END_CHARGES, &ended, |part, rows| {
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
    });
    statement.part(INSERT_POSTINGS, &ws.postings, |part, rows| {
        part.array(rows.iter().map(|(key, _)| key.0.as_str()));
        part.array(rows.iter().map(|(key, _)| key.1.as_str()));
        part.array(rows.iter().map(|(_, posting)| posting.at.micros()));
        part.array(rows.iter().map(|(_, posting)| count(posting.seq)));
        part.array(rows.iter().map(|(_, posting)| posting.amount));
        part.array(rows.iter().map(|(_, posting)| posting.hold.map(|hold| Uuid::from_u128(hold.0))));
    });
}

fn write_journal(statement: &mut Statement, batch: &[Batch]) {
    let id = |batch: &Batch| Uuid::from_u128(batch.id.0);
    let events = |batch: &Batch| i32::try_from(batch.count()).expect("a batch is bounded");
    statement.part(INSERT_JOURNAL, batch, |part, rows| {
        part.array(rows.iter().map(id));
        part.array(rows.iter().map(|batch| batch.at.micros()));
        part.array(rows.iter().map(events));
        part.array(rows.iter().map(|batch| to_json(&batch.prev)));
        part.array(rows.iter().map(|batch| to_json(&batch.entries)));
    });
    statement.part(NUMBER_JOURNAL, batch, |part, rows| {
        part.array(rows.iter().map(id));
        part.array(rows.iter().map(events));
    });
}

fn whole_grants(part: &mut Statement, rows: &[&Grant]) {
    part.array(rows.iter().map(|grant| Uuid::from_u128(grant.id.0)));
    part.array(rows.iter().map(|grant| grant.tenant.as_str()));
    part.array(rows.iter().map(|grant| grant.expires_at.micros()));
    part.array(rows.iter().map(|grant| grant_state(grant.state)));
    part.array(rows.iter().map(|grant| grant.pack_light()));
}

fn whole_holds(part: &mut Statement, rows: &[&Hold]) {
    part.array(rows.iter().map(|hold| Uuid::from_u128(hold.id.0)));
    part.array(rows.iter().map(|hold| hold.tenant.as_str()));
    part.array(rows.iter().map(|hold| hold_state(hold.state)));
    part.array(rows.iter().map(|hold| hold.expires_at.micros()));
    part.array(rows.iter().map(|hold| hold.pack()));
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
