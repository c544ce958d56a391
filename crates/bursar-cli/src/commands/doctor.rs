//! `bursar doctor`.

mod archive;
mod remote;
mod retention;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bursar::{Bursar, Clock, Error, Health, Span, StoreError, SystemClock, Time};
use bursar_blobs::{Blobs, ORPHAN_AGE};
use bursar_wire::problem::{Kind, Problem};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::args::{ConfiguredArgs, GlobalArgs};
use crate::context::{Access, Context};
use crate::exit::{self, Exit};
use crate::output::{Output, counted};
use crate::sqlite_file::sqlite_path;
use crate::target::{self, Target};

/// The arguments of `bursar doctor`.
#[derive(Args)]
#[command(after_help = "\
With --server it checks whether the server answers, is ready, accepts the token and has matching balances.")]
pub(crate) struct Doctor {
    /// Check only this component [default: all]
    #[arg(long, value_enum)]
    component: Option<Component>,
    /// Repair what can be repaired: rebuild tables from the journal; write a new file if the file is damaged or its journal
    /// is ahead of the clock (SQLite)
    #[arg(long)]
    fix: bool,
}

/// A component to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Component {
    /// The database file or server, and its tables
    Database,
    /// The clock, compared with the journal
    Clock,
    /// Whether every event is readable
    Journal,
    /// Whether the archive of the journal can be reached and keeps up
    Archive,
    /// Whether balances match holds and postings
    Balances,
    /// Whether rows are deleted when they have been kept for long enough
    Retention,
    /// Whether the bytes of all blobs are there, and what their storage can do
    Blobs,
    /// Whether the address of the setting listen is free, or a Bursar server listens there
    Port,
    /// Whether the server of --server answers
    Server,
    /// Whether the server accepts the token
    Token,
}

/// The result of checking a component.
#[derive(Serialize)]
struct Finding {
    component: Component,
    ok: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

/// The results of all checks.
#[derive(Serialize)]
struct Diagnosis {
    ok: bool,
    findings: Vec<Finding>,
    /// The number of events that the tables were rebuilt from; `None` if they were not.
    rebuilt: Option<u64>,
}

impl Doctor {
    fn selects(&self, component: Component) -> bool {
        self.component.is_none_or(|only| only == component)
    }
}

impl Diagnosis {
    fn add(&mut self, finding: Finding) {
        self.ok &= finding.ok;
        self.findings.push(finding);
    }
}

impl Finding {
    fn good(component: Component, detail: impl Into<String>) -> Finding {
        Finding { component, ok: true, detail: detail.into(), todo: None }
    }

    fn bad(component: Component, detail: impl Into<String>, todo: impl Into<String>) -> Finding {
        Finding { component, ok: false, detail: detail.into(), todo: Some(todo.into()) }
    }

    /// A failed check whose error says what to do, unless something is damaged.
    fn failed(component: Component, error: &Error, detail: String, todo_if_damaged: &str) -> Finding {
        let is_damaged = matches!(error, Error::Store(store) if matches!(**store, StoreError::Corrupt { .. }));
        Finding { component, ok: false, detail, todo: is_damaged.then(|| todo_if_damaged.into()) }
    }
}

/// Checks the database or the server, repairs the database with `--fix`, and prints the findings.
pub(crate) async fn run(args: Doctor, global: GlobalArgs) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    if let Target::Server { url, .. } = target::choose(&global)? {
        if args.fix {
            let detail = "--fix repairs a database, not a server; nothing was changed; run it with --database";
            return Err(Problem::invalid("fix".into(), detail));
        }
        let has_token = target::has_token(&global);
        let context = Context::open(global, Access::Read).await?;
        let (diagnosis, reached) = remote::examine(&args, &context, &url, has_token).await;
        let failed = if reached { Exit::Failed } else { Exit::Unavailable };
        return report(out, &diagnosis, failed);
    }
    let global = global.load_config()?;
    let mut failed = Exit::Failed;
    let mut diagnosis = match Context::on_database(&global).await {
        Ok(context) => {
            let diagnosis = examine(&args, &context, &global).await;
            context.close().await;
            diagnosis?
        }
        Err(problem) if problem.kind == Kind::Unusable || exit::for_problem(problem.kind) == Exit::Unavailable => {
            failed = exit::for_problem(problem.kind);
            unusable(&args, &global, problem).await?
        }
        Err(problem) => return Err(problem),
    };
    if args.selects(Component::Port) {
        diagnosis.add(port(global.config.listen).await);
    }
    report(out, &diagnosis, failed)
}

