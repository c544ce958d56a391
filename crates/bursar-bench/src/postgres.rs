//! The PostgreSQL server to measure on: the named one, or a throwaway one.

use std::path::PathBuf;
use std::time::Duration;

use bursar::PostgresOptions;
use bursar_pg_cluster::{Cluster, Pooler};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::BenchError;
use crate::machine::{folder_on_disk, fsync_ms};
use crate::plan::Through;

/// A server on which databases are created.
pub(crate) struct Server {
    url: String,
    /// The throwaway server, if it is one.
    cluster: Option<Cluster>,
    /// The pooler in front of it, once it is needed.
    pooler: Option<Pooler>,
    created: usize,
    remaining: Vec<String>,
    /// The creation under way. A task of its own, since the server would complete it after a cancelled call too: then it could
    /// create a database that was already removed.
    creation: Option<JoinHandle<Result<(), sqlx::Error>>>,
}

/// A database on the server.
pub(crate) struct PgDatabase {
    name: String,
    pub(crate) url: String,
}

/// Writes a few bytes to the write-ahead log and to no table; the commit waits for the disk.
const WRITE_TO_LOG: &str = "SELECT pg_logical_emit_message(true, 'bursar', 'bench')";
/// The connections of the pooler to each database: more than Bursar opens.
const POOLED_CONNECTIONS: u32 = 20;
const POOLED_IDLE: Duration = Duration::from_secs(600);
/// Timed commits.
const COMMITS: usize = 51;
const REMOVAL_ATTEMPTS: u32 = 40;
const REMOVAL_PAUSE: Duration = Duration::from_millis(250);

impl Server {
    /// Uses a running server.
    pub(crate) fn at(url: &str) -> Server {
        Server::new(url.to_owned(), None)
    }

    /// Starts a throwaway server with default durability. Returns `None` if PostgreSQL is not installed or does not start; in the
    /// latter case its panic message is printed.
    pub(crate) async fn throwaway() -> Result<Option<Server>, BenchError> {
        if !Cluster::installed() {
            return Ok(None);
        }
        let folder = folder_on_disk()?;
        let Ok(cluster) = tokio::task::spawn_blocking(move || Cluster::start_in(&folder, true)).await else {
            return Ok(None);
        };
        Ok(Some(Server::new(cluster.url("postgres"), Some(cluster))))
    }

    fn new(url: String, cluster: Option<Cluster>) -> Server {
        Server { url, cluster, pooler: None, created: 0, remaining: Vec::new(), creation: None }
    }

    async fn connect(&self) -> Result<PgConnection, BenchError> {
        Ok(PgConnection::connect(&self.url).await?)
    }

    pub(crate) async fn describe(&self) -> Result<String, BenchError> {
        let mut conn = self.connect().await?;
        let mut settings = Vec::new();
        for name in
            ["fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size"]
        {
            let value: String =
                sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(&mut conn).await?;
            settings.push(format!("{name}={value}"));
        }
        let version: String =
            sqlx::query_scalar("SELECT current_setting('server_version')").fetch_one(&mut conn).await?;
        conn.close().await?;
        let location = match &self.cluster {
            Some(cluster) => format!("a temporary server in {}", cluster.folder().display()),
            None => "the named server".to_owned(),
        };
        Ok(format!("postgres: version {version}, {}, {location}", settings.join(", ")))
    }

    /// Measures the disk of a throwaway server directly. For another server, returns the time of a commit that writes a few bytes
    /// to the log minus the time of an empty query, or zero if the server has `fsync` off.
    pub(crate) async fn fsync_ms(&self) -> Result<f64, BenchError> {
        if let Some(cluster) = &self.cluster {
            let folder = cluster.folder().parent().map_or_else(PathBuf::new, PathBuf::from);
            return fsync_ms(&folder);
        }
        let mut conn = self.connect().await?;
        let synced: bool = sqlx::query_scalar("SELECT current_setting('fsync')::boolean").fetch_one(&mut conn).await?;
        if !synced {
            return Ok(0.0);
        }
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..COMMITS {
            for (sql, times) in [WRITE_TO_LOG, "SELECT 1"].into_iter().zip(&mut times) {
                let begun = Instant::now();
                sqlx::query(sql).execute(&mut conn).await?;
                times.push(begun.elapsed().as_secs_f64() * 1_000.0);
            }
        }
        conn.close().await?;
        for times in &mut times {
            times.sort_by(f64::total_cmp);
        }
        Ok((times[0][COMMITS / 2] - times[1][COMMITS / 2]).max(0.0))
    }

