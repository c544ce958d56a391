//! Arguments: what can be asked for, and how its parts are read.

use std::path::PathBuf;

use bursar::{Invalid, Limit, Scope, Tenant, Window};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    backup, bench, budget, command, completions, config, credential, dead, dev, doctor, grant, hold, job, journal,
    meter, migrate, queue, schedule, serve, top, upkeep,
};
use crate::config::{Config, FILE_VARIABLE, Flags, load};
use crate::place::Said;
use bursar_server::wire::problem::Problem;

/// Bursar keeps the purse for software that spends: it holds budget, redeems one-time grants and starts durable work in
/// one transaction, and settles with the real cost.
#[derive(Parser)]
#[command(
    name = "bursar",
    version,
    max_term_width = 110,
    after_help = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 not found, 5 conflict, 6 unavailable.
New here? Run `bursar dev`."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Asked,
    #[command(subcommand)]
    pub(crate) command: Verb,
}

/// What every command takes.
#[derive(Args, Clone)]
pub(crate) struct Asked {
    /// The configuration file; ./bursar.toml where it is there
    #[arg(long, global = true, value_name = "PATH", env = FILE_VARIABLE)]
    pub(crate) config: Option<PathBuf>,
    /// The database, sqlite://PATH or postgres://…; else BURSAR_DATABASE, the configuration file, or
    /// sqlite://bursar-data/bursar.db
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// A server to ask instead: http://HOST:PORT
    #[arg(long, global = true, value_name = "URL", env = "BURSAR_SERVER")]
    pub(crate) server: Option<String>,
    /// Who asks the server; better in BURSAR_TOKEN, or in the file that BURSAR_TOKEN_FILE names
    #[arg(
        id = "server_token",
        long = "token",
        global = true,
        value_name = "TOKEN",
        env = "BURSAR_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// How long a server is asked, with all tries
    #[arg(long, global = true, value_name = "MS", default_value_t = 30_000, hide_default_value = true)]
    pub(crate) timeout_ms: u64,
    /// Whose data it is; the built-in tenant unless said
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tenant: Option<Tenant>,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How the server was said.
    #[arg(skip)]
    pub(crate) server_said: Said,
    /// How the token was said.
    #[arg(skip)]
    pub(crate) token_said: Said,
}

impl Cli {
    /// Reads the arguments, and how the place to ask was said.
    pub(crate) fn read() -> Result<Cli, clap::Error> {
        let matches = Cli::command().try_get_matches()?;
        let mut cli = Cli::from_arg_matches(&matches)?;
        cli.global.server_said = Said::of(&matches, "server");
        cli.global.token_said = Said::of(&matches, "server_token");
        // A variable that is empty says nothing.
        if cli.global.server.as_deref() == Some("") && cli.global.server_said == Said::Environment {
            (cli.global.server, cli.global.server_said) = (None, Said::Nowhere);
        }
        if cli.global.token.as_deref() == Some("") && cli.global.token_said == Said::Environment {
            (cli.global.token, cli.global.token_said) = (None, Said::Nowhere);
        }
        Ok(cli)
    }
}

/// What every command goes by.
pub(crate) struct Global {
    pub(crate) config: Config,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) json: bool,
}

impl Asked {
    /// Reads the configuration.
    pub(crate) fn resolve(self) -> Result<Global, Problem> {
        let flags = Flags::default().with("database", self.database.as_deref());
        let config = load(self.config.as_deref(), &flags)?.config;
        Ok(self.with(config))
    }

    /// With a configuration that was read already.
    pub(crate) fn with(self, config: Config) -> Global {
        Global { config, tenant: self.tenant, json: self.json }
    }
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Serve everything over HTTP
    Serve(serve::Serve),
    /// Show what Bursar does, step by step, on a database in a folder, and serve it: not for production
    Dev(dev::Dev),
    /// The configuration: what is set, and by what
    #[command(subcommand)]
    Config(config::Configs),
    /// Make or upgrade the tables
    Migrate(migrate::Migrate),
    /// Copy the database to a file while it is in use
    Backup(backup::Backup),
    /// Make a database from such a file
    Restore(backup::Restore),
    /// Budgets: limits on scopes, and what is left of them
    #[command(subcommand)]
    Budget(budget::Budgets),
    /// Holds: units set aside until they are spent or given back
    #[command(subcommand)]
    Hold(hold::Holds),
    /// Spend at once
    Post(hold::Post),
    /// Grants: one-time permissions, presented as tokens
    #[command(subcommand)]
    Grant(grant::Grants),
    /// Commands: charges, redemptions and jobs, all or nothing
    #[command(subcommand)]
    Command(command::Commands),
    /// Jobs: durable work
    #[command(subcommand)]
    Job(job::Jobs),
    /// Queues: how their jobs are leased, tried again and kept
    #[command(subcommand)]
    Queue(queue::Queues),
    /// Schedules: jobs that are enqueued by the clock
    #[command(subcommand)]
    Schedule(schedule::Schedules),
    /// Dead letters: jobs that no attempt is left for
    #[command(subcommand)]
    Dead(dead::Dead),
    /// The journal: everything that happened, in order
    #[command(subcommand)]
    Journal(journal::Journals),
    /// Workers: their tokens, and what they may do
    #[command(subcommand)]
    Worker(credential::Workers),
    /// API keys: tokens of programs, in a role; and tokens of operators
    #[command(subcommand)]
    Token(credential::Tokens),
    /// Quotas: what callers may spend
    #[command(subcommand)]
    Meter(meter::Meters),
    /// What goes on, each second: queues, workers, budgets near their limits
    Top(top::Look),
    /// Check that balances are what holds and postings say
    Verify,
    /// Make every table but the journal anew from the journal
    Rebuild(upkeep::Rebuild),
    /// Write down which holds have expired
    Sweep(upkeep::Sweep),
    /// Look for what is wrong, and say what to do about it
    Doctor(doctor::Doctor),
    /// Print the OpenAPI document of the server
    Openapi(Openapi),
    /// Measure how fast it is here, beside what the engine itself can do
    Bench(bench::Bench),
    /// Print what a shell needs to complete commands
    Completions(completions::Completions),
}

