//! Large payloads, which are stored once, in `bursar.payloads`, and not in the row of their job or grant nor in the journal.
//!
//! A payload above [`PAYLOAD_INLINE_BYTES`](bursar_core::bounds::PAYLOAD_INLINE_BYTES) is *detached*: its row and the journal contain a
//! marker ([`Payload::elsewhere`]). The key is the id of the job or grant, or [`JobId::result_key`](bursar_core::id::JobId::result_key)
//! for the result of a job. A detached payload can be erased without changing the journal; it then reads as `null`.

use std::collections::HashMap;

use bursar_core::page::{PageFill, PageItem};
use bursar_core::payload::Payload;
use uuid::Uuid;

use super::conn::Conn;
use crate::codec::PayloadRow;

/// Loads detached payloads by their ids. Erased ones are missing.
pub(super) async fn load_payloads(conn: &mut Conn<'_>, ids: &[Uuid]) -> Result<HashMap<u128, Payload>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(Uuid, String)> = sqlx::query_as(
        "SELECT p.id, p.data FROM unnest($1::uuid[]) AS w(id)
         CROSS JOIN LATERAL (SELECT p.id, p.data FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p",
    )
    .bind(ids)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(id, data)| (id.as_u128(), Payload::trusted(&data))).collect())
}

/// Loads the sizes of detached payloads, in bytes.
pub(super) async fn load_payload_sizes(conn: &mut Conn<'_>, ids: &[Uuid]) -> Result<HashMap<u128, usize>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(Uuid, i32)> = sqlx::query_as(
        "SELECT p.id, octet_length(p.data) FROM unnest($1::uuid[]) AS w(id)
         CROSS JOIN LATERAL (SELECT p.id, p.data FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p",
    )
    .bind(ids)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(id, bytes)| (id.as_u128(), bytes.unsigned_abs() as usize)).collect())
}

/// Truncates rows to one page. Counts the sizes of their detached payloads, before these are loaded.
pub(super) async fn cut_page<R: PageItem>(
    conn: &mut Conn<'_>,
    rows: &mut Vec<R>,
    limit: usize,
    detached: impl Fn(&mut R) -> Vec<u128>,
) -> Result<(), sqlx::Error> {
    let detached: Vec<Vec<u128>> = rows.iter_mut().map(detached).collect();
    let ids: Vec<Uuid> = detached.iter().flatten().copied().map(Uuid::from_u128).collect();
    let sizes = load_payload_sizes(conn, &ids).await?;
    let mut page = PageFill::new(limit);
    let end = rows.iter().zip(&detached).position(|(row, detached)| {
        let full = page.is_full();
        page.add(row.bytes() + detached.iter().filter_map(|id| sizes.get(id)).sum::<usize>());
        full
    });
    rows.truncate(end.unwrap_or(rows.len()));
    Ok(())
}

/// Loads the detached payloads of rows into them. An erased payload becomes `null`.
pub(super) async fn attach_payloads<R: PayloadRow>(
    conn: &mut Conn<'_>,
    rows: &mut [R],
    id: impl Fn(&R) -> u128,
) -> Result<(), sqlx::Error> {
    let mut wanted = Vec::new();
    for row in rows.iter_mut() {
        if row.payload().is_elsewhere() {
            wanted.push(Uuid::from_u128(id(row)));
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut loaded = load_payloads(conn, &wanted).await?;
    for row in rows.iter_mut().filter_map(|row| row.payload().is_elsewhere().then_some(row)) {
        *row.payload() = loaded.remove(&id(row)).unwrap_or_default();
    }
    Ok(())
}
