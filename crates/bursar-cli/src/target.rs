//! Chooses what a command works on: a server or a database.

use std::path::Path;

use bursar_wire::problem::Problem;

use crate::args::{ArgSource, GlobalArgs};
use crate::config::read_value_file;

/// What a command works on.
pub(crate) enum Target {
    /// A server.
    Server {
        /// The server's base URL.
        url: String,
        /// The bearer token to send.
        token: Option<String>,
    },
    /// The configured database.
    Database,
}

/// Chooses the target. A flag takes precedence over the environment; a server and a database named at the same level
/// are an error.
pub(crate) fn choose(args: &GlobalArgs) -> Result<Target, Problem> {
    let (server, database) = (server_source(args), database_source(args));
    if server == ArgSource::Unset || server < database {
        return Ok(Target::Database);
    }
    if server == database {
        let detail = match server {
            ArgSource::Flag => "--server and --database exclude each other: pass one of them",
            _ => "both BURSAR_SERVER and BURSAR_DATABASE are set: unset one, or choose with --server or --database",
        };
        return Err(Problem::invalid("server".into(), detail));
    }
    let url = match &args.server {
        Some(url) => url.clone(),
        None => value_file_in("BURSAR_SERVER_FILE")?.unwrap_or_default(),
    };
    Ok(Target::Server { url, token: token(args)? })
}

/// Returns where the database was named. The configuration file is only a default, so it does not count.
fn database_source(args: &GlobalArgs) -> ArgSource {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match &args.database {
        Some(_) => ArgSource::Flag,
        None if set("BURSAR_DATABASE") || set("BURSAR_DATABASE_FILE") => ArgSource::Environment,
        None => ArgSource::Unset,
    }
}

/// Returns where the server was named, counting `BURSAR_SERVER_FILE`.
fn server_source(args: &GlobalArgs) -> ArgSource {
    match std::env::var_os("BURSAR_SERVER_FILE").is_some_and(|path| !path.is_empty()) {
        true => args.server_source.max(ArgSource::Environment),
        false => args.server_source,
    }
}

/// Fails if the target is a server, for commands that work on a database only.
pub(crate) fn require_database(args: &GlobalArgs) -> Result<(), Problem> {
    match server_source(args) > database_source(args) {
        true => Err(database_only()),
        false => Ok(()),
    }
}

/// Fails on `--server`, for commands that start a server. `BURSAR_SERVER` is meant for clients and is ignored.
pub(crate) fn forbid_server_flag(args: &GlobalArgs) -> Result<(), Problem> {
    match args.server_source {
        ArgSource::Flag => Err(database_only()),
        ArgSource::Environment | ArgSource::Unset => Ok(()),
    }
}

/// The problem of a database-only command that was pointed at a server.
pub(crate) fn database_only() -> Problem {
    let detail = "this command works on a database, not on a server; pass --database instead of --server";
    Problem::invalid("server".into(), detail)
}

/// Whether a token was given for the server.
pub(crate) fn has_token(args: &GlobalArgs) -> bool {
    token(args).is_ok_and(|token| token.is_some())
}

fn token(args: &GlobalArgs) -> Result<Option<String>, Problem> {
    match (&args.token, value_file_in("BURSAR_TOKEN_FILE")?) {
        (Some(token), None) => Ok(Some(token.clone())),
        (Some(token), Some(_)) if args.token_source == ArgSource::Flag => Ok(Some(token.clone())),
        (Some(_), Some(_)) => {
            Err(Problem::invalid("token".into(), "set either BURSAR_TOKEN or BURSAR_TOKEN_FILE, not both"))
        }
        (None, token) => Ok(token),
    }
}

/// Reads the file that a variable names, if the variable is set.
fn value_file_in(variable: &str) -> Result<Option<String>, Problem> {
    let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else { return Ok(None) };
    let value = read_value_file(Path::new(&path));
    value.map(Some).map_err(|error| Problem::invalid(variable.to_owned(), format!("{variable}: {error}")))
}