/// How many are listed.
#[derive(Args, Clone, Copy)]
pub(crate) struct Most {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    most: u16,
}

impl From<Most> for usize {
    fn from(Most { most }: Most) -> usize {
        usize::from(most)
    }
}

/// How to print the document.
#[derive(Args)]
pub(crate) struct Openapi {
    /// As a reference for people, in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

impl Verb {
    /// Whether it works on a database and not over a server.
    pub(crate) fn is_of_the_database(&self) -> bool {
        match self {
            Verb::Migrate(_)
            | Verb::Backup(_)
            | Verb::Restore(_)
            | Verb::Rebuild(_)
            | Verb::Sweep(_)
            | Verb::Doctor(_) => true,
            Verb::Grant(grants) => matches!(grants, grant::Grants::Purge),
            _ => false,
        }
    }
}

/// Reads `SCOPE=AMOUNT`. A scope may have `=` in its name, an amount cannot.
pub(crate) fn charge(text: &str) -> Result<(Scope, i64), Invalid> {
    let parts = text.rsplit_once('=').and_then(|(scope, amount)| Some((scope, amount.parse().ok()?)));
    let (scope, amount) = parts.ok_or_else(|| Invalid::new("charge", "must be SCOPE=AMOUNT with a whole number"))?;
    Ok((Scope::new(scope)?, amount))
}

/// Reads `AMOUNT:WINDOW`, the window in its text form. The capacity of a bucket is the amount and is not repeated:
/// `100:bucket:10:1000` holds 100 and regains 10 each 1000 ms.
pub(crate) fn limit(text: &str) -> Result<Limit, Invalid> {
    let parts = text.split_once(':').and_then(|(amount, window)| Some((amount.parse::<i64>().ok()?, window)));
    let (amount, window) = parts.ok_or_else(|| {
        let example = "1000000:month@Europe/Berlin, 50000:rolling:3600000 or 100:bucket:10:1000";
        Invalid::new("limit", format!("must be AMOUNT:WINDOW, such as {example}"))
    })?;
    let window: Window = match window.strip_prefix("bucket:") {
        Some(rest) if rest.matches(':').count() == 1 => format!("bucket:{amount}:{rest}").parse()?,
        _ => window.parse()?,
    };
    Ok(Limit::new(amount, window))
}

/// What `--limit` takes, for the help.
pub(crate) const LIMIT_HELP: &str = "\
Windows: lifetime; rolling:MS; bucket:REFILL:MS (the amount is the capacity); hour, day, week, month or year, with \
@ZONE for another zone than UTC, and week@ZONE:sunday for another first day than Monday.
Examples: --limit 1000000:month@Europe/Berlin  --limit 50000:rolling:3600000  --limit 100:bucket:10:1000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn limits_and_charges_are_read() {
        for (text, amount, window) in [
            ("5:lifetime", 5, "lifetime"),
            ("1000000:month@Europe/Berlin", 1_000_000, "month@Europe/Berlin"),
            ("50000:rolling:3600000", 50_000, "rolling:3600000"),
            ("100:bucket:10:1000", 100, "bucket:100:10:1000"),
            ("100:bucket:100:10:1000", 100, "bucket:100:10:1000"),
        ] {
            let limit = limit(text).unwrap();
            assert_eq!((limit.amount, limit.window.to_string().as_str()), (amount, window));
        }
        for text in ["", "5", "x:day", "5:fortnight", "5:day@Mars/Olympus", "5:bucket:10", "1.5:day"] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert_eq!(charge("a=b=-5").unwrap(), (Scope::new("a=b").unwrap(), -5));
        assert!(charge("a").is_err() && charge("a=").is_err() && charge("=1").is_err());
    }
}
