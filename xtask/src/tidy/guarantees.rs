//! Every guarantee names the tests that prove it, and the tests exist.

use std::collections::BTreeMap;

use crate::Problem;
use crate::mask::{code, is_word};
use crate::tree::Tree;

const DOCUMENT: &str = "docs/guarantees.md";
/// The guarantees of what is built so far.
const GUARANTEES: [&str; 10] = ["I1", "I2", "I3", "I4", "I5", "I6", "I9", "I10", "I11", "I12"];

/// A test is named as `` `path/from/the/root.rs::name` ``, in the row or in the section of its guarantee: a line that
/// begins with its id, in a table or as a heading, and what follows up to the next such line.
pub(super) fn unproven(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.text(DOCUMENT) else { return vec![Problem::of(DOCUMENT, "does not exist")] };
    let mut problems = Vec::new();
    let mut proofs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut current = "";
    for (number, line) in (1..).zip(text.lines()) {
        current = guarantee(line).unwrap_or(current);
        for (path, name) in tests(line) {
            if tree.text(path).is_some_and(|source| has_function(source, name)) {
                *proofs.entry(current).or_default() += 1;
            } else {
                problems.push(Problem::at(DOCUMENT, number, format!("names {path}::{name}, which does not exist")));
            }
        }
    }
    let bare = GUARANTEES.iter().filter(|id| !proofs.contains_key(*id));
    problems.extend(bare.map(|id| Problem::of(DOCUMENT, format!("names no test that proves {id}"))));
    problems
}

/// The id a line begins with, behind the marks of a table, a heading or bold type.
fn guarantee(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| "|#*- ".contains(c));
    let digits = line.strip_prefix('I')?.chars().take_while(char::is_ascii_digit).count();
    let ends = line[1 + digits..].chars().next().is_none_or(|c| !c.is_alphanumeric());
    (digits > 0 && ends).then(|| &line[..=digits])
}

/// The tests that a line names in backticks.
fn tests(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`').skip(1).step_by(2).filter_map(|code| {
        let (path, name) = code.split_once(".rs::")?;
        Some((&code[..path.len() + 3], name.rsplit("::").next()?))
    })
}

fn has_function(source: &str, name: &str) -> bool {
    let code = code(source);
    code.match_indices("fn ").any(|(place, _)| is_word(&code, place, "fn") && is_word(&code, place + 3, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn guarantees_need_tests_that_exist() {
        let table = "| I1 | text | `a/t.rs::one`, `a/t.rs::module::two` |\n| **I2** | text | `a/t.rs::gone` |\n";
        let sections = "## I3 All\ntext `a/t.rs::one`\n### I10\n- `a/t.rs::two`\n- `b.rs::one`\n";
        let doc = [table, sections].concat();
        let tree = tree([(DOCUMENT, doc.as_str()), ("a/t.rs", "fn one() {}\nasync fn two() {}\n// fn gone() {}")]);
        let found: Vec<String> = unproven(&tree).iter().map(|problem| problem.text.clone()).collect();
        let bare = ["I2", "I4", "I5", "I6", "I9", "I11", "I12"].map(|id| format!("names no test that proves {id}"));
        let gone = ["names a/t.rs::gone, which does not exist", "names b.rs::one, which does not exist"];
        assert_eq!(found, [gone.map(str::to_owned).as_slice(), bare.as_slice()].concat());
    }

    #[test]
    fn without_the_document_nothing_is_guaranteed() {
        assert_eq!(unproven(&tree([])).len(), 1);
    }
}
