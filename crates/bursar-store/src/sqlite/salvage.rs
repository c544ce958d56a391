//! Salvage: making a new database from the journal of a damaged one, or of one whose clock had jumped ahead.
//!
//! The journal, the list of its archived segments and the payloads are copied row by row into a new file. All other tables are rebuilt
//! from them and from the archive, so damage elsewhere in the file does not matter. The original file is only read. If the journal cannot
//! be read to its end, the new file is deleted.

use std::path::Path;

use bursar_core::event::{Batch, ClockCorrection, Links};
use bursar_core::id::BatchId;
use bursar_core::time::{Span, Time};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use crate::codec::{from_json, to_json};
use crate::error::StoreError;
use crate::segment::Segment;
use crate::sqlite::SqliteStore;
use crate::sqlite::archive;
use crate::sqlite::error::store_error;
use crate::sqlite::moving::read_marks;
use crate::store::{Archive, ArchivedRows, Maintain, Setup};

/// The tables that cannot be rebuilt, with their columns.
const COPIED: [(&str, &str); 2] =
    [("bursar_journal", "position, at, count, prev, entries"), ("bursar_payloads", "id, data")];

/// The tables of the archive, which a file of an earlier version does not have.
const ARCHIVE: [(&str, &str); 1] = [("bursar_journal_segments", archive::COLUMNS)];

/// Whether a file is a part of a move and may not be used. False if its tables cannot be read.
pub fn is_part_of_move(file: &Path) -> bool {
    open_damaged(file).is_ok_and(|conn| part_of_move(&conn).is_some())
}

fn part_of_move(conn: &Connection) -> Option<StoreError> {
    // Marks that are damaged must not keep the journal from being saved.
    read_marks(conn).ok()?.check().err()
}

/// Returns the archived segments that a damaged file lists.
pub fn archived_segments(damaged: &Path) -> Result<Vec<Segment>, StoreError> {
    let conn = open_damaged(damaged)?;
    if !has_archive(&conn)? {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT {} FROM bursar_journal_segments ORDER BY first_position", archive::COLUMNS);
    let mut select = conn.prepare(&sql).map_err(store_error)?;
    let mut rows = select.query([]).map_err(store_error)?;
    let mut segments = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        segments.push(archive::segment(row)?);
    }
    Ok(segments)
}

fn has_archive(conn: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'bursar_journal_segments')";
    conn.query_row(sql, [], |row| row.get(0)).map_err(store_error)
}

/// Makes a new database from the journal of a damaged one, which is only read, and from the rows of its archived segments. Returns how
/// many events it had. If the journal cannot be read to its end, no file is left.
pub async fn salvage(damaged: &Path, to: &Path, setup: Setup, archived: ArchivedRows) -> Result<u64, StoreError> {
    make(damaged, to, setup, None, archived).await
}

/// Makes a new database from the journal of one whose clock had jumped ahead, which is only read. Events after `now` are moved back, so
/// that the last one is at `now`, but never before an earlier event ([`ClockCorrection`]). Returns how many events the journal had, and how
/// far the last ones were moved. Archived events cannot be moved: it fails if one is after `now`. After an error no file is left.
pub async fn set_clock_back(
    ahead: &Path,
    to: &Path,
    setup: Setup,
    now: Time,
    archived: ArchivedRows,
) -> Result<(u64, Span), StoreError> {
    if let Some(late) = archived_segments(ahead)?.into_iter().find(|segment| segment.times.1 > now) {
        return Err(StoreError::Unavailable {
            what: format!("segment {} of the archived journal has events after {now}", late.name()),
            hint: "nothing was changed; archived events cannot be moved back, so wait until the clock has caught up",
            permanent: true,
            source: None,
        });
    }
    let from = open_damaged(ahead)?;
    let one = |sql: &str| from.query_row(sql, [now.micros()], |row| row.get::<_, Option<i64>>(0)).map_err(store_error);
    let before = one("SELECT max(at) FROM bursar_journal WHERE at <= ?1")?;
    let first = one("SELECT min(at) FROM bursar_journal WHERE at > ?1")?;
    let last = one("SELECT max(at) FROM bursar_journal WHERE at > ?1")?;
    let time = |micros: Option<i64>| micros.map(Time::from_micros);
    let clock =
        time(first).zip(time(last)).and_then(|(first, last)| ClockCorrection::new(time(before), first, last, now));
    let clock = clock.ok_or_else(|| StoreError::Unavailable {
        what: "the instants of the journal cannot be moved back".into(),
        hint: "nothing was changed; no event is after the clock, or the events before it leave no room",
        permanent: true,
        source: None,
    })?;
    drop(from);
    Ok((make(ahead, to, setup, Some(clock), archived).await?, clock.by()))
}

