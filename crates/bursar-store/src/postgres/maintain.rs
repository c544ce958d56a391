//! Verification, and making the tables anew from the journal.

use std::collections::HashMap;
use std::time::Duration;

use bursar_core::id::HoldId;
use bursar_core::scope::{LiveCharge, Posting};
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use uuid::Uuid;

use super::error::{commit_error, store_error};
use super::journal;
use super::rows::{PgRows, Taking, place};
use super::scopes::columns;
use super::{GATE, ONE_SNAPSHOT, PostgresStore, READ_COMMITTED};
use crate::codec::stored;
use crate::error::StoreError;
use crate::rows::Rows;
use crate::verify::Report;
use crate::work;

/// Scopes checked at one moment.
const SCOPES_PAGE: i64 = 200;
/// Rows of the journal read at once.
const JOURNAL_PAGE: usize = 200;
/// How long to wait until no writer is at work.
const WRITERS_WITHIN: Duration = Duration::from_secs(60);

/// Tenant, scope, state, budget and the sum of what was rolled up.
type ScopeRow = (String, String, Vec<u8>, Option<String>, Option<i64>);

impl PostgresStore {
    pub(super) async fn check_all(&self) -> Result<Report, StoreError> {
        let mut report = Report::default();
        let (holds, jobs): (i64, i64) =
            sqlx::query_as("SELECT (SELECT count(*) FROM bursar.holds), (SELECT count(*) FROM bursar.jobs)")
                .fetch_one(&mut *self.acquire().await?)
                .await
                .map_err(store_error)?;
        (report.holds, report.jobs) = (holds.unsigned_abs(), jobs.unsigned_abs());
        let mut after = (String::new(), String::new());
        while let Some(last) = self.check_page(&mut report, &after).await? {
            after = last;
        }
        Ok(report)
    }

    /// Checks scopes after one, at one moment; returns the last.
    async fn check_page(
        &self,
        report: &mut Report,
        after: &(String, String),
    ) -> Result<Option<(String, String)>, StoreError> {
        let mut tx = self.begin(ONE_SNAPSHOT).await?;
        let rows: Vec<ScopeRow> = sqlx::query_as(
            "SELECT s.tenant, s.scope, s.state, s.budget, r.amount
             FROM (SELECT * FROM bursar.scopes WHERE (tenant, scope) > ($1, $2) AND version > 0
                   ORDER BY tenant, scope LIMIT $3) s
             LEFT JOIN LATERAL (
                 SELECT r.amount FROM bursar.rollups r WHERE r.tenant = s.tenant AND r.scope = s.scope OFFSET 0
             ) r ON true
             ORDER BY s.tenant, s.scope",
        )
        .bind(&after.0)
        .bind(&after.1)
        .bind(SCOPES_PAGE)
        .fetch_all(&mut *tx)
        .await
        .map_err(store_error)?;
        let Some(last) = rows.last().map(|(tenant, scope, ..)| (tenant.clone(), scope.clone())) else {
            return Ok(None);
        };
        let keys: Vec<ScopeKey> = rows
            .iter()
            .map(|(tenant, scope, ..)| Ok((stored("tenant", tenant.clone())?, stored("scope", scope.clone())?)))
            .collect::<Result<_, StoreError>>()?;
        let (tenants, names) = columns(&keys);
        let live: Vec<(i64, i64, Uuid, i64, i64)> = sqlx::query_as(
            "SELECT w.n, c.expires_at, c.hold, c.placed_at, c.amount
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, scope, n)
             CROSS JOIN LATERAL (
                 SELECT c.* FROM bursar.live_charges c WHERE c.tenant = w.tenant AND c.scope = w.scope OFFSET 0) c",
        )
        .bind(&tenants)
        .bind(&names)
        .fetch_all(&mut *tx)
        .await
        .map_err(store_error)?;
        let postings: Vec<(i64, i64, i64, i64)> = sqlx::query_as(
            "SELECT w.n, p.at, p.seq, p.amount
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, scope, n)
             CROSS JOIN LATERAL (
                 SELECT p.* FROM bursar.postings p WHERE p.tenant = w.tenant AND p.scope = w.scope OFFSET 0) p",
        )
        .bind(&tenants)
        .bind(&names)
        .fetch_all(&mut *tx)
        .await
        .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;

        let mut charges: HashMap<usize, Vec<LiveCharge>> = HashMap::new();
        for (n, expires_at, hold, placed_at, amount) in live {
            charges.entry(place(n)).or_default().push(LiveCharge {
                expires_at: Time::from_micros(expires_at),
                hold: HoldId(hold.as_u128()),
                placed_at: Time::from_micros(placed_at),
                amount,
            });
        }
        let mut posted: HashMap<usize, Vec<Posting>> = HashMap::new();
        for (n, at, seq, amount) in postings {
            let posting = Posting { at: Time::from_micros(at), seq: seq.unsigned_abs(), amount, hold: None };
            posted.entry(place(n)).or_default().push(posting);
        }
        for (n, ((.., state, budget, rolled), key)) in rows.iter().zip(&keys).enumerate() {
            let row = self.scope_row(state, budget.as_deref())?;
            let (live, postings) = (charges.remove(&n).unwrap_or_default(), posted.remove(&n).unwrap_or_default());
            report.check_scope(key, &row, &live, &postings, rolled.unwrap_or(0));
        }
        Ok(Some(last))
    }

    pub(super) async fn make_anew(&self) -> Result<u64, StoreError> {
        let mut tx = self.begin(READ_COMMITTED).await?;
        sqlx::query("SELECT set_config('lock_timeout', $1, true), pg_advisory_xact_lock($2)")
            .bind(format!("{}ms", WRITERS_WITHIN.as_millis()))
            .bind(GATE)
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        // No writer is at work any more, so this gives the last of them their positions.
        // On another connection, so that readers of the journal need not wait for the end of this.
        let mut side = self.side.acquire().await.map_err(store_error)?;
        self.sequence(&mut side).await?;
        drop(side);
        sqlx::raw_sql(
            "TRUNCATE bursar.keys, bursar.job_keys, bursar.jobs, bursar.holds, bursar.grants, bursar.scopes,
                 bursar.live_charges, bursar.postings, bursar.rollups",
        )
        .execute(&mut *tx)
        .await
        .map_err(store_error)?;
        self.forget_scopes();
        let (mut events, mut after) = (0, 0);
        loop {
            let page = journal::page(&mut tx, after, JOURNAL_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.position + last.batch.count() as u64 - 1;
            for row in &page {
                let mut rows = PgRows::new(&mut tx, self, Taking::Alone);
                let ws = work::replay(&mut rows, &row.batch).await?;
                if !rows.store(&ws, None).await? {
                    let problem = format!("{} uses a key that was taken", row.batch.id);
                    return Err(StoreError::corrupt("journal row", problem));
                }
                events += row.batch.count() as u64;
            }
        }
        tx.commit().await.map_err(commit_error)?;
        // What was remembered while the tables were being made is true now; what others remembered before is not.
        self.forget_scopes();
        Ok(events)
    }
}
