//! What can be saved of a damaged file: the journal, from which all else follows.

use std::path::Path;

use bursar_core::event::{Batch, Links, SetBack};
use bursar_core::id::BatchId;
use bursar_core::time::{Span, Time};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use crate::codec::{from_json, to_json};
use crate::error::StoreError;
use crate::sqlite::SqliteStore;
use crate::sqlite::error::failed;
use crate::store::{Maintain, Setup};

/// What cannot be made anew, with its columns.
const KEPT: [(&str, &str); 2] =
    [("bursar_journal", "position, at, count, prev, entries"), ("bursar_payloads", "id, data")];

/// Makes a new database from the journal of a damaged one, which is only read; returns how many events it had. When the
/// journal cannot be read to its end, nothing is left behind.
pub async fn salvage(damaged: &Path, to: &Path, setup: Setup) -> Result<u64, StoreError> {
    anew(damaged, to, setup, None).await
}

/// Makes a new database from the journal of one whose clock had jumped ahead, which is only read, with the instants set back so that the last
/// is not after `now`; returns how many events it had and how far the last were moved. Nothing is left behind when it cannot be done.
pub async fn set_clock_back(ahead: &Path, to: &Path, setup: Setup, now: Time) -> Result<(u64, Span), StoreError> {
    let from = open(ahead)?;
    let one = |sql: &str| from.query_row(sql, [now.micros()], |row| row.get::<_, Option<i64>>(0)).map_err(failed);
    let before = one("SELECT max(at) FROM bursar_journal WHERE at <= ?1")?;
    let first = one("SELECT min(at) FROM bursar_journal WHERE at > ?1")?;
    let last = one("SELECT max(at) FROM bursar_journal WHERE at > ?1")?;
    let time = |micros: Option<i64>| micros.map(Time::from_micros);
    let clock = time(first).zip(time(last)).and_then(|(first, last)| SetBack::new(time(before), first, last, now));
    let clock = clock.ok_or_else(|| StoreError::Unavailable {
        what: "the journal cannot be set back".into(),
        hint: "none of it is after the clock, or there is no time before what is",
        source: None,
    })?;
    drop(from);
    Ok((anew(ahead, to, setup, Some(clock)).await?, clock.by()))
}

async fn anew(from: &Path, to: &Path, setup: Setup, clock: Option<SetBack>) -> Result<u64, StoreError> {
    if to.exists() {
        return Err(StoreError::Unavailable {
            what: format!("{} is there already", to.display()),
            hint: "move it away first",
            source: None,
        });
    }
    let made = make(from, to, setup, clock).await;
    if made.is_err() {
        for end in ["", "-wal", "-shm", "-gate", "-turn"] {
            let mut name = to.as_os_str().to_owned();
            name.push(end);
            let _ = std::fs::remove_file(name);
        }
    }
    made
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(failed)
}

async fn make(from: &Path, to: &Path, setup: Setup, clock: Option<SetBack>) -> Result<u64, StoreError> {
    let from = open(from)?;
    let store = SqliteStore::open(to, Setup { migrate: true, ..setup }).await?;
    let copied = store
        .writer()?
        .call(move |writer| {
            writer.transaction(|_, conn| {
                copy(&from, conn)?;
                clock.map_or(Ok(()), |clock| set_back(conn, &clock))
            })
        })
        .await;
    let made = match copied {
        Ok(()) => store.rebuild().await,
        Err(error) => Err(error),
    };
    store.close().await;
    made
}

/// Moves the instants of the rows that were copied.
fn set_back(conn: &Connection, clock: &SetBack) -> Result<(), StoreError> {
    let mut select =
        conn.prepare("SELECT position, at, entries FROM bursar_journal ORDER BY position").map_err(failed)?;
    let mut update =
        conn.prepare("UPDATE bursar_journal SET at = ?2, entries = ?3 WHERE position = ?1").map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let position: i64 = row.get(0).map_err(failed)?;
        let entries: String = row.get(2).map_err(failed)?;
        let mut batch = Batch {
            id: BatchId(position as u128),
            at: Time::from_micros(row.get(1).map_err(failed)?),
            prev: Links::default(),
            entries: from_json("journal row", &entries)?,
        };
        batch.set_back(clock);
        update.execute(params![position, batch.at.micros(), to_json(&batch.entries)]).map_err(failed)?;
    }
    Ok(())
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
