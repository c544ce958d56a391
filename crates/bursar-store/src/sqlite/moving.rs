//! A SQLite file as a side of a move ([`crate::moving`]).
//!
//! Each operation opens connections of its own. A store cannot be used: it refuses a file that is part of a move.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, ToSql, params, params_from_iter};
use tokio::sync::mpsc::{self, Sender};

use super::connection::{open_durable, open_reader, retry_busy};
use super::error::{is_busy, store_error, store_error_at};
use super::process_lock::{BUSY_TIMEOUT, ProcessLock};
use super::{SqliteStore, schema};
use crate::error::StoreError;
use crate::moving::marks::{self, Marks, Moved, MovedFrom, Moving, Switch};
use crate::moving::pass::{CHUNK_BYTES, CHUNK_ROWS, CHUNKS_AHEAD, Changes, RowStream};
use crate::moving::tables::{Kind, Row, TABLES, Table, Value, row_bytes};
use crate::moving::{EndOfJournal, Side, SourceLock, check_run, refused};
use crate::store::{Maintain as _, Setup};
use crate::verify::Report;

/// What a row that a trigger watches can have done to it.
const WRITES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

pub(crate) struct SqliteSide {
    path: PathBuf,
    setup: Setup,
    /// The connection for writing, once it was needed.
    writer: Arc<Mutex<Option<Writer>>>,
}

struct Writer {
    conn: Connection,
    lock: ProcessLock,
}

impl SqliteSide {
    pub(crate) fn new(path: &Path, setup: Setup) -> SqliteSide {
        SqliteSide { path: path.to_owned(), setup, writer: Arc::default() }
    }

    /// Runs a function in one transaction of the connection for writing.
    async fn transaction<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (path, writer) = (self.path.clone(), self.writer.clone());
        blocking(move || {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let opened = match writer.take() {
                Some(opened) => opened,
                None => Writer { conn: open_durable(&path)?, lock: ProcessLock::beside(&path)? },
            };
            let Writer { conn, lock } = &opened;
            let turn = lock.enter()?;
            retry_busy(conn, |conn| conn.execute_batch("BEGIN IMMEDIATE")).map_err(store_error)?;
            // An error drops the connection, which rolls back.
            let value = run(conn)?;
            conn.execute_batch("COMMIT").map_err(store_error)?;
            drop(turn);
            *writer = Some(opened);
            Ok(value)
        })
        .await
    }

    /// Runs a function on a connection for reading.
    async fn query<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        blocking(move || run(&open_reader(&path, false)?)).await
    }
}

async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(run).await.map_err(|_| StoreError::Closed)?
}

#[async_trait]
impl Side for SqliteSide {
    fn place(&self) -> String {
        let path = std::fs::canonicalize(&self.path).or_else(|_| std::path::absolute(&self.path));
        format!("sqlite://{}", path.unwrap_or_else(|_| self.path.clone()).display())
    }

    async fn marks(&self) -> Result<Marks, StoreError> {
        if !self.path.exists() {
            return Ok(Marks::default());
        }
        self.query(read_marks).await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        SqliteStore::open(&self.path, Setup { migrate: true, ..self.setup.clone() }).await?.close().await;
        Ok(())
    }

    async fn has_rows(&self) -> Result<bool, StoreError> {
        self.query(has_rows).await
    }

