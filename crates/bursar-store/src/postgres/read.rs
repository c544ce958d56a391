//! Reading: takes no lock, and sees one moment.

use std::collections::HashMap;

use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::live::ChargeMark;
use bursar_core::name::{Scope, Tenant};
use bursar_core::page::{Filling, Weighs};
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use sqlx::PgConnection;
use uuid::Uuid;

use super::commit::enter;
use super::error::store_error;
use super::payloads::{attach, cut_page};
use super::rows::{PgRows, Taking};
use super::scopes::clock;
use super::{ONE_SNAPSHOT, PostgresStore, READ_COMMITTED, migrate};
use crate::codec::{Packed, stored};
use crate::error::StoreError;
use crate::rows::Rows;
use crate::store::Health;
use crate::work;

/// Holds that are read at once, as each may have a thousand charges.
const HOLDS_AT_ONCE: usize = 50;

impl PostgresStore {
    pub(super) async fn read_scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        // What is due on the scope must be seen at the moment the scope is.
        let mut tx = self.begin(ONE_SNAPSHOT).await?;
        let row: Option<(Vec<u8>, Option<String>, i64)> = sqlx::query_as(
            "SELECT state, budget, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
             FROM bursar.scopes WHERE tenant = $1 AND scope = $2 AND version > 0",
        )
        .bind(key.0.as_str())
        .bind(key.1.as_str())
        .fetch_optional(&mut *tx)
        .await
        .map_err(store_error)?;
        let Some((state, budget, clock)) = row else { return Ok(None) };
        let row = self.scope_row(&state, budget.as_deref())?;
        let view = self.view(&mut tx, key, row, self.given_clock().unwrap_or(Time::from_micros(clock))).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(Some(view))
    }

    pub(super) async fn read_scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        let mut tx = self.begin(ONE_SNAPSHOT).await?;
        let rows: Vec<(String, Vec<u8>, Option<String>)> = sqlx::query_as(
            "SELECT scope, state, budget FROM bursar.scopes
             WHERE tenant = $1 AND scope >= $2 AND ($3::text IS NULL OR scope < $3)
               AND scope > $4 AND version > 0
             ORDER BY scope LIMIT $5",
        )
        .bind(tenant.as_str())
        .bind(prefix)
        .bind(beyond(prefix))
        .bind(after.map_or("", Scope::as_str))
        .bind(bounded(limit))
        .fetch_all(&mut *tx)
        .await
        .map_err(store_error)?;
        let now = self.time(&mut tx).await?;
        let mut found = Vec::with_capacity(rows.len());
        for (name, state, budget) in rows {
            let name: Scope = stored("scope", name)?;
            let row = self.scope_row(&state, budget.as_deref())?;
            let view = self.view(&mut tx, &(tenant.clone(), name.clone()), row, now).await?;
            found.push((name, view));
        }
        tx.commit().await.map_err(store_error)?;
        Ok(found)
    }

    async fn view(
        &self,
        conn: &mut PgConnection,
        key: &ScopeKey,
        row: ScopeState,
        now: Time,
    ) -> Result<ScopeState, StoreError> {
        work::view(&mut PgRows::new(conn, self, Taking::Look), key, row, now).await
    }

    pub(super) async fn read_spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        sqlx::query_scalar(
            "SELECT coalesce(sum(amount), 0)::bigint FROM bursar.postings
             WHERE tenant = $1 AND scope = $2 AND at >= $3 AND at < $4",
        )
        .bind(key.0.as_str())
        .bind(key.1.as_str())
        .bind(from.micros())
        .bind(to.micros())
        .fetch_one(&mut *self.acquire().await?)
        .await
        .map_err(store_error)
    }

    pub(super) async fn read_hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError> {
        let data: Option<Vec<u8>> = sqlx::query_scalar("SELECT data FROM bursar.holds WHERE id = $1")
            .bind(Uuid::from_u128(id.0))
            .fetch_optional(&mut *self.acquire().await?)
            .await
            .map_err(store_error)?;
        data.map(|data| Hold::unpack(&data)).transpose()
    }

    pub(super) async fn read_live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        let (at, hold) = after.unwrap_or((Time::MIN, HoldId(0)));
        let mut tx = self.begin(ONE_SNAPSHOT).await?;
        let mut rows = PgRows::new(&mut tx, self, Taking::Look);
        let Some((_, row)) = rows.scopes(&[(key.clone(), false)]).await?.rows.pop() else { return Ok(Vec::new()) };
        let table: Vec<(i64, Uuid)> = sqlx::query_as(
            "SELECT c.expires_at, c.hold FROM bursar.live_charges c WHERE c.tenant = $1 AND c.scope = $2
                 AND (c.expires_at, c.hold) > ($4, $5)
             ORDER BY c.expires_at, c.hold LIMIT $3",
        )
        .bind(key.0.as_str())
        .bind(key.1.as_str())
        .bind(bounded(limit))
        .bind(at.micros())
        .bind(Uuid::from_u128(hold.0))
        .fetch_all(&mut *tx)
        .await
        .map_err(store_error)?;
        let table = table.into_iter().map(|(at, hold)| (Time::from_micros(at), HoldId(hold.as_u128())));
        let ids = row.live_after(after, table.collect(), limit);
        let (mut page, mut found) = (Filling::new(limit), Vec::new());
        for ids in ids.chunks(HOLDS_AT_ONCE) {
            let mut some: HashMap<HoldId, Hold> =
                PgRows::new(&mut tx, self, Taking::Look).holds(ids).await?.rows.into_iter().collect();
            for hold in ids.iter().filter_map(|id| some.remove(id)) {
                if !page.is_full() {
                    page.add(hold.bytes());
                    found.push(hold);
                }
            }
            if page.is_full() {
                break;
            }
        }
        tx.commit().await.map_err(store_error)?;
        Ok(found)
    }

    pub(super) async fn read_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        let mut conn = self.acquire().await?;
        let found: Option<(Vec<u8>,)> = sqlx::query_as("SELECT data FROM bursar.grants WHERE id = $1")
            .bind(Uuid::from_u128(id.0))
            .fetch_optional(&mut *conn)
            .await
            .map_err(store_error)?;
        let mut grants = found.iter().map(|(data,)| Grant::unpack(data)).collect::<Result<Vec<_>, _>>()?;
        attach(&mut conn, &mut grants, |grant| grant.id.0).await.map_err(store_error)?;
        Ok(grants.pop())
    }

    pub(super) async fn read_grants(
        &self,
        tenant: &Tenant,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut conn = self.acquire().await?;
        let rows: Vec<(Vec<u8>,)> = sqlx::query_as(
            "SELECT data FROM bursar.grants WHERE tenant = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3",
        )
        .bind(tenant.as_str())
        .bind(after.map(|id| Uuid::from_u128(id.0)))
        .bind(bounded(limit))
        .fetch_all(&mut *conn)
        .await
        .map_err(store_error)?;
        let mut grants = rows.iter().map(|(data,)| Grant::unpack(data)).collect::<Result<Vec<_>, _>>()?;
        let beside = |grant: &mut Grant| Vec::from_iter(grant.payload.is_elsewhere().then_some(grant.id.0));
        cut_page(&mut conn, &mut grants, limit, beside).await.map_err(store_error)?;
        attach(&mut conn, &mut grants, |grant| grant.id.0).await.map_err(store_error)?;
        Ok(grants)
    }

    pub(super) async fn delete_payload(&self, id: u128) -> Result<bool, StoreError> {
        let done = sqlx::query("DELETE FROM bursar.payloads WHERE id = $1").bind(Uuid::from_u128(id));
        Ok(done.execute(&mut *self.acquire().await?).await.map_err(store_error)?.rows_affected() > 0)
    }

    pub(super) async fn read_due_holds(&self, limit: usize) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError> {
        let mut conn = self.acquire().await?;
        let now = self.time(&mut conn).await?;
        let rows: Vec<(String, Uuid)> = sqlx::query_as(
            "SELECT tenant, id FROM bursar.holds
             WHERE state = 0 AND expires_at < 9223372036854775807 AND expires_at <= $1
             ORDER BY expires_at, id LIMIT $2",
        )
        .bind(now.micros())
        .bind(bounded(limit))
        .fetch_all(&mut *conn)
        .await
        .map_err(store_error)?;
        let due = rows.into_iter().map(|(tenant, id)| Ok((stored("tenant", tenant)?, HoldId(id.as_u128()))));
        Ok((due.collect::<Result<_, StoreError>>()?, now))
    }

    pub(super) async fn read_scope_keys(
        &self,
        after: Option<&ScopeKey>,
        limit: usize,
    ) -> Result<Vec<ScopeKey>, StoreError> {
        let (tenant, scope) = after.map_or(("", ""), |(tenant, scope)| (tenant.as_str(), scope.as_str()));
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT tenant, scope FROM bursar.scopes WHERE (tenant, scope) > ($1, $2) AND version > 0
             ORDER BY tenant, scope LIMIT $3",
        )
        .bind(tenant)
        .bind(scope)
        .bind(bounded(limit))
        .fetch_all(&mut *self.acquire().await?)
        .await
        .map_err(store_error)?;
        rows.into_iter().map(|(tenant, scope)| Ok((stored("tenant", tenant)?, stored("scope", scope)?))).collect()
    }

    pub(super) async fn delete_keys(&self, limit: usize) -> Result<usize, StoreError> {
        let mut tx = self.begin(READ_COMMITTED).await?;
        enter(&mut tx, self.options.key_patience).await.map_err(store_error)?;
        let now = self.time(&mut tx).await?;
        let done = sqlx::query(
            "DELETE FROM bursar.keys WHERE ctid = ANY (ARRAY(
                 SELECT k.ctid FROM bursar.keys k WHERE k.until <= $1
                 ORDER BY k.until LIMIT $2 FOR UPDATE SKIP LOCKED))",
        )
        .bind(now.micros())
        .bind(bounded(limit));
        let done = done.execute(&mut *tx).await.map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    pub(super) async fn read_health(&self) -> Result<Health, StoreError> {
        let (position, last_event_at) = self.last_position().await?;
        let mut conn = self.acquire().await?;
        let (version, fsync, pages, synchronous, standby): (String, String, String, String, bool) = sqlx::query_as(
            "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'),
                    current_setting('synchronous_commit'), pg_is_in_recovery()",
        )
        .fetch_one(&mut *conn)
        .await
        .map_err(store_error)?;
        let found = [
            (fsync == "off", "fsync is off: a crash of the server can lose or corrupt everything; turn it on"),
            (pages == "off", "full_page_writes is off: a power loss can leave half-written pages; turn it on"),
            // Bursar turns it on when it connects; whoever stands between may have turned it off again.
            (synchronous == "off", "synchronous_commit is off: a crash can lose what was answered as done; turn it on"),
            (standby, "the server is a standby and cannot write; connect to the primary"),
        ];
        Ok(Health {
            engine: format!("PostgreSQL {version}"),
            schema: migrate::version(&mut conn).await?,
            place: self.place.clone(),
            problems: found.iter().filter(|(is, _)| *is).map(|(_, problem)| (*problem).into()).collect(),
            position,
            last_event_at,
            now: self.time(&mut conn).await?,
        })
    }

    fn given_clock(&self) -> Option<Time> {
        self.setup.clock.as_ref().map(|clock| clock.now())
    }

    /// The time this store goes by.
    pub(super) async fn time(&self, conn: &mut PgConnection) -> Result<Time, StoreError> {
        match self.given_clock() {
            Some(now) => Ok(now),
            None => clock(conn).await.map_err(store_error),
        }
    }
}

fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The first text after all that begin with `prefix`, in the order of bytes; `None` when nothing comes after them.
fn beyond(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_a_prefix_is_the_next_text_in_byte_order() {
        let cases = [("", None), ("a", Some("b")), ("a\u{10ffff}", Some("b")), ("\u{d7ff}", Some("\u{e000}"))];
        for (prefix, next) in cases {
            assert_eq!(beyond(prefix).as_deref(), next, "{prefix:?}");
        }
    }
}
