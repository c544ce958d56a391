//! Every error that a caller can receive is documented.

use crate::Problem;
use crate::mask::code;
use crate::tree::Tree;

const DOCUMENT: &str = "docs/errors.md";
const ENUMS: [(&str, &str); 6] = [
    ("crates/bursar-core/src/refusal.rs", "Refusal"),
    ("crates/bursar-store/src/error.rs", "StoreError"),
    ("crates/bursar/src/error.rs", "Error"),
    ("crates/bursar/src/api/reservation/error.rs", "ReservationError"),
    ("crates/bursar-client/src/error.rs", "Error"),
    ("crates/bursar/src/meter/settings.rs", "MeterError"),
];

/// Reports variants of these enums that the document does not have in backticks.
pub(super) fn undocumented_errors(tree: &Tree) -> Vec<Problem> {
    let document = tree.text(DOCUMENT).unwrap_or_default();
    let mut problems = Vec::new();
    for (path, name) in ENUMS {
        let variants = variants(tree.text(path).unwrap_or_default(), name);
        if variants.is_empty() {
            problems.push(Problem::of(path, format!("has no `enum {name}` that this rule can parse")));
        }
        let missing = variants.iter().filter(|variant| !document.contains(&format!("`{variant}`")));
        problems.extend(missing.map(|variant| Problem::of(DOCUMENT, format!("lacks `{variant}` of {name}"))));
    }
    problems
}

/// Returns the names of an enum's variants: indented lines that begin with a capital.
fn variants(source: &str, name: &str) -> Vec<String> {
    let code = code(source);
    let Some((_, body)) = code.split_once(&format!("enum {name} {{")) else { return Vec::new() };
    let mut variants = Vec::new();
    for line in body.lines().take_while(|line| *line != "}") {
        if let Some(rest) = line.strip_prefix("    ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        {
            variants.push(rest.chars().take_while(char::is_ascii_alphanumeric).collect());
        }
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn an_undocumented_variant_is_found() {
        let refusal = "pub enum Refusal {\n    /// Text.\n    #[error(\"Documented\")]\n    Documented {\n        /// Which.\n        Scope: u8,\n    },\n    Undocumented(u8),\n}\nenum Other {\n    Fine,\n}";
        let [_, rest @ ..] = ENUMS.map(|(path, name)| (path, format!("enum {name} {{\n    Documented,\n}}")));
        let [store, error, reservation, client, meter] = rest.each_ref().map(|(path, text)| (*path, text.as_str()));
        let tree = tree([(ENUMS[0].0, refusal), store, error, reservation, client, meter, (DOCUMENT, "`Documented`")]);
        let found: Vec<String> = undocumented_errors(&tree).iter().map(|problem| problem.text.clone()).collect();
        assert_eq!(found, ["lacks `Undocumented` of Refusal"]);
    }

    #[test]
    fn an_enum_that_cannot_be_parsed_is_a_problem() {
        assert_eq!(undocumented_errors(&tree([])).len(), ENUMS.len());
    }
}
