//! What people type and read: units, durations, suggestions, hints, help.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::workdir::{Workdir, text};

#[test]
fn amounts_are_written_and_shown_in_the_unit_of_their_budget() {
    let dir = Workdir::ready();
    let shown = dir.run(&["budget", "define", "org", "--limit", "25usd:month@Europe/Berlin", "--threshold", "80%"]);
    let shown = shown.exits(0).out;
    assert!(shown.contains("$25.00") && shown.contains("RESETS") && shown.contains("Europe/Berlin)"), "{shown}");
    assert!(!shown.contains("lifetime"), "the total has a name: {shown}");
    assert!(shown.lines().last().unwrap().starts_with("total so far"), "{shown}");
    assert_eq!(dir.json(&["budget", "show", "org"])["limits"][0]["amount"], 25_000_000);
    dir.run(&["budget", "define", "tokens", "--unit", "tokens", "--limit", "500k:bucket:10k/h"]).exits(0);

    let placed = dir.run(&["hold", "place", "org=0.50usd", "tokens=1.5k"]).exits(0).out;
    assert!(placed.contains("$0.50 on org") && placed.contains("1,500 tokens on tokens"), "{placed}");
    let id = placed.split_whitespace().find(|word| word.starts_with("hold_")).unwrap().to_owned();
    let listed = dir.run(&["hold", "list", "org"]).exits(0).out;
    assert!(listed.contains("$0.50") && listed.contains(" in "), "{listed}");
    let committed = dir.run(&["hold", "commit", &id, "--actual", "org=0.42", "--actual", "tokens=2k"]).exits(0);
    assert!(committed.out.contains("held $0.50, spent $0.42, freed $0.08"), "{}", committed.out);
    assert!(committed.out.contains("overrun 500 tokens"), "{}", committed.out);
    assert!(committed.err.contains("warning: the cost is above the held amount"), "{}", committed.err);

    let refused = dir.run(&["post", "org=30"]).exits(3);
    assert!(
        refused.err.contains("$24.58 left of $25.00") && refused.err.contains("$30.00 requested"),
        "{}",
        refused.err
    );
    let wrong = dir.run(&["post", "tokens=10.50"]).exits(2);
    assert!(wrong.err.contains("write 11"), "{}", wrong.err);
    dir.run(&["post", "org=1eur"]).exits(2);
    dir.run(&["budget", "credit", "org", "0.42usd"]).exits(0);
    let journal = dir.run(&["journal", "list", "--kind", "spend"]).exits(0).out;
    assert!(journal.contains("$0.42 credited"), "{journal}");
    let list = dir.run(&["budget", "list"]).exits(0).out;
    assert!(list.contains("bucket:500000:10000/h") && list.contains("500,000 tokens"), "{list}");
}

#[test]
fn a_changed_time_to_live_is_a_warning_and_an_estimate_is_in_words() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "10:rolling:2h", "--ttl-min", "5s", "--ttl-max", "10m"]).exits(0);
    let placed = dir.run(&["hold", "place", "a=4", "--ttl", "1h"]).exits(0);
    assert!(placed.err.contains("warning: the budgets allow 10m at most, not 1h"), "{}", placed.err);
    let raised = dir.run(&["hold", "place", "a=4", "--ttl-ms", "60"]).exits(0);
    assert!(raised.err.contains("warning: the budgets allow 5s at least, not 60ms"), "{}", raised.err);
    dir.run(&["budget", "define", "b", "--limit", "10:rolling:2h"]).exits(0);
    dir.run(&["post", "b=10"]).exits(0);
    let refused = dir.run(&["post", "b=9"]).exits(3);
    assert!(refused.err.contains("probably possible in 2 h"), "{}", refused.err);
    let shown = dir.run(&["budget", "show", "a"]).exits(0).out;
    assert!(shown.contains("from 5s to 10m"), "{shown}");
}

