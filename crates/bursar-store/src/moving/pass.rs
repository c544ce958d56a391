//! One pass over a table: makes the rows of the target equal to those of the source.
//!
//! Both sides are read in the order of the key and compared row by row, so a pass copies a table into an empty target, brings a target
//! up to date, and goes on after an interruption, all in the same way. It writes only what differs, in small transactions.

use std::cmp::Ordering;

use bursar_core::mutant::Mutant;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::tables::{Row, Table, row_bytes};
use crate::error::StoreError;

/// The rows of a table in the order of its key, in chunks.
pub(crate) type RowStream = mpsc::Receiver<Result<Vec<Row>, StoreError>>;

/// The most rows of a chunk.
pub(crate) const CHUNK_ROWS: usize = 1_000;
/// The bytes after which a chunk ends.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// The chunks that are read ahead.
pub(crate) const CHUNKS_AHEAD: usize = 2;

/// The most rows that one transaction on the target changes.
const WRITE_ROWS: usize = 5_000;
/// The bytes after which a transaction on the target ends.
const WRITE_BYTES: usize = 4 << 20;

/// What one transaction on the target changes: first the deletions, then the insertions. A changed row is in both.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The keys of rows.
    pub(crate) delete: Vec<Row>,
    pub(crate) insert: Vec<Row>,
    bytes: usize,
}

impl Changes {
    fn insert(&mut self, row: Row) {
        self.bytes += row_bytes(&row);
        self.insert.push(row);
    }

    fn delete(&mut self, row: &Row, key: usize) {
        self.delete.push(row[..key].to_vec());
    }

    fn is_full(&self) -> bool {
        self.delete.len() + self.insert.len() >= WRITE_ROWS || self.bytes >= WRITE_BYTES
    }

    fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.insert.is_empty()
    }
}

/// The rows that a pass has read from the source, and those it has written or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) rows: u64,
    pub(crate) changed: u64,
}

/// Makes the rows of the target equal to those of the source. `write` applies changes to the target in one transaction, `progress` gets
/// the rows read so far.
pub(crate) async fn pass<'a>(
    table: &Table,
    source: RowStream,
    target: RowStream,
    mut write: impl FnMut(Changes) -> BoxFuture<'a, Result<(), StoreError>>,
    mut progress: impl FnMut(u64),
) -> Result<Passed, StoreError> {
    let (mut source, mut target) = (Cursor::new(source), Cursor::new(target));
    let (mut passed, mut changes) = (Passed::default(), Changes::default());
    loop {
        let order = match (source.peek().await?, target.peek().await?) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(row), Some(old)) => row[..table.key].cmp(&old[..table.key]),
        };
        let row = if order.is_le() { source.take() } else { None };
        let old = if order.is_ge() { target.take() } else { None };
        passed.rows += u64::from(row.is_some());
        let is_kept = match (&row, &old) {
            (None, Some(_)) => Mutant::KeepMovedRow.on(),
            (Some(_), Some(_)) => Mutant::KeepStaleRow.on(),
            _ => false,
        };
        if row != old && !is_kept {
            passed.changed += 1;
            old.iter().for_each(|old| changes.delete(old, table.key));
            row.into_iter().for_each(|row| changes.insert(row));
        }
        if changes.is_full() {
            write(std::mem::take(&mut changes)).await?;
            progress(passed.rows);
        }
    }
    if !changes.is_empty() {
        write(changes).await?;
    }
    Ok(passed)
}

/// A stream of rows, of which the next one can be looked at.
pub(crate) struct Cursor {
    stream: RowStream,
    chunk: std::vec::IntoIter<Row>,
}

impl Cursor {
    pub(crate) fn new(stream: RowStream) -> Cursor {
        Cursor { stream, chunk: Vec::new().into_iter() }
    }

    /// Returns the next row; `None` at the end.
    async fn peek(&mut self) -> Result<Option<&Row>, StoreError> {
        while self.chunk.as_slice().is_empty() {
            match self.stream.recv().await {
                Some(chunk) => self.chunk = chunk?.into_iter(),
                None => return Ok(None),
            }
        }
        Ok(self.chunk.as_slice().first())
    }

    fn take(&mut self) -> Option<Row> {
        self.chunk.next()
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Row>, StoreError> {
        self.peek().await?;
        Ok(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moving::tables::{TABLES, Value};

    fn stream(rows: &[(u128, &str)]) -> RowStream {
        let (sender, stream) = mpsc::channel(rows.len() + 1);
        for (id, text) in rows {
            sender.try_send(Ok(vec![vec![Value::Id(*id), Value::Text((*text).to_owned())]])).expect("there is room");
        }
        stream
    }

    #[tokio::test]
    async fn a_pass_writes_what_differs() {
        let payloads = TABLES.iter().find(|table| table.name == "payloads").expect("it is listed");
        let source = stream(&[(1, "same"), (2, "new"), (4, "changed"), (5, "last")]);
        let target = stream(&[(1, "same"), (3, "gone"), (4, "old"), (9, "gone")]);
        let mut written = Vec::new();
        let write = |changes: Changes| -> BoxFuture<'_, Result<(), StoreError>> {
            written.push(changes);
            Box::pin(async { Ok(()) })
        };
        let passed = pass(payloads, source, target, write, |_| ()).await.expect("it works");
        assert_eq!(passed, Passed { rows: 4, changed: 5 });
        let [Changes { delete, insert, .. }] = written.as_slice() else { panic!("{written:?}") };
        let ids = |rows: &[Row]| rows.iter().filter_map(|row| row[0].id()).collect::<Vec<_>>();
        assert_eq!((ids(delete), ids(insert)), (vec![3, 4, 9], vec![2, 4, 5]));
    }
}
