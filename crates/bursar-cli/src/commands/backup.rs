//! `bursar backup` and `bursar restore`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar::{Bursar, Copied, CopyOptions, CopyProgress, Health, Report, StoreError};
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::report::{CheckedAnswer, VerifyAnswer};
use clap::Args;
use serde::Serialize;
use tokio::time::Instant;

use crate::args::ConfiguredArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, counted};
use crate::pg_dump;
use crate::sqlite_file::{prepare_folder, sqlite_path};

/// The arguments of `bursar backup`.
#[derive(Args)]
#[command(after_help = "\
A SQLite database is copied while it is in use, without blocking writers; the copy has everything committed before the \
backup started, and is opened and verified before it gets its name. A PostgreSQL database is dumped by pg_dump, which must be \
installed.")]
pub(crate) struct Backup {
    /// File to write
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// Do not verify the copy
    #[arg(long)]
    no_verify: bool,
}

/// The arguments of `bursar restore`.
#[derive(Args)]
#[command(after_help = "\
The file is verified before anything is changed. An existing SQLite database is replaced only with --force, and only while no \
process has it open. A PostgreSQL database must exist and be empty; pg_restore fills it in one transaction.")]
pub(crate) struct Restore {
    /// File that `bursar backup` wrote
    file: PathBuf,
    /// Replace an existing database; its data is lost
    #[arg(long)]
    force: bool,
}

/// The result of a backup or a restore.
#[derive(Serialize)]
struct CopyAnswer {
    file: PathBuf,
    database: String,
    bytes: u64,
    /// The last position of the copy's journal; `None` if the copy was not opened.
    position: Option<u64>,
    /// The report of the verification; `None` if the copy was not verified.
    verified: Option<VerifyAnswer>,
}

impl CopyAnswer {
    /// Summarizes the verification; empty if there was none.
    fn verification(&self) -> String {
        let Some(VerifyAnswer { checked: CheckedAnswer { scopes, holds, jobs }, .. }) = &self.verified else {
            return String::new();
        };
        let (scopes, holds, jobs) = (counted(scopes, "scope"), counted(holds, "hold"), counted(jobs, "job"));
        format!(", verified: {scopes}, {holds}, {jobs}")
    }
}

/// Runs `bursar backup`.
pub(crate) async fn run(args: Backup, global: &ConfiguredArgs) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    if args.file.exists() && !args.force {
        let detail =
            format!("{} already exists; nothing was written; name another file, or pass --force", args.file.display());
        return Err(Problem::new(Kind::Conflict, detail));
    }
    let url = global.config.database.url();
    let done = match sqlite_path(url) {
        Some(path) => {
            let how = CopyOptions { replace: args.force, verify: !args.no_verify };
            let copied = Bursar::back_up(path, &args.file, how, progress(out, "copied")).await?;
            done(args.file, global, &copied)
        }
        None if url.starts_with("sqlite") => return Err(in_memory()),
        None => {
            let session = global.config.session_url()?;
            // Opening the database first reports a wrong URL in Bursar's words instead of pg_dump's.
            let context = Context::on_database(global).await?;
            let health = context.bursar()?.health().await;
            context.close().await;
            let health = health?;
            if health.row_security.is_some_and(|security| !security.reads_all) {
                let detail = "the role that connects does not own the tables, so that row-level security hides rows from it; nothing \
                              was written; run the backup with the database URL of the owner";
                return Err(Problem::new(Kind::Unusable, detail));
            }
            let position = Some(health.position);
            let bytes = pg_dump::dump(session, &args.file, out)?;
            let database = global.config.database.to_string();
            CopyAnswer { file: args.file, database, bytes, position, verified: None }
        }
    };
    out.data(&done, || {
        format!("backed up {} to {}: {}{}", done.database, done.file.display(), size(done.bytes), done.verification())
    })?;
    if done.verified.is_none() {
        out.note("the copy was not verified; `bursar restore` verifies what it restores");
    }
    Ok(Exit::Done)
}

