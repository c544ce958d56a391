//! A bounded integrity check of a database file when it is opened.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use crate::error::StoreError;
use crate::sqlite::error::store_error_at;
use crate::sqlite::jobs::INDEXES;
use crate::sqlite::writer::Shared;

/// Files up to this size are checked completely.
pub(super) const WHOLE_BYTES_MAX: u64 = 8 << 20;

/// Reads both ends of every table and index, and decodes both ends of the journal. A small file is checked page by page. Damage in the
/// middle of a large file is found in use or by `bursar doctor`.
pub(super) fn check(shared: &Shared, conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let unreadable = |error| store_error_at(path, error);
    if std::fs::metadata(path).is_ok_and(|file| file.len() <= WHOLE_BYTES_MAX) {
        // Not `quick_check`, which misses a page of a table that was overwritten by another page of the same table.
        let result: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(unreadable)?;
        if result != "ok" {
            return Err(StoreError::Unavailable {
                what: format!("the database file is damaged ({}): {result}", path.display()),
                hint: "nothing was overwritten; keep a copy of the file and restore a backup",
                permanent: true,
                source: None,
            });
        }
    }
    let mut select = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'bursar_*'")
        .map_err(unreadable)?;
    let tables = select.query_map([], |row| row.get::<_, String>(0)).map_err(unreadable)?;
    // The first column of each table is the first of its key.
    let mut queries: Vec<String> = Vec::new();
    for table in tables {
        let table = table.map_err(unreadable)?;
        queries.extend(["ASC", "DESC"].map(|end| format!("SELECT * FROM {table} ORDER BY 1 {end} LIMIT 1")));
    }
    for end in ["ASC", "DESC"] {
        queries.push(format!(
            "SELECT expires_at FROM bursar_holds INDEXED BY bursar_holds_due
             WHERE state = 0 AND expires_at < 9223372036854775807 ORDER BY expires_at {end} LIMIT 1"
        ));
        queries
            .push(format!("SELECT until FROM bursar_keys INDEXED BY bursar_keys_until ORDER BY until {end} LIMIT 1"));
    }
    for (table, index, within, order) in INDEXES {
        let backwards = order.replace(", ", " DESC, ");
        queries.push(format!("SELECT {order} FROM {table} INDEXED BY {index} WHERE {within} ORDER BY {order} LIMIT 1"));
        queries.push(format!(
            "SELECT {order} FROM {table} INDEXED BY {index} WHERE {within} ORDER BY {backwards} DESC LIMIT 1"
        ));
    }
    for query in queries {
        let mut statement = conn.prepare(&query).map_err(unreadable)?;
        let columns = statement.column_count();
        let read = statement.query_row([], |row| (0..columns).try_for_each(|column| row.get_ref(column).map(drop)));
        read.optional().map_err(unreadable)?;
    }
    for end in ["min", "max"] {
        let sql = format!("SELECT {end}(position) FROM bursar_journal");
        let position: Option<i64> = conn.query_row(&sql, [], |row| row.get(0)).map_err(unreadable)?;
        position.map(|position| shared.rows(conn).read_batch(position)).transpose()?;
    }
    Ok(())
}
