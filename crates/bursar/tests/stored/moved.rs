//! The stored databases, moved to the other engine.

use std::sync::Arc;

use bursar::Bursar;

use crate::Opened;

/// Moves the database of SQLite to PostgreSQL.
pub(crate) async fn to_postgres() -> Opened {
    relocated(crate::sqlite().await, &bursar_testkit::fresh_database()).await
}

/// Moves the database of PostgreSQL to SQLite.
pub(crate) async fn to_sqlite() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    Opened { _folder: Some(folder), ..relocated(crate::postgres().await, &url).await }
}

async fn relocated(from: Opened, to: &str) -> Opened {
    from.bursar.close().await;
    let report = Bursar::relocate(&from.url, to, false, Arc::new(|_| ())).await.unwrap();
    assert_eq!(report.differences, Vec::<String>::new());
    assert!(report.complete);
    crate::open(to, from.known, None).await
}
