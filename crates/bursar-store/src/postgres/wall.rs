//! Row-level security, the second wall between tenants. The first one is the tenant in every query.
//!
//! Every table with rows of tenants has a policy: a transaction sees and writes only the rows of the tenants that it has named in
//! `bursar.tenants` (`schema/0006_row_security.sql`). A query that forgets its tenant then finds nothing of another one. The wall stands for
//! a role that does not own the tables. [`PostgresOptions::role`](super::PostgresOptions::role) names it; a transaction takes it and names
//! its tenants ([`Reach`]) in the message that begins it, for itself only, so that nothing stays on the connection.
//!
//! - A batch names the tenants of its requests, a read its tenant. Outside of a transaction nothing can be named, so that a read of one
//!   statement is a transaction too ([`Reading`]). Where the wall does not stand, it is none, and nothing is named.
//! - A step of maintenance asks the function `tenants_to_maintain` where it has work ([`Step`]) and names these tenants.
//! - A row of the journal can have entries of several tenants, which no policy can separate. A transaction sees the journal if it says that it
//!   reads it ([`Reach::Journal`]); code then selects the entries of one tenant.
//! - Migrations, `verify` and `rebuild` read everything, as the owner ([`Reach::All`]). No other role may say that.

use bursar_core::name::Tenant;
use bursar_core::time::Time;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::conn::{BorrowedTx, Conn, ConnPool};
use super::connection_watch::{Acquired, Tx};
use super::error::store_error;
use super::read::sql_limit;
use super::{PostgresOptions, PostgresStore, READ_COMMITTED, REBUILD_LOCK};
use crate::error::StoreError;
use crate::store::RowSecurity;

/// Separates the tenants of a list. Names have no control characters.
const SEPARATOR: &str = "\u{1f}";

