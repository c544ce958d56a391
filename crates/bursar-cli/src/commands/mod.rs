//! One module a noun: its arguments, what it asks for, and how the answer looks to people.

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod budget;
pub(crate) mod bulk;
pub(crate) mod command;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod credential;
pub(crate) mod dead;
pub(crate) mod dev;
pub(crate) mod doctor;
mod dump;
pub(crate) mod grant;
pub(crate) mod hold;
pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod meter;
pub(crate) mod migrate;
pub(crate) mod queue;
pub(crate) mod schedule;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod upkeep;

use std::io::Read;

use crate::args::{Cli, Openapi, Verb};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::Output;
use crate::place;
use crate::session::Session;
use bursar_server::wire::problem::{Kind, Problem};

/// Does what was asked for.
pub(crate) async fn run(cli: Cli) -> Result<Exit, Problem> {
    let Cli { global: asked, command } = cli;
    match &command {
        Verb::Serve(_) | Verb::Dev(_) => place::is_no_client(&asked)?,
        command if command.is_of_the_database() => place::needs_database(&asked)?,
        _ => {}
    }
    match command {
        // These go by no configuration, or read it in a way of their own.
        Verb::Serve(args) => serve::run(args, asked).await,
        Verb::Config(args) => config::run(args, &asked),
        Verb::Openapi(args) => openapi(&args, Output::new(asked.json && !args.markdown)),
        Verb::Completions(args) => completions::run(&args),
        Verb::Dev(args) => dev::run(args, &asked.with(Config::default())).await,
        Verb::Bench(args) => bench::run(args, &asked).await,
        Verb::Backup(args) => backup::run(args, &asked.resolve()?).await,
        Verb::Restore(args) => backup::restore(args, &asked.resolve()?).await,
        Verb::Migrate(args) => migrate::run(args, &asked.resolve()?).await,
        Verb::Doctor(args) => doctor::run(args, &asked.resolve()?).await,
        Verb::Journal(journal::Journals::Query) => journal::query(&asked.resolve()?),
        command => {
            let session = Session::open(asked).await?;
            let done = ask(command, &session).await;
            session.close().await;
            done
        }
    }
}

async fn ask(command: Verb, session: &Session) -> Result<Exit, Problem> {
    match command {
        Verb::Budget(args) => budget::run(args, session).await?,
        Verb::Hold(args) => hold::run(args, session).await?,
        Verb::Post(args) => hold::post(args, session).await?,
        Verb::Grant(args) => grant::run(args, session).await?,
        Verb::Command(args) => command::run(args, session).await?,
        Verb::Job(args) => return job::run(args, session).await,
        Verb::Queue(args) => queue::run(args, session).await?,
        Verb::Schedule(args) => schedule::run(args, session).await?,
        Verb::Dead(args) => return dead::run(args, session).await,
        Verb::Journal(args) => journal::run(args, session).await?,
        Verb::Worker(args) => credential::workers(args, session).await?,
        Verb::Token(args) => credential::tokens(args, session).await?,
        Verb::Meter(args) => meter::run(args, session).await?,
        Verb::Top(args) => top::run(args, session).await?,
        Verb::Verify => return upkeep::verify(session).await,
        Verb::Rebuild(args) => return upkeep::rebuild(args, session).await,
        Verb::Sweep(args) => upkeep::sweep(args, session).await?,
        Verb::Serve(_)
        | Verb::Config(_)
        | Verb::Openapi(_)
        | Verb::Completions(_)
        | Verb::Dev(_)
        | Verb::Backup(_)
        | Verb::Restore(_)
        | Verb::Migrate(_)
        | Verb::Doctor(_)
        | Verb::Bench(_) => {
            unreachable!("these open the database themselves, or need none")
        }
    }
    Ok(Exit::Done)
}

/// Prints the document of the API, as `/v1/openapi.json` serves it, or as pages of a reference.
fn openapi(args: &Openapi, out: Output) -> Result<Exit, Problem> {
    let document = bursar_server::document();
    if args.markdown {
        out.say(bursar_server::reference().trim_end())?;
    } else {
        out.data(&document, || format!("{document:#}"))?;
    }
    Ok(Exit::Done)
}

/// Bytes of a file or of standard input that are read at most.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// Reads a file, or standard input for `-`.
pub(crate) fn input(path: &str) -> Result<String, Problem> {
    let wrong = |error: std::io::Error| Problem::invalid("file".into(), format!("{path} cannot be read: {error}"));
    let mut text = String::new();
    let from: Box<dyn Read> =
        if path == "-" { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(path).map_err(wrong)?) };
    from.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let detail = format!("{path} has more than {INPUT_BYTES_MAX} bytes: split it");
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    Ok(text)
}

/// A time as the wire has it; what is too long for it is longer than anything that is allowed.
fn millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