#[test]
fn a_budget_is_deleted_unless_units_are_held_on_it() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "a", "--limit", "10:day"]).exits(0);
    let id = dir.json(&["hold", "place", "a=1"])["hold"]["id"].clone();
    let held = dir.run(&["budget", "delete", "a"]).exits(5);
    assert!(held.err.contains("held"), "{}", held.err);
    dir.run(&["hold", "release", text(&id)]).exits(0);
    assert!(dir.run(&["budget", "delete", "a", "--reason", "retired"]).exits(0).out.contains("is deleted"));
    dir.run(&["post", "a=1"]).exits(4);
    assert!(dir.run(&["journal", "list", "--kind", "budget.removed"]).exits(0).out.contains("retired"));
    dir.run(&["budget", "delete", "nowhere"]).exits(4);
}

#[test]
fn a_name_that_resembles_another_gets_a_suggestion() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "agent:scout", "--limit", "10:day"]).exits(0);
    dir.run(&["job", "enqueue", "media", "video.encode"]).exits(0);
    dir.run(&["--tenant", "red", "budget", "define", "a", "--limit", "10:day"]).exits(0);
    for args in [
        &["budget", "show", "agent:scuot"][..],
        &["budget", "show", "scout"],
        &["budget", "history", "agent:scot"],
        &["budget", "freeze", "agent:scot"],
        &["hold", "list", "agent:scot"],
        &["post", "agent:scot=1"],
        &["budget", "define", "b", "--parent", "agent:scot", "--limit", "1:day"],
    ] {
        let ran = dir.run(args).exits(4);
        assert!(ran.err.contains("did you mean agent:scout?"), "{args:?}: {}", ran.err);
    }
    let queue = dir.run(&["queue", "show", "medai"]).exits(4);
    assert!(
        queue.out.is_empty() && queue.err.contains("there is no queue medai; did you mean media?"),
        "{}",
        queue.err
    );
    dir.run(&["queue", "show", "nope"]).exits(4);
    dir.run(&["queue", "show", "media"]).exits(0);
    let enqueued = dir.run(&["job", "enqueue", "medai", "video.encode"]).exits(0);
    assert!(enqueued.err.contains("warning: the queue medai is new; did you mean media?"), "{}", enqueued.err);
    assert_eq!(dir.run(&["job", "enqueue", "medai", "video.encode"]).exits(0).err, "", "it exists now");
    let paused = dir.run(&["queue", "pause", "mediaa"]).exits(4);
    assert!(paused.err.contains("there is no queue mediaa; nothing was changed; --create"), "{}", paused.err);
    assert!(paused.err.contains("did you mean media?"), "{}", paused.err);
    dir.run(&["queue", "show", "mediaa"]).exits(4);
    dir.run(&["queue", "pause", "later", "--create"]).exits(0);
    dir.run(&["queue", "show", "later"]).exits(0);
    let schedule = ["schedule", "set", "n", "--cron", "@daily", "--kind", "k", "--queue"];
    let set = dir.run(&[&schedule[..], &["mediaa"]].concat()).exits(0);
    assert!(set.err.contains("warning: the queue mediaa is new; did you mean media?"), "{}", set.err);
    assert_eq!(dir.run(&[&schedule[..], &["media"]].concat()).exits(0).err, "");
    let filtered = dir.run(&["job", "list", "--queue", "mediaa"]).exits(0);
    assert!(filtered.err.contains("there is no queue mediaa; did you mean"), "{}", filtered.err);
    let kind = dir.run(&["job", "list", "--kind", "video.encod"]).exits(0);
    assert!(kind.err.contains("did you mean video.encode?"), "{}", kind.err);
    let tenant = dir.run(&["--tenant", "rid", "budget", "list"]).exits(0);
    assert!(tenant.err.contains("the tenant rid has no budgets") && tenant.err.contains("red?"), "{}", tenant.err);
    assert!(!dir.run(&["--tenant", "red", "budget", "list"]).exits(0).err.contains("note"));
    let journal = dir.run(&["journal", "list", "--kind", "budgets"]).exits(2);
    assert!(journal.err.contains("did you mean budget?"), "{}", journal.err);
    assert!(dir.run(&["journal", "list", "--kind", "budget.defined"]).exits(0).out.contains("agent:scout"));
    dir.run(&["schedule", "set", "nightly", "--cron", "@daily", "--kind", "k", "--queue", "media"]).exits(0);
    for action in ["show", "run", "pause", "resume", "remove"] {
        let ran = dir.run(&["schedule", action, "nightyl"]).exits(4);
        assert!(ran.err.contains("there is no schedule nightyl; did you mean nightly?"), "{action}: {}", ran.err);
    }
    let ran = dir.run(&["schedule", "set", "nightyl", "--kind", "k"]).exits(2);
    assert!(ran.err.contains("a new one needs --cron; nothing was changed; did you mean nightly?"), "{}", ran.err);
}

