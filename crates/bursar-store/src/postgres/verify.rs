//! Verification: checks that the tables agree with each other.

use std::collections::{BTreeSet, HashMap, HashSet};

use bursar_core::hold::Hold;
use bursar_core::id::{HoldId, JobId};
use bursar_core::job::Job;
use bursar_core::live::LiveCharge;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use uuid::Uuid;

use super::error::store_error;
use super::rows::{LockMode, PgRows, index};
use super::wall::Reach;
use super::{ONE_SNAPSHOT, PostgresStore};
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::transaction::rows::Rows;
use crate::verify::{self, PAGE, Report, required_charges};

/// Tenant, scope, state, budget and the sum of the rolled-up postings.
type ScopeRow = (String, String, Vec<u8>, Option<String>, Option<i64>);

/// Tenant, scope, expiry, hold, instant of the hold, amount, units that its expiry posts, and the row of the hold.
type ChargeRow = (String, String, i64, Uuid, i64, i64, i64, Option<Vec<u8>>);

impl PostgresStore {
    /// Verifies page by page. Each page is one snapshot; other transactions may commit between two pages.
    pub(super) async fn verify_tables(&self) -> Result<Report, StoreError> {
        let mut report = Report::default();
        let mut after = (String::new(), String::new());
        while let Some(last) = self.check_scopes(&mut report, &after).await? {
            after = last;
        }
        let mut after = (String::new(), String::new(), i64::MIN, Uuid::nil());
        while let Some(last) = self.check_charges(&mut report, &after).await? {
            after = last;
        }
        let mut after = Uuid::nil();
        while let Some(last) = self.check_holds(&mut report, after).await? {
            after = last;
        }
        self.check_jobs(&mut report).await?;
        Ok(report)
    }

    /// Checks the scopes on the page after a key; returns the last key.
    async fn check_scopes(
        &self,
        report: &mut Report,
        after: &(String, String),
    ) -> Result<Option<(String, String)>, StoreError> {
        let mut tx = self.begin(ONE_SNAPSHOT, Reach::All).await?;
        let page: Vec<ScopeRow> = sqlx::query_as(
            "SELECT s.tenant, s.scope, s.state, s.budget, r.amount
             FROM (SELECT * FROM bursar.scopes WHERE (tenant, scope) > ($1, $2) AND version > 0
                     AND NOT (scope >= 'bursar:slots:' AND scope < 'bursar:slots;')
                   ORDER BY tenant, scope LIMIT $3) s
             LEFT JOIN LATERAL (
                 SELECT r.amount FROM bursar.rollups r WHERE r.tenant = s.tenant AND r.scope = s.scope OFFSET 0
             ) r ON true
             ORDER BY s.tenant, s.scope",
        )
        .bind(&after.0)
        .bind(&after.1)
        .bind(PAGE as i64)
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let last = page.last().map(|(tenant, scope, ..)| (tenant.clone(), scope.clone()));
        let (mut scopes, mut queries) = (Vec::with_capacity(page.len()), Vec::new());
        for (tenant, scope, state, budget, rolled) in page {
            let key: ScopeKey = (stored_name("tenant", tenant)?, stored_name("scope", scope)?);
            let row = self.scope_row(&state, budget.as_deref())?;
            queries.extend(verify::history_queries(&key, &row));
            scopes.push((key, row, rolled.unwrap_or(0)));
        }
        let sums = PgRows::new(tx.conn(), self, LockMode::Read).window_histories(&queries).await?;
        let recent: Vec<HoldId> = scopes.iter().flat_map(|(_, row, _)| &row.recent).map(|charge| charge.hold).collect();
        let holds = PgRows::new(tx.conn(), self, LockMode::Read).holds(&recent).await?.rows;
        let holds: HashMap<HoldId, Hold> = holds.into_iter().collect();
        tx.commit().await.map_err(store_error)?;
        let mut sums = sums.as_slice();
        for (key, row, rolled) in &scopes {
            let (own, others) = sums.split_at(row.balances.len());
            report.check_scope(key, row, *rolled, own, None);
            for charge in &row.recent {
                report.check_charge(key, charge, holds.get(&charge.hold));
            }
            sums = others;
        }
        Ok(last)
    }

