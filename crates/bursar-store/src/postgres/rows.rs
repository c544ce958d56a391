//! One transaction on PostgreSQL: what is loaded, and how it is locked.

use std::collections::HashSet;
use std::sync::Arc;

use bursar_core::bounds::CLAIM_BYTES_MAX;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::name::FlowKey;
use bursar_core::needs::Needs;
use bursar_core::request::Fingerprint;
use bursar_core::scope::{Due, DueAsk, Past, ScopeState};
use bursar_core::state::{JobKey, KeyKey, KeyRow, LineKey, QueueKey, ScheduleKey, ScopeKey, Workspace};
use bursar_core::time::Time;
use serde::de::DeserializeOwned;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use super::error::{Trouble, store_error, trouble};
use super::payloads::attach;
use super::places::{Places, writer_of};
use super::wire::{Place, Stamp};
use super::{PostgresStore, scopes};
use crate::codec::{Packed, from_json};
use crate::error::StoreError;
use crate::rows::{ClaimAsk, Claimed, Found, PastAsk, Rows};
use crate::store::Lock;
use crate::swift::seen_in_parts;
use crate::turn::Turn;

/// How rows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// Locked, where nobody else has them locked.
    Skip,
    /// Locked, after waiting for them.
    Wait,
    /// Only looked at, by one who writes them if they still are as they were then.
    See,
    /// Only looked at.
    Look,
    /// Only looked at, by one who keeps everybody else out and writes.
    Alone,
}

/// A transaction on a connection.
pub(super) struct PgRows<'c> {
    pub(super) conn: &'c mut PgConnection,
    pub(super) store: &'c PostgresStore,
    pub(super) taking: Taking,
    /// How far it has come in the one order of locks, where it must not wait for what comes before that.
    pub(super) turn: Option<Turn>,
    /// What stood in the way, for whoever decides whether to try again.
    pub(super) trouble: Option<Trouble>,
    /// The database's clock, read after the rows were locked that were taken last.
    pub(super) clock: Option<Time>,
    /// Grants are locked too, and not only looked at.
    pub(super) locks_grants: bool,
    /// Where the rows lie that were taken.
    pub(super) places: Places,
    /// What was taken before it was asked for.
    pub(super) ahead: Ahead,
    /// Scopes were looked at …
    pub(super) sees_scopes: bool,
    /// … and more of them were asked for, which were not seen with them.
    pub(super) seen_in_parts: bool,
}

/// Grants and scopes that were taken together, until somebody asks for them.
#[derive(Default)]
pub(super) struct Ahead {
    grants: Option<Vec<Grant>>,
    pub(super) scopes: Option<Found<ScopeKey, ScopeState>>,
}

/// A statement in its ways of taking rows.
macro_rules! taking {
    ($taking:expr, $sql:ident) => {
        match $taking {
            Taking::Skip => $sql!(" FOR UPDATE SKIP LOCKED"),
            Taking::Wait => $sql!(" FOR UPDATE"),
            // Keeps the planner from making a join of it that reads the whole table.
            Taking::See | Taking::Look | Taking::Alone => $sql!(" OFFSET 0"),
        }
    };
}
pub(super) use taking;

// A row that was waited for, or that somebody wrote after the statement had begun, is read again by the server once it is
// locked: so each row is as it is now. The clock beside a row is later than all locks taken before it.

