//! A read snapshot held open by another connection, as a slow report would.

use rusqlite::Connection;
use sqlx::PgConnection;

use crate::engine::Database;
use crate::error::BenchError;

/// An open read transaction.
pub(crate) enum Snapshot {
    Sqlite(Connection),
    Postgres(PgConnection),
}

impl Snapshot {
    /// Opens a snapshot and reads once, because both engines take it with the first read.
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

    /// Reads again, to prove that the snapshot was held until now, and ends it.
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
