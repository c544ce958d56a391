//! Every package can be used under an allowed licence.

use crate::Problem;
use crate::deps::packages::Package;
use crate::deps::problem;

/// Permissive licences.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(super) fn licences(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        match package.licence.as_deref().map(|expression| (expression, allows(expression))) {
            None => problems.push(problem(package, "has no licence")),
            Some((expression, None)) => {
                problems.push(problem(package, format!("{expression:?} is not an SPDX expression")));
            }
            Some((expression, Some(false))) => problems.push(problem(package, format!("{expression} is not allowed"))),
            Some((_, Some(true))) => {}
        }
    }
    problems
}

/// Returns whether an SPDX expression can be satisfied with allowed licences; `None` if it cannot be parsed.
fn allows(expression: &str) -> Option<bool> {
    // Older packages use a slash instead of OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let allowed = either(&mut rest)?;
    rest.is_empty().then_some(allowed)
}

/// Parses `term OR term …`.
fn either(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = both(words)?;
    while take(words, "OR") {
        allowed |= both(words)?;
    }
    Some(allowed)
}

/// Parses `licence AND licence …`, which binds closer.
fn both(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(words)?;
    while take(words, "AND") {
        allowed &= one(words)?;
    }
    Some(allowed)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    if take(words, "(") {
        let allowed = either(words)?;
        return take(words, ")").then_some(allowed);
    }
    let (name, rest) = words.split_first()?;
    if ["OR", "AND", "WITH", ")"].contains(name) {
        return None;
    }
    *words = rest;
    if take(words, "WITH") {
        let (exception, rest) = words.split_first()?;
        *words = rest;
        return Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()));
    }
    Some(ALLOWED.contains(name))
}

fn take(words: &mut &[&str], word: &str) -> bool {
    let found = words.first() == Some(&word);
    if found {
        *words = &words[1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_are_evaluated() {
        let cases = [
            ("MIT", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("MIT OR GPL-3.0-only", Some(true)),
            ("MIT AND GPL-3.0-only", Some(false)),
            ("MIT/Apache-2.0", Some(true)),
            ("GPL-3.0-only OR MIT AND ISC", Some(true)),
            ("(GPL-3.0-only OR MIT) AND ISC", Some(true)),
            ("(MIT OR ISC) AND GPL-3.0-only", Some(false)),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", Some(true)),
            ("MIT WITH Some-exception", Some(false)),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT ISC", None),
            ("", None),
        ];
        for (expression, allowed) in cases {
            assert_eq!(allows(expression), allowed, "{expression:?}");
        }
    }

    #[test]
    fn a_package_without_an_allowed_licence_is_found() {
        let package = |licence: Option<&str>| Package { licence: licence.map(str::to_owned), ..Package::default() };
        let packages = [None, Some("MIT OR"), Some("AGPL-3.0-only"), Some("ISC")].map(package);
        let found: Vec<String> = licences(&packages).iter().map(|problem| problem.text.clone()).collect();
        assert_eq!(found, ["has no licence", "\"MIT OR\" is not an SPDX expression", "AGPL-3.0-only is not allowed"]);
    }
}
