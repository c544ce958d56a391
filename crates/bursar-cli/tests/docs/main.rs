//! The commands of the guides are run: each document in a folder of its own, block after block, against the built binary.
//!
//! A block of `sh` is run as it stands, and every command of it must succeed. In a block of `console` lines that begin with `$ ` are
//! run, those that begin with `> ` continue them, and what follows is what must be printed; `…` stands for anything within a
//! line, a line of it for any lines. A command whose output begins with `error: ` must fail, and every other succeed. A block after `<!-- not run: … -->` is left out;
//! `xtask tidy` knows the reasons that count.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod document;
mod output;
mod session;

use std::path::{Path, PathBuf};

use crate::document::steps;
use crate::session::run;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents whose commands are run.
fn documents() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    documents.push(root().join("README.md"));
    documents.sort();
    documents
}

#[test]
fn the_commands_of_the_guides_work_and_print_what_the_guides_say() {
    let (mut commands, mut wrong) = (0, Vec::new());
    for path in documents() {
        let steps = steps(&std::fs::read_to_string(&path).unwrap());
        if steps.is_empty() {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ended = run(&steps);
        for (place, step) in steps.iter().enumerate() {
            commands += 1;
            // One whose output begins with an error is to fail.
            let fails =
                step.expected.as_ref().and_then(|lines| lines.first()).is_some_and(|line| line.starts_with("error: "));
            let Some((code, printed)) = ended.get(place) else {
                wrong.push(format!("{name}:{}: was not reached", step.line));
                continue;
            };
            if (*code != 0) != fails {
                wrong.push(format!("{name}:{}: ended with {code}\n{}\n{printed}", step.line, step.command));
            }
            if let Some(expected) = &step.expected
                && !output::matches(expected, printed)
            {
                let expected = expected.join("\n");
                let line = step.line;
                wrong.push(format!("{name}:{line}: says\n{expected}\n--- but it is\n{printed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {commands} commands:\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(commands >= 40, "the guides have commands: {commands}");
}
