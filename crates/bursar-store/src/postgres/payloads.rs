//! Payloads that are kept beside their rows.

use std::collections::HashMap;

use bursar_core::page::{Filling, Weighs};
use bursar_core::payload::Payload;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::codec::Carries;

/// Payloads that are kept beside their rows.
pub(super) async fn payloads(conn: &mut PgConnection, ids: &[Uuid]) -> Result<HashMap<u128, Payload>, sqlx::Error> {
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

/// The bytes of payloads that are kept beside rows.
pub(super) async fn payload_bytes(conn: &mut PgConnection, ids: &[Uuid]) -> Result<HashMap<u128, usize>, sqlx::Error> {
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

/// Cuts rows to a page, counting what is kept beside them before it is read.
pub(super) async fn cut_page<R: Weighs>(
    conn: &mut PgConnection,
    rows: &mut Vec<R>,
    limit: usize,
    beside: impl Fn(&mut R) -> Vec<u128>,
) -> Result<(), sqlx::Error> {
    let kept: Vec<Vec<u128>> = rows.iter_mut().map(beside).collect();
    let ids: Vec<Uuid> = kept.iter().flatten().copied().map(Uuid::from_u128).collect();
    let sizes = payload_bytes(conn, &ids).await?;
    let mut page = Filling::new(limit);
    let end = rows.iter().zip(&kept).position(|(row, kept)| {
        let full = page.is_full();
        page.add(row.bytes() + kept.iter().filter_map(|id| sizes.get(id)).sum::<usize>());
        full
    });
    rows.truncate(end.unwrap_or(rows.len()));
    Ok(())
}

/// Puts payloads back into rows that carry them; one that was erased is `null`.
pub(super) async fn attach<R: Carries>(
    conn: &mut PgConnection,
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
    let mut kept = payloads(conn, &wanted).await?;
    for row in rows.iter_mut().filter_map(|row| row.payload().is_elsewhere().then_some(row)) {
        *row.payload() = kept.remove(&id(row)).unwrap_or_default();
    }
    Ok(())
}
