//! `bursar bench`: its output, its errors and its cleanup.

use std::process::{Command, Stdio};
use std::time::Duration;

use bursar_testkit::{Says, ended};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::workdir::{Workdir, text};

const SHORT: [&str; 10] = ["bench", "hold", "--callers", "2", "--scopes", "1", "--seconds", "0.1", "--rounds", "1"];

#[test]
fn figures_are_printed_as_json_lines_or_a_table() {
    let dir = Workdir::empty();
    let here = format!("sqlite://{}/bench.db", dir.0.path().display());
    // The PostgreSQL servers of tests run with fsync=off, so there is no fsync time to compare with.
    for (url, synced) in [(here, true), (bursar_testkit::fresh_database(), false)] {
        let disk = if synced { "; one fsync takes " } else { "fsync=off" };
        let args = [&SHORT[..], &["--database", &url]].concat();
        let ran = dir.run(&[&args[..], &["--json"]].concat()).exits(0);
        let line: Value = serde_json::from_str(&ran.out).expect("one line of JSON");
        assert_eq!((&line["bench"], &line["callers"], &line["scopes"]), (&json!("hold"), &json!(2), &json!(1)));
        assert_eq!(line["engine"], if url.starts_with("sqlite") { "sqlite" } else { "postgres" });
        assert_eq!(line["baseline"], "bulk-insert");
        assert!(line["per_second"].as_f64().unwrap() > 0.0 && line["ratio"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!(line["fsync_ms"].as_f64().unwrap() > 0.0, synced, "{line}");
        assert!(ran.err.contains("machine: ") && ran.err.contains(disk), "{}", ran.err);

        let ran = dir.run(&args).exits(0);
        for word in ["machine: ", disk, "p99 ms", "p99/fsync", "bulk-insert", "ratio"] {
            assert!(ran.out.contains(word), "{word} is missing in\n{}", ran.out);
        }
        // The latency as a multiple of one fsync.
        let row = ran.out.lines().find(|line| line.contains("bulk-insert")).unwrap();
        let before = row.split_once("bulk-insert").unwrap().0;
        let times = before.split_whitespace().next_back().unwrap();
        match synced {
            true => assert!(times.parse::<f64>().expect("a figure") >= 0.0, "{row}"),
            false => assert_eq!(times, "-", "{row}"),
        }
    }
    assert_eq!(std::fs::read_dir(dir.0.path()).unwrap().count(), 0, "the folder is empty again");
}

#[test]
fn latency_can_be_measured_across_two_processes() {
    let dir = Workdir::empty();
    let here = format!("sqlite://{}/bench.db", dir.0.path().display());
    for url in [here, bursar_testkit::fresh_database()] {
        let args =
            ["bench", "latency", "--jobs", "3", "--rounds", "1", "--processes", "2", "--database", &url, "--json"];
        let line: Value = serde_json::from_str(&dir.run(&args).exits(0).out).expect("one line of JSON");
        assert_eq!((&line["bench"], &line["processes"], &line["jobs"]), (&json!("latency"), &json!(2), &json!(3)));
        assert!(line["p50_ms"].as_f64().unwrap() > 0.0, "{line}");
    }
    assert_eq!(std::fs::read_dir(dir.0.path()).unwrap().count(), 0, "the folder is empty again");
}

#[test]
fn the_http_bench_compares_with_a_bare_route() {
    let dir = Workdir::empty();
    let here = format!("sqlite://{}/bench.db", dir.0.path().display());
    for url in [here, bursar_testkit::fresh_database()] {
        let short = ["bench", "http", "--callers", "3", "--seconds", "0.2", "--rounds", "1", "--database", &url];
        let ran = dir.run_in(&[("BURSAR_LISTEN", "203.0.113.1:1")], &[&short[..], &["--json"]].concat(), "").exits(0);
        let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.iter().map(|line| text(&line["work"])).collect::<Vec<_>>(), ["command", "lease"]);
        for line in lines {
            assert_eq!(
                (&line["bench"], &line["callers"], &line["baseline"]),
                (&json!("http"), &json!(3), &json!("axum"))
            );
            for figure in ["per_second", "p50_ms", "p99_ms", "baseline_per_second", "ratio"] {
                assert!(line[figure].as_f64().unwrap() > 0.0, "{figure}: {line}");
            }
            let (idle, most) = (line["rss_idle_mb"].as_f64().unwrap(), line["rss_mb"].as_f64().unwrap());
            assert!(1.0 < idle && idle <= most, "{line}");
        }
        assert!(ran.err.contains("MB idle"), "{}", ran.err);
    }
    assert_eq!(std::fs::read_dir(dir.0.path()).unwrap().count(), 0, "the folder is empty again");
}

#[test]
fn unused_options_are_ignored_with_a_note() {
    let dir = Workdir::empty();
    let here = format!("sqlite://{}/bench.db", dir.0.path().display());
    let all =
        ["--callers", "2", "--scopes", "3", "--history", "5", "--seconds", "0.1", "--rounds", "1", "--jobs", "20"];
    for (bench, ignored) in
        [("drain", "--scopes"), ("latency", "--callers"), ("hold", "--jobs"), ("meter", "--history")]
    {
        let args = [&["bench", bench, "--database", &here, "--baseline", "none", "--json"][..], &all].concat();
        let ran = dir.run(&args).exits(0);
        let line: Value = serde_json::from_str(ran.out.lines().next().unwrap()).expect("a line of JSON");
        assert_eq!(line["bench"], bench);
        assert!(ran.err.contains(&format!("{ignored} is ignored by {bench}: ")), "{}", ran.err);
    }
}

#[test]
fn invalid_bench_arguments_are_wrong_usage() {
    let dir = Workdir::empty();
    for (args, word) in [
        (
            &["bench", "quick"][..],
            "command, hold, settle, enqueue, enqueue-bulk, drain, latency, meter, meter-slices, http",
        ),
        (&["bench", "drain", "--jobs", "0"], "jobs"),
        (&["bench", "latency", "--processes", "3"], "processes"),
        (&["bench", "drain", "--baseline", "textbook"], "empty or none"),
        (&["bench", "meter", "--baseline", "textbook"], "unmetered or none"),
        (&["bench", "hold", "--baseline", "unmetered"], "unmetered"),
        (&["bench", "http", "--baseline", "textbook"], "axum or none"),
        (&["bench", "http", "--callers", "5000"], "callers"),
        (&["bench", "--callers", "0"], "callers"),
        (&["bench", "--scopes", "0"], "scopes"),
        (&["bench", "--rounds", "0"], "rounds"),
        (&["bench", "--seconds", "-1"], "seconds"),
        (&["bench", "--seconds", "0"], "seconds"),
        (&["bench", "--seconds", "soon"], "soon"),
        (&["bench", "--history", "-5"], "-5"),
        (&["bench", "--baseline", "slow"], "textbook"),
        (&["bench", "--keys", "odd"], "random"),
        (&["bench", "--snapshot", "--baseline", "textbook"], "snapshot"),
        (&["bench", "--database", "sqlite::memory:"], "disk"),
        (&["bench", "--database", "mysql://user:secret@host/x"], "postgres://"),
        (&["bench", "--database", "sqlite://missing/folder/x.db"], "missing/folder"),
    ] {
        let problem = dir.problem(2, args);
        let detail = text(&problem["detail"]);
        assert!(detail.contains(word) && !detail.contains("secret"), "{args:?}: {detail}");
    }
    assert_eq!(
        dir.problem(6, &["bench", "--database", "postgres://127.0.0.1:1/none"])["type"],
        "/problems/unavailable"
    );
}

#[test]
fn both_engines_are_measured_regardless_of_the_environment() {
    let dir = Workdir::empty();
    let environment = [("BURSAR_DATABASE", "postgres://127.0.0.1:1/production")];
    let args = [&SHORT[..], &["--baseline", "none", "--json"]].concat();
    let ran = dir.run_in(&environment, &args, "").exits(0);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.iter().map(|line| text(&line["engine"])).collect::<Vec<_>>(), ["sqlite", "postgres"]);
    assert!(lines.iter().all(|line| line["baseline"].is_null() && line["ratio"].is_null()), "{}", ran.out);
    for setting in ["synchronous=FULL", "fsync=on", "synchronous_commit=on"] {
        assert!(ran.err.contains(setting), "{}", ran.err);
    }
}

