//! What a command runs with: a client, a tenant and the output.
//!
//! The client talks to a remote server, or to the same routes in this process over a database. Both answer alike, so
//! each command is written once.

use bursar::{Actor, Bursar, IdempotencyKey, Tenant};
use bursar_client::Client;
use bursar_server::Local;
use bursar_wire::problem::{Kind, Problem};

use crate::args::{ConfiguredArgs, GlobalArgs};
use crate::in_process::InProcess;
use crate::output::Output;
use crate::sqlite_file::{prepare_folder, require_file, sqlite_path};
use crate::target::{self, Target};

/// What a command does with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It only reads.
    Read,
    /// It may write.
    Write,
}

/// What a command runs with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) tenant: Tenant,
    pub(crate) out: Output,
    bursar: Option<Bursar>,
}

impl Context {
    /// Connects to the server or opens the database that the arguments name. A command that only reads needs no permission to write a
    /// SQLite file.
    pub(crate) async fn open(args: GlobalArgs, access: Access) -> Result<Context, Problem> {
        match target::choose(&args)? {
            Target::Server { url, token } => Context::remote(&args, &url, token),
            Target::Database => {
                let args = args.load_config()?;
                match Context::on_database(&args).await {
                    Err(problem) if access == Access::Read && problem.kind == Kind::Unusable => {
                        // If the file cannot be read either, the first problem is the one to report.
                        Context::on_read_only_file(&args).await.map_err(|_| problem)
                    }
                    opened => opened,
                }
            }
        }
    }

    /// Opens an existing SQLite file for reading only.
    pub(crate) async fn on_read_only_file(args: &ConfiguredArgs) -> Result<Context, Problem> {
        let url = args.config.database.url();
        if sqlite_path(url).is_none_or(|path| !path.exists()) {
            return Err(Problem::new(Kind::Unusable, "there is no SQLite file"));
        }
        let options = args.config.options(url)?.read_only(true).upkeep(None);
        Context::over(&options.open().await?, url, args)
    }

    /// Opens an existing database without creating or upgrading its tables: a mistyped path must not become a new
    /// database, and reading a budget must not upgrade a schema that other processes use.
    pub(crate) async fn on_database(args: &ConfiguredArgs) -> Result<Context, Problem> {
        require_file(args.config.database.url())?;
        Context::start(args, args.config.database.url(), false).await
    }

    /// Opens a database, creating or upgrading its tables.
    pub(crate) async fn migrate(args: &ConfiguredArgs, url: &str) -> Result<Context, Problem> {
        prepare_folder(url)?;
        Context::start(args, url, true).await
    }

    async fn start(args: &ConfiguredArgs, url: &str, migrate: bool) -> Result<Context, Problem> {
        // A short-lived command runs no background maintenance.
        let bursar = args.config.options(url)?.migrate(migrate).upkeep(None).open().await?;
        Context::over(&bursar, url, args)
    }

    fn over(bursar: &Bursar, url: &str, args: &ConfiguredArgs) -> Result<Context, Problem> {
        let name = std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "operator".to_owned());
        let tenant = args.tenant.clone().unwrap_or_default();
        let meter = Some(args.config.meter.settings());
        let invalid = |error: bursar::meter::MeterError| Problem::invalid("meter".into(), format!("meter: {error}"));
        let local = InProcess::new(
            Local::new(bursar.clone(), name.clone(), meter, Some(args.config.blobs.open(url)?)).map_err(invalid)?,
        );
        // A call inside the process cannot be lost on the way, so it is not retried.
        let client = Client::over(local, "http://in-process")?.once().tenant(tenant.clone());
        let bursar = bursar.in_context(bursar::Context::of(tenant.clone()).by(Actor::User(name)));
        Ok(Context { client, tenant, out: Output::new(args.json), bursar: Some(bursar) })
    }

    fn remote(args: &GlobalArgs, url: &str, token: Option<String>) -> Result<Context, Problem> {
        let invalid = |invalid: bursar::Invalid| Problem::invalid("server".into(), format!("--server: {invalid}"));
        let mut client = Client::new(url).map_err(invalid)?.within(args.timeout.into());
        if let Some(token) = token {
            client = client.token(token);
        }
        if let Some(tenant) = &args.tenant {
            client = client.tenant(tenant.clone());
        }
        let tenant = args.tenant.clone().unwrap_or_default();
        Ok(Context { client, tenant, out: Output::new(args.json), bursar: None })
    }

    /// Returns the open database. Fails on a server, for operations that it does not offer.
    pub(crate) fn bursar(&self) -> Result<&Bursar, Problem> {
        self.bursar.as_ref().ok_or_else(target::database_only)
    }

    /// Returns a client that sends the idempotency key, if there is one.
    pub(crate) fn keyed(&self, key: Option<IdempotencyKey>) -> Client {
        match key {
            Some(key) => self.client.key(key),
            None => self.client.clone(),
        }
    }

    /// Closes the database, if one is open.
    pub(crate) async fn close(self) {
        if let Some(bursar) = self.bursar {
            bursar.close().await;
        }
    }
}
