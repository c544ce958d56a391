//! A disk that cannot take more, and a database that may not be written.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use crate::place::Place;

#[test]
fn a_disk_that_cannot_take_more_is_unavailable_and_loses_nothing() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "1000000:lifetime"]).ends(0);
    let size = std::fs::metadata(place.0.path().join("bursar-data/bursar.db")).unwrap().len();
    // A shell counts in blocks of 512 bytes; some of them count in 1,024, which only takes longer.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" post a=1", size / 512 + 48);
    let (mut done, mut failed) = (0, 0);
    for _ in 0..500 {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_bursar")]).current_dir(place.0.path());
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
    assert!(done > 0, "the disk was full from the beginning");
    place.run(&["verify"]).ends(0);
    let posted = place.json(&["budget", "show", "a"])["balances"][0]["posted"].clone();
    assert_eq!(posted, done);
    place.run(&["post", "a=1"]).ends(0);
}

/// Runs the binary as somebody who may read the folder and not write to it.
fn as_stranger(place: &Place, args: &[&str]) -> Output {
    // The folder of the build may be closed to others.
    let binary = place.0.path().join("bursar");
    std::fs::copy(env!("CARGO_BIN_EXE_bursar"), &binary).expect("it can be copied");
    let root = std::fs::metadata("/proc/self").expect("Linux").uid() == 0;
    let mut command = if root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    command.args(args).current_dir(place.0.path()).env_remove("BURSAR_DATABASE").output().expect("it runs")
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its owner may");
}

#[test]
fn a_database_that_may_not_be_written_says_what_to_do() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "10:lifetime"]).ends(0);
    let folder = place.0.path().join("bursar-data");
    for entry in std::fs::read_dir(&folder).unwrap() {
        allow(&entry.unwrap().path(), 0o444);
    }
    allow(place.0.path(), 0o755);
    allow(&folder, 0o555);
    let ended = as_stranger(&place, &["post", "a=1"]);
    allow(&folder, 0o755);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(6), "{said}");
    assert!(said.contains("writable") || said.contains("may be written") || said.contains("permissions"), "{said}");
    for entry in std::fs::read_dir(&folder).unwrap() {
        allow(&entry.unwrap().path(), 0o644);
    }
    assert_eq!(place.json(&["budget", "show", "a"])["balances"][0]["posted"], 0);
}
