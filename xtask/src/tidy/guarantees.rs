//! Every guarantee names the tests that prove it, and the tests exist.

use std::collections::BTreeMap;

use crate::Problem;
use crate::mask::{code, is_word};
use crate::tree::Tree;

const DOCUMENT: &str = "docs/guarantees.md";
/// The ids of all guarantees.
const GUARANTEES: [&str; 12] = ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12"];

/// Reports guarantees without a test, tests that do not exist, and functions that no test runs. A test is named as `` `path/from/the/root.rs::name` `` in the
/// section of its guarantee, which begins with a table row or heading that starts with its id.
pub(super) fn untested_guarantees(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.text(DOCUMENT) else { return vec![Problem::of(DOCUMENT, "does not exist")] };
    let sources: Vec<String> = tree.ending(".rs").map(|(_, source)| code(source)).collect();
    let mut problems = Vec::new();
    let mut tests_of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut current = "";
    for (number, line) in (1..).zip(text.lines()) {
        current = guarantee(line).unwrap_or(current);
        for (path, name) in tests(line) {
            match tree.text(path).and_then(|source| function(&code(source), name)) {
                Some(Function::Test) => *tests_of.entry(current).or_default() += 1,
                Some(Function::Plain) if sources.iter().any(|source| is_listed(source, name)) => {
                    *tests_of.entry(current).or_default() += 1;
                }
                Some(Function::Plain) => {
                    problems.push(Problem::at(DOCUMENT, number, format!("names {path}::{name}, which is not a test")));
                }
                None => {
                    problems.push(Problem::at(DOCUMENT, number, format!("names {path}::{name}, which does not exist")));
                }
            }
        }
    }
    let untested = GUARANTEES.iter().filter(|id| !tests_of.contains_key(*id));
    problems.extend(untested.map(|id| Problem::of(DOCUMENT, format!("names no test of {id}"))));
    problems
}

/// Returns the id that a line begins with, after table, heading or bold marks.
fn guarantee(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| "|#*- ".contains(c));
    let digits = line.strip_prefix('I')?.chars().take_while(char::is_ascii_digit).count();
    let ends = line[1 + digits..].chars().next().is_none_or(|c| !c.is_alphanumeric());
    (digits > 0 && ends).then(|| &line[..=digits])
}

/// Returns the tests that a line names in backticks.
fn tests(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`').skip(1).step_by(2).filter_map(|code| {
        let (path, name) = code.split_once(".rs::")?;
        Some((&code[..path.len() + 3], name.rsplit("::").next()?))
    })
}

enum Function {
    /// It has an attribute such as `#[test]` or `#[tokio::test]`.
    Test,
    Plain,
}

fn function(code: &str, name: &str) -> Option<Function> {
    let mut places = code.match_indices("fn ").map(|(place, _)| place);
    let place = places.find(|place| is_word(code, *place, "fn") && is_word(code, place + 3, name))?;
    let before = code[..place].trim_end().trim_end_matches("async").trim_end();
    // The attributes of the function are between the end of the item before it and its name.
    let attributes = &before[before.rfind(['}', ';', '{']).map_or(0, |end| end + 1)..];
    let names = attributes.split("#[").skip(1).map(|text| text.split([']', '(']).next().unwrap_or_default().trim());
    let is_test = names.into_iter().any(|name| name.rsplit("::").next() == Some("test"));
    Some(if is_test { Function::Test } else { Function::Plain })
}

/// Returns whether a list of cases names the function, for example in a macro. A call does not count.
fn is_listed(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(place, _)| {
        let after = code[place + name.len()..].trim_start();
        is_word(code, place, name) && !code[..place].ends_with("fn ") && !after.starts_with('(')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn guarantees_need_tests_that_exist() {
        let table = "| I1 | text | `a/t.rs::one`, `a/t.rs::module::two` |\n| **I2** | text | `a/t.rs::gone` |\n";
        let sections = "## I3 All\ntext `a/t.rs::one`\n### I10\n- `a/t.rs::two`\n- `b.rs::one`\n- `a/t.rs::helper`\n";
        let doc = [table, sections].concat();
        let source = "cases!(two, 3);\n#[tokio::test(flavor = \"x\")]\nasync fn one() { helper(); }\nasync fn two() {}\n\
            fn helper() {}\n// fn gone() {}";
        let tree = tree([(DOCUMENT, doc.as_str()), ("a/t.rs", source)]);
        let found: Vec<String> = untested_guarantees(&tree).iter().map(|problem| problem.text.clone()).collect();
        let untested =
            ["I2", "I4", "I5", "I6", "I7", "I8", "I9", "I11", "I12"].map(|id| format!("names no test of {id}"));
        let missing = [
            "names a/t.rs::gone, which does not exist",
            "names b.rs::one, which does not exist",
            "names a/t.rs::helper, which is not a test",
        ];
        assert_eq!(found, [missing.map(str::to_owned).as_slice(), untested.as_slice()].concat());
    }

    #[test]
    fn a_missing_document_is_a_problem() {
        assert_eq!(untested_guarantees(&tree([])).len(), 1);
    }
}
