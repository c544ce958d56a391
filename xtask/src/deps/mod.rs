//! Rules for dependencies: licences, sources, bans, duplicates, unused ones, and what the shipped binary may link. They need only `cargo metadata`, and no more
//! network access than a build.

mod licence;
mod packages;
mod shipped;
mod unused;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Problem;
use crate::tree::Tree;
use packages::Package;

/// Applies all rules to the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<Problem>, String> {
    let packages = packages::read(&metadata(root)?)?;
    let tree = Tree::load(root).map_err(|error| error.to_string())?;
    let mut problems = Vec::new();
    for rule in [packages::sources, packages::banned, packages::duplicates, licence::licences, shipped::test_kits] {
        problems.extend(rule(&packages));
    }
    problems.extend(unused::unused(&packages, &tree));
    Ok(problems)
}

fn metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the output of cargo metadata cannot be parsed: {error}"))
}

/// Creates a problem of a package in the lock file.
fn problem(package: &Package, text: impl Into<String>) -> Problem {
    Problem::of(&format!("{} {}", package.name, package.version), text)
}