#[test]
fn a_word_of_another_tool_gets_the_one_that_is_meant() {
    let dir = Workdir::empty();
    let hold = "hold_00000000000000000000000000";
    for (args, meant) in [
        (&["budget", "create", "x"][..], "'define'"),
        (&["budget", "get", "x"], "'show'"),
        (&["budget", "ls"], "'list'"),
        (&["init"], "'migrate'"),
        (&["start"], "'serve'"),
        (&["enqueue", "media", "x"], "'job enqueue'"),
        (&["commit", hold], "'hold commit'"),
        (&["journal", "list", "-n", "5"], "write --most"),
        (&["job", "list", "--limit", "5"], "write --most"),
        (&["hold", "commit", hold, "--amount", "1"], "write --actual"),
        (&["hold", "commit", hold, "0.42usd"], "write --actual 0.42usd"),
        (&["budget", "define", "a", "5usd:day"], "write --limit 5usd:day"),
    ] {
        let ran = dir.run(args).exits(2);
        assert!(ran.err.contains(meant) && !ran.err.contains("--timeout"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_wrong_argument_says_what_to_write() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "agent:scout", "--limit", "$2:day"]).exits(0);
    assert_eq!(dir.json(&["budget", "show", "agent:scout"])["unit"], "usd", "a quoted $ is a dollar");
    let schedule = ["schedule", "set", "n", "--queue", "q", "--kind", "k"];
    for (args, words) in [
        (&["hold", "place", "agent:scout", "0.50"][..], "agent:scout=0.50usd"),
        (&["hold", "place", "50"], "SCOPE=AMOUNT"),
        // What a shell leaves of $1.50, $0.50 and $5.
        (&["hold", "place", "agent:scout=.50"], "the shell has replaced it: write 25usd, not $25"),
        (&["post", "agent:scout=bash.50"], "the shell has replaced it"),
        (&["budget", "credit", "agent:scout", ""], "the shell has replaced it"),
        (&["budget", "define", "a", "--limit", ":day"], "the shell has replaced it"),
        (&["budget", "define", "a", "--limit", "5:day@Europe/Berln"], "did you mean Europe/Berlin?"),
        (&["budget", "define", "a", "--limit", "5:week@berlin:sunday"], "did you mean Europe/Berlin?"),
        (&[&schedule[..], &["--cron", "@daily", "--zone", "Europe/Berln"]].concat(), "did you mean Europe/Berlin?"),
        (&["job", "lease", "--queue", "q", "--wait", "5m"], "must be at most 1m"),
        (&[&schedule[..], &["--cron", "0", "3", "*", "*", "*"]].concat(), "--cron '0 3 * * *'"),
    ] {
        let ran = dir.run(args).exits(2);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    let missing = dir.run(&["--database", "sqlite://no such/x.db", "migrate"]).exits(1);
    assert!(
        missing.err.contains("the folder no such of") && missing.err.contains("mkdir -p 'no such'"),
        "{}",
        missing.err
    );
    assert_eq!(dir.run(&["--database", "sqlite://no such/x.db", "verify"]).exits(1).err, missing.err);
    assert_eq!(dir.run(&["--database", "sqlite://no such/x.db", "serve"]).exits(1).err, missing.err);
    let file = dir.run(&["--database", "sqlite://new.db", "verify"]).exits(1);
    assert!(file.err.contains("`bursar --database sqlite://new.db migrate`"), "{}", file.err);
}

#[test]
fn a_budget_shows_the_limits_and_freezes_of_its_parents() {
    let dir = Workdir::ready();
    dir.run(&["budget", "define", "org", "--limit", "25usd:month"]).exits(0);
    dir.run(&["budget", "define", "team", "--limit", "5usd:day", "--parent", "org"]).exits(0);
    dir.run(&["budget", "define", "agent", "--limit", "1usd:bucket:0.10usd/h", "--parent", "team"]).exits(0);
    dir.run(&["budget", "freeze", "org", "--reason", "audit"]).exits(0);
    let shown = dir.run(&["budget", "show", "agent"]).exits(0).out;
    assert!(shown.contains("frozen  by its parent org, until unfrozen (audit)"), "{shown}");
    assert!(shown.contains("bucket:1.00usd:0.10usd/h"), "{shown}");
    let (_, parents) = shown.split_once("A charge to agent counts for its parents as well:").unwrap();
    let rows: Vec<&str> = parents.lines().skip(2).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["team", "org"], "{shown}");
    assert!(parents.contains("$5.00") && parents.contains("$25.00"), "{shown}");
    let json = dir.json(&["budget", "show", "agent"]);
    assert_eq!((&json["frozen"], &json["parents"][1]["frozen"]), (&false.into(), &true.into()), "{json}");
    assert!(!dir.run(&["budget", "show", "org"]).exits(0).out.contains("parents"));
}

#[test]
fn hints_name_what_helps_in_that_case() {
    let dir = Workdir::ready();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = dir.run(&["serve", "--listen", &address]).exits(5);
    assert!(ran.err.contains("another program listens there") && ran.err.contains("--listen"), "{}", ran.err);
    let doctor = dir.run_in(&[("BURSAR_LISTEN", &address)], &["doctor", "--component", "port"], "");
    drop(taken);
    assert!(doctor.exits(1).out.contains("another program listens on"));

    let unreachable = "http://127.0.0.1:1";
    let ran = dir.run(&["--server", unreachable, "--timeout", "3s", "budget", "list"]).exits(6);
    assert!(ran.err.contains(unreachable) && ran.err.contains("no program listens at that address"), "{}", ran.err);
    assert!(!ran.err.contains("client error"), "{}", ran.err);
    let doctor = dir.run(&["--server", unreachable, "--timeout", "3s", "doctor"]).exits(6);
    assert!(doctor.out.contains("FAILED") && doctor.out.contains("bursar serve"), "{}", doctor.out);
    let fix = dir.run(&["--server", unreachable, "doctor", "--fix"]).exits(2);
    assert!(fix.err.contains("--database"), "{}", fix.err);
}

/// Answers every request with 404, as a web server does that has other pages.
fn foreign_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                line.clear();
            }
            let body = "<h1>Not Found</h1>";
            let head = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = std::io::Write::write_all(&mut stream, format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn a_server_of_another_kind_is_recognised() {
    let dir = Workdir::empty();
    let url = foreign_server();
    for args in [&["budget", "list"][..], &["budget", "show", "a"]] {
        let ran = dir.run(&[&["--server", url.as_str()], args].concat()).exits(1);
        assert!(ran.err.contains(&format!("{url} does not answer like a Bursar server")), "{}", ran.err);
        assert!(!ran.err.contains("tenant"), "{}", ran.err);
    }
}

#[test]
fn a_missing_or_wrong_token_is_named_as_the_command_line_takes_it() {
    let dir = Workdir::ready();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_bursar"));
    serve.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(dir.0.path()).env_remove("BURSAR_DATABASE");
    serve.env("BURSAR_OPERATOR_TOKEN", "0123456789abcdef0123456789abcdef");
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().trim_start_matches("listening on ").to_owned();
    let run = |args: &[&str]| dir.run(&[&["--server", url.as_str()], args].concat());
    let none = run(&["budget", "list"]).exits(7);
    assert!(none.err.contains("none was given") && none.err.contains("BURSAR_TOKEN"), "{}", none.err);
    assert!(!none.err.contains("Authorization"), "{}", none.err);
    let wrong = run(&["--token", "bad", "budget", "list"]).exits(7);
    assert!(wrong.err.contains("does not accept the token"), "{}", wrong.err);
    let doctor = run(&["--token", "0123456789abcdef0123456789abcdef", "doctor"]).exits(0);
    assert!(doctor.out.contains("server") && doctor.out.contains("accepts the token"), "{}", doctor.out);
    let doctor = run(&["doctor"]).exits(1);
    assert!(doctor.out.contains("--token"), "{}", doctor.out);
    let viewer = dir.json(&["token", "create", "ada", "--role", "viewer"]);
    let viewer = ["--token", text(&viewer["token"])];
    run(&[&viewer[..], &["budget", "list"]].concat()).exits(0);
    let forbidden = run(&[&viewer[..], &["budget", "define", "a", "--limit", "1:day"]].concat()).exits(7);
    assert!(forbidden.err.contains("viewer"), "{}", forbidden.err);
    // A server on the configured address is not a fault.
    let address = url.trim_start_matches("http://");
    let port = dir.run_in(&[("BURSAR_LISTEN", address)], &["doctor", "--component", "port"], "").exits(0);
    assert!(port.out.contains("a Bursar server listens on"), "{}", port.out);
    serve.kill().unwrap();
    serve.wait().unwrap();
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let dir = Workdir::ready();
    for args in [&["completions", "bash"][..], &["openapi"], &["config", "table"], &["--help"], &["top"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
        command.args(args).current_dir(dir.0.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut first = [0; 1];
        out.read_exact(&mut first).unwrap();
        drop(out);
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn workers_and_keys_are_found_by_name() {
    let dir = Workdir::ready();
    let made = dir.json(&["worker", "create", "encoder", "--queue", "media", "--expires-in", "30d"]);
    let shown = dir.json(&["worker", "show", "encoder"]);
    assert_eq!(shown["id"], made["id"]);
    assert_eq!(dir.json(&["worker", "show", text(&made["id"])])["name"], "encoder");
    let missing = dir.run(&["worker", "show", "encoda"]).exits(4);
    assert!(missing.err.contains("did you mean encoder?"), "{}", missing.err);
    let role = dir.run(&["token", "create", "x", "--role", "operator"]).exits(2);
    assert!(role.err.contains("possible values"), "{}", role.err);
    assert!(!dir.run(&["--help"]).exits(0).out.contains("operator tokens"));
    dir.json(&["worker", "rotate", "encoder", "--overlap", "1h"]);
}

#[test]
fn help_shows_values_defaults_and_global_options_last() {
    let dir = Workdir::empty();
    let serve = dir.run(&["serve", "--help"]).exits(0).out;
    let format = serve.lines().position(|line| line.contains("--log-format")).expect("the flag");
    let format = serve.lines().skip(format).take(4).collect::<String>();
    assert!(format.contains("text|json") && format.contains("[default: text]"), "{format}");
    for args in [&["hold", "place", "--help"][..], &["job", "lease", "--help"], &["budget", "define", "--help"]] {
        let help = dir.run(args).exits(0).out;
        let [own, global, example] = ["Options:", "Global options:", "Example"]
            .map(|heading| help.find(&format!("\n{heading}")).expect(heading));
        assert!(own < global && global < example, "{help}");
        assert!(!help.contains("-ms"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
    }
    assert!(dir.run(&["--version"]).exits(0).out.starts_with(&format!("bursar {}", env!("CARGO_PKG_VERSION"))));
}
