//! Scopes: brought into being beforehand, locked in one order, and read in a later statement.

use std::collections::{BTreeMap, HashSet};
use std::sync::PoisonError;

use bursar_core::bounds::DEPTH_MAX;
use bursar_core::name::Scope;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use sqlx::postgres::PgRow;
use sqlx::{PgExecutor, Row};

use super::PostgresStore;
use super::error::store_error;
use super::rows::{PgRows, Taking, place, scopes_by_name, taking};
use crate::codec::Packed;
use crate::error::StoreError;
use crate::rows::Found;
use crate::store::Lock;

/// Scopes a node remembers to have seen.
const KNOWN_MAX: usize = 100_000;

impl PgRows<'_> {
    /// Takes scopes, and those above them as far as this node has seen them: all in one sorted sweep.
    pub(super) async fn take_scopes(
        &mut self,
        keys: &[(ScopeKey, bool)],
    ) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        let wanted = self.widened(keys.iter().cloned().collect()).await?;
        let mut found = match self.ahead.scopes.take() {
            Some(found) => found,
            None => self.lock_and_read(&wanted.keys().cloned().collect::<Vec<_>>()).await?,
        };
        if self.taking == Taking::Look {
            return Ok(found);
        }
        // A scope this node had seen may be gone, if the tables were made anew meanwhile.
        let gone: Vec<ScopeKey> = if found.rows.len() + found.blocked.len() < wanted.len() {
            let there: HashSet<&ScopeKey> = found.rows.iter().map(|(key, _)| key).chain(&found.blocked).collect();
            wanted.into_iter().filter(|(key, create)| *create && !there.contains(key)).map(|(key, _)| key).collect()
        } else {
            Vec::new()
        };
        if !gone.is_empty() {
            self.create(&gone).await?;
            let more = self.lock_and_read(&gone).await?;
            found.rows.extend(more.rows);
            found.blocked.extend(more.blocked);
        }
        Ok(found)
    }

    /// Adds those above the scopes as far as this node has seen them, and brings those into being that it has not.
    pub(super) async fn widened(
        &mut self,
        scopes: BTreeMap<ScopeKey, bool>,
    ) -> Result<BTreeMap<ScopeKey, bool>, StoreError> {
        let mut wanted = scopes;
        if self.taking != Taking::Look {
            for key in self.store.ancestors_known(wanted.keys()) {
                wanted.entry(key).or_insert(false);
            }
            let unknown = self.store.unknown(wanted.iter().filter(|(_, create)| **create).map(|(key, _)| key));
            if !unknown.is_empty() {
                self.create(&unknown).await?;
            }
        }
        Ok(wanted)
    }

    /// Brings rows into being that exist only to be locked. In a transaction of its own, so that nobody waits for them.
    async fn create(&mut self, keys: &[ScopeKey]) -> Result<(), StoreError> {
        let done = if self.taking == Taking::Alone {
            create(&mut *self.conn, keys).await
        } else {
            create(&self.store.side, keys).await
        };
        done.map_err(|e| self.failed(e))
    }

    /// Takes scopes in the order of the keys.
    async fn lock_and_read(&mut self, keys: &[ScopeKey]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        self.may_look_at_scopes()?;
        let mut found = Found::all(Vec::with_capacity(keys.len()));
        for (way, keys) in self.ways(keys, |key| Lock::Scope(key.clone())) {
            let (tenants, names) = columns(keys);
            let rows = self.fetch(sqlx::query(taking!(way, scopes_by_name)).bind(tenants).bind(names)).await?;
            for row in &rows {
                let (n, lies, state) = self.taken(row)?;
                let key = &keys[place(n)];
                self.note_scope(key, lies, row)?;
                found.rows.push((key.clone(), self.scope_of(row, state)?));
            }
        }
        self.see_blocked(&mut found, keys).await?;
        Ok(found)
    }

    /// A scope from the last columns of a statement that takes it.
    pub(super) fn scope_of(&self, row: &PgRow, state: &[u8]) -> Result<ScopeState, StoreError> {
        let budget: Option<&str> = row.try_get_unchecked(4).map_err(store_error)?;
        self.store.scope_row(state, budget)
    }

    /// Says which of the scopes that were not found are there nevertheless: somebody else has locked them.
    pub(super) async fn see_blocked(
        &mut self,
        found: &mut Found<ScopeKey, ScopeState>,
        keys: &[ScopeKey],
    ) -> Result<(), StoreError> {
        self.store.remember(&found.rows);
        if found.rows.len() == keys.len() || !self.passes_over() {
            return Ok(());
        }
        let taken: HashSet<&ScopeKey> = found.rows.iter().map(|(key, _)| key).collect();
        let missing: Vec<ScopeKey> = keys.iter().filter(|key| !taken.contains(key)).cloned().collect();
        let (tenants, names) = columns(&missing);
        let there: Vec<i64> = sqlx::query_scalar(
            "SELECT w.n FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, scope, n)
             CROSS JOIN LATERAL (
                 SELECT s.tenant FROM bursar.scopes s WHERE s.tenant = w.tenant AND s.scope = w.scope OFFSET 0) s",
        )
        .bind(tenants)
        .bind(names)
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        found.blocked.extend(there.into_iter().map(|n| missing[place(n)].clone()));
        Ok(())
    }
}

impl PostgresStore {
    fn ancestors_known<'a>(&self, keys: impl Iterator<Item = &'a ScopeKey>) -> Vec<ScopeKey> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut above = Vec::new();
        for key in keys {
            let parent = |key: &ScopeKey| Some((key.0.clone(), known.get(key)?.clone()?));
            above.extend(std::iter::successors(parent(key), parent).take(DEPTH_MAX));
        }
        above
    }

    fn unknown<'a>(&self, keys: impl Iterator<Item = &'a ScopeKey>) -> Vec<ScopeKey> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        keys.filter(|key| !known.contains_key(key)).cloned().collect()
    }

    fn remember(&self, rows: &[(ScopeKey, ScopeState)]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + rows.len() > KNOWN_MAX {
            known.clear();
        }
        for (key, row) in rows {
            let parent: Option<Scope> = row.budget.as_ref().and_then(|budget| budget.parent.clone());
            known.insert(key.clone(), parent);
        }
    }

    /// A scope from its columns.
    pub(super) fn scope_row(&self, state: &[u8], budget: Option<&str>) -> Result<ScopeState, StoreError> {
        let mut row = ScopeState::unpack(state)?;
        row.budget = budget.map(|json| self.budgets.parse(json)).transpose()?;
        Ok(row)
    }

    /// Forgets the hints: the tables are others now.
    pub(super) fn forget_scopes(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The clock of the database, one for all nodes.
pub(super) async fn clock(db: impl PgExecutor<'_>) -> Result<Time, sqlx::Error> {
    let now = sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    now.fetch_one(db).await.map(Time::from_micros)
}

pub(super) fn columns(keys: &[ScopeKey]) -> (Vec<&str>, Vec<&str>) {
    keys.iter().map(|(tenant, scope)| (tenant.as_str(), scope.as_str())).unzip()
}

async fn create(db: impl PgExecutor<'_>, keys: &[ScopeKey]) -> Result<(), sqlx::Error> {
    let (tenants, names) = columns(keys);
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
