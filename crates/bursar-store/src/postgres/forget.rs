//! Deletes old figures per minute, the counters of groups without dead jobs, unused scopes, ended holds, expired grants and old costs.
//!
//! Rows are found without locks, then locked and checked again. A row that another transaction has locked is in use, and is skipped.

use std::collections::{HashMap, HashSet};

use bursar_core::decide::Rules;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::Tenant;
use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_core::time::{Span, Time};
use uuid::Uuid;

use super::commit::configure_writer;
use super::conn::Conn;
use super::error::store_error;
use super::read::sql_limit;
use super::scopes::key_columns;
use super::wall::{Reach, Step};
use super::{PostgresStore, READ_COMMITTED};
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::{first_day_kept, first_minute_kept};
use crate::job_row::minute_tallies;
use crate::store::{Forgotten, Overdue};

/// The most figures that one call deletes.
const FIGURES_MAX: i64 = 100_000;

impl PostgresStore {
    /// Deletes old figures. Finds the queues by skipping from one to the next in the primary key, without reading their figures.
    pub(super) async fn delete_figures(
        &self,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Option<QueueKey>, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::Nothing).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        let first = first_minute_kept(self.time(&mut tx.conn()).await?);
        let (tenant, queue) = after.map_or(("", ""), |(tenant, queue)| (tenant.as_str(), queue.as_str()));
        self.enter_step(&mut tx.conn(), Step::after("tallies", tenant, limit)).await?;
        let queues = "WITH RECURSIVE q(tenant, queue, n) AS (
                (SELECT tenant, queue, 1 FROM bursar.tallies WHERE (tenant, queue) > ($1, $2)
                 ORDER BY tenant, queue LIMIT 1)
                UNION ALL
                SELECT x.tenant, x.queue, q.n + 1 FROM q CROSS JOIN LATERAL (
                    SELECT t.tenant, t.queue FROM bursar.tallies t WHERE (t.tenant, t.queue) > (q.tenant, q.queue)
                    ORDER BY t.tenant, t.queue LIMIT 1) x
                WHERE q.n < $3)
            SELECT tenant, queue FROM q ORDER BY n";
        let queues: Vec<(String, String)> = sqlx::query_as(queues)
            .bind(tenant)
            .bind(queue)
            .bind(sql_limit(limit))
            .fetch_all(tx.conn())
            .await
            .map_err(store_error)?;
        let (tenants, names): (Vec<&str>, Vec<&str>) =
            queues.iter().map(|(tenant, queue)| (tenant.as_str(), queue.as_str())).unzip();
        let delete = "DELETE FROM bursar.tallies WHERE ctid = ANY (ARRAY(
                SELECT t.ctid FROM unnest($1::text[], $2::text[]) AS w(tenant, queue)
                CROSS JOIN unnest($3::smallint[]) AS k(what)
                CROSS JOIN LATERAL (
                    SELECT t.ctid FROM bursar.tallies t WHERE t.tenant = w.tenant AND t.queue = w.queue
                        AND t.what = k.what AND t.minute < $4 ORDER BY t.minute LIMIT $5 FOR UPDATE SKIP LOCKED) t
                LIMIT $5))";
        sqlx::query(delete)
            .bind(&tenants)
            .bind(&names)
            .bind(minute_tallies().map(|what| what as i16).collect::<Vec<_>>())
            .bind(first)
            .bind(FIGURES_MAX)
            .execute(tx.conn())
            .await
            .map_err(store_error)?;
        delete_empty_groups(&mut tx.conn(), &tenants, &names).await?;
        tx.commit().await.map_err(store_error)?;
        let last = queues.last().filter(|_| queues.len() == limit).cloned();
        last.map(|(tenant, queue)| Ok((stored_name("tenant", tenant)?, stored_name("queue", queue)?))).transpose()
    }

    /// Deletes unused scopes.
    pub(super) async fn delete_scopes(
        &self,
        after: Option<&ScopeKey>,
        limit: usize,
    ) -> Result<Forgotten<ScopeKey>, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::Nothing).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        let now = self.time(&mut tx.conn()).await?;
        let (tenant, scope) = after.map_or(("", ""), |(tenant, scope)| (tenant.as_str(), scope.as_str()));
        self.enter_step(&mut tx.conn(), Step::after("scopes", tenant, limit)).await?;
        let page = "SELECT tenant, scope, CASE WHEN version = 0 OR scope LIKE 'bursar:%' THEN state END
            FROM bursar.scopes WHERE (tenant, scope) > ($1, $2) ORDER BY tenant, scope LIMIT $3";
        let page: Vec<(String, String, Option<Vec<u8>>)> = sqlx::query_as(page)
            .bind(tenant)
            .bind(scope)
            .bind(sql_limit(limit))
            .fetch_all(tx.conn())
            .await
            .map_err(store_error)?;
        let full = page.len() == limit;
        let (mut last, mut unused): (Option<ScopeKey>, Vec<ScopeKey>) = (None, Vec::new());
        for (tenant, scope, state) in page {
            let key: ScopeKey = (stored_name("tenant", tenant)?, stored_name("scope", scope)?);
            if let Some(state) = state
                && ScopeState::unpack(&state)?.is_unused(&key.1, now)
            {
                unused.push(key.clone());
            }
            last = Some(key);
        }
        let mut deleted: Vec<ScopeKey> = Vec::new();
        if !unused.is_empty() {
            let (tenants, names) = key_columns(&unused);
            let lock = "SELECT s.tenant, s.scope, s.state
                FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, scope, n)
                CROSS JOIN LATERAL (
                    SELECT s.tenant, s.scope, s.state FROM bursar.scopes s
                    WHERE s.tenant = w.tenant AND s.scope = w.scope FOR UPDATE SKIP LOCKED) s
                ORDER BY w.n";
            let locked: Vec<(String, String, Vec<u8>)> =
                sqlx::query_as(lock).bind(tenants).bind(names).fetch_all(tx.conn()).await.map_err(store_error)?;
            for (tenant, scope, state) in locked {
                let key: ScopeKey = (stored_name("tenant", tenant)?, stored_name("scope", scope)?);
                if ScopeState::unpack(&state)?.is_unused(&key.1, now) {
                    deleted.push(key);
                }
            }
            let (tenants, names) = key_columns(&deleted);
            for delete in [
                "DELETE FROM bursar.postings WHERE (tenant, scope) IN (SELECT * FROM unnest($1::text[], $2::text[]))",
                "DELETE FROM bursar.rollups WHERE (tenant, scope) IN (SELECT * FROM unnest($1::text[], $2::text[]))",
                "DELETE FROM bursar.scopes WHERE (tenant, scope) IN (SELECT * FROM unnest($1::text[], $2::text[]))",
            ] {
                sqlx::query(delete).bind(&tenants).bind(&names).execute(tx.conn()).await.map_err(store_error)?;
            }
        }
        tx.commit().await.map_err(store_error)?;
        Ok(Forgotten { count: deleted.len(), last: last.filter(|_| full) })
    }

    /// Deletes ended holds that are no longer needed.
    pub(super) async fn delete_holds(
        &self,
        after: Option<HoldId>,
        limit: usize,
    ) -> Result<Forgotten<HoldId>, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::Nothing).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        let (rules, now) = (&self.setup.rules, self.time(&mut tx.conn()).await?);
        let after = Uuid::from_u128(after.map_or(0, |hold| hold.0));
        self.enter_step(&mut tx.conn(), Step::after_id("holds", after, limit)).await?;
        let (old, last) = self.old_holds(&mut tx.conn(), after, limit, now).await?;
        let mut deleted = Vec::new();
        if !old.is_empty() {
            let lock = "SELECT data FROM bursar.holds WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED";
            let old: Vec<Uuid> = old.iter().map(|hold| Uuid::from_u128(hold.id.0)).collect();
            let locked: Vec<(Vec<u8>,)> =
                sqlx::query_as(lock).bind(&old).fetch_all(tx.conn()).await.map_err(store_error)?;
            let locked = locked.iter().map(|(data,)| Hold::unpack(data)).collect::<Result<_, _>>()?;
            deleted = without_owner(&mut tx.conn(), locked, rules, now).await?;
            let delete = "DELETE FROM bursar.holds WHERE id = ANY ($1)";
            sqlx::query(delete).bind(&deleted).execute(tx.conn()).await.map_err(store_error)?;
        }
        tx.commit().await.map_err(store_error)?;
        Ok(Forgotten { count: deleted.len(), last })
    }

    /// Returns the holds that are old enough to be deleted among up to `limit` holds, and the last of these. Whether a job or a blob needs
    /// one is not known yet.
    async fn old_holds(
        &self,
        conn: &mut Conn<'_>,
        after: Uuid,
        limit: usize,
        now: Time,
    ) -> Result<(Vec<Hold>, Option<HoldId>), StoreError> {
        let rules = &self.setup.rules;
        let page = "SELECT id, CASE WHEN state <> 0 THEN data END FROM bursar.holds WHERE id > $1 ORDER BY id LIMIT $2";
        let page: Vec<(Uuid, Option<Vec<u8>>)> =
            sqlx::query_as(page).bind(after).bind(sql_limit(limit)).fetch_all(conn).await.map_err(store_error)?;
        let last = page.last().filter(|_| page.len() == limit).map(|(id, _)| HoldId(id.as_u128()));
        // A row that cannot be read is left for `verify`.
        let holds = page.into_iter().filter_map(|(_, data)| Hold::unpack(&data?).ok());
        let is_old = |hold: &Hold| hold.is_forgettable(false, false, rules.holds_kept(&hold.tenant), now);
        Ok((holds.filter(is_old).collect(), last))
    }

    /// Returns the grants that can be deleted among up to `limit` grants, and the last of these.
    async fn old_grants(
        &self,
        conn: &mut Conn<'_>,
        after: Uuid,
        limit: usize,
        now: Time,
    ) -> Result<(Vec<Uuid>, Option<GrantId>), StoreError> {
        let page = "SELECT id, expires_at, tenant FROM bursar.grants WHERE id > $1 ORDER BY id LIMIT $2";
        let page: Vec<(Uuid, i64, String)> =
            sqlx::query_as(page).bind(after).bind(sql_limit(limit)).fetch_all(conn).await.map_err(store_error)?;
        let last = page.last().filter(|_| page.len() == limit).map(|(id, ..)| GrantId(id.as_u128()));
        let mut old: Vec<Uuid> = Vec::new();
        for (id, expires_at, tenant) in page {
            let kept = self.setup.rules.grants_kept(&stored_name("tenant", tenant)?);
            if Grant::is_forgettable(Time::from_micros(expires_at), kept, now) {
                old.push(id);
            }
        }
        Ok((old, last))
    }

    /// Counts rows that should have been deleted at least `by` ago.
    pub(super) async fn count_overdue(&self, by: Span, limit: usize) -> Result<Overdue, StoreError> {
        let mut conn = self.read(Reach::Nothing).await?;
        let before = self.time(&mut conn.conn()).await?.before(by);
        self.enter_step(&mut conn.conn(), Step::due("keys", before, limit)).await?;
        let keys = "SELECT count(*) FROM (SELECT 1 FROM bursar.keys WHERE until <= $1 LIMIT $2) k";
        let keys: i64 = sqlx::query_scalar(keys)
            .bind(before.micros())
            .bind(sql_limit(limit))
            .fetch_one(conn.conn())
            .await
            .map_err(store_error)?;
        self.enter_step(&mut conn.conn(), Step::after_id("holds", Uuid::nil(), limit)).await?;
        let (old, _) = self.old_holds(&mut conn.conn(), Uuid::nil(), limit, before).await?;
        let is_overdue = |hold: &&Hold| hold.is_overdue(self.setup.rules.holds_kept(&hold.tenant), before);
        let holds = old.iter().filter(is_overdue).count();
        self.enter_step(&mut conn.conn(), Step::after_id("grants", Uuid::nil(), limit)).await?;
        let (grants, _) = self.old_grants(&mut conn.conn(), Uuid::nil(), limit, before).await?;
        let jobs = self.expired_ended(&mut conn.conn(), limit, before).await?;
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        Ok(Overdue { keys, holds, grants: grants.len(), jobs: jobs.len() })
    }

    /// Deletes grants that expired long ago, and their payloads.
    pub(super) async fn delete_grants(
        &self,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Forgotten<GrantId>, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::Nothing).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        let now = self.time(&mut tx.conn()).await?;
        let after = Uuid::from_u128(after.map_or(0, |grant| grant.0));
        self.enter_step(&mut tx.conn(), Step::after_id("grants", after, limit)).await?;
        let (old, last) = self.old_grants(&mut tx.conn(), after, limit, now).await?;
        let mut deleted: Vec<Uuid> = Vec::new();
        if !old.is_empty() {
            let lock = "SELECT g.id FROM bursar.grants g WHERE g.id = ANY ($1) FOR UPDATE SKIP LOCKED";
            deleted = sqlx::query_scalar(lock).bind(&old).fetch_all(tx.conn()).await.map_err(store_error)?;
            // Payloads first: with row-level security, a payload is only visible with its grant.
            let delete = "DELETE FROM bursar.payloads WHERE id = ANY ($1)";
            sqlx::query(delete).bind(&deleted).execute(tx.conn()).await.map_err(store_error)?;
            let delete = "DELETE FROM bursar.grants WHERE id = ANY ($1)";
            sqlx::query(delete).bind(&deleted).execute(tx.conn()).await.map_err(store_error)?;
        }
        tx.commit().await.map_err(store_error)?;
        Ok(Forgotten { count: deleted.len(), last })
    }

    /// Deletes old costs of the next tenant that has any costs.
    pub(super) async fn delete_costs(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<Forgotten<Tenant>, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::Nothing).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        let now = self.time(&mut tx.conn()).await?;
        self.enter_step(&mut tx.conn(), Step::after("costs", after.map_or("", Tenant::as_str), 1)).await?;
        let tenant = "SELECT tenant FROM bursar.costs WHERE tenant > $1 ORDER BY tenant LIMIT 1";
        let tenant: Option<(String,)> = sqlx::query_as(tenant)
            .bind(after.map_or("", Tenant::as_str))
            .fetch_optional(tx.conn())
            .await
            .map_err(store_error)?;
        let Some((tenant,)) = tenant else { return Ok(Forgotten { count: 0, last: None }) };
        let tenant: Tenant = stored_name("tenant", tenant)?;
        let first = first_day_kept(self.setup.rules.costs_kept(&tenant), now);
        let delete = "DELETE FROM bursar.costs WHERE ctid = ANY (ARRAY(
            SELECT c.ctid FROM bursar.costs c WHERE c.tenant = $1 AND c.day < $2 ORDER BY c.day LIMIT $3
            FOR UPDATE SKIP LOCKED))";
        let deleted = sqlx::query(delete)
            .bind(tenant.as_str())
            .bind(first)
            .bind(sql_limit(limit))
            .execute(tx.conn())
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        let count = usize::try_from(deleted.rows_affected()).unwrap_or(usize::MAX);
        Ok(Forgotten { count, last: Some(tenant) })
    }
}

