//! Runs the commands of the guides: each document in its own folder, block after block, with the built binary.
//!
//! Every command of an `sh` block must succeed. In a `console` block, lines that start with `$ ` are run, lines that start
//! with `> ` continue them, and the lines that follow are the expected output; `…` matches anything within a line, and a
//! line of `…` matches any lines. A command whose expected output starts with `error: ` must fail; every other command
//! must succeed. A block after `<!-- not run: … -->` is skipped; `xtask tidy` checks the reasons.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod document;
mod output;
mod shell;

use std::path::{Path, PathBuf};

use crate::document::steps;
use crate::shell::run;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the documents whose commands are run.
fn documents() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    documents.push(root().join("README.md"));
    documents.sort();
    documents
}

#[test]
fn the_commands_of_the_guides_print_what_the_guides_show() {
    let (mut commands, mut failures) = (0, Vec::new());
    for path in documents() {
        let steps = steps(&std::fs::read_to_string(&path).unwrap());
        if steps.is_empty() {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let results = run(&steps);
        for (index, step) in steps.iter().enumerate() {
            commands += 1;
            // A command whose expected output is an error must fail.
            let fails =
                step.expected.as_ref().and_then(|lines| lines.first()).is_some_and(|line| line.starts_with("error: "));
            let Some((code, printed)) = results.get(index) else {
                failures.push(format!("{name}:{}: was not reached", step.line));
                continue;
            };
            if (*code != 0) != fails {
                failures.push(format!("{name}:{}: exited with {code}\n{}\n{printed}", step.line, step.command));
            }
            if let Some(expected) = &step.expected
                && !output::matches(expected, printed)
            {
                let expected = expected.join("\n");
                let line = step.line;
                failures.push(format!("{name}:{line}: expected\n{expected}\n--- printed\n{printed}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {commands} commands:\n\n{}", failures.len(), failures.join("\n\n"));
    assert!(commands >= 40, "only {commands} commands were found");
}
