//! The PostgreSQL server that the tests of one process share.

use std::sync::OnceLock;
use std::time::Duration;

use bursar_pg_cluster::{Cluster, Pooler};

/// Returns the server of this process and starts it on first use. `fsync` is off: it is fast and not durable.
///
/// # Panics
/// When PostgreSQL is not installed or does not start.
pub fn postgres() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(false))
}

/// Creates an empty database on the server of this process and returns its URL.
///
/// # Panics
/// When the server does not start or the database cannot be created.
pub fn fresh_database() -> String {
    postgres().fresh_database()
}

/// Returns the PgBouncer of this process, in front of [`postgres`], and starts it on first use. It has fewer connections to the server than
/// a store opens to it.
///
/// # Panics
/// When PgBouncer is not installed or does not start.
pub fn pooler() -> &'static Pooler {
    static POOLER: OnceLock<Pooler> = OnceLock::new();
    // Each database has its own connections, which are closed soon after its test: the server accepts 200.
    POOLER.get_or_init(|| Pooler::start(postgres(), 3, Duration::from_secs(5)))
}
