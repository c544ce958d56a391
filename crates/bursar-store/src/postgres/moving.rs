//! A PostgreSQL database as a side of a move ([`crate::moving`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::id::BatchId;
use futures_util::TryStreamExt;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgHasArrayType, PgRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, Postgres, Row as _, Type};
use tokio::sync::mpsc::{self, Sender};
use uuid::Uuid;

use super::conn::Conn;
use super::connection_watch::Tx;
use super::error::{commit_error, store_error};
use super::wall::Reach;
use super::{PostgresOptions, PostgresStore, READ_COMMITTED, REBUILD_LOCK, SCHEMA_VERSION, migrate};
use crate::error::StoreError;
use crate::moving::links::LinkedValues;
use crate::moving::marks::{self, Marks, Moved, MovedFrom, Moving, Switch};
use crate::moving::pass::{CHUNK_BYTES, CHUNK_ROWS, CHUNKS_AHEAD, Changes, RowStream};
use crate::moving::tables::{Column, Kind, Row, TABLES, Table, Value, row_bytes};
use crate::moving::{EndOfJournal, Side, SourceLock, check_run, refused};
use crate::store::{Archive as _, Maintain as _, Setup};
use crate::verify::Report;

/// How long to wait for running writers to end.
const WRITERS_TIMEOUT_MS: i64 = 10_000;

/// How often, and after which pauses, to look again for sessions that may write.
const SESSION_CHECKS: u32 = 10;
const SESSION_PAUSE: Duration = Duration::from_millis(200);

/// The name by which the server knows the connections of a move.
const APPLICATION: &str = "bursar-move";

/// Settings of a transaction that reads whole tables in the order of their keys, or finds rows by them: no plan sorts or scans.
const BY_KEY: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off;
    SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off;
    SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL statement_timeout = 0";

pub(crate) struct PostgresSide {
    store: Arc<PostgresStore>,
    /// Whether rows are read with positions in place of ids of journal rows, because the target is a SQLite file.
    positions: bool,
}

impl PostgresSide {
    pub(crate) async fn connect(url: &str, setup: Setup, positions: bool) -> Result<PostgresSide, StoreError> {
        let separator = if url.contains('?') { '&' } else { '?' };
        // Row-level security may apply to the owner, and a move reads and writes the rows of all tenants.
        let url = format!("{url}{separator}application_name={APPLICATION}&options[bursar.every_tenant]=on");
        let setup = Setup { migrate: true, ..setup };
        let store = PostgresStore::connect(&url, setup, PostgresOptions::default()).await?;
        Ok(PostgresSide { store: Arc::new(store), positions })
    }

    /// Counts the sessions that may write. Those of other users may be those of monitoring; those of this user run Bursar, or an
    /// application that embeds it.
    async fn other_sessions(&self) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND application_name NOT IN ($1, 'psql')
              AND (usename = current_user OR has_table_privilege(usesysid, 'bursar.scopes', 'UPDATE')
                   AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = usesysid))";
        let count = sqlx::query_scalar(sql).bind(APPLICATION);
        count.fetch_one(self.store.acquire().await?.conn()).await.map_err(store_error)
    }

    async fn begin(&self) -> Result<Tx, StoreError> {
        let mut tx = self.store.begin(READ_COMMITTED, Reach::All).await?.unbounded();
        execute(&mut tx.conn(), BY_KEY).await?;
        Ok(tx)
    }
}

#[async_trait]
impl Side for PostgresSide {
    fn place(&self) -> String {
        self.store.address.clone()
    }

    async fn marks(&self) -> Result<Marks, StoreError> {
        read_marks(&mut self.store.acquire().await?.conn()).await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        migrate::prepare(&self.store).await
    }

    async fn has_rows(&self) -> Result<bool, StoreError> {
        has_rows(&mut self.store.acquire().await?.conn()).await
    }

    async fn is_archived(&self) -> Result<bool, StoreError> {
        Ok(self.store.last_segment().await?.is_some())
    }

    async fn end_of_journal(&self) -> Result<EndOfJournal, StoreError> {
        let mut conn = self.store.acquire().await?;
        self.store.assign_positions(&mut conn.conn()).await?;
        end_of_journal(&mut conn.conn()).await
    }

