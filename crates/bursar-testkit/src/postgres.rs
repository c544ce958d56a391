//! The PostgreSQL server that the tests of one process share.

use std::sync::OnceLock;

use bursar_pg_cluster::Cluster;

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