/// What a transaction sees.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach<'t> {
    /// No row of any tenant, until it names tenants.
    Nothing,
    /// The rows of a tenant.
    Tenant(&'t Tenant),
    /// The rows of the tenants in a list.
    Tenants(&'t TenantList),
    /// The journal.
    Journal,
    /// All rows, as the owner of the tables.
    All,
}

/// Tenants as the text of the setting `bursar.tenants`.
#[derive(Clone, Debug)]
pub(super) struct TenantList(String);

impl TenantList {
    pub(super) fn new<'t>(tenants: impl IntoIterator<Item = &'t Tenant>) -> TenantList {
        let mut names: Vec<&str> = tenants.into_iter().map(Tenant::as_str).collect();
        names.sort_unstable();
        names.dedup();
        // A name with the separator would be read as several names. There is none, and it would be left out.
        names.retain(|name| !name.contains(SEPARATOR));
        TenantList(names.join(SEPARATOR))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the wall stands for this store, and how a transaction takes its role.
#[derive(Clone, Debug, Default)]
pub(super) struct Wall {
    /// The name of the role that transactions take, if it is not the one that connects.
    role: Option<String>,
    /// Whether the policies apply to that role.
    stands: bool,
    /// Whether the role that connects owns the tables.
    owner: bool,
}

impl Wall {
    /// Finds out whether the wall stands. Fails if it should stand and does not.
    async fn find(pool: &ConnPool, options: &PostgresOptions) -> Result<Wall, StoreError> {
        let owner = "SELECT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = 'bursar.meta'::regclass), 'USAGE')";
        let owner: bool = sqlx::query_scalar(owner)
            .fetch_one(pool.acquire().await.map_err(store_error)?.conn())
            .await
            .map_err(store_error)?;
        let mut wall = Wall { role: options.role.clone(), stands: true, owner };
        let begin = wall.begin(READ_COMMITTED, Reach::Nothing);
        let mut tx = pool.begin(AssertSqlSafe(begin)).await.map_err(store_error)?;
        let stands = "SELECT row_security_active('bursar.scopes')";
        wall.stands = sqlx::query_scalar(stands).fetch_one(tx.conn()).await.map_err(store_error)?;
        tx.rollback().await.map_err(store_error)?;
        match &wall.role {
            Some(role) if !wall.stands => Err(StoreError::Unavailable {
                what: format!("row-level security does not apply to the role {role} of the setting postgres.role"),
                hint: "nothing was changed; name a role that is no superuser, has no BYPASSRLS and does not own the tables",
                permanent: true,
                source: None,
            }),
            _ => Ok(wall),
        }
    }

    /// Whether the policies apply to this store.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// Returns the role that a caller's transaction takes for a request.
    pub(super) fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// Describes the wall for operators.
    pub(super) fn describe(&self) -> RowSecurity {
        let state = match (&self.role, self.stands) {
            (Some(role), _) => format!("on, as the role {role}"),
            (None, true) => "on, as the role that connects".into(),
            (None, false) => "off, because the role that connects owns the tables or bypasses it".into(),
        };
        RowSecurity { state, reads_all: self.owner || !self.stands }
    }

    /// Adds to a statement that begins a transaction what the transaction sees.
    pub(super) fn begin(&self, statement: &str, reach: Reach<'_>) -> String {
        let mut sql = statement.to_owned();
        if !self.stands {
            return sql;
        }
        if !matches!(reach, Reach::All)
            && let Some(role) = &self.role
        {
            sql.push_str(&format!("; SET LOCAL ROLE {}", identifier(role)));
        }
        match reach {
            Reach::Nothing => {}
            Reach::Tenant(tenant) => sql.push_str(&set_tenants(&TenantList::new([tenant]))),
            Reach::Tenants(tenants) => sql.push_str(&set_tenants(tenants)),
            Reach::Journal => sql.push_str("; SET LOCAL bursar.journal = 'on'"),
            Reach::All => sql.push_str("; SET LOCAL bursar.every_tenant = 'on'"),
        }
        sql
    }
}

fn set_tenants(tenants: &TenantList) -> String {
    format!("; SET LOCAL bursar.tenants = {}", literal(tenants.as_str()))
}

/// Quotes a text for SQL. The form with `E` means the same with every setting of `standard_conforming_strings`.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Quotes a name for SQL.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A step of maintenance, which has work in tenants that only the database knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'s> {
    /// Its name for `bursar.tenants_to_maintain`.
    pub(super) name: &'static str,
    /// What is due by now.
    pub(super) now: Time,
    /// The tenant in which it continues.
    pub(super) after: &'s str,
    /// The id after which it continues.
    pub(super) after_id: Uuid,
    /// The most rows that it reads.
    pub(super) most: usize,
}

impl Step<'_> {
    /// A step that reads what is due.
    pub(super) fn due(name: &'static str, now: Time, most: usize) -> Step<'static> {
        Step { name, now, after: "", after_id: Uuid::nil(), most }
    }

    /// A step that reads the rows after an id.
    pub(super) fn after_id(name: &'static str, after_id: Uuid, most: usize) -> Step<'static> {
        Step { after_id, ..Step::due(name, Time::MIN, most) }
    }

    /// A step that reads the rows of a tenant and of the tenants after it.
    pub(super) fn after<'s>(name: &'static str, after: &'s str, most: usize) -> Step<'s> {
        Step { after, ..Step::due(name, Time::MIN, most) }
    }
}

/// A connection for reading. Where the wall stands, it has a transaction, which ends when the value is dropped.
pub(super) enum Reading<'t> {
    Idle(Acquired),
    Open(Conn<'t>),
    Walled(Tx),
    WalledOn(BorrowedTx<'t>),
}

impl Reading<'_> {
    pub(super) fn conn(&mut self) -> Conn<'_> {
        match self {
            Reading::Idle(conn) => conn.conn(),
            Reading::Open(conn) => conn.reborrow(),
            Reading::Walled(tx) => tx.conn(),
            Reading::WalledOn(tx) => tx.conn(),
        }
    }
}

impl PostgresStore {
    /// Looks whether the wall stands.
    pub(super) async fn find_wall(&mut self) -> Result<(), StoreError> {
        self.wall = Wall::find(&self.pool, &self.options).await?;
        Ok(())
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self, statement: &'static str, reach: Reach<'_>) -> Result<Tx, StoreError> {
        self.check_reach(reach)?;
        let begin = self.wall.begin(statement, reach);
        self.pool.begin(AssertSqlSafe(begin)).await.map_err(|error| self.pool_error(error))
    }

    /// Returns a connection for reading.
    pub(super) async fn read(&self, reach: Reach<'_>) -> Result<Reading<'static>, StoreError> {
        if self.wall.stands {
            self.begin(READ_COMMITTED, reach).await.map(Reading::Walled)
        } else {
            self.acquire().await.map(Reading::Idle)
        }
    }

    /// Reads on a connection without an open transaction.
    pub(super) async fn read_on<'t>(
        &self,
        conn: &'t mut Conn<'_>,
        reach: Reach<'_>,
    ) -> Result<Reading<'t>, StoreError> {
        if self.wall.stands {
            let begin = self.wall.begin(READ_COMMITTED, reach);
            conn.begin(AssertSqlSafe(begin)).await.map(Reading::WalledOn).map_err(store_error)
        } else {
            Ok(Reading::Open(conn.reborrow()))
        }
    }

    /// Lets an open transaction see the tenants in which a step of maintenance has work.
    pub(super) async fn enter_step(&self, conn: &mut Conn<'_>, step: Step<'_>) -> Result<(), StoreError> {
        if !self.wall.stands {
            return Ok(());
        }
        let enter = "SELECT set_config('bursar.tenants',
            array_to_string(bursar.tenants_to_maintain($1, $2, $3, $4, $5), chr(31)), true)";
        let enter = sqlx::query(enter)
            .bind(step.name)
            .bind(step.now.micros())
            .bind(step.after)
            .bind(step.after_id)
            .bind(sql_limit(step.most));
        enter.execute(&mut *conn).await.map(drop).map_err(store_error)
    }

    /// Lets an open transaction see the tenant of a credential or blob, of which only the id is known.
    pub(super) async fn enter_tenant_of(&self, conn: &mut Conn<'_>, id: Uuid) -> Result<(), StoreError> {
        if !self.wall.stands {
            return Ok(());
        }
        let enter = "SELECT set_config('bursar.tenants', coalesce(bursar.tenant_of($1), ''), true)";
        sqlx::query(enter).bind(id).execute(&mut *conn).await.map(drop).map_err(store_error)
    }

    /// Only the owner sees all rows.
    pub(super) fn check_reach(&self, reach: Reach<'_>) -> Result<(), StoreError> {
        if !matches!(reach, Reach::All) || self.wall.owner || !self.wall.stands {
            return Ok(());
        }
        Err(StoreError::Unavailable {
            what: "the role that connects does not own the tables, so that row-level security hides rows from it"
                .into(),
            hint: "nothing was changed; run this command with the database URL of the owner",
            permanent: true,
            source: None,
        })
    }
}

