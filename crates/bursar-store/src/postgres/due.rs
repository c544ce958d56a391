//! Reads charges and postings that are due on scopes, sums the history of windows to open, and rolls up old postings.

use bursar_core::bounds::FOLD_STEP;
use bursar_core::id::HoldId;
use bursar_core::live::LiveCharge;
use bursar_core::scope::{Due, DueQuery, DueStep, Posting, WindowHistory};
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use uuid::Uuid;

use super::rows::{PgRows, index};
use super::scopes::key_columns;
use crate::error::StoreError;
use crate::memory::ROLL_UP_STEP;
use crate::transaction::rows::HistoryQuery;

/// Charges (kind 0) and postings (kind 1) that are due, and for each query the first that is not due yet, in one statement.
const DUE: &str = "
    SELECT 0, w.n, c.expires_at, 0::bigint, c.hold, c.placed_at, c.amount, c.on_expiry
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[]) WITH ORDINALITY AS w(tenant, scope, at, hold, n)
    CROSS JOIN LATERAL (
        (SELECT c.expires_at, c.hold, c.placed_at, c.amount, c.on_expiry FROM bursar.live_charges c
         WHERE c.tenant = w.tenant AND c.scope = w.scope
           AND (c.expires_at, c.hold) > (w.at, w.hold) AND c.expires_at <= $5
         ORDER BY c.expires_at, c.hold LIMIT $6)
        UNION ALL
        (SELECT c.expires_at, c.hold, c.placed_at, c.amount, c.on_expiry FROM bursar.live_charges c
         WHERE c.tenant = w.tenant AND c.scope = w.scope
           AND (c.expires_at, c.hold) > (w.at, w.hold) AND c.expires_at > $5
         ORDER BY c.expires_at, c.hold LIMIT 1)) c
    UNION ALL
    SELECT 1, w.n, p.at, p.seq, p.hold, p.at, p.amount, 0::bigint
    FROM unnest($7::text[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[])
        WITH ORDINALITY AS w(tenant, scope, at, seq, until, n)
    CROSS JOIN LATERAL (
        (SELECT p.at, p.seq, p.amount, p.hold FROM bursar.postings p
         WHERE p.tenant = w.tenant AND p.scope = w.scope
           AND (p.at, p.seq) > (w.at, w.seq) AND p.at <= w.until
         ORDER BY p.at, p.seq LIMIT $6)
        UNION ALL
        (SELECT p.at, p.seq, p.amount, p.hold FROM bursar.postings p
         WHERE p.tenant = w.tenant AND p.scope = w.scope
           AND (p.at, p.seq) > (w.at, w.seq) AND p.at > w.until
         ORDER BY p.at, p.seq LIMIT 1)) p
    ORDER BY 1, 2, 3, 4, 5";

/// Kind, ordinal of the query, instant, number of a posting, hold, instant of the hold, amount, units that an expiry posts.
type DueRow = (i32, i64, i64, i64, Option<Uuid>, i64, i64, i64);

impl PgRows<'_> {
    pub(super) async fn read_due(
        &mut self,
        queries: &[(ScopeKey, DueQuery)],
        now: Time,
    ) -> Result<Vec<Due>, StoreError> {
        // The queries for charges and for postings, each with the index of its scope.
        let charges: Vec<_> =
            queries.iter().enumerate().filter_map(|(n, (key, query))| Some((n, key, query.charges_after?))).collect();
        let postings: Vec<_> = queries
            .iter()
            .enumerate()
            .flat_map(|(n, (key, query))| {
                query.postings.iter().map(move |(balance, mark, until)| (n, key, *balance, *mark, *until))
            })
            .collect();
        let limit = i64::try_from(FOLD_STEP + 1).expect("a step is small");
        let rows: Vec<DueRow> = sqlx::query_as(DUE)
            .bind(charges.iter().map(|(_, key, _)| key.0.as_str()).collect::<Vec<_>>())
            .bind(charges.iter().map(|(_, key, _)| key.1.as_str()).collect::<Vec<_>>())
            .bind(charges.iter().map(|(_, _, mark)| mark.0.micros()).collect::<Vec<_>>())
            .bind(charges.iter().map(|(_, _, mark)| Uuid::from_u128(mark.1.0)).collect::<Vec<_>>())
            .bind(now.micros())
            .bind(limit)
            .bind(postings.iter().map(|(_, key, ..)| key.0.as_str()).collect::<Vec<_>>())
            .bind(postings.iter().map(|(_, key, ..)| key.1.as_str()).collect::<Vec<_>>())
            .bind(postings.iter().map(|(_, _, _, mark, _)| mark.0.micros()).collect::<Vec<_>>())
            .bind(postings.iter().map(|(_, _, _, mark, _)| seq_column(mark.1)).collect::<Vec<_>>())
            .bind(postings.iter().map(|(.., until)| until.micros()).collect::<Vec<_>>())
            .fetch_all(&mut self.conn)
            .await
            .map_err(|e| self.statement_error(e))?;

        let mut due: Vec<Due> = vec![Due::default(); queries.len()];
        let mut due_postings: Vec<DueStep<Posting>> = vec![DueStep::default(); postings.len()];
        for (kind, n, at, seq, id, placed_at, amount, on_expiry) in rows {
            let hold = id.map(|id| HoldId(id.as_u128()));
            let instant = Time::from_micros(at);
            if kind == 0 {
                let charge = LiveCharge {
                    expires_at: instant,
                    hold: hold.expect("a charge has a hold"),
                    placed_at: Time::from_micros(placed_at),
                    amount,
                    on_expiry,
                };
                add_item(&mut due[charges[index(n)].0].charges, charge, instant, now);
            } else {
                let posting = Posting { at: instant, seq: seq.unsigned_abs(), amount, hold };
                add_item(&mut due_postings[index(n)], posting, instant, postings[index(n)].4);
            }
        }
        for ((n, _, balance, ..), step) in postings.into_iter().zip(due_postings) {
            due[n].postings.push((balance, step));
        }
        Ok(due)
    }

    pub(super) async fn read_window_histories(
        &mut self,
        queries: &[HistoryQuery],
    ) -> Result<Vec<WindowHistory>, StoreError> {
        let keys: Vec<ScopeKey> = queries.iter().map(|query| query.scope.clone()).collect();
        let (tenants, scopes) = key_columns(&keys);
        let rows: Vec<(i64, Option<i64>, Option<i64>)> = sqlx::query_as(
            "SELECT p.posted, p.oldest, c.held
             FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[],
                         $6::bigint[], $7::uuid[], $8::bigint[])
                 WITH ORDINALITY AS w(tenant, scope, at, seq, until, expires_at, hold, placed_from, n)
             CROSS JOIN LATERAL (
                 SELECT coalesce(sum(p.amount), 0)::bigint AS posted, min(p.at) AS oldest FROM bursar.postings p
                 WHERE p.tenant = w.tenant AND p.scope = w.scope
                   AND (p.at, p.seq) > (w.at, w.seq) AND p.at < w.until) p
             CROSS JOIN LATERAL (
                 SELECT sum(c.amount)::bigint AS held FROM bursar.live_charges c
                 WHERE c.tenant = w.tenant AND c.scope = w.scope
                   AND (c.expires_at, c.hold) > (w.expires_at, w.hold) AND c.placed_at >= w.placed_from) c
             ORDER BY w.n",
        )
        .bind(tenants)
        .bind(scopes)
        .bind(queries.iter().map(|query| query.after.0.micros()).collect::<Vec<_>>())
        .bind(queries.iter().map(|query| seq_column(query.after.1)).collect::<Vec<_>>())
        .bind(queries.iter().map(|query| query.until.micros()).collect::<Vec<_>>())
        .bind(queries.iter().map(|query| query.unfolded.0.micros()).collect::<Vec<_>>())
        .bind(queries.iter().map(|query| Uuid::from_u128(query.unfolded.1.0)).collect::<Vec<_>>())
        .bind(queries.iter().map(|query| query.placed_from.micros()).collect::<Vec<_>>())
        .fetch_all(&mut self.conn)
        .await
        .map_err(|e| self.statement_error(e))?;
        let history = |(posted, oldest, held): (i64, Option<i64>, Option<i64>)| WindowHistory {
            posted,
            held: held.unwrap_or(0),
            oldest: oldest.map(Time::from_micros),
        };
        Ok(rows.into_iter().map(history).collect())
    }

    pub(super) async fn write_rollups(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        let keys: Vec<ScopeKey> = scopes.iter().map(|(key, _)| key.clone()).collect();
        let (tenants, names) = key_columns(&keys);
        sqlx::query(
            "WITH old AS (
                 DELETE FROM bursar.postings WHERE ctid = ANY (ARRAY(
                     SELECT p.ctid FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(tenant, scope, before)
                     CROSS JOIN LATERAL (
                         SELECT p.ctid FROM bursar.postings p
                         WHERE p.tenant = w.tenant AND p.scope = w.scope AND p.at < w.before
                         ORDER BY p.at, p.seq LIMIT $4) p
                     LIMIT $4))
                 RETURNING tenant, scope, amount)
             INSERT INTO bursar.rollups AS r (tenant, scope, amount)
             SELECT tenant, scope, sum(amount)::bigint FROM old GROUP BY tenant, scope
             ON CONFLICT (tenant, scope) DO UPDATE SET amount = r.amount + EXCLUDED.amount",
        )
        .bind(tenants)
        .bind(names)
        .bind(scopes.iter().map(|(_, before)| before.micros()).collect::<Vec<_>>())
        .bind(ROLL_UP_STEP as i64)
        .execute(&mut self.conn)
        .await
        .map(drop)
        .map_err(|e| self.statement_error(e))
    }
}

/// Adds a row to a step: it is due, or exceeds what one step folds, or is the first that is not due yet.
fn add_item<T>(step: &mut DueStep<T>, item: T, at: Time, until: Time) {
    if at > until {
        step.next = if step.more { Time::NEVER } else { at };
    } else if step.items.len() == FOLD_STEP {
        step.more = true;
    } else {
        step.items.push(item);
    }
}

/// Converts the number of a posting. The mark after all postings is larger than the column allows, and is clamped.
fn seq_column(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
