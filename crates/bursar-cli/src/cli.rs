//! The top-level command line: every command, and the dispatch to it.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use bursar_wire::problem::{Kind, Problem};

use crate::args::{ArgSource, GlobalArgs, as_durations};
use crate::commands::{
    backup, bench, blob, budget, command, completions, config, credential, dead, dev, doctor, grant, hold, job,
    journal, maintenance, meter, migrate, moving, namespace, openapi, queue, schedule, serve, top,
};
use crate::context::{Access, Context};
use crate::examples;
use crate::exit::Exit;
use crate::other_words;
use crate::quoting;
use crate::suggest;
use crate::target;

/// Budgets, holds, one-time grants and durable jobs, committed in one database transaction
#[derive(Parser)]
#[command(
    name = "bursar",
    version = crate::version::VERSION,
    max_term_width = 110,
    after_help = "\
Commands work on a database (--database) or over HTTP on a server (--server), with the same output.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 not found, 5 conflict, 6 unavailable (a retry may help), \
7 not permitted.
New here? Run `bursar dev`."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Serve the HTTP API
    Serve(serve::Serve),
    /// Run a living demo on a local database and serve it; not for production
    Dev(dev::Dev),
    /// Check the configuration and list the settings
    #[command(subcommand)]
    Config(config::Configs),
    /// Create or upgrade the database tables
    Migrate(migrate::Migrate),
    /// Copy the database to a file while it is in use
    Backup(backup::Backup),
    /// Create a database from a backup
    Restore(backup::Restore),
    /// Move the database to another place or engine
    Move(moving::Move),
    /// Define and inspect budgets: limits on a scope, and what is left of them
    #[command(subcommand)]
    Budget(budget::Budgets),
    /// Place, settle and inspect holds: units set aside until committed or released
    #[command(subcommand)]
    Hold(hold::Holds),
    /// Spend units at once, without a hold
    Post(hold::Post),
    /// Mint, redeem and revoke grants: single-use permissions, presented as tokens
    #[command(subcommand)]
    Grant(grant::Grants),
    /// Submit commands: charges, redemptions and jobs in one transaction
    #[command(subcommand)]
    Command(command::Commands),
    /// Enqueue, inspect, run and cancel jobs
    #[command(subcommand)]
    Job(job::Jobs),
    /// Configure, pause and inspect job queues
    #[command(subcommand)]
    Queue(queue::Queues),
    /// Manage schedules: jobs enqueued on a cron expression
    #[command(subcommand)]
    Schedule(schedule::Schedules),
    /// Inspect, retry, move and discard dead jobs: jobs with no attempts left
    #[command(subcommand)]
    Dead(dead::Dead),
    /// Inspect, delete and restore blobs, and manage what refers to them
    #[command(subcommand)]
    Blob(blob::Blobs),
    /// Set and show the rules of namespaces of blobs
    #[command(subcommand)]
    Namespace(namespace::Namespaces),
    /// Read the journal: every event, in order
    #[command(subcommand)]
    Journal(journal::Journals),
    /// Manage the tokens of workers
    #[command(subcommand)]
    Worker(credential::Workers),
    /// Manage API keys, the tokens of programs and people
    #[command(subcommand)]
    Token(credential::Tokens),
    /// Show and change the quotas of callers
    #[command(subcommand)]
    Meter(meter::Meters),
    /// Watch queues, workers and budgets near their limits
    Top(top::Top),
    /// Check that balances match holds and postings
    Verify,
    /// Rebuild every table from the journal
    Rebuild(maintenance::Rebuild),
    /// Record expired holds in the journal
    Sweep(maintenance::Sweep),
    /// Diagnose a database or a server and suggest repairs
    Doctor(doctor::Doctor),
    /// Print the OpenAPI document of the HTTP API
    Openapi(openapi::Openapi),
    /// Measure throughput and latency on this machine, and compare them with a baseline
    Bench(bench::Bench),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

impl Cli {
    /// Parses the arguments, and records whether the server and the token came from a flag or the environment.
    pub(crate) fn read() -> Result<Cli, clap::Error> {
        let arguments = as_durations(std::env::args_os());
        let mut command = examples::add(Cli::command());
        let matches = command
            .try_get_matches_from_mut(&arguments)
            .map_err(|error| quoting::suggest(other_words::suggest(error, &arguments, &command), &arguments))?;
        let mut cli = Cli::from_arg_matches(&matches)?;
        let GlobalArgs { server, server_source, token, token_source, .. } = &mut cli.global;
        for (value, source, id) in [(server, server_source, "server"), (token, token_source, "server_token")] {
            *source = ArgSource::of(&matches, id);
            // An empty variable counts as unset.
            if value.as_deref() == Some("") && *source == ArgSource::Environment {
                (*value, *source) = (None, ArgSource::Unset);
            }
        }
        Ok(cli)
    }