    async fn is_archived(&self) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM bursar_journal_segments)";
        self.query(move |conn| conn.query_row(sql, [], |row| row.get(0)).map_err(store_error)).await
    }

    async fn end_of_journal(&self) -> Result<EndOfJournal, StoreError> {
        self.query(end_of_journal).await
    }

    fn read(&self, table: &'static Table, after: i64) -> RowStream {
        let (sender, stream) = mpsc::channel(CHUNKS_AHEAD);
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || {
            let sent = open_reader(&path, false).and_then(|conn| send_rows(&conn, table, after, &sender));
            if let Err(error) = sent {
                let _ = sender.blocking_send(Err(error));
            }
        });
        stream
    }

    async fn claim(&self, moving: &Moving) -> Result<(), StoreError> {
        let moving = moving.clone();
        self.transaction(move |conn| {
            if read_marks(conn)?.moving.is_none() && has_rows(conn)? {
                return Err(refused("the target was written meanwhile", "nothing was changed; name an empty database"));
            }
            set_mark(conn, marks::MOVING, &marks::mark(&moving))?;
            remove_mark(conn, marks::SCHEMA)
        })
        .await
    }

    async fn write(&self, run: &str, table: &'static Table, changes: Changes) -> Result<(), StoreError> {
        let run = run.to_owned();
        self.transaction(move |conn| {
            check_run(&read_marks(conn)?, &run)?;
            write_rows(conn, table, &changes)
        })
        .await
    }

    async fn open(&self, run: &str, from: &MovedFrom) -> Result<(), StoreError> {
        let (run, from) = (run.to_owned(), from.clone());
        self.transaction(move |conn| {
            let found = read_marks(conn)?;
            check_run(&found, &run)?;
            let version = found.moving.map_or(schema::KNOWN, |moving| moving.schema);
            set_mark(conn, marks::SCHEMA, &version.to_string())?;
            set_mark(conn, marks::MOVED_FROM, &marks::mark(&from))?;
            remove_mark(conn, marks::MOVING)
        })
        .await
    }

    async fn lock(&self) -> Result<Box<dyn SourceLock>, StoreError> {
        let path = self.path.clone();
        blocking(move || {
            check_unused(&path)?;
            let conn = open_durable(&path)?;
            retry_busy(&conn, |conn| conn.execute_batch("BEGIN IMMEDIATE")).map_err(store_error)?;
            Ok(Box::new(Locked(conn)) as Box<dyn SourceLock>)
        })
        .await
    }

    async fn switch(&self, to: &str, why: Switch) -> Result<Option<Moved>, StoreError> {
        let to = to.to_owned();
        self.transaction(move |conn| {
            let end = end_of_journal(conn)?;
            let Some(moved) = why.mark(&to, end.position()) else { return Ok(None) };
            let message = marks::refusal(&moved).replace('\'', "''");
            for (table, write) in watched() {
                let sql = format!(
                    "CREATE TRIGGER IF NOT EXISTS {} BEFORE {write} ON bursar_{table}
                     BEGIN SELECT RAISE(ABORT, '{message}'); END",
                    trigger(table, write)
                );
                conn.execute_batch(&sql).map_err(store_error)?;
            }
            set_mark(conn, marks::MOVED, &marks::mark(&moved))?;
            Ok(Some(moved))
        })
        .await
    }

    async fn switch_back(&self) -> Result<(), StoreError> {
        self.transaction(|conn| {
            for (table, write) in watched() {
                let sql = format!("DROP TRIGGER IF EXISTS {}", trigger(table, write));
                conn.execute_batch(&sql).map_err(store_error)?;
            }
            remove_mark(conn, marks::MOVED)
        })
        .await
    }

    async fn analyze(&self) -> Result<(), StoreError> {
        // SQLite reads the rows of a verification by their keys, with or without statistics.
        Ok(())
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        let store = SqliteStore::open_in_move(&self.path, self.setup.clone()).await?;
        let report = store.verify().await;
        store.close().await;
        report
    }

    async fn close(&self) {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A source on which no other connection can write, because this one has a transaction open.
struct Locked(Connection);

#[async_trait]
impl SourceLock for Locked {
    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        blocking(move || self.0.execute_batch("ROLLBACK").map_err(store_error)).await
    }
}

/// Fails if another connection has the file open, even if it is idle.
fn check_unused(path: &Path) -> Result<(), StoreError> {
    // In this mode the first access to the file needs it for this connection alone. So nothing may read it before.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| store_error_at(path, error))?;
    conn.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    match conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; ROLLBACK") {
        Ok(()) => Ok(()),
        Err(error) if is_busy(&error) => Err(refused(
            format!("the source {} is in use by another process", path.display()),
            "nothing was changed; stop every process that has it open, or pass --follow to move it while it is in use",
        )),
        Err(error) => Err(store_error_at(path, error)),
    }
}

fn has_tables(conn: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'bursar_meta')";
    conn.query_row(sql, [], |row| row.get(0)).map_err(store_error)
}

pub(super) fn read_marks(conn: &Connection) -> Result<Marks, StoreError> {
    if !has_tables(conn)? {
        return Ok(Marks::default());
    }
    let mut select = conn.prepare("SELECT key, value FROM bursar_meta").map_err(store_error)?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    let rows: Result<Vec<(String, String)>, _> = rows.collect();
    Marks::read(rows.map_err(store_error)?)
}

/// Fails if a database is a part of a move and may not be used.
pub(super) fn check_marks(conn: &Connection) -> Result<(), StoreError> {
    read_marks(conn)?.check()
}

fn set_mark(conn: &Connection, key: &str, value: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO bursar_meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    conn.execute(sql, params![key, value]).map(drop).map_err(store_error)
}

fn remove_mark(conn: &Connection, key: &str) -> Result<(), StoreError> {
    conn.execute("DELETE FROM bursar_meta WHERE key = ?1", [key]).map(drop).map_err(store_error)
}

fn has_rows(conn: &Connection) -> Result<bool, StoreError> {
    for table in TABLES {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM bursar_{})", table.name);
        if conn.query_row(&sql, [], |row| row.get(0)).map_err(store_error)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn end_of_journal(conn: &Connection) -> Result<EndOfJournal, StoreError> {
    let sql = "SELECT position, position + count FROM bursar_journal ORDER BY position DESC LIMIT 1";
    let end = |row: &rusqlite::Row<'_>| Ok(EndOfJournal { last_row: row.get(0)?, next: row.get(1)? });
    let end = conn.query_row(sql, [], end).optional().map_err(store_error)?;
    Ok(end.unwrap_or(EndOfJournal { last_row: 0, next: 1 }))
}

/// The triggers of a moved database: tables and kinds of writes.
fn watched() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.iter().flat_map(|table| WRITES.map(|write| (table.name, write)))
}

fn trigger(table: &str, write: &str) -> String {
    format!("bursar_moved_{table}_{}", write.to_lowercase())
}

