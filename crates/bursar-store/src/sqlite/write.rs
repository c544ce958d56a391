//! Writing the changes of a batch.
//!
//! The kinds of changes that most commands make are encoded into [`EncodedRows`] first and then written in bulk. Encoding needs no
//! connection, so the second thread can do it for a part of a batch while the rest is decided. All other changes are written row by
//! row.

use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::job::Job;
use bursar_core::live::LiveCharge;
use bursar_core::scope::ScopeState;
use bursar_core::state::{Change, ScopeKey, Workspace};
use rusqlite::params;

use crate::codec::{Packed, PayloadRow, grant_state, hold_state, to_json};
use crate::error::StoreError;
use crate::job_row::{Columns, FixedFields, MutableFields};
use crate::sqlite::inserts::{InsertSpec, RowBuffer};
use crate::sqlite::rows::{SqliteRows, id, seq};
use crate::sqlite::second_thread::encode::JournalRow;

const HOLDS: InsertSpec =
    InsertSpec { table: "bursar_holds", columns: &["id", "tenant", "state", "expires_at", "data"] };
const LIVE_CHARGES: InsertSpec = InsertSpec {
    table: "bursar_live_charges",
    columns: &["tenant", "scope", "expires_at", "hold", "placed_at", "amount", "on_expiry"],
};
const POSTINGS: InsertSpec =
    InsertSpec { table: "bursar_postings", columns: &["tenant", "scope", "at", "seq", "amount", "hold"] };
const JOBS: InsertSpec = InsertSpec {
    table: "bursar_jobs",
    columns: &["id", "tenant", "queue", "kind", "flow", "state", "rank", "at", "awaits", "spec", "life"],
};

/// Changed rows as values that can be bound to statements: charged scopes, new holds, new live charges, redeemed grants and new live
/// jobs. The `add` methods that return `bool` return `false` for a change of another kind, which they leave out.
#[derive(Default)]
pub(super) struct EncodedRows {
    scopes: RowBuffer,
    holds: RowBuffer,
    live_charges: RowBuffer,
    grants: RowBuffer,
    jobs: RowBuffer,
}

impl EncodedRows {
    /// The values of a scope and of a grant.
    const SCOPE_WIDTH: usize = 4;
    const GRANT_WIDTH: usize = 4;

    /// Takes the changes out of a workspace whose requests are not all decided. Scopes stay, because any later request may charge
    /// them.
    pub(super) fn take_all_but_scopes(ws: &mut Workspace) -> EncodedRows {
        let mut encoded = EncodedRows::default();
        ws.holds.take_changes(|_, change| encoded.add_hold(&change));
        ws.grants.take_changes(|_, change| encoded.add_grant(&change));
        ws.jobs.take_changes(|_, change| encoded.add_job(&change));
        ws.live.retain(|(key, ..), change| {
            change.iter().for_each(|charge| encoded.add_live_charge(key, charge));
            change.is_none()
        });
        encoded
    }

    /// Takes up to `max` changed scopes out of a workspace whose requests are all decided. Returns `None` if there are none.
    pub(super) fn take_scopes(ws: &mut Workspace, max: usize) -> Option<EncodedRows> {
        let (mut encoded, mut count) = (EncodedRows::default(), 0);
        ws.scopes.take_changes(|key, change| {
            let taken = count < max && encoded.add_scope(key, &change);
            count += usize::from(taken);
            taken
        });
        (count > 0).then_some(encoded)
    }

    fn add_scope(&mut self, key: &ScopeKey, change: &Change<'_, ScopeState>) -> bool {
        let (Change::Insert(row) | Change::Update(row)) = change else { return false };
        if row.redefined {
            return false;
        }
        self.scopes.text(key.0.as_str());
        self.scopes.text(key.1.as_str());
        self.scopes.int(row.version as i64);
        self.scopes.packed(*row);
        true
    }

    fn add_hold(&mut self, change: &Change<'_, Hold>) -> bool {
        let Change::Insert(row) = change else { return false };
        self.holds.id(row.id.0);
        self.holds.text(row.tenant.as_str());
        self.holds.int(hold_state(row.state).into());
        self.holds.int(row.expires_at.micros());
        self.holds.packed(*row);
        true
    }

