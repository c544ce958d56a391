//! `bursar dev`: a demo on a local database, and a server for it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bursar::{Bursar, Context, CredentialClass, Error, GrantState, Payload, Subject};
use bursar_server::{Settings, StartError};
use bursar_wire::problem::Problem;
use clap::Args;
use serde_json::json;

use crate::args::{ConfiguredArgs, GlobalArgs};
use crate::config::{Config, Log};
use crate::demo::lock::FolderLock;
use crate::demo::screen::{self, Activity, Screen};
use crate::demo::{self, Fleet, Speed, tour};
use crate::exit::Exit;
use crate::log;
use crate::output::Output;
use crate::server;
use crate::sqlite_file::create_folder;

/// The arguments of `bursar dev`.
#[derive(Args)]
pub(crate) struct Dev {
    /// Folder of the database, created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "bursar-data")]
    data: PathBuf,
    /// Address to serve on; if the port is taken, the next free one is used
    #[arg(long, value_name = "ADDR", default_value_t = Config::default().listen)]
    listen: SocketAddr,
    /// Serve the database without the demo's agents and workers
    #[arg(long, conflicts_with = "tour")]
    quiet: bool,
    /// Explain budgets, holds, grants and jobs step by step, then exit
    #[arg(long)]
    tour: bool,
}

/// The lifetime of the operator token.
const TOKEN_TTL: Duration = Duration::from_secs(86_400);
/// How often to look for jobs that other processes enqueued. Jobs of this process wake its workers at once, so the demo can
/// do with less work than a server.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// The number of ports that are tried.
const PORTS_MAX: u16 = 100;

/// Serves the demo until the process is stopped, or runs the tour.
pub(crate) async fn run(args: Dev, global: GlobalArgs) -> Result<Exit, Problem> {
    if global.database.is_some() {
        let detail = "`bursar dev` keeps its database in the folder that --data names; to serve another database use `bursar serve --database URL`";
        return Err(Problem::invalid("database".into(), detail));
    }
    let global = global.with_config(Config::default());
    let url = url_in(&args.data);
    if args.tour {
        create_folder(&args.data)?;
        return tour::run(&global, &args.data, &url).await;
    }
    // An address that cannot be used is reported before anything is created.
    let listener = reserve(args.listen)?;
    create_folder(&args.data)?;
    let lock = FolderLock::take(&args.data)?;
    // The demo prints one screen; only what is wrong is added to it.
    log::start(&Log { level: "warn".to_owned(), ..Config::default().log });
    let bursar = global.config.options(&url)?.poll(POLL_EVERY).open().await?;
    let served = serve(&bursar, &args, &global, listener, &lock).await;
    bursar.close().await;
    served.map(|()| Exit::Done)
}

/// Returns the URL of the database in a folder.
fn url_in(data: &Path) -> String {
    format!("sqlite://{}", data.join("bursar.db").display())
}

/// Binds the address, or the next free port. The caller drops the listener when the server binds the address.
fn reserve(wanted: SocketAddr) -> Result<TcpListener, Problem> {
    if !wanted.ip().is_loopback() {
        let detail = "`bursar dev` listens on loopback addresses only, such as 127.0.0.1:7440; to serve other machines use `bursar serve`";
        return Err(Problem::invalid("listen".into(), detail));
    }
    let mut address = wanted;
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && address.port() - wanted.port() < PORTS_MAX => {
                match address.port().checked_add(1) {
                    Some(port) => address.set_port(port),
                    None => return Err(server::start_problem(StartError::Listen(wanted, error))),
                }
            }
            Err(error) => return Err(server::start_problem(StartError::Listen(address, error))),
        }
    }
}

/// Serves the database with an operator token of its own, and runs the fleet if the database is the demo's.
async fn serve(
    bursar: &Bursar,
    args: &Dev,
    global: &ConfiguredArgs,
    listener: TcpListener,
    lock: &FolderLock,
) -> Result<(), Problem> {
    let url = &url_in(&args.data);
    let out = Output::new(global.json);
    let tenant = global.tenant.clone().unwrap_or_default();
    let company = bursar.in_context(Context::of(tenant.clone()));
    let activity = match args.quiet {
        true => Activity::Quiet,
        false if demo::may_write_to(&company).await? => Activity::Fleet,
        false => Activity::UserData,
    };
    let fleet = match activity {
        Activity::Fleet => Some(Fleet::start(&company, Speed::USUAL).await?),
        Activity::Quiet | Activity::UserData => None,
    };
    let served = match operator_token(bursar).await {
        Ok(token) => {
            let listen = listener.local_addr().unwrap_or(args.listen);
            let taken = Some(args.listen.port()).filter(|port| *port != 0 && *port != listen.port());
            let (command, program) = (screen::command_on(url, &tenant), screen::program());
            let blobs = Some(global.config.blobs.open(url)?);
            let settings = Settings { blobs, ..Settings::default() };
            let code = settings.login_codes.issue(&token).unwrap_or_default();
            drop(listener);
            let show = |address| {
                lock.publish(address);
                let screen = Screen {
                    address,
                    taken,
                    token: &token,
                    code: &code,
                    file: &args.data.join("bursar.db"),
                    command: &command,
                    program: &program,
                    fleet: activity,
                };
                show(out, &screen, url);
            };
            server::run(bursar, listen, settings, out, show).await
        }
        Err(error) => Err(error.into()),
    };
    if let Some(fleet) = fleet {
        fleet.stop().await;
    }
    served
}

/// Creates the operator token of this start. Those of earlier starts are revoked, so that a folder has one at a time.
async fn operator_token(bursar: &Bursar) -> Result<String, Error> {
    let (class, subject, credentials) = (CredentialClass::Operator, Subject::new("dev")?, bursar.credentials());
    for old in credentials.list(class, None, 1_000).await? {
        if old.subject == subject && old.state == GrantState::Open {
            credentials.revoke(old.id, None).await?;
        }
    }
    let issued = credentials.issue(class, subject, Payload::default(), Some(TOKEN_TTL), None).await?;
    Ok(issued.token.unwrap_or_default())
}

/// Prints the screen, or with `--json` the same as data.
fn show(out: Output, screen: &Screen<'_>, url: &str) {
    if !out.is_json() {
        out.note(&screen.text());
        return;
    }
    let data = json!({
        "address": screen.address.to_string(),
        "token": screen.token,
        "login": screen::login_link(screen.address, screen.code),
        "database": url,
        "fleet": screen.fleet == Activity::Fleet,
    });
    // The server runs whether or not its caller reads this line.
    let _ = out.json_line(&data);
}
