//! Rules for single files.

use crate::Problem;
use crate::mask::{code, has_word, is_word};
use crate::tree::Tree;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 100;

/// Reports files that are too long.
pub(super) fn long_files(tree: &Tree) -> Vec<Problem> {
    let long = tree.ending(".rs").filter(|(_, text)| text.lines().count() > FILE_LINES_MAX);
    long.map(|(path, text)| {
        Problem::of(path, format!("has {} lines; at most {FILE_LINES_MAX}: split it by noun", text.lines().count()))
    })
    .collect()
}

/// Reports functions that are too long.
pub(super) fn long_functions(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let code = code(text);
        for (place, _) in code.match_indices("fn ").filter(|(place, _)| is_word(&code, *place, "fn")) {
            let Some(length) = body(&code[place..]) else { continue };
            let lines = code[place..place + length].lines().count();
            if lines > FUNCTION_LINES_MAX {
                let name = code[place + 3..].split(['(', '<']).next().unwrap_or_default();
                let text = format!("`{name}` has {lines} lines; at most {FUNCTION_LINES_MAX}");
                problems.push(Problem::at(path, line_of(&code, place), text));
            }
        }
    }
    problems
}

/// Returns the length of a function from its `fn` to its closing brace; `None` without a body.
fn body(code: &str) -> Option<usize> {
    let (mut depth, mut opened, mut brackets) = (0, false, 0);
    for (place, c) in code.char_indices() {
        match c {
            '(' | '[' if !opened => brackets += 1,
            ')' | ']' if !opened => brackets -= 1,
            // A semicolon within brackets belongs to an array type.
            ';' if !opened && brackets == 0 => return None,
            '{' => (depth, opened) = (depth + 1, true),
            '}' => depth -= 1,
            _ => {}
        }
        if opened && depth == 0 {
            return Some(place + 1);
        }
    }
    None
}

/// Words that mark unfinished work.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// Macros for unfinished work and debugging.
const MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

/// Reports marks of unfinished work.
pub(super) fn leftovers(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in written_files(tree) {
        for (line, text) in lines(text) {
            problems.extend(
                UNFINISHED
                    .iter()
                    .filter(|word| has_word(text, word))
                    .map(|word| Problem::at(path, line, format!("{word} is left over: finish the work or remove it"))),
            );
        }
    }
    for (path, text) in tree.ending(".rs") {
        for (line, text) in lines(&code(text)) {
            problems.extend(
                MACROS
                    .iter()
                    .filter(|name| calls(text, name))
                    .map(|name| Problem::at(path, line, format!("`{name}` is left over"))),
            );
        }
    }
    problems
}

fn calls(text: &str, name: &str) -> bool {
    let word = name.trim_end_matches('!');
    text.match_indices(name).any(|(place, _)| is_word(text, place, word))
}

/// Reports silenced lints and ignored tests.
pub(super) fn silenced(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs") {
        for (line, text) in lines(&code(text)) {
            let text: String = text.split_whitespace().collect();
            if text.contains("#[ignore") {
                problems.push(Problem::at(path, line, "a test is ignored: run it or remove it"));
            }
            if text.contains("#[allow(") || text.contains("#![allow(") {
                problems.push(Problem::at(path, line, "use `#[expect(…, reason = …)]` instead of `allow`"));
            }
        }
    }
    problems
}

/// Folders that exist only on some machines.
const MACHINE: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Reports absolute paths of one machine.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in written_files(tree) {
        for (line, text) in lines(text) {
            for folder in MACHINE {
                let mut places = text.match_indices(folder).map(|(place, _)| text[..place].chars().next_back());
                // After a word, a dot or a closing brace it is the middle of a path or URL.
                if places.any(|before| !before.is_some_and(|c| c.is_alphanumeric() || "._-~})".contains(c))) {
                    problems.push(Problem::at(path, line, format!("{folder} is a path of one machine")));
                }
            }
        }
    }
    problems
}

/// Reports trailing whitespace and tabs.
pub(super) fn stray_whitespace(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs").chain(tree.ending(".md")) {
        for (line, text) in lines(text) {
            if text.ends_with([' ', '\t']) {
                problems.push(Problem::at(path, line, "has trailing whitespace"));
            }
            if text.contains('\t') {
                problems.push(Problem::at(path, line, "has a tab"));
            }
        }
    }
    problems
}

/// Returns all files except generated lock files.
fn written_files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files.iter().filter(|(path, _)| !path.ends_with(".lock")).map(|(path, text)| (path.as_str(), text.as_str()))
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.split('\n').map(|line| line.trim_end_matches('\r')))
}

fn line_of(text: &str, place: usize) -> usize {
    text[..place].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    fn texts(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_file_of_601_lines_is_too_long() {
        let files = [("a.rs", "x\n".repeat(601)), ("b.rs", "x\n".repeat(600)), ("c.md", "x\n".repeat(999))];
        let tree = tree(files.each_ref().map(|(path, text)| (*path, text.as_str())));
        assert_eq!(texts(&long_files(&tree)), ["a.rs: has 601 lines; at most 600: split it by noun"]);
    }

    #[test]
    fn a_function_of_101_lines_is_too_long() {
        let long = format!("\nfn long(a: [u8; 2]) {{\n{}}}\n", "    x(\"}\");\n".repeat(99));
        let fits = format!("fn fits<T>() {{\n{}}}\nfn other();\n{}", "    x('}');\n".repeat(98), "\n".repeat(200));
        let tree = tree([("long.rs", long.as_str()), ("fits.rs", fits.as_str())]);
        assert_eq!(texts(&long_functions(&tree)), ["long.rs:2: `long` has 101 lines; at most 100"]);
    }

    #[test]
    fn leftovers_are_found_in_text_and_code() {
        let words = format!("fine\n// {}: later\nlet todos = 1;", UNFINISHED[0]);
        let tree = tree([
            ("words.rs", words.as_str()),
            ("notes.md", UNFINISHED[2]),
            ("code.rs", "fn a() {\n    dbg!(1);\n}\nfn b() { unimplemented!() }"),
            ("text.rs", "let text = \"dbg!(1)\"; // unimplemented!"),
        ]);
        let found = texts(&leftovers(&tree));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[1].starts_with("words.rs:2:"), "{found:?}");
        assert!(found[2..].iter().all(|problem| problem.starts_with("code.rs:")), "{found:?}");
    }

    #[test]
    fn silenced_lints_and_ignored_tests_are_found() {
        let tree = tree([("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n#[allow(unused)]\n// #[allow(unused)]")]);
        let found = texts(&silenced(&tree));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:2:") && found[1].starts_with("a.rs:4:"), "{found:?}");
    }

    #[test]
    fn only_machine_paths_are_found() {
        let bad = format!("ok\nsee {}me/notes", MACHINE[0]);
        let good = format!("docs{0} https://example.org{0} $(pwd){0}", MACHINE[1]);
        let tree = tree([("Makefile", bad.as_str()), ("good.md", good.as_str())]);
        assert_eq!(texts(&machine_paths(&tree)), [format!("Makefile:2: {} is a path of one machine", MACHINE[0])]);
    }

    #[test]
    fn trailing_whitespace_and_tabs_are_found() {
        let tree = tree([("a.rs", "a \nb\tc\nd\n"), ("a.md", "fine\n"), ("Makefile", "\tok \n")]);
        assert_eq!(texts(&stray_whitespace(&tree)), ["a.rs:1: has trailing whitespace", "a.rs:2: has a tab"]);
    }
}
