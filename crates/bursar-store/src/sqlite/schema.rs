//! The tables and their versions. Differs from PostgreSQL in that a journal row gets its position when it is written, because there is
//! one writer.

use rusqlite::{Connection, OptionalExtension};

use crate::error::StoreError;
use crate::sqlite::error::store_error;
use crate::sqlite::{jobs, moving};

/// The SQL of each schema version. Versions are appended, never edited.
const VERSIONS: [&str; 5] = [KERNEL, DEAD_GROUPS, BLOBS, ON_EXPIRY, SEGMENTS];

const KERNEL: &str = "
CREATE TABLE bursar_scopes (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, version INTEGER NOT NULL, state BLOB NOT NULL, budget TEXT,
    PRIMARY KEY (tenant, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_holds (
    id BLOB PRIMARY KEY, tenant TEXT NOT NULL, state INTEGER NOT NULL, expires_at INTEGER NOT NULL, data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bursar_holds_due ON bursar_holds (expires_at) WHERE state = 0 AND expires_at < 9223372036854775807;
CREATE TABLE bursar_live_charges (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, expires_at INTEGER NOT NULL, hold BLOB NOT NULL,
    placed_at INTEGER NOT NULL, amount INTEGER NOT NULL,
    PRIMARY KEY (tenant, scope, expires_at, hold)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_postings (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, at INTEGER NOT NULL, seq INTEGER NOT NULL,
    amount INTEGER NOT NULL, hold BLOB,
    PRIMARY KEY (tenant, scope, at, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_rollups (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, amount INTEGER NOT NULL,
    PRIMARY KEY (tenant, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_grants (
    id BLOB PRIMARY KEY, tenant TEXT NOT NULL, state INTEGER NOT NULL, expires_at INTEGER NOT NULL, data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_keys (
    tenant TEXT NOT NULL, key TEXT NOT NULL, fingerprint BLOB NOT NULL, batch BLOB NOT NULL, command BLOB NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX bursar_keys_until ON bursar_keys (until);
CREATE TABLE bursar_job_keys (
    tenant TEXT NOT NULL, queue TEXT NOT NULL, key TEXT NOT NULL, job BLOB NOT NULL,
    PRIMARY KEY (tenant, queue, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_jobs (
    id BLOB PRIMARY KEY, tenant TEXT NOT NULL, queue TEXT NOT NULL, kind TEXT NOT NULL, flow TEXT NOT NULL,
    state INTEGER NOT NULL, rank INTEGER NOT NULL, at INTEGER NOT NULL, awaits TEXT, spec BLOB NOT NULL, life BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bursar_jobs_ready ON bursar_jobs (tenant, queue, kind, rank, id) WHERE state = 0;
CREATE INDEX bursar_jobs_lines ON bursar_jobs (tenant, queue, flow, state, kind, rank, id) WHERE state IN (1, 2);
CREATE INDEX bursar_jobs_due ON bursar_jobs (tenant, queue, at) WHERE state IN (3, 4);
CREATE INDEX bursar_jobs_waiting ON bursar_jobs (tenant, queue, at) WHERE state < 3 AND (state > 0 OR rank <> at);
CREATE INDEX bursar_jobs_lapse ON bursar_jobs (at, tenant, queue, rank) WHERE state = 6;
CREATE INDEX bursar_jobs_look ON bursar_jobs (at) WHERE state = 5;
CREATE INDEX bursar_jobs_awaits ON bursar_jobs (tenant, awaits, id) WHERE state = 5;
CREATE TABLE bursar_ended_jobs (
    id BLOB PRIMARY KEY, tenant TEXT NOT NULL, queue TEXT NOT NULL, kind TEXT NOT NULL, state INTEGER NOT NULL,
    at INTEGER NOT NULL, data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bursar_ended_jobs_at ON bursar_ended_jobs (tenant, queue, state, at);
CREATE TABLE bursar_queues (
    tenant TEXT NOT NULL, queue TEXT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (tenant, queue)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_schedules (
    tenant TEXT NOT NULL, name TEXT NOT NULL, next_at INTEGER NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX bursar_schedules_due ON bursar_schedules (next_at);
CREATE TABLE bursar_tallies (
    tenant TEXT NOT NULL, queue TEXT NOT NULL, what INTEGER NOT NULL, minute INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, what, minute)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_costs (
    tenant TEXT NOT NULL, day INTEGER NOT NULL, queue TEXT NOT NULL, kind TEXT NOT NULL, scope TEXT NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, queue, kind, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_held (
    tenant TEXT NOT NULL, queue TEXT NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL,
    high INTEGER NOT NULL, low INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, kind, unit)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_payloads (id BLOB PRIMARY KEY, data TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_journal (
    position INTEGER PRIMARY KEY, at INTEGER NOT NULL, count INTEGER NOT NULL, prev TEXT NOT NULL, entries TEXT NOT NULL
) STRICT;
";

/// `fingerprint` is that of a dead job's last error, and NULL for other jobs. A group without dead jobs has no row.
const DEAD_GROUPS: &str = "
ALTER TABLE bursar_ended_jobs ADD COLUMN fingerprint TEXT;
CREATE INDEX bursar_ended_jobs_dead ON bursar_ended_jobs (tenant, queue, kind, fingerprint, at)
    WHERE fingerprint IS NOT NULL;
CREATE TABLE bursar_dead_groups (
    tenant TEXT NOT NULL, queue TEXT NOT NULL, kind TEXT NOT NULL, fingerprint TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, kind, fingerprint)
) STRICT, WITHOUT ROWID;
";

/// `at` is when maintenance has to look at a blob: when it may be doomed, or its bytes deleted.
const BLOBS: &str = "
CREATE TABLE bursar_blobs (
    id BLOB PRIMARY KEY, tenant TEXT NOT NULL, namespace TEXT NOT NULL, state INTEGER NOT NULL, at INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bursar_blobs_names ON bursar_blobs (tenant, namespace, id);
CREATE INDEX bursar_blobs_tenants ON bursar_blobs (tenant, id);
CREATE INDEX bursar_blobs_due ON bursar_blobs (at, id) WHERE at < 9223372036854775807;
CREATE TABLE bursar_blob_digests (
    tenant TEXT NOT NULL, namespace TEXT NOT NULL, digest BLOB NOT NULL, blob BLOB NOT NULL,
    PRIMARY KEY (tenant, namespace, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE bursar_namespaces (
    tenant TEXT NOT NULL, namespace TEXT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (tenant, namespace)
) STRICT, WITHOUT ROWID;
";

/// The units that the expiry of a hold posts on the scope.
const ON_EXPIRY: &str = "
ALTER TABLE bursar_live_charges ADD COLUMN on_expiry INTEGER NOT NULL DEFAULT 0;
";

/// The segments of the archived journal.
const SEGMENTS: &str = "
CREATE TABLE bursar_journal_segments (
    first_position INTEGER PRIMARY KEY, last_position INTEGER NOT NULL, row_count INTEGER NOT NULL,
    least_id BLOB NOT NULL, greatest_id BLOB NOT NULL, least_at INTEGER NOT NULL, greatest_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL, head_bytes INTEGER NOT NULL, plain_bytes INTEGER NOT NULL,
    digest BLOB NOT NULL, previous BLOB NOT NULL
) STRICT;
CREATE INDEX bursar_journal_segments_last ON bursar_journal_segments (last_position);
CREATE INDEX bursar_journal_segments_ids ON bursar_journal_segments (greatest_id);
";

/// The version that groups dead jobs by their error.
const GROUPS_SINCE: i64 = 2;

/// The tables that are rebuilt from the journal.
pub(super) const REBUILT: [&str; 19] = [
    "bursar_scopes",
    "bursar_holds",
    "bursar_live_charges",
    "bursar_postings",
    "bursar_rollups",
    "bursar_grants",
    "bursar_keys",
    "bursar_job_keys",
    "bursar_jobs",
    "bursar_ended_jobs",
    "bursar_queues",
    "bursar_schedules",
    "bursar_tallies",
    "bursar_costs",
    "bursar_held",
    "bursar_dead_groups",
    "bursar_blobs",
    "bursar_blob_digests",
    "bursar_namespaces",
];

/// The schema version of this build.
pub const KNOWN: i64 = VERSIONS.len() as i64;

const META: &str =
    "CREATE TABLE IF NOT EXISTS bursar_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;";

/// Returns the SQL that prepares a database, for tools that run migrations themselves.
pub fn migration_sql() -> String {
    let versions =
        VERSIONS.iter().zip(1..).map(|(sql, version)| format!("{}{}", sql.trim_start(), set_version(version)));
    format!("BEGIN IMMEDIATE;\n{META}\n{}COMMIT;\n", versions.collect::<String>())
}

fn set_version(version: i64) -> String {
    format!(
        "INSERT INTO bursar_meta VALUES ('schema', '{version}') ON CONFLICT DO UPDATE SET value = excluded.value;\n"
    )
}

/// Returns the schema version of a database; 0 if it has no tables of Bursar.
pub(super) fn version(conn: &Connection) -> Result<i64, StoreError> {
    let table: Option<i64> = conn
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'bursar_meta'", [], |row| row.get(0))
        .optional()
        .map_err(store_error)?;
    if table.is_none() {
        return Ok(0);
    }
    let version: Option<String> = conn
        .query_row("SELECT value FROM bursar_meta WHERE key = 'schema'", [], |row| row.get(0))
        .optional()
        .map_err(store_error)?;
    version.map_or(Ok(0), |text| text.parse().map_err(|e| StoreError::corrupt("schema version", e)))
}

/// Fails if this build cannot use the schema of a database.
pub(super) fn check(conn: &Connection) -> Result<(), StoreError> {
    moving::check_marks(conn)?;
    match version(conn)? {
        found if found > KNOWN => Err(StoreError::NewerSchema { found, known: KNOWN }),
        found if found < KNOWN => Err(StoreError::NotMigrated { found, needed: KNOWN }),
        _ => Ok(()),
    }
}

/// Brings the tables to the version of this build, within the caller's transaction.
pub(super) fn migrate(conn: &Connection) -> Result<(), StoreError> {
    moving::check_marks(conn)?;
    migrate_with(conn, &VERSIONS)
}

fn migrate_with(conn: &Connection, versions: &[&str]) -> Result<(), StoreError> {
    let (found, known) = (version(conn)?, versions.len() as i64);
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    conn.execute_batch(META).map_err(store_error)?;
    for (sql, version) in versions.iter().zip(1..).skip(found as usize) {
        conn.execute_batch(sql).map_err(store_error)?;
        if version == GROUPS_SINCE {
            jobs::group_dead_jobs(conn)?;
        }
        conn.execute_batch(&set_version(version)).map_err(store_error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use bursar_core::budget::Limit;
    use bursar_core::decide::Rules;
    use bursar_core::id::IdSource;
    use bursar_core::name::Scope;
    use bursar_core::request::{Charge, CheckedRequest, Command, Op, Request, Settle};
    use bursar_core::time::Time;
    use bursar_core::window::Window;

    use super::*;
    use crate::only_adds::only_adds;
    use crate::sqlite::SqliteStore;
    use crate::store::{Commit as _, LockPolicy, Maintain as _, RequestOutcome, Setup};

    /// Changes that a later version may make. It may not change the journal, whose columns every version reads.
    const LATER: &str = "ALTER TABLE bursar_scopes ADD COLUMN note TEXT; ALTER TABLE bursar_holds ADD COLUMN note TEXT;
        ALTER TABLE bursar_live_charges ADD COLUMN note TEXT; ALTER TABLE bursar_postings ADD COLUMN note TEXT;
        ALTER TABLE bursar_jobs ADD COLUMN note TEXT; CREATE TABLE bursar_later (id BLOB PRIMARY KEY) STRICT;";

    struct Counter(u128);

    impl IdSource for Counter {
        fn next_id(&mut self, _: Time) -> u128 {
            self.0 += 1;
            self.0
        }
    }

    async fn open(path: &std::path::Path) -> Result<SqliteStore, StoreError> {
        let ids = Arc::new(Mutex::new(Counter(0)));
        SqliteStore::open(path, Setup { rules: Rules::default(), clock: None, ids, migrate: true }).await
    }

    #[test]
    fn a_later_version_only_adds() {
        for step in VERSIONS.iter().skip(1) {
            only_adds(step).unwrap();
        }
    }

    #[tokio::test]
    async fn an_open_store_survives_a_migration_by_a_newer_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        let old = open(&path).await.unwrap();
        let commit = async || {
            for settle in [Settle::Now, Settle::Hold { ttl: None }] {
                let scope = Scope::new("room").unwrap();
                let charges = vec![Charge::new(scope, 1).within([Limit::new(100, Window::Lifetime)])];
                let request = Request::from(Op::Submit(Command { charges, settle, ..Command::default() }));
                let request = Arc::new(CheckedRequest::new(request).unwrap());
                let outcomes = old.commit(&[request], LockPolicy::Skip).await.unwrap();
                assert!(matches!(outcomes.as_slice(), [RequestOutcome::Answered(Ok(_))]), "{outcomes:?}");
            }
        };
        commit().await;
        let versions = [&VERSIONS[..], &[LATER]].concat();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let conn = Connection::open(&path).unwrap();
                    conn.busy_timeout(Duration::from_secs(60)).unwrap();
                    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
                    migrate_with(&conn, &versions).unwrap();
                    conn.execute_batch("COMMIT").unwrap();
                });
            }
        });
        commit().await;
        assert_eq!(old.verify().await.unwrap().violations, Vec::<String>::new());
        assert_eq!(old.health().await.unwrap().schema, KNOWN + 1);
        let reopened = open(&path).await.err();
        assert!(matches!(reopened, Some(StoreError::NewerSchema { found: 6, known: KNOWN })), "{reopened:?}");
    }
}
