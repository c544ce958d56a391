//! Public types have unique names within a crate.

use std::collections::BTreeMap;

use crate::Problem;
use crate::mask::{code, is_word};
use crate::tree::Tree;

/// The keywords that declare a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Reports a public type whose name another public type of the same crate has. Restricted visibility such as
/// `pub(crate)` and test modules do not count.
pub(super) fn duplicate_types(tree: &Tree) -> Vec<Problem> {
    let mut first: BTreeMap<(&str, String), (&str, usize)> = BTreeMap::new();
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let Some(krate) = library(path) else { continue };
        for (line, name) in public_types(text) {
            match first.get(&(krate, name.clone())) {
                Some((path_before, line_before)) => {
                    let text = format!("`{name}` is public at {path_before}:{line_before} too: rename one of them");
                    problems.push(Problem::at(path, line, text));
                }
                None => drop(first.insert((krate, name), (path, line))),
            }
        }
    }
    problems
}

/// Returns the folder of the library crate that a source file belongs to. Each program is a crate of its own.
fn library(path: &str) -> Option<&str> {
    let (folder, file) = path.split_once("/src/")?;
    (file != "main.rs" && !file.starts_with("bin/")).then_some(folder)
}

/// Returns the public types of a file with their lines.
fn public_types(text: &str) -> Vec<(usize, String)> {
    let code = code(text);
    // A test module is the last item of its file.
    let end = code.find("#[cfg(test)]\nmod ").unwrap_or(code.len());
    let mut found = Vec::new();
    for (line, text) in (1..).zip(code[..end].lines()) {
        for (place, _) in text.match_indices("pub ").filter(|(place, _)| is_word(text, *place, "pub")) {
            let rest = text[place + 4..].trim_start_matches("unsafe ");
            let declared = KEYWORDS.iter().find_map(|keyword| rest.strip_prefix(keyword)?.strip_prefix(' '));
            let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
            // The name is empty in a macro that gets it as a parameter.
            found.extend(declared.map(|rest| (line, name(rest))).filter(|(_, name)| !name.is_empty()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn two_public_types_of_one_name_are_found() {
        let tree = tree([
            ("crates/a/src/lib.rs", "mod b;\npub struct Place(u8);\npub enum Part {}\npub(crate) struct Told;"),
            (
                "crates/a/src/b.rs",
                "pub trait Place {}\n    pub type Part = u8;\npub(super) enum Told {}\npub fn place() {}",
            ),
            (
                "crates/a/src/c.rs",
                "// pub struct Place;\npub struct $name;\npub struct $name;\n#[cfg(test)]\nmod tests {\n    pub struct Place;\n}",
            ),
            ("crates/a/src/bin/run.rs", "pub struct Place;"),
            ("crates/a/src/main.rs", "pub struct Place;"),
            ("crates/a/tests/t.rs", "pub struct Place;"),
            ("crates/b/src/lib.rs", "pub struct Place;\npub struct Places;"),
        ]);
        let found: Vec<String> = duplicate_types(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/a/src/lib.rs:2: `Place` is public at crates/a/src/b.rs:1 too: rename one of them",
                "crates/a/src/lib.rs:3: `Part` is public at crates/a/src/b.rs:2 too: rename one of them",
            ]
        );
    }
}
