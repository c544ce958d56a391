//! The project's own checks.
//!
//! ```text
//! cargo run -p xtask -- tidy    rules for sources and documents
//! cargo run -p xtask -- deps    licences, sources, bans, duplicates and unused dependencies
//! ```
//!
//! Every rule is a pure function from a [`tree::Tree`] or from the metadata of the workspace to [`Problem`]s, and has a test
//! that shows that it can fail.

mod deps;
mod mask;
mod tidy;
mod tree;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    path: String,
    line: usize,
    text: String,
}

impl Problem {
    /// Creates a problem on a line, counted from one.
    pub(crate) fn at(path: &str, line: usize, text: impl Into<String>) -> Problem {
        Problem { path: path.to_owned(), line, text: text.into() }
    }

    /// Creates a problem of a whole file.
    pub(crate) fn of(path: &str, text: impl Into<String>) -> Problem {
        Problem::at(path, 0, text)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

fn main() -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let command = std::env::args().nth(1).unwrap_or_default();
    let found = match command.as_str() {
        "tidy" => tree::Tree::load(&root).map(|tree| tidy::check(&tree)).map_err(|error| error.to_string()),
        "deps" => deps::check(&root),
        _ => Err("usage: cargo run -p xtask -- tidy | deps".to_owned()),
    };
    match found {
        Ok(problems) if problems.is_empty() => {
            println!("{command}: ok");
            ExitCode::SUCCESS
        }
        Ok(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            eprintln!("{command}: {} problems", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
