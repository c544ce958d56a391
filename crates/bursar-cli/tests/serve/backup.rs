//! A backup while the server is under load.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use serde_json::{Value, json};

use crate::process::Process;

const OPERATOR: &str = "the operator's token, for all of these tests";
const ENV: [(&str, &str); 1] = [("BURSAR_OPERATOR_TOKEN", OPERATOR)];
/// Requests answered before the backup starts, and at least as many after it.
const ENOUGH: usize = 100;
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

/// Runs the binary, which must succeed.
fn bursar(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_bursar")).args(args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns all visible rows, except figures that change with time.
fn snapshot(url: &str) -> Value {
    let run = |args: &[&str]| bursar(&[args, &["--database", url]].concat());
    let queues = run(&["queue", "list"]);
    // The other figures of a queue cover the last minute.
    let states = queues["items"].as_array().unwrap().iter().map(|queue| &queue["figures"]["states"]);
    json!([
        run(&["budget", "list"]),
        run(&["job", "list", "--queue", "media"]),
        states.collect::<Vec<_>>(),
        run(&["journal", "list", "--most", "500"]),
    ])
}

fn assert_backup_under_load_is_complete(from: &str, to: &str, file: &Path, filler: usize) {
    let server = Process::start(from, &ENV);
    let budget = json!({ "unit": "cent", "limits": [{ "amount": 1_000_000_000, "window": "lifetime" }] });
    assert_eq!(server.request(OPERATOR, "PUT", "/v1/budgets/room", budget).0, 200);
    // Enough pages that the copy takes several steps.
    let filler: Vec<Value> =
        (0..filler).map(|n| json!({ "queue": "other", "kind": "k", "payload": [n, "x".repeat(900)] })).collect();
    assert_eq!(server.request(OPERATOR, "POST", "/v1/jobs/bulk", json!({ "jobs": filler })).0, 200);
    let (answered, more, stop) = (Mutex::new(Vec::<String>::new()), Condvar::new(), AtomicBool::new(false));
    let until = |least: usize| {
        let fewer = |answered: &mut Vec<String>| answered.len() < least;
        let (answered, waited) = more.wait_timeout_while(answered.lock().unwrap(), TIMEOUT, fewer).unwrap();
        assert!(!waited.timed_out(), "the server stopped answering");
        answered.clone()
    };
    let file = file.display().to_string();
    let before = std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let body = json!({
                        "charges": [{ "scope": "room", "amount": 1 }], "settle": "job",
                        "jobs": [{ "queue": "media", "kind": "video" }],
                    });
                    let (status, done) = server.request(OPERATOR, "POST", "/v1/commands", body);
                    assert_eq!(status, 201, "{done}");
                    answered.lock().unwrap().push(done["id"].as_str().unwrap().to_owned());
                    more.notify_all();
                }
            });
        }
        let before = until(ENOUGH);
        let made = bursar(&["backup", &file, "--database", from]);
        assert!(made["bytes"].as_u64().unwrap() > 0, "{made}");
        let after = until(0).len();
        until(after + ENOUGH);
        stop.store(true, Ordering::Relaxed);
        before
    });
    assert_eq!(server.stop().0, Some(0));

    let restored = bursar(&["restore", &file, "--database", to]);
    assert_eq!(restored["verified"]["ok"], true, "{restored}");
    let server = Process::start(to, &ENV);
    for id in &before {
        assert_eq!(
            server.request(OPERATOR, "GET", &format!("/v1/commands/{id}"), Value::Null).0,
            200,
            "{id} is in the copy"
        );
    }
    // The copy has whole commands only: one held unit and one job for each.
    let held = &server.request(OPERATOR, "GET", "/v1/budgets/room", Value::Null).1["balances"][0]["held"];
    let (all, held) = (answered.into_inner().unwrap(), held.as_u64().unwrap() as usize);
    assert!((before.len()..=all.len()).contains(&held), "{} <= {held} <= {}", before.len(), all.len());
    assert_eq!(server.stop().0, Some(0));
    let was = snapshot(to);
    bursar(&["rebuild", "--yes", "--database", to]);
    for (was, is) in was.as_array().unwrap().iter().zip(snapshot(to).as_array().unwrap()) {
        assert_eq!(is, was, "a rebuild gives the same tables");
    }
    assert_eq!(bursar(&["verify", "--database", to])["ok"], true);
}

#[test]
fn a_sqlite_backup_under_load_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    let (from, to) = (url("a.db"), url("b.db"));
    assert_backup_under_load_is_complete(&from, &to, &folder.path().join("copy.db"), 4_000);
}

#[test]
fn a_postgres_backup_under_load_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (bursar_testkit::fresh_database(), bursar_testkit::fresh_database());
    let file = folder.path().join("copy.dump");
    assert_backup_under_load_is_complete(&from, &to, &file, 100);
    // A non-empty database is not changed, and neither is one if the dump is damaged.
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_bursar")).args(args).output().unwrap();
    let full = run(&["restore", &file.display().to_string(), "--database", &to]);
    assert_eq!(full.status.code(), Some(5), "{}", String::from_utf8_lossy(&full.stderr));
    let empty = bursar_testkit::fresh_database();
    let cut = folder.path().join("cut.dump");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let broken = run(&["restore", &cut.display().to_string(), "--database", &empty]);
    let stderr = String::from_utf8(broken.stderr).unwrap();
    assert!(broken.status.code() == Some(1) && stderr.contains("nothing was changed"), "{stderr}");
    bursar(&["restore", &file.display().to_string(), "--database", &empty]);
}
