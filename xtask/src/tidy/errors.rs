//! Every error a caller can meet is explained.

use crate::Problem;
use crate::mask::code;
use crate::tree::Tree;

const DOCUMENT: &str = "docs/errors.md";
const ENUMS: [(&str, &str); 6] = [
    ("crates/bursar-core/src/refusal.rs", "Refusal"),
    ("crates/bursar-store/src/error.rs", "StoreError"),
    ("crates/bursar/src/error.rs", "Error"),
    ("crates/bursar/src/reservation.rs", "ReservationError"),
    ("crates/bursar-client/src/error.rs", "Error"),
    ("crates/bursar/src/meter/settings.rs", "MeterError"),
];

/// The document has every variant of these enums in backticks.
pub(super) fn untold(tree: &Tree) -> Vec<Problem> {
    let document = tree.text(DOCUMENT).unwrap_or_default();
    let mut problems = Vec::new();
    for (path, name) in ENUMS {
        let variants = variants(tree.text(path).unwrap_or_default(), name);
        if variants.is_empty() {
            problems.push(Problem::of(path, format!("has no `enum {name}` that this rule can read")));
        }
        let untold = variants.iter().filter(|variant| !document.contains(&format!("`{variant}`")));
        problems.extend(untold.map(|variant| Problem::of(DOCUMENT, format!("does not tell `{variant}` of {name}"))));
    }
    problems
}

/// The names of an enum's variants: what begins with a capital one level deep.
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
    fn a_variant_that_is_not_told_is_found() {
        let refusal = "pub enum Refusal {\n    /// Text.\n    #[error(\"Told\")]\n    Told {\n        /// Which.\n        Scope: u8,\n    },\n    Untold(u8),\n}\nenum Other {\n    Fine,\n}";
        let [_, rest @ ..] = ENUMS.map(|(path, name)| (path, format!("enum {name} {{\n    Told,\n}}")));
        let [store, error, reservation, client, meter] = rest.each_ref().map(|(path, text)| (*path, text.as_str()));
        let tree = tree([(ENUMS[0].0, refusal), store, error, reservation, client, meter, (DOCUMENT, "`Told`")]);
        let found: Vec<String> = untold(&tree).iter().map(|problem| problem.text.clone()).collect();
        assert_eq!(found, ["does not tell `Untold` of Refusal"]);
    }

    #[test]
    fn an_enum_that_cannot_be_read_is_a_problem() {
        assert_eq!(untold(&tree([])).len(), ENUMS.len());
    }
}