/// Prints the findings. `failed` is the exit code if one is bad.
fn report(out: Output, diagnosis: &Diagnosis, failed: Exit) -> Result<Exit, Problem> {
    print(out, diagnosis)?;
    Ok(if diagnosis.ok { Exit::Done } else { failed })
}

/// Examines a database that cannot be opened as usual. If this user can read it, everything else is checked too.
async fn unusable(args: &Doctor, global: &ConfiguredArgs, problem: Problem) -> Result<Diagnosis, Problem> {
    let url = global.config.database.url();
    if let Ok(context) = Context::on_read_only_file(global).await {
        let read_only = Doctor { component: args.component, fix: false };
        let diagnosis = examine(&read_only, &context, global).await;
        context.close().await;
        let mut diagnosis = diagnosis?;
        let place = sqlite_path(url).unwrap_or(Path::new(url)).display();
        let detail = format!("{place} can be read but not written by this user: {}", problem.detail);
        let todo = format!("make {place} and its folder writable for this user, or run as the user who owns them");
        diagnosis.findings.retain(|finding| finding.component != Component::Database);
        diagnosis.findings.insert(0, Finding::bad(Component::Database, detail, todo));
        return Ok(Diagnosis { ok: false, ..diagnosis });
    }
    // Some problems say what to do: a database that was moved, a missing privilege, a pooler. Another SQLite file may be damaged.
    let says_what_to_do = problem.kind == Kind::Unusable && sqlite_path(url).is_none_or(Bursar::is_part_of_move);
    let (rebuilt, todo) = if says_what_to_do {
        (None, None)
    } else {
        match salvage(args, global).await {
            Some(Ok((events, todo))) => (Some(events), Some(todo)),
            Some(Err(reason)) => {
                (None, Some(format!("no new file was written: {reason}; {}", recovery_steps(url, true))))
            }
            None => (None, Some(recovery_steps(url, false))),
        }
    };
    let finding = Finding { component: Component::Database, ok: false, detail: problem.detail, todo };
    Ok(Diagnosis { ok: false, findings: vec![finding], rebuilt })
}