/// Reads a table in one snapshot. Ends early if the receiver is gone.
fn send_rows(
    conn: &Connection,
    table: &Table,
    after: i64,
    to: &Sender<Result<Vec<Row>, StoreError>>,
) -> Result<(), StoreError> {
    let columns: Vec<&str> = table.columns.iter().map(|column| stored_name(column.name, column.kind)).collect();
    let keys: Vec<&str> = table.keys().iter().map(|column| column.name).collect();
    let mut sql = format!("SELECT {} FROM bursar_{}", columns.join(", "), table.name);
    if table.is_journal() {
        sql.push_str(" WHERE position > ?1");
    }
    sql.push_str(&format!(" ORDER BY {}", keys.join(", ")));
    let mut select = conn.prepare(&sql).map_err(store_error)?;
    let mut rows = select.query(params_from_iter(table.is_journal().then_some(after))).map_err(store_error)?;
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(store_error)? {
        let row = read_row(table, row)?;
        bytes += row_bytes(&row);
        chunk.push(row);
        if chunk.len() >= CHUNK_ROWS || bytes >= CHUNK_BYTES {
            bytes = 0;
            if to.blocking_send(Ok(std::mem::take(&mut chunk))).is_err() {
                return Ok(());
            }
        }
    }
    let _ = to.blocking_send(Ok(chunk));
    Ok(())
}

/// Returns the column that has a value.
fn stored_name(name: &'static str, kind: Kind) -> &'static str {
    if kind == Kind::JournalId { "position" } else { name }
}

fn read_row(table: &Table, row: &rusqlite::Row<'_>) -> Result<Row, StoreError> {
    let read = |(index, column): (usize, &crate::moving::tables::Column)| {
        let wrong =
            || StoreError::corrupt("row", format!("{}.{} has a value of another type", table.name, column.name));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| wrong());
        Ok(match (column.kind, row.get_ref(index).map_err(store_error)?) {
            (Kind::IdOrNull | Kind::TextOrNull, ValueRef::Null) => Value::Null,
            (Kind::Id | Kind::IdOrNull, ValueRef::Blob(bytes)) => {
                Value::Id(u128::from_be_bytes(bytes.try_into().map_err(|_| wrong())?))
            }
            (Kind::JournalId, ValueRef::Integer(position)) => Value::Id(u128::from(position.unsigned_abs())),
            (Kind::Int | Kind::Small | Kind::Int4, ValueRef::Integer(value)) => Value::Int(value),
            (Kind::Text | Kind::TextOrNull, ValueRef::Text(bytes)) => Value::Text(text(bytes)?),
            (Kind::Bytes, ValueRef::Blob(bytes)) => Value::Bytes(bytes.to_vec()),
            _ => return Err(wrong()),
        })
    };
    table.columns.iter().enumerate().map(read).collect()
}

fn write_rows(conn: &Connection, table: &Table, changes: &Changes) -> Result<(), StoreError> {
    let keys: Vec<String> =
        table.keys().iter().zip(1..).map(|(column, number)| format!("{} = ?{number}", column.name)).collect();
    let delete = format!("DELETE FROM bursar_{} WHERE {}", table.name, keys.join(" AND "));
    let mut delete = conn.prepare_cached(&delete).map_err(store_error)?;
    for key in &changes.delete {
        delete.execute(params_from_iter(key)).map_err(store_error)?;
    }
    let stored = |kind: Kind| kind != Kind::JournalId;
    let columns: Vec<&str> =
        table.columns.iter().filter(|column| stored(column.kind)).map(|column| column.name).collect();
    let values = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT INTO bursar_{} ({}) VALUES ({values})", table.name, columns.join(", "));
    let mut insert = conn.prepare_cached(&insert).map_err(store_error)?;
    for row in &changes.insert {
        let values = row.iter().zip(table.columns).filter(|(_, column)| stored(column.kind)).map(|(value, _)| value);
        insert.execute(params_from_iter(values)).map_err(store_error)?;
    }
    Ok(())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Value::Int(value) => ToSqlOutput::from(*value),
            Value::Id(id) => ToSqlOutput::Owned(rusqlite::types::Value::Blob(id.to_be_bytes().to_vec())),
            Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::sqlite::schema::migration_sql;

    #[test]
    fn every_column_is_moved() {
        let conn = Connection::open_in_memory().expect("a database");
        conn.execute_batch(&migration_sql()).expect("tables");
        let sql = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
            WHERE t.type = 'table' AND t.name NOT IN ('bursar_meta', 'bursar_journal_segments')";
        let mut select = conn.prepare(sql).expect("a statement");
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in rows {
            let (table, column): (String, String) = row.expect("a row");
            found.entry(table).or_default().insert(column);
        }
        let columns = |table: &Table| {
            let stored = table.columns.iter().map(|column| stored_name(column.name, column.kind).to_owned());
            stored.collect::<BTreeSet<_>>()
        };
        let listed = TABLES.iter().map(|table| (format!("bursar_{}", table.name), columns(table)));
        assert_eq!(listed.collect::<BTreeMap<_, _>>(), found);
    }
}
