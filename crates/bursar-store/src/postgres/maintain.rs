//! Maintenance: finds due rows, deletes old ones, and reports readiness and health.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::blob::Blob;
use bursar_core::event::Stream;
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::{Span, Time};
use tokio::time::Instant;
use uuid::Uuid;

use super::commit::configure_writer;
use super::error::store_error;
use super::read::sql_limit;
use super::wall::{Reach, Step};
use super::{PostgresStore, READ_COMMITTED, migrate, moving};
use crate::codec::stored_name;
use crate::error::StoreError;
use crate::figures::DueJobs;
use crate::store::{ArchivedRows, Forgotten, Health, Maintain, Overdue};
use crate::verify::Report;

/// How long the store reports that it is not ready after a failed commit.
const UNREADY_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The last failed commit, for readiness checks: a server with a full disk still answers reads.
#[derive(Default)]
pub(super) struct Readiness(Mutex<Option<Failure>>);

#[derive(Clone)]
struct Failure {
    at: Instant,
    what: String,
    hint: &'static str,
}

impl Readiness {
    /// Records the result of a commit.
    pub(super) fn record<T>(&self, result: &Result<T, StoreError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = match result {
            Err(StoreError::Unavailable { what, hint, .. }) => {
                Some(Failure { at: Instant::now(), what: what.clone(), hint })
            }
            _ => None,
        };
    }

    fn check(&self) -> Result<(), StoreError> {
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure.filter(|failure| failure.at.elapsed() < UNREADY_AFTER_FAILURE) {
            Some(Failure { what, hint, .. }) => {
                Err(StoreError::Unavailable { what, hint, permanent: false, source: None })
            }
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Maintain for PostgresStore {
    async fn due_holds(&self, limit: usize) -> Result<Vec<(Tenant, HoldId)>, StoreError> {
        let mut conn = self.read(Reach::Nothing).await?;
        let now = self.time(&mut conn.conn()).await?;
        self.enter_step(&mut conn.conn(), Step::due("due_holds", now, limit)).await?;
        let rows: Vec<(String, Uuid)> = sqlx::query_as(
            "SELECT tenant, id FROM bursar.holds
             WHERE state = 0 AND expires_at < 9223372036854775807 AND expires_at <= $1
             ORDER BY expires_at, id LIMIT $2",
        )
        .bind(now.micros())
        .bind(sql_limit(limit))
        .fetch_all(conn.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter().map(|(tenant, id)| Ok((stored_name("tenant", tenant)?, HoldId(id.as_u128())))).collect()
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        self.read_due_jobs(limit).await
    }

    async fn due_blobs(&self, limit: usize) -> Result<Vec<Blob>, StoreError> {
        self.read_due_blobs(limit).await
    }

    async fn list_all_blobs(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, StoreError> {
        self.read_all_blobs(after, limit).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        self.read_due_schedules(limit).await
    }

    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.read_awaiting(scope, limit).await
    }

    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        self.read_barred(queue, after, limit).await
    }

    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        self.read_awaited(limit).await
    }

    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        let (tenant, scope) = after.map_or(("", ""), |(tenant, scope)| (tenant.as_str(), scope.as_str()));
        let mut conn = self.read(Reach::Nothing).await?;
        self.enter_step(&mut conn.conn(), Step::after("scopes", tenant, limit)).await?;
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT tenant, scope FROM bursar.scopes WHERE (tenant, scope) > ($1, $2) AND version > 0
             ORDER BY tenant, scope LIMIT $3",
        )
        .bind(tenant)
        .bind(scope)
        .bind(sql_limit(limit))
        .fetch_all(conn.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter()
            .map(|(tenant, scope)| Ok((stored_name("tenant", tenant)?, stored_name("scope", scope)?)))
            .collect()
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::Nothing).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        let now = self.time(&mut tx.conn()).await?;
        self.enter_step(&mut tx.conn(), Step::due("keys", now, limit)).await?;
        let delete = sqlx::query(
            "DELETE FROM bursar.keys WHERE ctid = ANY (ARRAY(
                 SELECT k.ctid FROM bursar.keys k WHERE k.until <= $1
                 ORDER BY k.until LIMIT $2 FOR UPDATE SKIP LOCKED))",
        )
        .bind(now.micros())
        .bind(sql_limit(limit));
        let deleted = delete.execute(tx.conn()).await.map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(usize::try_from(deleted.rows_affected()).unwrap_or(usize::MAX))
    }

    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError> {
        self.delete_figures(after, limit).await
    }

    async fn forget_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Forgotten<ScopeKey>, StoreError> {
        self.delete_scopes(after, limit).await
    }

    async fn forget_holds(&self, after: Option<HoldId>, limit: usize) -> Result<Forgotten<HoldId>, StoreError> {
        self.delete_holds(after, limit).await
    }

    async fn forget_grants(&self, after: Option<GrantId>, limit: usize) -> Result<Forgotten<GrantId>, StoreError> {
        self.delete_grants(after, limit).await
    }

    async fn forget_costs(&self, after: Option<&Tenant>, limit: usize) -> Result<Forgotten<Tenant>, StoreError> {
        self.delete_costs(after, limit).await
    }

    async fn overdue(&self, by: Span, limit: usize) -> Result<Overdue, StoreError> {
        self.count_overdue(by, limit).await
    }

    async fn check_can_erase(&self) -> Result<(), StoreError> {
        self.check_reach(Reach::All)
    }

    async fn erase_payloads(&self, of: &[Stream], rows: &[BatchId]) -> Result<bool, StoreError> {
        self.erase(of, rows).await
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        self.verify_tables().await
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        self.rebuild_tables(ArchivedRows::none()).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let read_only = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'";
        let mut conn = self.acquire().await?;
        moving::read_marks(&mut conn.conn()).await?.check()?;
        if sqlx::query_scalar(read_only).fetch_one(conn.conn()).await.map_err(store_error)? {
            return Err(StoreError::Unavailable {
                what: "the database server does not accept writes".into(),
                hint: "it is a standby or read-only: connect to the primary",
                permanent: false,
                source: None,
            });
        }
        self.readiness.check()
    }

    async fn health(&self) -> Result<Health, StoreError> {
        let (position, last_event_at) = self.last_position().await?;
        let mut conn = self.acquire().await?;
        let (version, fsync, pages, standby): (String, String, String, bool) = sqlx::query_as(
            "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'),
                    pg_is_in_recovery()",
        )
        .fetch_one(conn.conn())
        .await
        .map_err(store_error)?;
        let found = [
            (fsync == "off", "fsync is off: a crash of the server can lose or corrupt everything; turn it on"),
            (pages == "off", "full_page_writes is off: a power loss can leave half-written pages; turn it on"),
            (standby, "the server is a standby and cannot write; connect to the primary"),
        ];
        Ok(Health {
            engine: format!("PostgreSQL {version}"),
            schema: migrate::version(&mut conn.conn()).await?,
            place: self.address.clone(),
            row_security: Some(self.wall.describe()),
            problems: found.iter().filter(|(is, _)| *is).map(|(_, problem)| (*problem).into()).collect(),
            position,
            last_event_at,
            now: self.time(&mut conn.conn()).await?,
        })
    }

    async fn close(&self) {
        self.batch_connections.close();
        self.change_watch.close().await;
        self.pool.pool.close().await;
        self.side_pool.pool.close().await;
    }
}
