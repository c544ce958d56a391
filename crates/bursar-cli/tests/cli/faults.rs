//! A full disk, and a database without write permission.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use crate::workdir::Workdir;

#[test]
fn a_full_disk_is_unavailable_and_loses_nothing() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "1000000:lifetime"]).exits(0);
    let size = std::fs::metadata(dir.0.path().join("bursar-data/bursar.db")).unwrap().len();
    // `ulimit -f` counts blocks of 512 bytes; in shells that count 1,024 the disk is full later.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" post a=1", size / 512 + 48);
    let (mut done, mut failed) = (0, 0);
    for _ in 0..500 {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_bursar")]).current_dir(dir.0.path());
        let ended = shell.env_remove("BURSAR_DATABASE").output().unwrap();
        match ended.status.code() {
            Some(0) => done += 1,
            Some(6) => failed += 1,
            other => panic!("{other:?}: {}", String::from_utf8_lossy(&ended.stderr)),
        }
        if failed == 3 {
            break;
        }
    }
    assert_eq!(failed, 3, "the disk was never full");
    assert!(done > 0, "the disk was full from the start");
    dir.run(&["verify"]).exits(0);
    let posted = dir.json(&["budget", "show", "a"])["balances"][0]["posted"].clone();
    assert_eq!(posted, done);
    dir.run(&["post", "a=1"]).exits(0);
}

/// Runs the binary as a user with read but no write permission on the folder.
fn run_unprivileged(dir: &Workdir, args: &[&str]) -> Output {
    // Other users may have no access to the build folder.
    let binary = dir.0.path().join("bursar");
    if !binary.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_bursar"), &binary).expect("the binary is copied");
    }
    let root = std::fs::metadata("/proc/self").expect("Linux").uid() == 0;
    let mut command = if root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    command.args(args).current_dir(dir.0.path()).env_remove("BURSAR_DATABASE").env("BURSAR_LISTEN", "127.0.0.1:0");
    command.output().expect("the binary runs")
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("the permissions are set");
}

#[test]
fn a_read_only_database_error_says_what_to_do() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "10:lifetime"]).exits(0);
    let folder = dir.0.path().join("bursar-data");
    for entry in std::fs::read_dir(&folder).unwrap() {
        allow(&entry.unwrap().path(), 0o444);
    }
    allow(dir.0.path(), 0o755);
    allow(&folder, 0o555);
    let ended = run_unprivileged(&dir, &["post", "a=1"]);
    // What only reads needs no permission to write.
    for args in [
        &["budget", "list"][..],
        &["budget", "show", "a"],
        &["verify"],
        &["journal", "list"],
        &["job", "list"],
        &["queue", "list"],
        &["hold", "list", "a"],
        &["top", "--once"],
    ] {
        let read = run_unprivileged(&dir, args);
        assert!(read.status.success(), "{args:?}: {}", String::from_utf8_lossy(&read.stderr));
        assert!(!read.stdout.is_empty(), "{args:?}");
    }
    let doctor = run_unprivileged(&dir, &["doctor"]);
    let findings = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(1), "{findings}");
    assert!(findings.contains("writable for this user") && findings.contains("balances  ok"), "{findings}");
    assert!(!findings.contains("migrate") && !findings.contains("--fix"), "{findings}");
    allow(&folder, 0o755);
    let error = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(error.contains("writable") || error.contains("may be written") || error.contains("permissions"), "{error}");
    for entry in std::fs::read_dir(&folder).unwrap() {
        allow(&entry.unwrap().path(), 0o644);
    }
    assert_eq!(dir.json(&["budget", "show", "a"])["balances"][0]["posted"], 0);
}
