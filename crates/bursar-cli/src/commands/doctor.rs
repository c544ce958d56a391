//! `bursar doctor`: what is wrong, and what to do about it.

use std::path::{Path, PathBuf};

use bursar::{Bursar, Clock, Health, Span, SystemClock, Time};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::args::Global;
use crate::exit::{self, Exit};
use crate::output::Output;
use crate::session::{Session, sqlite_path};
use bursar_server::wire::problem::Problem;

/// What to look at.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Only this; everything unless said
    #[arg(long, value_enum)]
    component: Option<Component>,
    /// Repair what can be repaired: tables are made anew from the journal, and a journal that is ahead of the clock is set back in a new file
    #[arg(long)]
    fix: bool,
}

/// A part that can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Component {
    /// The file or the server, and its tables
    Database,
    /// The clock, compared with the journal
    Clock,
    /// Whether every event can be read
    Journal,
    /// Whether balances are what holds and postings say
    Balances,
}

/// What was found about a part.
#[derive(Serialize)]
struct Finding {
    component: Component,
    ok: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

/// Everything that was found.
#[derive(Serialize)]
struct Diagnosis {
    ok: bool,
    findings: Vec<Finding>,
    /// How many events the tables were made anew from, where they were.
    rebuilt: Option<u64>,
}

impl Finding {
    fn good(component: Component, detail: impl Into<String>) -> Finding {
        Finding { component, ok: true, detail: detail.into(), todo: None }
    }

    fn bad(component: Component, detail: impl Into<String>, todo: impl Into<String>) -> Finding {
        Finding { component, ok: false, detail: detail.into(), todo: Some(todo.into()) }
    }
}

/// Looks, repairs where that is asked for, and tells.
pub(crate) async fn run(args: Doctor, global: &Global) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    let diagnosis = match Session::on_database(global).await {
        Ok(session) => {
            let diagnosis = examine(&args, &session, global.config.database.url()).await;
            session.close().await;
            diagnosis
        }
        Err(problem) => Err(problem),
    };
    match diagnosis {
        Ok(diagnosis) => {
            tell(out, &diagnosis)?;
            Ok(if diagnosis.ok { Exit::Done } else { Exit::Failed })
        }
        Err(problem) if exit::of_problem(problem.kind) == Exit::Unavailable => {
            let (rebuilt, todo) = match salvage(&args, global.config.database.url()).await {
                Some((events, todo)) => (Some(events), todo),
                None => (None, way_back(global.config.database.url())),
            };
            let finding = Finding::bad(Component::Database, problem.detail, todo);
            tell(out, &Diagnosis { ok: false, findings: vec![finding], rebuilt })?;
            Ok(Exit::Unavailable)
        }
        Err(problem) => Err(problem),
    }
}

async fn examine(args: &Doctor, session: &Session, url: &str) -> Result<Diagnosis, Problem> {
    let wanted = |component| args.component.is_none_or(|only| only == component);
    let bursar = session.bursar()?;
    let health = bursar.health().await?;
    let mut findings = Vec::new();
    if wanted(Component::Database) {
        findings.push(database(&health));
    }
    if wanted(Component::Clock) {
        let mut found = clock(&health);
        if args.fix
            && let Some(finding) = found.iter_mut().find(|_| is_ahead(&health))
            && let Some(todo) = set_back(url, health.now).await
        {
            finding.todo = Some(todo);
        }
        findings.extend(found);
    }
    // A repair needs to know whether the journal can be read, whatever was asked for.
    let journal = if wanted(Component::Journal) || args.fix { Some(journal(&health, bursar).await) } else { None };
    let readable = journal.as_ref().is_some_and(|finding| finding.ok);
    findings.extend(journal.filter(|finding| wanted(Component::Journal) || !finding.ok));
    let mut rebuilt = None;
    if wanted(Component::Balances) {
        let mut found = balances(bursar).await;
        if !found.ok && args.fix && readable {
            session.out.note(&format!("{}: making the tables anew from the journal", found.detail));
            rebuilt = Some(bursar.rebuild().await?);
            found = balances(bursar).await;
        }
        findings.push(found);
    }
    Ok(Diagnosis { ok: findings.iter().all(|finding| finding.ok), findings, rebuilt })
}