    pub(crate) async fn database(&mut self) -> Result<PgDatabase, BenchError> {
        let name = format!("bursar_bench_{}_{}", std::process::id(), self.created);
        self.created += 1;
        // Noted before it exists: the benchmark can be interrupted as soon as the server has created it.
        self.remaining.push(name.clone());
        self.creation = Some(tokio::spawn(create(self.url.clone(), name.clone())));
        self.created_or_failed().await?;
        Ok(PgDatabase { url: with_database(&self.url, &name), name })
    }

    /// Returns the URL and the options to reach a database of a throwaway server through a pooler, or as a role that owns nothing.
    pub(crate) fn through(&mut self, named: &PgDatabase, through: Through) -> (String, PostgresOptions) {
        let options = PostgresOptions::default();
        let Some(cluster) = &self.cluster else { return (named.url.clone(), options) };
        match through {
            Through::Pooler => {
                let pooler = self.pooler.get_or_insert_with(|| Pooler::start(cluster, POOLED_CONNECTIONS, POOLED_IDLE));
                (pooler.url(&named.url), PostgresOptions { pooled: true, ..options })
            }
            Through::Role => {
                let role = Some(cluster.app_role().to_owned());
                (named.url.clone(), PostgresOptions { role, ..options })
            }
        }
    }

    /// Waits for the creation under way, if any.
    async fn created_or_failed(&mut self) -> Result<(), BenchError> {
        let Some(creation) = &mut self.creation else { return Ok(()) };
        let result = creation.await;
        self.creation = None;
        Ok(result??)
    }

    pub(crate) async fn remove(&mut self, named: &PgDatabase) -> Result<(), BenchError> {
        let mut conn = self.connect().await?;
        let drop = AssertSqlSafe(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", named.name));
        sqlx::query(drop).execute(&mut conn).await?;
        conn.close().await?;
        self.remaining.retain(|name| *name != named.name);
        Ok(())
    }

    /// Retries while the server has no free connection or an interrupted caller still connects to the database.
    async fn remove_with_retries(&mut self, named: &PgDatabase) -> Result<(), BenchError> {
        for _ in 1..REMOVAL_ATTEMPTS {
            if self.remove(named).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(REMOVAL_PAUSE).await;
        }
        self.remove(named).await
    }

    pub(crate) async fn close(mut self) -> Result<(), BenchError> {
        // One that failed needs no removal.
        let _ = self.created_or_failed().await;
        // The databases of a throwaway server are deleted with it.
        while self.cluster.is_none()
            && let Some(name) = self.remaining.pop()
        {
            self.remove_with_retries(&PgDatabase { name, url: String::new() }).await?;
        }
        Ok(())
    }
}

async fn create(url: String, name: String) -> Result<(), sqlx::Error> {
    let mut conn = PgConnection::connect(&url).await?;
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"))).execute(&mut conn).await?;
    conn.close().await
}

impl PgDatabase {
    pub(crate) async fn connect(&self) -> Result<PgConnection, BenchError> {
        Ok(PgConnection::connect(&self.url).await?)
    }
}

/// Returns the URL of another database on the same server.
fn with_database(url: &str, name: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let (address, query) =
        rest.split_once('?').map_or((rest, String::new()), |(address, query)| (address, format!("?{query}")));
    let host = address.split_once('/').map_or(address, |(host, _)| host);
    format!("{scheme}://{host}/{name}{query}")
}

/// Brings a database into the state it would have some time after bulk writes: with statistics, visibility map and checkpoint.
pub(crate) async fn checkpoint(conn: &mut PgConnection) -> Result<(), BenchError> {
    sqlx::raw_sql("VACUUM ANALYZE").execute(&mut *conn).await?;
    // The role of a named server may lack the privilege.
    let _ = sqlx::raw_sql("CHECKPOINT").execute(conn).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_is_changed() {
        for (url, expected) in [
            ("postgres://u:p@h:5432/db", "postgres://u:p@h:5432/new"),
            ("postgresql://h", "postgresql://h/new"),
            ("postgres://h/db?sslmode=disable", "postgres://h/new?sslmode=disable"),
            ("postgres:///db?host=/run/postgresql", "postgres:///new?host=/run/postgresql"),
        ] {
            assert_eq!(with_database(url, "new"), expected);
        }
    }
}
