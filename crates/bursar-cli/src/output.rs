//! What is printed: data on standard output, everything else on standard error, never in colour.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use bursar_wire::problem::shell_quoted;
use bursar_wire::problem::{Kind, Problem, Voice};
use serde::Serialize;

/// Prints data, notes and problems, as JSON or for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json }
    }

    /// Whether data is printed as JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints the result of a command.
    pub(crate) fn data(self, value: &impl Serialize, human: impl FnOnce() -> String) -> Result<(), Problem> {
        let text = if self.json {
            let json = serde_json::to_string_pretty(value);
            json.map_err(|error| {
                Problem::new(Kind::Internal, format!("the result cannot be written as JSON: {error}"))
            })?
        } else {
            sanitized(&human())
        };
        self.write(&text)
    }

    /// Prints one of several results as a line of JSON.
    pub(crate) fn json_line(self, value: &impl Serialize) -> Result<(), Problem> {
        let json = serde_json::to_string(value);
        self.write(
            &json.map_err(|error| {
                Problem::new(Kind::Internal, format!("the result cannot be written as JSON: {error}"))
            })?,
        )
    }

    /// Prints a text as it is, such as a script.
    pub(crate) fn script(self, text: &str) -> Result<(), Problem> {
        self.write(text.trim_end())
    }

    /// Prints text for people; prints nothing with `--json`.
    pub(crate) fn text(self, text: &str) -> Result<(), Problem> {
        if self.json { Ok(()) } else { self.write(&sanitized(text)) }
    }

    /// Prints a note on standard error.
    pub(crate) fn note(self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", sanitized(text));
    }

    /// Notes how to list the next page, if there is one.
    pub(crate) fn next_page(self, next: Option<&str>) {
        if let Some(next) = next {
            self.note(&format!("there may be more: continue with --after {}", shell_quoted(next)));
        }
    }

    /// Prints a problem on standard error, with a hint for people.
    pub(crate) fn problem(self, problem: &Problem) {
        if self.json {
            // A server's hint is for its HTTP callers.
            let mut problem = problem.clone();
            let hint = problem.hint(Voice::CommandLine);
            if hint.is_some() || problem.http.is_some() {
                problem.http.get_or_insert_default().hint = hint;
            }
            let json = serde_json::to_string(&problem).unwrap_or_else(|_| format!("{:?}", problem.detail));
            let _ = writeln!(io::stderr(), "{json}");
            return;
        }
        self.note(&format!("error: {}", problem.detail));
        if let Some(hint) = problem.hint(Voice::CommandLine) {
            self.note(&format!("hint: {hint}"));
        }
    }

    fn write(self, text: &str) -> Result<(), Problem> {
        match write_line(&mut io::stdout().lock(), text) {
            Ok(()) => Ok(()),
            // A reader that closes the pipe early, such as `head`, is not a failure.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                READER_GONE.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Problem::new(Kind::Internal, format!("standard output cannot be written: {error}"))),
        }
    }

    /// Returns whether the reader of standard output has closed it, so that a command that goes on for ever can end.
    pub(crate) fn reader_is_gone(self) -> bool {
        READER_GONE.load(Ordering::Relaxed)
    }
}

/// Whether the reader of standard output has closed it.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Writes a line in one piece and flushes it. Rust's own buffer would write what is left at the end of the process, where an error is
/// lost.
fn write_line(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(format!("{text}\n").as_bytes())?;
    to.flush()
}

/// Replaces control characters. Reasons and payloads come from callers and must not control the terminal.
pub(crate) fn sanitized(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Formats a table with aligned columns; numeric columns are aligned to the right.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headers[column].len()]).max().unwrap_or(0)
    };
    let numeric = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| *cell != "-").peekable();
        cells.peek().is_some() && cells.all(|cell| is_amount(cell))
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

/// Whether a cell is a number, alone or with a symbol before it or a unit after it: `-$5.00`, `1,250 tokens`.
fn is_amount(cell: &str) -> bool {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let number = number.trim_start_matches(|sign: char| !sign.is_ascii_alphanumeric());
    !number.is_empty()
        && number.chars().all(|sign| sign.is_ascii_digit() || ",.".contains(sign))
        && !unit.contains([' ', '('])
}

/// Formats a count with its noun, in the plural unless the count is one.
pub(crate) fn counted(count: impl std::fmt::Display + Copy, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Formats an optional value; `-` stands for none.
pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_aligned_to_the_right_and_names_to_the_left() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "$25.00", "in 5 min"]), row(["bcd", "-$1,234.50", "-"])];
        assert_eq!(
            table(&["SCOPE", "LEFT", "RESETS"], &rows),
            "SCOPE        LEFT  RESETS\na          $25.00  in 5 min\nbcd    -$1,234.50  -"
        );
        for (cell, amount) in
            [("1,250 tokens", true), ("80 %", true), ("job_01", false), ("3 min ago", false), ("", false)]
        {
            assert_eq!(is_amount(cell), amount, "{cell}");
        }
    }
}
