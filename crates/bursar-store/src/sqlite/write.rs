//! Writing: the rows that a batch has changed.

use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::job::Job;
use bursar_core::live::LiveCharge;
use bursar_core::scope::ScopeState;
use bursar_core::state::{Change, ScopeKey, Workspace};
use rusqlite::params;

use crate::codec::{Carries, Packed, grant_state, hold_state, to_json};
use crate::error::StoreError;
use crate::job_row::{Columns, Moving, Spec};
use crate::sqlite::inserts::{InsertSpec, Sheet};
use crate::sqlite::journal_encoder::EncodedRow;
use crate::sqlite::rows::{SqliteRows, id, seq};

const HOLDS: InsertSpec =
    InsertSpec { table: "bursar_holds", columns: &["id", "tenant", "state", "expires_at", "data"] };
const LIVE_CHARGES: InsertSpec = InsertSpec {
    table: "bursar_live_charges",
    columns: &["tenant", "scope", "expires_at", "hold", "placed_at", "amount"],
};
const POSTINGS: InsertSpec =
    InsertSpec { table: "bursar_postings", columns: &["tenant", "scope", "at", "seq", "amount", "hold"] };
const JOBS: InsertSpec = InsertSpec {
    table: "bursar_jobs",
    columns: &["id", "tenant", "queue", "kind", "flow", "state", "rank", "at", "awaits", "spec", "life"],
};

/// Rows as most commands leave them, ready to be bound: scopes that are charged, holds and jobs that are new, grants that are
/// redeemed. What takes a row says whether it is of that kind.
#[derive(Default)]
pub(super) struct Part {
    scopes: Sheet,
    holds: Sheet,
    live: Sheet,
    grants: Sheet,
    jobs: Sheet,
}

impl Part {
    const SCOPE: usize = 4;
    const GRANT: usize = 4;

    /// Takes what need not wait until the rest of the batch is decided.
    pub(super) fn early(ws: &mut Workspace) -> Part {
        let mut part = Part::default();
        ws.holds.hand_out(|_, change| part.hold(&change));
        ws.grants.hand_out(|_, change| part.grant(&change));
        ws.jobs.hand_out(|_, change| part.job(&change));
        ws.live.retain(|(key, ..), change| {
            change.iter().for_each(|charge| part.live(key, charge));
            change.is_none()
        });
        part
    }

    /// Takes scopes, to which every request adds: so many of those that are left.
    pub(super) fn scopes(ws: &mut Workspace, most: usize) -> Option<Part> {
        let (mut part, mut count) = (Part::default(), 0);
        ws.scopes.hand_out(|key, change| {
            let taken = count < most && part.scope(key, &change);
            count += usize::from(taken);
            taken
        });
        (count > 0).then_some(part)
    }

    fn scope(&mut self, key: &ScopeKey, change: &Change<'_, ScopeState>) -> bool {
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

    fn hold(&mut self, change: &Change<'_, Hold>) -> bool {
        let Change::Insert(row) = change else { return false };
        self.holds.id(row.id.0);
        self.holds.text(row.tenant.as_str());
        self.holds.int(hold_state(row.state).into());
        self.holds.int(row.expires_at.micros());
        self.holds.packed(*row);
        true
    }

    fn live(&mut self, key: &ScopeKey, charge: &LiveCharge) {
        self.live.text(key.0.as_str());
        self.live.text(key.1.as_str());
        self.live.int(charge.expires_at.micros());
        self.live.id(charge.hold.0);
        self.live.int(charge.placed_at.micros());
        self.live.int(charge.amount);
    }

    fn grant(&mut self, change: &Change<'_, Grant>) -> bool {
        let Change::Update(row) = change else { return false };
        self.grants.id(row.id.0);
        self.grants.int(grant_state(row.state).into());
        self.grants.int(row.expires_at.micros());
        self.grants.light(*row);
        true
    }

    pub(super) fn job(&mut self, change: &Change<'_, Job>) -> bool {
        match change {
            Change::Insert(job) if !job.life.state.is_final() => self.live_job(job),
            _ => return false,
        }
        true
    }

    /// A job that is to stand among the live ones.
    pub(super) fn live_job(&mut self, job: &Job) {
        let (sheet, Columns { state, rank, at }) = (&mut self.jobs, Columns::of(job));
        sheet.id(job.id.0);
        sheet.text(job.tenant.as_str());
        sheet.text(job.queue.as_str());
        sheet.text(job.kind.as_str());
        sheet.text(job.key.as_ref().map_or("", |key| key.as_str()));
        sheet.int(state);
        sheet.int(rank);
        sheet.int(at);
        sheet.maybe(job.life.awaits.as_ref(), |sheet, scope| sheet.text(scope.as_str()));
        sheet.packed(&Spec::of(job));
        sheet.packed(&Moving::of(job));
    }
}

impl SqliteRows<'_> {
    /// Writes all that is left of a batch.
    pub(super) fn write(&self, ws: &Workspace, journal: Option<&EncodedRow>) -> Result<(), StoreError> {
        for (owner, payload) in journal.into_iter().flat_map(EncodedRow::payloads) {
            let sql = "INSERT INTO bursar_payloads (id, data) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            self.run(sql, params![id(*owner), payload.as_str()])?;
        }
        // What is not of a part's kinds is written one by one, and the part at the end.
        let mut part = Part::default();
        self.write_scopes(ws, &mut part)?;
        self.write_holds(ws, &mut part)?;
        self.write_charges(ws, &mut part)?;
        self.write_grants(ws, &mut part)?;
        self.write_keys(ws)?;
        self.write_work(ws, &mut part)?;
        self.write_part(&part)?;
        journal.map_or(Ok(()), |begun| self.write_journal(begun))
    }

