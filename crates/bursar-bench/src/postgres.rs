//! PostgreSQL to measure on: a server that is named, or a throwaway one.

use std::path::PathBuf;

use bursar_testkit::Cluster;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::Instant;

use crate::error::BenchError;
use crate::machine::{folder_on_disk, fsync_ms};

/// A server on which databases are made.
pub(crate) struct Server {
    url: String,
    /// The throwaway one.
    cluster: Option<Cluster>,
    made: usize,
    left: Vec<String>,
}

/// A database on it.
pub(crate) struct Named {
    name: String,
    pub(crate) url: String,
}

/// Writes a little to the log, and to no table: its commit waits for the disk.
const LOGGED: &str = "SELECT pg_logical_emit_message(true, 'bursar', 'bench')";
/// How often a commit is timed.
const COMMITS: usize = 51;

impl Server {
    /// One that runs already.
    pub(crate) fn at(url: &str) -> Server {
        Server { url: url.to_owned(), cluster: None, made: 0, left: Vec::new() }
    }

    /// One of its own, with its defaults for all that keeps data safe; `None` where PostgreSQL is not installed, or does
    /// not start, which it says itself.
    pub(crate) async fn throwaway() -> Result<Option<Server>, BenchError> {
        if !Cluster::installed() {
            return Ok(None);
        }
        let folder = folder_on_disk()?;
        let Ok(cluster) = tokio::task::spawn_blocking(move || Cluster::start_in(&folder, true)).await else {
            return Ok(None);
        };
        Ok(Some(Server { url: cluster.url("postgres"), cluster: Some(cluster), made: 0, left: Vec::new() }))
    }

    async fn connect(&self) -> Result<PgConnection, BenchError> {
        Ok(PgConnection::connect(&self.url).await?)
    }

    pub(crate) async fn describe(&self) -> Result<String, BenchError> {
        let mut conn = self.connect().await?;
        let mut told = Vec::new();
        for name in
            ["fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size"]
        {
            let value: String =
                sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(&mut conn).await?;
            told.push(format!("{name}={value}"));
        }
        let version: String =
            sqlx::query_scalar("SELECT current_setting('server_version')").fetch_one(&mut conn).await?;
        conn.close().await?;
        let place = match &self.cluster {
            Some(cluster) => format!("a throwaway server in {}", cluster.folder().display()),
            None => "the server that was named".to_owned(),
        };
        Ok(format!("postgres: version {version}, {}, {place}", told.join(", ")))
    }

    /// Of a throwaway server its own disk is timed. The disk of another one cannot be reached: there it is the time of a
    /// commit that logs a few bytes, less that of a query that writes nothing; none where the server syncs nothing.
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
            for (sql, times) in [LOGGED, "SELECT 1"].into_iter().zip(&mut times) {
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

    pub(crate) async fn database(&mut self) -> Result<Named, BenchError> {
        let name = format!("bursar_bench_{}_{}", std::process::id(), self.made);
        let mut conn = self.connect().await?;
        let create = AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"));
        sqlx::query(create).execute(&mut conn).await?;
        conn.close().await?;
        self.made += 1;
        self.left.push(name.clone());
        Ok(Named { url: with_database(&self.url, &name), name })
    }

    pub(crate) async fn remove(&mut self, named: &Named) -> Result<(), BenchError> {
        let mut conn = self.connect().await?;
        let drop = AssertSqlSafe(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", named.name));
        sqlx::query(drop).execute(&mut conn).await?;
        conn.close().await?;
        self.left.retain(|name| *name != named.name);
        Ok(())
    }

    pub(crate) async fn close(mut self) -> Result<(), BenchError> {
        // A throwaway server goes with all that is on it.
        while self.cluster.is_none()
            && let Some(name) = self.left.pop()
        {
            self.remove(&Named { name, url: String::new() }).await?;
        }
        Ok(())
    }
}

impl Named {
    pub(crate) async fn connect(&self) -> Result<PgConnection, BenchError> {
        Ok(PgConnection::connect(&self.url).await?)
    }
}

/// The address of another database on the same server.
fn with_database(url: &str, name: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let (place, query) =
        rest.split_once('?').map_or((rest, String::new()), |(place, query)| (place, format!("?{query}")));
    let host = place.split_once('/').map_or(place, |(host, _)| host);
    format!("{scheme}://{host}/{name}{query}")
}

/// Lets a database come to rest after much was written, as it would be after a while: known to the planner, seen to be visible to all,
/// and on the disk.
pub(crate) async fn rest(conn: &mut PgConnection) -> Result<(), BenchError> {
    sqlx::raw_sql("VACUUM ANALYZE").execute(&mut *conn).await?;
    // Not everybody may; a server that was named does without it.
    let _ = sqlx::raw_sql("CHECKPOINT").execute(conn).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_an_address_is_changed_and_nothing_else() {
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
