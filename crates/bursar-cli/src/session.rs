//! A session: whom to ask, and for whom.
//!
//! Every command asks the same client. Behind it is a server somewhere else, or the same routes in this process over a database: so
//! both answer alike, and no command is written twice.

use std::path::Path;
use std::time::Duration;

use bursar::{Actor, Bursar, Context, IdempotencyKey, Tenant};
use bursar_client::{Body, Bytes, Client, Request, Response, Transport, TransportError};
use bursar_server::Local;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;

use crate::args::{Asked, Global};
use crate::config::DATABASE_DEFAULT;
use crate::output::Output;
use crate::place::{self, Whom};
use bursar_server::wire::problem::{Kind, Problem};

/// Whom to ask, and the circumstances of this call.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) tenant: Tenant,
    pub(crate) out: Output,
    bursar: Option<Bursar>,
}

impl Session {
    /// Whoever is said: a server, or a database.
    pub(crate) async fn open(asked: Asked) -> Result<Session, Problem> {
        match place::whom(&asked)? {
            Whom::Server { url, token } => Session::remote(&asked, &url, token),
            Whom::Database => Session::on_database(&asked.resolve()?).await,
        }
    }

    /// Opens the database as it is. Tables are made and upgraded only when that is asked for: a mistyped address must
    /// not become a new database, and a look at a budget must not upgrade what others are using.
    pub(crate) async fn on_database(global: &Global) -> Result<Session, Problem> {
        if let Some(path) = sqlite_path(global.config.database.url()).filter(|path| !path.exists()) {
            let hint = "`bursar migrate` makes it, `bursar dev` makes one with a demo in ./bursar-data";
            let detail = format!("unavailable: there is no database at {}; {hint}", path.display());
            return Err(Problem::new(Kind::Unavailable, detail));
        }
        Session::start(global, global.config.database.url(), false).await
    }

    /// Opens the database, making or upgrading its tables.
    pub(crate) async fn prepare(global: &Global, url: &str) -> Result<Session, Problem> {
        make_default_folder(url)?;
        Session::start(global, url, true).await
    }

    async fn start(global: &Global, url: &str, migrate: bool) -> Result<Session, Problem> {
        // A short call tidies nothing in the background: it would do what nobody asked for.
        let bursar = global.config.options(url).migrate(migrate).upkeep(None).open().await?;
        let name = std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "operator".to_owned());
        let tenant = global.tenant.clone().unwrap_or_default();
        let meter = global.config.meter.clone();
        let wrong = |error: bursar::meter::MeterError| Problem::invalid("meter".into(), format!("meter: {error}"));
        let local = InProcess(Local::new(bursar.clone(), name.clone(), meter).map_err(wrong)?);
        // A call that cannot be lost is tried once.
        let client = Client::over(local, "http://in-process")?.once().tenant(tenant.clone());
        let bursar = bursar.in_context(Context::of(tenant.clone()).by(Actor::User(name)));
        Ok(Session { client, tenant, out: Output::new(global.json), bursar: Some(bursar) })
    }

    fn remote(asked: &Asked, url: &str, token: Option<String>) -> Result<Session, Problem> {
        let wrong = |invalid: bursar::Invalid| Problem::invalid("server".into(), format!("--server: {invalid}"));
        let mut client = Client::new(url).map_err(wrong)?.within(Duration::from_millis(asked.timeout_ms));
        if let Some(token) = token {
            client = client.token(token);
        }
        if let Some(tenant) = &asked.tenant {
            client = client.tenant(tenant.clone());
        }
        let tenant = asked.tenant.clone().unwrap_or_default();
        Ok(Session { client, tenant, out: Output::new(asked.json), bursar: None })
    }

    /// The database itself, for what no server does for others.
    pub(crate) fn bursar(&self) -> Result<&Bursar, Problem> {
        self.bursar.as_ref().ok_or_else(place::only_on_a_database)
    }

    /// Asks once, however often under the same key.
    pub(crate) fn keyed(&self, key: Option<IdempotencyKey>) -> Client {
        match key {
            Some(key) => self.client.key(key),
            None => self.client.clone(),
        }
    }

    /// Ends what runs in the background.
    pub(crate) async fn close(self) {
        if let Some(bursar) = self.bursar {
            bursar.close().await;
        }
    }
}

/// The routes of the server, in this process.
struct InProcess(Local);

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let local = self.0.clone();
        async move {
            let response = local.answer(request.map(Into::into)).await;
            let broken = |error| TransportError { sent: true, source: Box::new(error) };
            Ok(response.map(|body| body.map_err(broken).boxed_unsync()))
        }
        .boxed()
    }
}

/// The file of an embedded database.
pub(crate) fn sqlite_path(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"))?;
    (!path.is_empty() && path != ":memory:").then(|| Path::new(path))
}

/// Makes the folder of the default database. Only that place is this program's own; other folders are somebody's decision.
pub(crate) fn make_default_folder(url: &str) -> Result<(), Problem> {
    match sqlite_path(url).and_then(Path::parent) {
        Some(folder) if url == DATABASE_DEFAULT => make_folder(folder),
        _ => Ok(()),
    }
}

/// Makes a folder, and those it is in.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let detail = format!("unavailable: the folder {} cannot be made ({error}); choose another", folder.display());
        Problem::new(Kind::Unavailable, detail)
    })
}
