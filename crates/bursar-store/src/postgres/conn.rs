//! The connection that every statement of this engine goes through, on a server or on a pooler.
//!
//! On a server the driver gives each statement a name and prepares it once. A pooler in transaction mode, such as PgBouncer, gives each
//! transaction any of its connections to the server. What belongs to a session (a named statement, a setting, a channel, an advisory lock)
//! would stay on a connection that other clients use. So with [`PostgresOptions::pooled`](super::PostgresOptions::pooled):
//! - Statements have no name.
//! - Every statement runs in a transaction. The driver parses a statement in one round trip and executes it in the next, and the pooler
//!   may change the connection in between. A statement outside of a transaction gets one of its own ([`Mode::Alone`]).
//! - The driver looks up types that it does not know, by a query after which the server has forgotten the statement without a name. So a
//!   new connection learns these types first ([`learn_types`]).
//! - No startup parameter is sent that PgBouncer rejects.
//!
//! `LISTEN` and the advisory lock of listeners need a session, so they need a direct connection ([`Servers::direct`]).
//!
//! A server that loses its network or its power closes no connection, and the driver waits for an answer without end. So
//! `connection_watch` bounds each statement on a connection of a pool and each check of an idle one; a batch bounds itself.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use sqlx::error::BoxDynError;
use sqlx::postgres::{
    PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgQueryResult, PgRow, PgStatement, PgTypeInfo,
};
use sqlx::{Connection, Either, Error, Execute, Executor, PgConnection, Postgres, SqlSafeStr, SqlStr, Transaction};

use super::connection_watch::{Acquired, Distrust, Tx, Watch, checked};
use super::pg_types::{CtidArrayByName, CtidByName};
use super::{PostgresOptions, READ_COMMITTED};
use crate::error::StoreError;
use crate::postgres::error::{redacted, store_error};

/// A connection that its caller owns, and how statements run on it.
#[derive(Debug)]
pub(super) struct Conn<'c> {
    conn: &'c mut PgConnection,
    mode: Mode,
    /// Bounds its statements; `None` if the caller does.
    watch: Option<Watch<'c>>,
}

/// How statements run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// With a name, prepared once. The connection is direct.
    Named,
    /// Without a name, in the open transaction. The connection may be one to a pooler.
    Unnamed,
    /// Without a name, each in a transaction of its own. The connection may be one to a pooler.
    Alone,
}

impl<'c> Conn<'c> {
    /// A connection with an open transaction.
    pub(super) fn in_transaction(conn: &'c mut PgConnection, pooled: bool) -> Conn<'c> {
        Conn { conn, mode: if pooled { Mode::Unnamed } else { Mode::Named }, watch: None }
    }

    /// A connection without an open transaction.
    pub(super) fn idle(conn: &'c mut PgConnection, pooled: bool) -> Conn<'c> {
        Conn { conn, mode: if pooled { Mode::Alone } else { Mode::Named }, watch: None }
    }

    pub(super) fn watched(self, watch: Watch<'c>) -> Conn<'c> {
        Conn { watch: Some(watch), ..self }
    }

    pub(super) fn reborrow(&mut self) -> Conn<'_> {
        Conn { conn: self.conn, mode: self.mode, watch: self.watch }
    }

    /// Begins a transaction on an idle connection.
    pub(super) async fn begin(&mut self, statement: impl SqlSafeStr) -> Result<BorrowedTx<'_>, Error> {
        let (pooled, watch) = (self.mode != Mode::Named, self.watch);
        let tx = self.conn.begin_with(statement);
        let tx = match watch {
            Some(watch) => watch.future(tx).await?,
            None => tx.await?,
        };
        Ok(BorrowedTx { tx, pooled, watch })
    }
}

pub(super) type Step = Either<PgQueryResult, PgRow>;

impl<'c> Executor<'c> for Conn<'c> {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let steps = match self.mode {
            Mode::Named => self.conn.fetch_many(query),
            Mode::Unnamed => self.conn.fetch_many(Unnamed::from(query)),
            Mode::Alone => {
                let steps = stream::once(run_alone(self.conn, Unnamed::from(query)));
                steps.map_ok(|steps| stream::iter(steps.into_iter().map(Ok))).try_flatten().boxed()
            }
        };
        match self.watch {
            Some(watch) => watch.stream(steps),
            None => steps,
        }
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let row: BoxFuture<'e, Result<Option<PgRow>, Error>> = match self.mode {
            Mode::Named => self.conn.fetch_optional(query),
            Mode::Unnamed => self.conn.fetch_optional(Unnamed::from(query)),
            Mode::Alone => {
                let query = Unnamed::from(query);
                Box::pin(async move { Ok(run_alone(self.conn, query).await?.into_iter().find_map(Either::right)) })
            }
        };
        match self.watch {
            Some(watch) => Box::pin(watch.future(row)),
            None => row,
        }
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'c: 'e,
    {
        match self.mode {
            Mode::Named => self.conn.prepare_with(sql, parameters),
            Mode::Unnamed | Mode::Alone => {
                Box::pin(async { Err(Error::Protocol("a pooled connection prepares no statement".into())) })
            }
        }
    }
}

