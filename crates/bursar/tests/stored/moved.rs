//! The stored databases, moved to the other engine.

use std::sync::Arc;

use bursar::Bursar;

use crate::opened::{self, Opened};

/// Moves the database of SQLite to PostgreSQL.
pub(crate) async fn to_postgres(version: u32) -> Opened {
    relocated(version, opened::sqlite(version).await, &bursar_testkit::fresh_database()).await
}

/// Moves the database of PostgreSQL to SQLite.
pub(crate) async fn to_sqlite(version: u32) -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    Opened { _folder: Some(folder), ..relocated(version, opened::postgres(version).await, &url).await }
}

async fn relocated(version: u32, from: Opened, to: &str) -> Opened {
    from.bursar.close().await;
    let report = Bursar::relocate(&from.url, to, false, Arc::new(|_| ())).await.unwrap();
    assert_eq!(report.differences, Vec::<String>::new());
    assert!(report.complete);
    opened::open(version, to, from.known, None).await
}