    fn read(&self, table: &'static Table, after: i64) -> RowStream {
        let (sender, stream) = mpsc::channel(CHUNKS_AHEAD);
        let (store, positions) = (self.store.clone(), self.positions);
        tokio::spawn(async move {
            if let Err(error) = send_rows(&store, table, after, positions, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        stream
    }

    async fn claim(&self, moving: &Moving) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let claimed = lock_marks(&mut tx.conn()).await?.moving.is_some();
        if !claimed && has_rows(&mut tx.conn()).await? {
            return Err(refused("the target was written meanwhile", "nothing was changed; name an empty database"));
        }
        set_mark(&mut tx.conn(), marks::MOVING, &marks::mark(moving)).await?;
        remove_mark(&mut tx.conn(), marks::SCHEMA).await?;
        tx.commit().await.map_err(commit_error)
    }

    async fn write(&self, run: &str, table: &'static Table, changes: Changes) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        check_run(&lock_marks(&mut tx.conn()).await?, run)?;
        delete_rows(&mut tx.conn(), table, &changes.delete).await?;
        insert_rows(&mut tx.conn(), table, &changes.insert).await?;
        tx.commit().await.map_err(commit_error)
    }

    async fn open(&self, run: &str, from: &MovedFrom) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let found = lock_marks(&mut tx.conn()).await?;
        check_run(&found, run)?;
        let version = found.moving.map_or(SCHEMA_VERSION, |moving| moving.schema);
        set_mark(&mut tx.conn(), marks::SCHEMA, &version.to_string()).await?;
        set_mark(&mut tx.conn(), marks::MOVED_FROM, &marks::mark(from)).await?;
        remove_mark(&mut tx.conn(), marks::MOVING).await?;
        tx.commit().await.map_err(commit_error)
    }

    async fn lock(&self) -> Result<Box<dyn SourceLock>, StoreError> {
        let mut sessions = self.other_sessions().await?;
        for _ in 0..SESSION_CHECKS {
            if sessions == 0 {
                break;
            }
            // A session that was closed just now may still be listed.
            tokio::time::sleep(SESSION_PAUSE).await;
            sessions = self.other_sessions().await?;
        }
        if sessions > 0 {
            return Err(in_use(
                &self.store.address,
                &format!("{sessions} other sessions that may write to it are connected"),
            ));
        }
        let mut tx = self.store.begin(READ_COMMITTED, Reach::All).await?.unbounded();
        execute(&mut tx.conn(), "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0")
            .await?;
        match wait_for_writers(&mut tx.conn()).await {
            Ok(()) => Ok(Box::new(Locked(tx))),
            Err(StoreError::Busy(_)) => Err(in_use(&self.store.address, "a transaction of Bursar is running")),
            Err(error) => Err(error),
        }
    }

    async fn switch(&self, to: &str, why: Switch) -> Result<Option<Moved>, StoreError> {
        let mut tx = self.begin().await?;
        wait_for_writers(&mut tx.conn()).await?;
        // All writers have ended, so these are the last positions.
        let end = self.end_of_journal().await?;
        let Some(moved) = why.mark(to, end.position()) else { return Ok(None) };
        let message = marks::refusal(&moved).replace('\'', "''");
        let mut sql = format!(
            "CREATE OR REPLACE FUNCTION bursar.refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $moved$
             BEGIN RAISE EXCEPTION USING ERRCODE = '{}', MESSAGE = '{message}'; END $moved$;",
            marks::REFUSAL_CODE
        );
        for table in TABLES {
            sql.push_str(&format!(
                "CREATE OR REPLACE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE ON bursar.{} FOR EACH ROW
                 EXECUTE FUNCTION bursar.refuse_moved();",
                table.name
            ));
        }
        execute(&mut tx.conn(), &sql).await?;
        set_mark(&mut tx.conn(), marks::MOVED, &marks::mark(&moved)).await?;
        tx.commit().await.map_err(commit_error)?;
        Ok(Some(moved))
    }

    async fn switch_back(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let drops = TABLES.iter().map(|table| format!("DROP TRIGGER IF EXISTS moved ON bursar.{};", table.name));
        let drops = drops.chain(["DROP FUNCTION IF EXISTS bursar.refuse_moved();".to_owned()]);
        execute(&mut tx.conn(), &drops.collect::<String>()).await?;
        remove_mark(&mut tx.conn(), marks::MOVED).await?;
        tx.commit().await.map_err(commit_error)
    }

    async fn analyze(&self) -> Result<(), StoreError> {
        let sql: String = TABLES.iter().map(|table| format!("ANALYZE bursar.{};", table.name)).collect();
        execute(&mut self.store.acquire().await?.conn(), &sql).await
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        self.store.verify().await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

/// A transaction that keeps writers out by the lock of a rebuild.
struct Locked(Tx);

#[async_trait]
impl SourceLock for Locked {
    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await.map_err(|error| StoreError::Unavailable {
            what: "the connection that kept writers out of the source was lost".into(),
            hint: "the target is not opened; run the same `bursar move` again, which goes on",
            permanent: false,
            source: Some(Box::new(error)),
        })
    }
}

fn in_use(place: &str, reason: &str) -> StoreError {
    refused(
        format!("the source {place} is in use: {reason}"),
        "nothing was changed; stop every server and program that uses it, or pass --follow to move it while it is in use",
    )
}

/// Waits until no transaction of Bursar writes. Others wait until this one ends.
async fn wait_for_writers(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    sqlx::query("SELECT set_config('lock_timeout', $1, true), pg_advisory_xact_lock($2)")
        .bind(format!("{WRITERS_TIMEOUT_MS}ms"))
        .bind(REBUILD_LOCK)
        .execute(conn)
        .await
        .map(drop)
        .map_err(store_error)
}

async fn execute(conn: &mut Conn<'_>, sql: &str) -> Result<(), StoreError> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.map(drop).map_err(store_error)
}

/// Reads the marks of a database, which may have no tables.
pub(super) async fn read_marks(conn: &mut Conn<'_>) -> Result<Marks, StoreError> {
    let exists = sqlx::query_scalar("SELECT to_regclass('bursar.meta') IS NOT NULL");
    if !exists.fetch_one(&mut *conn).await.map_err(store_error)? {
        return Ok(Marks::default());
    }
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT key, value FROM bursar.meta").fetch_all(conn).await.map_err(store_error)?;
    Marks::read(rows)
}

/// Reads the marks and keeps other runs from changing them until the end of the transaction.
async fn lock_marks(conn: &mut Conn<'_>) -> Result<Marks, StoreError> {
    execute(conn, "LOCK TABLE bursar.meta IN SHARE ROW EXCLUSIVE MODE").await?;
    read_marks(conn).await
}

async fn set_mark(conn: &mut Conn<'_>, key: &str, value: &str) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO bursar.meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
    sqlx::query(sql).bind(key).bind(value).execute(conn).await.map(drop).map_err(store_error)
}

async fn remove_mark(conn: &mut Conn<'_>, key: &str) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM bursar.meta WHERE key = $1").bind(key).execute(conn).await.map(drop).map_err(store_error)
}

async fn has_rows(conn: &mut Conn<'_>) -> Result<bool, StoreError> {
    let any: Vec<String> = TABLES.iter().map(|table| format!("EXISTS (SELECT FROM bursar.{})", table.name)).collect();
    let sql = format!("SELECT {}", any.join(" OR "));
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(conn).await.map_err(store_error)
}

async fn end_of_journal(conn: &mut Conn<'_>) -> Result<EndOfJournal, StoreError> {
    let sql = "SELECT position, position + count FROM bursar.journal_order ORDER BY position DESC LIMIT 1";
    let end: Option<(i64, i64)> = sqlx::query_as(sql).fetch_optional(conn).await.map_err(store_error)?;
    let (last_row, next) = end.unwrap_or((0, 1));
    Ok(EndOfJournal { last_row, next })
}

/// Returns the statement that reads a table in the order of its key.
fn select(table: &Table) -> String {
    if table.is_journal() {
        return "SELECT o.position, j.id, j.at, j.count, j.prev, j.entries FROM bursar.journal_order o
            CROSS JOIN LATERAL (SELECT j.* FROM bursar.journal j WHERE j.id = o.id OFFSET 0) j
            WHERE o.position > $1 ORDER BY o.position"
            .into();
    }
    let names = |columns: &[Column]| columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ");
    let keys = names(table.keys());
    if !table.lanes {
        let (columns, name) = (names(table.columns), table.name);
        return format!("SELECT {columns} FROM bursar.{name} WHERE $1 = 0::bigint ORDER BY {keys}");
    }
    let sums = match table.name {
        // `low` has 32 bits.
        "held" => "(sum(high) + (sum(low)::bigint >> 32))::bigint, sum(low)::bigint & 4294967295".to_owned(),
        _ => format!("sum({})::bigint", table.columns[table.key].name),
    };
    // A group without dead jobs may have rows that add up to zero. On SQLite it has none.
    let having = if table.name == "dead_groups" { "HAVING sum(count) <> 0" } else { "" };
    format!(
        "SELECT {keys}, {sums} FROM bursar.{} WHERE $1 = 0::bigint GROUP BY {keys} {having} ORDER BY {keys}",
        table.name
    )
}

/// Reads a table in one snapshot. Ends early if the receiver is gone.
async fn send_rows(
    store: &PostgresStore,
    table: &Table,
    after: i64,
    positions: bool,
    to: &Sender<Result<Vec<Row>, StoreError>>,
) -> Result<(), StoreError> {
    let mut tx = store.begin(READ_COMMITTED, Reach::All).await?;
    execute(&mut tx.conn(), BY_KEY).await?;
    let sql = AssertSqlSafe(select(table));
    let mut conn = tx.conn();
    let mut rows = sqlx::query(sql).bind(after).fetch(&mut conn);
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    loop {
        let row = rows.try_next().await.map_err(store_error)?;
        let at_end = row.is_none();
        if let Some(row) = row {
            let row = read_row(table, &row).map_err(store_error)?;
            bytes += row_bytes(&row);
            chunk.push(row);
        }
        if at_end || chunk.len() >= CHUNK_ROWS || bytes >= CHUNK_BYTES {
            bytes = 0;
            if positions {
                replace_ids(store, table, &mut chunk).await?;
            }
            if to.send(Ok(std::mem::take(&mut chunk))).await.is_err() || at_end {
                return Ok(());
            }
        }
    }
}

/// Replaces the ids of journal rows by their positions.
async fn replace_ids(store: &PostgresStore, table: &Table, rows: &mut [Row]) -> Result<(), StoreError> {
    let mut linked = LinkedValues::of(table, rows)?;
    let ids = linked.ids();
    if ids.is_empty() {
        return Ok(());
    }
    let mut conn = store.side_pool.acquire().await.map_err(store_error)?;
    let mut positions = find_positions(&mut conn.conn(), &ids).await?;
    if positions.len() < ids.len() {
        // A row that was committed since may name a journal row that has no position yet.
        store.assign_positions(&mut conn.conn()).await?;
        positions = find_positions(&mut conn.conn(), &ids).await?;
    }
    drop(conn);
    linked.replace(rows, &positions)
}

async fn find_positions(conn: &mut Conn<'_>, ids: &[BatchId]) -> Result<HashMap<BatchId, i64>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| Uuid::from_u128(id.0)).collect();
    let sql = "SELECT o.id, o.position FROM unnest($1::uuid[]) AS w(id)
        CROSS JOIN LATERAL (SELECT o.* FROM bursar.journal_order o WHERE o.id = w.id OFFSET 0) o";
    let rows: Vec<(Uuid, i64)> = sqlx::query_as(sql).bind(ids).fetch_all(conn).await.map_err(store_error)?;
    Ok(rows.into_iter().map(|(id, position)| (BatchId(id.as_u128()), position)).collect())
}

fn read_row(table: &Table, row: &PgRow) -> Result<Row, sqlx::Error> {
    let id = |id: Uuid| Value::Id(id.as_u128());
    let value = |(index, column): (usize, &Column)| {
        Ok(match column.kind {
            Kind::Id | Kind::JournalId => id(row.try_get(index)?),
            Kind::IdOrNull => row.try_get::<Option<Uuid>, _>(index)?.map_or(Value::Null, id),
            Kind::Int => Value::Int(row.try_get(index)?),
            Kind::Small => Value::Int(row.try_get::<i16, _>(index)?.into()),
            Kind::Int4 => Value::Int(row.try_get::<i32, _>(index)?.into()),
            Kind::Text => Value::Text(row.try_get(index)?),
            Kind::TextOrNull => row.try_get::<Option<String>, _>(index)?.map_or(Value::Null, Value::Text),
            Kind::Bytes => Value::Bytes(row.try_get(index)?),
        })
    };
    table.columns.iter().enumerate().map(value).collect()
}

async fn delete_rows(conn: &mut Conn<'_>, table: &Table, keys: &[Row]) -> Result<(), StoreError> {
    if keys.is_empty() {
        return Ok(());
    }
    if table.is_journal() {
        let positions: Vec<i64> = keys.iter().filter_map(|key| key[0].int()).collect();
        let delete = "WITH o AS (DELETE FROM bursar.journal_order WHERE position = ANY ($1) RETURNING id)
            DELETE FROM bursar.journal j USING o WHERE j.id = o.id";
        return sqlx::query(delete).bind(positions).execute(conn).await.map(drop).map_err(store_error);
    }
    let mut arrays = Arrays::default();
    let columns: Vec<&Column> = table.keys().iter().collect();
    columns.iter().enumerate().for_each(|(index, column)| arrays.add(column.kind, keys, index));
    let same: Vec<String> = columns.iter().map(|column| format!("t.{0} = w.{0}", column.name)).collect();
    let sql = format!(
        "DELETE FROM bursar.{} t USING (SELECT {}) AS w({}) WHERE {}",
        table.name,
        arrays.selected.join(", "),
        columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", "),
        same.join(" AND ")
    );
    arrays.run(conn, sql).await
}

async fn insert_rows(conn: &mut Conn<'_>, table: &Table, rows: &[Row]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    if table.is_journal() {
        insert_columns(conn, "journal", &table.columns[1..], 1, rows, "").await?;
        let order: Vec<Row> = rows.iter().map(|row| vec![row[0].clone(), row[1].clone(), row[3].clone()]).collect();
        let columns = [0, 1, 3].map(|index| &table.columns[index]);
        return insert_some(conn, "journal_order", &columns, 0, &order, "").await;
    }
    let lane = if table.lanes { "lane" } else { "" };
    insert_columns(conn, table.name, table.columns, 0, rows, lane).await
}

