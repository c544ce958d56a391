//! Where to ask: a server or a database, as the options and the environment say.

use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::args::Asked;
use crate::config::value_in;
use bursar_server::wire::problem::Problem;

/// Whom to ask.
pub(crate) enum Whom {
    /// A server.
    Server {
        /// Where.
        url: String,
        /// Who asks.
        token: Option<String>,
    },
    /// The database.
    Database,
}

/// How a place was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Said {
    /// Not at all.
    #[default]
    Nowhere,
    /// By the environment.
    Environment,
    /// By an option.
    Option,
}

impl Said {
    /// How an argument was said.
    pub(crate) fn of(matches: &ArgMatches, argument: &str) -> Said {
        match matches.value_source(argument) {
            Some(ValueSource::CommandLine) => Said::Option,
            Some(ValueSource::EnvVariable) => Said::Environment,
            _ => Said::Nowhere,
        }
    }
}

/// Whom to ask: what an option says goes before the environment, and two that are said alike are a mistake.
pub(crate) fn whom(asked: &Asked) -> Result<Whom, Problem> {
    let server_said = server_said(asked);
    if server_said == Said::Nowhere || server_said < database_said(asked) {
        return Ok(Whom::Database);
    }
    if server_said == database_said(asked) {
        let detail = match server_said {
            Said::Option => "say either --server or --database",
            _ => "both BURSAR_SERVER and BURSAR_DATABASE are set: say which with --server or --database",
        };
        return Err(Problem::invalid("server".into(), detail));
    }
    let url = match &asked.server {
        Some(url) => url.clone(),
        None => value_of_file("BURSAR_SERVER_FILE")?.unwrap_or_default(),
    };
    Ok(Whom::Server { url, token: token(asked)? })
}

/// How the database was said. What a file of the configuration says is for whoever says nothing else.
fn database_said(asked: &Asked) -> Said {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match &asked.database {
        Some(_) => Said::Option,
        None if set("BURSAR_DATABASE") || set("BURSAR_DATABASE_FILE") => Said::Environment,
        None => Said::Nowhere,
    }
}

/// How a server was said, if it was.
fn server_said(asked: &Asked) -> Said {
    match std::env::var_os("BURSAR_SERVER_FILE").is_some_and(|path| !path.is_empty()) {
        true => asked.server_said.max(Said::Environment),
        false => asked.server_said,
    }
}

/// Refuses a server where only the database itself will do.
pub(crate) fn needs_database(asked: &Asked) -> Result<(), Problem> {
    match server_said(asked) > database_said(asked) {
        true => Err(only_on_a_database()),
        false => Ok(()),
    }
}

/// Refuses a server where one is started: what the environment says is for others.
pub(crate) fn is_no_client(asked: &Asked) -> Result<(), Problem> {
    match asked.server_said {
        Said::Option => Err(only_on_a_database()),
        Said::Environment | Said::Nowhere => Ok(()),
    }
}

/// What no server does for others.
pub(crate) fn only_on_a_database() -> Problem {
    let detail = "this works on the database itself and not over a server: say --database instead of --server";
    Problem::invalid("server".into(), detail)
}

fn token(asked: &Asked) -> Result<Option<String>, Problem> {
    match (&asked.token, value_of_file("BURSAR_TOKEN_FILE")?) {
        (Some(token), None) => Ok(Some(token.clone())),
        (Some(token), Some(_)) if asked.token_said == Said::Option => Ok(Some(token.clone())),
        (Some(_), Some(_)) => {
            Err(Problem::invalid("token".into(), "set either BURSAR_TOKEN or BURSAR_TOKEN_FILE, not both"))
        }
        (None, token) => Ok(token),
    }
}

/// What is in the file that a variable names.
fn value_of_file(name: &str) -> Result<Option<String>, Problem> {
    let Some(path) = std::env::var_os(name).filter(|path| !path.is_empty()) else { return Ok(None) };
    let value = value_in(Path::new(&path));
    value.map(Some).map_err(|wrong| Problem::invalid(name.to_owned(), format!("{name}: {wrong}")))
}