fn database(health: &Health) -> Finding {
    let what = format!("{} at {}, schema version {}", health.engine, health.place, health.schema);
    if health.problems.is_empty() {
        return Finding::good(Component::Database, what);
    }
    let todo = if health.engine.starts_with("PostgreSQL") {
        "change the settings of the server, in postgresql.conf or with ALTER SYSTEM, and reload it; or connect to the \
            server that can write"
    } else {
        "stop the writers, keep a copy of the file, and restore a backup; where the damage is in an index or in \
            a table that follows from the journal, `bursar doctor --fix` or SQLite's REINDEX may do"
    };
    Finding::bad(Component::Database, format!("{what}: {}", health.problems.join("; ")), todo)
}

/// Clocks that differ by more than this are named.
const APART: Span = Span::from_secs(5);

/// Whether the journal is ahead of the clock.
fn is_ahead(health: &Health) -> bool {
    health.last_event_at.is_some_and(|last| last.since(health.now) > APART)
}

/// Makes a new file beside one whose clock had jumped ahead, with the journal set back.
async fn set_back(url: &str, now: Time) -> Option<String> {
    let path = sqlite_path(url).filter(|path| path.is_file())?;
    let anew = beside(path);
    let anew = anew.as_path();
    Some(match Bursar::set_clock_back(path, anew, now).await {
        Ok((events, by)) => format!(
            "{} was made from the {events} events of the journal, those after the jump set back by {} ms; {}",
            anew.display(),
            by.millis(),
            put_in_place(path, anew)
        ),
        Err(error) => format!("the journal was not set back: {error}"),
    })
}

/// Where a new file is made.
fn beside(path: &Path) -> PathBuf {
    let mut anew = path.as_os_str().to_owned();
    anew.push(".rebuilt");
    anew.into()
}

/// How a new file takes the place of an old one.
fn put_in_place(path: &Path, anew: &Path) -> String {
    let (anew, path) = (anew.display(), path.display());
    format!(
        "{path} was not changed. End whoever uses it, move {path} with its -wal and -shm files away, move {anew} to its \
         place, and run `bursar doctor` again"
    )
}

fn clock(health: &Health) -> Vec<Finding> {
    let mut findings = Vec::new();
    let machine = SystemClock.now();
    let apart = health.now.since(machine).max(machine.since(health.now));
    if apart > APART {
        let detail = format!("the database says {}, this machine {machine}: {} ms apart", health.now, apart.millis());
        findings.push(Finding::bad(Component::Clock, detail, "set the wrong one right, for example with NTP"));
    }
    match health.last_event_at {
        Some(last) if is_ahead(health) => {
            let ahead = last.since(health.now).millis();
            let detail =
                format!("the last event is from {last}, {ahead} ms after the clock, which says {}", health.now);
            let todo = "if the clock is behind now, set it right. If it had jumped ahead when that event was written, nothing \
                is lost, but time stands still for Bursar until the clock has caught up: holds do not expire and windows do \
                not turn. Then stop all programs that use the file and run `bursar doctor --component clock --fix`: it \
                makes a new file with the journal set back (SQLite)";
            findings.push(Finding::bad(Component::Clock, detail, todo));
        }
        Some(last) if findings.is_empty() => {
            findings.push(Finding::good(Component::Clock, format!("{}, last event {last}", health.now)));
        }
        None if findings.is_empty() => {
            findings.push(Finding::good(Component::Clock, format!("{}, no event yet", health.now)));
        }
        _ => {}
    }
    findings
}

async fn journal(health: &Health, bursar: &Bursar) -> Finding {
    let todo = "restore a backup: the journal is what everything else follows from. Nothing was overwritten";
    let (mut after, mut read) = (0, 0);
    loop {
        match bursar.journal().read(after, 1_000).await {
            Ok((events, at)) => {
                read += events.len();
                // Events may have been added since the health was asked for; none may be missing.
                if at == after || at >= health.position {
                    if at < health.position {
                        let detail = format!("events end at position {at}, before {}", health.position);
                        return Finding::bad(Component::Journal, detail, todo);
                    }
                    let detail = format!("readable up to position {at}, {read} events of this tenant");
                    return Finding::good(Component::Journal, detail);
                }
                after = at;
            }
            Err(error) => {
                return Finding::bad(Component::Journal, format!("after position {after}: {error}"), todo);
            }
        }
    }
}

