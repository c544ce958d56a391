//! An instance of Bursar on either database.

use std::sync::Arc;
use std::time::Duration;

use bursar::sqlx::{Connection, PgConnection};
use bursar::{Budget, Bursar, Error, Limit, ManualClock, Notices, Options, Time, Window, sqlx};

/// Bursar on a database of its own, with a manual clock.
pub(crate) struct Home {
    pub(crate) bursar: Bursar,
    pub(crate) clock: Arc<ManualClock>,
    /// The URL, if the database is PostgreSQL.
    pub(crate) postgres: Option<String>,
    /// The URL.
    pub(crate) url: String,
}

/// Runs each test on both databases.
macro_rules! on_both_engines {
    ($($name:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::home::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::home::postgres()).await;
            })*
        }
    };
}
pub(crate) use on_both_engines;

/// The URL of a new database.
pub(crate) struct Place {
    url: String,
    postgres: bool,
}

pub(crate) fn sqlite() -> Place {
    Place { url: "sqlite::memory:".into(), postgres: false }
}

pub(crate) fn postgres() -> Place {
    Place { url: bursar_testkit::fresh_database(), postgres: true }
}

impl Place {
    pub(crate) fn is_postgres(&self) -> bool {
        self.postgres
    }

    /// Opens it without maintenance.
    pub(crate) async fn open(self) -> Home {
        self.open_with(|options| options).await
    }

    /// Opens it with other settings.
    pub(crate) async fn open_with(self, set: impl FnOnce(Options) -> Options) -> Home {
        let clock = Arc::new(ManualClock::at(Time::from_micros(1_800_000_000_000_000)));
        let options = Bursar::options(&self.url).clock(clock.clone()).upkeep(None);
        let bursar = set(options).open().await.unwrap();
        Home { bursar, clock, postgres: self.postgres.then(|| self.url.clone()), url: self.url }
    }

    /// A SQLite database in a file of a folder instead of in memory, so that it can be opened twice.
    pub(crate) fn in_folder(self, folder: &std::path::Path) -> Place {
        if self.postgres {
            return self;
        }
        Place { url: format!("sqlite://{}", folder.join("bursar.db").display()), postgres: false }
    }
}

impl Home {
    /// Runs a statement of the application, or one that damages a row.
    pub(crate) async fn sql(&self, sql: impl Into<String>) {
        let sql = sql.into();
        if self.postgres.is_some() {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut self.connect().await).await.unwrap();
        } else {
            let run = move |tx: &mut bursar::Transaction<'_, '_>| {
                tx.connection().execute_batch(&sql).unwrap();
                Ok::<(), Error>(())
            };
            self.bursar.transaction(run).await.unwrap();
        }
    }

    /// Counts the rows of one of Bursar's tables.
    pub(crate) async fn count(&self, table: &str) -> i64 {
        if self.postgres.is_some() {
            let sql = format!("SELECT count(*) FROM bursar.{table}");
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&mut self.connect().await).await.unwrap()
        } else {
            let sql = format!("SELECT count(*) FROM bursar_{table}");
            let run = move |tx: &mut bursar::Transaction<'_, '_>| {
                Ok::<i64, Error>(tx.connection().query_row(&sql, [], |row| row.get(0)).unwrap())
            };
            self.bursar.transaction(run).await.unwrap()
        }
    }

    /// Returns the name of one of Bursar's tables on this database.
    pub(crate) fn table(&self, name: &str) -> String {
        if self.postgres.is_some() { format!("bursar.{name}") } else { format!("bursar_{name}") }
    }

    /// Opens a connection of the application.
    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(self.postgres.as_ref().expect("the database is PostgreSQL")).await.unwrap()
    }

    /// Defines budgets with a lifetime limit and no shortest time to live.
    pub(crate) async fn budgets(&self, scopes: &[&str]) {
        for scope in scopes {
            let mut budget = Budget::new([Limit::new(1_000_000, Window::Lifetime)]);
            budget.hold.ttl_min = bursar::Span::from_millis(1);
            self.bursar.ledger().define(*scope, budget).await.unwrap();
        }
    }
}

/// Returns the kind of the next event.
pub(crate) async fn next_kind(notices: &mut Notices) -> &'static str {
    let next = tokio::time::timeout(Duration::from_secs(60), notices.next());
    next.await.expect("an event within a minute").expect("open").expect("not lagging").event().kind()
}
