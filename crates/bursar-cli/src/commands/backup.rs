//! `bursar backup` and `bursar restore`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar::{Bursar, Copied, CopyOptions, CopyProgress, Health, Report};
use bursar_server::wire::problem::{Kind, Problem};
use bursar_server::wire::report::{CheckedAnswer, VerifyAnswer};
use clap::Args;
use serde::Serialize;
use tokio::time::Instant;

use crate::args::Global;
use crate::commands::dump;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{Session, make_default_folder, sqlite_path};

/// How to back up.
#[derive(Args)]
#[command(after_help = "\
A SQLite database is copied while it is in use; everything that was answered before is in the copy, and nobody waits for it. \
The copy is opened and verified before it gets its name. A PostgreSQL database is dumped by pg_dump, which must be installed.")]
pub(crate) struct Backup {
    /// The file to make
    file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    /// Leave out the check of the copy
    #[arg(long)]
    no_verify: bool,
}

/// How to restore.
#[derive(Args)]
#[command(after_help = "\
The file is checked and verified before anything is changed. A SQLite database that is there is replaced only with --force, and \
only while no process has it open. On PostgreSQL the database must be there and empty; pg_restore fills it in one transaction.")]
pub(crate) struct Restore {
    /// What `bursar backup` made
    file: PathBuf,
    /// Replace the database if it is there: what is in it is gone
    #[arg(long)]
    force: bool,
}

/// What was done.
#[derive(Serialize)]
struct Done {
    file: PathBuf,
    database: String,
    bytes: u64,
    /// The last position of the journal in it, where it was opened.
    position: Option<u64>,
    /// What its books say, where they were checked.
    verified: Option<VerifyAnswer>,
}

impl Done {
    /// How much was verified, for people, if it was.
    fn checked(&self) -> String {
        let Some(VerifyAnswer { checked: CheckedAnswer { scopes, holds, jobs }, .. }) = &self.verified else {
            return String::new();
        };
        format!(", verified: {scopes} scopes, {holds} holds, {jobs} jobs")
    }
}

/// Makes a backup.
pub(crate) async fn run(args: Backup, global: &Global) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    if args.file.exists() && !args.force {
        let detail = format!("{} is there already: name another file, or say --force", args.file.display());
        return Err(Problem::new(Kind::Conflict, detail));
    }
    let url = global.config.database.url();
    let done = match sqlite_path(url) {
        Some(path) => {
            let how = CopyOptions { replace: args.force, verify: !args.no_verify };
            let copied = Bursar::back_up(path, &args.file, how, progress(out, "copied")).await?;
            done(args.file, global, &copied)
        }
        None if url.starts_with("sqlite") => return Err(nowhere()),
        None => {
            // A wrong address is told before a program is started that would tell it in other words.
            let session = Session::on_database(global).await?;
            let health = session.bursar()?.health().await;
            session.close().await;
            let position = Some(health?.position);
            let bytes = dump::dump(url, &args.file, out)?;
            let database = global.config.database.to_string();
            Done { file: args.file, database, bytes, position, verified: None }
        }
    };
    out.data(&done, || {
        format!("{} has {} of {}{}", done.file.display(), size(done.bytes), done.database, done.checked())
    })?;
    if done.verified.is_none() {
        out.note("the copy was not opened: `bursar restore` checks it, and verifies what it made");
    }
    Ok(Exit::Done)
}

/// Makes a database from a backup.
pub(crate) async fn restore(args: Restore, global: &Global) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    let url = global.config.database.url();
    let dumped = is_dump(&args.file)?;
    let done = match sqlite_path(url) {
        Some(_) if dumped => return Err(mismatch(&args.file, "PostgreSQL", "postgres://…")),
        Some(path) => {
            if path.exists() && !args.force {
                let detail = format!(
                    "{} is there already: restore into another with --database, or replace it with --force",
                    path.display()
                );
                return Err(Problem::new(Kind::Conflict, detail));
            }
            make_default_folder(url)?;
            let how = CopyOptions { replace: args.force, verify: true };
            let copied = Bursar::restore(&args.file, path, how, progress(out, "copied")).await?;
            done(args.file, global, &copied)
        }
        None if url.starts_with("sqlite") => return Err(nowhere()),
        None if !dumped => return Err(mismatch(&args.file, "SQLite", "sqlite://PATH")),
        None => restore_dump(args, global, out).await?,
    };
    out.data(&done, || {
        let (position, checked) = (done.position.unwrap_or(0), done.checked());
        format!("{} was restored from {}, up to position {position}{checked}", done.database, done.file.display())
    })?;
    Ok(Exit::Done)
}

async fn restore_dump(args: Restore, global: &Global, out: Output) -> Result<Done, Problem> {
    let url = global.config.database.url();
    if !Bursar::is_empty(url).await? {
        let detail = format!(
            "{} is not empty: make an empty database, such as with `createdb`, and restore into that",
            global.config.database
        );
        return Err(Problem::new(Kind::Conflict, detail));
    }
    dump::restore(url, &args.file, out)?;
    let session = Session::prepare(global, url).await?;
    let bursar = session.bursar()?.clone();
    let checked = async { Ok((bursar.health().await?, bursar.verify().await?)) };
    let checked: Result<(Health, Report), bursar::Error> = checked.await;
    session.close().await;
    let checked = checked?;
    if let Some(violation) = checked.1.violations.first() {
        let count = checked.1.violations.len();
        let detail = format!("what was restored does not verify: {violation}, and {} more", count - 1);
        return Err(Problem::new(Kind::Internal, detail));
    }
    let bytes = std::fs::metadata(&args.file).map_or(0, |file| file.len());
    Ok(done(args.file, global, &Copied { bytes, checked: Some(checked) }))
}

fn done(file: PathBuf, global: &Global, copied: &Copied) -> Done {
    let (position, verified) = match &copied.checked {
        Some((health, report)) => (Some(health.position), Some(bursar_server::convert::verify_answer(report))),
        None => (None, None),
    };
    Done { file, database: global.config.database.to_string(), bytes: copied.bytes, position, verified }
}

/// Whether a file was made by `pg_dump`.
fn is_dump(file: &Path) -> Result<bool, Problem> {
    let mut head = [0; 5];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut head));
    let read =
        read.map_err(|error| Problem::new(Kind::NotFound, format!("{} cannot be read: {error}", file.display())))?;
    Ok(&head[..read] == b"PGDMP")
}

fn mismatch(file: &Path, engine: &str, url: &str) -> Problem {
    let detail = format!("{} is a copy of a {engine} database: restore it with --database {url}", file.display());
    Problem::invalid("database".into(), detail)
}

fn nowhere() -> Problem {
    Problem::invalid("database".into(), "a database in memory has no copy: name a file, sqlite://PATH")
}

/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Tells on standard error how far it is, once a second.
fn progress(out: Output, what: &'static str) -> CopyProgress {
    let told = Mutex::new(Instant::now());
    Arc::new(move |done, total| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() >= TOLD_EVERY {
            *told = Instant::now();
            out.note(&format!("{what} {} of {}", size(done), size(total)));
        }
    })
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} bytes"),
        10_000..=9_999_999 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
