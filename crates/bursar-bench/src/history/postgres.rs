//! Writing the history to PostgreSQL with binary `COPY`.

use bursar::HoldId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::History;
use crate::error::BenchError;
use crate::postgres::checkpoint;

/// Bytes per message.
const CHUNK_BYTES: usize = 1 << 20;
/// Journal rows per statement.
const ROWS: usize = 10_000;

pub(super) async fn stored_hold(conn: &mut PgConnection, id: HoldId) -> Result<Vec<u8>, BenchError> {
    let hold = sqlx::query_scalar("SELECT data FROM bursar.holds WHERE id = $1").bind(Uuid::from_u128(id.0));
    Ok(hold.fetch_one(conn).await?)
}

/// Writes the history. `position` is that of the last event in the journal.
pub(super) async fn fill(conn: &mut PgConnection, history: &History<'_>, position: u64) -> Result<(), BenchError> {
    let tenant = history.template.tenant.as_str().as_bytes();
    let holds = (0..history.ids.len()).map(|number| {
        let hold = history.settled(number)?;
        let mut row = Tuple::new(5);
        row.field(&hold.id.to_be_bytes()).field(tenant).field(&1_i16.to_be_bytes());
        row.field(&hold.expires_at.to_be_bytes()).field(&hold.data);
        Ok(row)
    });
    copy(conn, "COPY bursar.holds (id, tenant, state, expires_at, data) FROM STDIN (FORMAT binary)", holds).await?;
    let postings = history.postings().map(|posting| {
        let mut row = Tuple::new(6);
        row.field(tenant).field(posting.scope.as_str().as_bytes()).field(&posting.at.to_be_bytes());
        row.field(&posting.seq.to_be_bytes()).field(&posting.amount.to_be_bytes()).field(&posting.hold.to_be_bytes());
        Ok(row)
    });
    let sql = "COPY bursar.postings (tenant, scope, at, seq, amount, hold) FROM STDIN (FORMAT binary)";
    copy(conn, sql, postings).await?;
    journal(conn, history, i64::try_from(position).unwrap_or(i64::MAX)).await?;
    checkpoint(conn).await
}

/// Writes copies of the last journal row under new ids.
async fn journal(conn: &mut PgConnection, history: &History<'_>, position: i64) -> Result<(), BenchError> {
    let last = "SELECT id, count FROM bursar.journal_order ORDER BY position DESC LIMIT 1";
    let (template, count): (Uuid, i32) = sqlx::query_as(last).fetch_one(&mut *conn).await?;
    let mut first = position + 1;
    let ids: Vec<Uuid> = history.ids.iter().step_by(super::SHARED as usize).map(|id| Uuid::from_u128(*id)).collect();
    for ids in ids.chunks(ROWS) {
        sqlx::query(
            "INSERT INTO bursar.journal (id, at, count, prev, entries)
             SELECT w.id, j.at, j.count, j.prev, j.entries
             FROM unnest($1::uuid[]) AS w(id), bursar.journal j WHERE j.id = $2",
        )
        .bind(ids)
        .bind(template)
        .execute(&mut *conn)
        .await?;
        sqlx::query(
            "INSERT INTO bursar.journal_order (position, id, count)
             SELECT $2 + (w.nth - 1) * $3, w.id, $3 FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, nth)",
        )
        .bind(ids)
        .bind(first)
        .bind(count)
        .execute(&mut *conn)
        .await?;
        first += ids.len() as i64 * i64::from(count);
    }
    Ok(())
}

/// A row in the format of binary `COPY`.
struct Tuple(Vec<u8>);

impl Tuple {
    fn new(fields: i16) -> Tuple {
        Tuple(fields.to_be_bytes().to_vec())
    }

    fn field(&mut self, bytes: &[u8]) -> &mut Tuple {
        let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
}

async fn copy(
    conn: &mut PgConnection,
    sql: &str,
    rows: impl Iterator<Item = Result<Tuple, BenchError>>,
) -> Result<(), BenchError> {
    let mut sink = conn.copy_in_raw(sql).await?;
    // The signature, no flags, no header extension.
    let mut bytes = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for row in rows {
        bytes.extend_from_slice(&row?.0);
        if bytes.len() >= CHUNK_BYTES {
            sink.send(std::mem::take(&mut bytes)).await?;
        }
    }
    bytes.extend_from_slice(&(-1_i16).to_be_bytes());
    sink.send(bytes).await?;
    sink.finish().await?;
    Ok(())
}
