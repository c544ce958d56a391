//! Whether a database file can be relied on: a bounded look at it when it is opened.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use crate::error::StoreError;
use crate::sqlite::jobs::INDEXES;
use crate::sqlite::writer::{Shared, named};

/// A file up to this size is looked through as a whole when it is opened.
pub(super) const WHOLE_BYTES_MAX: u64 = 8 << 20;

/// Both ends of every table and index are read, and both ends of the journal understood. A small file is checked page by
/// page; damage in the middle of a large one is met in use, and by `bursar doctor`.
pub(super) fn check(shared: &Shared, conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let broken = |error| named(path, error);
    if std::fs::metadata(path).is_ok_and(|file| file.len() <= WHOLE_BYTES_MAX) {
        // The quick check does not notice a page of a table that stands in the place of another page of it.
        let said: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(broken)?;
        if said != "ok" {
            return Err(StoreError::Unavailable {
                what: format!("the database file is damaged ({}): {said}", path.display()),
                hint: "keep a copy of the file and restore a backup: nothing was overwritten",
                source: None,
            });
        }
    }
    let mut ours =
        conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'bursar_*'").map_err(broken)?;
    let tables = ours.query_map([], |row| row.get::<_, String>(0)).map_err(broken)?;
    // The first column of each table leads its key.
    let mut looks: Vec<String> = Vec::new();
    for table in tables {
        let table = table.map_err(broken)?;
        looks.extend(["ASC", "DESC"].map(|end| format!("SELECT * FROM {table} ORDER BY 1 {end} LIMIT 1")));
    }
    for end in ["ASC", "DESC"] {
        looks.push(format!(
            "SELECT expires_at FROM bursar_holds INDEXED BY bursar_holds_due
             WHERE state = 0 AND expires_at < 9223372036854775807 ORDER BY expires_at {end} LIMIT 1"
        ));
        looks.push(format!("SELECT until FROM bursar_keys INDEXED BY bursar_keys_until ORDER BY until {end} LIMIT 1"));
    }
    for (table, index, within, order) in INDEXES {
        let backwards = order.replace(", ", " DESC, ");
        looks.push(format!("SELECT {order} FROM {table} INDEXED BY {index} WHERE {within} ORDER BY {order} LIMIT 1"));
        looks.push(format!(
            "SELECT {order} FROM {table} INDEXED BY {index} WHERE {within} ORDER BY {backwards} DESC LIMIT 1"
        ));
    }
    for look in looks {
        let mut statement = conn.prepare(&look).map_err(broken)?;
        let columns = statement.column_count();
        let read = statement.query_row([], |row| (0..columns).try_for_each(|column| row.get_ref(column).map(drop)));
        read.optional().map_err(broken)?;
    }
    for end in ["min", "max"] {
        let sql = format!("SELECT {end}(position) FROM bursar_journal");
        let position: Option<i64> = conn.query_row(&sql, [], |row| row.get(0)).map_err(broken)?;
        position.map(|position| shared.rows(conn).read_batch(position)).transpose()?;
    }
    Ok(())
}
