//! Records the commit, its date and the kind of build for `bursar --version`.
//!
//! A release build follows the commit: it is rebuilt when HEAD moves. A development build records the commit at the time when this crate
//! was last changed, so that a commit alone rebuilds nothing. Without git, or outside of a repository, a packager sets
//! `BURSAR_COMMIT` and `BURSAR_COMMIT_DATE`; without these, the version stands alone.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=BURSAR_COMMIT");
    println!("cargo::rerun-if-env-changed=BURSAR_COMMIT_DATE");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let commit = given("BURSAR_COMMIT").or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let date = given("BURSAR_COMMIT_DATE").or_else(|| git(&["show", "--no-patch", "--format=%cs", "HEAD"]));
    if release && given("BURSAR_COMMIT").is_none() {
        follow_head();
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let mut notes: Vec<String> = [commit, date].into_iter().flatten().collect();
    // Only the profile `dist` is fully optimized.
    let optimized = env::var("OPT_LEVEL").is_ok_and(|level| level == "3");
    match (release, optimized) {
        (false, _) => notes.push("development build".to_owned()),
        (true, false) => notes.push("quick build".to_owned()),
        (true, true) => {}
    }
    // `cargo run` sets these for the program too, where `BURSAR_…` is the prefix of settings.
    println!("cargo::rustc-env=BUILD_IS_OPTIMIZED={optimized}");
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    println!("cargo::rustc-env=BUILD_VERSION={version}{notes}");
}

/// Rebuilds when HEAD names another branch, or when its branch moves.
fn follow_head() {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Returns what a git command prints; `None` if there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