    fn add_live_charge(&mut self, key: &ScopeKey, charge: &LiveCharge) {
        self.live_charges.text(key.0.as_str());
        self.live_charges.text(key.1.as_str());
        self.live_charges.int(charge.expires_at.micros());
        self.live_charges.id(charge.hold.0);
        self.live_charges.int(charge.placed_at.micros());
        self.live_charges.int(charge.amount);
        self.live_charges.int(charge.on_expiry);
    }

    fn add_grant(&mut self, change: &Change<'_, Grant>) -> bool {
        let Change::Update(row) = change else { return false };
        self.grants.id(row.id.0);
        self.grants.int(grant_state(row.state).into());
        self.grants.int(row.expires_at.micros());
        self.grants.packed_detached(*row);
        true
    }

    pub(super) fn add_job(&mut self, change: &Change<'_, Job>) -> bool {
        match change {
            Change::Insert(job) if !job.life.state.is_final() => self.add_live_job(job),
            _ => return false,
        }
        true
    }

    /// Adds a job to the table of live jobs.
    pub(super) fn add_live_job(&mut self, job: &Job) {
        let (row, Columns { state, rank, at }) = (&mut self.jobs, Columns::of(job));
        row.id(job.id.0);
        row.text(job.tenant.as_str());
        row.text(job.queue.as_str());
        row.text(job.kind.as_str());
        row.text(job.key.as_ref().map_or("", |key| key.as_str()));
        row.int(state);
        row.int(rank);
        row.int(at);
        row.optional(job.life.awaits.as_ref(), |row, scope| row.text(scope.as_str()));
        row.packed(&FixedFields::of(job));
        row.packed(&MutableFields::of(job));
    }
}

