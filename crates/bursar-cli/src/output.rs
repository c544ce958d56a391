//! What is printed: data on standard output, everything else on standard error, never in colour.

use std::io::{self, Write};

use serde::Serialize;

use bursar_server::wire::problem::{Kind, Problem, ViolationAnswer};

/// Where and how to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    /// As JSON, or for people.
    pub(crate) fn new(json: bool) -> Output {
        Output { json }
    }

    /// Whether JSON is wanted.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints what was asked for.
    pub(crate) fn data(self, value: &impl Serialize, human: impl FnOnce() -> String) -> Result<(), Problem> {
        let text = if self.json {
            let json = serde_json::to_string_pretty(value);
            json.map_err(|error| Problem::new(Kind::Internal, format!("the answer cannot be written: {error}")))?
        } else {
            harmless(&human())
        };
        self.write(&text)
    }

    /// Prints one of many, as JSON on a line of its own.
    pub(crate) fn line(self, value: &impl Serialize) -> Result<(), Problem> {
        let json = serde_json::to_string(value);
        self.write(&json.map_err(|error| Problem::new(Kind::Internal, format!("a line cannot be written: {error}")))?)
    }

    /// Prints lines for people as they come; nothing where JSON is wanted.
    pub(crate) fn say(self, text: &str) -> Result<(), Problem> {
        if self.json { Ok(()) } else { self.write(&harmless(text)) }
    }

    /// Tells something beside the data.
    pub(crate) fn note(self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", harmless(text));
    }

    /// Tells where a list goes on, if it does.
    pub(crate) fn more(self, next: Option<&str>) {
        if let Some(next) = next {
            self.note(&format!("there may be more: --after {next}"));
        }
    }

    /// Tells what was not done, why, and what to do.
    pub(crate) fn problem(self, problem: &Problem) {
        if self.json {
            let json = serde_json::to_string(problem).unwrap_or_else(|_| format!("{:?}", problem.detail));
            let _ = writeln!(io::stderr(), "{json}");
            return;
        }
        self.note(&format!("error: {}", problem.detail));
        if let Some(advice) = advice(problem) {
            self.note(&format!("hint: {advice}"));
        }
    }

    fn write(self, text: &str) -> Result<(), Problem> {
        match writeln!(io::stdout(), "{text}") {
            // A reader that has seen enough, like `head`, is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Problem::new(Kind::Internal, format!("standard output cannot be written: {error}")))
            }
            _ => Ok(()),
        }
    }
}

/// Reasons and payloads are other people's text: they must not steer the terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// What to do about a problem, where its own words do not say it.
fn advice(problem: &Problem) -> Option<&'static str> {
    let grant = |violation: &ViolationAnswer| matches!(violation, ViolationAnswer::Grant { .. });
    let frozen = |violation: &ViolationAnswer| matches!(violation, ViolationAnswer::Frozen { .. });
    Some(match problem.kind {
        Kind::Refused if problem.violations.iter().any(frozen) => {
            "nothing has changed; see why with `bursar budget show`, then `bursar budget unfreeze`"
        }
        Kind::Refused if problem.violations.iter().any(grant) => {
            "nothing has changed; a token works once, until it expires, for its own purpose and subject: mint a new one"
        }
        Kind::QuotaExceeded => {
            "nothing has changed; wait until the quota is there again, or `bursar meter limit` raises it"
        }
        Kind::Refused => "nothing has changed; ask for less, wait, or raise the limit with `bursar budget define`",
        Kind::UnknownScope => "`bursar budget define SCOPE --limit AMOUNT:WINDOW` makes a budget",
        Kind::NotFound => "check the id and the --tenant",
        Kind::AlreadySettled => "nothing has changed; `bursar hold show` tells how it was settled",
        Kind::LeaseLost => "nothing has changed; `bursar job show` tells what became of the job",
        Kind::Busy | Kind::Overloaded => "nothing has changed; try again",
        Kind::Unavailable => "`bursar doctor` looks closer",
        _ => return None,
    })
}

/// A table with its columns aligned; numbers to the right.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headers[column].len()]).max().unwrap_or(0)
    };
    let numeric = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| *cell != "-").peekable();
        cells.peek().is_some() && cells.all(|cell| cell.parse::<i64>().is_ok())
    };
    let columns: Vec<(usize, bool)> = (0..headers.len()).map(|column| (width(column), numeric(column))).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let aligned = cells
            .zip(&columns)
            .map(|(cell, (width, right))| if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") });
        aligned.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut headers.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

/// A cell that may be empty.
pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
