//! The modules of some crates depend on each other in one direction only.

use std::collections::{BTreeMap, BTreeSet};

use crate::Problem;
use crate::mask::code;
use crate::tree::Tree;

/// The crates without circles among their top-level modules. In the others, modules that describe one thing together refer to
/// each other.
const ACYCLIC: [&str; 7] = [
    "crates/bursar-cli",
    "crates/bursar-client",
    "crates/bursar-fuzz",
    "crates/bursar-lossy-vfs",
    "crates/bursar-pg-cluster",
    "crates/bursar-sim",
    "crates/bursar-testkit",
];

/// The modules that a module names as `crate::…`.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Reports top-level modules of a crate in [`ACYCLIC`] that depend on themselves through other modules.
pub(super) fn import_circles(tree: &Tree) -> Vec<Problem> {
    ACYCLIC.iter().flat_map(|folder| circles_in(tree, folder)).collect()
}

fn circles_in(tree: &Tree, folder: &str) -> Vec<Problem> {
    let uses = uses(tree, &format!("{folder}/src/"));
    let circular = uses.keys().filter(|module| reachable(&uses, module).contains(*module));
    let names: Vec<&str> = circular.map(String::as_str).collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![Problem::of(folder, format!("the modules {} depend on each other in a circle", names.join(", ")))]
}

fn uses(tree: &Tree, sources: &str) -> Uses {
    let mut uses = Uses::new();
    for (path, text) in tree.ending(".rs") {
        let Some(file) = path.strip_prefix(sources) else { continue };
        let module = file.split('/').next().unwrap_or(file).trim_end_matches(".rs");
        // The root of a crate names all of its modules.
        if !["lib", "main", "bin"].contains(&module) {
            uses.entry(module.to_owned()).or_default().extend(named_modules(text));
        }
    }
    uses
}

/// Returns the names that follow `crate::`, also in a list in braces. Test modules do not count.
fn named_modules(text: &str) -> Vec<String> {
    let code = code(text);
    let end = code.find("#[cfg(test)]\nmod ").unwrap_or(code.len());
    let mut names = Vec::new();
    for rest in code[..end].split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => names.extend(top_level(list)),
            None => names.push(word(rest)),
        }
    }
    names
}

/// Returns the first word of each item of a list that was opened by a brace.
fn top_level(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut items = vec![String::new()];
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(String::new()),
            c => items.last_mut().expect("the list has an item").push(c),
        }
    }
    items.iter().map(|item| word(item.trim())).collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Returns the modules that `from` depends on, directly or through others.
fn reachable(uses: &Uses, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        for used in uses.get(module).into_iter().flatten() {
            // A module may name itself by its full path.
            if used != module && found.insert(used.clone()) {
                next.push(used);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    fn found<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
        circles_in(&tree(files), "crates/a").iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_circle_through_three_modules_is_found() {
        let circle = [
            ("crates/a/src/lib.rs", "mod b; use crate::b::B;"),
            ("crates/a/src/b.rs", "use crate::c::C;"),
            ("crates/a/src/c/mod.rs", "// nothing"),
            ("crates/a/src/c/deep.rs", "use crate::{c::D, d::{E, F}};"),
            ("crates/a/src/d.rs", "fn f() { crate::b::f() }"),
            ("crates/a/src/e.rs", "use crate::b::B;"),
        ];
        assert_eq!(found(circle), ["crates/a: the modules b, c, d depend on each other in a circle"]);
    }

    #[test]
    fn tests_comments_and_own_paths_are_no_circle() {
        let line = [
            ("crates/a/src/b.rs", "use crate::b::B;\nuse crate::c::C;"),
            ("crates/a/src/c.rs", "// crate::b\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}"),
        ];
        assert_eq!(found(line), Vec::<String>::new());
    }
}
