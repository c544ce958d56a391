//! Maintenance: what is due, what can be deleted, readiness and health.

use std::sync::PoisonError;

use async_trait::async_trait;
use bursar_core::blob::Blob;
use bursar_core::event::Stream;
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::{Span, Time};
use rusqlite::{Connection, Row, params};

use super::error::store_error;
use super::read::scope_key;
use super::rows::get_id;
use super::writer::Shared;
use super::{READERS, SqliteStore, blobs, forget, jobs, payloads, schedules, schema, verify};
use crate::codec::stored_name;
use crate::error::StoreError;
use crate::figures::DueJobs;
use crate::store::{Archive, ArchivedRows, Forgotten, Health, Maintain, Overdue};
use crate::verify::Report;

#[async_trait]
impl Maintain for SqliteStore {
    async fn due_holds(&self, limit: usize) -> Result<Vec<(Tenant, HoldId)>, StoreError> {
        self.in_snapshot(move |shared, conn| due_holds(shared, conn, limit)).await
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        self.in_snapshot(move |shared, conn| jobs::due_jobs(shared, conn, limit)).await
    }

    async fn due_blobs(&self, limit: usize) -> Result<Vec<Blob>, StoreError> {
        self.in_snapshot(move |shared, conn| blobs::due(shared, conn, limit)).await
    }

    async fn list_all_blobs(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, StoreError> {
        self.in_snapshot(move |shared, conn| blobs::list_all(shared, conn, after, limit)).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        self.in_snapshot(move |shared, conn| schedules::due(shared, conn, limit)).await
    }

    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let scope = scope.clone();
        self.in_snapshot(move |shared, conn| jobs::awaiting(shared, conn, &scope, limit)).await
    }

    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        let (queue, after) = (queue.clone(), after.cloned());
        self.in_snapshot(move |shared, conn| jobs::barred(shared, conn, &queue, after, limit)).await
    }

    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        self.in_snapshot(move |shared, conn| jobs::awaited(shared, conn, limit)).await
    }

    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        let after = after.cloned();
        self.in_snapshot(move |shared, conn| scope_keys(shared, conn, after.as_ref(), limit)).await
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        let work = move |shared: &Shared, conn: &Connection| {
            let sql = "DELETE FROM bursar_keys WHERE (tenant, key) IN
                (SELECT tenant, key FROM bursar_keys WHERE until <= ?1 ORDER BY until LIMIT ?2)";
            conn.execute(sql, (shared.clock.now().micros(), limit as i64)).map_err(store_error)
        };
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError> {
        let after = after.cloned();
        let work = move |shared: &Shared, conn: &Connection| forget::figures(shared, conn, after, limit);
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn forget_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Forgotten<ScopeKey>, StoreError> {
        let after = after.cloned();
        let unused =
            move |shared: &Shared, conn: &Connection| forget::unused_scopes(shared, conn, after.as_ref(), limit);
        let (unused, last) = self.in_snapshot(unused).await?;
        if unused.is_empty() {
            return Ok(Forgotten { count: 0, last });
        }
        let work = move |shared: &Shared, conn: &Connection| forget::scopes(shared, conn, &unused);
        let count = self.writer()?.call(move |writer| writer.transaction(work)).await?;
        Ok(Forgotten { count, last })
    }

    async fn forget_holds(&self, after: Option<HoldId>, limit: usize) -> Result<Forgotten<HoldId>, StoreError> {
        let found = move |shared: &Shared, conn: &Connection| {
            forget::forgettable_holds(shared, conn, after, limit, shared.clock.now())
        };
        let (found, last) = self.in_snapshot(found).await?;
        if found.is_empty() {
            return Ok(Forgotten { count: 0, last });
        }
        let work = move |shared: &Shared, conn: &Connection| forget::holds(shared, conn, &found);
        let count = self.writer()?.call(move |writer| writer.transaction(work)).await?;
        Ok(Forgotten { count, last })
    }

    async fn forget_grants(&self, after: Option<GrantId>, limit: usize) -> Result<Forgotten<GrantId>, StoreError> {
        let found = move |shared: &Shared, conn: &Connection| {
            forget::forgettable_grants(shared, conn, after, limit, shared.clock.now())
        };
        let (found, last) = self.in_snapshot(found).await?;
        let count = found.len();
        if count > 0 {
            let work = move |_: &Shared, conn: &Connection| forget::grants(conn, &found);
            self.writer()?.call(move |writer| writer.transaction(work)).await?;
        }
        Ok(Forgotten { count, last })
    }

    async fn forget_costs(&self, after: Option<&Tenant>, limit: usize) -> Result<Forgotten<Tenant>, StoreError> {
        let after = after.cloned();
        let found = move |shared: &Shared, conn: &Connection| forget::tenant_with_costs(shared, conn, after.as_ref());
        let Some((tenant, has_old)) = self.in_snapshot(found).await? else {
            return Ok(Forgotten { count: 0, last: None });
        };
        let old = tenant.clone();
        let work = move |shared: &Shared, conn: &Connection| forget::costs(shared, conn, &old, limit);
        let count = if has_old { self.writer()?.call(move |writer| writer.transaction(work)).await? } else { 0 };
        Ok(Forgotten { count, last: Some(tenant) })
    }

    async fn overdue(&self, by: Span, limit: usize) -> Result<Overdue, StoreError> {
        self.in_snapshot(move |shared, conn| forget::overdue(shared, conn, shared.clock.now().before(by), limit)).await
    }

    async fn erase_payloads(&self, of: &[Stream], rows: &[BatchId]) -> Result<bool, StoreError> {
        let (of, rows) = (of.to_vec(), rows.to_vec());
        let work = move |_: &Shared, conn: &Connection| payloads::erase(conn, &of, &rows);
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        self.in_snapshot(verify::verify).await
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        self.rebuild_from(ArchivedRows::none()).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let check =
            move || shared.files.as_ref().map_or(Ok(()), |files| files.check().and_then(|()| files.check_space()));
        tokio::task::spawn_blocking(check).await.map_err(|_| StoreError::Closed)??;
        self.in_snapshot(|_, conn| schema::check(conn)).await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.in_snapshot(health).await
    }

    async fn close(&self) {
        let Some((writer, closed)) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        // Reads in flight finish first. Then the connections for reading are closed.
        let permits = self.read_permits.acquire_many(READERS as u32).await;
        self.read_permits.close();
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.change_counter.close();
        drop(permits);
        // The writer thread finishes the tasks it has accepted and ends when the last handle is dropped. Its connection is the last of
        // this process to close, which copies the rest of the write-ahead log into the file.
        drop(writer);
        let _ = closed.await;
    }
}

