//! Two nodes behind PgBouncer in transaction mode, one of them with a direct URL.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::process::{Process, Stream};

const OPERATOR: &str = "the operator's token, the same on both nodes";

/// The environment of a node, and of commands on its database.
fn env(direct: Option<&str>) -> Vec<(&str, &str)> {
    let direct = direct.map(|url| ("BURSAR_POSTGRES_DIRECT_URL", url));
    [("BURSAR_OPERATOR_TOKEN", OPERATOR), ("BURSAR_POSTGRES_POOLED", "true")].into_iter().chain(direct).collect()
}

/// Runs a command; returns its exit code, its answer and its standard error.
fn bursar(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
    let output = command.args(args).arg("--json").envs(env.iter().copied()).output().unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), answer, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn without_the_setting_the_server_says_which_one_is_needed() {
    let url = bursar_testkit::pooler().url(&bursar_testkit::fresh_database());
    let (code, stderr) = Process::try_start(&url, "127.0.0.1:0", &[]);
    assert_ne!(code, Some(0));
    assert!(stderr.contains("postgres.pooled"), "{stderr}");
}

#[test]
fn two_nodes_behind_a_pooler_act_as_one() {
    let direct = bursar_testkit::fresh_database();
    let url = bursar_testkit::pooler().url(&direct);
    let (polling, listening) = (Process::start(&url, &env(None)), Process::start(&url, &env(Some(&direct))));
    for (one, two) in [(&polling, &listening), (&listening, &polling)] {
        let mut events = Stream::open(two, OPERATOR, "journal");
        let lease = json!({ "queues": ["media"], "wait_ms": 60_000 });
        let waiting = two.send(OPERATOR, "POST", "/v1/jobs/lease", lease);
        two.wait_for_lease_waiter(OPERATOR);
        let budget = json!({ "unit": "cent", "limits": [{ "amount": 1000, "window": "lifetime" }] });
        assert_eq!(one.request(OPERATOR, "PUT", "/v1/budgets/room", budget).0, 200);
        let command = json!({
            "charges": [{ "scope": "room", "amount": 10 }], "settle": "job",
            "jobs": [{ "queue": "media", "kind": "video", "payload": { "large": "x".repeat(5_000) } }],
        });
        let (status, done) = one.request(OPERATOR, "POST", "/v1/commands", command);
        assert_eq!(status, 201, "{done}");
        let (status, leased) = waiting.answer();
        assert_eq!((status, &leased["jobs"][0]["id"]), (200, &done["jobs"][0]["id"]), "{leased}");
        let (id, fence) = (leased["jobs"][0]["id"].as_str().unwrap(), &leased["jobs"][0]["lease"]["fence"]);
        let (status, ended) =
            two.request(OPERATOR, "POST", &format!("/v1/jobs/{id}/complete"), json!({ "fence": fence }));
        assert_eq!(status, 200, "{ended}");
        assert!((0..20).any(|_| events.next().1 == "job.succeeded"));
    }
    let spent = &polling.request(OPERATOR, "GET", "/v1/budgets/room", Value::Null).1["balances"][0]["posted"];
    assert_eq!(spent, 20);

    // A schedule wakes a request that waits on a node which cannot listen.
    let schedule = json!({ "cron": "* * * * * *", "queue": "ticks", "kind": "tick" });
    assert_eq!(listening.request(OPERATOR, "PUT", "/v1/schedules/often", schedule).0, 200);
    let lease = json!({ "queues": ["ticks"], "wait_ms": 60_000 });
    let (status, leased) = polling.request(OPERATOR, "POST", "/v1/jobs/lease", lease);
    assert_eq!((status, &leased["jobs"][0]["kind"]), (200, &json!("tick")), "{leased}");
    assert_eq!(polling.request(OPERATOR, "GET", "/v1/verify", Value::Null).1["ok"], true);
    assert_eq!((polling.stop().0, listening.stop().0), (Some(0), Some(0)));

    let folder = tempfile::tempdir().unwrap();
    assert_commands_work(&url, &direct, &folder.path().join("copy.dump"));
}

/// Backup, restore, rebuild, verify and doctor.
fn assert_commands_work(url: &str, direct: &str, file: &Path) {
    let file = file.display().to_string();
    let (code, _, stderr) = bursar(&["backup", &file, "--database", url], &env(None));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("postgres.direct_url"), "{stderr}");
    let (code, made, stderr) = bursar(&["backup", &file, "--database", url], &env(Some(direct)));
    assert_eq!(code, Some(0), "{stderr}");
    let to_direct = bursar_testkit::fresh_database();
    let to = bursar_testkit::pooler().url(&to_direct);
    let (code, restored, stderr) = bursar(&["restore", &file, "--database", &to], &env(Some(&to_direct)));
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!((&restored["verified"]["ok"], &restored["position"]), (&json!(true), &made["position"]));
    for args in [&["rebuild", "--yes"][..], &["verify"], &["doctor", "--component", "balances"]] {
        let (code, _, stderr) = bursar(&[args, &["--database", &to]].concat(), &env(None));
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
    }
    // The tests' PostgreSQL server runs with fsync=off, which the doctor reports.
    let (code, found, stderr) = bursar(&["doctor", "--component", "database", "--database", &to], &env(None));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(found.to_string().contains("fsync is off"), "{found}");
}