/// Lets an open transaction see tenants.
pub(super) async fn enter_tenants(conn: &mut Conn<'_>, tenants: &TenantList) -> Result<(), StoreError> {
    let enter = sqlx::query("SELECT set_config('bursar.tenants', $1, true)").bind(tenants.as_str());
    enter.execute(&mut *conn).await.map(drop).map_err(store_error)
}

/// Returns whether the role of the options has the privileges that it needs, and row-level security applies as far as they say.
pub(super) async fn is_prepared(conn: &mut Conn<'_>, options: &PostgresOptions) -> Result<bool, StoreError> {
    let Some(role) = &options.role else {
        return Ok(!options.force_row_security || is_forced(conn).await?);
    };
    check_role(conn, role).await?;
    let prepared = "SELECT has_schema_privilege($1, 'bursar', 'USAGE')
        AND NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'bursar'::regnamespace AND c.relkind = 'r'
            AND NOT has_table_privilege($1, c.oid, 'SELECT'))
        AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'bursar'::regnamespace
            AND NOT has_function_privilege($1, p.oid, 'EXECUTE'))";
    let prepared: bool = sqlx::query_scalar(prepared).bind(role).fetch_one(&mut *conn).await.map_err(store_error)?;
    Ok(prepared && (!options.force_row_security || is_forced(conn).await?))
}