impl<'c> Executor<'c> for &'c mut Conn<'_> {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        self.reborrow().fetch_many(query)
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        self.reborrow().fetch_optional(query)
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'c: 'e,
    {
        self.reborrow().prepare_with(sql, parameters)
    }
}

/// A statement that gets no name.
struct Unnamed {
    sql: SqlStr,
    /// `None` for text that may hold several statements, which the server parses and executes in one round trip.
    arguments: Result<Option<PgArguments>, BoxDynError>,
}

impl Unnamed {
    fn from<'q>(mut query: impl Execute<'q, Postgres>) -> Unnamed {
        let arguments = query.take_arguments();
        Unnamed { sql: query.sql(), arguments }
    }
}

impl Execute<'_, Postgres> for Unnamed {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&PgStatement> {
        None
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        std::mem::replace(&mut self.arguments, Ok(None))
    }

    fn persistent(&self) -> bool {
        false
    }
}

/// Runs a statement in a transaction of its own.
async fn run_alone(conn: &mut PgConnection, query: Unnamed) -> Result<Vec<Step>, Error> {
    if matches!(query.arguments, Ok(None)) {
        return conn.fetch_many(query).try_collect().await;
    }
    let mut tx = conn.begin_with(READ_COMMITTED).await?;
    match (&mut *tx).fetch_many(query).try_collect().await {
        Ok(steps) => tx.commit().await.map(|()| steps),
        Err(error) => {
            // The connection may be lost. The first error says more.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// A transaction on a connection that its caller owns. Dropping it rolls it back.
pub(super) struct BorrowedTx<'t> {
    tx: Transaction<'t, Postgres>,
    pooled: bool,
    watch: Option<Watch<'t>>,
}

impl BorrowedTx<'_> {
    pub(super) fn conn(&mut self) -> Conn<'_> {
        Conn { watch: self.watch, ..Conn::in_transaction(&mut self.tx, self.pooled) }
    }

    pub(super) async fn commit(self) -> Result<(), Error> {
        match self.watch {
            Some(watch) => watch.future(self.tx.commit()).await,
            None => self.tx.commit().await,
        }
    }
}

/// A pool of connections, and whether they go to a pooler.
#[derive(Clone)]
pub(super) struct ConnPool {
    pub(super) pool: PgPool,
    pub(super) pooled: bool,
    /// How long a statement may take.
    answer_within: Duration,
    distrust: Distrust,
}

impl ConnPool {
    pub(super) async fn acquire(&self) -> Result<Acquired, Error> {
        let conn = self.pool.acquire().await?;
        Ok(Acquired::new(conn, self.pooled, self.answer_within, self.distrust.clone()))
    }

    pub(super) async fn begin(&self, statement: impl SqlSafeStr) -> Result<Tx, Error> {
        Tx::begin(self.acquire().await?, statement).await
    }

