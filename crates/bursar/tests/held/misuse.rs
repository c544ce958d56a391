//! Misuse of handles that the compiler rejects: each program in `misuse/` fails with the error that its first line names.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that settles a hold once.
const RIGHT: &str = "fn main() { let _ = |held: bursar::Held| async { held.commit(1).await }; }";

#[test]
fn settling_twice_does_not_compile() {
    let library = library();
    let mut programs = 0;
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/held/misuse")).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let expected = source.lines().next().and_then(|line| line.strip_prefix("//! ")).unwrap();
        assert_eq!(errors(&library, &path), [expected], "{}", path.display());
        programs += 1;
    }
    assert_eq!(programs, 3);
}

/// Returns the library that cargo has compiled for this test: the latest with which a right program compiles.
fn library() -> PathBuf {
    let scratch = tempfile::tempdir().unwrap();
    let right = scratch.path().join("right.rs");
    std::fs::write(&right, RIGHT).unwrap();
    let this = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(this.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libbursar-") && name.ends_with(".rlib")
    };
    let mut libraries: Vec<PathBuf> = files.filter(is_library).collect();
    libraries.sort_by_key(|path| std::cmp::Reverse(path.metadata().and_then(|data| data.modified()).unwrap()));
    libraries.into_iter().find(|library| errors(library, &right).is_empty()).expect("a compiled library")
}

/// Compiles a program and returns the errors in it.
fn errors(library: &Path, program: &Path) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--emit", "metadata", "--color", "never", "--out-dir"]).arg(scratch.path());
    rustc.arg("--extern").arg(format!("bursar={}", library.display()));
    rustc.arg("-L").arg(format!("dependency={}", library.parent().unwrap().display()));
    let output = rustc.arg(program).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let errors: Vec<String> = text.lines().filter(|line| line.starts_with("error[")).map(str::to_owned).collect();
    assert_eq!(output.status.success(), errors.is_empty(), "{text}");
    errors
}
