//! Locks and reads scopes, together with the ancestors that this node knows of, in one sorted statement.
//!
//! A scope that does not exist cannot be locked. So a missing row is created first, in a short transaction of its own, with version 0.
//! If the request is refused, the row stays: no list shows rows of version 0, and the next request uses it.
//!
//! That transaction needs a second connection. Behind a pooler it could wait for one that another transaction has, which waits for a second
//! one as well. So if there is no direct connection, a batch is rolled back, and runs again when the scopes are there
//! (`PgRows::restarts`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bursar_core::bounds::DEPTH_MAX;
use bursar_core::name::Scope;
use bursar_core::request::CheckedRequest;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgExecutor, Row};

use super::error::store_error;
use super::pg_types::Ctid;
use super::rows::{LockMode, PgRows, in_mode, index, scopes_by_name};
use super::wall::{Reach, TenantList};
use super::{PostgresStore, READ_COMMITTED};
use crate::codec::Packed;
use crate::error::StoreError;
use crate::transaction::lock_order::Lock;
use crate::transaction::rows::Found;

/// The most scopes in the cache of a node. A full cache is emptied.
const CACHED_MAX: usize = 100_000;

/// A cache of the scopes that this node has read, with their parents. A cached scope need not be created, and its ancestors are locked in the
/// same statement. If an entry is outdated, the transaction needs one more statement.
#[derive(Default)]
pub(super) struct ScopeCache(Mutex<HashMap<ScopeKey, Option<Scope>>>);

impl PgRows<'_> {
    /// Locks and reads scopes and their known ancestors, and creates those that are missing.
    pub(super) async fn fetch_scopes(
        &mut self,
        keys: &[(ScopeKey, bool)],
    ) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        let wanted = self.with_known_ancestors(keys.iter().cloned().collect()).await?;
        let mut found = match self.prefetched_scopes() {
            Some(found) => found,
            None => self.lock_and_read(&wanted.keys().cloned().collect::<Vec<_>>()).await?,
        };
        if self.mode == LockMode::Read {
            return Ok(found);
        }
        // A cached scope may not exist any more: a rebuild and the deletion of unused flow scopes remove rows.
        let missing: Vec<ScopeKey> = if found.rows.len() + found.blocked.len() < wanted.len() {
            let existing: HashSet<&ScopeKey> = found.rows.iter().map(|(key, _)| key).chain(&found.blocked).collect();
            wanted.into_iter().filter(|(key, create)| *create && !existing.contains(key)).map(|(key, _)| key).collect()
        } else {
            Vec::new()
        };
        if !missing.is_empty() {
            self.create(&missing).await?;
            let more = self.lock_and_read(&missing).await?;
            found.rows.extend(more.rows);
            found.blocked.extend(more.blocked);
        }
        Ok(found)
    }

    /// Adds the known ancestors of scopes, and creates the scopes that are not in the cache.
    pub(super) async fn with_known_ancestors(
        &mut self,
        scopes: BTreeMap<ScopeKey, bool>,
    ) -> Result<BTreeMap<ScopeKey, bool>, StoreError> {
        let mut wanted = scopes;
        if self.mode != LockMode::Read {
            for key in self.store.scope_cache.ancestors(wanted.keys()) {
                wanted.entry(key).or_insert(false);
            }
            let unknown =
                self.store.scope_cache.unknown(wanted.iter().filter(|(_, create)| **create).map(|(key, _)| key));
            if !unknown.is_empty() {
                self.create(&unknown).await?;
            }
        }
        Ok(wanted)
    }

    /// Creates rows so that they can be locked, in a transaction of its own, so that no other transaction waits for this one.
    async fn create(&mut self, keys: &[ScopeKey]) -> Result<(), StoreError> {
        let created = if self.mode == LockMode::Exclusive {
            create(&mut self.conn, keys).await
        } else if self.restarts {
            self.uncreated = keys.to_vec();
            return Err(StoreError::Busy("the scopes of the request are being created".into()));
        } else {
            self.store.create_scopes(keys).await
        };
        created.map_err(|e| self.statement_error(e))
    }

    /// Locks and reads scopes in the order of the keys.
    async fn lock_and_read(&mut self, keys: &[ScopeKey]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        let mut found = Found::all(Vec::with_capacity(keys.len()));
        for (mode, keys) in self.in_lock_order(keys, |key| Lock::Scope(key.clone())) {
            let (tenants, names) = key_columns(keys);
            let rows = self.fetch(sqlx::query(in_mode!(mode, scopes_by_name)).bind(tenants).bind(names)).await?;
            for row in &rows {
                let (n, ctid, state) = self.lock_columns(row)?;
                let key = &keys[index(n)];
                found.rows.push((key.clone(), self.unpack_scope(row, key, state, ctid)?));
            }
        }
        self.add_locked_scopes(&mut found, keys).await?;
        Ok(found)
    }

    /// Decodes a scope from a row of `scopes_by_name`.
    pub(super) fn unpack_scope(
        &mut self,
        row: &PgRow,
        key: &ScopeKey,
        state: &[u8],
        ctid: Ctid,
    ) -> Result<ScopeState, StoreError> {
        if self.locks() {
            self.locations.scopes.insert(key.clone(), ctid);
        }
        let budget: Option<&str> = row.try_get_unchecked(4).map_err(store_error)?;
        self.store.scope_row(state, budget)
    }

    /// Adds the scopes that exist but were skipped to `blocked`: another transaction has locked them.
    pub(super) async fn add_locked_scopes(
        &mut self,
        found: &mut Found<ScopeKey, ScopeState>,
        keys: &[ScopeKey],
    ) -> Result<(), StoreError> {
        self.store.scope_cache.add(&found.rows);
        if found.rows.len() == keys.len() || !self.may_skip() {
            return Ok(());
        }
        let locked: HashSet<&ScopeKey> = found.rows.iter().map(|(key, _)| key).collect();
        let missing: Vec<ScopeKey> = keys.iter().filter(|key| !locked.contains(key)).cloned().collect();
        let (tenants, names) = key_columns(&missing);
        let exist: Vec<i64> = sqlx::query_scalar(
            "SELECT w.n FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, scope, n)
             CROSS JOIN LATERAL (
                 SELECT s.tenant FROM bursar.scopes s WHERE s.tenant = w.tenant AND s.scope = w.scope OFFSET 0) s",
        )
        .bind(tenants)
        .bind(names)
        .fetch_all(&mut self.conn)
        .await
        .map_err(|e| self.statement_error(e))?;
        found.blocked.extend(exist.into_iter().map(|n| missing[index(n)].clone()));
        Ok(())
    }
}

