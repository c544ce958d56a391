//! Dependencies that are not used.

use crate::Problem;
use crate::deps::packages::Package;
use crate::mask::{code, has_word};
use crate::tree::Tree;

/// Reports dependencies of workspace members that their sources do not mention. A dev-dependency may also be mentioned in a
/// documentation example.
pub(super) fn unused(packages: &[Package], tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let Some(folder) = &package.folder else { continue };
        let manifest = format!("{folder}/Cargo.toml");
        let sources = |within: String| tree.ending(".rs").filter(move |(path, _)| path.starts_with(&within));
        for dependency in &package.dependencies {
            let mentioned = if dependency.dev {
                sources(format!("{folder}/")).any(|(_, text)| has_word(text, &dependency.name))
            } else {
                let built = sources(format!("{folder}/src/")).chain(sources(format!("{folder}/build.rs")));
                built.into_iter().any(|(_, text)| has_word(&code(text), &dependency.name))
            };
            if !mentioned {
                problems.push(Problem::of(&manifest, format!("{} is not used", dependency.name)));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deps::packages::Dependency;
    use crate::tree::tree;

    #[test]
    fn unused_dependencies_are_found() {
        let dependency = |name: &str, dev| Dependency { name: name.to_owned(), package: name.to_owned(), dev };
        let package = Package {
            folder: Some("a".to_owned()),
            dependencies: vec![
                dependency("used", false),
                dependency("only_in_comment", false),
                dependency("in_a_doctest", true),
                dependency("in_a_test", true),
                dependency("nowhere", true),
                dependency("of_another", false),
            ],
            ..Package::default()
        };
        let tree = tree([
            ("a/src/lib.rs", "//! use in_a_doctest::X;\nuse used::Y; // only_in_comment"),
            ("a/tests/t.rs", "use in_a_test::Z;"),
            ("b/src/lib.rs", "use of_another::Z;"),
        ]);
        let found: Vec<String> = unused(&[package], &tree).iter().map(|problem| problem.text.clone()).collect();
        assert_eq!(found, ["only_in_comment is not used", "nowhere is not used", "of_another is not used"]);
    }
}