    /// Checks that the live charges on the page after a key agree with their holds; returns the last key.
    async fn check_charges(
        &self,
        report: &mut Report,
        after: &(String, String, i64, Uuid),
    ) -> Result<Option<(String, String, i64, Uuid)>, StoreError> {
        let page: Vec<ChargeRow> = sqlx::query_as(
            "SELECT c.tenant, c.scope, c.expires_at, c.hold, c.placed_at, c.amount, c.on_expiry, h.data
             FROM (SELECT * FROM bursar.live_charges WHERE (tenant, scope, expires_at, hold) > ($1, $2, $3, $4)
                   ORDER BY tenant, scope, expires_at, hold LIMIT $5) c
             LEFT JOIN LATERAL (SELECT h.data FROM bursar.holds h WHERE h.id = c.hold OFFSET 0) h ON true
             ORDER BY c.tenant, c.scope, c.expires_at, c.hold",
        )
        .bind(&after.0)
        .bind(&after.1)
        .bind(after.2)
        .bind(after.3)
        .bind(PAGE as i64)
        .fetch_all(self.read(Reach::All).await?.conn())
        .await
        .map_err(store_error)?;
        let last = page.last().map(|(tenant, scope, at, hold, ..)| (tenant.clone(), scope.clone(), *at, *hold));
        for (tenant, scope, expires_at, hold, placed_at, amount, on_expiry, data) in page {
            let key = (stored_name("tenant", tenant)?, stored_name("scope", scope)?);
            let (expires_at, placed_at) = (Time::from_micros(expires_at), Time::from_micros(placed_at));
            let charge = LiveCharge { expires_at, hold: HoldId(hold.as_u128()), placed_at, amount, on_expiry };
            let hold = data.map(|data| Hold::unpack(&data)).transpose()?;
            report.check_charge(&key, &charge, hold.as_ref());
        }
        Ok(last)
    }

    /// Checks that the holds on the page after an id have all their live charges and agree with their jobs; returns the last id.
    async fn check_holds(&self, report: &mut Report, after: Uuid) -> Result<Option<Uuid>, StoreError> {
        let mut tx = self.begin(ONE_SNAPSHOT, Reach::All).await?;
        let page: Vec<(Uuid, i16, i64, Vec<u8>)> =
            sqlx::query_as("SELECT id, state, expires_at, data FROM bursar.holds WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(after)
                .bind(PAGE as i64)
                .fetch_all(tx.conn())
                .await
                .map_err(store_error)?;
        let last = page.last().map(|(id, ..)| *id);
        let (mut holds, mut charges) = (Vec::with_capacity(page.len()), Vec::new());
        for (_, state, expires_at, data) in page {
            let hold = Hold::unpack(&data)?;
            charges.extend(required_charges(&hold));
            holds.push((hold, (state, Time::from_micros(expires_at))));
        }
        let found: Vec<i64> = sqlx::query_scalar(
            "SELECT w.n FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[])
                 WITH ORDINALITY AS w(tenant, scope, at, hold, n)
             CROSS JOIN LATERAL (
                 SELECT 1 FROM bursar.live_charges c
                 WHERE c.tenant = w.tenant AND c.scope = w.scope AND c.expires_at = w.at AND c.hold = w.hold
                 OFFSET 0) c",
        )
        .bind(charges.iter().map(|((tenant, _), ..)| tenant.as_str()).collect::<Vec<_>>())
        .bind(charges.iter().map(|((_, scope), ..)| scope.as_str()).collect::<Vec<_>>())
        .bind(charges.iter().map(|(_, at, _)| at.micros()).collect::<Vec<_>>())
        .bind(charges.iter().map(|(.., hold)| Uuid::from_u128(hold.0)).collect::<Vec<_>>())
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let scopes: BTreeSet<ScopeKey> = charges.iter().map(|(key, ..)| key.clone()).collect();
        let scopes: Vec<(ScopeKey, bool)> = scopes.into_iter().map(|key| (key, false)).collect();
        let scopes = PgRows::new(tx.conn(), self, LockMode::Read).scopes(&scopes).await?.rows;
        let scopes: HashMap<ScopeKey, ScopeState> = scopes.into_iter().collect();
        let owners: Vec<JobId> = holds.iter().filter_map(|(hold, _)| hold.job).collect();
        let owners = PgRows::new(tx.conn(), self, LockMode::Read).jobs(&owners, false).await?.rows;
        let owners: HashMap<JobId, Job> = owners.into_iter().collect();
        tx.commit().await.map_err(store_error)?;
        let found: HashSet<usize> = found.into_iter().map(index).collect();
        let is_recent =
            |(key, at, hold): &(ScopeKey, Time, HoldId)| verify::has_recent_charge(scopes.get(key), *at, *hold);
        let missing = charges.iter().enumerate().filter(|(n, charge)| !found.contains(n) && !is_recent(charge));
        let missing: Vec<_> = missing.map(|(_, ((_, scope), _, hold))| (*hold, scope.clone())).collect();
        for (hold, columns) in &holds {
            let own = missing.iter().filter(|(id, _)| *id == hold.id);
            report.check_hold(hold, *columns, &own.map(|(_, scope)| scope.clone()).collect::<Vec<_>>());
            report.check_owner(hold, hold.job.and_then(|id| owners.get(&id)));
        }
        Ok(last)
    }
}