async fn is_forced(conn: &mut Conn<'_>) -> Result<bool, StoreError> {
    let forced =
        "SELECT NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'bursar'::regnamespace AND c.relrowsecurity
        AND NOT c.relforcerowsecurity)";
    sqlx::query_scalar(forced).fetch_one(&mut *conn).await.map_err(store_error)
}

/// Gives the role of the options the privileges that it needs, and no others: it can change no table and delete nothing from the journal.
pub(super) async fn prepare(conn: &mut Conn<'_>, options: &PostgresOptions) -> Result<(), StoreError> {
    let walled =
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'bursar'::regnamespace AND c.relrowsecurity";
    let walled: Vec<String> = sqlx::query_scalar(walled).fetch_all(&mut *conn).await.map_err(store_error)?;
    let mut sql = String::new();
    if let Some(role) = &options.role {
        check_role(conn, role).await?;
        let role = identifier(role);
        // A restored dump has no privileges, so that PUBLIC has the default ones.
        sql.push_str(&format!(
            "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA bursar FROM PUBLIC;
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA bursar TO {role};
             GRANT USAGE ON SCHEMA bursar TO {role};
             GRANT SELECT ON bursar.meta, bursar.journal_segments TO {role};
             GRANT SELECT, INSERT ON bursar.journal, bursar.journal_order TO {role};
             GRANT SELECT, INSERT, DELETE ON bursar.journal_new TO {role};"
        ));
        for table in walled.iter().filter(|table| *table != "journal") {
            sql.push_str(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON bursar.{} TO {role};", identifier(table)));
        }
    }
    if options.force_row_security {
        // Writers hold this lock shared. Without it, altering one table after another could deadlock with them.
        sql.push_str(&format!("SELECT pg_advisory_xact_lock({REBUILD_LOCK});"));
        for table in &walled {
            sql.push_str(&format!("ALTER TABLE bursar.{} FORCE ROW LEVEL SECURITY;", identifier(table)));
        }
    }
    if sql.is_empty() {
        return Ok(());
    }
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await.map(drop).map_err(store_error)
}

/// The error of a store that may not migrate, whose role lacks privileges.
pub(super) fn not_prepared() -> StoreError {
    StoreError::Unavailable {
        what: "the role of the setting postgres.role lacks privileges on the tables".into(),
        hint: "nothing was changed; run `bursar migrate` with that setting, as the owner of the tables",
        permanent: true,
        source: None,
    }
}

/// Checks that a role exists, and that the role of the URL may take it.
async fn check_role(conn: &mut Conn<'_>, role: &str) -> Result<(), StoreError> {
    let member = "SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = $1";
    let member: Option<bool> =
        sqlx::query_scalar(member).bind(role).fetch_optional(&mut *conn).await.map_err(store_error)?;
    let (what, hint) = match member {
        Some(true) => return Ok(()),
        Some(false) => (
            format!("the role of the database URL may not take the role {role} of the setting postgres.role"),
            "nothing was changed; grant the second role to the first one: GRANT … TO …",
        ),
        None => (
            format!("the role {role} of the setting postgres.role does not exist"),
            "nothing was changed; create it with CREATE ROLE … NOLOGIN, and grant it to the role of the database URL",
        ),
    };
    Err(StoreError::Unavailable { what, hint, permanent: true, source: None })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use bursar_core::budget::Limit;
    use bursar_core::context::Context;
    use bursar_core::decide::Rules;
    use bursar_core::name::Scope;
    use bursar_core::request::{Charge, Command, Op, Request, Settle};
    use bursar_core::window::Window;
    use bursar_testkit::SeqIds;

    use super::*;
    use crate::conformance::CommitRequests;
    use crate::store::{LockPolicy, RequestOutcome, Setup};

    async fn open() -> PostgresStore {
        let ids = Arc::new(Mutex::new(SeqIds::new(1)));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        let role = bursar_testkit::postgres().app_role().to_owned();
        let options = PostgresOptions { role: Some(role), ..PostgresOptions::default() };
        PostgresStore::open(&bursar_testkit::fresh_database(), setup, options).await.expect("a store")
    }

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).expect("a name")
    }

    /// The connections are those of the store. Only the tenant in the queries, the first wall, is left out.
    #[tokio::test]
    async fn queries_that_forget_their_tenant_find_and_change_nothing_of_another() {
        let store = open().await;
        for name in ["a", "b"] {
            let limit = Limit::new(10, Window::Lifetime);
            let charges = vec![Charge::new(Scope::new("room").expect("a name"), 1).within([limit])];
            let command = Command { charges, settle: Settle::Hold { ttl: None }, ..Command::default() };
            let request = Request::from(Op::Submit(command)).in_context(Context::of(tenant(name)));
            let outcome =
                store.commit_requests(&[Arc::new(request)], LockPolicy::Skip).await.expect("it works").remove(0);
            assert!(matches!(outcome, RequestOutcome::Answered(Ok(_))), "{outcome:?}");
        }
        let (a, b) = (tenant("a"), tenant("b"));
        let read = async |reach: Reach<'_>| -> Vec<String> {
            let mut conn = store.read(reach).await.expect("a connection");
            let all = "SELECT tenant FROM bursar.holds UNION SELECT tenant FROM bursar.scopes ORDER BY 1";
            sqlx::query_scalar(all).fetch_all(conn.conn()).await.expect("it works")
        };
        assert_eq!(read(Reach::Tenant(&a)).await, ["a"]);
        assert_eq!(read(Reach::Tenants(&TenantList::new([&a, &b]))).await, ["a", "b"]);
        assert_eq!(read(Reach::All).await, ["a", "b"]);
        for reach in [Reach::Nothing, Reach::Journal, Reach::Tenants(&TenantList::new([]))] {
            assert_eq!(read(reach).await, Vec::<String>::new(), "{reach:?}");
        }
        let mut batch = store.open_batch(Duration::from_secs(1), &TenantList::new([&a])).await.expect("a batch");
        for change in ["UPDATE bursar.holds SET state = 9", "UPDATE bursar.scopes SET version = 9"] {
            let changed = sqlx::raw_sql(change).execute(batch.conn()).await.expect("it works");
            assert_eq!(changed.rows_affected(), 1, "{change}");
        }
        let insert = "INSERT INTO bursar.scopes (tenant, scope, version, state) VALUES ('b', 'new', 1, '')";
        let refused = sqlx::raw_sql(insert).execute(batch.conn()).await.expect_err("another tenant");
        assert!(refused.to_string().contains("row-level security"), "{refused}");
    }

    #[test]
    fn no_name_breaks_out_of_the_list() {
        let names = ["it's", "back\\slash", "a,b", "{x}", "'; DROP TABLE bursar.scopes; --"].map(tenant);
        let list = TenantList::new(&names);
        assert_eq!(list.as_str().split(SEPARATOR).count(), names.len());
        assert!(Tenant::new("a\u{1f}b").is_err());
        assert_eq!(literal("it's\\"), "E'it''s\\\\'");
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
    }
}