impl SqliteRows<'_> {
    /// Writes the remaining changes of a batch, and its journal row.
    pub(super) fn write(&self, ws: &Workspace, journal: Option<&JournalRow>) -> Result<(), StoreError> {
        for (owner, payload) in journal.into_iter().flat_map(JournalRow::payloads) {
            let sql = "INSERT INTO bursar_payloads (id, data) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            self.run(sql, params![id(*owner), payload.as_str()])?;
        }
        let mut encoded = EncodedRows::default();
        self.write_scopes(ws, &mut encoded)?;
        self.write_holds(ws, &mut encoded)?;
        self.write_charges(ws, &mut encoded)?;
        self.write_grants(ws, &mut encoded)?;
        self.write_keys(ws)?;
        self.write_jobs(ws, &mut encoded)?;
        self.write_blobs(ws)?;
        self.write_encoded(&encoded)?;
        journal.map_or(Ok(()), |row| self.write_journal(row))
    }

    pub(super) fn write_encoded(&self, encoded: &EncodedRows) -> Result<(), StoreError> {
        let mut update_scope =
            self.prepare("UPDATE bursar_scopes SET version = ?3, state = ?4 WHERE tenant = ?1 AND scope = ?2")?;
        let mut insert_scope =
            self.prepare("INSERT INTO bursar_scopes (tenant, scope, version, state) VALUES (?1, ?2, ?3, ?4)")?;
        for row in encoded.scopes.rows(EncodedRows::SCOPE_WIDTH) {
            if row.run(update_scope.raw())? == 0 {
                // A scope that this batch creates was loaded as if its row existed.
                row.run(insert_scope.raw())?;
            }
        }
        self.insert_all(&HOLDS, &encoded.holds)?;
        self.insert_all(&LIVE_CHARGES, &encoded.live_charges)?;
        let mut update_grant =
            self.prepare("UPDATE bursar_grants SET state = ?2, expires_at = ?3, data = ?4 WHERE id = ?1")?;
        for row in encoded.grants.rows(EncodedRows::GRANT_WIDTH) {
            row.run(update_grant.raw())?;
        }
        self.insert_all(&JOBS, &encoded.jobs)
    }

    fn write_scopes(&self, ws: &Workspace, encoded: &mut EncodedRows) -> Result<(), StoreError> {
        let define = "INSERT INTO bursar_scopes (tenant, scope, version, state, budget) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT DO UPDATE SET version = excluded.version, state = excluded.state, budget = excluded.budget";
        for (key, change) in ws.scopes.changes() {
            if encoded.add_scope(key, &change) {
                continue;
            }
            let (Change::Insert(row) | Change::Update(row)) = change else { continue };
            let (tenant, scope, version) = (key.0.as_str(), key.1.as_str(), row.version as i64);
            let budget = row.budget.as_deref().map(to_json);
            self.run(define, params![tenant, scope, version, row.pack(), budget])?;
        }
        Ok(())
    }

    fn write_holds(&self, ws: &Workspace, encoded: &mut EncodedRows) -> Result<(), StoreError> {
        let mut update =
            self.prepare("UPDATE bursar_holds SET state = ?2, expires_at = ?3, data = ?4 WHERE id = ?1")?;
        let mut packed = Vec::new();
        for (hold, change) in ws.holds.changes() {
            if encoded.add_hold(&change) {
                continue;
            }
            let Change::Update(row) = change else { continue };
            let packed = row.pack_to(&mut packed);
            update.run(params![id(hold.0), hold_state(row.state), row.expires_at.micros(), packed])?;
        }
        Ok(())
    }

    /// Writes the live charges of holds, deletes those that are settled, and writes postings.
    fn write_charges(&self, ws: &Workspace, encoded: &mut EncodedRows) -> Result<(), StoreError> {
        let mut delete = self.prepare(
            "DELETE FROM bursar_live_charges WHERE tenant = ?1 AND scope = ?2 AND expires_at = ?3 AND hold = ?4",
        )?;
        for ((key, expires_at, hold), charge) in &ws.live {
            match charge {
                Some(charge) => encoded.add_live_charge(key, charge),
                None => {
                    delete.run(params![key.0.as_str(), key.1.as_str(), expires_at.micros(), id(hold.0)])?;
                }
            }
        }
        let mut rows = RowBuffer::default();
        for (key, posting) in &ws.postings {
            rows.text(key.0.as_str());
            rows.text(key.1.as_str());
            rows.int(posting.at.micros());
            rows.int(seq(posting.seq));
            rows.int(posting.amount);
            rows.optional(posting.hold, |rows, hold| rows.id(hold.0));
        }
        self.insert_all(&POSTINGS, &rows)
    }

    fn write_grants(&self, ws: &Workspace, encoded: &mut EncodedRows) -> Result<(), StoreError> {
        let mut insert = self
            .prepare("INSERT INTO bursar_grants (id, tenant, state, expires_at, data) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for (grant, change) in ws.grants.changes() {
            match change {
                _ if encoded.add_grant(&change) => {}
                Change::Insert(row) | Change::Update(row) => {
                    let (tenant, state) = (row.tenant.as_str(), grant_state(row.state));
                    insert.run(params![id(grant.0), tenant, state, row.expires_at.micros(), row.pack_detached()])?;
                }
                Change::Delete => {
                    self.run("DELETE FROM bursar_grants WHERE id = ?1", [id(grant.0)])?;
                    self.run("DELETE FROM bursar_payloads WHERE id = ?1", [id(grant.0)])?;
                }
            }
        }
        Ok(())
    }

    fn write_keys(&self, ws: &Workspace) -> Result<(), StoreError> {
        let mut insert = self.prepare("INSERT OR REPLACE INTO bursar_keys (tenant, key, fingerprint, batch, command, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        for ((tenant, key), change) in ws.keys.changes() {
            let (Change::Insert(row) | Change::Update(row)) = change else { continue };
            let (fingerprint, batch, command) = (id(row.fingerprint.0), id(row.batch.0), id(row.command.0));
            insert.run(params![tenant.as_str(), key.as_str(), fingerprint, batch, command, row.until.micros()])?;
        }
        Ok(())
    }

    fn write_journal(&self, row: &JournalRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO bursar_journal (position, at, count, prev, entries) VALUES (?1, ?2, ?3, ?4, ?5)";
        let (batch, (prev, entries)) = (row.batch(), row.json());
        let (position, at, count) = (batch.id.0 as i64, batch.at.micros(), batch.count() as i64);
        self.run(sql, params![position, at, count, prev, entries])?;
        Ok(())
    }
}
