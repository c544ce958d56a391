//! `bursar serve`: everything over HTTP, until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;

use bursar::Bursar;
use bursar_server::wire::problem::{Kind, Problem};
use bursar_server::{JwtKey, JwtRules, Server, Settings, StartError};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{DATABASE_DEFAULT, Global};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{make_folder, sqlite_path};

/// Where to listen unless it is said.
pub(crate) const LISTEN_DEFAULT: &str = "127.0.0.1:7440";

/// How to serve.
#[derive(Args)]
#[command(after_help = "\
Secrets come from the environment, or from files named there:
  BURSAR_OPERATOR_TOKEN   the operator's token; on loopback one is made at the first start and shown once
  BURSAR_JWT_SECRET       what tokens of users are signed with (HS256)
  BURSAR_JWT_PUBLIC_KEY   the same as a PEM file's text (RS256, EdDSA)
  BURSAR_JWT_ISSUER, BURSAR_JWT_AUDIENCE   what such tokens must say
Each of them, BURSAR_DATABASE and BURSAR_LISTEN also as …_FILE, with the path of a file that has the value.")]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", env = "BURSAR_LISTEN")]
    listen: Option<SocketAddr>,
    /// Use the tables as they are, and fail where they are not up to date
    #[arg(long)]
    no_migrate: bool,
    /// How the log on standard error looks
    #[arg(long, value_name = "FORM", value_enum, default_value_t = LogForm::Text)]
    log: LogForm,
}

/// How the log looks.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogForm {
    /// Lines for people
    Text,
    /// One object a line
    Json,
}

/// Serves until it is told to stop.
pub(crate) async fn run(args: Serve, global: &Global) -> Result<Exit, Problem> {
    log_to_stderr(args.log);
    let database = match given("BURSAR_DATABASE_FILE")? {
        Some(path) if global.database == DATABASE_DEFAULT => read_file("BURSAR_DATABASE_FILE", &path)?,
        _ => global.database.clone(),
    };
    let listen = match (args.listen, given("BURSAR_LISTEN_FILE")?) {
        (Some(listen), _) => listen,
        (None, Some(path)) => address(&read_file("BURSAR_LISTEN_FILE", &path)?)?,
        (None, None) => address(LISTEN_DEFAULT)?,
    };
    let settings = settings()?;
    if database == DATABASE_DEFAULT
        && let Some(folder) = sqlite_path(&database).and_then(std::path::Path::parent)
    {
        make_folder(folder)?;
    }
    let bursar = Bursar::options(&database).migrate(!args.no_migrate).open().await?;
    let served = serve(&bursar, listen, settings, Output::new(global.json), |_| {}).await;
    bursar.close().await;
    served
}

/// Serves on an open database until it is told to stop; `ready` is told where.
pub(crate) async fn serve(
    bursar: &Bursar,
    listen: SocketAddr,
    settings: Settings,
    out: Output,
    ready: impl FnOnce(SocketAddr),
) -> Result<Exit, Problem> {
    let failed = |error: std::io::Error| Problem::new(Kind::Internal, format!("signals cannot be heard: {error}"));
    let mut ended = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let server = Server::bind(bursar.clone(), listen, settings).await.map_err(told)?;
    let address = server.address();
    // Whoever started it reads this line to learn the port, so that it is written at once.
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "listening on http://{address}").and_then(|()| stdout.flush());
    if let Some(token) = server.operator_token() {
        out.note(&format!("The operator's token, made at this first start and shown this once:\n  {token}"));
    }
    ready(address);
    let stop = async move {
        tokio::select! {
            _ = ended.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    server.run(stop).await;
    Ok(Exit::Done)
}

fn told(error: StartError) -> Problem {
    match error {
        StartError::Bursar(error) => error.into(),
        StartError::Listen(..) => Problem::new(Kind::Unavailable, error.to_string()),
        other => Problem::invalid("listen".into(), other.to_string()),
    }
}

/// What the environment says.
fn settings() -> Result<Settings, Problem> {
    let mut jwt_keys = Vec::new();
    let wrong = |name: &str, error: bursar_server::JwtError| Problem::invalid(name.into(), format!("{name}: {error}"));
    if let Some(secret) = value("BURSAR_JWT_SECRET")? {
        jwt_keys.push(JwtKey::secret(secret.as_bytes()).map_err(|error| wrong("BURSAR_JWT_SECRET", error))?);
    }
    if let Some(pem) = value("BURSAR_JWT_PUBLIC_KEY")? {
        jwt_keys.push(JwtKey::public(&pem).map_err(|error| wrong("BURSAR_JWT_PUBLIC_KEY", error))?);
    }
    Ok(Settings {
        operator_token: value("BURSAR_OPERATOR_TOKEN")?,
        jwt_keys,
        jwt_rules: JwtRules { issuer: value("BURSAR_JWT_ISSUER")?, audience: value("BURSAR_JWT_AUDIENCE")? },
        ..Settings::default()
    })
}

/// A value of the environment, or of the file that `…_FILE` names.
fn value(name: &str) -> Result<Option<String>, Problem> {
    let file = format!("{name}_FILE");
    match (given(name)?, given(&file)?) {
        (Some(_), Some(_)) => Err(Problem::invalid(name.into(), format!("set either {name} or {file}, not both"))),
        (Some(value), None) => Ok(Some(value)),
        (None, Some(path)) => read_file(&file, &path).map(Some),
        (None, None) => Ok(None),
    }
}

fn given(name: &str) -> Result<Option<String>, Problem> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => Err(Problem::invalid(name.into(), format!("{name} is not UTF-8"))),
    }
}

fn read_file(name: &str, path: &str) -> Result<String, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::invalid(name.into(), format!("{name}: {path} cannot be read: {error}")))?;
    Ok(text.trim().to_owned())
}

fn address(text: &str) -> Result<SocketAddr, Problem> {
    let wrong = |_| Problem::invalid("listen".into(), format!("{text:?} is not an address such as {LISTEN_DEFAULT}"));
    text.parse().map_err(wrong)
}

/// Starts the log.
pub(crate) fn log_to_stderr(form: LogForm) {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO);
    // A second start in one process keeps the first log.
    let _ = match form {
        LogForm::Text => log.with_ansi(false).try_init(),
        LogForm::Json => log.json().try_init(),
    };
}