/// Inserts columns of rows that begin at the index `from`, and 0 into the column `lane`, if it has a name.
async fn insert_columns(
    conn: &mut Conn<'_>,
    table: &str,
    columns: &[Column],
    from: usize,
    rows: &[Row],
    lane: &str,
) -> Result<(), StoreError> {
    let columns: Vec<&Column> = columns.iter().collect();
    insert_some(conn, table, &columns, from, rows, lane).await
}

async fn insert_some(
    conn: &mut Conn<'_>,
    table: &str,
    columns: &[&Column],
    from: usize,
    rows: &[Row],
    lane: &str,
) -> Result<(), StoreError> {
    let mut arrays = Arrays::default();
    columns.iter().zip(from..).for_each(|(column, index)| arrays.add(column.kind, rows, index));
    let mut names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    if !lane.is_empty() {
        names.push(lane);
        arrays.selected.push("0".into());
    }
    let sql = format!("INSERT INTO bursar.{table} ({}) SELECT {}", names.join(", "), arrays.selected.join(", "));
    arrays.run(conn, sql).await
}

/// The columns of rows as arguments of a statement, one array for each.
#[derive(Default)]
struct Arrays {
    /// What the statement selects.
    selected: Vec<String>,
    arguments: PgArguments,
    error: Option<BoxDynError>,
}