/// Runs `bursar restore`.
pub(crate) async fn restore(args: Restore, global: &ConfiguredArgs) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    let url = global.config.database.url();
    let dumped = is_dump(&args.file)?;
    let done = match sqlite_path(url) {
        Some(_) if dumped => return Err(mismatch(&args.file, "PostgreSQL", "postgres://…")),
        Some(path) => {
            if path.exists() && !args.force {
                let detail = format!(
                    "{} already exists; nothing was changed; restore into another database with --database, or replace it with \
                     --force",
                    path.display()
                );
                return Err(Problem::new(Kind::Conflict, detail));
            }
            prepare_folder(url)?;
            let how = CopyOptions { replace: args.force, verify: true };
            let copied = Bursar::restore(&args.file, path, how, progress(out, "copied")).await?;
            done(args.file, global, &copied)
        }
        None if url.starts_with("sqlite") => return Err(in_memory()),
        None if !dumped => return Err(mismatch(&args.file, "SQLite", "sqlite://PATH")),
        None => restore_dump(args, global, out).await?,
    };
    out.data(&done, || {
        let (position, checked) = (done.position.unwrap_or(0), done.verification());
        format!("restored {} from {}, up to position {position}{checked}", done.database, done.file.display())
    })?;
    Ok(Exit::Done)
}

async fn restore_dump(args: Restore, global: &ConfiguredArgs, out: Output) -> Result<CopyAnswer, Problem> {
    let (url, session) = (global.config.database.url(), global.config.session_url()?);
    if !Bursar::is_empty(session).await? {
        let detail = format!(
            "{} is not empty; nothing was changed; create an empty database, for example with `createdb`, and restore into it",
            global.config.database
        );
        return Err(Problem::new(Kind::Conflict, detail));
    }
    check_urls(global, url).await?;
    pg_dump::restore(session, &args.file, out)?;
    let context = Context::migrate(global, url).await?;
    let bursar = context.bursar()?.clone();
    let checked = async { Ok((bursar.health().await?, bursar.verify().await?)) };
    let checked: Result<(Health, Report), bursar::Error> = checked.await;
    context.close().await;
    let checked = checked?;
    if let Some(violation) = checked.1.violations.first() {
        let count = checked.1.violations.len();
        let detail =
            format!("the restored database failed verification: {violation}, and {} more; do not use it", count - 1);
        return Err(Problem::new(Kind::Internal, detail));
    }
    let bytes = std::fs::metadata(&args.file).map_or(0, |file| file.len());
    Ok(done(args.file, global, &Copied { bytes, checked: Some(checked) }))
}

/// Checks that the database can be opened as soon as it has tables, before anything is written: that a direct URL leads to it, and
/// that a role exists.
async fn check_urls(global: &ConfiguredArgs, url: &str) -> Result<(), Problem> {
    match global.config.options(url)?.migrate(false).upkeep(None).open().await {
        Ok(bursar) => bursar.close().await,
        Err(bursar::Error::Store(error)) if matches!(*error, StoreError::NotMigrated { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn done(file: PathBuf, global: &ConfiguredArgs, copied: &Copied) -> CopyAnswer {
    let (position, verified) = match &copied.checked {
        Some((health, report)) => (Some(health.position), Some(bursar_server::convert::verify_answer(report))),
        None => (None, None),
    };
    CopyAnswer { file, database: global.config.database.to_string(), bytes: copied.bytes, position, verified }
}

/// Whether `pg_dump` wrote the file.
fn is_dump(file: &Path) -> Result<bool, Problem> {
    let mut head = [0; 5];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut head));
    let read = read.map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            _ => format!("cannot be read: {error}"),
        };
        let what = "nothing was changed; pass a file that `bursar backup` wrote";
        Problem::invalid("file".into(), format!("{} {reason}; {what}", file.display()))
    })?;
    Ok(&head[..read] == b"PGDMP")
}

fn mismatch(file: &Path, engine: &str, url: &str) -> Problem {
    let detail = format!(
        "{} is a copy of a {engine} database; nothing was changed; restore it with --database {url}",
        file.display()
    );
    Problem::invalid("database".into(), detail)
}

fn in_memory() -> Problem {
    Problem::invalid(
        "database".into(),
        "a database in memory cannot be backed up or restored: name a file with --database sqlite://PATH",
    )
}

/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Reports the progress of a copy on standard error.
fn progress(out: Output, what: &'static str) -> CopyProgress {
    let reported = Mutex::new(Instant::now());
    Arc::new(move |done, total| {
        let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.elapsed() >= PROGRESS_INTERVAL {
            *reported = Instant::now();
            out.note(&format!("{what} {} of {}", size(done), size(total)));
        }
    })
}

/// Formats a number of bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} bytes"),
        10_000..=9_999_999 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