    /// Runs the command.
    pub(crate) async fn run(self) -> Result<Exit, Problem> {
        let Cli { global, command } = self;
        if command.is_server() {
            target::forbid_server_flag(&global)?;
        } else if command.needs_database() {
            target::require_database(&global)?;
        }
        match command {
            // These need no configuration, or load it in their own way.
            CliCommand::Serve(args) => serve::run(args, global).await,
            CliCommand::Config(args) => config::run(args, &global),
            CliCommand::Openapi(args) => openapi::run(&args, &global),
            CliCommand::Completions(args) => completions::run(&args, &mut examples::add(Cli::command())),
            CliCommand::Dev(args) => dev::run(args, global).await,
            CliCommand::Bench(args) => bench::run(args, &global).await,
            // These need the configuration, and open the database themselves or not at all.
            CliCommand::Backup(args) => backup::run(args, &global.load_config()?).await,
            CliCommand::Restore(args) => backup::restore(args, &global.load_config()?).await,
            CliCommand::Migrate(args) => migrate::run(args, global.load_config()?).await,
            CliCommand::Move(args) => moving::run(args, &global).await,
            CliCommand::Doctor(args) => doctor::run(args, global).await,
            CliCommand::Journal(journal::Journals::Query) => journal::query(&global.load_config()?),
            command => {
                let (access, in_tenant) = (command.access(), global.tenant.is_some());
                let has_token = target::has_token(&global);
                let context = Context::open(global, access).await?;
                let result = run_in(command, &context).await;
                // Wrong names are easiest to see in what a read leaves out.
                let empty = access == Access::Read && in_tenant;
                if empty && result.as_ref().map_or_else(|problem| problem.kind == Kind::NotFound, |_| true) {
                    suggest::note_empty_tenant(&context).await;
                }
                context.close().await;
                result.map_err(|problem| match problem.kind {
                    Kind::Unauthorized => unauthorized(problem, has_token),
                    _ => problem,
                })
            }
        }
    }
}

/// Describes a rejected token in the words of the command line. The server speaks of headers.
fn unauthorized(problem: Problem, has_token: bool) -> Problem {
    let detail = match has_token {
        true => "the server does not accept the token: it is wrong, expired or revoked; nothing was changed",
        false => "the server needs a token, and none was given; nothing was changed",
    };
    Problem { detail: detail.to_owned(), ..problem }
}

/// Runs a command that works on a database and over a server alike.
async fn run_in(command: CliCommand, context: &Context) -> Result<Exit, Problem> {
    match command {
        CliCommand::Budget(args) => budget::run(args, context).await?,
        CliCommand::Hold(args) => hold::run(args, context).await?,
        CliCommand::Post(args) => hold::post(args, context).await?,
        CliCommand::Grant(args) => grant::run(args, context).await?,
        CliCommand::Command(args) => command::run(args, context).await?,
        CliCommand::Job(args) => return job::run(args, context).await,
        CliCommand::Queue(args) => queue::run(args, context).await?,
        CliCommand::Schedule(args) => schedule::run(args, context).await?,
        CliCommand::Dead(args) => return dead::run(args, context).await,
        CliCommand::Blob(args) => blob::run(args, context).await?,
        CliCommand::Namespace(args) => namespace::run(args, context).await?,
        CliCommand::Journal(args) => journal::run(args, context).await?,
        CliCommand::Worker(args) => credential::workers(args, context).await?,
        CliCommand::Token(args) => credential::tokens(args, context).await?,
        CliCommand::Meter(args) => meter::run(args, context).await?,
        CliCommand::Top(args) => top::run(args, context).await?,
        CliCommand::Verify => return maintenance::verify(context).await,
        CliCommand::Rebuild(args) => return maintenance::rebuild(args, context).await,
        CliCommand::Sweep(args) => maintenance::sweep(args, context).await?,
        CliCommand::Serve(_)
        | CliCommand::Config(_)
        | CliCommand::Openapi(_)
        | CliCommand::Completions(_)
        | CliCommand::Dev(_)
        | CliCommand::Backup(_)
        | CliCommand::Restore(_)
        | CliCommand::Migrate(_)
        | CliCommand::Move(_)
        | CliCommand::Doctor(_)
        | CliCommand::Bench(_) => {
            unreachable!("`Cli::run` handles the commands that open the database themselves or need none")
        }
    }
    Ok(Exit::Done)
}

impl CliCommand {
    /// Whether the command starts a server in this process.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, CliCommand::Serve(_) | CliCommand::Dev(_))
    }

    /// Returns whether the command only reads.
    fn access(&self) -> Access {
        let reads = match self {
            CliCommand::Budget(args) => args.reads(),
            CliCommand::Hold(args) => args.reads(),
            CliCommand::Grant(args) => matches!(args, grant::Grants::Show { .. } | grant::Grants::List { .. }),
            CliCommand::Job(args) => args.reads(),
            CliCommand::Queue(args) => matches!(args, queue::Queues::Show { .. } | queue::Queues::List { .. }),
            CliCommand::Schedule(args) => {
                matches!(args, schedule::Schedules::Show { .. } | schedule::Schedules::List { .. })
            }
            CliCommand::Dead(args) => {
                matches!(args, dead::Dead::List { .. } | dead::Dead::Groups { .. } | dead::Dead::Show { .. })
            }
            CliCommand::Blob(args) => args.reads(),
            CliCommand::Namespace(args) => !matches!(args, namespace::Namespaces::Set(_)),
            CliCommand::Worker(args) => {
                matches!(args, credential::Workers::Show { .. } | credential::Workers::List { .. })
            }
            CliCommand::Token(args) => {
                matches!(args, credential::Tokens::Show { .. } | credential::Tokens::List { .. })
            }
            CliCommand::Meter(args) => matches!(args, meter::Meters::Show { .. }),
            CliCommand::Journal(args) => !matches!(args, journal::Journals::Archive(_) | journal::Journals::Unarchive),
            CliCommand::Top(_) | CliCommand::Verify => true,
            _ => false,
        };
        if reads { Access::Read } else { Access::Write }
    }

    /// Whether the command works on a database only, never over a server.
    fn needs_database(&self) -> bool {
        matches!(
            self,
            CliCommand::Migrate(_)
                | CliCommand::Backup(_)
                | CliCommand::Restore(_)
                | CliCommand::Rebuild(_)
                | CliCommand::Sweep(_)
                | CliCommand::Grant(grant::Grants::Purge)
                | CliCommand::Journal(
                    journal::Journals::Archive(_)
                        | journal::Journals::Unarchive
                        | journal::Journals::Segments
                        | journal::Journals::Verify,
                )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
