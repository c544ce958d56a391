//! A snapshot that somebody else holds open: a report that takes its time.

use rusqlite::Connection;
use sqlx::PgConnection;

use crate::engine::Database;
use crate::error::BenchError;

/// Held until it is let go.
pub(crate) enum Snapshot {
    Sqlite(Connection),
    Postgres(PgConnection),
}

impl Snapshot {
    /// Takes one and has a look, as both engines begin it only then.
    pub(crate) async fn hold(database: &Database) -> Result<Snapshot, BenchError> {
        match database {
            Database::Sqlite(file) => {
                let conn = file.connect()?;
                conn.execute_batch("BEGIN")?;
                conn.query_row("SELECT count(*) FROM bursar_scopes", [], |_| Ok(()))?;
                Ok(Snapshot::Sqlite(conn))
            }
            Database::Postgres(named) => {
                let mut conn = named.connect().await?;
                sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM bursar.scopes")
                    .execute(&mut conn)
                    .await?;
                Ok(Snapshot::Postgres(conn))
            }
        }
    }

    /// Looks again, so that it is known to have been held until now, and lets go.
    pub(crate) async fn release(self) -> Result<(), BenchError> {
        match self {
            Snapshot::Sqlite(conn) => {
                conn.query_row("SELECT count(*) FROM bursar_scopes", [], |_| Ok(()))?;
                conn.execute_batch("COMMIT")?;
            }
            Snapshot::Postgres(mut conn) => {
                sqlx::raw_sql("SELECT count(*) FROM bursar.scopes; COMMIT").execute(&mut conn).await?;
            }
        }
        Ok(())
    }
}