async fn make(
    from: &Path,
    to: &Path,
    setup: Setup,
    clock: Option<ClockCorrection>,
    archived: ArchivedRows,
) -> Result<u64, StoreError> {
    if to.exists() {
        return Err(StoreError::Unavailable {
            what: format!("{} already exists", to.display()),
            hint: "nothing was changed; move it away first",
            permanent: true,
            source: None,
        });
    }
    if let Some(error) = part_of_move(&open_damaged(from)?) {
        return Err(error);
    }
    let made = fill(from, to, setup, clock, archived).await;
    if made.is_err() {
        for end in ["", "-wal", "-shm", "-gate", "-turn"] {
            let mut name = to.as_os_str().to_owned();
            name.push(end);
            let _ = std::fs::remove_file(name);
        }
    }
    made
}

/// Opens a file without reading it, because it may be damaged.
fn open_damaged(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(store_error)
}

async fn fill(
    from: &Path,
    to: &Path,
    setup: Setup,
    clock: Option<ClockCorrection>,
    archived: ArchivedRows,
) -> Result<u64, StoreError> {
    let from = open_damaged(from)?;
    let store = SqliteStore::open(to, Setup { migrate: true, ..setup }).await?;
    let copied = store
        .writer()?
        .call(move |writer| {
            writer.transaction(|_, conn| {
                copy(&from, conn)?;
                clock.map_or(Ok(()), |clock| move_back(conn, &clock))
            })
        })
        .await;
    let made = match copied {
        Ok(()) => store.rebuild_from(archived).await,
        Err(error) => Err(error),
    };
    store.close().await;
    made
}

/// Moves the instants of the copied journal back.
fn move_back(conn: &Connection, clock: &ClockCorrection) -> Result<(), StoreError> {
    let mut select =
        conn.prepare("SELECT position, at, entries FROM bursar_journal ORDER BY position").map_err(store_error)?;
    let mut update =
        conn.prepare("UPDATE bursar_journal SET at = ?2, entries = ?3 WHERE position = ?1").map_err(store_error)?;
    let mut rows = select.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let position: i64 = row.get(0).map_err(store_error)?;
        let entries: String = row.get(2).map_err(store_error)?;
        let mut batch = Batch {
            id: BatchId(position as u128),
            at: Time::from_micros(row.get(1).map_err(store_error)?),
            prev: Links::default(),
            entries: from_json("journal row", &entries)?,
        };
        batch.set_back(clock);
        update.execute(params![position, batch.at.micros(), to_json(&batch.entries)]).map_err(store_error)?;
    }
    Ok(())
}

/// Copies the journal, the list of its segments and the payloads.
fn copy(from: &Connection, to: &Connection) -> Result<(), StoreError> {
    let archive = if has_archive(from)? { &ARCHIVE[..] } else { &[] };
    if let (false, Some(database)) = (archive.is_empty(), archive::database_id(from)?) {
        let insert = "INSERT INTO bursar_meta VALUES ('database', ?1)";
        to.execute(insert, [format!("{database:032x}")]).map_err(store_error)?;
    }
    for (table, columns) in COPIED.iter().chain(archive) {
        let width = columns.split(", ").count();
        let parameters = vec!["?"; width].join(", ");
        let mut insert =
            to.prepare(&format!("INSERT INTO {table} ({columns}) VALUES ({parameters})")).map_err(store_error)?;
        let mut select = from.prepare(&format!("SELECT {columns} FROM {table} ORDER BY 1")).map_err(store_error)?;
        let mut rows = select.query([]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let values = (0..width).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>();
            insert.execute(params_from_iter(values.map_err(store_error)?)).map_err(store_error)?;
        }
    }
    Ok(())
}
