//! Schedules: reading, writing, listing, and which are due.

use bursar_core::job::Schedule;
use bursar_core::name::{ScheduleName, Tenant};
use bursar_core::page::{PageFill, PageItem};
use bursar_core::state::{Change, ScheduleKey, Workspace};
use bursar_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::codec::{from_json, stored_name, to_json};
use crate::error::StoreError;
use crate::sqlite::error::store_error;
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::writer::Shared;

impl SqliteRows<'_> {
    pub(super) fn read_schedule(&self, (tenant, name): &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        let sql = "SELECT data FROM bursar_schedules WHERE tenant = ?1 AND name = ?2";
        self.one(sql, params![tenant.as_str(), name.as_str()], |row| {
            from_json("schedule", &row.get::<_, String>(0).map_err(store_error)?)
        })
    }

    pub(super) fn write_schedules(&self, ws: &Workspace) -> Result<(), StoreError> {
        for ((tenant, name), change) in ws.schedules.changes() {
            let (tenant, name) = (tenant.as_str(), name.as_str());
            match change {
                Change::Insert(row) | Change::Update(row) => {
                    let sql = "INSERT INTO bursar_schedules (tenant, name, next_at, data) VALUES (?1, ?2, ?3, ?4)
                        ON CONFLICT DO UPDATE SET next_at = excluded.next_at, data = excluded.data";
                    self.run(sql, params![tenant, name, row.next_at.micros(), to_json(row)])?
                }
                Change::Delete => {
                    self.run("DELETE FROM bursar_schedules WHERE tenant = ?1 AND name = ?2", params![tenant, name])?
                }
            };
        }
        Ok(())
    }
}

/// Lists the schedules of a tenant after a name, by name.
pub(super) fn list(
    conn: &Connection,
    tenant: &Tenant,
    after: Option<&ScheduleName>,
    limit: usize,
) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
    let sql = "SELECT name, data FROM bursar_schedules WHERE tenant = ?1 AND name > ?2 ORDER BY name LIMIT ?3";
    let after = after.map_or("", ScheduleName::as_str);
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![tenant.as_str(), after, limit as i64]).map_err(store_error)?;
    let (mut page, mut found) = (PageFill::new(limit), Vec::new());
    while !page.is_full()
        && let Some(row) = rows.next().map_err(store_error)?
    {
        let name = stored_name("schedule", row.get(0).map_err(store_error)?)?;
        let schedule: Schedule = from_json("schedule", &row.get::<_, String>(1).map_err(store_error)?)?;
        page.add(schedule.bytes());
        found.push((name, schedule));
    }
    Ok(found)
}

/// Returns the schedules that are due, the longest overdue first, and when the next one is due.
pub(super) fn due(
    shared: &Shared,
    conn: &Connection,
    limit: usize,
) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
    let now = shared.clock.now().micros();
    let sql = "SELECT tenant, name FROM bursar_schedules WHERE next_at <= ?1 ORDER BY next_at LIMIT ?2";
    let due = all(conn, sql, params![now, limit as i64], |row| {
        let tenant = stored_name("tenant", row.get(0).map_err(store_error)?)?;
        Ok((tenant, stored_name("schedule", row.get(1).map_err(store_error)?)?))
    })?;
    let sql = "SELECT next_at FROM bursar_schedules WHERE next_at > ?1 AND next_at < ?2 ORDER BY next_at LIMIT 1";
    let next =
        conn.query_row(sql, params![now, Time::NEVER.micros()], |row| row.get(0)).optional().map_err(store_error)?;
    Ok((due, next.map(Time::from_micros)))
}

fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params).map_err(store_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        found.push(read(row)?);
    }
    Ok(found)
}