/// Checks whether a server could listen on its address, or already does.
async fn port(address: SocketAddr) -> Finding {
    match tokio::net::TcpListener::bind(address).await {
        Ok(_) => Finding::good(Component::Port, format!("{address} is free; no server listens there")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => match remote::ready(address).await {
            Some(state) => Finding::good(Component::Port, format!("a Bursar server listens on {address}: {state}")),
            None => {
                let todo = "stop that program, or choose another address for the server with --listen or BURSAR_LISTEN";
                Finding::bad(Component::Port, format!("another program listens on {address}"), todo)
            }
        },
        Err(error) => {
            let todo = "choose another address with --listen, BURSAR_LISTEN or the setting listen";
            Finding::bad(Component::Port, format!("{address} cannot be listened on: {error}"), todo)
        }
    }
}

async fn examine(args: &Doctor, context: &Context, global: &ConfiguredArgs) -> Result<Diagnosis, Problem> {
    let url = global.config.database.url();
    let is_selected = |component| args.selects(component);
    let bursar = context.bursar()?;
    let health = bursar.health().await?;
    let mut findings = Vec::new();
    if is_selected(Component::Database) {
        findings.push(database(&health));
    }
    if is_selected(Component::Clock) {
        let mut found = clock(&health);
        if args.fix
            && is_ahead(&health)
            // The finding about the journal is the last one.
            && let Some(finding) = found.last_mut()
            && let Some(todo) = set_journal_back(global, health.now).await
        {
            finding.todo = Some(todo);
        }
        findings.extend(found);
    }
    // A repair rebuilds from the journal, so it always needs to know whether the journal is readable.
    let journal = if is_selected(Component::Journal) || args.fix { Some(journal(&health, bursar).await) } else { None };
    let readable = journal.as_ref().is_some_and(|finding| finding.ok);
    findings.extend(journal.filter(|finding| is_selected(Component::Journal) || !finding.ok));
    if is_selected(Component::Archive) {
        findings.extend(archive::examine(bursar, args.component.is_some()).await);
    }
    let mut rebuilt = None;
    if is_selected(Component::Balances) {
        let mut found = balances(bursar).await;
        if !found.ok && args.fix && readable {
            context.out.note(&format!("{}: rebuilding the tables from the journal", found.detail));
            rebuilt = Some(bursar.rebuild().await?);
            found = balances(bursar).await;
        }
        findings.push(found);
    }
    if is_selected(Component::Retention) {
        findings.push(retention::examine(bursar).await);
    }
    if is_selected(Component::Blobs) {
        findings.push(blobs(bursar, &global.config.blobs.open(url)?).await);
    }
    Ok(Diagnosis { ok: findings.iter().all(|finding| finding.ok), findings, rebuilt })
}

fn database(health: &Health) -> Finding {
    let mut what = format!("{} at {}, schema version {}", health.engine, health.place, health.schema);
    if let Some(security) = &health.row_security {
        what.push_str(&format!(", row-level security {}", security.state));
    }
    if health.problems.is_empty() {
        return Finding::good(Component::Database, what);
    }
    let todo = if health.engine.starts_with("PostgreSQL") {
        "change the settings of the PostgreSQL server, in postgresql.conf or with ALTER SYSTEM, and reload it; or \
            connect to a server that accepts writes"
    } else {
        "stop the writers, keep a copy of the file, and restore a backup with `bursar restore`; if only an index or a \
            table other than the journal is damaged, try SQLite's REINDEX or `bursar doctor --fix` first"
    };
    Finding::bad(Component::Database, format!("{what}: {}", health.problems.join("; ")), todo)
}

/// The largest difference between clocks that is not reported.
const SKEW_MAX: Span = Span::from_secs(5);

/// Whether the journal is ahead of the clock.
fn is_ahead(health: &Health) -> bool {
    health.last_event_at.is_some_and(|last| last.since(health.now) > SKEW_MAX)
}

/// Writes a new file next to the database, with the journal moved back to the clock.
async fn set_journal_back(global: &ConfiguredArgs, now: Time) -> Option<String> {
    let url = global.config.database.url();
    let archive = global.config.journal_archive(url).ok()?;
    let path = sqlite_path(url).filter(|path| path.is_file())?;
    let rebuilt = rebuilt_path(path);
    let rebuilt = rebuilt.as_path();
    Some(match Bursar::set_clock_back(path, rebuilt, now, archive.as_ref()).await {
        Ok((events, by)) => format!(
            "{} was written from the {events} events of the journal, with those after the clock jumped moved back by {by}; {}",
            rebuilt.display(),
            replacement_steps(path, rebuilt)
        ),
        Err(error) => format!("the journal was not moved back, and nothing was changed: {error}"),
    })
}

/// Returns the path of the file that a repair writes.
fn rebuilt_path(path: &Path) -> PathBuf {
    let mut rebuilt = path.as_os_str().to_owned();
    rebuilt.push(".rebuilt");
    rebuilt.into()
}

/// Returns how to replace the database with the file that a repair wrote.
fn replacement_steps(path: &Path, rebuilt: &Path) -> String {
    let (rebuilt, path) = (rebuilt.display(), path.display());
    format!(
        "{path} was not changed. Stop every process that uses it, move {path} and its -wal and -shm files away, rename \
         {rebuilt} to {path}, and run `bursar doctor` again"
    )
}

fn clock(health: &Health) -> Vec<Finding> {
    let mut findings = Vec::new();
    let machine = SystemClock.now();
    let skew = health.now.since(machine).max(machine.since(health.now));
    if skew > SKEW_MAX {
        let detail = format!(
            "the clock of the database is at {}, that of this machine at {machine}: they are {skew} apart",
            health.now
        );
        findings.push(Finding::bad(Component::Clock, detail, "correct the wrong clock, for example with NTP"));
    }
    match health.last_event_at {
        Some(last) if is_ahead(health) => {
            let ahead = last.since(health.now);
            let detail = format!("the last event is at {last}, {ahead} ahead of the clock, which is at {}", health.now);
            let todo = "if the clock is behind now, correct it. If it had jumped ahead when that event was written, no data is \
                lost, but holds do not expire and windows do not reset until the clock catches up: stop every process that \
                uses the file and run `bursar doctor --component clock --fix`, which writes a new file with the journal \
                moved back (SQLite only)";
            findings.push(Finding::bad(Component::Clock, detail, todo));
        }
        Some(last) if findings.is_empty() => {
            findings.push(Finding::good(Component::Clock, format!("{}, last event at {last}", health.now)));
        }
        None if findings.is_empty() => {
            findings.push(Finding::good(Component::Clock, format!("{}, no events yet", health.now)));
        }
        _ => {}
    }
    findings
}

async fn journal(health: &Health, bursar: &Bursar) -> Finding {
    let todo = "nothing was changed; restore a backup with `bursar restore`: no other table can replace the journal";
    let (mut after, mut read) = (0, 0);
    loop {
        match bursar.journal().read(after, 1_000).await {
            Ok((events, at)) => {
                read += events.len();
                // Events may have been added since the health check; none may be missing.
                if at == after || at >= health.position {
                    if at < health.position {
                        let detail = format!(
                            "the events end at position {at}, but the journal should reach {}",
                            health.position
                        );
                        return Finding::bad(Component::Journal, detail, todo);
                    }
                    let detail = format!("readable up to position {at}, {} of this tenant", counted(read, "event"));
                    return Finding::good(Component::Journal, detail);
                }
                after = at;
            }
            Err(error) => {
                return Finding::failed(Component::Journal, &error, format!("after position {after}: {error}"), todo);
            }
        }
    }
}

/// Checks the storage for blobs, and that it has the bytes of every live blob.
async fn blobs(bursar: &Bursar, storage: &Blobs) -> Finding {
    let bad = |detail: String, todo: &str| Finding::bad(Component::Blobs, detail, todo);
    let place = storage.backends().primary().place().to_owned();
    match bursar.blob_records().list_all(None, 1).await {
        Ok(found) if found.is_empty() && !storage.backends().primary().exists() => {
            return Finding::good(Component::Blobs, format!("none; new ones go to {place}"));
        }
        Ok(_) => {}
        Err(error) => return bad(error.to_string(), "look at the database first"),
    }
    let reachable = "check the settings `blobs.*`, and that the storage can be reached and written";
    let abilities = match storage.abilities().await {
        Ok(abilities) => abilities.names().join(", "),
        Err(error) => return bad(error.to_string(), reachable),
    };
    match storage.orphans(bursar, ORPHAN_AGE, false).await {
        Err(error) => bad(error.to_string(), reachable),
        Ok(report) if report.missing_total > 0 => {
            let missing = counted(report.missing_total, "live blob");
            let todo =
                "`bursar blob orphans` lists them; restore the bytes from a backup of the storage, or delete the blobs";
            bad(format!("{missing} of {} without bytes in {place}", report.blobs), todo)
        }
        Ok(report) => {
            let orphans = match report.orphans_total {
                0 => String::new(),
                count => format!("; {} (`bursar blob orphans`)", counted(count, "object without a blob")),
            };
            let blobs = counted(report.blobs, "live blob");
            let abilities = if abilities.is_empty() { "reads and writes" } else { &abilities };
            Finding::good(Component::Blobs, format!("{blobs}, all bytes are there; {place}: {abilities}{orphans}"))
        }
    }
}

async fn balances(bursar: &Bursar) -> Finding {
    let todo = "run `bursar doctor --fix` or `bursar rebuild` to rebuild the tables from the journal";
    match bursar.verify().await {
        Ok(report) if report.is_ok() => {
            let detail = format!("{} and {} match", counted(report.scopes, "scope"), counted(report.holds, "hold"));
            Finding::good(Component::Balances, detail)
        }
        Ok(report) => Finding::bad(Component::Balances, report.violations.join("; "), todo),
        Err(error) => Finding::failed(Component::Balances, &error, error.to_string(), todo),
    }
}

/// Writes a new file next to a damaged one from its journal, if that is readable; fails with the reason if not. The operator replaces the
/// old file, because only they know that no process uses it. Returns `None` without `--fix`, or without a file.
async fn salvage(args: &Doctor, global: &ConfiguredArgs) -> Option<Result<(u64, String), String>> {
    let url = global.config.database.url();
    let path = sqlite_path(url).filter(|path| args.fix && path.is_file())?;
    let rebuilt = rebuilt_path(path);
    let archive = match global.config.journal_archive(url) {
        Ok(archive) => archive,
        Err(problem) => return Some(Err(problem.detail)),
    };
    let made = Bursar::salvage(path, &rebuilt, archive.as_ref()).await;
    Some(match made {
        Ok(events) => {
            let steps = replacement_steps(path, &rebuilt);
            Ok((events, format!("{} was written from the journal; {steps}", rebuilt.display())))
        }
        Err(error) => Err(error.to_string()),
    })
}

/// Returns what to do about a database that cannot be opened. `tried` says that `--fix` was tried.
fn recovery_steps(url: &str, tried: bool) -> String {
    let Some(path) = sqlite_path(url) else {
        return "check that the PostgreSQL server is running, that the URL is right, and that the user has access"
            .into();
    };
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(_) => format!("check the path {shown}, or create an empty database there with `bursar migrate`"),
        Ok(_) if std::fs::File::open(path).is_err() => {
            format!("make {shown} readable for this user, or run as the user who owns it")
        }
        Ok(_) => {
            let restore =
                format!("move {shown} and its -wal and -shm files away, and restore a backup with `bursar restore`");
            if tried {
                return format!("keep a copy of {shown}; if that reason cannot be removed, {restore}");
            }
            format!(
                "if another version of bursar wrote {shown}, run `bursar migrate` with the newest release. If the file is damaged, run \
                 `bursar doctor --fix`, which writes a new file from the journal if that is readable. Otherwise {restore}"
            )
        }
    }
}

