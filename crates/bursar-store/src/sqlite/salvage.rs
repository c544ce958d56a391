//! What can be saved of a damaged file: the journal, from which all else follows.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use crate::error::StoreError;
use crate::sqlite::SqliteStore;
use crate::sqlite::error::failed;
use crate::store::{Setup, Store};

/// What cannot be made anew, with its columns.
const KEPT: [(&str, &str); 2] =
    [("bursar_journal", "position, at, count, prev, entries"), ("bursar_payloads", "id, data")];

/// Makes a new database from the journal of a damaged one, which is only read; returns how many events it had. When the
/// journal cannot be read to its end, nothing is left behind.
pub async fn salvage(damaged: &Path, to: &Path, setup: Setup) -> Result<u64, StoreError> {
    if to.exists() {
        return Err(StoreError::Unavailable {
            what: format!("{} is there already", to.display()),
            hint: "move it away first",
            source: None,
        });
    }
    let made = make(damaged, to, setup).await;
    if made.is_err() {
        for end in ["", "-wal", "-shm", "-gate", "-turn"] {
            let mut name = to.as_os_str().to_owned();
            name.push(end);
            let _ = std::fs::remove_file(name);
        }
    }
    made
}

async fn make(damaged: &Path, to: &Path, setup: Setup) -> Result<u64, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let from = Connection::open_with_flags(damaged, flags).map_err(failed)?;
    let store = SqliteStore::open(to, Setup { migrate: true, ..setup }).await?;
    let copied = store.writer()?.call(move |writer| writer.transaction(|_, conn| copy(&from, conn))).await;
    let made = match copied {
        Ok(()) => store.rebuild().await,
        Err(error) => Err(error),
    };
    store.close().await;
    made
}

fn copy(from: &Connection, to: &Connection) -> Result<(), StoreError> {
    for (table, columns) in KEPT {
        let width = columns.split(", ").count();
        let places = vec!["?"; width].join(", ");
        let mut insert = to.prepare(&format!("INSERT INTO {table} ({columns}) VALUES ({places})")).map_err(failed)?;
        let mut select = from.prepare(&format!("SELECT {columns} FROM {table} ORDER BY 1")).map_err(failed)?;
        let mut rows = select.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let values = (0..width).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>();
            insert.execute(params_from_iter(values.map_err(failed)?)).map_err(failed)?;
        }
    }
    Ok(())
}