impl Arrays {
    fn add(&mut self, kind: Kind, rows: &[Row], index: usize) {
        let values = rows.iter().map(|row| &row[index]);
        let id = |value: &Value| value.id().map(Uuid::from_u128);
        match kind {
            Kind::Id | Kind::IdOrNull | Kind::JournalId => self.bind(values.map(id).collect(), "uuid"),
            Kind::Int => self.bind(values.map(Value::int).collect(), "bigint"),
            Kind::Small => self.bind(values.map(|v| v.int().and_then(|v| i16::try_from(v).ok())).collect(), "smallint"),
            Kind::Int4 => self.bind(values.map(|v| v.int().and_then(|v| i32::try_from(v).ok())).collect(), "integer"),
            Kind::Text | Kind::TextOrNull => self.bind(values.map(Value::text).collect(), "text"),
            Kind::Bytes => self.bind(values.map(Value::bytes).collect(), "bytea"),
        }
    }

    fn bind<'q, T>(&mut self, values: Vec<Option<T>>, pg_type: &str)
    where
        T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'q,
    {
        if let Err(error) = self.arguments.add(values) {
            self.error.get_or_insert(error);
        }
        self.selected.push(format!("unnest(${}::{pg_type}[])", self.arguments.len()));
    }

    async fn run(self, conn: &mut Conn<'_>, sql: String) -> Result<(), StoreError> {
        let arguments = self.error.map_or(Ok(self.arguments), Err);
        let arguments = arguments.map_err(|error| store_error(sqlx::Error::Encode(error)))?;
        sqlx::query_with(AssertSqlSafe(sql), arguments).execute(conn).await.map(drop).map_err(store_error)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use sqlx::{Connection, PgConnection};

    use super::*;
    use crate::postgres::migration_sql;

    #[tokio::test]
    async fn every_column_is_moved() {
        let mut conn = PgConnection::connect(&bursar_testkit::fresh_database()).await.expect("a connection");
        sqlx::raw_sql(AssertSqlSafe(migration_sql())).execute(&mut conn).await.expect("tables");
        let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
            WHERE table_schema = 'bursar' AND table_name NOT IN ('meta', 'journal_new', 'journal_order', 'journal_segments')";
        let rows: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&mut conn).await.expect("rows");
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (table, column) in rows {
            found.entry(table).or_default().insert(column);
        }
        let columns = |table: &Table| {
            let names = table.columns.iter().map(|column| column.name).filter(|name| *name != "position");
            names.chain(table.lanes.then_some("lane")).map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let listed = TABLES.iter().map(|table| (table.name.to_owned(), columns(table)));
        assert_eq!(listed.collect::<BTreeMap<_, _>>(), found);
    }
}
