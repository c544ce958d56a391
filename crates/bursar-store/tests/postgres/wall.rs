//! Row-level security: what a transaction sees without a tenant, and of another one.

use std::sync::Arc;

use bursar_core::budget::Limit;
use bursar_core::context::Context;
use bursar_core::name::Tenant;
use bursar_core::request::{Charge, Command, Op, Request, Settle};
use bursar_core::window::Window;
use bursar_store::conformance::checked;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, PostgresOptions, PostgresStore, RequestOutcome, StoreError};
use bursar_testkit::{fresh_database, postgres};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::support::*;

/// The tables without rows of a tenant: the schema version, and ids, positions and segments of the journal.
const WITHOUT_TENANTS: [&str; 4] = ["journal_new", "journal_order", "journal_segments", "meta"];

fn walled() -> PostgresOptions {
    PostgresOptions { role: Some(postgres().app_role().to_owned()), ..PostgresOptions::default() }
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn of(name: &str, request: Request) -> Request {
    request.in_context(Context::of(tenant(name)))
}

/// A hold under a limit.
fn held(name: &str) -> Request {
    let charges = vec![Charge::new(scope(name), 1).within([Limit::new(10, Window::Lifetime)])];
    Op::Submit(Command { charges, settle: Settle::Hold { ttl: None }, ..Command::default() }).into()
}

/// Begins a transaction that is prepared as a store prepares its own.
async fn enter(conn: &mut PgConnection, settings: &str) {
    let role = postgres().app_role();
    run(conn, &format!("BEGIN; SET LOCAL ROLE {role}; {settings}")).await.unwrap();
}

async fn run(conn: &mut PgConnection, sql: &str) -> Result<u64, sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.map(|done| done.rows_affected())
}

async fn count(conn: &mut PgConnection, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM bursar.{table}");
    sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(conn).await.unwrap()
}

/// Inserts a row of the tenant `a` into every table that row-level security covers, so that new tables are covered too. Returns their names.
async fn fill(conn: &mut PgConnection) -> Vec<String> {
    let tables = "SELECT relname::text FROM pg_class WHERE relnamespace = 'bursar'::regnamespace AND relkind = 'r'
        AND relrowsecurity ORDER BY relname IN ('payloads', 'journal'), relname";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut *conn).await.unwrap();
    for table in &tables {
        let columns = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
            WHERE attrelid = ('bursar.' || $1)::regclass AND attnum > 0 AND NOT attisdropped";
        let columns: Vec<(String, String)> = sqlx::query_as(columns).bind(table).fetch_all(&mut *conn).await.unwrap();
        let value = |(name, kind): &(String, String)| match kind.as_str() {
            "text" if name == "tenant" => "'a'",
            "text" => "'[]'",
            "uuid" => "'00000000-0000-0000-0000-000000000001'",
            "bytea" => "''",
            _ => "1",
        };
        let values: Vec<&str> = columns.iter().map(value).collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        run(conn, &format!("INSERT INTO bursar.{table} ({}) VALUES ({})", names.join(", "), values.join(", ")))
            .await
            .unwrap_or_else(|error| panic!("{table}: {error}"));
    }
    tables
}