fn due_holds(shared: &Shared, conn: &Connection, limit: usize) -> Result<Vec<(Tenant, HoldId)>, StoreError> {
    let sql = "SELECT tenant, id FROM bursar_holds
        WHERE state = 0 AND expires_at <= ?1 AND expires_at < 9223372036854775807 ORDER BY expires_at LIMIT ?2";
    let now = shared.clock.now();
    let read = |row: &Row<'_>| {
        let tenant = stored_name::<Tenant>("tenant", row.get(0).map_err(store_error)?)?;
        Ok((tenant, HoldId(get_id(row, 1).map_err(store_error)?)))
    };
    shared.rows(conn).all(sql, params![now.micros(), limit as i64], read)
}

pub(super) fn scope_keys(
    shared: &Shared,
    conn: &Connection,
    after: Option<&ScopeKey>,
    limit: usize,
) -> Result<Vec<ScopeKey>, StoreError> {
    let sql =
        "SELECT tenant, scope FROM bursar_scopes WHERE (tenant, scope) > (?1, ?2) ORDER BY tenant, scope LIMIT ?3";
    let (tenant, scope) = after.map_or(("", ""), |(tenant, scope)| (tenant.as_str(), scope.as_str()));
    shared.rows(conn).all(sql, params![tenant, scope, limit as i64], scope_key)
}

fn health(shared: &Shared, conn: &Connection) -> Result<Health, StoreError> {
    let rows = shared.rows(conn);
    let (next, last_event_at) = rows.end_of_journal()?;
    Ok(Health {
        engine: format!("SQLite {}", rusqlite::version()),
        schema: schema::version(conn)?,
        place: shared.path.as_ref().map_or("memory".into(), |path| path.display().to_string()),
        row_security: None,
        problems: Vec::new(),
        position: next - 1,
        last_event_at,
        now: shared.clock.now(),
    })
}