/// Returns the ids of those holds that can be deleted, because no job and no blob needs them.
async fn without_owner(
    conn: &mut Conn<'_>,
    holds: Vec<Hold>,
    rules: &Rules,
    now: Time,
) -> Result<Vec<Uuid>, StoreError> {
    let owners = holds.iter().flat_map(|hold| [hold.job.map(|job| job.0), hold.blob.map(|blob| blob.0)]);
    let owners: Vec<Uuid> = owners.flatten().map(Uuid::from_u128).collect();
    let existing = "SELECT id FROM bursar.jobs WHERE id = ANY ($1) UNION ALL
        SELECT id FROM bursar.ended_jobs WHERE id = ANY ($1) UNION ALL
        SELECT id FROM bursar.blobs WHERE id = ANY ($1)";
    let existing: Vec<(Uuid,)> = sqlx::query_as(existing).bind(&owners).fetch_all(conn).await.map_err(store_error)?;
    let existing: HashSet<u128> = existing.into_iter().map(|(id,)| id.as_u128()).collect();
    let forgettable = holds.into_iter().filter(|hold| {
        let has_job = hold.job.is_some_and(|job| existing.contains(&job.0));
        let has_blob = hold.blob.is_some_and(|blob| existing.contains(&blob.0));
        hold.is_forgettable(has_job, has_blob, rules.holds_kept(&hold.tenant), now)
    });
    Ok(forgettable.map(|hold| Uuid::from_u128(hold.id.0)).collect())
}