#[tokio::test]
async fn no_table_shows_or_takes_rows_of_another_tenant() {
    let (store, url) = open_with(1, walled()).await;
    store.close().await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let open = "SELECT relname::text FROM pg_class WHERE relnamespace = 'bursar'::regnamespace AND relkind IN ('r', 'p', 'm', 'v')
        AND NOT relrowsecurity ORDER BY relname";
    let open: Vec<String> = sqlx::query_scalar(open).fetch_all(&mut conn).await.unwrap();
    assert_eq!(open, WITHOUT_TENANTS, "every other table needs a policy");
    let tables = fill(&mut conn).await;
    // Unset, empty, another tenant, a name that contains the first one, and the settings of the owner and of readers of the journal.
    let unseen = [
        "",
        "SET LOCAL bursar.tenants = ''",
        "SET LOCAL bursar.tenants = 'b'",
        "SET LOCAL bursar.tenants = 'a,b'",
        "SET LOCAL bursar.every_tenant = 'on'",
    ];
    for settings in unseen {
        for table in &tables {
            enter(&mut conn, settings).await;
            assert_eq!(count(&mut conn, table).await, 0, "{table} with {settings:?}");
            if table != "journal" {
                assert_eq!(run(&mut conn, &format!("DELETE FROM bursar.{table}")).await.unwrap(), 0, "{table}");
            }
            run(&mut conn, "ROLLBACK").await.unwrap();
        }
    }
    for table in &tables {
        enter(&mut conn, "SET LOCAL bursar.tenants = E'b\\x1fa'; SET LOCAL bursar.journal = 'on'").await;
        assert_eq!(count(&mut conn, table).await, 1, "{table} of its own tenant");
        run(&mut conn, "ROLLBACK").await.unwrap();
    }
    let owned = "SELECT relname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'bursar'::regnamespace AND c.relkind = 'r' AND a.attname = 'tenant'";
    let owned: Vec<String> = sqlx::query_scalar(owned).fetch_all(&mut conn).await.unwrap();
    assert_eq!(owned.len() + 2, tables.len(), "payloads and the journal have no tenant");
    for table in &owned {
        // Moving an own row to another tenant is an insert of a row of that tenant.
        enter(&mut conn, "SET LOCAL bursar.tenants = 'a'").await;
        let moved = run(&mut conn, &format!("UPDATE bursar.{table} SET tenant = 'b'")).await.unwrap_err();
        assert!(moved.to_string().contains("row-level security"), "{table}: {moved}");
        run(&mut conn, "ROLLBACK").await.unwrap();
    }
    for denied in ["DELETE FROM bursar.journal", "TRUNCATE bursar.scopes", "UPDATE bursar.meta SET value = '0'"] {
        enter(&mut conn, "SET LOCAL bursar.journal = 'on'").await;
        let denied = run(&mut conn, denied).await.unwrap_err();
        assert!(denied.to_string().contains("permission denied"), "{denied}");
        run(&mut conn, "ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn a_batch_of_several_tenants_and_all_maintenance_work_behind_the_wall() {
    let (store, url) = open_with(1, walled()).await;
    let requests = ["a", "b", "c'\\d"].map(|name| Arc::new(checked(of(name, post_within("room", 3, 10)))));
    for outcome in store.commit(&requests, LockPolicy::Skip).await.unwrap() {
        assert!(matches!(outcome, RequestOutcome::Answered(Ok(_))), "{outcome:?}");
    }
    for name in ["a", "b", "c'\\d"] {
        let key = (tenant(name), scope("room"));
        assert_eq!(store.scope(&key).await.unwrap().unwrap().balances[0].posted, 3, "{name}");
    }
    assert_eq!(store.list_scope_keys(None, 2).await.unwrap().len(), 2);
    let second = (tenant("b"), scope("room"));
    assert_eq!(store.list_scope_keys(Some(&second), 2).await.unwrap(), [(tenant("c'\\d"), scope("room"))]);
    assert_eq!(store.verify().await.unwrap().scopes, 3);
    assert_eq!(store.rebuild().await.unwrap(), store.health().await.unwrap().position);
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
    let mut conn = PgConnection::connect(&url).await.unwrap();
    assert_eq!(count(&mut conn, "scopes").await, 3);
}

#[tokio::test]
async fn a_callers_transaction_takes_the_role_and_gives_it_back() {
    let (store, url) = open_with(1, walled()).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    run(&mut conn, "BEGIN; SET LOCAL bursar.tenants = 'mine'").await.unwrap();
    for name in ["a", "b"] {
        store.commit_in(&mut conn, &checked(of(name, held("room")))).await.unwrap().unwrap();
    }
    store.lock_scope(&mut conn, &(tenant("c"), scope("room"))).await.unwrap();
    let after = "SELECT current_user = session_user, current_setting('bursar.tenants')";
    let after: (bool, String) = sqlx::query_as(after).fetch_one(&mut conn).await.unwrap();
    assert_eq!(after, (true, "mine".into()));
    run(&mut conn, "COMMIT").await.unwrap();
    for name in ["a", "b"] {
        let key = (tenant(name), scope("room"));
        assert_eq!(store.scope(&key).await.unwrap().unwrap().balances[0].held, 1, "{name}");
    }
}

#[tokio::test]
async fn an_ordinary_owner_can_be_forced_and_a_login_of_the_role_owns_nothing() {
    let url = fresh_database();
    let mut admin = PgConnection::connect(&url).await.unwrap();
    let database = url.rsplit('/').next().unwrap();
    let role = postgres().app_role();
    run(
        &mut admin,
        &format!(
            "CREATE ROLE {database}_owner LOGIN; CREATE ROLE {database}_app LOGIN; GRANT {role} TO {database}_owner;
             ALTER DATABASE {database} OWNER TO {database}_owner"
        ),
    )
    .await
    .unwrap();
    let login = |name: &str| url.replace("postgres@", &format!("{database}_{name}@"));
    // The owner migrates, prepares the role that the server logs in as, and forces the policies.
    let app = format!("{database}_app");
    run(&mut admin, &format!("GRANT {app} TO {database}_owner")).await.unwrap();
    let options = PostgresOptions { role: Some(app), force_row_security: true, ..PostgresOptions::default() };
    PostgresStore::open(&login("owner"), setup(1), options).await.unwrap().close().await;

    // Without a role, the policies now apply to the owner, who names tenants and can still do everything.
    let owner = PostgresStore::open(&login("owner"), setup(2), PostgresOptions::default()).await.unwrap();
    for steps in story() {
        run_steps(&owner, &steps).await;
    }
    assert_eq!(owner.verify().await.unwrap().violations, Vec::<String>::new());
    owner.rebuild().await.unwrap();
    owner.check_can_erase().await.unwrap();
    let mut plain = PgConnection::connect(&login("owner")).await.unwrap();
    assert_eq!(count(&mut plain, "scopes").await, 0, "the owner sees nothing without naming tenants");

    let server = PostgresStore::open(&login("app"), setup(3), PostgresOptions::default()).await.unwrap();
    done(one(&server, &held("new")).await);
    assert!(server.scope(&scope_key("new")).await.unwrap().is_some());
    assert!(server.list_journal(0, 10).await.unwrap().len() > 1);
    for refused in [server.verify().await.err(), server.rebuild().await.err(), server.check_can_erase().await.err()] {
        let refused = refused.unwrap();
        assert!(refused.to_string().contains("does not own the tables"), "{refused}");
    }
}

#[tokio::test]
async fn a_role_that_cannot_be_used_is_refused_with_what_to_do() {
    let url = fresh_database();
    let refusal = async |role: &str| {
        let options = PostgresOptions { role: Some(role.into()), ..PostgresOptions::default() };
        match PostgresStore::open(&url, setup(1), options).await {
            Ok(_) => panic!("{role} was accepted"),
            Err(error @ StoreError::Unavailable { permanent: true, .. }) => error.to_string(),
            Err(error) => panic!("{error:?}"),
        }
    };
    assert!(refusal("no\"such").await.contains("does not exist"));
    assert!(refusal("postgres").await.contains("does not apply"));
}