macro_rules! holds {
    ($lock:literal) => {
        concat!(
            "SELECT w.n, h.ctid, clock_timestamp(), h.data FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, n)
             CROSS JOIN LATERAL (SELECT h.ctid, h.data FROM bursar.holds h WHERE h.id = w.id",
            $lock,
            ") h"
        )
    };
}

macro_rules! grants {
    ($lock:literal) => {
        grants!($lock, "$1")
    };
    ($lock:literal, $ids:literal) => {
        concat!(
            "SELECT -w.n, g.ctid, clock_timestamp(), g.data, NULL, g.xmin FROM unnest(",
            $ids,
            "::uuid[]) WITH ORDINALITY AS w(id, n)
             CROSS JOIN LATERAL (SELECT g.ctid, g.data, g.xmin FROM bursar.grants g WHERE g.id = w.id",
            $lock,
            ") g"
        )
    };
}

// A grant that is open is redeemed once, and hardly ever by two at a time. So it is only looked at, and written if it still is
// as it was seen: that takes the server a third of the time of locking it.
macro_rules! grants_seen {
    ($ids:literal, $free:literal) => {
        concat!(
            "SELECT -1::bigint, g.ctid, clock_timestamp(), g.data, NULL, g.xmin
             FROM bursar.grants g WHERE g.id = ANY (",
            $ids,
            "::uuid[])",
            $free
        )
    };
}

/// Where nobody else has it in hand.
macro_rules! grants_free {
    ($ids:literal) => {
        grants_seen!($ids, " AND g.xmax = 0")
    };
}

macro_rules! scopes_by_name {
    ($lock:literal) => {
        concat!(
            "SELECT w.n, s.ctid, clock_timestamp(), s.state, s.budget, s.xmin
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, scope, n)
             CROSS JOIN LATERAL (
                 SELECT s.ctid, s.state, s.budget, s.xmin FROM bursar.scopes s
                 WHERE s.tenant = w.tenant AND s.scope = w.scope",
            $lock,
            ") s"
        )
    };
}
pub(super) use scopes_by_name;

/// Grants first, numbered downwards, then scopes: the parts are run one after the other.
macro_rules! together {
    ($lock:literal) => {
        concat!(grants!($lock, "$3"), " UNION ALL ", scopes_by_name!($lock))
    };
}

const SEEN: &str = grants_seen!("$1", "");
const FREE: &str = grants_free!("$1");
/// The same with grants that are only looked at.
const SEEN_TOGETHER: &str = concat!(grants_seen!("$3", ""), " UNION ALL ", scopes_by_name!(" OFFSET 0"));
const FREE_TOGETHER: &str = concat!(grants_free!("$3"), " UNION ALL ", scopes_by_name!(" FOR UPDATE SKIP LOCKED"));

impl<'c> PgRows<'c> {
    pub(super) fn new(conn: &'c mut PgConnection, store: &'c PostgresStore, taking: Taking) -> PgRows<'c> {
        let (places, ahead) = (Places::default(), Ahead::default());
        PgRows {
            conn,
            store,
            taking,
            turn: None,
            trouble: None,
            clock: None,
            locks_grants: false,
            places,
            ahead,
            sees_scopes: false,
            seen_in_parts: false,
        }
    }

    /// How rows are taken, which are in order: perhaps some are passed over where they are locked, and others waited for.
    pub(super) fn ways<'k, K, L: Fn(&K) -> Lock>(
        &mut self,
        keys: &'k [K],
        lock: L,
    ) -> impl Iterator<Item = (Taking, &'k [K])> + use<'k, K, L> {
        let early = self.turn.as_ref().map_or(0, |turn| keys.partition_point(|key| !turn.may_wait(&lock(key))));
        if let (Some(turn), Some(last)) = (&mut self.turn, keys.last()) {
            turn.reach(lock(last));
        }
        let (early, rest) = keys.split_at(early);
        [(Taking::Skip, early), (self.taking, rest)].into_iter().filter(|(_, keys)| !keys.is_empty())
    }

    /// Whether rows may have been passed over that somebody else has locked.
    pub(super) fn passes_over(&self) -> bool {
        self.taking == Taking::Skip || self.turn.is_some()
    }

    /// Whether the rows are locked that are taken.
    pub(super) fn locks(&self) -> bool {
        matches!(self.taking, Taking::Skip | Taking::Wait)
    }

    /// Notes what stood in the way.
    pub(super) fn failed(&mut self, error: sqlx::Error) -> StoreError {
        self.trouble = trouble(&error);
        store_error(error)
    }

    /// Who only looks sees all scopes at once, or none.
    pub(super) fn may_look_at_scopes(&mut self) -> Result<(), StoreError> {
        self.seen_in_parts = self.taking == Taking::See && self.sees_scopes;
        self.sees_scopes = true;
        if self.seen_in_parts { Err(seen_in_parts()) } else { Ok(()) }
    }

    /// Runs a statement that takes rows; they are in the order they were asked for.
    pub(super) async fn fetch(
        &mut self,
        statement: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, StoreError> {
        statement.fetch_all(&mut *self.conn).await.map_err(|e| self.failed(e))
    }

    /// Reads the columns that every statement has which takes rows: the number, the place, the clock and the data.
    pub(super) fn taken<'r>(&mut self, row: &'r PgRow) -> Result<(i64, Place, &'r [u8]), StoreError> {
        let mut read = || -> Result<_, sqlx::Error> {
            let Stamp(clock) = row.try_get_unchecked(2)?;
            self.clock = self.clock.max(Some(clock));
            Ok((row.try_get_unchecked(0)?, row.try_get_unchecked(1)?, row.try_get_unchecked(3)?))
        };
        read().map_err(store_error)
    }

    /// Takes rows by their ids, and says where they lie.
    async fn take<V: Packed + DeserializeOwned>(
        &mut self,
        taking: &'static str,
        ids: &[Uuid],
    ) -> Result<Vec<(u128, Place, V)>, StoreError> {
        let rows = self.fetch(sqlx::query(taking).bind(ids)).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let (n, lies, data) = self.taken(row)?;
            found.push((ids[place(n)].as_u128(), lies, V::unpack(data)?));
        }
        Ok(found)
    }

    /// Which of the rows that were not found somebody else has locked. Asked only when some are missing: to join both
    /// answers in one statement takes the server time that grows with the square of their number.
    async fn locked(&mut self, there: &'static str, missing: Vec<Uuid>) -> Result<Vec<u128>, StoreError> {
        // Who waited for a row that is not there has seen it go.
        if missing.is_empty() || !self.passes_over() {
            return Ok(Vec::new());
        }
        let locked = sqlx::query_scalar::<_, Uuid>(there).bind(missing).fetch_all(&mut *self.conn).await;
        Ok(locked.map_err(|e| self.failed(e))?.into_iter().map(|id| id.as_u128()).collect())
    }

    /// A grant from the columns of a statement that takes it, and where it lies.
    fn granted(&mut self, row: &PgRow, data: &[u8], lies: Place) -> Result<Grant, StoreError> {
        let grant = Grant::unpack(data)?;
        if self.notes_places() {
            let writer = writer_of(row)?;
            self.places.grants.entry(grant.id.0).or_insert((lies, writer));
        }
        Ok(grant)
    }

    /// Takes grants: where rows that are locked are passed over, only those are locked that somebody else has in hand, or had
    /// before.
    async fn take_grants(&mut self, ids: &[Uuid]) -> Result<Vec<Grant>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        if self.sees_grants() {
            self.take_grants_by(if self.taking == Taking::See { SEEN } else { FREE }, ids, &mut found).await?;
            self.take_unseen(ids, &mut found).await?;
            return Ok(found);
        }
        for (way, ids) in self.ways(ids, |id| Lock::Grant(GrantId(id.as_u128()))) {
            self.take_grants_by(taking!(way, grants), ids, &mut found).await?;
        }
        Ok(found)
    }

    async fn take_grants_by(
        &mut self,
        sql: &'static str,
        ids: &[Uuid],
        found: &mut Vec<Grant>,
    ) -> Result<(), StoreError> {
        for row in &self.fetch(sqlx::query(sql).bind(ids)).await? {
            let (_, lies, data) = self.taken(row)?;
            found.push(self.granted(row, data, lies)?);
        }
        Ok(())
    }

    /// Locks those that were not seen because somebody has them in hand, or had.
    async fn take_unseen(&mut self, ids: &[Uuid], found: &mut Vec<Grant>) -> Result<(), StoreError> {
        let unseen = missing(ids, found.iter().map(|grant| grant.id.0));
        if unseen.is_empty() || self.taking == Taking::See {
            return Ok(());
        }
        self.take_grants_by(grants!(" FOR UPDATE SKIP LOCKED"), &unseen, found).await
    }

    /// Whether grants are looked at without being locked: where all can be decided anew if one of them is changed meanwhile.
    fn sees_grants(&self) -> bool {
        matches!(self.taking, Taking::Skip | Taking::See) && self.turn.is_none() && !self.locks_grants
    }

    /// Takes grants and, after them, scopes in one trip.
    async fn take_together(&mut self, grants: &[Uuid], scopes: &[ScopeKey]) -> Result<(), StoreError> {
        self.may_look_at_scopes()?;
        let sql = match self.taking {
            Taking::See if self.sees_grants() => SEEN_TOGETHER,
            Taking::Skip if self.sees_grants() => FREE_TOGETHER,
            taking => taking!(taking, together),
        };
        let (tenants, names) = scopes::columns(scopes);
        let rows = self.fetch(sqlx::query(sql).bind(tenants).bind(names).bind(grants)).await?;
        let mut redeemable = Vec::with_capacity(grants.len());
        let mut found = Found::all(Vec::with_capacity(scopes.len()));
        for row in &rows {
            let (n, lies, data) = self.taken(row)?;
            if n < 0 {
                redeemable.push(self.granted(row, data, lies)?);
            } else {
                let key = &scopes[place(n)];
                found.rows.push((key.clone(), self.scope_of(row, data)?));
                self.note_scope(key, lies, row)?;
            }
        }
        if self.sees_grants() {
            self.take_unseen(grants, &mut redeemable).await?;
        }
        self.see_blocked(&mut found, scopes).await?;
        self.ahead = Ahead { grants: Some(redeemable), scopes: Some(found) };
        Ok(())
    }
}