#[test]
fn an_interrupted_bench_removes_its_databases() {
    let dir = Workdir::empty();
    let server = bursar_testkit::fresh_database();
    // Only those of one process, since other tests use the same server.
    let databases = |process: u32| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let count = "SELECT count(*) FROM pg_database WHERE starts_with(datname, $1)";
        runtime.block_on(async {
            let mut conn = PgConnection::connect(&server).await.unwrap();
            let own = format!("bursar_bench_{process}_");
            sqlx::query_scalar::<_, i64>(count).bind(own).fetch_one(&mut conn).await.unwrap()
        })
    };
    let files = |_| std::fs::read_dir(dir.0.path()).unwrap().count();
    let here = format!("sqlite://{}/bench.db", dir.0.path().display());
    for (url, signal, busy) in [
        (&here, "-INT", &(|own| files(own) > 0) as &dyn Fn(u32) -> bool),
        (&server, "-TERM", &|own| databases(own) > 0),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bursar"))
            .args(["bench", "hold", "--callers", "2", "--scopes", "1", "--seconds", "600", "--database", url])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = Says::on(child.stdout.take().expect("a pipe"));
        let stderr = Says::on(child.stderr.take().expect("a pipe"));
        while !stdout.next_line().expect("the line about the disk").contains("one fsync takes") {}
        let process = child.id();
        let began = (0..1_200).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            busy(process)
        });
        assert!(began, "nothing was created at {url} within two minutes");
        let killed = Command::new("kill").args([signal, &process.to_string()]).status().expect("kill runs");
        assert!(killed.success());
        assert_eq!(ended(&mut child).code(), Some(1));
        let stderr = stderr.rest().join("\n");
        assert!(stderr.contains("interrupted"), "{stderr}");
        assert!(!busy(process), "what was created at {url} still exists");
    }
}