    pub(super) fn write_part(&self, part: &Part) -> Result<(), StoreError> {
        let mut keep =
            self.prepare("UPDATE bursar_scopes SET version = ?3, state = ?4 WHERE tenant = ?1 AND scope = ?2")?;
        let mut insert =
            self.prepare("INSERT INTO bursar_scopes (tenant, scope, version, state) VALUES (?1, ?2, ?3, ?4)")?;
        for row in part.scopes.rows(Part::SCOPE) {
            if row.run(keep.raw())? == 0 {
                // A scope that was brought into being for this batch is loaded as if it were there.
                row.run(insert.raw())?;
            }
        }
        self.insert_all(&HOLDS, &part.holds)?;
        self.insert_all(&LIVE_CHARGES, &part.live)?;
        let mut update =
            self.prepare("UPDATE bursar_grants SET state = ?2, expires_at = ?3, data = ?4 WHERE id = ?1")?;
        for row in part.grants.rows(Part::GRANT) {
            row.run(update.raw())?;
        }
        self.insert_all(&JOBS, &part.jobs)
    }

    fn write_scopes(&self, ws: &Workspace, part: &mut Part) -> Result<(), StoreError> {
        let define = "INSERT INTO bursar_scopes (tenant, scope, version, state, budget) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT DO UPDATE SET version = excluded.version, state = excluded.state, budget = excluded.budget";
        for (key, change) in ws.scopes.changes() {
            if part.scope(key, &change) {
                continue;
            }
            let (Change::Insert(row) | Change::Update(row)) = change else { continue };
            let (tenant, scope, version) = (key.0.as_str(), key.1.as_str(), row.version as i64);
            let budget = row.budget.as_deref().map(to_json);
            self.run(define, params![tenant, scope, version, row.pack(), budget])?;
        }
        Ok(())
    }

    fn write_holds(&self, ws: &Workspace, part: &mut Part) -> Result<(), StoreError> {
        let mut update =
            self.prepare("UPDATE bursar_holds SET state = ?2, expires_at = ?3, data = ?4 WHERE id = ?1")?;
        let mut packed = Vec::new();
        for (hold, change) in ws.holds.changes() {
            if part.hold(&change) {
                continue;
            }
            let Change::Update(row) = change else { continue };
            let packed = row.pack_to(&mut packed);
            update.run(params![id(hold.0), hold_state(row.state), row.expires_at.micros(), packed])?;
        }
        Ok(())
    }

    /// What holds count on scopes, or no more, and what was spent.
    fn write_charges(&self, ws: &Workspace, part: &mut Part) -> Result<(), StoreError> {
        let mut delete = self.prepare(
            "DELETE FROM bursar_live_charges WHERE tenant = ?1 AND scope = ?2 AND expires_at = ?3 AND hold = ?4",
        )?;
        for ((key, expires_at, hold), charge) in &ws.live {
            match charge {
                Some(charge) => part.live(key, charge),
                None => {
                    delete.run(params![key.0.as_str(), key.1.as_str(), expires_at.micros(), id(hold.0)])?;
                }
            }
        }
        let mut sheet = Sheet::default();
        for (key, posting) in &ws.postings {
            sheet.text(key.0.as_str());
            sheet.text(key.1.as_str());
            sheet.int(posting.at.micros());
            sheet.int(seq(posting.seq));
            sheet.int(posting.amount);
            sheet.maybe(posting.hold, |sheet, hold| sheet.id(hold.0));
        }
        self.insert_all(&POSTINGS, &sheet)
    }

    fn write_grants(&self, ws: &Workspace, part: &mut Part) -> Result<(), StoreError> {
        let mut insert = self
            .prepare("INSERT INTO bursar_grants (id, tenant, state, expires_at, data) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for (grant, change) in ws.grants.changes() {
            match change {
                _ if part.grant(&change) => {}
                Change::Insert(row) | Change::Update(row) => {
                    let (tenant, state) = (row.tenant.as_str(), grant_state(row.state));
                    insert.run(params![id(grant.0), tenant, state, row.expires_at.micros(), row.pack_light()])?;
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

    fn write_journal(&self, begun: &EncodedRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO bursar_journal (position, at, count, prev, entries) VALUES (?1, ?2, ?3, ?4, ?5)";
        let (batch, (prev, entries)) = (begun.batch(), begun.texts());
        let (position, at, count) = (batch.id.0 as i64, batch.at.micros(), batch.count() as i64);
        self.run(sql, params![position, at, count, prev, entries])?;
        Ok(())
    }
}
