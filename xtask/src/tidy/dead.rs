//! Source files that are not compiled.

use std::collections::BTreeSet;

use crate::Problem;
use crate::mask::{code, is_word};
use crate::tree::{Tree, resolve};

/// Reports `.rs` files below a `src` that are neither the root of a target nor named by a `mod`.
pub(super) fn unnamed_files(tree: &Tree) -> Vec<Problem> {
    let sources: Vec<&str> = tree.ending(".rs").map(|(path, _)| path).filter(|path| package(path).is_some()).collect();
    let mut named = BTreeSet::new();
    let mut open: Vec<String> =
        sources.iter().filter(|path| is_root(tree, path)).map(|path| (*path).to_owned()).collect();
    while let Some(path) = open.pop() {
        if let Some(text) = tree.text(&path).filter(|_| !named.contains(&path)) {
            open.extend(modules(tree, &path, text));
            named.insert(path);
        }
    }
    let dead = sources.into_iter().filter(|path| !named.contains(*path));
    dead.map(|path| Problem::of(path, "is not compiled: no `mod` names it")).collect()
}

/// Returns the package of a source file and its path below `src`.
fn package(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once("/src/").or_else(|| path.strip_prefix("src/").map(|rest| ("", rest)))
}

fn is_root(tree: &Tree, path: &str) -> bool {
    let Some((package, place)) = package(path) else { return false };
    let manifest = tree.text(&format!("{package}/Cargo.toml")).unwrap_or_default();
    let in_bin = place.strip_prefix("bin/").is_some_and(|name| !name.contains('/') || name.ends_with("/main.rs"));
    ["lib.rs", "main.rs"].contains(&place) || in_bin || manifest.contains(&format!("path = \"src/{place}\""))
}

/// Returns the files named by the `mod` lines of a file.
fn modules(tree: &Tree, path: &str, text: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let owns_folder = name == "mod.rs" || is_root(tree, path);
    let below = if owns_folder { folder.to_owned() } else { path.trim_end_matches(".rs").to_owned() };
    let code = code(text);
    let mut found = Vec::new();
    for (place, _) in code.match_indices("mod ").filter(|(place, _)| is_word(&code, *place, "mod")) {
        if let Some(name) = code[place + 4..].split_once(';').map(|(name, _)| name.trim()) {
            found.push(format!("{below}/{name}.rs"));
            found.push(format!("{below}/{name}/mod.rs"));
        }
    }
    let paths = text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
    found.extend(paths.map(|named| resolve(path, named)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn a_file_without_a_mod_is_found() {
        let tree = tree([
            ("a/Cargo.toml", "[[bin]]\npath = \"src/tool.rs\""),
            ("a/src/lib.rs", "mod one;\npub mod two;\n// mod dead;\n#[path = \"odd_name.rs\"]\nmod four;"),
            ("a/src/tool.rs", ""),
            ("a/src/one.rs", "mod deep;"),
            ("a/src/one/deep.rs", ""),
            ("a/src/two/mod.rs", "mod deep;"),
            ("a/src/two/deep.rs", ""),
            ("a/src/odd_name.rs", ""),
            ("a/src/dead.rs", "mod deep;"),
            ("a/src/dead/deep.rs", ""),
            ("a/src/bin/run.rs", ""),
            ("a/tests/any.rs", ""),
        ]);
        let found: Vec<String> = unnamed_files(&tree).into_iter().map(|problem| problem.path).collect();
        assert_eq!(found, ["a/src/dead.rs", "a/src/dead/deep.rs"]);
    }
}