/// Deletes the counters of groups without dead jobs. Rows that add up to zero can be deleted while other transactions add to other lanes of
/// the same group. Locks the rows first, because their counts may have changed since they were found.
async fn delete_empty_groups(conn: &mut Conn<'_>, tenants: &[&str], queues: &[&str]) -> Result<(), StoreError> {
    let lock = "SELECT g.tenant, g.queue, g.kind, g.fingerprint, g.lane, g.count
        FROM (
            SELECT g.tenant, g.queue, g.kind, g.fingerprint FROM unnest($1::text[], $2::text[]) AS w(tenant, queue)
            JOIN bursar.dead_groups g ON g.tenant = w.tenant AND g.queue = w.queue
            GROUP BY g.tenant, g.queue, g.kind, g.fingerprint HAVING sum(g.count) = 0 LIMIT $3) e
        CROSS JOIN LATERAL (
            SELECT g.tenant, g.queue, g.kind, g.fingerprint, g.lane, g.count FROM bursar.dead_groups g
            WHERE g.tenant = e.tenant AND g.queue = e.queue AND g.kind = e.kind AND g.fingerprint = e.fingerprint
            FOR UPDATE SKIP LOCKED) g";
    let locked: Vec<(String, String, String, String, i16, i64)> = sqlx::query_as(lock)
        .bind(tenants)
        .bind(queues)
        .bind(FIGURES_MAX)
        .fetch_all(&mut *conn)
        .await
        .map_err(store_error)?;
    let mut sums: HashMap<[&str; 4], i64> = HashMap::new();
    for (tenant, queue, kind, fingerprint, _, count) in &locked {
        *sums.entry([tenant, queue, kind, fingerprint]).or_default() += count;
    }
    let (mut keys, mut lanes): ([Vec<&str>; 4], Vec<i16>) = Default::default();
    for (tenant, queue, kind, fingerprint, lane, _) in &locked {
        let key: [&str; 4] = [tenant, queue, kind, fingerprint];
        if sums[&key] == 0 {
            keys.iter_mut().zip(key).for_each(|(column, value)| column.push(value));
            lanes.push(*lane);
        }
    }
    if lanes.is_empty() {
        return Ok(());
    }
    let delete = "DELETE FROM bursar.dead_groups WHERE (tenant, queue, kind, fingerprint, lane) IN
        (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::smallint[]))";
    let [tenants, queues, kinds, fingerprints] = keys;
    sqlx::query(delete)
        .bind(tenants)
        .bind(queues)
        .bind(kinds)
        .bind(fingerprints)
        .bind(lanes)
        .execute(conn)
        .await
        .map_err(store_error)?;
    Ok(())
}
