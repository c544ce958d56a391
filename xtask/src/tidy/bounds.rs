//! The documented bounds agree with the constants.

use std::collections::BTreeMap;

use crate::Problem;
use crate::tree::Tree;

const SOURCE: &str = "crates/bursar-core/src/bounds.rs";
const DOCUMENT: &str = "docs/limits.md";

/// Reports constants without a row `` | `NAME` | value | … | `` and rows without a constant of that value.
pub(super) fn undocumented_bounds(tree: &Tree) -> Vec<Problem> {
    let (Some(source), Some(document)) = (tree.text(SOURCE), tree.text(DOCUMENT)) else {
        return vec![Problem::of(DOCUMENT, format!("this file or {SOURCE} does not exist"))];
    };
    let mut problems = Vec::new();
    let mut rows: BTreeMap<&str, (usize, &str)> = (1..).zip(document.lines()).filter_map(row).collect();
    for (number, line) in (1..).zip(source.lines()) {
        let Some((name, expression)) = constant(line) else { continue };
        let Some(value) = value(expression) else {
            problems.push(Problem::at(SOURCE, number, format!("this rule cannot parse {expression}")));
            continue;
        };
        match rows.remove(name) {
            None => problems.push(Problem::of(DOCUMENT, format!("lacks {name}, which is {value}"))),
            Some((row, seen)) if seen != value => {
                problems.push(Problem::at(DOCUMENT, row, format!("says {name} is {seen}, but it is {value}")));
            }
            Some(_) => {}
        }
    }
    problems.extend(
        rows.into_iter()
            .map(|(name, (row, _))| Problem::at(DOCUMENT, row, format!("has {name}, which is not in {SOURCE}"))),
    );
    problems
}

fn row((number, line): (usize, &str)) -> Option<(&str, (usize, &str))> {
    let mut cells = line.strip_prefix("| `")?.split('|');
    let name = cells.next()?.trim().strip_suffix('`')?;
    name.chars().all(|c| c.is_ascii_uppercase() || c == '_').then_some((name, (number, cells.next()?.trim())))
}

fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
    Some((name, rest.split_once('=')?.1.trim().trim_end_matches(';')))
}

/// Returns the value as the document has it: `1,048,576`, `30 days`, `1 day`, `1 ms`.
fn value(expression: &str) -> Option<String> {
    for (constructor, unit) in [("Span::from_millis(", "ms"), ("Span::from_secs(", "s"), ("Span::from_days(", "days")] {
        if let Some(inner) = expression.strip_prefix(constructor) {
            let amount = integer(inner.strip_suffix(')')?)?;
            let unit = if (amount, unit) == (1, "days") { "day" } else { unit };
            return Some(format!("{} {unit}", grouped(amount)));
        }
    }
    match expression.split_once("<<") {
        Some((left, right)) => Some(grouped(integer(left)?.checked_shl(integer(right)?.try_into().ok()?)?)),
        None => integer(expression).map(grouped),
    }
}

fn integer(text: &str) -> Option<u64> {
    text.trim().replace('_', "").parse().ok()
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn the_table_and_the_constants_agree() {
        let source = "pub const A: usize = 1 << 20;\npub const B_MAX: Span = Span::from_days(3_660);\n\
            pub const C: usize = 5;\npub const D: u32 = 7;\npub const E: Span = Span::MAX;";
        let document = "| bound | value |\n| `A` | 1,048,576 | x |\n| `B_MAX` | 3,660 days | x |\n| `C` | 6 | x |\n| `F` | 1 | x |";
        let tree = tree([(SOURCE, source), (DOCUMENT, document)]);
        let found: Vec<String> = undocumented_bounds(&tree).iter().map(|problem| problem.text.clone()).collect();
        assert_eq!(
            found,
            [
                "says C is 6, but it is 5".to_owned(),
                "lacks D, which is 7".to_owned(),
                "this rule cannot parse Span::MAX".to_owned(),
                format!("has F, which is not in {SOURCE}"),
            ]
        );
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_048_576].map(grouped), ["0", "999", "1,000", "1,048,576"]);
    }
}
