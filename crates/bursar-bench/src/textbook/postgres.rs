//! The textbook design on PostgreSQL: an advisory lock per scope, a connection per caller.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};

use super::{Work, history_times, now, window_start};
use crate::error::BenchError;
use crate::load::{Round, closed_loop};
use crate::plan::Bench;
use crate::postgres::PgDatabase;
use crate::subject::AMPLE_LIMIT;

pub(crate) struct Textbook {
    named: PgDatabase,
    work: Arc<Work>,
    pool: PgPool,
    /// Grants created so far.
    grants: usize,
}

const TABLES: &str = "
    CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, scope text NOT NULL, at bigint NOT NULL,
        amount bigint NOT NULL, state smallint NOT NULL);
    CREATE INDEX charges_by_scope ON charges (scope, at) INCLUDE (amount);
    CREATE TABLE grants (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, purpose text NOT NULL,
        subject text NOT NULL, redeemed_at bigint);
    CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, charge bigint NOT NULL, queue text NOT NULL,
        kind text NOT NULL, payload text NOT NULL, run_at bigint NOT NULL);";

impl Textbook {
    pub(super) async fn new(named: PgDatabase, work: Work, history: u64) -> Result<Textbook, BenchError> {
        let connections = u32::try_from(work.connections()).unwrap_or(u32::MAX);
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(Duration::from_secs(600))
            // A liveness check would add a round trip to each operation.
            .test_before_acquire(false)
            .connect(&named.url)
            .await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        let (start, step) = history_times(history);
        sqlx::query(
            "INSERT INTO charges (scope, at, amount, state)
             SELECT 'agent:' || lpad((i % $2)::text, 6, '0'), $3 + i * $4, 1, 1 FROM generate_series(0, $1 - 1) i",
        )
        .bind(i64::try_from(history).unwrap_or(i64::MAX))
        .bind(work.scopes as i64)
        .bind(start)
        .bind(step)
        .execute(&pool)
        .await?;
        sqlx::raw_sql("VACUUM ANALYZE charges").execute(&pool).await?;
        Ok(Textbook { named, work: Arc::new(work), pool, grants: 0 })
    }

    pub(super) async fn round(&mut self, time: Duration, grants: usize) -> Result<Round, BenchError> {
        if self.work.bench == Bench::Command {
            sqlx::query(
                "INSERT INTO grants (purpose, subject) SELECT 'upload', 'session-7' FROM generate_series(1, $1)",
            )
            .bind(grants as i64)
            .execute(&self.pool)
            .await?;
        }
        let (pool, work, first) = (self.pool.clone(), self.work.clone(), self.grants);
        self.grants += grants;
        let operation = move |number: usize| {
            let (pool, work) = (pool.clone(), work.clone());
            async move { operation(&pool, &work, number, first + number + 1).await }
        };
        closed_loop(self.work.callers, time, grants, operation).await
    }

    pub(super) async fn close(self) -> PgDatabase {
        self.pool.close().await;
        self.named
    }
}

async fn operation(pool: &PgPool, work: &Work, number: usize, grant: usize) -> Result<(), BenchError> {
    let scope = work.scope(number);
    let mut tx = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))").bind(&scope).execute(&mut *tx).await?;
    let sum = "SELECT coalesce(sum(amount), 0)::bigint FROM charges WHERE scope = $1 AND at >= $2";
    let spent: i64 = sqlx::query_scalar(sum).bind(&scope).bind(window_start()).fetch_one(&mut *tx).await?;
    if spent >= AMPLE_LIMIT {
        return Err(BenchError::Failed("the textbook design reached its limit".into()));
    }
    let insert = "INSERT INTO charges (scope, at, amount, state) VALUES ($1, $2, $3, 0) RETURNING id";
    let charge: i64 = sqlx::query_scalar(insert).bind(&scope).bind(now()).bind(1_i64).fetch_one(&mut *tx).await?;
    if work.bench == Bench::Command {
        let redeem = "UPDATE grants SET redeemed_at = $2
            WHERE id = $1 AND purpose = 'upload' AND subject = 'session-7' AND redeemed_at IS NULL";
        let redeemed = sqlx::query(redeem).bind(grant as i64).bind(now()).execute(&mut *tx).await?;
        if redeemed.rows_affected() != 1 {
            return Err(BenchError::Failed("a grant of the textbook design does not exist".into()));
        }
        let enqueue = "INSERT INTO jobs (charge, queue, kind, payload, run_at) VALUES ($1, $2, $3, $4, $5)";
        let job = sqlx::query(enqueue).bind(charge).bind("media").bind("video.generate");
        job.bind("\"a red fox, running\"").bind(now()).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    if work.bench == Bench::Settle {
        let settle = "UPDATE charges SET amount = $2, state = 1 WHERE id = $1 AND state = 0";
        sqlx::query(settle).bind(charge).bind(1_i64).execute(pool).await?;
    }
    Ok(())
}