fn print(out: Output, diagnosis: &Diagnosis) -> Result<(), Problem> {
    out.data(diagnosis, || {
        let mut lines = Vec::new();
        for finding in &diagnosis.findings {
            let component = format!("{:?}", finding.component).to_lowercase();
            let mark = if finding.ok { "ok" } else { "FAILED" };
            lines.push(format!("{component:<9} {mark:<6} {}", finding.detail));
            lines.extend(finding.todo.as_ref().map(|todo| format!("{:17}what to do: {todo}", "")));
        }
        lines.extend(diagnosis.rebuilt.map(|events| format!("rebuilt from {}", counted(events, "event"))));
        lines.join("\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(last_event_at: Option<Time>, now: Time) -> Health {
        let (engine, place) = (String::new(), String::new());
        Health { engine, schema: 1, place, row_security: None, problems: Vec::new(), position: 0, last_event_at, now }
    }

    #[test]
    fn a_clock_behind_the_journal_is_reported() {
        let now = SystemClock.now();
        for (last, ok) in [
            (None, true),
            (Some(now.before(Span::from_days(400))), true),
            (Some(now.after(Span::from_secs(1))), true),
            (Some(now.after(Span::from_days(1))), false),
        ] {
            let findings = clock(&health(last, now));
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].ok, ok, "{}", findings[0].detail);
        }
    }

    #[test]
    fn repair_steps_match_the_engine() {
        let steps = |engine: &str, problem: &str| {
            let now = SystemClock.now();
            let (engine, problems) = (engine.to_owned(), vec![problem.to_owned()]);
            let found = database(&Health { engine, problems, ..health(None, now) });
            assert!(!found.ok && found.detail.contains(problem));
            found.todo.unwrap()
        };
        let server = steps("PostgreSQL 15.14", "fsync is off");
        assert!(server.contains("postgresql.conf") && !server.contains("file"), "{server}");
        let file = steps("SQLite 3.50", "page 7 is never used");
        assert!(file.contains("backup") && file.contains("doctor --fix"), "{file}");
    }

    #[test]
    fn a_skewed_database_clock_is_reported() {
        let findings = clock(&health(None, SystemClock.now().before(Span::from_secs(3_600))));
        assert_eq!(findings.len(), 1);
        assert!(!findings[0].ok && findings[0].detail.contains("apart"), "{}", findings[0].detail);
    }
}