impl ScopeCache {
    fn ancestors<'a>(&self, keys: impl Iterator<Item = &'a ScopeKey>) -> Vec<ScopeKey> {
        let cached = self.cached();
        let parent = |key: &ScopeKey| Some((key.0.clone(), cached.get(key)?.clone()?));
        keys.flat_map(|key| std::iter::successors(parent(key), parent).take(DEPTH_MAX)).collect()
    }

    fn unknown<'a>(&self, keys: impl Iterator<Item = &'a ScopeKey>) -> Vec<ScopeKey> {
        let cached = self.cached();
        keys.filter(|key| !cached.contains_key(key)).cloned().collect()
    }

    fn add(&self, rows: &[(ScopeKey, ScopeState)]) {
        let mut cached = self.cached();
        if cached.len() + rows.len() > CACHED_MAX {
            cached.clear();
        }
        for (key, row) in rows {
            let parent: Option<Scope> = row.budget.as_ref().and_then(|budget| budget.parent.clone());
            cached.insert(key.clone(), parent);
        }
    }

    /// Notes that scopes exist. Their parents are not known.
    fn add_created(&self, keys: &[ScopeKey]) {
        let mut cached = self.cached();
        if cached.len() + keys.len() > CACHED_MAX {
            cached.clear();
        }
        for key in keys {
            cached.entry(key.clone()).or_insert(None);
        }
    }

    pub(super) fn clear(&self) {
        self.cached().clear();
    }

    fn cached(&self) -> MutexGuard<'_, HashMap<ScopeKey, Option<Scope>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PostgresStore {
    /// Creates the scopes that requests name and this node does not know of.
    pub(super) async fn create_named_scopes(&self, requests: &[&CheckedRequest]) -> Result<(), sqlx::Error> {
        let named: BTreeSet<&ScopeKey> = requests
            .iter()
            .flat_map(|request| &request.needs().scopes)
            .filter_map(|(key, need)| need.create.then_some(key))
            .collect();
        let unknown = self.scope_cache.unknown(named.into_iter());
        if unknown.is_empty() { Ok(()) } else { self.create_scopes(&unknown).await }
    }

    /// Creates scopes, in a transaction of its own.
    pub(super) async fn create_scopes(&self, keys: &[ScopeKey]) -> Result<(), sqlx::Error> {
        if self.wall.stands() {
            let tenants = TenantList::new(keys.iter().map(|(tenant, _)| tenant));
            let begin = self.wall.begin(READ_COMMITTED, Reach::Tenants(&tenants));
            let mut tx = self.side_pool.begin(AssertSqlSafe(begin)).await?;
            create(tx.conn(), keys).await?;
            tx.commit().await?;
        } else {
            create(self.side_pool.acquire().await?.conn(), keys).await?;
        }
        self.scope_cache.add_created(keys);
        Ok(())
    }

    /// Decodes a scope from its columns.
    pub(super) fn scope_row(&self, state: &[u8], budget: Option<&str>) -> Result<ScopeState, StoreError> {
        let mut row = ScopeState::unpack(state)?;
        row.budget = budget.map(|json| self.budgets.parse(json)).transpose()?;
        Ok(row)
    }
}

/// Reads the clock of the database, which all nodes share.
pub(super) async fn clock(db: impl PgExecutor<'_>) -> Result<Time, sqlx::Error> {
    let now = sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    now.fetch_one(db).await.map(Time::from_micros)
}

pub(super) fn key_columns(keys: &[ScopeKey]) -> (Vec<&str>, Vec<&str>) {
    keys.iter().map(|(tenant, scope)| (tenant.as_str(), scope.as_str())).unzip()
}

async fn create(db: impl PgExecutor<'_>, keys: &[ScopeKey]) -> Result<(), sqlx::Error> {
    let (tenants, names) = key_columns(keys);
    sqlx::query(
        "INSERT INTO bursar.scopes (tenant, scope, version, state)
         SELECT w.tenant, w.scope, 0, $3 FROM unnest($1::text[], $2::text[]) AS w(tenant, scope)
         ON CONFLICT DO NOTHING",
    )
    .bind(tenants)
    .bind(names)
    .bind(ScopeState::default().pack())
    .execute(db)
    .await
    .map(drop)
}
