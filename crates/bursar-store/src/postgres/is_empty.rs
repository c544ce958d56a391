//! Checks whether a database has no tables, so that a dump can be restored into it.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::error::{redacted, store_error};
use super::no_answer;
use crate::error::StoreError;

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns whether a database has no tables besides the system catalogs.
pub async fn is_empty(url: &str) -> Result<bool, StoreError> {
    let options: PgConnectOptions = url.parse().map_err(|_| StoreError::BadUrl(redacted(url)))?;
    let query = async {
        let mut conn = options.connect().await?;
        let sql = "SELECT NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema')";
        let empty = sqlx::query_scalar(sql).fetch_one(&mut conn).await?;
        conn.close().await?;
        Ok(empty)
    };
    match tokio::time::timeout(TIMEOUT, query).await {
        Ok(answer) => answer.map_err(store_error),
        Err(_) => Err(no_answer(TIMEOUT)),
    }
}