/// The rows that were not found.
fn missing(ids: &[Uuid], found: impl ExactSizeIterator<Item = u128>) -> Vec<Uuid> {
    if found.len() == ids.len() {
        return Vec::new();
    }
    let found: HashSet<u128> = found.collect();
    ids.iter().filter(|id| !found.contains(&id.as_u128())).copied().collect()
}

pub(super) fn uuids<T: Copy>(ids: &[T], number: impl Fn(T) -> u128) -> Vec<Uuid> {
    ids.iter().map(|id| Uuid::from_u128(number(*id))).collect()
}

impl Rows for PgRows<'_> {
    async fn keys(&mut self, keys: &[KeyKey]) -> Result<Vec<(KeyKey, KeyRow)>, StoreError> {
        let tenants: Vec<&str> = keys.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let names: Vec<&str> = keys.iter().map(|(_, key)| key.as_str()).collect();
        let rows: Vec<(i64, Uuid, Uuid, Uuid, i64)> = sqlx::query_as(
            "SELECT w.n, k.fingerprint, k.batch, k.command, k.until
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, key, n)
             CROSS JOIN LATERAL (
                 SELECT k.* FROM bursar.keys k WHERE k.tenant = w.tenant AND k.key = w.key OFFSET 0) k",
        )
        .bind(tenants)
        .bind(names)
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        let row = |(n, fingerprint, batch, command, until): (i64, Uuid, Uuid, Uuid, i64)| {
            let row = KeyRow {
                fingerprint: Fingerprint(fingerprint.as_u128()),
                batch: BatchId(batch.as_u128()),
                command: CommandId(command.as_u128()),
                until: Time::from_micros(until),
            };
            (keys[place(n)].clone(), row)
        };
        Ok(rows.into_iter().map(row).collect())
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let mut ids = uuids(wanted, |(batch, _)| batch.0);
        ids.sort_unstable();
        ids.dedup();
        let rows: Vec<(Uuid, String)> = sqlx::query_as(
            "SELECT j.id, j.entries FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT j.id, j.entries FROM bursar.journal j WHERE j.id = w.id OFFSET 0) j",
        )
        .bind(ids)
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        let mut found = Vec::with_capacity(wanted.len());
        for (id, entries) in rows {
            let entries: Vec<Arc<Entry>> = from_json("journal row", &entries)?;
            let asked = |entry: &Arc<Entry>| wanted.contains(&(BatchId(id.as_u128()), entry.id));
            found.extend(entries.into_iter().filter(asked));
        }
        Ok(found)
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        let tenants: Vec<&str> = keys.iter().map(|(tenant, _, _)| tenant.as_str()).collect();
        let queues: Vec<&str> = keys.iter().map(|(_, queue, _)| queue.as_str()).collect();
        let names: Vec<&str> = keys.iter().map(|(_, _, key)| key.as_str()).collect();
        let rows: Vec<(i64, Uuid)> = sqlx::query_as(
            "SELECT w.n, k.job
             FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w(tenant, queue, key, n)
             CROSS JOIN LATERAL (
                 SELECT k.job FROM bursar.job_keys k
                 WHERE k.tenant = w.tenant AND k.queue = w.queue AND k.key = w.key OFFSET 0) k",
        )
        .bind(tenants)
        .bind(queues)
        .bind(names)
        .fetch_all(&mut *self.conn)
        .await
        .map_err(|e| self.failed(e))?;
        Ok(rows.into_iter().map(|(n, job)| (keys[place(n)].clone(), JobId(job.as_u128()))).collect())
    }

    async fn jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError> {
        self.take_jobs(ids, locked).await
    }

    async fn queues(&mut self, keys: &[QueueKey], locked: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        self.take_queues(keys, locked).await
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        self.take_schedules(keys).await
    }

    async fn claim(&mut self, asks: &[ClaimAsk], now: Time) -> Result<Vec<Claimed>, StoreError> {
        let mut claimed = Vec::with_capacity(asks.len());
        let mut room = CLAIM_BYTES_MAX;
        for ask in asks {
            claimed.push(self.claim_one(ask, now, &mut room).await?);
        }
        Ok(claimed)
    }

    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        self.stand_behind(lines).await
    }

    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        self.are_barred(keys).await
    }

    async fn foresee(&mut self, needs: &Needs) -> Result<(), StoreError> {
        self.locks_grants = !needs.grants_relied_on.is_empty();
        // Holds name scopes that are not known before, and all scopes are to be taken in one sorted sweep. Where the turn
        // is to be kept, each kind of row is taken by itself.
        if !self.notes_places()
            || self.turn.is_some()
            || !needs.holds.is_empty()
            || needs.grants.is_empty()
            || needs.scopes.is_empty()
        {
            return Ok(());
        }
        let scopes = needs.scopes.iter().map(|(key, need)| (key.clone(), need.create)).collect();
        let wanted: Vec<ScopeKey> = self.widened(scopes).await?.into_keys().collect();
        let grants: Vec<Uuid> = needs.grants.iter().map(|id| Uuid::from_u128(id.0)).collect();
        self.take_together(&grants, &wanted).await
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        let there = "SELECT h.id FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT h.id FROM bursar.holds h WHERE h.id = w.id OFFSET 0) h";
        let ids = uuids(ids, |id| id.0);
        let mut found = Vec::with_capacity(ids.len());
        for (way, ids) in self.ways(&ids, |id| Lock::Hold(HoldId(id.as_u128()))) {
            for (id, place, hold) in self.take::<Hold>(taking!(way, holds), ids).await? {
                if self.notes_places() {
                    self.places.holds.insert(id, place);
                }
                found.push((id, hold));
            }
        }
        let blocked = self.locked(there, missing(&ids, found.iter().map(|(id, _)| *id))).await?;
        Ok(Found {
            rows: found.into_iter().map(|(id, hold)| (HoldId(id), hold)).collect(),
            blocked: blocked.into_iter().map(HoldId).collect(),
        })
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        let there = "SELECT g.id FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT g.id FROM bursar.grants g WHERE g.id = w.id OFFSET 0) g";
        let ids = uuids(ids, |id| id.0);
        let mut grants = match self.ahead.grants.take() {
            Some(found) => found,
            None => self.take_grants(&ids).await?,
        };
        let blocked = self.locked(there, missing(&ids, grants.iter().map(|grant| grant.id.0))).await?;
        attach(self.conn, &mut grants, |grant| grant.id.0).await.map_err(|e| self.failed(e))?;
        Ok(Found {
            rows: grants.into_iter().map(|grant| (grant.id, grant)).collect(),
            blocked: blocked.into_iter().map(GrantId).collect(),
        })
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        self.take_scopes(keys).await
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        if let Some(clock) = &self.store.setup.clock {
            return Ok(clock.now());
        }
        match self.clock {
            Some(clock) => Ok(clock),
            None => scopes::clock(&mut *self.conn).await.map_err(|e| self.failed(e)),
        }
    }

    async fn due(&mut self, asks: &[(ScopeKey, DueAsk)], now: Time) -> Result<Vec<Due>, StoreError> {
        self.read_due(asks, now).await
    }

    async fn past(&mut self, asks: &[PastAsk]) -> Result<Vec<Past>, StoreError> {
        self.read_past(asks).await
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        self.write_rollups(scopes).await
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        self.write(ws, batch).await
    }
}

/// Ordinality counts from one.
pub(super) fn place(n: i64) -> usize {
    usize::try_from(n - 1).expect("ordinality counts from one")
}