async fn balances(bursar: &Bursar) -> Finding {
    let todo = "`bursar doctor --fix` (or `bursar rebuild`) makes the tables anew from the journal";
    match bursar.verify().await {
        Ok(report) if report.is_ok() => {
            let detail = format!("{} scopes and {} holds agree", report.scopes, report.holds);
            Finding::good(Component::Balances, detail)
        }
        Ok(report) => Finding::bad(Component::Balances, report.violations.join("; "), todo),
        Err(error) => Finding::bad(Component::Balances, error.to_string(), todo),
    }
}

/// Makes a new file beside a damaged one whose journal can still be read. Who puts it in its place knows that nobody
/// writes to the old one any more.
async fn salvage(args: &Doctor, url: &str) -> Option<(u64, String)> {
    let path = sqlite_path(url).filter(|path| args.fix && path.is_file())?;
    let anew = beside(path);
    let events = Bursar::salvage(path, &anew).await.ok()?;
    Some((events, format!("{} was made from its journal; {}", anew.display(), put_in_place(path, &anew))))
}

/// What to do about a database that cannot be opened.
fn way_back(url: &str) -> String {
    let Some(path) = sqlite_path(url) else {
        return "check that the server runs, that the address is right, and that this user may use it".into();
    };
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(_) => format!("check the path {shown}; to begin with an empty database there: `bursar migrate`"),
        Ok(file) if file.permissions().readonly() => format!("make {shown} and its folder writable"),
        Ok(_) => format!(
            "if {shown} is a Bursar database of another version, run `bursar migrate` with the newest bursar; if it is \
             damaged, `bursar doctor --fix` makes a new file beside it if its journal can be read; else copy {shown} \
             with its -wal and -shm files away and restore a backup"
        ),
    }
}

fn tell(out: Output, diagnosis: &Diagnosis) -> Result<(), Problem> {
    out.data(diagnosis, || {
        let mut lines = Vec::new();
        for finding in &diagnosis.findings {
            let component = format!("{:?}", finding.component).to_lowercase();
            let mark = if finding.ok { "ok" } else { "WRONG" };
            lines.push(format!("{component:<9} {mark:<6} {}", finding.detail));
            lines.extend(finding.todo.as_ref().map(|todo| format!("{:17}what to do: {todo}", "")));
        }
        lines.extend(diagnosis.rebuilt.map(|events| format!("rebuilt from {events} events")));
        lines.join("\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(last_event_at: Option<Time>, now: Time) -> Health {
        let (engine, place) = (String::new(), String::new());
        Health { engine, schema: 1, place, problems: Vec::new(), position: 0, last_event_at, now }
    }

    #[test]
    fn a_clock_behind_the_journal_is_named() {
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
    fn the_advice_is_for_the_engine_that_is_there() {
        let sick = |engine: &str, problem: &str| {
            let now = SystemClock.now();
            let (engine, problems) = (engine.to_owned(), vec![problem.to_owned()]);
            let found = database(&Health { engine, problems, ..health(None, now) });
            assert!(!found.ok && found.detail.contains(problem));
            found.todo.unwrap()
        };
        let server = sick("PostgreSQL 15.14", "fsync is off");
        assert!(server.contains("postgresql.conf") && !server.contains("file"), "{server}");
        let file = sick("SQLite 3.50", "page 7 is never used");
        assert!(file.contains("backup") && file.contains("doctor --fix"), "{file}");
    }

    #[test]
    fn a_database_that_goes_by_another_time_is_named() {
        let findings = clock(&health(None, SystemClock.now().before(Span::from_secs(3_600))));
        assert_eq!(findings.len(), 1);
        assert!(!findings[0].ok && findings[0].detail.contains("apart"), "{}", findings[0].detail);
    }
}
