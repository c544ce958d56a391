//! Arguments that several commands share. Commands import this module; it imports none of them.

mod milliseconds;
mod values;

use std::path::PathBuf;

use bursar::{JobId, Span, Tenant};
use bursar_client::JobQuery;
use bursar_wire::problem::Problem;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

pub(crate) use self::milliseconds::as_durations;
pub(crate) use self::values::{
    LIMIT_HELP, WrittenLimit, amount, charge, duration, limit, payload, percent, whole, zone,
};
use crate::config::{Config, FILE_VARIABLE, Flags, load};

/// The options that every command takes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Configuration file [default: ./bursar.toml if it exists]
    #[arg(long, global = true, value_name = "PATH", env = FILE_VARIABLE)]
    pub(crate) config: Option<PathBuf>,
    /// Database: sqlite://PATH or postgres://… [env: BURSAR_DATABASE] [default: sqlite://bursar-data/bursar.db, or that
    /// of the configuration file]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Server to use instead of a database: http://HOST:PORT
    #[arg(long, global = true, value_name = "URL", env = "BURSAR_SERVER")]
    pub(crate) server: Option<String>,
    /// Token for the server; prefer BURSAR_TOKEN or BURSAR_TOKEN_FILE, since other users can see the process list
    #[arg(
        id = "server_token",
        long = "token",
        global = true,
        value_name = "TOKEN",
        env = "BURSAR_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// Time limit of a request to the server, including retries
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Span,
    /// Tenant to work in [default: the built-in tenant]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tenant: Option<Tenant>,
    /// Print results and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where the server's URL came from.
    #[arg(skip)]
    pub(crate) server_source: ArgSource,
    /// Where the token came from.
    #[arg(skip)]
    pub(crate) token_source: ArgSource,
}

/// The global options together with the configuration.
pub(crate) struct ConfiguredArgs {
    pub(crate) config: Config,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) json: bool,
}

impl GlobalArgs {
    /// Loads the configuration from the file, the environment and `--database`.
    pub(crate) fn load_config(self) -> Result<ConfiguredArgs, Problem> {
        let flags = Flags::default().with("database", self.database.as_deref());
        let config = load(self.config.as_deref(), &flags)?.config;
        Ok(self.with_config(config))
    }

    /// Combines the options with a configuration that is already loaded.
    pub(crate) fn with_config(self, config: Config) -> ConfiguredArgs {
        ConfiguredArgs { config, tenant: self.tenant, json: self.json }
    }
}

/// Where the value of an argument came from; a later variant takes precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ArgSource {
    /// The argument has no value.
    #[default]
    Unset,
    /// A variable of the environment.
    Environment,
    /// A flag on the command line.
    Flag,
}

impl ArgSource {
    /// Returns the source of an argument in parsed arguments.
    pub(crate) fn of(matches: &ArgMatches, argument: &str) -> ArgSource {
        match matches.value_source(argument) {
            Some(ValueSource::CommandLine) => ArgSource::Flag,
            Some(ValueSource::EnvVariable) => ArgSource::Environment,
            _ => ArgSource::Unset,
        }
    }
}

/// The moment at which a resource is shown.
#[derive(Args)]
pub(crate) struct PastMoment {
    /// Show it as it was at this time (RFC 3339) or position of the journal
    #[arg(long, value_name = "TIME|POSITION")]
    at: Option<String>,
}

impl PastMoment {
    /// Returns the moment; `None` for now.
    pub(crate) fn get(&self) -> Option<&str> {
        self.at.as_deref()
    }
}

/// The size of a page of a list.
#[derive(Args, Clone, Copy)]
pub(crate) struct PageSize {
    /// Maximum number of items
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = |text: &str| whole::<u16>(text, 1..=1_000))]
    most: u16,
}

impl From<PageSize> for usize {
    fn from(PageSize { most }: PageSize) -> usize {
        usize::from(most)
    }
}

/// A page of a list whose cursor is opaque.
#[derive(Args)]
pub(crate) struct CursorPage {
    /// Start after this cursor: `next` of the previous page
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
    #[command(flatten)]
    pub(crate) most: PageSize,
}

/// A page of jobs.
#[derive(Args)]
pub(crate) struct JobPage {
    /// Start after this job
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,
    #[command(flatten)]
    most: PageSize,
}

impl JobPage {
    /// Restricts a query to this page.
    pub(crate) fn of(&self, query: JobQuery) -> JobQuery {
        let cursor = self.after.map(|id| id.to_string());
        JobQuery { cursor, limit: Some(usize::from(self.most)), ..query }
    }
}