    /// Closes each connection that exists before it is used again.
    pub(super) fn replace_connections(&self) {
        self.distrust.mark();
    }
}

/// How to connect to an address.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) connect: PgConnectOptions,
    /// Whether a pooler answers at this address.
    pub(super) pooled: bool,
}

impl Server {
    fn new(url: &str, pooled: bool) -> Result<Server, StoreError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(StoreError::BadUrl(redacted(url)));
        }
        let connect: PgConnectOptions = url.parse().map_err(|_| StoreError::BadUrl(redacted(url)))?;
        if !pooled {
            return Ok(Server { connect, pooled });
        }
        if connect.get_options().is_some() {
            return Err(StoreError::Unavailable {
                what: "the database URL has startup options, and a pooler in transaction mode does not pass them on"
                    .into(),
                hint: "remove `options` from the URL, and set them with ALTER ROLE or ALTER DATABASE",
                permanent: true,
                source: None,
            });
        }
        // PgBouncer rejects this parameter. It matters only for floating-point numbers, which Bursar does not use.
        Ok(Server { connect: connect.extra_float_digits(None), pooled })
    }

    /// Opens a pool. It connects when it is first used.
    pub(super) fn pool(&self, connections: u32, connect_within: Duration, answer_within: Duration) -> ConnPool {
        let distrust = Distrust::default();
        let options = PgPoolOptions::new().max_connections(connections).acquire_timeout(connect_within);
        let mut options = checked(options, connect_within, distrust.clone());
        if self.pooled {
            options = options.after_connect(|conn, _| Box::pin(learn_types(conn)));
        }
        let pool = options.connect_lazy_with(self.connect.clone());
        ConnPool { pool, pooled: self.pooled, answer_within, distrust }
    }
}

/// The addresses of a database.
#[derive(Clone)]
pub(super) struct Servers {
    /// For all work that a pooler can serve.
    pub(super) main: Server,
    /// For work that needs a session, or that a task does while it has another connection; `None` if there is only a pooler.
    pub(super) direct: Option<Server>,
}

impl Servers {
    pub(super) fn new(url: &str, options: &PostgresOptions) -> Result<Servers, StoreError> {
        let main = Server::new(url, options.pooled)?;
        let direct = match &options.direct_url {
            Some(url) => Some(Server::new(url, false)?),
            None if options.pooled => None,
            None => Some(main.clone()),
        };
        Ok(Servers { main, direct })
    }

    /// The address for short statements of a task that has a connection already.
    pub(super) fn side(&self) -> &Server {
        self.direct.as_ref().unwrap_or(&self.main)
    }
}

/// Shows neither address: they may contain passwords.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("pooled", &self.main.pooled).finish_non_exhaustive()
    }
}

/// Makes the driver look up the types of locations of rows, which it does not know.
async fn learn_types(conn: &mut PgConnection) -> Result<(), Error> {
    let statement = sqlx::query("SELECT 1 WHERE $1 IS NULL AND $2 IS NULL");
    let statement = statement.bind(None::<CtidByName>).bind(None::<CtidArrayByName>);
    Conn::idle(conn, true).execute(statement).await.map(drop)
}

/// Checks that the direct URL names the database that the pooler serves.
pub(super) async fn check_same_database(main: &ConnPool, direct: &ConnPool) -> Result<(), StoreError> {
    let name = "SELECT current_database()::text, (SELECT system_identifier FROM pg_control_system())";
    let name = async |pool: &ConnPool| -> Result<(String, i64), Error> {
        sqlx::query_as(name).fetch_one(pool.acquire().await?.conn()).await
    };
    let (main, direct) = (name(main).await.map_err(store_error)?, name(direct).await.map_err(store_error)?);
    if main == direct {
        return Ok(());
    }
    Err(StoreError::Unavailable {
        what: format!("the direct URL leads to another database, {} and not {}", direct.0, main.0),
        hint: "let postgres.direct_url name the server and the database behind the pooler",
        permanent: true,
        source: None,
    })
}
