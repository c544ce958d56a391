//! Rows of settings by tenant and name, stored as JSON: queues and namespaces.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rows::{PgRows, index};
use crate::codec::{from_json, to_json};
use crate::error::StoreError;

/// The statements on a table of settings.
pub(super) struct SettingsSql {
    pub(super) create: &'static str,
    pub(super) lock: &'static str,
    pub(super) read: &'static str,
}

/// The statement that reads settings.
macro_rules! settings_select {
    ($table:literal, $name:literal, $lock:literal) => {
        concat!(
            "SELECT w.n, s.data FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, name, n)
             CROSS JOIN LATERAL (
                 SELECT s.data FROM bursar.",
            $table,
            " s WHERE s.tenant = w.tenant AND s.",
            $name,
            " = w.name ",
            $lock,
            ") s"
        )
    };
}
pub(super) use settings_select;

/// The statements on a table of settings, and its column for the name.
macro_rules! settings_sql {
    ($table:literal, $name:literal) => {
        $crate::postgres::settings::SettingsSql {
            create: concat!(
                "INSERT INTO bursar.",
                $table,
                " (tenant, ",
                $name,
                ", data)
                 SELECT w.tenant, w.name, $3 FROM unnest($1::text[], $2::text[]) AS w(tenant, name)
                 ON CONFLICT DO NOTHING"
            ),
            lock: $crate::postgres::settings::settings_select!($table, $name, "FOR UPDATE"),
            read: $crate::postgres::settings::settings_select!($table, $name, "OFFSET 0"),
        }
    };
}
pub(super) use settings_sql;

impl PgRows<'_> {
    /// Returns the settings that exist, each with the index of its name; locks them if `locked`.
    pub(super) async fn fetch_settings<S: Serialize + DeserializeOwned + Default>(
        &mut self,
        sql: &SettingsSql,
        what: &'static str,
        (tenants, names): (Vec<&str>, Vec<&str>),
        locked: bool,
    ) -> Result<Vec<(usize, S)>, StoreError> {
        let locks = locked && self.locks();
        if locks {
            // A missing row is created, so that two transactions cannot define the same new name at once.
            let create = sqlx::query(sql.create).bind(&tenants).bind(&names).bind(to_json(&S::default()));
            create.execute(&mut self.conn).await.map_err(|e| self.statement_error(e))?;
        }
        let rows: Vec<(i64, String)> = sqlx::query_as(if locks { sql.lock } else { sql.read })
            .bind(&tenants)
            .bind(&names)
            .fetch_all(&mut self.conn)
            .await
            .map_err(|e| self.statement_error(e))?;
        rows.into_iter().map(|(n, data)| Ok((index(n), from_json(what, &data)?))).collect()
    }
}
